"""Commits of changes: the files of a transaction become part of the change store, in their order and once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Self

from frazil.errors import FrazilError
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.append import MergeAppend
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.properties import COMMIT_NUM_RETRIES
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.write import remove_files
from frazil.mixed.closing import settle_overwrites
from frazil.mixed.looked_at import told
from frazil.mixed.order import check_order
from frazil.mixed.pair import BASE_SNAPSHOT, recorded
from frazil.mixed.renewal import Renewal
from frazil.mixed.transactions import (
    BATCH,
    READS,
    TRANSACTION,
    ReadPoint,
    abandon_transaction,
    begin_transaction,
    committed_batch,
)
from frazil.mixed.watermark import MoveWatermark, watermark_of


class AppendChanges(MergeAppend):
    """Commits the files of a transaction."""

    def __init__(self, transaction: Transaction, base: IcebergTable, transaction_id: int) -> None:
        super().__init__(transaction)
        self._base = base
        self._id = transaction_id
        self._batch: str | None = None
        self._rows_of: ReadPoint | None = None
        self.set(TRANSACTION, str(transaction_id))
        self.found: Snapshot | None = None
        """The commit of the same batch, if there was one before."""

    def once(self, batch: str | None) -> Self:
        """Commit only if nothing was committed under this name before."""
        self._batch = batch
        if batch is not None:
            self.set(BATCH, batch)
        return self

    def validate_unchanged_since(self, read: ReadPoint) -> Self:
        """Refuse if others changed rows after that: this change was worked out from rows that were read then."""
        self._rows_of = read
        self.set(READS, told(read.where))
        return self

    def stage(self, context: Context) -> Staged:
        self.found = committed_batch(context.metadata, self._batch)
        if self.found is not None:
            return Staged(())
        if self._rows_of is None:
            base = self._base.newest_state().metadata
        else:
            base = settle_overwrites(self._base, context.metadata)
            self._rows_of.check(base, context.metadata, context.store)
        check_order(base, context.metadata, context.store, self._id, self._added_data)
        self.set(BASE_SNAPSHOT, recorded(base))
        return super().stage(context)


def commit_changes(
    base: IcebergTable,
    change: IcebergTable,
    files: Iterable[DataFile],
    transaction_id: int,
    *,
    batch: str | None = None,
    read: ReadPoint | None = None,
    properties: Mapping[str, str] | None = None,
) -> tuple[Snapshot, bool]:
    """End a transaction: its snapshot, and whether it is new. If it is definitely refused, its files are removed.

    With `read` others must not have changed rows since. Without, the changes are blind: if they come too late for their
    id, they get another one (see `frazil.mixed.order`).
    """

    def abandon(number: int) -> None:
        abandon_transaction(base, change, number)

    def attempt(number: int, these: list[DataFile]) -> tuple[Snapshot, bool]:
        with change.transaction() as transaction:
            action = AppendChanges(transaction, base, number).append_files(these).once(batch)
            if read is not None:
                action.validate_unchanged_since(read)
            for key, text in (properties or {}).items():
                action.set(key, text)
            action.commit()
            watermark = watermark_of(these, transaction.metadata.current_schema, transaction.metadata.properties)
            MoveWatermark(transaction, watermark).commit()
        if action.found is None:
            return change.snapshot(action.snapshot_id), True
        remove_files(change.store, these)
        with suppress(FrazilError):
            abandon(number)
        return action.found, False

    most = change.metadata.property_reader.get(COMMIT_NUM_RETRIES) if read is None else 0
    renewal = Renewal(change.store, lambda: begin_transaction(base, change, batch or ""), abandon, most)
    return renewal.committed(transaction_id, list(files), attempt)
