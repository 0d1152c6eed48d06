"""What a command did to the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.counts import Counts
from frazil.iceberg.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RowChanges(Counts):
    """Rows and files that DELETE, UPDATE, MERGE or an upsert changed.

    >>> RowChanges(rows_deleted=3, data_files_removed=1)
    RowChanges(rows_deleted=3, data_files_removed=1)
    """

    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    """Rows that were there. Of files that go as a whole nothing is read to count them, but for deletes that apply, and
    the columns that equality deletes go by."""
    data_files_added: int = 0
    data_files_removed: int = 0
    delete_files_added: int = 0
    delete_files_removed: int = 0
    snapshot: Snapshot | None = None
    """The snapshot that has the changes; None if nothing was changed."""

    def __repr__(self) -> str:
        told = [f"{name}={count}" for name, count in self.counts().items() if count]
        if self.snapshot is not None:
            told.append(f"snapshot={self.snapshot.snapshot_id}")
        return f"RowChanges({', '.join(told)})"
