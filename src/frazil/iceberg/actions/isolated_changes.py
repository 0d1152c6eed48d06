"""Isolation: what a change of rows that were read says about what others may have done since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from frazil.iceberg import validation
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.file_changes import FileChanges
from frazil.iceberg.file_filter import FileFilter
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.transaction import Transaction
from frazil.model.expressions import Expression


class IsolatedChanges(FileChanges):
    """A change that depends on rows which others may change.

    Unless told otherwise it validates for nothing: an engine says from which snapshot it read, and whether concurrent
    additions (serializable) or deletions matter.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._check_data = self._check_deletes = False

    def validate_no_conflicting_data(self) -> Self:
        """Refuse if rows it depends on were added since (serializable isolation)."""
        self._check_data = True
        return self

    def validate_no_conflicting_deletes(self) -> Self:
        """Refuse if rows it depends on were deleted since."""
        self._check_deletes = True
        return self


class FilteredChanges(IsolatedChanges):
    """A change that depends on the rows that match a filter."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._conflict_filter: Expression | None = None
        self._check_all_read = False

    def conflict_filter(self, where: Expression) -> Self:
        """Which rows the change depends on; all of them if not told."""
        self._conflict_filter = where
        return self

    def validate_no_removed_rows(self) -> Self:
        """Refuse if rows it depends on were deleted since, be they in files that it has nothing to do with: a merge
        that inserts what it found no match for depends on the matches that it found.
        """
        self._check_all_read = True
        return self

    def _validate_reads(self, context: Context, since: Sequence[Snapshot], matching: FileFilter) -> None:
        if self._check_data:
            validation.no_new_data(context, since, matching)
        if self._check_all_read:
            validation.no_new_deletes(context, since, matching)
            validation.no_removed_data(context, since, matching, rewrites=False)
