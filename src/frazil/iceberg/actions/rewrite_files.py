"""Rewrite: the same rows in other files. What a reader sees does not change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Self

from frazil.errors import InvalidArgument
from frazil.iceberg import validation
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.file_changes import FileChanges
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.snapshot import REPLACE, Snapshot
from frazil.iceberg.transaction import Transaction


class RewriteFiles(FileChanges):
    """Replaces data or delete files by equivalent ones (compaction).

    New data files may keep an older data sequence number, so that equality deletes committed meanwhile still apply to
    their rows. Deletes added since to a replaced file are a conflict: the rewritten rows would come back. So are those
    added since to a file that new deletes name.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._replaced_data: list[DataFile] = []
        self._equality_sequences: set[int | None] = set()
        self._sequence_number: int | None = None
        self._referenced: set[str] = set()

    @property
    def operation(self) -> str:
        return REPLACE

    def delete_file(self, file: DataFile) -> Self:
        """A data or delete file that goes."""
        if file.content == Content.DATA:
            self._replaced_data.append(file)
            self._removal.names(file)
        else:
            self._delete_removal.names(file)
            if file.content == Content.EQUALITY_DELETES:
                self._equality_sequences.add(file.data_sequence_number)
        return self

    def add_file(self, file: DataFile) -> Self:
        """A data or delete file that takes its place."""
        return self._add_data(file) if file.content == Content.DATA else self._add_deletes(file)

    def rewrite(self, old: Iterable[DataFile], new: Iterable[DataFile]) -> Self:
        """Replace all of `old` by all of `new`."""
        for file in old:
            self.delete_file(file)
        for file in new:
            self.add_file(file)
        return self

    def _check_equality_deletes(self) -> None:
        """A younger copy of an equality delete would also delete the rows that came in between."""
        new = {file.data_sequence_number for file in self._added_deletes if file.content == Content.EQUALITY_DELETES}
        if new and (None in new or len(new | self._equality_sequences) > 1):
            raise InvalidArgument(
                "equality deletes are to be rewritten across sequence numbers",
                hint="give the new files the data sequence number of those they replace, which must all have the same",
            )

    def data_sequence_number(self, number: int) -> Self:
        """The sequence number that all new data files carry: that of the snapshot the rows were read from."""
        self._sequence_number = number
        return self

    def validate_data_files_exist(self, paths: Iterable[str]) -> Self:
        """Refuse if one of these was removed since: it is what new delete files are about."""
        self._referenced.update(paths)
        return self

    def validate(self, context: Context, parent: Snapshot | None) -> None:
        if not self._removal and not self._delete_removal:
            raise InvalidArgument("nothing to replace", hint="name the files that the new ones stand for")
        self._check_equality_deletes()
        if self._sequence_number is not None and context.metadata.format_version > 1:
            self._added_data = [replace(file, data_sequence_number=self._sequence_number) for file in self._added_data]
        since = self.since(context, parent)
        if self._added_data:
            self.check_row_ids(context, since)
        if any(file.data_sequence_number is not None for file in self._added_deletes):
            self.check_own_numbers(context, parent)
        validation.no_new_deletes_for(
            context, since, self._replaced_data, rewritten_as=self._sequence_number, new=self._added_data
        )
        validation.files_exist(context, since, {file.file_path for file in self._replaced_data} | self._referenced)
        validation.no_new_vectors(context, since, self.named_by_deletes)
