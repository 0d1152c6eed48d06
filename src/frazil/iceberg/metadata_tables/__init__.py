"""Metadata tables: what a table consists of, as Arrow tables with Iceberg's columns.

>>> import frazil
>>> lake = frazil.connect("memory://docs-metadata-tables")
>>> table = lake.create_table("db.t", "id BIGINT, name STRING")
>>> _ = table.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
>>> metadata_table(table, "files").select(["record_count", "file_format"]).to_pylist()
[{'record_count': 2, 'file_format': 'PARQUET'}]
>>> metadata_table_schema(table.metadata, "refs").columns[:3]
['name', 'type', 'snapshot_id']
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import InvalidArgument
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.metadata_tables import files, history, manifests, partitions, position_deletes, schemas
from frazil.iceberg.metadata_tables.source import Source
from frazil.iceberg.scan import choose_snapshot
from frazil.model.schema import Schema

if TYPE_CHECKING:
    from frazil.iceberg.table import IcebergTable

__all__ = ["METADATA_TABLES", "TIME_TRAVEL_TABLES", "Source", "metadata_table", "metadata_table_schema", "read"]


@dataclass(frozen=True)
class _Kind:
    schema: Callable[[TableMetadata], Schema]
    rows: Callable[[Source], pa.Table]
    of_snapshot: bool = False
    """Whether it shows one snapshot, and so can show an earlier one."""


_KINDS = {
    "entries": _Kind(schemas.entries_schema, files.entries, of_snapshot=True),
    "files": _Kind(schemas.files_schema, files.files, of_snapshot=True),
    "data_files": _Kind(schemas.files_schema, files.data_files, of_snapshot=True),
    "delete_files": _Kind(schemas.files_schema, files.delete_files, of_snapshot=True),
    "history": _Kind(schemas.always(schemas.HISTORY), history.history),
    "metadata_log_entries": _Kind(schemas.always(schemas.METADATA_LOG_ENTRIES), history.metadata_log_entries),
    "snapshots": _Kind(schemas.always(schemas.SNAPSHOTS), history.snapshots),
    "refs": _Kind(schemas.always(schemas.REFS), history.refs),
    "manifests": _Kind(schemas.always(schemas.MANIFESTS), manifests.manifests, of_snapshot=True),
    "partitions": _Kind(schemas.partitions_schema, partitions.partitions, of_snapshot=True),
    "all_data_files": _Kind(schemas.files_schema, files.all_data_files),
    "all_delete_files": _Kind(schemas.files_schema, files.all_delete_files),
    "all_files": _Kind(schemas.files_schema, files.all_files),
    "all_manifests": _Kind(schemas.always(schemas.ALL_MANIFESTS), manifests.all_manifests),
    "all_entries": _Kind(schemas.entries_schema, files.all_entries),
    "position_deletes": _Kind(schemas.position_deletes_schema, position_deletes.position_deletes, of_snapshot=True),
}

METADATA_TABLES: tuple[str, ...] = tuple(_KINDS)
"""The names of all metadata tables."""

TIME_TRAVEL_TABLES = frozenset(name for name, kind in _KINDS.items() if kind.of_snapshot)
"""Those that can be read as of another snapshot; the others tell of all snapshots."""


def metadata_table_schema(metadata: TableMetadata, name: str) -> Schema:
    """The columns of a metadata table; nothing is read for that."""
    return _kind(name).schema(metadata)


def metadata_table(
    table: IcebergTable,
    name: str,
    *,
    version: int | None = None,
    ref: str | None = None,
    as_of: int | str | datetime | None = None,
) -> pa.Table:
    """A metadata table by name, of the current snapshot or of one named by id, by branch or tag, or by time."""
    kind = _kind(name)
    if not kind.of_snapshot and any(given is not None for given in (version, ref, as_of)):
        raise InvalidArgument(
            f"{name} is about all snapshots, not about one",
            hint=f"leave out version, ref and as_of; they are for {', '.join(sorted(TIME_TRAVEL_TABLES))}",
        )
    snapshot, _ = choose_snapshot(table.metadata, version, ref, as_of)
    return kind.rows(Source(table.metadata, table.store, table.metadata_location, snapshot))


def read(source: Source, name: str) -> pa.Table:
    """A metadata table from metadata and a store, for those who have no table object."""
    return _kind(name).rows(source)


def _kind(name: str) -> _Kind:
    found = _KINDS.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), METADATA_TABLES, n=1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidArgument(f"no metadata table {name!r}", hint=f"{meant}there are {', '.join(METADATA_TABLES)}")
    return found
