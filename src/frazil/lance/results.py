"""What a command did to a Lance table."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.counts import ChangedRows, Counts
from frazil.lance.version import LanceVersion


@dataclass(frozen=True, slots=True, repr=False)
class RowChanges(ChangedRows):
    """Rows and files that changed.

    >>> RowChanges(rows_deleted=3, data_files_removed=1)
    RowChanges(rows_deleted=3, data_files_removed=1)
    """

    snapshot: LanceVersion | None = None
    """The version that has the changes; None if nothing was changed."""

    @property
    def committed(self) -> str | None:
        return None if self.snapshot is None else f"version={self.snapshot.version}"


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
