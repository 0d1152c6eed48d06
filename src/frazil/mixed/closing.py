"""The end of an overwrite: it is committed to the base store, and must be in order with changes, which are elsewhere.

Nobody can look at one store and write to the other in one step. So an overwrite first *closes*: an empty commit to the
change store, which is refused if changes are there that are not in order with it. Who reads rows and commits changes
after that sees it, and finds the overwrite in the base store; or, if it is not there, *bars* it by an empty commit
there, which it will find in its turn. So of both one comes first, and a job that dies while it closes is in nobody's
way.
"""

from __future__ import annotations

from collections.abc import Iterator

from frazil.errors import CommitConflict
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.append import FastAppend
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.transaction import Transaction
from frazil.mixed.file_names import parse_base
from frazil.mixed.order import Scope, added_files, check_overwrite
from frazil.mixed.pair import BASE_SNAPSHOT, CHANGE_SNAPSHOT, NONE, recorded
from frazil.mixed.transactions import OPTIMIZE, PRODUCER, TRANSACTION, ended_by, ended_transactions

CLOSING = "frazil.closing-transaction"
"""In the summary of the commit to the change store that comes before an overwrite: its id."""
BARRED = "frazil.barred"
"""In the summary of the commit to the base store that ends an overwrite which is not committed."""


class CloseOverwrite(FastAppend):
    """An empty commit to the change store: all changes that it comes after are in order with an overwrite."""

    def __init__(self, transaction: Transaction, base: IcebergTable, transaction_id: int, scope: Scope) -> None:
        super().__init__(transaction)
        self._base = base
        self._id = transaction_id
        self._scope = scope
        self.set(CLOSING, str(transaction_id))

    def stage(self, context: Context) -> Staged:
        check_overwrite(context.metadata, context.store, self._id, self._scope)
        self.set(BASE_SNAPSHOT, recorded(self._base.newest_state().metadata))
        return super().stage(context)


def check_closed(context: Context, change: TableMetadata, transaction_id: int, scope: Scope) -> None:
    """Refuse to commit an overwrite to the base store if it was barred, or a later one was first."""
    begun = next((one for one in change.snapshots if one.sequence_number == transaction_id), None)
    newer = None if begun is None else _after(context.metadata, begun.summary.get(BASE_SNAPSHOT, NONE))
    if newer is None:
        raise CommitConflict(
            f"what happened since overwrite {transaction_id} began has expired", hint="repeat the overwrite"
        )
    for snapshot in newer:
        if snapshot.summary.get(PRODUCER) == OPTIMIZE:
            continue
        if BARRED in snapshot.summary and ended_by(snapshot) == transaction_id:
            raise CommitConflict(
                f"rows were read and changed while overwrite {transaction_id} was committed",
                hint="repeat the overwrite",
            )
        for file in added_files(context.metadata, context.store, snapshot):
            other = parse_base(file.file_path).transaction_id
            if other > transaction_id and scope.has(file):
                raise CommitConflict(
                    f"overwrite {other}, which comes after {transaction_id}, was committed before it",
                    hint="repeat the overwrite",
                )


def settle_overwrites(base: IcebergTable, change: TableMetadata) -> TableMetadata:
    """Bar overwrites that have closed and are not committed. The base store as it is then."""
    newest = base.newest_state()
    ended = ended_transactions(newest.metadata, change)
    own = IcebergTable(base.identifier, base.store, base._committer, newest)
    for number, closed_at in _closing(change):
        # where history does not go back to it, the overwrite is refused, or was committed long ago
        if number not in ended and _after(newest.metadata, closed_at) is not None:
            BarOverwrite(own._transaction(), recorded(change), number).commit()
    return own.metadata


class BarOverwrite(FastAppend):
    """An empty commit to the base store, which an overwrite that is not committed yet will find."""

    def __init__(self, transaction: Transaction, change_snapshot: str, transaction_id: int) -> None:
        super().__init__(transaction)
        self._id = transaction_id
        self.set(TRANSACTION, str(transaction_id)).set(BARRED, "true").set(CHANGE_SNAPSHOT, change_snapshot)

    def stage(self, context: Context) -> Staged:
        if self._id in ended_transactions(context.metadata):
            return Staged(())  # it was committed meanwhile, or another one barred it
        return super().stage(context)


def _closing(change: TableMetadata) -> Iterator[tuple[int, str]]:
    """The overwrites that have closed, with what the base store was at."""
    for snapshot in change.ancestors_of(change.current_snapshot_id):
        told = snapshot.summary.get(CLOSING, "")
        if told.isdecimal():
            yield int(told), snapshot.summary.get(BASE_SNAPSHOT, NONE)


def _after(metadata: TableMetadata, recorded_id: str) -> list[Snapshot] | None:
    """The snapshots since a recorded one; None if history does not go back to it."""
    found: list[Snapshot] = []
    for snapshot in metadata.ancestors_of(metadata.current_snapshot_id):
        if str(snapshot.snapshot_id) == recorded_id:
            return found
        found.append(snapshot)
    whole = not found or found[-1].parent_snapshot_id is None
    return found if recorded_id == NONE and whole else None
