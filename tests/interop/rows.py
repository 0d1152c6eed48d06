"""Rows of any reader in one form, so that multisets of them can be compared.

Nothing of the library's own value code is used here: a mistake there would make both sides equal.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa

from frazil.model import types as t
from frazil.model.schema import Schema

_AS_THEY_ARE = t.BooleanType | t.IntegerType | t.LongType | t.StringType
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_MICROSECOND = {"s": 1_000_000, "ms": 1_000, "us": 1}


def bag(rows: pa.Table | Iterable[Mapping[str, Any]], schema: Schema) -> Counter[tuple[Any, ...]]:
    """Rows as a multiset of tuples, columns by name in the order of the schema."""
    if isinstance(rows, pa.Table):
        assert set(rows.column_names) == set(schema.columns), "other columns"
        columns = [
            rows.column(column.name).to_pylist()
            if isinstance(column.type, _AS_THEY_ARE)
            else [plain(column.type, cell) for cell in rows.column(column.name)]
            for column in schema.fields
        ]
        return Counter(zip(*columns, strict=True))
    return Counter(tuple(plain(column.type, row.get(column.name)) for column in schema.fields) for row in rows)


def plain(type_: t.Type, value: Any) -> Any:
    """One value, from an Arrow scalar or from Python, in a form with an equality that tells all values apart."""
    if isinstance(value, pa.Scalar):
        if not value.is_valid:
            return None
        if isinstance(value, pa.ExtensionScalar):
            value = value.value
        if isinstance(value, pa.TimestampScalar):
            return _stamp(type_, value)
        if isinstance(value, pa.StructScalar) and not isinstance(type_, t.MapType):
            value = dict(value)
        elif isinstance(value, pa.ListScalar | pa.LargeListScalar | pa.MapScalar | pa.FixedSizeListScalar):
            value = [] if value.values is None else list(value.values)
        elif not isinstance(value, pa.StructScalar):
            value = value.as_py()
    if value is None:
        return None
    match type_:
        case t.StructType():
            return tuple(plain(column.type, value.get(column.name)) for column in type_.fields)
        case t.ListType():
            return tuple(plain(type_.element.type, item) for item in value)
        case t.MapType():
            pairs = [_pair(item) for item in (value.items() if isinstance(value, Mapping) else value)]
            return tuple(
                sorted(((plain(type_.key.type, key), plain(type_.value.type, item)) for key, item in pairs), key=repr)
            )
        case t.FloatType():
            return struct.pack(">f", value) if value == value else "NaN"
        case t.DoubleType():
            return struct.pack(">d", value) if value == value else "NaN"
        case t.UuidType():
            return (UUID(bytes=value) if isinstance(value, bytes) else UUID(str(value))).hex
        case t.TimestampType() | t.TimestamptzType() | t.TimestampNsType() | t.TimestamptzNsType():
            return _micros(value) * (1000 if isinstance(type_, t.TimestampNsType | t.TimestamptzNsType) else 1)
        case t.DecimalType():
            return str(value)
    assert isinstance(value, bool | int | str | bytes | date | time), type(value)
    return value


def _pair(item: Any) -> tuple[Any, Any]:
    if isinstance(item, pa.StructScalar):
        return item[0], item[1]
    return item


def _micros(value: datetime) -> int:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def _stamp(type_: t.Type, value: pa.TimestampScalar) -> int:
    """Microseconds, or nanoseconds for the types that have them; the zone must be there or not, as the type says."""
    assert (value.type.tz is not None) == isinstance(type_, t.TimestamptzType | t.TimestamptzNsType), value.type
    nanos = value.value if value.type.unit == "ns" else value.value * _PER_MICROSECOND[value.type.unit] * 1000
    if isinstance(type_, t.TimestampNsType | t.TimestamptzNsType):
        return nanos
    assert nanos % 1000 == 0
    return nanos // 1000
