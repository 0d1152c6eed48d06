"""Values of a file as values of the table's type: the promotions the format allows, and other spellings of one type.

>>> from frazil.model.types import LongType
>>> promote(pa.array([1, None], pa.int32()), LongType()).type
DataType(int64)
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import MalformedData
from frazil.model.arrow import type_to_arrow
from frazil.model.types import DateType, TimestampNsType, TimestampType, Type, UuidType

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def promote(array: pa.Array, type_: Type) -> pa.Array:
    """The array as `type_to_arrow(type_)`; MalformedData when the file's type is not one that may become it."""
    target = type_to_arrow(type_)
    if array.type == target:
        return array
    if isinstance(array, pa.ExtensionArray):
        return promote(array.storage, type_)
    if pa.types.is_dictionary(array.type):
        return promote(array.dictionary_decode(), type_)
    source = array.type
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if isinstance(type_, UuidType):
        if not (pa.types.is_binary(source) or source == target.storage_type):
            raise _unpromotable(source, type_)
        return pa.ExtensionArray.from_storage(target, array.cast(target.storage_type))
    if pa.types.is_timestamp(target):
        return _timestamps(array, type_, target)
    if not _allowed(source, target, type_):
        raise _unpromotable(source, type_)
    if pa.types.is_time(target) and source == pa.int64():
        return array.view(target)
    return array.cast(target)


def _allowed(source: pa.DataType, target: pa.DataType, type_: Type) -> bool:
    if pa.types.is_integer(target):
        return bool(pa.types.is_integer(source)) and source.bit_width <= target.bit_width
    if pa.types.is_floating(target):
        return bool(pa.types.is_floating(source)) and source.bit_width <= target.bit_width
    if pa.types.is_decimal(target):
        return (
            bool(pa.types.is_decimal(source)) and source.scale == target.scale and source.precision <= target.precision
        )
    if pa.types.is_time(target):
        return bool(pa.types.is_time(source)) or source == pa.int64()  # ORC keeps times as longs
    if isinstance(type_, DateType):
        return bool(pa.types.is_date(source))
    if pa.types.is_string(target) or pa.types.is_binary(target) or pa.types.is_fixed_size_binary(target):
        return any(
            accepts(source)
            for accepts in (
                pa.types.is_string,
                pa.types.is_large_string,
                pa.types.is_string_view,
                pa.types.is_binary,
                pa.types.is_large_binary,
                pa.types.is_binary_view,
                pa.types.is_fixed_size_binary,
            )
        )
    return False


def _timestamps(array: pa.Array, type_: Type, target: pa.TimestampType) -> pa.Array:
    """From dates, checked for range, and from timestamps of another unit. A zone in the file means nothing."""
    if pa.types.is_date(array.type):
        if not isinstance(type_, TimestampType | TimestampNsType):
            raise _unpromotable(array.type, type_)
        days = array.cast(pa.date32()).view(pa.int32()).cast(pa.int64())
        per_day = pa.scalar(86_400 * _PER_SECOND[target.unit], pa.int64())
        try:
            return pc.multiply_checked(days, per_day).view(target)
        except pa.ArrowInvalid as error:
            raise MalformedData(
                f"a date is outside the range of {type_}, to which the column was promoted",
                hint="promote the column to timestamp, not timestamp_ns, or rewrite the file",
            ) from error
    if not pa.types.is_timestamp(array.type):
        raise _unpromotable(array.type, type_)
    have, want = _PER_SECOND[array.type.unit], _PER_SECOND[target.unit]
    values = array.view(pa.int64())
    if have < want:
        values = pc.multiply_checked(values, pa.scalar(want // have, pa.int64()))
    elif have > want:
        values = floor_divide(values, have // want)
    return values.view(target)


def floor_divide(values: pa.Array, divisor: int) -> pa.Array:
    """Whole quotients, rounded down also below zero: a timestamp before 1970 keeps its second."""
    by = pa.scalar(divisor, pa.int64())
    quotient = pc.divide(values, by)
    inexact = pc.and_(pc.less(values, pa.scalar(0, pa.int64())), pc.not_equal(pc.multiply(quotient, by), values))
    return pc.subtract(quotient, inexact.cast(pa.int64()))


def _unpromotable(source: pa.DataType, type_: Type) -> MalformedData:
    return MalformedData(f"{source} in the file cannot be read as {type_}", hint="the file does not fit the schema")
