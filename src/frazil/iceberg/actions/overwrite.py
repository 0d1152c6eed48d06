"""Overwrite: rows replaced by others, chosen by files or by a filter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from frazil.errors import InvalidArgument
from frazil.iceberg import validation
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.delete_files import removal_by_filter
from frazil.iceberg.actions.isolated_changes import FilteredChanges
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.file_filter import FileFilter
from frazil.iceberg.snapshot import APPEND, DELETE, OVERWRITE, Snapshot
from frazil.iceberg.transaction import Transaction
from frazil.model.expressions import AlwaysTrue, Expression


class OverwriteFiles(FilteredChanges):
    """Adds data files and removes others, in one step."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._removed: list[DataFile] = []
        self._where: Expression | None = None
        self._case_sensitive = True

    @property
    def operation(self) -> str:
        removes = bool(self._removed) or self._where is not None
        if removes and not self._added_data:
            return DELETE
        return OVERWRITE if removes else APPEND

    def add_file(self, file: DataFile) -> Self:
        """Add a data file."""
        return self._add_data(file)

    def add_files(self, files: Iterable[DataFile]) -> Self:
        """Add data files."""
        for file in files:
            self._add_data(file)
        return self

    def delete_file(self, file: DataFile) -> Self:
        """Remove a data file; it must be in the table when the change is committed."""
        self._removed.append(file)
        self._removal.names(file)
        return self

    def overwrite_where(self, where: Expression, *, case_sensitive: bool = True) -> Self:
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

    def validate(self, context: Context, parent: Snapshot | None) -> None:
        if not (self._added_data or self._removed or self._where is not None):
            raise InvalidArgument("nothing to overwrite", hint="add files, remove files or give a filter")
        if not (self._check_data or self._check_deletes or self._check_all_read):
            return
        since = self.since(context, parent)
        if self._added_data and self._removed:
            self.check_row_ids(context, since)
        told = (self._conflict_filter, self._where, AlwaysTrue())
        where = next(expression for expression in told if expression is not None)
        matching = FileFilter(context.metadata, context.metadata.current_schema, where, self._case_sensitive)
        self._validate_reads(context, since, matching)
        if self._check_deletes:
            if self._where is not None:
                validation.no_new_deletes(context, since, matching)
                validation.no_removed_data(context, since, matching)
            validation.no_new_deletes_for(context, since, self._removed)
