"""Column metrics of data files: counts and bounds by field id, gathered from the batches as they are written.

Only fields that are reached through structs have metrics, as in Java: a field inside a list or map has many values per
row, and no filter could use its bounds. Value counts include the rows whose parent struct is null.

>>> from frazil.model.types import LongType, NestedField
>>> schema = Schema((NestedField(1, "id", LongType()),))
>>> collector = MetricsCollector(schema, MetricsModes.of(schema, {}))
>>> collector.update(pa.record_batch({"id": pa.array([0, None, 7])}))
>>> metrics = collector.finish()
>>> metrics.null_value_counts, metrics.lower_bounds[1][0], metrics.upper_bounds[1][0]
({1: 1}, 0, 7)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidArgument
from frazil.model.arrow import canonical_from_scalar
from frazil.model.geo_bounds import BoundingBox
from frazil.model.schema import Schema
from frazil.model.types import (
    BinaryType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
    UnknownType,
    VariantType,
    children,
)
from frazil.model.values import to_bytes

DEFAULT_MODE = "truncate(16)"
_MODE_PREFIX = "write.metadata.metrics.column."
_TRUNCATE = re.compile(r"truncate\((\d+)\)")


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a manifest says about a data file. Bounds are in the binary single-value form."""

    record_count: int
    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """How much is kept for a column: counts at all, bounds, and of how many characters or bytes (None: whole)."""

    counts: bool
    bounds: bool
    length: int | None = None

    @classmethod
    def parse(cls, text: str) -> MetricsMode:
        """Read `none`, `counts`, `truncate(n)` or `full`."""
        plain = text.strip().lower()
        if plain in ("none", "counts", "full"):
            return cls(plain != "none", plain == "full")
        found = _TRUNCATE.fullmatch(plain)
        if found is None or int(found[1]) == 0:
            raise InvalidArgument(
                f"unknown metrics mode {text!r}", hint="use none, counts, truncate(16) or full", mode=text
            )
        return cls(True, True, int(found[1]))


NONE = MetricsMode(False, False)


@dataclass(frozen=True, slots=True)
class MetricsModes:
    """The metrics mode of each field, by id."""

    modes: Mapping[int, MetricsMode]

    def __getitem__(self, field_id: int) -> MetricsMode:
        return self.modes.get(field_id, NONE)

    @classmethod
    def of(cls, schema: Schema, properties: Mapping[str, str], sorted_by: Iterable[int] = ()) -> MetricsModes:
        """From table properties. Columns the table is sorted by (`sorted_by`, ids) have bounds by default."""
        given = properties.get("write.metadata.metrics.default")
        default = MetricsMode.parse(DEFAULT_MODE if given is None else given)
        modes = dict.fromkeys(schema.field_ids, default)
        limit = _whole(properties, "write.metadata.metrics.max-inferred-column-defaults", 100)
        if given is None and len(modes) > limit:
            modes = dict.fromkeys(_first_fields(schema.as_struct, limit), default)
        for number in sorted_by:
            if not modes.get(number, NONE).bounds:
                modes[number] = MetricsMode.parse(DEFAULT_MODE)
        for key, text in properties.items():
            if key.startswith(_MODE_PREFIX):
                column = schema.find_or_none(key.removeprefix(_MODE_PREFIX))
                if column is not None:  # a column that was dropped keeps its property
                    modes[column.id] = MetricsMode.parse(text)
        return cls(modes)


