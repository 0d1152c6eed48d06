"""The order of rows in files that optimizing writes: that of a sort order, or of a curve through several columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from frazil.errors import CommitConflict, InvalidArgument
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import AddSortOrder
from frazil.model.schema import Schema
from frazil.model.sorting import UNSORTED, SortOrder, assign_order_id, parse_sort_order, sort_indices
from frazil.model.terms import parse_term
from frazil.model.transforms import IdentityTransform
from frazil.model.zorder import curve_indices

_ZORDER = re.compile(r"\s*zorder\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)(?![^(`]*\))")
"""A comma that is not in a quoted name or among arguments."""
Indices = Callable[[pa.Table], pa.Array]


@dataclass(frozen=True)
class Arrangement:
    """How rows are to be arranged; not at all, if neither is given."""

    order: SortOrder = UNSORTED
    curve: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, schema: Schema, known: Iterable[SortOrder] = ()) -> Self:
        """From text such as `id DESC, ts` or `zorder(a, b)`; an order gets its id among those that a table knows."""
        found = _ZORDER.fullmatch(text)
        if found is not None:
            return cls(curve=_columns(found[1], schema))
        order = parse_sort_order(schema, [term.strip() for term in _COMMA.split(text)])
        return cls(assign_order_id(known, order))

    @classmethod
    def of_table(cls, text: str | None, metadata: TableMetadata) -> Self:
        """The same for an Iceberg table, whose own order it is without any text."""
        if text is None:
            return cls(metadata.default_sort_order)
        return cls.parse(text, metadata.current_schema, metadata.sort_orders)

    def __bool__(self) -> bool:
        return bool(self.curve) or not self.order.is_unsorted

    def indices(self, schema: Schema) -> Indices | None:
        """What gives the places of rows in the order; None if they stay as they are."""
        if self.curve:
            names = self.curve
            return lambda rows: curve_indices([rows.column(name) for name in names])
        return None if self.order.is_unsorted else lambda rows: sort_indices(schema, self.order, rows)


class KnowOrder(Action):
    """Lets a table know a sort order that files have; it does not become that of new files."""

    def __init__(self, transaction: Transaction, order: SortOrder) -> None:
        super().__init__(transaction)
        self._order = order

    def stage(self, context: Context) -> Staged:
        known = assign_order_id(context.metadata.sort_orders, self._order)
        if known.order_id != self._order.order_id:
            raise CommitConflict(
                "another sort order was given to the table meanwhile", hint="repeat the change on the table as it is"
            )
        if known in context.metadata.sort_orders:
            return Staged(())
        return Staged((AddSortOrder(self._order),))


def _columns(text: str, schema: Schema) -> tuple[str, ...]:
    names = [name.strip() for name in _COMMA.split(text)]
    terms = [parse_term(name) for name in names if name.strip("`")]
    if len(terms) < len(names) or not all(isinstance(term.transform, IdentityTransform) for term in terms):
        raise InvalidArgument(f"zorder({text}) needs columns, each by its name", hint='write "zorder(a, b)"')
    found = [schema.find(term.column, case_sensitive=False) for term in terms]
    for column in found:
        if column.type.is_nested or column not in schema.fields:
            raise InvalidArgument(
                f"{schema.name_of(column.id)!r} cannot be in a zorder",
                hint="use primitive columns that are in no struct",
            )
    return tuple(column.name for column in found)
