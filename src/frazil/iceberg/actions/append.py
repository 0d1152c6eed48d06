"""Append: new files, nothing removed. It never conflicts with another commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from frazil.iceberg.actions.file_changes import FileChanges
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.snapshot import APPEND


class MergeAppend(FileChanges):
    """Adds data files; small manifests are merged along the way, which keeps planning fast."""

    @property
    def operation(self) -> str:
        return APPEND

    def append_file(self, file: DataFile) -> Self:
        """Add a data file."""
        return self._add_data(file)

    def append_files(self, files: Iterable[DataFile]) -> Self:
        """Add data files."""
        for file in files:
            self._add_data(file)
        return self


class FastAppend(MergeAppend):
    """Adds data files in manifests of their own: the least work per commit."""

    merges = False
