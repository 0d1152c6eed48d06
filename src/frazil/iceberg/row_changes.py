"""What a command did to the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.counts import ChangedRows
from frazil.iceberg.snapshot import Snapshot


@dataclass(frozen=True, slots=True, repr=False)
class RowChanges(ChangedRows):
    """Rows and files that changed.

    >>> RowChanges(rows_deleted=3, data_files_removed=1)
    RowChanges(rows_deleted=3, data_files_removed=1)
    >>> RowChanges(rows_deleted=None, data_files_removed=1)
    RowChanges(rows_deleted=unknown, data_files_removed=1)
    """

    snapshot: Snapshot | None = None
    """The snapshot that has the changes; None if nothing was changed."""

    @property
    def committed(self) -> str | None:
        return None if self.snapshot is None else f"snapshot={self.snapshot.snapshot_id}"
