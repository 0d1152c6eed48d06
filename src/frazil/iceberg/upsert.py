"""Upserts without reading the table: equality deletes for the keys, then the rows. For streams, and small jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidArgument, InvalidValue, Unsupported
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.equality_writer import EqualityDeleteWriter
from frazil.iceberg.manifest_list import live_spec_ids, read_manifest_list
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.refs import MAIN
from frazil.iceberg.rewrite import branch_head
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.scan_columns import leaf
from frazil.iceberg.write import RowWriter, abandoning, removing
from frazil.io.store import Store
from frazil.model.conform import conform, opened
from frazil.model.partition import PartitionField, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.transforms import VoidTransform

if TYPE_CHECKING:
    from frazil.iceberg.actions.row_delta import RowDelta
    from frazil.iceberg.table import IcebergTable


class KeyWriter:
    """Writes the keys of one upsert, once for each spec in `writers`: together they reach all files of the branch."""

    def __init__(self, store: Store, writers: Sequence[EqualityDeleteWriter]) -> None:
        self._store = store
        self.writers = tuple(writers)
        self.equality_ids = writers[0].equality_ids
        self.schema = writers[0].schema
        """The columns of the keys: partitions are made of no others."""

    def write(self, batches: Sequence[pa.RecordBatch]) -> list[DataFile]:
        """Write all keys; if anything fails, no file is left behind."""
        files: list[DataFile] = []
        with abandoning(self._store, files):
            for writer in self.writers:
                files += writer.write(batches)
        return files


def key_writer(metadata: TableMetadata, store: Store, keys: Sequence[str] | None, branch: str = MAIN) -> KeyWriter:
    """The writer of the keys that rows are told apart by: named, or the table's identifier fields."""
    if metadata.format_version < 2:
        raise Unsupported("tables of format version 1 have no equality deletes", hint="upgrade the table, or use merge")
    if isinstance(keys, str):
        raise InvalidArgument(f"keys is {keys!r}, not a list", hint=f"give [{keys!r}]")
    schema = metadata.current_schema
    ids = list(schema.identifier_field_ids) if keys is None else [schema.find(name).id for name in keys]
    if len(set(ids)) < len(ids):
        raise InvalidArgument(f"a column is named twice in keys: {', '.join(keys or ())}", hint="name each once")
    if not ids:
        raise InvalidArgument("no key columns", hint="name them, or set the table's identifier fields")
    specs = _specs_reaching_all(metadata, store, ids, branch)
    return KeyWriter(store, [EqualityDeleteWriter(metadata, store, sorted(ids), spec=spec) for spec in specs])


def _specs_reaching_all(metadata: TableMetadata, store: Store, ids: Sequence[int], branch: str) -> list[PartitionSpec]:
    """The specs whose equality deletes hit all files of a branch, and those that others add meanwhile.

    Under an unpartitioned one they hit files of all specs, else of their own only.
    """
    head = branch_head(metadata, branch)
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}
    live = set() if head is None else live_spec_ids(read_manifest_list(store, head, specs))
    needed = [*map(metadata.spec, sorted(live - {metadata.default_spec_id})), metadata.default_spec]
    for spec in needed:
        if spec.is_unpartitioned:
            return [spec]
    apart = [(spec, part) for spec in needed for part in spec.fields if not _is_known(part, ids)]
    if not apart:
        return needed
    for spec in metadata.partition_specs:
        if spec.is_unpartitioned:  # there are no files of it, but its deletes reach those of the others
            return [spec]
    spec, part = apart[-1]  # of the current spec, if it is one of these: rewriting files would not help
    column = metadata.current_schema.name_of(part.source_id) or part.name
    if spec.spec_id == metadata.default_spec_id:
        raise Unsupported(
            f"the table is partitioned by {column!r}, which is no key: a row with the same key may be in another "
            "partition",
            hint="make it a key, or use merge",
        )
    raise Unsupported(
        f"the table has files from when it was partitioned by {column!r}, which is no key: a row with the same key may "
        "be in any of their partitions",
        hint="rewrite them by rewrite_data_files with the option rewrite-all, make it a key, or use merge",
    )


