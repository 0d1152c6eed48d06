"""Counts and bounds: exact, never false, and never lost because they are falsy."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidArgument
from frazil.io.metrics import (
    Metrics,
    MetricsCollector,
    MetricsMode,
    MetricsModes,
    lower_bound,
    next_bytes,
    next_string,
    upper_bound,
)
from frazil.model.schema import Schema
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    FloatType,
    GeometryType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    Type,
    UuidType,
    list_of,
)
from frazil.model.values import from_bytes, geo_bound_from_bytes
from tests.io.data_file_samples import batch_of


def metrics_of(type_: Type, *batches: list[Any], mode: str = "truncate(16)") -> Metrics:
    schema = Schema((NestedField(1, "c", type_),))
    collector = MetricsCollector(schema, MetricsModes.of(schema, {"write.metadata.metrics.default": mode}))
    for values in batches:
        collector.update(batch_of(schema, [{1: value} for value in values]))
    return collector.finish()


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (IntegerType(), 0),
        (LongType(), 0),
        (StringType(), ""),
        (BinaryType(), b""),
        (BooleanType(), False),
        (UuidType(), bytes(16)),
    ],
)
def test_bounds_that_python_calls_false_are_kept(type_: Type, value: Any) -> None:
    metrics = metrics_of(type_, [value, None])
    assert from_bytes(type_, metrics.lower_bounds[1]) == value
    assert from_bytes(type_, metrics.upper_bounds[1]) == value


def test_nan_has_a_count_and_no_bound() -> None:
    metrics = metrics_of(DoubleType(), [math.nan, 1.0, None], [math.nan], [-2.0])
    assert (metrics.value_counts[1], metrics.null_value_counts[1], metrics.nan_value_counts[1]) == (5, 1, 2)
    assert (metrics.lower_bounds[1], metrics.upper_bounds[1]) == (struct.pack("<d", -2.0), struct.pack("<d", 1.0))
    only = metrics_of(FloatType(), [math.nan, None])
    assert only.nan_value_counts == {1: 1}
    assert not only.lower_bounds
    assert not only.upper_bounds


def test_infinities_are_values() -> None:
    metrics = metrics_of(DoubleType(), [math.inf, -math.inf])
    assert struct.unpack("<d", metrics.lower_bounds[1]) == (-math.inf,)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zero_is_minus_zero_below_and_plus_zero_above(zero: float) -> None:
    metrics = metrics_of(DoubleType(), [zero])
    assert metrics.lower_bounds[1] == struct.pack("<d", -0.0)
    assert metrics.upper_bounds[1] == struct.pack("<d", 0.0)


def test_all_null_columns_have_counts_only() -> None:
    metrics = metrics_of(StringType(), [None, None])
    assert metrics.null_value_counts == {1: 2}
    assert not metrics.lower_bounds


@given(st.lists(st.none() | st.text(max_size=25), min_size=1, max_size=8), st.integers(1, 20))
def test_cut_string_bounds_hold_for_every_value(values: list[str | None], length: int) -> None:
    metrics = metrics_of(StringType(), values, mode=f"truncate({length})")
    encoded = [value.encode() for value in values if value is not None]
    if not encoded:
        return
    assert metrics.lower_bounds[1] <= min(encoded)
    assert len(metrics.lower_bounds[1].decode()) <= length
    upper = metrics.upper_bounds.get(1)
    if upper is not None:
        assert upper >= max(encoded)
        assert len(upper.decode()) <= length
    else:
        assert max(encoded).decode()[:length] == "\U0010ffff" * length


@given(st.lists(st.binary(max_size=25), min_size=1, max_size=8), st.integers(1, 20))
def test_cut_binary_bounds_hold_for_every_value(values: list[bytes], length: int) -> None:
    metrics = metrics_of(BinaryType(), values, mode=f"truncate({length})")
    assert metrics.lower_bounds[1] <= min(values)
    upper = metrics.upper_bounds.get(1)
    assert upper is None or (upper >= max(values) and len(upper) <= length)
    if upper is None:
        assert max(values)[:length] == b"\xff" * length


def test_rounding_up_skips_what_is_no_character() -> None:
    assert next_string("a\ud7ff") == "a\ue000"
    assert next_string("a\U0010ffff\U0010ffff") == "b"
    assert next_string("\U0010ffff") is None
    assert next_bytes(b"\x00\xff") == b"\x01"
    assert next_bytes(b"\xff\xff") is None
    mode = MetricsMode.parse("truncate(2)")
    assert upper_bound(StringType(), "ab", mode) == b"ab"
    assert upper_bound(StringType(), "abc", mode) == b"ac"
    assert lower_bound(StringType(), "abc", mode) == b"ab"


def test_uuids_compare_as_unsigned_bytes() -> None:
    high, low = b"\x80" + bytes(15), b"\x7f" + bytes(15)
    metrics = metrics_of(UuidType(), [high, low])
    assert (metrics.lower_bounds[1], metrics.upper_bounds[1]) == (low, high)


def test_fields_of_structs_have_metrics_and_fields_of_lists_none() -> None:
    inner = StructType((NestedField(2, "x", IntegerType(), required=True), NestedField(3, "l", list_of(4, LongType()))))
    schema = Schema((NestedField(1, "s", inner),))
    collector = MetricsCollector(schema, MetricsModes.of(schema, {}))
    collector.update(batch_of(schema, [{1: None}, {1: {2: 5, 3: [1]}}, {1: {2: 0}}]))
    metrics = collector.finish()
    # a row whose struct is null is a row without a value
    assert metrics.value_counts == {2: 3}
    assert metrics.null_value_counts == {2: 1}
    assert metrics.lower_bounds == {2: bytes(4)}


def point(*coordinates: float, kind: int = 1) -> bytes:
    return struct.pack(f"<BI{len(coordinates)}d", 1, kind, *coordinates)


def test_geometries_have_boxes() -> None:
    line = struct.pack("<BII4d", 1, 2, 2, -5.0, 1.0, 3.0, math.nan)
    ring = struct.pack("<BIII4d", 1, 3, 1, 2, 0.0, 0.0, 9.0, -9.0)
    big_endian = struct.pack(">BI3d", 0, 1001, 1.0, 1.0, 77.0)
    several = struct.pack("<BII", 1, 7, 1) + point(2.0, 50.0)
    metrics = metrics_of(GeometryType(), [point(1.0, 2.0), None], [line, ring, big_endian, several])
    assert geo_bound_from_bytes(metrics.lower_bounds[1])[:3] == (-5.0, -9.0, 77.0)
    assert geo_bound_from_bytes(metrics.upper_bounds[1])[:3] == (9.0, 50.0, 77.0)
    points = metrics_of(GeometryType(), [point(1.0, math.nan), point(math.nan, 4.0)])
    assert geo_bound_from_bytes(points.lower_bounds[1])[:2] == (1.0, 4.0)


@pytest.mark.parametrize("wrong", [b"", b"\x01", point(1.0), point(1.0, 2.0) + b"x", point(1.0, 2.0, kind=99)])
def test_one_value_that_is_no_geometry_makes_the_box_unknown(wrong: bytes) -> None:
    assert not metrics_of(GeometryType(), [point(1.0, 2.0)], [wrong]).lower_bounds
    assert not metrics_of(GeometryType(), [point(math.nan, math.nan)]).upper_bounds


def wide(count: int) -> Schema:
    inner = StructType(tuple(NestedField(1000 + n, f"i{n}", LongType()) for n in range(3)))
    return Schema((NestedField(999, "s", inner), *(NestedField(n, f"c{n}", LongType()) for n in range(1, count))))


def test_modes_come_from_properties() -> None:
    schema = wide(4)
    properties = {
        "write.metadata.metrics.default": "counts",
        "write.metadata.metrics.column.c1": "full",
        "write.metadata.metrics.column.s.i1": "none",
        "write.metadata.metrics.column.dropped": "full",
    }
    modes = MetricsModes.of(schema, properties)
    assert modes[1] == MetricsMode(True, True, None)
    assert modes[2] == MetricsMode(True, False)
    assert not modes[1001].counts
    assert MetricsModes.of(schema, properties, sorted_by=[2])[2] == MetricsMode(True, True, 16)


def test_wide_tables_have_metrics_for_their_first_columns_only() -> None:
    modes = MetricsModes.of(wide(150), {})
    assert modes[1].bounds
    assert modes[100].bounds
    assert not modes[101].counts
    assert not modes[1000].counts
    assert MetricsModes.of(wide(150), {"write.metadata.metrics.default": "full"})[1000].bounds
    few = {"write.metadata.metrics.max-inferred-column-defaults": "2"}
    assert [MetricsModes.of(wide(5), few)[number].counts for number in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize("text", ["some", "truncate(0)", "truncate(x)", ""])
def test_unknown_modes_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        MetricsMode.parse(text)


def test_batches_need_not_be_contiguous_in_memory() -> None:
    schema = Schema((NestedField(1, "c", StringType()),))
    collector = MetricsCollector(schema, MetricsModes.of(schema, {}))
    collector.update(pa.record_batch({"c": pa.array(["z", "b", None, "a"])}).slice(1, 2))
    assert collector.finish().lower_bounds == {1: b"b"}
    assert collector.finish().null_value_counts == {1: 1}
