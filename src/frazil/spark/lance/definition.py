"""What CREATE TABLE says of a Lance table.

Spark has no vectors and no half floats. A column becomes one by properties, as Lance's own connector names them:
`TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '128', 'v.arrow.float16' = 'true')`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import InvalidArgument, Unsupported
from frazil.model.arrow import FIELD_ID_KEY, schema_to_arrow

if TYPE_CHECKING:
    from frazil.spark.definition import Definition

SIZE, HALF = ".arrow.fixed-size-list.size", ".arrow.float16"


def refuse_layout(new: Definition) -> None:
    """Refuse what Lance tables have no place for."""
    if new.partition_by:
        raise Unsupported("lance tables have no partitions", hint="leave PARTITIONED BY out")
    for column in new.schema.fields:
        if column.initial_default is not None or column.write_default is not None:
            raise Unsupported(f"column {column.name!r} of a lance table has no default", hint="leave DEFAULT out")


def arrow_schema(new: Definition) -> tuple[pa.Schema, dict[str, str]]:
    """The columns exactly, and the properties that are left to store."""
    properties = dict(new.properties)
    fields = []
    for field in schema_to_arrow(new.schema):
        size, half = properties.pop(field.name + SIZE, None), properties.pop(field.name + HALF, None)
        plain = _without_ids(field)
        if size is not None:
            plain = _vector(plain, size, half)
        elif half is not None:
            raise InvalidArgument(f"{field.name}{HALF} is for vectors", hint=f"set {field.name}{SIZE} too")
        fields.append(plain)
    unknown = next((key for key in properties if key.endswith((SIZE, HALF))), None)
    if unknown is not None:
        raise InvalidArgument(f"property {unknown} names no column", hint="begin it with the name of a column")
    return pa.schema(fields), properties


def _vector(field: pa.Field, size: str, half: str | None) -> pa.Field:
    if not pa.types.is_list(field.type) or not size.isdecimal() or int(size) < 1:
        raise InvalidArgument(
            f"{field.name}{SIZE} is {size!r} for a column of type {field.type}",
            hint="the column is an ARRAY, and the size a number",
        )
    values = field.type.value_type
    if half is not None and half.lower() == "true":
        if not pa.types.is_float32(values):
            raise InvalidArgument(f"{field.name}{HALF} is for arrays of FLOAT", hint="declare it ARRAY<FLOAT>")
        values = pa.float16()
    return field.with_type(pa.list_(pa.field("item", values), int(size)))


def _without_ids(field: pa.Field) -> pa.Field:
    """The field, without the numbers that other formats' files go by."""
    metadata = {key: text for key, text in (field.metadata or {}).items() if key != FIELD_ID_KEY}
    return pa.field(field.name, _plain(field.type), field.nullable, metadata or None)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_without_ids(inner) for inner in kind])
    if pa.types.is_list(kind):
        return pa.list_(_without_ids(kind.value_field).with_name("item"))
    if pa.types.is_map(kind):
        return pa.map_(_without_ids(kind.key_field), _without_ids(kind.item_field))
    return kind
