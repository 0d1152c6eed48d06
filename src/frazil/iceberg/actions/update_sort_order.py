"""The table's sort order, replaced. It is for writers to come: files already written keep theirs."""

from __future__ import annotations

from typing import Literal, Self

from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.requirements import AssertDefaultSortOrderId
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import LAST_ADDED, AddSortOrder, SetDefaultSortOrder
from frazil.model.sorting import parse_sort_order

Nulls = Literal["first", "last"]


class UpdateSortOrder(Action):
    """A new sort order, key by key. Without any key the table becomes unsorted."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._keys: list[str] = []

    def asc(self, term: str, nulls: Nulls = "first") -> Self:
        """Sort by a column, or a transform such as `days(ts)`, the smallest first."""
        return self.by(f"{term} ASC NULLS {nulls}")

    def desc(self, term: str, nulls: Nulls = "last") -> Self:
        """Sort by a column, or a transform such as `days(ts)`, the largest first."""
        return self.by(f"{term} DESC NULLS {nulls}")

    def by(self, *keys: str) -> Self:
        """Sort by keys as SQL writes them: `ts DESC NULLS LAST`, `bucket(4, id)`."""
        self._keys.extend(keys)
        return self

    def unsorted(self) -> Self:
        """Forget the keys given so far: the table has no order."""
        self._keys.clear()
        return self

    def stage(self, context: Context) -> Staged:
        metadata = context.metadata
        order = parse_sort_order(metadata.current_schema, self._keys)
        if order.fields == metadata.default_sort_order.fields:
            return Staged(())
        return Staged(
            (AddSortOrder(order), SetDefaultSortOrder(LAST_ADDED)),
            (AssertDefaultSortOrderId(metadata.default_sort_order_id),),
        )
