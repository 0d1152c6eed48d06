"""Delete: whole files removed, named by path or found by a filter that all their rows match."""

from __future__ import annotations

from typing import Self

import numpy as np

from frazil.errors import CommitConflict, FrazilError, InvalidArgument
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.file_changes import FileChanges
from frazil.iceberg.actions.manifest_changes import Removal
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.entries import Entries, Mask
from frazil.iceberg.file_filter import FileFilter
from frazil.iceberg.manifest_list import ManifestFile
from frazil.iceberg.snapshot import DELETE
from frazil.iceberg.transaction import Transaction
from frazil.model.expressions import Expression

_ROWS_HINT = "delete rows with table.delete(where), which rewrites such files"


class DeleteFiles(FileChanges):
    """Removes data files from the table. Rows are never rewritten: metadata alone changes."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._where: Expression | None = None
        self._case_sensitive = True

    @property
    def operation(self) -> str:
        return DELETE

    def delete_file(self, file: DataFile | str) -> Self:
        """Remove a file, given itself or its path; it must be in the table when the change is committed."""
        if isinstance(file, DataFile):
            self._removal.names(file)
        else:
            self._removal.paths.add(file)
        return self

    def delete_where(self, where: Expression, *, case_sensitive: bool = True) -> Self:
        """Remove all files whose rows all match; a file with some matching rows only is refused."""
        self._where, self._case_sensitive = where, case_sensitive
        return self

    def stage(self, context: Context) -> Staged:
        if self._where is not None:
            schema = context.metadata.current_schema
            matching = FileFilter(context.metadata, schema, self._where, self._case_sensitive)
            by_filter = removal_by_filter(matching, retried=context.attempt > 0)
            self._removal.matches, self._removal.may_match = by_filter.matches, by_filter.may_match
        return super().stage(context)


def removal_by_filter(matching: FileFilter, *, retried: bool = False) -> Removal:
    """Remove the files that hold only matching rows; refuse where some rows match and others do not."""
    # at the first attempt it is what was asked for that cannot be done, later it is what somebody else did
    refused: type[FrazilError] = CommitConflict if retried else InvalidArgument
    hint = "read the table again and repeat the change" if retried else _ROWS_HINT

    def matches(_: ManifestFile, entries: Entries) -> Mask:
        some = matching.some(entries) & entries.live
        every = matching.every(entries) & some
        partly = some & ~every
        if partly.any():
            path = entries.column(ids.FILE_PATH)[int(np.flatnonzero(partly)[0])].as_py()
            raise refused(f"some rows of {path} may match {matching.where}, and some may not", hint=hint)
        return every

    return Removal(matches=matches, may_match=matching.may_hold, must_exist=True)
