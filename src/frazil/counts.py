"""Results that are counts by name."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


class Counts:
    """A dataclass of counts, which may have other members too."""

    __slots__ = ()

    def counts(self) -> dict[str, int]:
        """The counts by name."""
        this: Any = self
        found = ((field.name, getattr(this, field.name)) for field in fields(this))
        return {name: value for name, value in found if isinstance(value, int)}

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{name}</th><td>{count:,}</td></tr>" for name, count in self.counts().items())
        return f"<table>{cells}</table>"


@dataclass(frozen=True, slots=True, repr=False)
class ChangedRows(Counts):
    """Rows and files that DELETE, UPDATE, MERGE or an upsert changed. Each format adds what it committed."""

    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    """Rows that were there. Of files that go as a whole nothing is read to count them, but for deletes that apply, and
    the columns that equality deletes go by."""
    data_files_added: int = 0
    data_files_removed: int = 0
    delete_files_added: int = 0
    delete_files_removed: int = 0

    @property
    def committed(self) -> str | None:
        """What was committed, as `name=number`; None if nothing was."""
        return None

    def __repr__(self) -> str:
        told = [f"{name}={count}" for name, count in self.counts().items() if count]
        return f"RowChanges({', '.join([*told, *filter(None, [self.committed])])})"
