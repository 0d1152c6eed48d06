"""What a command did to a Lance table."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.counts import Counts
from frazil.lance.version import LanceVersion


@dataclass(frozen=True, slots=True)
class RowChanges(Counts):
    """Rows and files that DELETE, UPDATE or MERGE changed.

    >>> RowChanges(rows_deleted=3, data_files_removed=1)
    RowChanges(rows_deleted=3, data_files_removed=1)
    """

    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    data_files_added: int = 0
    data_files_removed: int = 0
    delete_files_added: int = 0
    delete_files_removed: int = 0
    snapshot: LanceVersion | None = None
    """The version that has the changes; None if nothing was changed."""

    def __repr__(self) -> str:
        told = [f"{name}={count}" for name, count in self.counts().items() if count]
        if self.snapshot is not None:
            told.append(f"version={self.snapshot.version}")
        return f"RowChanges({', '.join(told)})"


@dataclass(frozen=True, slots=True)
class Compacted(Counts):
    """What a compaction replaced."""

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0


@dataclass(frozen=True, slots=True)
class CleanedUp(Counts):
    """What a clean-up removed, or would remove."""

    versions: int = 0
    files: int = 0
    bytes: int = 0
