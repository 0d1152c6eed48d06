from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ColumnNotFound, InvalidExpression
from frazil.model.arrow_evaluator import filter_mask
from frazil.model.binding import BoundPredicate, bind, field_ids
from frazil.model.expression_parser import parse_expression
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, col, rewrite_not
from frazil.model.schema import Schema
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeometryType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UuidType,
    VariantType,
    list_of,
    map_of,
)
from tests.model.expression_strategies import COLUMNS, SCHEMA, batch_of, filters, rows_of, truth

NAMES = sorted(COLUMNS)
TYPES = Schema(
    (
        NestedField(1, "i", IntegerType()),
        NestedField(2, "n", LongType(), required=True),
        NestedField(3, "f", FloatType()),
        NestedField(4, "d", DoubleType()),
        NestedField(5, "dec", DecimalType(9, 2)),
        NestedField(6, "day", DateType()),
        NestedField(7, "t", TimeType()),
        NestedField(8, "ts", TimestampType()),
        NestedField(9, "tz", TimestamptzType()),
        NestedField(10, "ns", TimestampNsType()),
        NestedField(11, "s", StringType()),
        NestedField(12, "u", UuidType()),
        NestedField(13, "b", BinaryType()),
        NestedField(14, "fx", FixedType(2)),
        NestedField(15, "flag", BooleanType()),
        NestedField(16, "geo", GeometryType()),
        NestedField(17, "v", VariantType()),
        NestedField(18, "none", UnknownType()),
        NestedField(
            19,
            "st",
            StructType(
                (NestedField(20, "r", LongType(), required=True), NestedField(21, "deep", list_of(22, LongType())))
            ),
        ),
        NestedField(23, "m", map_of(24, StringType(), 25, LongType())),
        NestedField(26, "req", StructType((NestedField(27, "r", LongType(), required=True),)), required=True),
    )
)


