"""Vectors told of by properties, for places that have no type for them: Spark's CREATE TABLE, tables of other formats.

A column of lists becomes a vector by its size, and one of half floats by a word more, as Lance's own connector names
them: `'v.arrow.fixed-size-list.size' = '128'`, `'v.arrow.float16' = 'true'`.

>>> made, left = with_vectors(pa.schema({"v": pa.list_(pa.float32())}), {"v.arrow.fixed-size-list.size": "2", "a": "b"})
>>> made.field("v").type, left
(FixedSizeListType(fixed_size_list<item: float>[2]), {'a': 'b'})
>>> told_of(made)
{'v.arrow.fixed-size-list.size': '2'}
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from frazil.errors import InvalidArgument
from frazil.lance.new_columns import can_be_in_vector

SIZE, HALF = ".arrow.fixed-size-list.size", ".arrow.float16"


def with_vectors(schema: pa.Schema, properties: Mapping[str, str]) -> tuple[pa.Schema, dict[str, str]]:
    """The columns, with vectors where properties say so, and the properties that are left."""
    left = dict(properties)
    fields = []
    for field in schema:
        size, half = left.pop(field.name + SIZE, None), left.pop(field.name + HALF, None)
        if size is not None:
            field = _vector(field, size, half)
        elif half is not None:
            raise InvalidArgument(f"{field.name}{HALF} is for vectors", hint=f"set {field.name}{SIZE} too")
        fields.append(field)
    unknown = next((key for key in left if key.endswith((SIZE, HALF))), None)
    if unknown is not None:
        raise InvalidArgument(f"property {unknown} names no column", hint="begin it with the name of a column")
    return pa.schema(fields), left


def told_of(schema: pa.Schema) -> dict[str, str]:
    """The properties that make vectors of lists again; those of lists and structs stay lists."""
    told: dict[str, str] = {}
    for field in schema:
        if pa.types.is_fixed_size_list(field.type) and not pa.types.is_nested(field.type.value_type):
            told[field.name + SIZE] = str(field.type.list_size)
            if pa.types.is_float16(field.type.value_type):
                told[field.name + HALF] = "true"
    return told


def refuse_vectors(properties: Mapping[str, str | None]) -> None:
    """Refuse to make vectors of columns that are there already."""
    key = next((key for key, text in properties.items() if text is not None and key.endswith((SIZE, HALF))), None)
    if key is not None:
        raise InvalidArgument(
            f"property {key} is for new tables: it does not change a column",
            hint="change its type from Python: table.change_column_type('v', pa.list_(pa.float32(), 128))",
        )


def _vector(field: pa.Field, size: str, half: str | None) -> pa.Field:
    kind = field.type
    is_flat = pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type) and can_be_in_vector(kind.value_type)
    if not is_flat or not size.isdecimal() or int(size) < 1:
        raise InvalidArgument(
            f"{field.name}{SIZE} is {size!r} for a column of type {field.type}",
            hint="the column is an ARRAY of numbers or the like, and the size a number",
        )
    values = field.type.value_type
    if half is not None and half.lower() == "true":
        if not pa.types.is_float32(values):
            raise InvalidArgument(f"{field.name}{HALF} is for arrays of FLOAT", hint="declare it ARRAY<FLOAT>")
        values = pa.float16()
    return field.with_type(pa.list_(pa.field("item", values), int(size)))
