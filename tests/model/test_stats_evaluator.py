from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidExpression
from frazil.model.arrow import array_from_canonical
from frazil.model.arrow_evaluator import filter_mask
from frazil.model.binding import bind
from frazil.model.expression_parser import parse_expression
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, col
from frazil.model.schema import Schema
from frazil.model.stats_evaluator import ColumnStats, StatsTable, might_match, must_match
from frazil.model.transforms import TruncateTransform
from frazil.model.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    Type,
    UuidType,
)
from tests.model.expression_strategies import COLUMNS, SCHEMA, batch_of, filters, rows_of


def schema_of(type_: Type) -> Schema:
    return Schema((NestedField(1, "x", type_),))


def decide(type_: Type, text: str, low: Any, high: Any, **counts: int | None) -> str:
    """What the bounds and counts of one file say: `none`, `all` or `some` rows."""
    plain = BinaryType() if isinstance(type_, FixedType) else type_
    arrays = {f"{name}_count": pa.array([count], pa.int64()) for name, count in counts.items() if name != "record"}
    known = ColumnStats(array_from_canonical(plain, [low]), array_from_canonical(plain, [high]), **arrays)
    stats = StatsTable(1, {1: known}, pa.array([counts["record"]]) if "record" in counts else None)
    bound = bind(schema_of(type_), parse_expression(text))
    might, must = bool(might_match(bound, stats)[0]), bool(must_match(bound, stats)[0])
    return "all" if must else "some" if might else "none"


PLAIN = {"null": 0, "value": 10}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x < 5", "none"),
        ("x < 6", "some"),
        ("x < 9", "some"),
        ("x < 10", "all"),
        ("x <= 4", "none"),
        ("x <= 5", "some"),
        ("x <= 9", "all"),
        ("x > 9", "none"),
        ("x > 8", "some"),
        ("x > 4", "all"),
        ("x >= 10", "none"),
        ("x >= 5", "all"),
        ("x = 4", "none"),
        ("x = 5", "some"),
        ("x = 10", "none"),
        ("x <> 4", "all"),
        ("x <> 7", "some"),
        ("x IN (1, 20)", "none"),
        ("x IN (1, 7, 20)", "some"),
        ("x NOT IN (1, 20)", "all"),
        ("x NOT IN (1, 7)", "some"),
        ("x IS NULL", "none"),
        ("x IS NOT NULL", "all"),
        ("x < 5 OR x > 9", "none"),
        ("x < 5 OR x > 4", "all"),
        ("x > 4 AND x > 8", "some"),
        ("truncate(10, x) = 0", "all"),
        ("truncate(10, x) = 10", "none"),
        ("bucket(4, x) = 1", "some"),
    ],
)
def test_bounds_of_integers_decide(text: str, expected: str) -> None:
    assert decide(LongType(), text, 5, 9, **PLAIN) == expected


@pytest.mark.parametrize(
    ("text", "counts", "expected"),
    [
        ("x > 4", {}, "some"),
        ("x > 4", {"null": 1, "value": 10}, "some"),
        ("x > 9", {}, "none"),
        ("x IS NULL", {}, "some"),
        ("x IS NOT NULL", {}, "some"),
        ("x IS NULL", {"null": 10, "value": 10}, "all"),
        ("x IS NOT NULL", {"null": 10, "value": 10}, "none"),
        ("x <> 5", {"null": 10, "value": 10}, "none"),
        ("x NOT IN (5, 6)", {"null": 10, "value": 10}, "none"),
        ("x > 4", {"record": 0}, "all"),
        ("x IS NULL", {"null": -1, "value": -1}, "some"),
    ],
)
def test_counts_decide_about_nulls(text: str, counts: dict[str, int], expected: str) -> None:
    assert decide(IntegerType(), text, 5, 9, **counts) == expected


