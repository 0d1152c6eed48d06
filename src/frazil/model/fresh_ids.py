"""Field ids for new tables, new columns and replaced tables, in the order Java's library gives them.

All fields of a struct get their ids before any field inside them does, so a flat schema is numbered 1, 2, 3.

>>> from frazil.model.types import IntegerType
>>> inner = StructType((NestedField(7, "x", IntegerType()),))
>>> schema, mapping = assign_fresh_ids(Schema((NestedField(5, "a", inner), NestedField(9, "b", IntegerType()))))
>>> mapping
{5: 1, 9: 2, 7: 3}
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from frazil.errors import InvalidSchema
from frazil.model.schema import Schema
from frazil.model.types import MAX_FIELD_ID, ListType, MapType, NestedField, StructType, Type


def number_type(type_: Type, id_for: Callable[[NestedField], int]) -> Type:
    """The type with each field inside it numbered by `id_for`, outer fields before inner."""
    if isinstance(type_, StructType):
        return StructType(_number(type_.fields, id_for))
    if isinstance(type_, ListType):
        return ListType(*_number((type_.element,), id_for))
    if isinstance(type_, MapType):
        return MapType(*_number((type_.key, type_.value), id_for))
    return type_


def _number(fields: tuple[NestedField, ...], id_for: Callable[[NestedField], int]) -> tuple[NestedField, ...]:
    numbers = [id_for(column) for column in fields]
    if numbers and max(numbers) > MAX_FIELD_ID:
        raise InvalidSchema(f"field ids have run out at {MAX_FIELD_ID}", hint="write the data to a new table")
    return tuple(
        replace(column, id=number, type=number_type(column.type, id_for))
        for column, number in zip(fields, numbers, strict=True)
    )


def _renumber(schema: Schema, id_for: Callable[[NestedField], int]) -> tuple[Schema, dict[int, int]]:
    mapping: dict[int, int] = {}

    def remember(column: NestedField) -> int:
        mapping[column.id] = id_for(column)
        return mapping[column.id]

    fields = _number(schema.fields, remember)
    return Schema(fields, schema.schema_id, tuple(mapping[number] for number in schema.identifier_field_ids)), mapping


def assign_fresh_ids(schema: Schema, start: int = 1) -> tuple[Schema, dict[int, int]]:
    """The schema numbered from `start`, as for a new table, and the new id of each old one."""
    counter = itertools.count(start)
    return _renumber(schema, lambda _: next(counter))


def reassign_ids_by_name(schema: Schema, base: Schema, last_column_id: int) -> tuple[Schema, int]:
    """The schema of a replaced table and its last column id.

    Columns keep the id that `base` has for their full name, whatever their type; others get ids never used before.
    """
    known = {base.name_of(number): number for number in base.field_ids}
    counter = itertools.count(max(last_column_id, base.highest_field_id) + 1)

    def id_for(column: NestedField) -> int:
        number = known.get(schema.name_of(column.id))
        return next(counter) if number is None else number

    numbered, _ = _renumber(schema, id_for)
    return numbered, next(counter) - 1