def bound(text: str) -> str:
    return str(bind(TYPES, parse_expression(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i > 1.5", "i >= 2"),
        ("i < 1.5", "i <= 1"),
        ("i <= -1.5", "i <= -2"),
        ("i = 1.5", "FALSE"),
        ("i <> 1.5", "i IS NOT NULL"),
        ("NOT i = 1.5", "i IS NOT NULL"),
        ("i IN (1, 1.5, 2)", "i IN (1, 2)"),
        ("i IN (3, 1, 3)", "i IN (1, 3)"),
        ("i NOT IN (1, 1.5)", "i <> 1"),
        ("i < 1099511627776", "i IS NOT NULL"),
        ("i > 1099511627776", "FALSE"),
        ("i >= 2147483648", "FALSE"),
        ("i >= 2147483647", "i >= 2147483647"),
        ("i > 2147483647", "FALSE"),
        ("i >= -2147483648", "i IS NOT NULL"),
        ("i <= 2147483647", "i IS NOT NULL"),
        ("i < 1e400", "i IS NOT NULL"),
        ("n < 1e30", "TRUE"),
        ("n IS NULL", "FALSE"),
        ("n IS NOT NULL", "TRUE"),
        ("n > 9223372036854775807", "FALSE"),
        ("dec = 1.5", "dec = 1.50"),
        ("dec = 1.505", "FALSE"),
        ("dec > 1.505", "dec >= 1.51"),
        ("dec < -1.505", "dec <= -1.51"),
        ("dec = 1e-1", "dec = 0.10"),
        ("dec < 10000000", "dec IS NOT NULL"),
        ("dec = '14.20'", "dec = 14.20"),
        ("d = 0.1", "d = 0.1e0"),
        ("d = -0e0", "d = 0.0e0"),
        ("f > 1e300", "f >= DOUBLE 'Infinity'"),
        ("f < 1e300", "f < DOUBLE 'Infinity'"),
        ("f = 1e300", "FALSE"),
        ("f < -1e300", "f <= DOUBLE '-Infinity'"),
        ("f = 0.1", "f = 0.10000000149011612e0"),
        ("NOT d < 1", "d >= 1.0e0 OR d IS NaN"),
        ("NOT (d > 1 AND i > 1)", "d <= 1.0e0 OR d IS NaN OR i <= 1"),
        ("NOT i > 1", "i <= 1"),
        ("day = '2024-01-01'", "day = DATE '2024-01-01'"),
        ("day > TIMESTAMP '2024-01-01 12:00:00'", "day >= DATE '2024-01-02'"),
        ("day >= TIMESTAMP '2024-01-01 00:00:00'", "day >= DATE '2024-01-01'"),
        ("day = TIMESTAMP '2024-01-01 12:00:00'", "FALSE"),
        ("ts >= DATE '2024-01-01'", "ts >= TIMESTAMP '2024-01-01 00:00:00'"),
        ("ts > '2024-01-01 00:00:00.000000500'", "ts >= TIMESTAMP '2024-01-01 00:00:00.000001'"),
        ("ts > TIMESTAMP '2024-01-01 00:00:00.000000500'", "ts >= TIMESTAMP '2024-01-01 00:00:00.000001'"),
        ("tz = '2024-01-01T02:00:00+02:00'", "tz = TIMESTAMPTZ '2024-01-01 00:00:00+00:00'"),
        ("tz = TIMESTAMP '2024-01-01 00:00:00'", "tz = TIMESTAMPTZ '2024-01-01 00:00:00+00:00'"),
        ("ns = '2024-01-01T00:00:00.123456789'", "ns = '2024-01-01T00:00:00.123456789'"),
        ("ns < '9999-01-01'", "ns IS NOT NULL"),
        ("t >= '12:00:00'", "t >= TIME '12:00:00'"),
        ("s LIKE '%'", "s IS NOT NULL"),
        ("s NOT LIKE '%'", "FALSE"),
        ("u = '00000000-0000-0000-0000-000000000001'", "u = UUID '00000000-0000-0000-0000-000000000001'"),
        ("b = 'abcd'", "b = X'abcd'"),
        ("fx = X'0102'", "fx = X'0102'"),
        ("flag", "flag = TRUE"),
        ("NOT flag", "flag <> TRUE"),
        ("none = 5", "FALSE"),
        ("none IS NULL", "TRUE"),
        ("geo IS NULL AND v IS NOT NULL AND st IS NULL", "geo IS NULL AND v IS NOT NULL AND st IS NULL"),
        ("st.r IS NULL", "st.r IS NULL"),
        ("req.r IS NULL", "FALSE"),
        ("bucket(16, n) = 3", "bucket(16, n) = 3"),
        ("bucket(16, i) IS NULL", "i IS NULL"),
        ("days(ts) >= DATE '2024-01-01'", "days(ts) >= DATE '2024-01-01'"),
        ("days(ts) = 19723", "days(ts) = DATE '2024-01-01'"),
        ("years(ts) = 54", "years(ts) = 54"),
        ("truncate(2, s) = 'ab'", "truncate(2, s) = 'ab'"),
    ],
)
def test_literals_keep_their_meaning_in_the_columns_type(text: str, expected: str) -> None:
    assert bound(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("i = 'x'", "column i of type int"),
        ("i = TRUE", "column i"),
        ("s = 5", "column s of type string"),
        ("flag = 1", "column flag"),
        ("day = 5", "column day"),
        ("ts = 5", "column ts"),
        ("ts = TIMESTAMPTZ '2024-01-01 00:00:00+00:00'", "zone"),
        ("ts = '2024-01-01T00:00:00Z'", "zone"),
        ("day = 'yesterday'", "column day"),
        ("dec = 'x'", "column dec"),
        ("u = 'x'", "column u"),
        ("b = 'xyz'", "column b"),
        ("fx = X'01'", "column fx"),
        ("d = DOUBLE 'NaN'", "NaN"),
        ("d IN (1, DOUBLE 'NaN')", "NaN"),
        ("isnan(i)", "'i'"),
        ("i LIKE 'a%'", "'i'"),
        ("geo = X'00'", "'geo'"),
        ("v = 5", "'v'"),
        ("st = 5", "'st'"),
        ("st.deep.element = 5", "list or map"),
        ("m.value = 5", "list or map"),
        ("bucket(4, d) = 1", "bucket[4]"),
        ("hours(day) = 1", "hour"),
    ],
)
def test_what_cannot_be_compared_is_refused_and_the_column_named(text: str, part: str) -> None:
    with pytest.raises(InvalidExpression, match="INVALID_EXPRESSION") as caught:
        bound(text)
    assert part in caught.value.message
    assert caught.value.hint


def test_an_unknown_column_is_named_with_its_neighbours() -> None:
    with pytest.raises(ColumnNotFound, match="'day'"):
        bound("dy = 5")


