"""Arrow arrays as Spark takes them: in the types that stand for the columns' types there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.model.arrow import rebuild_list, rebuild_map
from frazil.model.types import (
    BinaryType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNsType,
    TimestamptzNsType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
)

_HEX = np.frombuffer(bytes.fromhex("".join(f"{ord(c):02x}" for c in "0123456789abcdef")), np.uint8)
_DIGITS = np.array([i for i in range(36) if i not in (8, 13, 18, 23)])
_UUID_BYTES = 16
_TEXT_BYTES = 36


def for_spark(array: pa.Array, type_: Type) -> pa.Array:
    """Values of a column of that type as PySpark takes them.

    Uuids are text, fixed values bytes, times nanoseconds; timestamps with nanoseconds are text as well.
    """
    if isinstance(type_, UnknownType):
        return pa.nulls(len(array))
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(type_, StructType):
        return _struct(array, type_.fields)
    if isinstance(type_, ListType):
        values = for_spark(array.values, type_.element.type)
        return rebuild_list(array, values, pa.list_(pa.field("element", values.type)))
    if isinstance(type_, MapType):
        keys, items = for_spark(array.keys, type_.key.type), for_spark(array.items, type_.value.type)
        return rebuild_map(array, keys, items, pa.map_(keys.type, pa.field("value", items.type)))
    if isinstance(type_, UuidType):
        return uuid_text(array)
    if isinstance(type_, TimeType):
        return array.cast(pa.time64("ns"))
    if isinstance(type_, TimestampNsType | TimestamptzNsType):
        return array.cast(pa.string())
    if isinstance(type_, FixedType | BinaryType):
        return array.cast(pa.binary())
    if isinstance(type_, VariantType):
        return _variant(array)
    if isinstance(type_, GeometryType | GeographyType):
        return _geo(array, type_)
    return array


def _struct(array: pa.StructArray, fields: tuple[NestedField, ...]) -> pa.Array:
    parts = [for_spark(array.field(index), field.type) for index, field in enumerate(fields)]
    kinds = [pa.field(field.name, part.type) for field, part in zip(fields, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=kinds, mask=array.is_null() if array.null_count else None)


def _variant(array: pa.StructArray) -> pa.Array:
    names = [field.name for field in array.type]
    kinds = [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
    parts = [array.field(names.index(kind.name)).cast(pa.binary()).fill_null(b"") for kind in kinds]
    return pa.StructArray.from_arrays(parts, fields=kinds, mask=array.is_null() if array.null_count else None)


def _geo(array: pa.Array, type_: GeometryType | GeographyType) -> pa.Array:
    srid = srid_of(type_.crs)
    word = "geometry" if isinstance(type_, GeometryType) else "geography"
    kinds = [
        pa.field("srid", pa.int32(), nullable=False),
        pa.field("wkb", pa.binary(), nullable=False, metadata={word: "true", "srid": str(srid)}),
    ]
    numbers = pa.array(np.full(len(array), srid, np.int32))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays([numbers, array.cast(pa.binary()).fill_null(b"")], fields=kinds, mask=mask)


def srid_of(crs: str) -> int:
    """The number of a coordinate system, as Spark names it."""
    authority, _, number = crs.partition(":")
    known = {"OGC:CRS84": 4326, "SRID:ANY": -1}
    return known.get(crs.upper(), int(number) if authority.upper() in ("EPSG", "SRID") and number.isdigit() else 0)


def uuid_text(array: pa.Array) -> pa.Array:
    """Uuids, 16 bytes each, as text.

    >>> uuid_text(pa.array([bytes(range(16)), None], pa.binary(16))).to_pylist()
    ['00010203-0405-0607-0809-0a0b0c0d0e0f', None]
    """
    plain = array.cast(pa.binary(_UUID_BYTES))
    start = plain.offset * _UUID_BYTES
    data = np.frombuffer(plain.buffers()[1], np.uint8)[start : start + len(plain) * _UUID_BYTES]
    text = np.full((len(plain), _TEXT_BYTES), ord("-"), np.uint8)
    pairs = np.stack([_HEX[data >> 4], _HEX[data & 15]], axis=1)
    text[:, _DIGITS] = pairs.reshape(len(plain), 2 * _UUID_BYTES)
    ends = pa.py_buffer(np.arange(0, (len(plain) + 1) * _TEXT_BYTES, _TEXT_BYTES, dtype=np.int32))
    made = pa.StringArray.from_buffers(len(plain), ends, pa.py_buffer(text.tobytes()))
    return made if not plain.null_count else pa.compute.if_else(plain.is_valid(), made, pa.scalar(None, pa.string()))