def _is_known(part: PartitionField, ids: Sequence[int]) -> bool:
    """Whether the key of a row tells its value in a partition."""
    return isinstance(part.transform, VoidTransform) or set(part.source_ids) <= set(ids)


def upsert(
    table: IcebergTable, rows: Any, keys: Sequence[str] | None, branch: str, properties: Mapping[str, str]
) -> RowChanges:
    """Upsert rows of this process."""
    writer = key_writer(table.metadata, table.store, keys, branch)
    batches = list(conform(_with_columns(rows, writer.schema.columns), table.schema))
    if not batches:
        return RowChanges()
    _check_keys(batches, table.schema, writer.equality_ids)
    files = RowWriter(table.metadata, table.store).write(batches)
    with abandoning(table.store, files):
        deletes = writer.write(batches) if has_rows(table, branch) else []
    with removing(table.store, [*files, *deletes]):
        return commit_upsert(table, files, deletes, branch, partial(_tell, properties))


def _tell(properties: Mapping[str, str], action: RowDelta) -> None:
    for key, text in properties.items():
        action.set(key, text)


def _with_columns(rows: Any, names: Sequence[str]) -> Any:
    """The rows, every one of which has columns of these names."""
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        for row in rows:
            check_given(row, names)
        return rows
    return _checked(opened(rows)[1], names)


def _checked(batches: Iterable[Any], names: Sequence[str]) -> Iterator[Any]:
    for batch in batches:
        if isinstance(batch, pa.RecordBatch):
            check_given(batch.schema.names, names)
        yield batch


def check_given(columns: Iterable[str], keys: Sequence[str]) -> None:
    """Refuse rows without a key column: they would take the place of those whose key is null."""
    given = list(columns)
    for name in keys:
        if name not in given:
            raise InvalidArgument(f"the rows have no column {name!r}, which is a key", hint="give every row its key")


def _check_keys(batches: Sequence[pa.RecordBatch], schema: Schema, ids: Sequence[int]) -> None:
    """Refuse two rows of one key."""
    keys = [pa.chunked_array([leaf(batch, schema, number) for batch in batches]) for number in ids]
    places = list(map(str, range(len(ids))))
    numbered = pa.table([*keys, pa.array(np.arange(len(keys[0])))], names=[*places, "row"])
    counted = numbered.group_by(places).aggregate([("row", "count"), ("row", "min")])
    if len(counted) == len(numbered):
        return
    first = counted.filter(pc.greater(counted["row_count"], 1))["row_min"][0].as_py()
    row = pa.Table.from_batches(batches).slice(first, 1).to_pylist()[0]
    raise several_rows({schema.name_of(number) or "": _value(row, schema, number) for number in ids})


def _value(row: Any, schema: Schema, number: int) -> Any:
    for step in schema.path_ids(number):
        found = schema.field_by_id(step)
        row = None if row is None or found is None else row[found.name]
    return row


def has_rows(table: IcebergTable, branch: str) -> bool:
    """Whether there may be rows to delete."""
    return branch_head(table.metadata, branch) is not None


def several_rows(key: Mapping[str, Any]) -> InvalidValue:
    """The error for two rows of one key."""
    shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
    return InvalidValue(f"several rows have the key {shown}", hint="give one row for each key")


def commit_upsert(
    table: IcebergTable,
    files: Sequence[DataFile],
    deletes: Sequence[DataFile],
    branch: str,
    tell: Callable[[RowDelta], object],
) -> RowChanges:
    """The rows and the deletes, in one commit, of which `tell` says more.

    It depends on nothing that was read, but for that there was nothing.
    """
    action = table.new_row_delta().to_branch(branch)
    if not has_rows(table, branch):
        action.validate_from(None).validate_no_conflicting_data()
    if any(not table.metadata.spec(file.spec_id).is_unpartitioned for file in deletes):
        action.validate_partitioning(table.metadata.partition_specs)
    for file in files:
        action.add_rows(file)
    for file in deletes:
        action.add_deletes(file)
    tell(action)
    action.commit()
    return RowChanges(
        rows_inserted=sum(file.record_count for file in files),
        data_files_added=len(files),
        delete_files_added=len(deletes),
        snapshot=table.snapshot(action.snapshot_id),
    )