def test_a_file_without_rows_cannot_match() -> None:
    stats = StatsTable(2, {}, pa.array([0, 1]))
    bound = bind(schema_of(LongType()), col("x") > 1)
    assert might_match(bound, stats).tolist() == [False, True]
    assert must_match(bound, stats).tolist() == [True, False]
    assert might_match(AlwaysTrue(), stats).tolist() == [False, True]
    assert must_match(AlwaysFalse(), StatsTable(1)).tolist() == [False]


@pytest.mark.parametrize(
    ("text", "low", "high", "counts", "expected"),
    [
        ("x = 0.0", -0.0, -0.0, {}, "some"),
        ("x = 0.0", -0.0, -0.0, {**PLAIN, "nan": 0}, "all"),
        ("x <> 0.0", -0.0, 0.0, {"nan": 0}, "none"),
        ("x IN (0.0, 5.0)", -0.0, -0.0, {**PLAIN, "nan": 0}, "all"),
        ("x < 0.0", -0.0, 1.0, {}, "none"),
        ("x > 5.0", 1.0, 5.0, {"nan": 1, "null": 0, "value": 10}, "none"),
        ("NOT x <= 5.0", 1.0, 5.0, {"nan": 1, "null": 0, "value": 10}, "some"),
        ("x <= 5.0", 1.0, 5.0, {"nan": 1, "null": 0, "value": 10}, "some"),
        ("x <= 5.0", 1.0, 5.0, {"nan": 0, "null": 0, "value": 10}, "all"),
        ("x <= 5.0", 1.0, 5.0, PLAIN, "some"),
        ("x <> 1.0", 1.0, 1.0, {"nan": 1}, "some"),
        ("x <> 7.0", 1.0, 1.0, {**PLAIN, "nan": 5}, "all"),
        ("x > 0.0", math.nan, math.nan, {}, "some"),
        ("x > 0.0", None, None, {"nan": 10, "null": 0, "value": 10}, "none"),
        ("x > 0.0", None, None, {"nan": 4, "null": 6, "value": 10}, "none"),
        ("x <> 0.0", None, None, {"nan": 10, "null": 0, "value": 10}, "all"),
        ("isnan(x)", 1.0, 2.0, {"nan": 0}, "none"),
        ("isnan(x)", 1.0, 2.0, {}, "some"),
        ("isnan(x)", None, None, {"nan": 10, "null": 0, "value": 10}, "all"),
        ("isnan(x)", None, None, {"null": 10, "value": 10}, "none"),
        ("x IS NOT NaN", None, None, {"nan": 10, "null": 0, "value": 10}, "none"),
        ("x IS NOT NaN", 1.0, 2.0, {"nan": 0, "null": 0, "value": 10}, "all"),
    ],
)
def test_floating_point_columns_mind_zeros_and_nan(
    text: str, low: float | None, high: float | None, counts: dict[str, int], expected: str
) -> None:
    assert decide(DoubleType(), text, low, high, **counts) == expected


@pytest.mark.parametrize(
    ("text", "low", "high", "expected"),
    [
        ("x LIKE 'al%'", "alpha", "beta", "some"),
        ("x LIKE 'al%'", "beta", "gamma", "none"),
        ("x LIKE 'al%'", "a", "ak", "none"),
        ("x LIKE 'abc%'", "a", "ab", "none"),
        ("x LIKE 'abc%'", "a", "b", "some"),
        ("x LIKE 'al%'", "alpha", "alz", "all"),
        ("x NOT LIKE 'al%'", "alpha", "alz", "none"),
        ("x NOT LIKE 'al%'", "alpha", "am", "some"),
        ("x NOT LIKE 'al%'", "b", "c", "all"),
        ("x NOT LIKE 'al%'", "a", "ak", "all"),
        ("x = 'abcdef'", "abc", "abd", "some"),
        ("x = 'abcdef'", "abcdef", "abcdef", "all"),
        ("x LIKE '日本%'", "日", "日本語", "some"),
        ("x > '\U0010ffff'", "a", "\uffff", "none"),
        ("truncate(2, x) = 'ab'", "aba", "abz", "all"),
    ],
)
def test_bounds_of_text_may_be_cut(text: str, low: str, high: str, expected: str) -> None:
    assert decide(StringType(), text, low, high, **PLAIN) == expected


