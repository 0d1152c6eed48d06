"""The column `readable_metrics`: for every primitive column of the table what the metrics of a file say of it."""

from __future__ import annotations

import math
import struct
from itertools import count, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidValue
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries
from frazil.iceberg.metadata_tables.arrow_arrays import struct_of
from frazil.model.bounds import decode_bounds
from frazil.model.geo import geo_bound_from_bytes
from frazil.model.schema import Schema
from frazil.model.types import FixedType, GeographyType, GeometryType, LongType, NestedField, StructType, Type

_COUNTS = {
    "column_size": ids.COLUMN_SIZES,
    "value_count": ids.VALUE_COUNTS,
    "null_value_count": ids.NULL_COUNTS,
    "nan_value_count": ids.NAN_COUNTS,
}
_BOUNDS = {"lower_bound": ids.LOWER_BOUNDS, "upper_bound": ids.UPPER_BOUNDS}
_WKB_POINT, _WKB_Z, _WKB_M = 1, 1000, 2000


def readable_metrics_field(schema: Schema, highest_id: int) -> NestedField:
    """The column for a table of that schema; its ids follow the highest one in use."""
    numbers = count(highest_id + 1)
    columns = []
    for name, column in _measured(schema).items():
        number = next(numbers)
        counts = [NestedField(next(numbers), metric, LongType()) for metric in _COUNTS]
        bounds = [NestedField(next(numbers), metric, column.type) for metric in _BOUNDS]
        columns.append(NestedField(number, name, StructType((*counts, *bounds))))
    columns.sort(key=lambda column: column.name)
    return NestedField(next(numbers), "readable_metrics", StructType(tuple(columns)))


def readable_metrics(entries: Entries, schema: Schema, type_: pa.StructType) -> pa.Array:
    """The column for some entries; `type_` is its Arrow type."""
    if not type_.num_fields:
        return pa.Array.from_buffers(type_, len(entries), [None])
    maps = {number: MapIndex(entries.column(number)) for number in (*_COUNTS.values(), *_BOUNDS.values())}
    columns = {}
    for name, column in _measured(schema).items():
        metrics = {metric: maps[number].values(column.id) for metric, number in _COUNTS.items()}
        for metric, number in _BOUNDS.items():
            metrics[metric] = readable_bounds(column.type, maps[number].values(column.id))
        columns[name] = struct_of(metrics, type_.field(name).type)
    return struct_of(columns, type_)


def readable_bounds(type_: Type, bounds: pa.Array) -> pa.Array:
    """Values of the type from stored bounds; null where a bound is missing or damaged."""
    values = decode_bounds(type_, bounds)
    if isinstance(type_, FixedType):
        # a bound may be cut short: filled up with zeros it bounds the same values
        filled = pc.binary_join_element_wise(values, bytes(type_.length), b"")
        return pc.binary_slice(filled, 0, type_.length).cast(pa.binary(type_.length))
    if isinstance(type_, GeometryType | GeographyType):
        return pa.array([_as_wkb(bound) for bound in values.to_pylist()], pa.binary())
    return values


def _measured(schema: Schema) -> dict[str, NestedField]:
    """The primitive columns at any depth by dotted name; a name that is used twice means the first."""
    found: dict[str, NestedField] = {}
    for column in schema.all_fields():
        if column.type.is_primitive:
            found.setdefault(schema.name_of(column.id) or column.name, column)
    return found


def _as_wkb(bound: bytes | None) -> bytes | None:
    """The corner of a bounding box, which is stored as bare numbers, as a point."""
    if bound is None:
        return None
    try:
        x, y, z, m = geo_bound_from_bytes(bound)
    except InvalidValue:
        return None
    extra = [(kind, value) for kind, value in ((_WKB_Z, z), (_WKB_M, m)) if value is not None and not math.isnan(value)]
    kind = _WKB_POINT + sum(part for part, _ in extra)
    return struct.pack(f"<BI{2 + len(extra)}d", 1, kind, x, y, *(value for _, value in extra))


class MapIndex:
    """A column of maps, sorted by key once: then the values of any key are found without a search of all.

    >>> maps = pa.array([[(1, 10), (2, 20)], None, [(2, 30)]], pa.map_(pa.int32(), pa.int64()))
    >>> MapIndex(maps).values(2).to_pylist()
    [20, None, 30]
    """

    def __init__(self, maps: pa.Array) -> None:
        offsets = maps.offsets.to_numpy()
        keys = maps.keys.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
        if len(keys) and keys.min() >= 0 and keys.max() < 1 << 16:
            keys = keys.astype(np.uint16)  # numpy sorts these in linear time
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] ^ 1))  # what is before differs from the first
        self._spans = dict(zip(ordered[starts].tolist(), pairwise([*starts.tolist(), len(ordered)]), strict=True))
        self._size = len(maps)
        self._rows = np.repeat(np.arange(len(maps)), np.diff(offsets))[order]
        self._positions = order + offsets[0]
        self._items = maps.items

    def values(self, key: int) -> pa.Array:
        """For each map the value under the key, null where there is none."""
        first, last = self._spans.get(key, (0, 0))
        where = np.full(self._size, -1, dtype=np.int64)
        where[self._rows[first:last]] = self._positions[first:last]
        return self._items.take(pa.array(where, mask=where < 0))
