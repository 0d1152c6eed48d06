"""Changes that are worked out again when another writer made them stale."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from frazil import ambient
from frazil.errors import CommitFailed, FrazilError
from frazil.lance.commit import commit
from frazil.lance.feature_flags import check_writable
from frazil.lance.history import History
from frazil.lance.proto.messages import DataFragment
from frazil.lance.rebase import Change
from frazil.lance.same_table import is_there, newest_after
from frazil.lance.version import LanceVersion
from frazil.lance.write import removing

ROUNDS = 20


@dataclass(frozen=True)
class Attempt:
    """A change, and the fragments that were written for it; no change if there is nothing to do."""

    change: Change | None
    written: list[DataFragment] = field(default_factory=list)


def commit_attempt(history: History, attempt: Attempt) -> LanceVersion | None:
    """Commit what was worked out once; its files go if it is refused."""
    if attempt.change is None:
        return None
    with removing(history.store, history.folder, attempt.written):
        return commit(history, attempt.change)


def until_committed(
    history: History, start: LanceVersion, work: Callable[[LanceVersion], Attempt]
) -> LanceVersion | None:
    """Work a change out and commit it; again from the newest version while others get in its way.

    None if there was nothing to do.
    """
    version = start
    for round_ in range(ROUNDS):
        check_writable(version.manifest)
        try:
            return commit_attempt(history, work(version))
        except CommitFailed:
            if round_ == ROUNDS - 1:
                raise
        except FrazilError:  # the version may have been cleaned up while it was worked with
            if round_ == ROUNDS - 1 or is_there(history, version):
                raise
        ambient.sleep(0.01 * (round_ + 1) * ambient.jitter())
        version = newest_after(history, version)
    raise AssertionError("the loop returns or raises")


def listed(fragments: Iterable[DataFragment]) -> list[DataFragment]:
    """Copies, which may be changed."""
    copies = []
    for fragment in fragments:
        copy = DataFragment()
        copy.CopyFrom(fragment)
        copies.append(copy)
    return copies