def test_other_types_compare_as_what_they_are() -> None:
    high = b"\xff" * 16
    assert decide(UuidType(), "x = 'ffffffff-ffff-ffff-ffff-ffffffffffff'", bytes(16), high) == "some"
    assert decide(UuidType(), "x = 'ffffffff-ffff-ffff-ffff-ffffffffffff'", bytes(16), b"\x7f" * 16) == "none"
    assert decide(FixedType(4), "x > X'00000000'", b"\x00", b"\xff") == "some"
    assert decide(DecimalType(38, 2), "x < 0.01", Decimal("0.01"), Decimal("9.00"), **PLAIN) == "none"
    assert decide(DecimalType(2, 0), "truncate(50, x) = -100", Decimal(-99), Decimal(-99), **PLAIN) == "all"


def test_a_truncation_that_wraps_around_prunes_nothing() -> None:
    lowest = -(2**31)
    assert TruncateTransform(10).apply(IntegerType(), lowest) > 0
    assert decide(IntegerType(), "truncate(10, x) > 0", lowest, -5) == "some"


def test_counts_of_a_field_in_an_optional_struct_are_trusted_only_if_they_cover_all_rows() -> None:
    inner = NestedField(2, "y", LongType())
    schema = Schema((NestedField(1, "s", StructType((inner,))),))
    counts = [pa.array([0, 0]), pa.array([5, 9])]
    stats = StatsTable(2, {2: ColumnStats(null_count=counts[0], value_count=counts[1])}, pa.array([9, 9]))
    assert might_match(bind(schema, col("s.y").is_null()), stats).tolist() == [True, False]
    assert must_match(bind(schema, col("s.y").not_null()), stats).tolist() == [False, True]


def test_long_lists_are_tried_by_their_ends_only() -> None:
    many = "x IN (" + ", ".join(str(number * 10) for number in range(300)) + ")"
    assert decide(LongType(), many, 1, 2, **PLAIN) == "some"
    assert decide(LongType(), many, 5000, 6000, **PLAIN) == "none"
    assert decide(LongType(), many.replace("IN", "NOT IN"), 5000, 6000, **PLAIN) == "all"
    few = "x IN (" + ", ".join(str(number * 10) for number in range(100)) + ")"
    assert decide(LongType(), few, 1, 2, **PLAIN) == "none"


def test_columns_without_stats_prune_nothing() -> None:
    bound = bind(SCHEMA, parse_expression("i = 1 AND s LIKE 'a%' AND d > 1 AND u IS NULL"))
    assert might_match(bound, StatsTable(3)).tolist() == [True] * 3
    assert must_match(bound, StatsTable(3)).tolist() == [False] * 3


def test_an_unbound_filter_is_refused() -> None:
    with pytest.raises(InvalidExpression, match="bind"):
        might_match(col("x") > 1, StatsTable(1))


def test_summaries_without_bounds_mean_nulls_or_nan_only() -> None:
    nothing = pa.array([None] * 5, pa.float64())
    summaries = ColumnStats.of_summaries(
        pa.array([True, False, True, True, False]), pa.array([False, True, True, None, None]), nothing, nothing
    )
    stats = StatsTable(5, {1: summaries})

    def kept(text: str) -> list[bool]:
        return might_match(bind(schema_of(DoubleType()), parse_expression(text)), stats).tolist()

    assert kept("x > 1") == [False, False, False, True, True]
    assert kept("x IS NULL") == [True, False, True, True, False]
    assert kept("x IS NOT NULL") == [False, True, True, True, True]
    assert kept("isnan(x)") == [False, True, True, True, True]
    assert kept("x IS NOT NaN") == [False, False, True, True, True]


