"""Results that are counts by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any


def total(counts: Iterable[int | None]) -> int | None:
    """The sum, which is unknown if one of them is.

    >>> total([1, 2]), total([1, None])
    (3, None)
    """
    known = 0
    for count in counts:
        if count is None:
            return None
        known += count
    return known


class Counts:
    """A dataclass of counts, which may have other members too. One that may be unknown is None, with a number as its
    default.
    """

    __slots__ = ()

    def counts(self) -> dict[str, int]:
        """The counts by name, as far as they are known."""
        return {name: count for name, count in self._all_counts().items() if count is not None}

    def _all_counts(self) -> dict[str, int | None]:
        this: Any = self
        found = ((field, getattr(this, field.name)) for field in fields(this))
        return {
            field.name: value
            for field, value in found
            if isinstance(value, int) or (value is None and isinstance(field.default, int))
        }

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th>{name}</th><td>{'unknown' if count is None else f'{count:,}'}</td></tr>"
            for name, count in self._all_counts().items()
        )
        return f"<table>{cells}</table>"


@dataclass(frozen=True, slots=True, repr=False)
class ChangedRows(Counts):
    """Rows and files that DELETE, UPDATE, MERGE or an upsert changed. Each format adds what it committed."""

    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int | None = 0
    """Rows that were there; None (unknown) if files went as a whole that equality deletes apply to: only reading both
    would tell."""
    data_files_added: int = 0
    data_files_removed: int = 0
    delete_files_added: int = 0
    delete_files_removed: int = 0

    @property
    def committed(self) -> str | None:
        """What was committed, as `name=number`; None if nothing was."""
        return None

    def __repr__(self) -> str:
        found = self._all_counts().items()
        told = [f"{name}={'unknown' if count is None else count}" for name, count in found if count != 0]
        return f"RowChanges({', '.join([*told, *filter(None, [self.committed])])})"
