"""Writes to a table without a key: Iceberg's own, with files named and watermarks kept as in keyed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from frazil.iceberg.actions.append import MergeAppend
from frazil.iceberg.actions.delete_files import DeleteFiles
from frazil.iceberg.actions.replace_partitions import ReplacePartitions
from frazil.iceberg.actions.snapshot_action import SnapshotAction
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.table import TableTransaction
from frazil.iceberg.write import removing
from frazil.mixed.watermark import MoveWatermark, watermark_of
from frazil.mixed.writer import BaseWriter
from frazil.model.conform import conform
from frazil.model.expressions import Expression
from frazil.model.property_text import property_texts

if TYPE_CHECKING:
    from frazil.mixed.table import MixedTable

_NO_TRANSACTION = 0


def append_unkeyed(table: MixedTable, rows: Any, properties: Mapping[str, str] | None) -> RowChanges:
    """Add rows."""
    told = property_texts(properties)
    files = _write(table, rows)
    with removing(table.store, files), table.base_store.transaction() as tx:
        action = MergeAppend(tx).append_files(files)
        for key, text in told.items():
            action.set(key, text)
        action.commit()
        _move(tx, files)
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