def ends(name: str, values: list[Any]) -> tuple[Any, Any]:
    numbers = [value for value in values if value is not None and not (isinstance(value, float) and math.isnan(value))]
    return (min(numbers), max(numbers)) if numbers else (None, None)


@st.composite
def chunk_stats(draw: st.DrawFn, name: str, chunks: list[list[Any]]) -> ColumnStats:
    """What a writer may say of chunks of rows: all, or less than that, with cut bounds for text."""
    type_ = COLUMNS[name][0]
    nans = [sum(isinstance(value, float) and math.isnan(value) for value in chunk) for chunk in chunks]
    lows, highs = (list(side) for side in zip(*(ends(name, chunk) for chunk in chunks), strict=True))
    if isinstance(type_, StringType) and draw(st.booleans()):
        lows = [low if low is None else low[:2] for low in lows]
        highs = [high if high is None or len(high) <= 2 else high[:2] + "\U0010ffff" * 4 for high in highs]

    def some(values: list[Any]) -> list[Any]:
        return [value if draw(st.integers(0, 4)) else None for value in values]

    return ColumnStats(
        array_from_canonical(type_, some(lows)),
        array_from_canonical(type_, some(highs)),
        pa.array(some([chunk.count(None) for chunk in chunks]), pa.int64()),
        draw(st.sampled_from([None, pa.array(some(nans), pa.int64())])),
        pa.array(some([len(chunk) for chunk in chunks]), pa.int64()),
    )


@given(st.data())
def test_pruned_chunks_hold_no_matching_row_and_matched_ones_no_other(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(COLUMNS)))
    chunks = data.draw(st.lists(rows_of(name, max_size=4), min_size=1, max_size=3))
    bound = bind(SCHEMA, data.draw(filters(name)), nan_ordered=data.draw(st.booleans()))
    column = SCHEMA.find(name).id
    counts = pa.array([len(chunk) for chunk in chunks], pa.int64())
    stats = StatsTable(len(chunks), {column: data.draw(chunk_stats(name, chunks))}, counts)
    might, must = might_match(bound, stats), must_match(bound, stats)
    for at, chunk in enumerate(chunks):
        mask = filter_mask(bound, batch_of(**{name: chunk})).to_pylist()
        assert might[at] or not any(mask), (str(bound), chunk)
        assert not must[at] or all(mask), (str(bound), chunk)


@given(st.data())
def test_the_stats_of_single_values_decide_exactly(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(COLUMNS)))
    values = data.draw(rows_of(name))
    bound = bind(SCHEMA, data.draw(filters(name)))
    batch = batch_of(**{name: values})
    stats = StatsTable(len(values), {SCHEMA.find(name).id: ColumnStats.of_values(batch.column(0))})
    mask = filter_mask(bound, batch).to_numpy(zero_copy_only=False)
    np.testing.assert_array_equal(might_match(bound, stats), mask)
    np.testing.assert_array_equal(must_match(bound, stats), mask)


@given(st.data())
def test_pruned_summaries_hold_no_matching_value(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(COLUMNS)))
    chunks = data.draw(st.lists(rows_of(name, max_size=4).filter(bool), min_size=1, max_size=3))
    bound = bind(SCHEMA, data.draw(filters(name)))
    type_ = COLUMNS[name][0]
    lows, highs = (list(side) for side in zip(*(ends(name, chunk) for chunk in chunks), strict=True))
    nans = [any(isinstance(value, float) and math.isnan(value) for value in chunk) for chunk in chunks]
    summaries = ColumnStats.of_summaries(
        pa.array([None in chunk for chunk in chunks]),
        data.draw(st.sampled_from([None, pa.array(nans), pa.array([None] * len(chunks), pa.bool_())])),
        array_from_canonical(type_, lows),
        array_from_canonical(type_, highs),
    )
    might = might_match(bound, StatsTable(len(chunks), {SCHEMA.find(name).id: summaries}))
    for at, chunk in enumerate(chunks):
        assert might[at] or not any(filter_mask(bound, batch_of(**{name: chunk})).to_pylist())
