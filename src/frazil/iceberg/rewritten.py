"""What rewriting files came to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self


class Counts:
    """Counts by name, which add up."""

    __slots__ = ()

    def _counts(self) -> dict[str, int]:
        this: Any = self
        return asdict(this)

    def __add__(self, other: Self) -> Self:
        theirs = other._counts()
        return type(self)(**{name: count + theirs[name] for name, count in self._counts().items()})

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{name}</th><td>{count:,}</td></tr>" for name, count in self._counts().items())
        return f"<table>{cells}</table>"


@dataclass(frozen=True, slots=True)
class RewrittenDataFiles(Counts):
    """Counts of a compaction, by Iceberg's names."""

    rewritten_data_files_count: int = 0
    added_data_files_count: int = 0
    rewritten_bytes_count: int = 0
    failed_data_files_count: int = 0
    removed_delete_files_count: int = 0


@dataclass(frozen=True, slots=True)
class RewrittenDeleteFiles(Counts):
    """Counts of a rewrite of position delete files, by Iceberg's names. A vector counts as a file."""

    rewritten_delete_files_count: int = 0
    added_delete_files_count: int = 0
    rewritten_bytes_count: int = 0
    added_bytes_count: int = 0


@dataclass(frozen=True, slots=True)
class ConvertedDeleteFiles(Counts):
    """Counts of a conversion of equality deletes. A vector counts as a file."""

    converted_delete_files_count: int = 0
    """Equality delete files that are gone."""
    added_delete_files_count: int = 0
    """Vectors or position delete files that say the same."""
