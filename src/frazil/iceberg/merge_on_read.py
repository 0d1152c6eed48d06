"""Merge-on-read, in-process: rows are marked as deleted, and the files that hold them stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from frazil.counts import total
from frazil.iceberg import properties as props
from frazil.iceberg.actions.row_delta import RowDelta
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.delete_writer import DeleteWriter, WrittenDeletes
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.read import TaskReader
from frazil.iceberg.refs import MAIN
from frazil.iceberg.rewrite import CopyOnWrite, branch_head
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.scan import BATCH_ROWS, Scan
from frazil.iceberg.write import removing
from frazil.io.deletion_vector import DeletionVector
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.model.schema import POS, Schema

if TYPE_CHECKING:
    from frazil.iceberg.table import IcebergTable, TableTransaction


def delete_rows(table: IcebergTable | TableTransaction, where: Expression, branch: str = MAIN) -> RowChanges:
    """Delete matching rows in the way that `write.delete.mode` says; without any there is no snapshot."""
    mode = table.metadata.property_reader.get(props.DELETE_MODE)
    work = MergeOnRead(table, branch) if mode == "merge-on-read" else CopyOnWrite(table, branch)
    return work.delete(where)


class MergeOnRead:
    """One job on one branch of a table."""

    def __init__(self, table: IcebergTable | TableTransaction, branch: str = MAIN) -> None:
        self._table = table
        self._branch = branch
        self._metadata = table.metadata
        self._base = branch_head(self._metadata, branch)

    def delete(self, where: Expression) -> RowChanges:
        """Delete matching rows; without any there is no snapshot."""
        scan = Scan(self._metadata, self._table.store, self._base, self._metadata.current_schema, where)
        whole: list[DataFile] = []
        partly: list[FileScanTask] = []
        counts: list[int | None] = []
        for task in scan.plan().tasks(metrics_tell=True):
            if isinstance(task.residual, AlwaysTrue):
                whole.append(task.file)
                counts.append(self._reader.count_removed(task))
            else:
                partly.append(task)
        written = self._marked(partly)
        whole += written.emptied
        rows = total([*counts, written.deleted_rows])
        if rows == 0:
            return RowChanges()
        action = fill(self._table.new_row_delta(), written, whole)
        with removing(self._table.store, written.added):
            self._isolated(action, where, written.referenced).commit()
        return RowChanges(
            rows_deleted=rows,
            data_files_removed=len(whole),
            delete_files_added=len(written.added),
            delete_files_removed=len(written.removed),
            snapshot=self._table.metadata.snapshot(action.snapshot_id),
        )

    def _marked(self, tasks: Sequence[FileScanTask]) -> WrittenDeletes:
        """Deletes of the rows that match; tables that cannot have such are refused only if there are rows to mark."""
        matching = self._matching(tasks)
        first = next(matching, None)
        if first is None:
            return WrittenDeletes()
        return DeleteWriter(self._metadata, self._table.store).write(chain([first], matching))

    @cached_property
    def _reader(self) -> TaskReader:
        """Reads where matching rows are."""
        store, metadata = self._table.store, self._metadata
        deletes = DeleteReader(store, metadata)
        return TaskReader(store, metadata, Schema((POS,)), metadata.current_schema, deletes, BATCH_ROWS)

    def _matching(self, tasks: Sequence[FileScanTask]) -> Iterator[tuple[FileScanTask, DeletionVector]]:
        """The positions of the rows that match, of each file that has such rows."""
        for task in tasks:
            found = [batch.column(0).to_numpy() for batch in self._reader.read(task)]
            if found:
                yield task, DeletionVector(np.concatenate(found))

    def _isolated(self, action: RowDelta, where: Expression, files: Sequence[str]) -> RowDelta:
        """Refuse what others did to the same rows since they were read, be it a delete, too: an update that another
        writer made of a row that is deleted here must not survive.
        """
        action.to_branch(self._branch)
        action.validate_from(None if self._base is None else self._base.snapshot_id)
        action.conflict_filter(where).validate_deleted_files().validate_no_conflicting_deletes(files)
        isolation = self._metadata.property_reader.get(props.DELETE_ISOLATION_LEVEL)
        return action.validate_no_conflicting_data() if isolation == "serializable" else action


def fill(action: RowDelta, written: WrittenDeletes, whole: Sequence[DataFile]) -> RowDelta:
    """Let an action take over written deletes, and remove whole data files."""
    for file in written.added:
        action.add_deletes(file)
    for file in written.removed:
        action.remove_deletes(file)
    for file in whole:
        action.remove_rows(file)
    return action.validate_data_files_exist(written.referenced)
