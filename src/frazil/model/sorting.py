"""Sort orders: how rows are ordered within a file.

>>> from frazil.model.types import LongType, NestedField
>>> schema = Schema((NestedField(1, "id", LongType()), NestedField(2, "n", LongType())))
>>> order = parse_sort_order(schema, ["bucket(4, id)", "n DESC NULLS FIRST"])
>>> [str(field) for field in order.fields]
['bucket[4](1) asc nulls-first', 'identity(2) desc nulls-first']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from frazil.errors import ColumnNotFound, InvalidArgument, InvalidSchema
from frazil.model.partition import check_source, source_ids_from_json, transform_from_json
from frazil.model.schema import Schema
from frazil.model.terms import parse_term
from frazil.model.transforms import Transform, UnknownTransform

if TYPE_CHECKING:
    import pyarrow as pa

Direction = Literal["asc", "desc"]
NullOrder = Literal["nulls-first", "nulls-last"]
_DIRECTIONS: dict[str, Direction] = {"asc": "asc", "desc": "desc"}
_NULL_ORDERS: dict[str, NullOrder] = {"nulls-first": "nulls-first", "nulls-last": "nulls-last"}
_TEXT = re.compile(r"\s*(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class SortField:
    """One key of a sort order."""

    transform: Transform
    source_ids: tuple[int, ...]
    direction: Direction = "asc"
    null_order: NullOrder = "nulls-first"

    @property
    def source_id(self) -> int:
        return self.source_ids[0]

    def satisfies(self, other: SortField, schema: Schema) -> bool:
        """Whether rows in this order are also in the other."""
        same = replace(self, transform=other.transform) == other
        column = schema.field_by_id(self.source_id)
        return same and self.transform.satisfies_order_of(other.transform, None if column is None else column.type)

    def to_json(self) -> dict[str, Any]:
        """The field's JSON; `source-ids` is for several sources only."""
        sources = {"source-id": self.source_id} if len(self.source_ids) == 1 else {"source-ids": list(self.source_ids)}
        return {
            "transform": str(self.transform),
            **sources,
            "direction": self.direction,
            "null-order": self.null_order,
        }

    def __str__(self) -> str:
        return f"{self.transform}({', '.join(map(str, self.source_ids))}) {self.direction} {self.null_order}"


@dataclass(frozen=True, slots=True)
class SortOrder:
    """Sort keys, the first one first. Order 0 is the one without keys."""

    order_id: int
    fields: tuple[SortField, ...] = ()

    def __post_init__(self) -> None:
        if (self.order_id == 0) != (not self.fields):
            raise InvalidSchema(
                f"sort order {self.order_id} has {len(self.fields)} fields", hint="order 0, and only it, has none"
            )

    @property
    def is_unsorted(self) -> bool:
        return not self.fields

    @property
    def has_unknown_transform(self) -> bool:
        """Whether this library cannot sort by it."""
        return any(isinstance(field.transform, UnknownTransform) for field in self.fields)

    def satisfies(self, other: SortOrder, schema: Schema) -> bool:
        """Whether rows in this order are also in the other, which may have fewer keys."""
        return len(other.fields) <= len(self.fields) and all(
            mine.satisfies(theirs, schema) for mine, theirs in zip(self.fields, other.fields, strict=False)
        )

    def check(self, schema: Schema) -> None:
        """Refuse the order if the schema cannot be its source."""
        for field in self.fields:
            for source_id in field.source_ids:
                check_source(schema, source_id, field.transform)

    def to_json(self) -> dict[str, Any]:
        """The specification's JSON object (Appendix C)."""
        return {"order-id": self.order_id, "fields": [field.to_json() for field in self.fields]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SortOrder:
        """Read the specification's JSON object."""
        try:
            order_id = document["order-id"]
            if not isinstance(order_id, int) or isinstance(order_id, bool):
                raise TypeError(f"order-id {order_id!r} is not an integer")
            return cls(order_id, tuple(map(_field_from_json, document["fields"])))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise InvalidSchema(f"malformed sort order: {error!r}", hint="the metadata is damaged") from error

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.fields))}]"


