"""Rows of an Arrow table in the value encoding of the golden tables (their README.md tells it)."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa

from frazil.model import types as t
from frazil.model.arrow import canonical_from_scalar
from frazil.model.schema import Schema
from frazil.model.values import to_json
from frazil.model.variant import Node, read_node


def encode_rows(table: pa.Table, schema: Schema) -> list[dict[str, Any]]:
    """Every row as an object by column name."""
    columns = {
        column.name: [encode(column.type, value) for value in table.column(index)]
        for index, column in enumerate(schema.fields)
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def encode(type_: t.Type, scalar: pa.Scalar) -> Any:
    """One value."""
    if not scalar.is_valid:
        return None
    if isinstance(type_, t.StructType):
        return {column.name: encode(column.type, scalar[index]) for index, column in enumerate(type_.fields)}
    if isinstance(type_, t.ListType):
        return [encode(type_.element.type, item) for item in scalar.values]
    if isinstance(type_, t.MapType):
        keys, items = scalar.values.field(0), scalar.values.field(1)
        pairs = [
            [encode(type_.key.type, key), encode(type_.value.type, item)] for key, item in zip(keys, items, strict=True)
        ]
        return sorted(pairs, key=lambda pair: json.dumps(pair[0]))
    if isinstance(type_, t.VariantType):
        return encode_variant(read_node(scalar[0].as_py(), scalar[1].as_py()))
    value = canonical_from_scalar(type_, scalar)
    if isinstance(type_, t.FloatType | t.DoubleType):
        return encode_float(value)
    if isinstance(type_, t.GeometryType | t.GeographyType | t.BinaryType | t.FixedType):
        return value.hex()
    return to_json(type_, value)


def encode_float(value: float) -> Any:
    """A number, or the word for what JSON lacks."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def encode_variant(node: Node) -> dict[str, Any]:
    """A variant as physical type and value."""
    kind, value = node
    if kind == "object":
        value = {name: encode_variant(inner) for name, inner in value.items()}
    elif kind == "array":
        value = [encode_variant(inner) for inner in value]
    elif kind in _TYPES:
        value = to_json(_TYPES[kind], value)
    elif kind == "binary":
        value = value.hex()
    elif kind in ("float", "double"):
        value = encode_float(value)
    elif kind.startswith("decimal"):
        value = f"{value:f}"
    return {"t": kind} if kind == "null" else {"t": kind, "v": value}


_TYPES = {
    "date": t.DateType(),
    "time": t.TimeType(),
    "timestamptz": t.TimestamptzType(),
    "timestampntz": t.TimestampType(),
    "timestamptz_nanos": t.TimestamptzNsType(),
    "timestampntz_nanos": t.TimestampNsType(),
    "uuid": t.UuidType(),
}
