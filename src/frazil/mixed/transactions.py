"""Transactions of a keyed table: begun by an empty commit to the change store, whose sequence number is their id.

So ids are in the order of the store's history, and no service hands them out. A change belongs to the moment its
transaction began at, and is seen from its commit on.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Self

from frazil.errors import CatalogError, CommitConflict, CommitStateUnknown, FrazilError, StoreError
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.append import FastAppend, MergeAppend
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.scan import ALL_ROWS, Scan
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.transaction import Transaction
from frazil.io.store import Store
from frazil.mixed.optimized import read_optimized
from frazil.mixed.pair import BASE_SNAPSHOT, recorded
from frazil.mixed.visible import PartitionPaths
from frazil.mixed.watermark import MoveWatermark, watermark_of
from frazil.model.binding import field_ids
from frazil.model.expressions import AlwaysTrue, And, Expression, and_

SIGNATURE = "tx.begin.signature"
TRANSACTION = "frazil.transaction-id"
"""In the summary of the commit that ends a transaction."""
BATCH = "frazil.batch-id"
"""In the same summary, if the caller gave one: what was committed under it is not committed again."""
PRODUCER = "snapshot.producer"
OPTIMIZE = "OPTIMIZE"
DATA_EXPIRATION = "DATA_EXPIRATION"
CLEAN_DANGLING = "CLEAN_DANGLING_DELETE"
MAINTENANCE = frozenset({OPTIMIZE, DATA_EXPIRATION, CLEAN_DANGLING})
"""Producers of commits that bring no rows."""


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """Up to which commits of both stores rows were read, and which rows: those of a bound filter on key columns and on
    columns that rows are partitioned by as they are. Of other columns a delete may not tell how its row was.
    """

    base: int
    change: int
    where: Expression = ALL_ROWS

    @classmethod
    def of(cls, base: TableMetadata, change: TableMetadata) -> ReadPoint:
        """The commits that stores are at."""
        return cls(_sequence(base), _sequence(change))

    def check(self, base: TableMetadata, change: TableMetadata, store: Store) -> None:
        """Refuse if rows came or went since; moving them from one store to the other changes none."""
        for metadata, start in ((change, self.change), (base, self.base)):
            if start < _sequence(metadata) and not _reaches(metadata, start):
                raise CommitConflict(
                    "what happened since the rows were read has expired", hint="read the table again and repeat it"
                )
        for snapshot in (*_since(change, self.change), *_since(base, self.base)):
            adds = snapshot.summary.get("added-data-files", "0") != "0"
            overwrites = "txId" in snapshot.summary or snapshot.summary.get("replace-partitions") == "true"
            changes = (adds or overwrites) and snapshot.summary.get(PRODUCER) != OPTIMIZE
            if changes and not self._are_others(change, snapshot, store):
                raise CommitConflict(
                    f"snapshot {snapshot.snapshot_id} changed the table after its rows were read",
                    hint="read the table again and repeat the change",
                )

    def _are_others(self, change: TableMetadata, snapshot: Snapshot, store: Store) -> bool:
        """Whether what a commit of changes added, by its metrics, has none of the rows that were read."""
        if isinstance(self.where, AlwaysTrue) or change.snapshot_or_none(snapshot.snapshot_id) is None:
            return False
        scan = Scan(change, store, snapshot, change.current_schema, self.where, appends=(snapshot,))
        return not len(scan.plan())


def told_by_changes(where: Expression, columns: Container[int]) -> Expression:
    """The part of a bound filter that looks at some columns only: true where the whole of it is."""
    if isinstance(where, And):
        return and_(*(told_by_changes(part, columns) for part in where.operands))
    return where if all(number in columns for number in field_ids(where)) else ALL_ROWS


def _sequence(metadata: TableMetadata) -> int:
    return 0 if metadata.current_snapshot is None else metadata.current_snapshot.sequence_number


def _since(metadata: TableMetadata, sequence_number: int) -> Iterator[Snapshot]:
    history = metadata.ancestors_of(metadata.current_snapshot_id)
    return takewhile(lambda one: one.sequence_number > sequence_number, history)


def _reaches(metadata: TableMetadata, sequence_number: int) -> bool:
    """Whether all snapshots since are there: the history goes back to it, or is whole."""
    last = None
    for last in metadata.ancestors_of(metadata.current_snapshot_id):
        if last.sequence_number <= sequence_number:
            return True
    return last is None or last.parent_snapshot_id is None or sequence_number >= last.sequence_number - 1


class BeginTransaction(FastAppend):
    """An empty commit to the change store."""

    def __init__(self, transaction: Transaction, base: IcebergTable, signature: str) -> None:
        super().__init__(transaction)
        self._base = base
        self.set(SIGNATURE, signature)

    def stage(self, context: Context) -> Staged:
        self.set(BASE_SNAPSHOT, recorded(self._base.newest_state().metadata))
        return super().stage(context)


def begin_transaction(base: IcebergTable, change: IcebergTable, signature: str = "") -> int:
    """Begin a transaction and return its id."""
    action = BeginTransaction(change._transaction(), base, signature).commit()
    return change.snapshot(action.snapshot_id).sequence_number


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

    def _check_not_passed(self, base: TableMetadata) -> None:
        """Refuse if later transactions of a partition were optimized already: this one could not come before them."""
        optimized = read_optimized(base, self._base.store, base.current_snapshot).sequence
        if not optimized:
            return
        paths = PartitionPaths(base)
        passed = next((path for path in map(paths.of, self._added_data) if optimized.get(path, 0) > self._id), None)
        if passed is not None:
            raise CommitConflict(
                f"partition {passed} was optimized up to commit {optimized[passed]} since transaction {self._id} began",
                hint="repeat the change",
            )

    def once(self, batch: str | None) -> Self:
        """Commit only if nothing was committed under this name before."""
        self._batch = batch
        if batch is not None:
            self.set(BATCH, batch)
        return self

    def validate_unchanged_since(self, read: ReadPoint) -> Self:
        """Refuse if others changed rows after that: this change was worked out from rows that were read then."""
        self._rows_of = read
        return self

    def stage(self, context: Context) -> Staged:
        self.found = committed_batch(context.metadata, self._batch)
        if self.found is not None:
            return Staged(())
        base = self._base.newest_state().metadata
        if self._rows_of is not None:
            self._rows_of.check(base, context.metadata, context.store)
        self._check_not_passed(base)
        self.set(BASE_SNAPSHOT, recorded(base))
        return super().stage(context)


def abandon_transaction(base: IcebergTable, change: IcebergTable, transaction_id: int) -> None:
    """Say that a transaction will never be committed, so that nobody waits for it."""
    action = BeginTransaction(change._transaction(), base, "abandoned")
    action.set(TRANSACTION, str(transaction_id)).commit()


@contextmanager
def abandoning(base: IcebergTable, change: IcebergTable, transaction_id: int) -> Iterator[None]:
    """Abandon a transaction whose commit fails, unless it may be in: after a lost answer, or if it is interrupted."""
    try:
        yield
    except (CommitStateUnknown, StoreError, CatalogError):
        raise
    except Exception:
        with suppress(FrazilError):
            abandon_transaction(base, change, transaction_id)
        raise


@contextmanager
def abandoning_unwritten(base: IcebergTable, change: IcebergTable, transaction_id: int) -> Iterator[None]:
    """Abandon a transaction if anything fails, or somebody interrupts it, before its commit is tried."""
    try:
        yield
    except BaseException:
        with suppress(FrazilError):
            abandon_transaction(base, change, transaction_id)
        raise


def open_transactions(base: TableMetadata, change: TableMetadata, now_ms: int, timeout_ms: int) -> set[int]:
    """The transactions that have begun and not ended; one that is too old counts as lost."""
    begun, ended = set(), set()
    for snapshot in (*change.snapshots, *base.snapshots):
        told = snapshot.summary.get(TRANSACTION) or snapshot.summary.get("txId")
        if told is not None and told.isdecimal():
            ended.add(int(told))
    for snapshot in change.ancestors_of(change.current_snapshot_id):
        is_lost = snapshot.timestamp_ms + timeout_ms < now_ms
        if SIGNATURE in snapshot.summary and TRANSACTION not in snapshot.summary and not is_lost:
            begun.add(snapshot.sequence_number)
    return begun - ended


def committed_batch(metadata: TableMetadata, batch: str | None) -> Snapshot | None:
    """The commit of a batch."""
    if batch is None:
        return None
    history = metadata.ancestors_of(metadata.current_snapshot_id)
    return next((one for one in history if one.summary.get(BATCH) == batch), None)


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
    """End a transaction: its snapshot, and whether it is new. With `read` others must not have changed rows since."""
    listed = list(files)
    with change.transaction() as transaction:
        action = AppendChanges(transaction, base, transaction_id).append_files(listed).once(batch)
        if read is not None:
            action.validate_unchanged_since(read)
        for key, text in (properties or {}).items():
            action.set(key, text)
        action.commit()
        watermark = watermark_of(listed, transaction.metadata.current_schema, transaction.metadata.properties)
        MoveWatermark(transaction, watermark).commit()
    if action.found is not None:
        return action.found, False
    return change.snapshot(action.snapshot_id), True
