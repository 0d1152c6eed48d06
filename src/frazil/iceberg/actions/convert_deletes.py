"""Conversion: equality deletes go, and deletes by position come that say the same. A reader sees the same rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from frazil.iceberg import validation
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.file_changes import FileChanges
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_writer import WrittenDeletes
from frazil.iceberg.snapshot import DELETE, REPLACE, Snapshot
from frazil.iceberg.transaction import Transaction


class ConvertDeletes(FileChanges):
    """Replaces equality deletes by deletes of positions, in all files that they apply to.

    For readers it is like a rewrite. But it counts as a delete wherever positions were added: whoever rewrites one of
    these data files, and began before the equality delete was there, relies on it and must be refused, and all writers
    look at deletes for that, not at rewrites. New equality deletes and new rows do not matter: they meet as before.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._converted: list[DataFile] = []
        self._referenced: set[str] = set()

    @property
    def operation(self) -> str:
        return DELETE if self._added_deletes or self._removal else REPLACE

    def convert(self, equality_deletes: Iterable[DataFile], written: WrittenDeletes) -> Self:
        """Put deletes by position in the place of equality deletes. A data file that has no row left goes."""
        for file in equality_deletes:
            self._converted.append(file)
            self._delete_removal.names(file)
        for file in written.removed:
            self._delete_removal.names(file)
        for file in written.added:
            self._add_deletes(file)
        for file in written.emptied:
            self._removal.names(file)
        self._referenced.update(written.referenced)
        return self

    def validate(self, context: Context, parent: Snapshot | None) -> None:
        since = self.since(context, parent)
        self.check_own_numbers(context, parent)
        validation.files_exist(context, since, self._referenced | self._removal.paths)
        validation.no_new_vectors(context, since, self.named_by_deletes)
        validation.no_older_data(context, since, self._converted)
