"""ALTER TABLE ... DROP PARTITION, of a table of either kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from frazil.errors import InvalidArgument
from frazil.mixed.table import MixedTable
from frazil.model.expressions import Expression, and_, col, or_
from frazil.model.transforms import IdentityTransform
from frazil.model.types import BooleanType, DecimalType, DoubleType, FloatType, IntegerType, LongType, Type


def drop_partitions(table: MixedTable, wanted: Sequence[Mapping[str, str | None]], if_exists: bool) -> None:
    """Remove the rows of partitions, each told by the values of some of the columns that rows are partitioned by."""
    where = or_(*(_partition(table, values) for values in wanted))
    done = table.drop_partition(where)
    if done.snapshot is None and not if_exists:
        raise InvalidArgument(f"{table.identifier} has no partition ({where})", hint="write IF EXISTS")


def _partition(table: MixedTable, values: Mapping[str, str | None]) -> Expression:
    names = {
        table.schema.name_of(part.source_id): part
        for part in table.spec.fields
        if isinstance(part.transform, IdentityTransform)
    }
    unknown = next((name for name in values if name not in names), None)
    if unknown is not None:
        raise InvalidArgument(
            f"{table.identifier} is not partitioned by the values of {unknown!r}",
            hint=f"name {', '.join(map(str, names))}" if names else "delete the rows: DELETE FROM ... WHERE",
        )
    return and_(*(_equal(table, name, text) for name, text in values.items()))


def _equal(table: MixedTable, name: str, text: str | None) -> Expression:
    return col(name).is_null() if text is None else col(name) == _value(table.schema.find(name).type, name, text)


def _value(type_: Type, name: str, text: str) -> Any:
    """A value from how Spark's parser hands it on: as text."""
    try:
        if isinstance(type_, IntegerType | LongType):
            return int(text)
        if isinstance(type_, FloatType | DoubleType):
            return float(text)
        if isinstance(type_, DecimalType):
            return Decimal(text)
        if isinstance(type_, BooleanType):
            return {"true": True, "false": False}[text.lower()]
    except (ValueError, KeyError, InvalidOperation):
        raise InvalidArgument(f"{text!r} is no value of {name}, which is {type_}", hint="write one that is") from None
    return text
