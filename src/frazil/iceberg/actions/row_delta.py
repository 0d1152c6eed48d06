"""Row delta: rows added and rows deleted by delete files, without rewriting what is there (merge-on-read)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from frazil.errors import CommitConflict
from frazil.iceberg import validation
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.isolated_changes import FilteredChanges
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.file_filter import FileFilter
from frazil.iceberg.manifest_list import live_spec_ids
from frazil.iceberg.snapshot import APPEND, DELETE, OVERWRITE, Snapshot
from frazil.iceberg.transaction import Transaction
from frazil.model.expressions import AlwaysTrue
from frazil.model.partition import PartitionSpec


class RowDelta(FilteredChanges):
    """Adds data files and delete files; may remove delete files that new ones absorb."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._referenced: set[str] = set()
        self._check_deleted_files = False
        self._removed_data: list[DataFile] = []
        self._looked_for: set[str] | None = None
        self._known_specs: set[int] | None = None

    @property
    def operation(self) -> str:
        if not (self._added_deletes or self._removed_data):
            return APPEND
        return OVERWRITE if self._added_data else DELETE

    def add_rows(self, file: DataFile) -> Self:
        """Add a data file."""
        return self._add_data(file)

    def add_deletes(self, file: DataFile) -> Self:
        """Add a delete file or deletion vector. The data file a vector names must still be there at the commit."""
        if file.referenced_data_file is not None:
            self._referenced.add(file.referenced_data_file)
        return self._add_deletes(file)

    def remove_deletes(self, file: DataFile) -> Self:
        """Remove a delete file or vector whose deletes are in an added one."""
        self._delete_removal.names(file)
        return self

    def remove_rows(self, file: DataFile) -> Self:
        """Remove a data file all of whose rows are gone."""
        self._removed_data.append(file)
        self._removal.names(file)
        return self

    def validate_no_conflicting_deletes(self, files: Iterable[str] | None = None) -> Self:
        """Refuse if rows it depends on were deleted since. With `files` those of other data files do not count, if it
        can be told which ones are meant: it is enough for a change that looks at each row alone.
        """
        self._looked_for = None if files is None else set(files)
        return super().validate_no_conflicting_deletes()

    def validate_data_files_exist(self, paths: Iterable[str]) -> Self:
        """Refuse if one of these was removed since: deletes of its rows would be lost."""
        self._referenced.update(paths)
        return self

    def validate_deleted_files(self) -> Self:
        """Count removal by a plain delete as a conflict, too (for updates: the row must not come back)."""
        self._check_deleted_files = True
        return self

    def validate_partitioning(self, specs: Iterable[PartitionSpec]) -> Self:
        """Refuse if the table is partitioned in other ways than these, or has files of a spec that no added delete is
        of: keys find rows of their own spec and partition only.
        """
        self._known_specs = {spec.spec_id for spec in specs}
        return self

    def validate(self, context: Context, parent: Snapshot | None) -> None:
        if self._known_specs is not None:
            self._validate_partitioning(context, parent, self._known_specs)
        since = self.since(context, parent)
        if not since:
            return
        validation.files_exist(context, since, self._referenced, skip_deletes=not self._check_deleted_files)
        vectors = {file.referenced_data_file for file in self._added_deletes if file.is_deletion_vector}
        targets = {path for path in vectors if path is not None}
        # a vector may not outlive its data file, however that went
        validation.files_exist(context, since, targets)
        validation.no_new_vectors(context, since, targets)
        where = AlwaysTrue() if self._conflict_filter is None else self._conflict_filter
        matching = FileFilter(context.metadata, context.metadata.current_schema, where)
        self._validate_reads(context, since, matching)
        if self._check_deletes:
            validation.no_new_deletes(context, since, matching, self._looked_for)
        validation.no_new_deletes_for(context, since, self._removed_data)

    def _validate_partitioning(self, context: Context, parent: Snapshot | None, known: set[int]) -> None:
        new = {spec.spec_id for spec in context.metadata.partition_specs} - known
        # a spec that was known may have got files only now: by a stale writer, a rollback, or a change back to it
        if new or live_spec_ids(context.manifests(parent)) - {file.spec_id for file in self._added_deletes}:
            raise CommitConflict(
                "the table was partitioned in another way since the keys were written",
                hint="load the table again and repeat the change",
            )
