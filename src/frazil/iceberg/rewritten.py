"""What rewriting files came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from frazil.counts import Counts


class Sums(Counts):
    """Counts that add up."""

    __slots__ = ()

    def __add__(self, other: Self) -> Self:
        theirs = other.counts()
        return type(self)(**{name: count + theirs[name] for name, count in self.counts().items()})


@dataclass(frozen=True, slots=True)
class RewrittenDataFiles(Sums):
    """Counts of a compaction, by Iceberg's names."""

    rewritten_data_files_count: int = 0
    added_data_files_count: int = 0
    rewritten_bytes_count: int = 0
    failed_data_files_count: int = 0
    removed_delete_files_count: int = 0


@dataclass(frozen=True, slots=True)
class RewrittenDeleteFiles(Sums):
    """Counts of a rewrite of position delete files, by Iceberg's names. A vector counts as a file."""

    rewritten_delete_files_count: int = 0
    added_delete_files_count: int = 0
    rewritten_bytes_count: int = 0
    added_bytes_count: int = 0


@dataclass(frozen=True, slots=True)
class ConvertedDeleteFiles(Sums):
    """Counts of a conversion of equality deletes. A vector counts as a file."""

    converted_delete_files_count: int = 0
    """Equality delete files that are gone."""
    added_delete_files_count: int = 0
    """Vectors or position delete files that say the same."""