def test_names_may_ignore_case() -> None:
    assert str(bind(TYPES, col("ST.R") > 1, case_sensitive=False)) == "st.r > 1"
    with pytest.raises(ColumnNotFound):
        bind(TYPES, col("ST.R") > 1)


def test_a_bound_predicate_knows_where_its_column_lies() -> None:
    found = bind(TYPES, col("st.r") == 1)
    assert isinstance(found, BoundPredicate)
    assert (found.reference.field_id, found.reference.path) == (20, ("st", "r"))
    assert found.reference.nullable
    assert found.reference.in_optional_struct
    assert field_ids(found) == {20}


def test_binding_twice_changes_nothing() -> None:
    once = bind(TYPES, (col("i") > 1.5) | ~(col("d") < 2))
    assert bind(TYPES, once) == once
    assert str(bind(TYPES, once & (col("n") > 1))) == "(i >= 2 OR d >= 2.0e0 OR d IS NaN) AND n > 1"


def test_a_bound_filter_cannot_be_negated_since_unknown_is_gone() -> None:
    with pytest.raises(InvalidExpression, match="before binding"):
        bind(TYPES, ~bind(TYPES, col("i") != 1.5))


def test_python_values_of_all_kinds_bind() -> None:
    import numpy as np

    assert str(bind(TYPES, col("ns") == np.datetime64("2024-01-01T00:00:00.123456789"))).endswith("123456789'")
    assert bind(TYPES, col("i") == np.int64(5)) == bind(TYPES, col("i") == 5)
    assert bind(TYPES, col("u") == uuid.UUID(int=5)) == bind(TYPES, col("u") == uuid.UUID(int=5).bytes)
    zone = dt.timezone(dt.timedelta(hours=2))
    assert bind(TYPES, col("tz") == dt.datetime(1970, 1, 1, 2, tzinfo=zone)).literals == (0,)  # type: ignore[attr-defined]
    assert bind(TYPES, col("t") == dt.time(0, 0, 1)).literals == (10**6,)  # type: ignore[attr-defined]
    assert bind(TYPES, col("dec") < Decimal("1e-9999")) == bind(TYPES, col("dec") <= 0)
    assert bind(TYPES, col("dec") < Decimal("1e9999")) == bind(TYPES, col("dec").not_null())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d > 5", "d > 5.0e0 OR d IS NaN"),
        ("NOT d > 5", "d <= 5.0e0"),
        ("NOT d < 5", "d >= 5.0e0 OR d IS NaN"),
        ("d < 5", "d < 5.0e0"),
        ("d <> 5", "d <> 5.0e0"),
        ("d = DOUBLE 'NaN'", "d IS NaN"),
        ("d < DOUBLE 'NaN'", "d IS NOT NaN"),
        ("d <= DOUBLE 'NaN'", "d IS NOT NULL"),
        ("d > DOUBLE 'NaN'", "FALSE"),
        ("d IN (1, DOUBLE 'NaN')", "d = 1.0e0 OR d IS NaN"),
        ("NOT isnan(d)", "d IS NOT NaN OR d IS NULL"),
    ],
)
def test_spark_orders_nan_above_all_and_the_bound_filter_says_so(text: str, expected: str) -> None:
    assert str(bind(TYPES, parse_expression(text), nan_ordered=True)) == expected


@given(st.data())
def test_a_bound_filter_matches_the_rows_that_three_valued_logic_says(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True))
    expression = data.draw(filters(*names))
    rows: dict[str, list[Any]] = {name: data.draw(rows_of(name)) for name in names}
    size = min(map(len, rows.values()))
    rows = {name: values[:size] for name, values in rows.items()}
    mask = filter_mask(bind(SCHEMA, expression), batch_of(**rows)).to_pylist()
    spark = filter_mask(bind(SCHEMA, expression, nan_ordered=True), batch_of(**rows)).to_pylist()
    for at in range(size):
        row = {name: values[at] for name, values in rows.items()}
        assert mask[at] is (truth(expression, row) is True), row
        assert spark[at] is (truth(expression, row, nan_greatest=True) is True), row
        assert truth(rewrite_not(expression), row) is truth(expression, row)


def test_constants_bind_to_themselves() -> None:
    assert bind(TYPES, AlwaysTrue()) == AlwaysTrue()
    assert bind(TYPES, ~AlwaysTrue()) == AlwaysFalse()
