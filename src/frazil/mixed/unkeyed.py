"""Writes to a table without a key: Iceberg's own, with files named and watermarks kept as in keyed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.append import MergeAppend
from frazil.iceberg.actions.delete_files import DeleteFiles
from frazil.iceberg.actions.replace_partitions import ReplacePartitions
from frazil.iceberg.actions.snapshot_action import SnapshotAction
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import TableTransaction
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.write import remove_files, removing
from frazil.mixed.transactions import BATCH, batch_name, committed_batch
from frazil.mixed.watermark import MoveWatermark, watermark_of
from frazil.mixed.writer import BaseWriter
from frazil.model.conform import conform
from frazil.model.expressions import Expression
from frazil.model.property_text import property_texts

if TYPE_CHECKING:
    from frazil.mixed.table import MixedTable

_NO_TRANSACTION = 0


class AppendOnce(MergeAppend):
    """Adds files, unless something was committed under the name of their batch before."""

    def __init__(self, transaction: Transaction, batch: str | None) -> None:
        super().__init__(transaction)
        self._batch = batch
        self.found: Snapshot | None = None
        """The commit of the same batch, if there was one."""
        if batch is not None:
            self.set(BATCH, batch)

    def stage(self, context: Context) -> Staged:
        self.found = committed_batch(context.metadata, self._batch)
        return Staged(()) if self.found is not None else super().stage(context)


def append_unkeyed(table: MixedTable, rows: Any, batch: str | None, properties: Mapping[str, str] | None) -> RowChanges:
    """Add rows, unless their batch is in the table already."""
    told, name = property_texts(properties), batch_name(batch)
    known = committed_batch(table.base_store.refresh().metadata, name) if name is not None else None
    if known is not None:
        return RowChanges(snapshot=known)
    files = _write(table, rows)
    with removing(table.store, files), table.base_store.transaction() as tx:
        action = AppendOnce(tx, name).append_files(files)
        for key, text in told.items():
            action.set(key, text)
        action.commit()
        if action.found is None:
            _move(tx, files)
    if action.found is not None:
        remove_files(table.store, files)
        return RowChanges(snapshot=action.found)
    return _done(table, action, files)


def overwrite_partitions_unkeyed(table: MixedTable, rows: Any) -> RowChanges:
    """Replace the partitions that the rows belong to."""
    files = _write(table, rows)
    if not files:
        return RowChanges()
    with removing(table.store, files), table.base_store.transaction() as tx:
        action = ReplacePartitions(tx).add_files(files).commit()
        _move(tx, files)
    return _done(table, action, files)


def overwrite_unkeyed(table: MixedTable, rows: Any, where: Expression) -> RowChanges:
    """Replace the rows that match by others."""
    before = table.base_store.current_snapshot
    snapshot = table.base_store.overwrite(rows, where)
    return RowChanges(snapshot=None if snapshot == before else snapshot)


def drop_partition_unkeyed(table: MixedTable, where: Expression) -> RowChanges:
    """Remove the partitions that a filter means."""
    if table.base_store.current_snapshot is None:
        return RowChanges()
    action = DeleteFiles(table.base_store._transaction()).delete_where(where).commit()
    return _done(table, action, [])


def _write(table: MixedTable, rows: Any) -> list[DataFile]:
    base = table.base_store
    return BaseWriter(base.metadata, base.store, (), _NO_TRANSACTION).write(conform(rows, base.schema))


def _move(tx: TableTransaction, files: list[DataFile]) -> None:
    metadata = tx.metadata
    MoveWatermark(tx, watermark_of(files, metadata.current_schema, metadata.properties)).commit()


def _done(table: MixedTable, action: SnapshotAction, files: list[DataFile]) -> RowChanges:
    snapshot = table.base_store.snapshot(action.snapshot_id)
    return RowChanges(
        rows_inserted=sum(file.record_count for file in files),
        data_files_added=len(files),
        data_files_removed=int(snapshot.summary.get("deleted-data-files", "0")),
        snapshot=snapshot,
    )
