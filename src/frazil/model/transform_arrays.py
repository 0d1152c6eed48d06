"""Transforms of whole Arrow arrays, without Python code per row. Called through `Transform.apply_array`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidValue
from frazil.model import murmur3
from frazil.model.bounds import BinaryView
from frazil.model.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from frazil.model.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    LongType,
    StringType,
    TimestampNsType,
    TimestamptzNsType,
    TimeType,
    Type,
    UuidType,
)
from frazil.model.values import timestamp_digits

Array = npt.NDArray[Any]


def apply_chunked(transform: Transform, type_: Type, array: Any) -> Any:
    """Apply to an array, to each chunk of a chunked one, or to the dictionary of a dictionary array."""
    if isinstance(array, pa.ChunkedArray):
        chunks = [apply_chunked(transform, type_, chunk) for chunk in array.chunks]
        if not chunks:
            return pa.chunked_array([apply_chunked(transform, type_, pa.array([], array.type))])
        return pa.chunked_array(chunks)
    if pa.types.is_dictionary(array.type):
        return apply_chunked(transform, type_, array.dictionary).take(array.indices)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    try:
        return _apply(transform, type_, array)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidValue(f"an array of {array.type} is not a column of {type_}", hint="cast it first") from error


def _apply(transform: Transform, type_: Type, array: pa.Array) -> pa.Array:
    if isinstance(transform, VoidTransform):
        return pa.nulls(len(array), array.type)
    if isinstance(transform, BucketTransform):
        hashes = hash_array(type_, array)
        return _with_nulls((hashes & np.int32(2**31 - 1)) % np.int32(transform.buckets), array)
    if isinstance(transform, TruncateTransform):
        return _truncate(type_, array, transform.width)
    if isinstance(transform, HourTransform):
        hours = _integers(type_, array) // (3600 * 10 ** timestamp_digits(type_))
        return _with_nulls(hours.astype(np.int32), array)
    if isinstance(transform, YearTransform | MonthTransform | DayTransform):
        return _dates(transform, type_, array)
    return array


def hash_array(type_: Type, array: pa.Array) -> Array:
    """The hash (int32) of every value; whatever for nulls."""
    if isinstance(type_, StringType | BinaryType):
        view = _binary_view(array)
        return murmur3.hash_slices(view.data, view.starts, np.where(view.valid, view.lengths, 0))
    if isinstance(type_, UuidType | FixedType):
        width = type_.length if isinstance(type_, FixedType) else 16
        if not pa.types.is_fixed_size_binary(array.type):
            array = array.cast(pa.binary(width))
        starts = (array.offset + np.arange(len(array), dtype=np.int64)) * width
        return murmur3.hash_slices(_bytes_of(array), starts, np.full(len(array), width))
    if isinstance(type_, DecimalType):
        return _hash_decimals(_decimal_words(type_, array))
    values = _integers(type_, array)
    if isinstance(type_, TimestampNsType | TimestamptzNsType):
        values = values // 1000
    return murmur3.hash_longs(values)


def _hash_decimals(words: Array) -> Array:
    """Hash 128-bit integers by the fewest big-endian bytes that hold each."""
    big_endian = np.ascontiguousarray(words.view(np.uint8).reshape(-1, 16)[:, ::-1])
    sign = np.where(big_endian[:, :1] >= 128, np.uint8(255), np.uint8(0))
    magnitude = big_endian ^ sign
    first = np.where(magnitude.any(axis=1), (magnitude != 0).argmax(axis=1), 15)
    # the first byte must also hold the sign bit
    rows = np.arange(len(big_endian))
    first -= (magnitude[rows, first] >= 128) & (first > 0)
    return murmur3.hash_slices(big_endian.reshape(-1), rows * 16 + first, 16 - first)


def _truncate(type_: Type, array: pa.Array, width: int) -> pa.Array:
    if isinstance(type_, StringType):
        return pc.utf8_slice_codeunits(array, 0, width)
    if isinstance(type_, BinaryType):
        return pc.binary_slice(array, 0, width)
    if isinstance(type_, DecimalType):
        return _truncate_decimals(type_, array, width)
    values = _integers(type_, array)
    if isinstance(type_, IntegerType):
        values = values.astype(np.int32)
    return _with_nulls(values - np.mod(values, values.dtype.type(width)), array).cast(array.type, safe=False)


def _truncate_decimals(type_: DecimalType, array: pa.Array, width: int) -> pa.Array:
    words = _decimal_words(type_, array)
    low, high = words[:, 0], words[:, 1].view(np.int64)
    # remainder of a 128-bit number, 32 bits at a time: width < 2**31, so nothing overflows
    rest = np.mod(high, np.int64(width))
    for part in (low >> np.uint64(32), low & np.uint64(0xFFFFFFFF)):
        rest = ((rest << np.int64(32)) + part.astype(np.int64)) % np.int64(width)
    taken = rest.astype(np.uint64)
    result = np.empty_like(words)
    result[:, 0] = low - taken
    result[:, 1] = (high - (low < taken)).view(np.uint64)
    mask = pa.py_buffer(np.packbits(_valid(array), bitorder="little").tobytes())
    arrow_type = pa.decimal128(type_.precision, type_.scale)
    return pa.Array.from_buffers(arrow_type, len(array), [mask, pa.py_buffer(result.tobytes())])


def _dates(transform: Transform, type_: Type, array: pa.Array) -> pa.Array:
    days = _integers(type_, array)
    if not isinstance(type_, DateType):
        days = days // (86_400 * 10 ** timestamp_digits(type_))
    if isinstance(transform, DayTransform):
        return _with_nulls(days.astype(np.int32), array).view(pa.date32())
    unit = "Y" if isinstance(transform, YearTransform) else "M"
    parts = days.astype("datetime64[D]").astype(f"datetime64[{unit}]").astype(np.int64)
    return _with_nulls(parts.astype(np.int32), array)


def _integers(type_: Type, array: pa.Array) -> Array:
    """The values as int64 in the type's own unit; whatever for nulls."""
    if isinstance(type_, IntegerType | LongType):
        array = array.cast(pa.int64())
    elif isinstance(type_, DateType):
        array = array.cast(pa.date32()).view(pa.int32()).cast(pa.int64())
    elif isinstance(type_, TimeType):
        array = array.cast(pa.time64("us")).view(pa.int64())
    else:
        if not pa.types.is_timestamp(array.type):
            raise pa.ArrowTypeError(str(array.type))
        unit = "ns" if timestamp_digits(type_) == 9 else "us"
        array = array.cast(pa.timestamp(unit, array.type.tz)).view(pa.int64())
    values = array.fill_null(0) if array.null_count else array
    numbers: Array = values.to_numpy(zero_copy_only=False)
    return numbers


