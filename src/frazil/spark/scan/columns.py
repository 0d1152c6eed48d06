"""Columns of one value per file, packed into the byte string that the JVM's FrazilColumns takes apart.

Little endian: whether there are nulls (a byte), then a byte per value that says whether it is there, then the values:
numbers as they are, text and bytes as offsets and characters, structs as their fields one after the other.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg.entries import storage_arrow
from frazil.model.types import StructType, TimeType, Type, UnknownType, UuidType
from frazil.spark.scan.spark_arrow import uuid_text

_NANOS_PER_MICRO = 1000


def pack(array: pa.Array) -> bytes:
    """One column.

    >>> pack(pa.array([1, None], pa.int32())).hex()
    '0101000100000000000000'
    """
    nulls = b"\0"
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        nulls = b"\1" + valid.astype(np.uint8).tobytes()
    return nulls + _values(array)


def _values(array: pa.Array) -> bytes:
    kind = array.type
    if pa.types.is_struct(kind):
        return b"".join(pack(child) for child in array.flatten())
    if pa.types.is_fixed_size_binary(kind):
        array = array.cast(pa.binary())
        kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        array = pc.fill_null(array, b"" if pa.types.is_binary(kind) else "")
        _, offsets, data = array.buffers()
        ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        text = b"" if data is None else memoryview(data)[int(ends[0]) : int(ends[-1])]
        starts: bytes = (ends - ends[0]).astype("<i4").tobytes()
        return starts + bytes(text)
    if pa.types.is_decimal(kind):
        array = pa.concat_arrays([array])
        start = array.offset * 16
        return bytes(memoryview(array.buffers()[1])[start : start + len(array) * 16])
    if pa.types.is_boolean(kind):
        flags: bytes = pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(np.uint8).tobytes()
        return flags
    if pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        array = array.cast(pa.int64())
    numbers: bytes = pc.fill_null(array, 0).to_numpy(zero_copy_only=False).tobytes()
    return numbers


def to_spark(array: pa.Array, type_: Type) -> pa.Array:
    """Values of a partition as Spark holds values of that type: uuids as text, times as nanoseconds."""
    if isinstance(type_, StructType):
        parts = [to_spark(child, field.type) for child, field in zip(array.flatten(), type_.fields, strict=True)]
        return pa.StructArray.from_arrays(parts, names=[field.name for field in type_.fields])
    if isinstance(type_, UnknownType):
        return pa.nulls(len(array), pa.int64())
    wanted = storage_arrow(type_)
    if array.type != wanted:
        array = pa.nulls(len(array), wanted) if array.null_count == len(array) else array.cast(wanted)
    if isinstance(type_, UuidType):
        return uuid_text(array)
    if isinstance(type_, TimeType):
        return pc.multiply(array.cast(pa.int64()), _NANOS_PER_MICRO)
    return array
