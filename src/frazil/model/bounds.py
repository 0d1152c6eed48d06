"""Bounds of columns as manifests store them, decoded a whole array at once.

Every length that a promoted type may have left behind is understood; anything else is null, that is: unknown.

>>> from frazil.model.types import LongType
>>> decode_bounds(LongType(), pa.array([b"\\x05\\x00\\x00\\x00", b"\\xff" * 8, b"?", None])).to_pylist()
[5, -1, None, None]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from frazil.errors import InvalidValue
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
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
    VariantType,
)
from frazil.model.values import timestamp_digits

Array = npt.NDArray[Any]

# Type -> (Arrow type, the width of its bounds, what a bound is read as)
_FIXED_WIDTH: dict[type[Type], tuple[pa.DataType, int, str]] = {
    BooleanType: (pa.bool_(), 1, "u1"),
    IntegerType: (pa.int32(), 4, "<i4"),
    LongType: (pa.int64(), 8, "<i8"),
    FloatType: (pa.float32(), 4, "<f4"),
    DoubleType: (pa.float64(), 8, "<f8"),
    DateType: (pa.date32(), 4, "<i4"),
    TimeType: (pa.time64("us"), 8, "<i8"),
    TimestampType: (pa.timestamp("us"), 8, "<i8"),
    TimestamptzType: (pa.timestamp("us", "UTC"), 8, "<i8"),
    TimestampNsType: (pa.timestamp("ns"), 8, "<i8"),
    TimestamptzNsType: (pa.timestamp("ns", "UTC"), 8, "<i8"),
}
# Types that may hold bounds of a narrower one
_PROMOTED: dict[type[Type], str] = {LongType: "<i4", DoubleType: "<f4", TimestampType: "<i4", TimestampNsType: "<i4"}


class BinaryView:
    """numpy's view of an Arrow array of byte strings: where each starts, how long it is, which are not null."""

    __slots__ = ("data", "lengths", "starts", "valid")

    def __init__(self, array: pa.Array) -> None:
        large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
        _, offsets_buffer, data_buffer = array.buffers()
        dtype = "<i8" if large else "<i4"
        if len(array) == 0 or offsets_buffer is None:
            offsets: Array = np.zeros(len(array) + 1, dtype)
        else:
            offsets = np.frombuffer(offsets_buffer, dtype)[array.offset : array.offset + len(array) + 1]
        self.starts = offsets[:-1].astype(np.int64)
        self.lengths = np.diff(offsets)
        self.data: Array = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
        self.valid: Array = np.ones(len(array), bool)
        if array.null_count:
            self.valid = array.is_valid().to_numpy(zero_copy_only=False)

    def gather(self, rows: Array, width: int) -> Array:
        """The bytes of some rows, all `width` long, one row each."""
        starts = self.starts[rows]
        if len(starts) == 0 or width == 0:
            return np.zeros((len(starts), width), np.uint8)
        if starts[-1] - starts[0] == width * (len(starts) - 1) and bool((np.diff(starts) == width).all()):
            return self.data[starts[0] : starts[0] + width * len(starts)].reshape(-1, width)
        picked: Array = self.data[starts[:, None] + np.arange(width)]
        return picked


def decode_bounds(type_: Type, bounds: pa.Array) -> pa.Array:
    """An array of the type's values from an array of bound bytes; uuids, geometries and variants stay bytes."""
    if isinstance(bounds, pa.ChunkedArray):
        bounds = bounds.combine_chunks()
    if not (pa.types.is_binary(bounds.type) or pa.types.is_large_binary(bounds.type)):
        if not pa.types.is_null(bounds.type):
            raise InvalidValue(f"bounds are {bounds.type}, not binary", hint="read them as bytes")
        bounds = bounds.cast(pa.binary())
    if type(type_) in _FIXED_WIDTH:
        return _decode_fixed_width(type_, BinaryView(bounds))
    if isinstance(type_, DecimalType):
        return _decode_decimals(type_, BinaryView(bounds))
    if isinstance(type_, StringType):
        return _decode_strings(bounds)
    if isinstance(type_, UuidType):
        view = BinaryView(bounds)
        rows = np.flatnonzero(view.valid & (view.lengths == 16))
        values = np.zeros((len(bounds), 16), np.uint8)
        values[rows] = view.gather(rows, 16)
        return _from_bytes_matrix(pa.binary(16), values, rows)
    if isinstance(type_, FixedType):
        view = BinaryView(bounds)
        return pa.compute.if_else(pa.array(view.lengths <= type_.length), bounds, pa.scalar(None, bounds.type))
    if isinstance(type_, BinaryType | GeometryType | GeographyType | VariantType):
        return bounds
    return pa.nulls(len(bounds))


def _decode_fixed_width(type_: Type, view: BinaryView) -> pa.Array:
    arrow_type, width, dtype = _FIXED_WIDTH[type(type_)]
    rows = np.flatnonzero(view.valid & (view.lengths == width))
    values: Array = np.zeros(len(view.valid), dtype)
    values[rows] = view.gather(rows, width).copy().view(dtype).reshape(-1)
    known = np.zeros(len(values), bool)
    known[rows] = True
    if type(type_) in _PROMOTED:
        narrow = np.flatnonzero(view.valid & (view.lengths == 4))
        found = view.gather(narrow, 4).copy().view(_PROMOTED[type(type_)]).reshape(-1).astype(dtype)
        if isinstance(type_, TimestampType | TimestampNsType):  # it was a date: days, of which not all fit
            per_day = 86_400 * 10 ** timestamp_digits(type_)
            fits = np.abs(found) <= (2**63 - 1) // per_day
            narrow, found = narrow[fits], found[fits] * per_day
        values[narrow] = found
        known[narrow] = True
    if isinstance(type_, BooleanType):
        return pa.array(values != 0, mask=~known)
    integers = pa.array(values, mask=~known)
    return integers if integers.type == arrow_type else integers.view(arrow_type)


def _decode_decimals(type_: DecimalType, view: BinaryView) -> pa.Array:
    possible = view.valid & (view.lengths >= 1) & (view.lengths <= 16)
    values = np.zeros((len(view.valid), 16), np.uint8)
    for length in np.unique(view.lengths[possible]).tolist():
        rows = np.flatnonzero(possible & (view.lengths == length))
        found = view.gather(rows, length)
        # Arrow wants 16 bytes, little-endian, filled up with the sign
        values[rows, :length] = found[:, ::-1]
        values[rows, length:] = np.where(found[:, :1] >= 128, np.uint8(255), np.uint8(0))
    return _from_bytes_matrix(pa.decimal128(type_.precision, type_.scale), values, np.flatnonzero(possible))


def _from_bytes_matrix(arrow_type: pa.DataType, values: Array, known_rows: Array) -> pa.Array:
    known = np.zeros(len(values), bool)
    known[known_rows] = True
    bitmap = pa.py_buffer(np.packbits(known, bitorder="little").tobytes())
    return pa.Array.from_buffers(arrow_type, len(values), [bitmap, pa.py_buffer(values.tobytes())])


def _decode_strings(bounds: pa.Array) -> pa.Array:
    target = pa.large_string() if pa.types.is_large_binary(bounds.type) else pa.string()
    try:
        return bounds.cast(target)
    except pa.ArrowInvalid:  # some bound is not UTF-8: find which, one by one
        return pa.array([_text_or_none(value) for value in bounds.to_pylist()], target)


def _text_or_none(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