def _decimal_words(type_: DecimalType, array: pa.Array) -> Array:
    """Decimals as pairs of 64-bit words, low first; whatever for nulls."""
    array = array.cast(pa.decimal128(type_.precision, type_.scale))
    words = np.frombuffer(_bytes_of(array), "<u8").reshape(-1, 2)
    return words[array.offset : array.offset + len(array)]


def _binary_view(array: pa.Array) -> BinaryView:
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return BinaryView(array)
    return BinaryView(array if pa.types.is_large_binary(kind) else array.cast(pa.large_binary()))


def _bytes_of(array: pa.Array) -> Array:
    buffer = array.buffers()[1]
    return np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _valid(array: pa.Array) -> Array:
    valid: Array = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _with_nulls(values: Array, array: pa.Array) -> pa.Array:
    return pa.array(values, mask=~_valid(array)) if array.null_count else pa.array(values)


def sortable(array: Any) -> Any:
    """An array that Arrow sorts as the specification wants: floats by their total order, uuids by their bytes."""
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([sortable(chunk) for chunk in array.chunks] or [sortable(pa.array([], array.type))])
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.int8())
    if pa.types.is_floating(array.type):
        # as integers, negative floats sort backwards: turn their bits over, except the sign
        bits = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).view(np.int64)
        return _with_nulls(bits ^ ((bits >> np.int64(63)) & np.int64(2**63 - 1)), array)
    return array
