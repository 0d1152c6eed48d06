"""A schema of Frazil's model as Lance has it: in Arrow's types, without the numbers that other formats' files go by."""

from __future__ import annotations

import pyarrow as pa

from frazil.errors import InvalidSchema
from frazil.model.arrow import FIELD_ID_KEY, TYPE_KEY, schema_to_arrow
from frazil.model.schema import Schema


def plain_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a Lance table with these columns; InvalidSchema for types that Lance cannot hold."""
    return pa.schema([_plain_field(field, field.name) for field in schema_to_arrow(schema)])


def _plain_field(field: pa.Field, path: str) -> pa.Field:
    kept = dict(field.metadata or {})
    kept.pop(FIELD_ID_KEY, None)
    if TYPE_KEY in kept:
        raise InvalidSchema(
            f"column {path!r} is of type {kept[TYPE_KEY].decode()}, which Lance cannot hold",
            hint="leave the column out, or make it text or bytes",
        )
    return pa.field(field.name, _plain(field.type, path), field.nullable, kept or None)


def _plain(kind: pa.DataType, path: str) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(inner, f"{path}.{inner.name}") for inner in kind])
    if pa.types.is_list(kind):
        return pa.list_(_plain_field(kind.value_field, f"{path}.element").with_name("item"))
    if pa.types.is_map(kind):
        key, value = _plain_field(kind.key_field, f"{path}.key"), _plain_field(kind.item_field, f"{path}.value")
        return pa.map_(key, value)
    return kind
