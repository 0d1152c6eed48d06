"""Copy-on-write, in-process: rows deleted or replaced by rewriting the files that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.counts import total
from frazil.iceberg import properties as props
from frazil.iceberg.actions.overwrite import OverwriteFiles
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.read import TaskReader
from frazil.iceberg.refs import MAIN
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.scan import BATCH_ROWS, Scan
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.write import RowWriter, abandoning, removing
from frazil.model.arrow_evaluator import filter_mask
from frazil.model.conform import conform
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.model.schema import Schema

if TYPE_CHECKING:
    from frazil.iceberg.table import IcebergTable, TableTransaction


def branch_head(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """What a job on a branch reads: its last snapshot, or the current one if the branch is new."""
    ref = metadata.refs.get(branch)
    return metadata.current_snapshot if ref is None else metadata.snapshot(ref.snapshot_id)


@dataclass(frozen=True, slots=True)
class Removal:
    """What takes the rows that match out of a table."""

    removed: Sequence[DataFile]
    """Files that go."""
    kept: Sequence[DataFile]
    """New files, with the rows of those that stay."""
    is_whole: bool
    """Whether all rows of every file that goes match, by its partition and metrics alone."""
    rows: int | None
    """How many rows match; None if that is unknown, as equality deletes apply to files that go as a whole."""


class CopyOnWrite:
    """One job on one branch of a table."""

    def __init__(self, table: IcebergTable | TableTransaction, branch: str = MAIN) -> None:
        self._table = table
        self._branch = branch
        self._metadata = table.metadata
        self._base = branch_head(self._metadata, branch)

    def delete(self, where: Expression) -> RowChanges:
        """Delete matching rows; without any there is no snapshot."""
        removal = self.without(where)
        if removal.rows == 0:
            return RowChanges()
        return RowChanges(
            rows_deleted=removal.rows,
            data_files_added=len(removal.kept),
            data_files_removed=len(removal.removed),
            snapshot=self._commit(removal, removal.kept, where),
        )

    def overwrite(self, rows: Any, where: Expression) -> Snapshot:
        """Replace matching rows."""
        batches = conform(rows, self._metadata.current_schema)
        new = RowWriter(self._metadata, self._table.store).write(batches)
        with abandoning(self._table.store, new):
            removal = self.without(where)
        if not (new or removal.removed):  # nothing by nothing: a snapshot like that of an append without rows
            action = self._table.new_append().to_branch(self._branch).commit()
            return self._table.metadata.snapshot(action.snapshot_id)
        return self._commit(removal, [*new, *removal.kept], where)

    def without(self, where: Expression) -> Removal:
        """Write anew what stays of files with rows that match; nothing is committed."""
        scan = Scan(self._metadata, self._table.store, self._base, self._metadata.current_schema, where)
        removed: list[DataFile] = []
        reader = self._reader()
        partly: list[FileScanTask] = []
        is_whole = True
        counts: list[int | None] = []
        counting = replace(reader, output=Schema(()))
        for task in scan.plan().tasks(metrics_tell=True):
            if isinstance(task.residual, AlwaysTrue):
                removed.append(task.file)
                counts.append(counting.count_removed(task))
                continue
            is_whole = False
            matching = counting.count(task)
            if matching:
                removed.append(task.file)
                partly.append(task)
                counts.append(matching)
        rows = total(counts)
        if not partly:
            return Removal(removed, (), is_whole, rows)
        # in today's spec: the columns that an older one was made of may be gone
        writer = RowWriter(self._metadata, self._table.store, schema=reader.output)
        return Removal(removed, writer.write(self._left(reader, partly)), is_whole, rows)

    def _reader(self) -> TaskReader:
        schema = self._metadata.current_schema
        output = schema
        if self._metadata.format_version >= 3:
            # rows keep their ids: what is not deleted is moved, not written anew
            output = schema.with_lineage()
        store = self._table.store
        return TaskReader(store, self._metadata, output, schema, DeleteReader(store, self._metadata), BATCH_ROWS)

    def _left(self, reader: TaskReader, tasks: list[FileScanTask]) -> Iterator[pa.RecordBatch]:
        for task in tasks:
            for batch in reader.read(replace(task, residual=AlwaysTrue())):
                left = batch.filter(pa.compute.invert(filter_mask(task.residual, batch)))
                if left.num_rows:
                    yield left

    def fill(
        self, action: OverwriteFiles, removal: Removal, added: Sequence[DataFile], where: Expression, isolation: str
    ) -> OverwriteFiles:
        """Let an action put files in the place of the rows that match, unless others changed those meanwhile."""
        action.to_branch(self._branch).add_files(added)
        for file in removal.removed:
            action.delete_file(file)
        action.validate_from(None if self._base is None else self._base.snapshot_id)
        action.conflict_filter(where).validate_no_conflicting_deletes()
        return action.validate_no_conflicting_data() if isolation == "serializable" else action

    def _commit(self, removal: Removal, added: Sequence[DataFile], where: Expression) -> Snapshot:
        isolation = self._metadata.property_reader.get(props.DELETE_ISOLATION_LEVEL)
        action = self.fill(self._table.new_overwrite(), removal, added, where, isolation)
        with removing(self._table.store, added):
            action.commit()
        return self._table.metadata.snapshot(action.snapshot_id)
