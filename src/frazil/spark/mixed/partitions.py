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
    names = [
        table.schema.name_of(part.source_id) or ""
        for part in table.spec.fields
        if isinstance(part.transform, IdentityTransform)
    ]
    found: dict[str, str | None] = {}
    for given, text in values.items():
        name = _column(table, given)
        if name not in names:
            raise InvalidArgument(
                f"{table.identifier} is not partitioned by the values of {given!r}",
                hint=f"name {', '.join(names)}" if names else "delete the rows: DELETE FROM ... WHERE",
            )
        if name in found:
            raise InvalidArgument(f"the partition names {name!r} twice", hint="name it once")
        found[name] = text
    return and_(*(_equal(table, name, text) for name, text in found.items()))


def _column(table: MixedTable, given: str) -> str:
    """The column's own name, however it is spelled."""
    column = table.schema.find_or_none(given, case_sensitive=False)
    return given if column is None else table.schema.name_of(column.id) or given


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
