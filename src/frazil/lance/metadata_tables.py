"""What is known about a Lance table, as tables: `snapshots`, `fragments`, `files`, `refs`, `indices`, `properties`."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import InvalidArgument
from frazil.lance.indices import covered
from frazil.lance.refs import Tag
from frazil.lance.scan import fragment_tasks
from frazil.lance.version import LanceVersion

if TYPE_CHECKING:
    from frazil.lance.table import LanceTable

_TIME = pa.timestamp("ms", "UTC")

OF_ALL_VERSIONS = frozenset({"snapshots", "refs"})
"""Those that are the same whatever version is asked for."""


def metadata_table(table: LanceTable, name: str, version: LanceVersion) -> pa.Table:
    """One of the tables, as a version has it."""
    known = _TABLES.get(name)
    if known is None:
        raise InvalidArgument(f"there is no metadata table {name!r}", hint=f"there are {', '.join(sorted(_TABLES))}")
    schema, rows = known
    return pa.Table.from_pylist(rows(table, version), pa.schema(schema))


def metadata_schema(name: str) -> pa.Schema | None:
    """The columns of one of the tables; None if there is none of that name."""
    known = _TABLES.get(name)
    return None if known is None else pa.schema(known[0])


def _snapshots(table: LanceTable, _: LanceVersion) -> list[dict[str, Any]]:
    return [
        {
            "committed_at": version.timestamp_ms,
            "version": version.version,
            "operation": version.operation,
            "manifest": version.location,
            "summary": sorted(_summary(version).items()),
        }
        for version in table.snapshots
    ]


def _summary(version: LanceVersion) -> dict[str, str]:
    fragments = version.manifest.fragments
    deleted = sum(int(one.deletion_file.num_deleted_rows) for one in fragments)
    told = {
        "total-fragments": len(fragments),
        "total-data-files": sum(len(one.files) for one in fragments),
        "total-records": sum(int(one.physical_rows) for one in fragments) - deleted,
        "total-deleted-rows": deleted,
    }
    properties = version.file.transaction.transaction_properties if version.file.transaction is not None else {}
    return {**{key: str(value) for key, value in told.items()}, **dict(properties)}


def _fragments(_: LanceTable, version: LanceVersion) -> list[dict[str, Any]]:
    return [
        {
            "fragment_id": task.fragment_id,
            "record_count": task.rows,
            "physical_rows": task.physical_rows,
            "deleted_rows": task.physical_rows - task.rows,
            "deletion_file": None if task.deletions is None else task.deletions.location,
            "data_files": len(task.files),
        }
        for task in fragment_tasks(version, lineage=False)
    ]


def _files(_: LanceTable, version: LanceVersion) -> list[dict[str, Any]]:
    return [
        {
            "fragment_id": task.fragment_id,
            "file_path": ref.location,
            "file_version": f"{ref.version[0]}.{ref.version[1]}",
            "file_size_in_bytes": ref.size,
            "record_count": task.physical_rows,
            "field_ids": list(ref.fields),
        }
        for task in fragment_tasks(version, lineage=False)
        for ref in task.files
    ]


def _refs(table: LanceTable, _: LanceVersion) -> list[dict[str, Any]]:
    found = []
    for name, ref in table.refs.items():
        is_tag = isinstance(ref, Tag)
        version = ref.version if isinstance(ref, Tag) else table.at(ref=name).version
        branch = ref.branch if isinstance(ref, Tag) else ref.parent_branch
        found.append({"name": name, "type": "TAG" if is_tag else "BRANCH", "version": version, "branch": branch})
    return found


def _indices(_: LanceTable, version: LanceVersion) -> list[dict[str, Any]]:
    return [
        {
            "name": index.name,
            "uuid": str(uuid.UUID(bytes=index.uuid.uuid)) if len(index.uuid.uuid) == 16 else None,
            "columns": [version.schema.name_of(field) or str(field) for field in index.fields],
            "type": index.index_details.type_url.rpartition(".")[2].removesuffix("IndexDetails"),
            "version": index.dataset_version,
            "fragments": sorted(covered(index) or ()),
        }
        for index in version.indices
    ]


def _properties(_: LanceTable, version: LanceVersion) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in sorted(version.manifest.config.items())]


_Rows = Callable[["LanceTable", LanceVersion], list[dict[str, Any]]]
_TABLES: dict[str, tuple[dict[str, pa.DataType], _Rows]] = {
    "snapshots": (
        {
            "committed_at": _TIME,
            "version": pa.int64(),
            "operation": pa.string(),
            "manifest": pa.string(),
            "summary": pa.map_(pa.string(), pa.string()),
        },
        _snapshots,
    ),
    "fragments": (
        {
            "fragment_id": pa.int64(),
            "record_count": pa.int64(),
            "physical_rows": pa.int64(),
            "deleted_rows": pa.int64(),
            "deletion_file": pa.string(),
            "data_files": pa.int32(),
        },
        _fragments,
    ),
    "files": (
        {
            "fragment_id": pa.int64(),
            "file_path": pa.string(),
            "file_version": pa.string(),
            "file_size_in_bytes": pa.int64(),
            "record_count": pa.int64(),
            "field_ids": pa.list_(pa.int32()),
        },
        _files,
    ),
    "refs": (
        {"name": pa.string(), "type": pa.string(), "version": pa.int64(), "branch": pa.string()},
        _refs,
    ),
    "indices": (
        {
            "name": pa.string(),
            "uuid": pa.string(),
            "columns": pa.list_(pa.string()),
            "type": pa.string(),
            "version": pa.int64(),
            "fragments": pa.list_(pa.int64()),
        },
        _indices,
    ),
    "properties": ({"key": pa.string(), "value": pa.string()}, _properties),
}
