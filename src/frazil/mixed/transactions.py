"""Transactions of a keyed table: begun by an empty commit to the change store, whose sequence number is their id.

So ids are in the order of the store's history, and no service hands them out. A change belongs to the moment its
transaction began at, and is seen from its commit on.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from frazil.errors import CommitConflict, FrazilError, InvalidArgument
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.append import FastAppend
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.scan import ALL_ROWS, Scan
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.transaction import Transaction
from frazil.io.store import Store
from frazil.mixed.pair import BASE_SNAPSHOT, recorded
from frazil.model.binding import field_ids
from frazil.model.expressions import AlwaysTrue, And, Expression, and_
from frazil.model.property_text import text_or_none

SIGNATURE = "tx.begin.signature"
TRANSACTION = "frazil.transaction-id"
"""In the summary of the commit that ends a transaction."""
READS = "frazil.reads-rows"
"""In the same summary, if the changes were worked out from rows of the table (see `frazil.mixed.order`)."""
OVERWRITES = "frazil.overwrites"
"""In the summary of the commit that begins a transaction which will replace rows of the base store."""
ENDED = "frazil.ended-transactions"
"""In the summary of a commit that takes files away: transactions that only names of these files told the end of."""
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
        return cls(sequence_of(base), sequence_of(change))

    def check(self, base: TableMetadata, change: TableMetadata, store: Store) -> None:
        """Refuse if rows came or went since; moving them from one store to the other changes none."""
        for metadata, start in ((change, self.change), (base, self.base)):
            if start < sequence_of(metadata) and not reaches(metadata, start):
                raise CommitConflict(
                    "what happened since the rows were read has expired", hint="read the table again and repeat it"
                )
        for snapshot in (*since(change, self.change), *since(base, self.base)):
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


def sequence_of(metadata: TableMetadata) -> int:
    """The commit that a store is at."""
    return 0 if metadata.current_snapshot is None else metadata.current_snapshot.sequence_number


def since(metadata: TableMetadata, sequence_number: int) -> Iterator[Snapshot]:
    """The snapshots after a commit, the newest first."""
    history = metadata.ancestors_of(metadata.current_snapshot_id)
    return takewhile(lambda one: one.sequence_number > sequence_number, history)


def reaches(metadata: TableMetadata, sequence_number: int) -> bool:
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


def begin_transaction(
    base: IcebergTable, change: IcebergTable, signature: str = "", *, overwrites: bool = False
) -> int:
    """Begin a transaction and return its id."""
    action = BeginTransaction(change._transaction(), base, signature)
    if overwrites:
        action.set(OVERWRITES, "true")
    action.commit()
    return change.snapshot(action.snapshot_id).sequence_number


def abandon_transaction(base: IcebergTable, change: IcebergTable, transaction_id: int) -> None:
    """Say that a transaction will never be committed, so that nobody waits for it."""
    action = BeginTransaction(change._transaction(), base, "abandoned")
    action.set(TRANSACTION, str(transaction_id)).commit()


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
    """The transactions that have begun and whose end no snapshot tells; one that is too old counts as lost.

    Amoro's writers do not tell: names of files do (`ended_by_files`).
    """
    begun = {one.sequence_number for one in begun_since(change, now_ms - timeout_ms)}
    return begun - ended_transactions(base, change)


def begun_since(change: TableMetadata, time_ms: int) -> Iterator[Snapshot]:
    """The snapshots of a change store that began transactions, not before a time."""
    for snapshot in change.ancestors_of(change.current_snapshot_id):
        begins = SIGNATURE in snapshot.summary and TRANSACTION not in snapshot.summary
        if begins and snapshot.timestamp_ms >= time_ms:
            yield snapshot


def ended_by_files(base: TableMetadata, change: TableMetadata, transactions: Iterable[int]) -> str:
    """Of the transactions that files are of, those whose end no snapshot tells: what `ENDED` says of them."""
    untold = open_transactions(base, change, 0, 0)
    return ",".join(map(str, sorted(untold.intersection(transactions))))


def ended_transactions(*stores: TableMetadata) -> set[int]:
    """The transactions that snapshots say have ended."""
    found: set[int] = set()
    for metadata in stores:
        for snapshot in metadata.snapshots:
            number = ended_by(snapshot)
            found.update(() if number is None else (number,))
            found.update(int(text) for text in snapshot.summary.get(ENDED, "").split(",") if text.isdecimal())
    return found


def ended_by(snapshot: Snapshot) -> int | None:
    """The transaction that a snapshot ended, if its summary says one: ours, or an overwrite of Amoro's."""
    told = snapshot.summary.get(TRANSACTION) or snapshot.summary.get("txId")
    return int(told) if told is not None and told.isdecimal() else None


def batch_name(told: Any) -> str | None:
    """The name of a batch, if it has one. A blank one is refused: all batches that have it would be taken for one.

    >>> batch_name(5), batch_name(None)
    ('5', None)
    """
    name = text_or_none("batch_id", told)
    if name is not None and not name.strip():
        raise InvalidArgument(
            f"batch_id is {name!r}, which is no name: later batches of it would be left out",
            hint="give each batch a name of its own, or none: None, or no option batch-id",
        )
    return name


def committed_batch(metadata: TableMetadata, batch: str | None) -> Snapshot | None:
    """The commit of a batch."""
    if batch is None:
        return None
    history = metadata.ancestors_of(metadata.current_snapshot_id)
    return next((one for one in history if one.summary.get(BATCH) == batch), None)
