"""A change that was worked out on one version, made to fit a newer one; or the reason why it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from frazil.errors import CommitConflict, CommitFailed, FrazilError
from frazil.io.store import Store
from frazil.lance.conflicts import FINE, INCOMPATIBLE, operation_of, touched, verdict
from frazil.lance.deletions import read_deletions, write_deletions
from frazil.lance.proto.messages import DataFragment, Transaction
from frazil.lance.version import LanceVersion

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Change:
    """A transaction and the version it was worked out on; `rows` has the rows that it deletes, by fragment.

    With `keeps_columns` it says again which columns there are, and must not take back what others made of them.
    """

    transaction: Transaction
    base: LanceVersion
    rows: Mapping[int, Offsets] = field(default_factory=dict)
    keeps_columns: bool = False


def rebased(
    change: Change, between: Sequence[tuple[int, Transaction | None]], newest: LanceVersion, store: Store
) -> Change:
    """The change on top of `newest`, over the transactions of all versions in between.

    CommitFailed if it can be made again from the newest version, CommitConflict if that makes no sense.
    """
    if change.keeps_columns and list(newest.manifest.fields) != list(change.base.manifest.fields):
        raise CommitConflict("the table's columns were changed meanwhile", hint="open the table again, and write again")
    merged: set[int] = set()
    only_deletes = True
    for number, other in between:
        if other is None:
            raise CommitConflict(
                f"version {number} does not say what it did, so nothing can be put on top of it unseen",
                hint="open the table again and make the change anew",
            )
        found = verdict(other, change.transaction)
        if found is FINE:
            continue
        overlap = _same_fragments(other, change)
        if not overlap:
            raise _refused(found is INCOMPATIBLE, number, other, change.transaction)
        merged |= overlap
        only_deletes = only_deletes and operation_of(other) == "delete"
    if operation_of(change.transaction) not in ("delete", "update"):
        return replace(change, base=newest)
    return _moved(change, newest, store, merged, only_deletes)


def _same_fragments(other: Transaction, change: Change) -> set[int]:
    """The fragments that both delete rows of; empty if more than that is between them."""
    kinds = {operation_of(other), operation_of(change.transaction)}
    mine, theirs = touched(change.transaction), touched(other)
    overlap = mine.all & theirs.all
    known = mine.changed & change.rows.keys()
    if not kinds <= {"delete", "update"} or theirs.removed & overlap or not overlap <= known:
        return set()
    if operation_of(other) == "update" and other.update.update_mode == 1:
        return set()
    return set(overlap)


def _moved(change: Change, newest: LanceVersion, store: Store, merged: set[int], only_deletes: bool) -> Change:
    transaction = Transaction()
    transaction.CopyFrom(change.transaction)
    kind = operation_of(transaction)
    body = transaction.delete if kind == "delete" else transaction.update
    then = {fragment.id: fragment for fragment in change.base.manifest.fragments}
    now = {fragment.id: fragment for fragment in newest.manifest.fragments}
    for mine in body.updated_fragments:
        theirs = now.get(mine.id)
        if theirs is None:
            raise CommitFailed(f"fragment {mine.id} is gone", hint="make the change again")
        if mine.id not in merged and not _same_deletions(then[mine.id], theirs):
            raise CommitFailed(f"rows of fragment {mine.id} were deleted", hint="make the change again")
        deletion = mine.deletion_file
        if mine.id in merged:
            before = read_deletions(store, change.base.deletions(then[mine.id]))
            after = read_deletions(store, newest.deletions(theirs))
            rows = change.rows[mine.id]
            if not (kind == "delete" and only_deletes) and np.isin(rows, np.setdiff1d(after, before)).any():
                raise CommitFailed(
                    f"another writer changed the same rows of fragment {mine.id}", hint="make the change again"
                )
            deletion = write_deletions(store, newest.folder, int(mine.id), newest.version, np.union1d(after, rows))
        had = mine.HasField("deletion_file")
        kept = type(deletion)()
        kept.CopyFrom(deletion)
        mine.CopyFrom(theirs)
        if had or mine.id in merged:
            mine.deletion_file.CopyFrom(kept)
    return replace(change, transaction=transaction)


def _same_deletions(left: DataFragment, right: DataFragment) -> bool:
    return bool(
        left.HasField("deletion_file") == right.HasField("deletion_file") and left.deletion_file == right.deletion_file
    )


def _refused(incompatible: bool, number: int, other: Transaction, mine: Transaction) -> FrazilError:
    told = f"version {number} was committed meanwhile: {operation_of(mine)} does not go on top of {operation_of(other)}"
    if incompatible:
        return CommitConflict(told, hint="look at the table as it is now, and decide again")
    return CommitFailed(told, hint="make the change again on the newest version")