UNSORTED = SortOrder(0)


def parse_sort_order(schema: Schema, terms: Iterable[str], order_id: int = 1) -> SortOrder:
    """A sort order from terms like `ts DESC NULLS LAST` or `bucket(4, id)`; UNSORTED without any.

    Nulls come first when ascending and last when descending, unless said otherwise.
    """
    fields = tuple(_parse_field(schema, text) for text in terms)
    return SortOrder(order_id, fields) if fields else UNSORTED


def assign_order_id(orders: Iterable[SortOrder], order: SortOrder) -> SortOrder:
    """The order with the id it has, or gets, among the orders of a table: that of an equal one, or the next."""
    if order.is_unsorted:
        return UNSORTED
    known = list(orders)
    equal = next((each for each in known if each.fields == order.fields), None)
    return equal or replace(order, order_id=max((each.order_id for each in known), default=0) + 1)


def _parse_field(schema: Schema, text: str) -> SortField:
    found = _TEXT.fullmatch(text)
    if found is None or not found[1]:
        raise InvalidArgument(f"{text!r} is not a sort key", hint="write it as `ts DESC NULLS LAST`")
    term = parse_term(found[1])
    if term.alias is not None:
        raise InvalidArgument(f"sort key {text!r} has an alias", hint="leave it out")
    source = schema.find(term.column, case_sensitive=False)
    check_source(schema, source.id, term.transform)
    direction = _DIRECTIONS[(found[2] or "asc").lower()]
    nulls = found[3] or ("first" if direction == "asc" else "last")
    return SortField(term.transform, (source.id,), direction, _NULL_ORDERS[f"nulls-{nulls.lower()}"])


def _field_from_json(document: Mapping[str, Any]) -> SortField:
    sources = source_ids_from_json(document)
    return SortField(
        transform_from_json(document["transform"], sources),
        sources,
        _DIRECTIONS[str(document["direction"]).lower()],
        _NULL_ORDERS[str(document["null-order"]).lower()],
    )


def sort_table(schema: Schema, order: SortOrder, table: pa.Table) -> pa.Table:
    """The rows of an Arrow table, whose columns are named as in the schema, in the order; stable."""
    return table if order.is_unsorted else table.take(sort_indices(schema, order, table))


def sort_indices(schema: Schema, order: SortOrder, table: pa.Table) -> pa.Array:
    """The positions of the rows of an Arrow table in the order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from frazil.model.transform_arrays import sortable

    keys: list[tuple[str, str]] = []
    columns: list[Any] = []
    for field in order.fields:
        column = schema.field_by_id(field.source_id)
        if column is None:
            raise ColumnNotFound(f"the sort order needs column id {field.source_id}", hint="replace the sort order")
        values = field.transform.apply_array(column.type, _column(schema, field.source_id, table))
        if values.null_count:  # Arrow places nulls once for all keys, so they get a key of their own
            columns.append(pc.is_valid(values) if field.null_order == "nulls-first" else pc.is_null(values))
            keys.append((f"{len(keys)}", "ascending"))
        columns.append(sortable(values))
        keys.append((f"{len(keys)}", f"{field.direction}ending"))
    if not keys:
        return pa.array(range(len(table)), pa.uint64())
    return pc.sort_indices(pa.table(columns, [name for name, _ in keys]), sort_keys=keys)


def _column(schema: Schema, field_id: int, table: pa.Table) -> Any:
    import pyarrow.compute as pc

    top, *inner = [schema.field_by_id(number) for number in schema.path_ids(field_id)]
    if top is None or top.name not in table.column_names:
        raise ColumnNotFound(f"the rows lack column {schema.name_of(field_id)!r}", hint="the sort order needs it")
    column = table.column(top.name)
    for part in inner:
        column = pc.struct_field(column, part.name if part is not None else "")
    return column
