"""Copy-on-write, in-process: rows deleted or replaced by rewriting the files that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.iceberg import properties as props
from frazil.iceberg.actions.overwrite import OverwriteFiles
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.read import TaskReader
from frazil.iceberg.refs import MAIN
from frazil.iceberg.scan import BATCH_ROWS, Scan
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.write import RowWriter, removing
from frazil.model.arrow_evaluator import filter_mask
from frazil.model.conform import conform
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.model.schema import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID, Schema

if TYPE_CHECKING:
    from frazil.iceberg.table import IcebergTable, TableTransaction


class CopyOnWrite:
    """One job on one branch of a table."""

    def __init__(self, table: IcebergTable | TableTransaction, branch: str = MAIN) -> None:
        self._table = table
        self._branch = branch
        self._metadata = table.metadata
        ref = self._metadata.refs.get(branch)
        self._base = self._metadata.current_snapshot if ref is None else self._metadata.snapshot(ref.snapshot_id)

    def delete(self, where: Expression) -> Snapshot | None:
        """Delete matching rows; None if there are none."""
        removed, kept = self._without(where)
        if not removed:
            return None
        return self._commit(removed, kept, where)

    def overwrite(self, rows: Any, where: Expression) -> Snapshot:
        """Replace matching rows."""
        batches = conform(rows, self._metadata.current_schema)
        new = RowWriter(self._metadata, self._table.store).write(batches)
        with removing(self._table.store, new):
            removed, kept = self._without(where)
        if not (new or removed):  # nothing by nothing: a snapshot like that of an append without rows
            action = self._table.new_append().to_branch(self._branch).commit()
            return self._table.metadata.snapshot(action.snapshot_id)
        return self._commit(removed, [*new, *kept], where)

    def _without(self, where: Expression) -> tuple[list[DataFile], list[DataFile]]:
        """Files that go, and files that hold what is left of them."""
        scan = Scan(self._metadata, self._table.store, self._base, self._metadata.current_schema, where)
        removed: list[DataFile] = []
        reader = self._reader()
        partly: list[FileScanTask] = []
        for task in scan.plan().tasks():
            if isinstance(task.residual, AlwaysTrue):
                removed.append(task.file)
            elif self._any_match(reader, task):
                removed.append(task.file)
                partly.append(task)
        if not partly:
            return removed, []
        # in today's spec: the columns that an older one was made of may be gone
        writer = RowWriter(self._metadata, self._table.store, schema=reader.output)
        return removed, writer.write(self._left(reader, partly))

    def _reader(self) -> TaskReader:
        schema = self._metadata.current_schema
        output = schema
        if self._metadata.format_version >= 3:
            # rows keep their ids: what is not deleted is moved, not written anew
            output = Schema((*schema.fields, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER), schema.schema_id)
        store = self._table.store
        return TaskReader(store, self._metadata, output, schema, DeleteReader(store, self._metadata), BATCH_ROWS)

    def _any_match(self, reader: TaskReader, task: FileScanTask) -> bool:
        counting = replace(reader, output=Schema(()))
        return any(batch.num_rows for batch in counting.read(task))

    def _left(self, reader: TaskReader, tasks: list[FileScanTask]) -> Iterator[pa.RecordBatch]:
        for task in tasks:
            for batch in reader.read(replace(task, residual=AlwaysTrue())):
                left = batch.filter(pa.compute.invert(filter_mask(task.residual, batch)))
                if left.num_rows:
                    yield left

    def _commit(self, removed: list[DataFile], added: list[DataFile], where: Expression) -> Snapshot:
        isolation = self._metadata.property_reader.get(props.DELETE_ISOLATION_LEVEL)
        action: OverwriteFiles = self._table.new_overwrite().to_branch(self._branch).add_files(added)
        for file in removed:
            action.delete_file(file)
        action.validate_from(None if self._base is None else self._base.snapshot_id)
        action.conflict_filter(where).validate_no_conflicting_deletes()
        if isolation == "serializable":
            action.validate_no_conflicting_data()
        with removing(self._table.store, added):
            action.commit()
        return self._table.metadata.snapshot(action.snapshot_id)