def _whole(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    try:
        return default if text is None else int(text)
    except ValueError as error:
        raise InvalidArgument(f"{key} is {text!r}, which is no number", hint=f"for example {default}") from error


def _first_fields(type_: Type, limit: int) -> list[int]:
    """The first fields that can have metrics: those of a struct before those inside it."""
    found: list[int] = []
    level = list(children(type_))
    while level and len(found) < limit:
        found += [column.id for column in level if not column.type.is_nested]
        level = [inner for column in level for inner in children(column.type)]
    return found[:limit]


class MetricsCollector:
    """Gathers metrics batch by batch. Batches have the columns of the schema, in its order."""

    def __init__(self, schema: Schema, modes: MetricsModes) -> None:
        self._rows = 0
        self._columns = [
            _Column(column, path, modes[column.id])
            for column, path in reachable_fields(schema.as_struct)
            if modes[column.id].counts
        ]

    def update(self, batch: pa.RecordBatch) -> None:
        """Take the rows of one more batch into account."""
        self._rows += batch.num_rows
        for column in self._columns:
            array = batch.column(column.path[0])
            if len(column.path) > 1:
                array = pc.struct_field(array, list(column.path[1:]))
            column.update(array)

    def finish(self, column_sizes: Mapping[int, int] | None = None) -> Metrics:
        """The metrics of all rows seen."""
        columns = self._columns
        return Metrics(
            self._rows,
            dict(column_sizes or {}),
            {column.field.id: self._rows for column in columns},
            {column.field.id: column.nulls for column in columns},
            {column.field.id: column.nans for column in columns if column.is_float},
            {column.field.id: data for column in columns if (data := column.lower_bound()) is not None},
            {column.field.id: data for column in columns if (data := column.upper_bound()) is not None},
        )


def reachable_fields(type_: StructType, path: tuple[int, ...] = ()) -> Iterator[tuple[NestedField, tuple[int, ...]]]:
    """The leaf fields reached through structs only, with their positions."""
    for index, column in enumerate(type_.fields):
        if isinstance(column.type, StructType):
            yield from reachable_fields(column.type, (*path, index))
        elif not isinstance(column.type, ListType | MapType | UnknownType):
            yield column, (*path, index)


class _Column:
    """Running counts and bounds of one column."""

    def __init__(self, column: NestedField, path: tuple[int, ...], mode: MetricsMode) -> None:
        self.field = column
        self.path = path
        self.mode = mode
        self.is_float = isinstance(column.type, FloatType | DoubleType)
        self.has_bounds = mode.bounds and not isinstance(column.type, VariantType | GeometryType | GeographyType)
        self.nulls = 0
        self.nans = 0
        self.low: Any = None
        self.high: Any = None
        # edges of a geography are curved, and its box is not that of its corners
        self.box = BoundingBox() if mode.bounds and isinstance(column.type, GeometryType) else None

    def update(self, array: pa.Array) -> None:
        self.nulls += array.null_count
        if self.is_float:
            self.nans += pc.sum(pc.is_nan(array)).as_py() or 0
        if self.box is not None:
            self.box.update(array)
        if not self.has_bounds:
            return
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        found = pc.min_max(array)
        low, high = (canonical_from_scalar(self.field.type, found[part]) for part in ("min", "max"))
        if low is None or (self.is_float and math.isnan(low)):
            return
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def lower_bound(self) -> bytes | None:
        return self.box.lower() if self.box is not None else lower_bound(self.field.type, self.low, self.mode)

    def upper_bound(self) -> bytes | None:
        return self.box.upper() if self.box is not None else upper_bound(self.field.type, self.high, self.mode)


def lower_bound(type_: Type, value: Any, mode: MetricsMode) -> bytes | None:
    """The bytes of a lower bound: cut to the mode's length, zero as -0.0."""
    if value is None:
        return None
    if isinstance(type_, FloatType | DoubleType) and value == 0:
        value = -0.0
    if mode.length is not None and isinstance(type_, StringType | BinaryType):
        value = value[: mode.length]
        return value.encode() if isinstance(value, str) else bytes(value)
    return to_bytes(type_, value)


def upper_bound(type_: Type, value: Any, mode: MetricsMode) -> bytes | None:
    """The bytes of an upper bound: cut and then rounded up, zero as +0.0; None when no bound of that length exists."""
    if value is None:
        return None
    if isinstance(type_, FloatType | DoubleType) and value == 0:
        value = 0.0
    if mode.length is not None and isinstance(type_, StringType | BinaryType) and len(value) > mode.length:
        if isinstance(value, str):
            text = next_string(value[: mode.length])
            return None if text is None else text.encode()
        return next_bytes(bytes(value[: mode.length]))
    return to_bytes(type_, value)


def next_string(text: str) -> str | None:
    """The least string of at most this length that is greater than everything that begins with `text`.

    >>> next_string("ab"), next_string("a\\U0010ffff"), next_string("\\U0010ffff")
    ('ac', 'b', None)
    """
    for index in range(len(text) - 1, -1, -1):
        code = ord(text[index]) + 1
        if 0xD800 <= code <= 0xDFFF:  # surrogates are no characters
            code = 0xE000
        if code <= 0x10FFFF:
            return text[:index] + chr(code)
    return None


def next_bytes(data: bytes) -> bytes | None:
    """The least bytes of at most this length that are greater than everything that begins with `data`.

    >>> next_bytes(b"a\\xff"), next_bytes(b"\\xff")
    (b'b', None)
    """
    stripped = data.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
