"""hypothesis strategies for canonical values of every type, and their Arrow types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UuidType,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


def decimals(type_: DecimalType) -> st.SearchStrategy[Decimal]:
    limit = 10**type_.precision - 1
    return st.integers(-limit, limit).map(
        lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -type_.scale))
    )


DECIMAL_TYPES = [DecimalType(9, 2), DecimalType(18, 4), DecimalType(38, 10), DecimalType(38, 0), DecimalType(5, -3)]
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    IntegerType(): INT32,
    LongType(): INT64,
    FloatType(): st.floats(width=32, allow_nan=False),
    DoubleType(): st.floats(allow_nan=False),
    DateType(): INT32,
    TimeType(): st.integers(0, 86_399_999_999),
    TimestampType(): INT64,
    TimestamptzType(): INT64,
    TimestampNsType(): INT64,
    TimestamptzNsType(): INT64,
    StringType(): TEXT,
    UuidType(): st.binary(min_size=16, max_size=16),
    FixedType(5): st.binary(min_size=5, max_size=5),
    BinaryType(): st.binary(max_size=40),
    **{type_: decimals(type_) for type_ in DECIMAL_TYPES},
}

ARROW: dict[Type, pa.DataType] = {
    BooleanType(): pa.bool_(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    FloatType(): pa.float32(),
    DoubleType(): pa.float64(),
    DateType(): pa.date32(),
    TimeType(): pa.time64("us"),
    TimestampType(): pa.timestamp("us"),
    TimestamptzType(): pa.timestamp("us", "UTC"),
    TimestampNsType(): pa.timestamp("ns"),
    TimestamptzNsType(): pa.timestamp("ns", "UTC"),
    StringType(): pa.string(),
    UuidType(): pa.binary(16),
    FixedType(5): pa.binary(5),
    BinaryType(): pa.binary(),
    **{type_: pa.decimal128(type_.precision, type_.scale) for type_ in DECIMAL_TYPES},
}


def arrow_array(type_: Type, values: list[Any]) -> pa.Array:
    """Canonical values as an Arrow array."""
    target = ARROW[type_]
    if pa.types.is_temporal(target):
        return pa.array(values, pa.int32() if target.bit_width == 32 else pa.int64()).view(target)
    return pa.array(values, target)


def arrow_values(array: pa.Array) -> list[Any]:
    """The canonical values of an Arrow array."""
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return array.to_pylist()
