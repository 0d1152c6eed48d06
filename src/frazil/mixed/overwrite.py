"""Overwrites of whole partitions: new base files in the place of old ones, and older changes hidden.

The partitions that are overwritten get the overwriting transaction as their optimized sequence: what was committed to
the change store before it is hidden, what comes after counts on top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil import ambient
from frazil.errors import InvalidArgument
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.overwrite import OverwriteFiles
from frazil.iceberg.actions.replace_partitions import ReplacePartitions
from frazil.iceberg.data_file import DataFile, partition_key
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.table import IcebergTable, TableTransaction
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.write import removing
from frazil.mixed.evolution import sync_schema
from frazil.mixed.keys import key_fields
from frazil.mixed.optimized import SEQUENCE, TIME, MoveOptimized, flag
from frazil.mixed.pair import CHANGE_SNAPSHOT, recorded
from frazil.mixed.transactions import (
    TRANSACTION,
    abandon_transaction,
    abandoning,
    abandoning_unwritten,
    begin_transaction,
)
from frazil.mixed.visible import PartitionPaths
from frazil.mixed.watermark import MoveWatermark, watermark_of
from frazil.mixed.writer import BaseWriter, refuse_null_keys
from frazil.model.arrow import array_from_canonical
from frazil.model.conform import conform
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, Expression
from frazil.model.residuals import residuals

if TYPE_CHECKING:
    from frazil.mixed.table import MixedTable


class _OverwriteFiles(OverwriteFiles):
    """An overwrite that says which snapshot the change store was at."""

    def __init__(self, transaction: Transaction, change: IcebergTable) -> None:
        super().__init__(transaction)
        self._change = change

    def stage(self, context: Context) -> Staged:
        self.set(CHANGE_SNAPSHOT, recorded(self._change.newest_state().metadata))
        return super().stage(context)


class _ReplacePartitions(ReplacePartitions):
    """A replacement that says which snapshot the change store was at."""

    def __init__(self, transaction: Transaction, change: IcebergTable) -> None:
        super().__init__(transaction)
        self._change = change

    def stage(self, context: Context) -> Staged:
        self.set(CHANGE_SNAPSHOT, recorded(self._change.newest_state().metadata))
        return super().stage(context)


class Overwrite:
    """One overwrite of partitions of a keyed table."""

    def __init__(self, table: MixedTable) -> None:
        self._table = table
        self._base, self._change = table.base_store, table._change_store
        table.refresh()
        sync_schema(self._base, self._change)
        self._paths = PartitionPaths(self._base.metadata)
        self._keys = key_fields(self._base.schema, table.primary_key)

    def matching(self, where: Expression) -> dict[tuple[Any, ...], str] | None:
        """The partitions whose rows all match, by their paths; None if some partition has rows of both kinds."""
        files = [*self._files(self._base), *self._files(self._change)]
        found = {partition_key(file.partition): file for file in files}
        values = [[file.partition[place] for file in found.values()] for place in range(len(self._paths.types))]
        columns = [array_from_canonical(*pair) for pair in zip(self._paths.types, values, strict=True)]
        which, filters = residuals(self._base.schema, self._paths.spec, where, columns, len(found))
        if not all(isinstance(filters[number], AlwaysTrue | AlwaysFalse) for number in which):
            return None
        return {
            key: self._paths.of(file)
            for number, (key, file) in zip(which, found.items(), strict=True)
            if isinstance(filters[number], AlwaysTrue)
        }

    def _files(self, store: IcebergTable) -> Iterable[DataFile]:
        return (task.file for task in store.scan().plan().tasks())

    def by_filter(self, rows: Any, where: Expression, partitions: Mapping[tuple[Any, ...], str]) -> RowChanges:
        """Replace these partitions, which the filter means, by rows; `rows` may be None."""
        if rows is None and not partitions:
            return RowChanges()
        batches = [] if rows is None else self._checked(rows)
        transaction = self.begin("truncate" if rows is None else "overwrite")
        return self.replace_matching(transaction, self._write(batches, transaction), where, partitions)

    def dynamic(self, rows: Any) -> RowChanges:
        """Replace the partitions that the rows belong to."""
        batches = self._checked(rows)
        transaction = self.begin("overwrite")
        return self.replace_partitions(transaction, self._write(batches, transaction))

    # In steps, for whoever writes the files elsewhere.

    def begin(self, signature: str = "overwrite") -> int:
        """Begin the transaction that files of the base store are named by."""
        return begin_transaction(self._base, self._change, signature)

    def replace_matching(
        self,
        transaction: int,
        files: list[DataFile],
        where: Expression,
        partitions: Mapping[tuple[Any, ...], str],
        properties: Mapping[str, str] | None = None,
    ) -> RowChanges:
        """Put files in the place of these partitions, which the filter means."""

        def overwrite(tx: TableTransaction) -> OverwriteFiles:
            action = _OverwriteFiles(tx, self._change).add_files(files).overwrite_where(where)
            return action.set("txId", str(transaction))

        # other partitions that rows come to keep their changes
        values = {SEQUENCE: transaction, TIME: ambient.now_ms()}
        return self._commit(overwrite, files, values, partitions.values(), properties)

    def replace_partitions(
        self, transaction: int, files: list[DataFile], properties: Mapping[str, str] | None = None
    ) -> RowChanges:
        """Put files in the place of the partitions that they belong to."""
        if not files:
            self.abandon(transaction)
            return RowChanges()

        def overwrite(tx: TableTransaction) -> ReplacePartitions:
            return _ReplacePartitions(tx, self._change).add_files(files)

        moved = {self._paths.of(file) for file in files}
        return self._commit(overwrite, files, {SEQUENCE: transaction}, moved, properties)

    def abandon(self, transaction: int) -> None:
        """Say that nothing comes of a transaction."""
        abandon_transaction(self._base, self._change, transaction)

    def _write(self, batches: Iterable[pa.RecordBatch], transaction: int) -> list[DataFile]:
        writer = BaseWriter(self._base.metadata, self._base.store, self._keys, transaction)
        with abandoning_unwritten(self._base, self._change, transaction):
            return writer.write(batches)

    def _checked(self, rows: Any) -> list[pa.RecordBatch]:
        batches = list(conform(rows, self._base.schema))
        for batch in batches:
            refuse_null_keys(batch, self._base.schema, self._keys)
        return batches

    def _commit(
        self,
        overwrite: Callable[[TableTransaction], OverwriteFiles | ReplacePartitions],
        files: list[DataFile],
        values: Mapping[str, int],
        moved: Iterable[str],
        properties: Mapping[str, str] | None,
    ) -> RowChanges:
        base = self._base
        maps = {kind: dict.fromkeys(sorted(moved), value) for kind, value in values.items()}
        giving_up = abandoning(base, self._change, values[SEQUENCE])
        with giving_up, removing(base.store, files), base.transaction() as tx:
            action = overwrite(tx)
            for key, text in (properties or {}).items():
                action.set(key, text)
            action.set(TRANSACTION, str(values[SEQUENCE]))
            for kind in maps:
                action.set(flag(kind), "true")
            action.commit()
            MoveOptimized(tx, maps).commit()
            MoveWatermark(tx, watermark_of(files, base.schema, base.properties)).commit()
        self._table.refresh()
        snapshot = base.snapshot(action.snapshot_id)
        return RowChanges(
            rows_inserted=sum(file.record_count for file in files),
            data_files_added=len(files),
            data_files_removed=int(snapshot.summary.get("deleted-data-files", "0")),
            snapshot=snapshot,
        )


def refuse_parts(where: Expression) -> InvalidArgument:
    """The error for a filter that does not mean whole partitions."""
    return InvalidArgument(f"({where}) does not mean whole partitions", hint="use delete(where) to delete single rows")
