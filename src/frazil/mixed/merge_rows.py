"""Merging rows into a keyed table, by its primary key: the clauses, and then one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from frazil.errors import InvalidArgument, Unsupported
from frazil.iceberg.row_changes import RowChanges

if TYPE_CHECKING:
    from frazil.mixed.write import ChangeJob


class MixedMerge:
    """A merge that is being described; `execute()` runs it."""

    def __init__(
        self, job: Callable[[], ChangeJob], primary_key: Sequence[str], rows: Any, on: str | Sequence[str] | None
    ) -> None:
        names = primary_key if on is None else (on,) if isinstance(on, str) else tuple(on)
        if set(names) != set(primary_key):
            raise Unsupported(
                f"rows are merged by the primary key, {', '.join(primary_key)}", hint="leave `on` out, or use Spark"
            )
        self._job = job
        self._rows = rows
        self._matched: str | None = None
        self._inserts = False

    def when_matched_update_all(self) -> Self:
        """Rows that have the key of a new one become it."""
        return self._when_matched("update")

    def when_matched_delete(self) -> Self:
        """Rows that have the key of a new one go."""
        return self._when_matched("delete")

    def when_not_matched_insert_all(self) -> Self:
        """New rows whose key no row has are added."""
        self._inserts = True
        return self

    def _when_matched(self, what: str) -> Self:
        if self._matched is not None:
            raise InvalidArgument("rows that match are updated or deleted, not both", hint="give one of the clauses")
        self._matched = what
        return self

    def execute(self) -> RowChanges:
        """Do it, in one transaction."""
        if self._matched is None and not self._inserts:
            raise InvalidArgument("a merge that does nothing", hint="say what to do with rows that match, or do not")
        return self._job().merge(
            self._rows, update=self._matched == "update", delete=self._matched == "delete", insert=self._inserts
        )
