"""Filters of Spark as filters of the kernel: the same rows match, or more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from frazil.model.expressions import AlwaysTrue
from frazil.model.schema import Schema
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UuidType,
)
from frazil.spark.scan.filters import pushed_filter

SCHEMA = Schema(
    (
        NestedField(1, "i", LongType()),
        NestedField(2, "a.b", StringType()),
        NestedField(3, "d", DateType()),
        NestedField(4, "t", TimestampType()),
        NestedField(5, "z", TimestamptzType()),
        NestedField(6, "n", DecimalType(9, 2)),
        NestedField(7, "f", DoubleType()),
        NestedField(8, "u", UuidType()),
        NestedField(9, "x", BinaryType()),
        NestedField(10, "o", BooleanType()),
        NestedField(11, "s", StructType((NestedField(12, "y", LongType()),))),
    )
)
NAMES = {
    "i": "bigint",
    "a.b": "string",
    "d": "date",
    "t": "timestamp_ntz",
    "z": "timestamp",
    "n": "decimal(9,2)",
    "f": "double",
    "u": "string",
    "x": "binary",
    "o": "boolean",
}


def column(name: str) -> dict[str, Any]:
    return {"c": [name], "t": NAMES[name]}


def literal(kind: str, text: str | None) -> dict[str, Any]:
    return {"v": text, "t": kind}


def pushed(*trees: Any) -> str:
    return str(pushed_filter(json.dumps(trees), SCHEMA))


UNKNOWN = ["RLike", column("a.b"), literal("string", "x")]
SMALL = ["LessThan", column("i"), literal("bigint", "5")]
LARGE = ["GreaterThan", column("i"), literal("bigint", "9")]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (SMALL, "`1` < 5"),
        (["LessThan", literal("bigint", "5"), column("i")], "`1` > 5"),
        (["EqualTo", column("a.b"), literal("string", "it's")], "`2` = 'it''s'"),
        (["LessThanOrEqual", column("d"), literal("date", "-1")], "`3` <= DATE '1969-12-31'"),
        (["EqualTo", column("n"), literal("decimal(9,2)", "1.50")], "`6` = 1.50"),
        (["EqualTo", column("x"), literal("binary", "00ff")], "`9` = X'00ff'"),
        (["In", column("i"), literal("bigint", "1"), literal("bigint", "2")], "`1` IN (1, 2)"),
        (["IsNull", column("i")], "`1` IS NULL"),
        (["Not", ["IsNull", column("i")]], "`1` IS NOT NULL"),
        (["StartsWith", column("a.b"), literal("string", "ab")], "`2` LIKE 'ab%'"),
        (column("o"), "`10` = TRUE"),
        (["Not", column("o")], "`10` <> TRUE"),
        (["EqualTo", {"c": ["s", "y"], "t": "bigint"}, literal("bigint", "3")], "`11.12` = 3"),
        (["EqualNullSafe", column("i"), literal("bigint", None)], "`1` IS NULL"),
        (["EqualTo", column("i"), literal("bigint", None)], "FALSE"),
        (["Not", ["EqualTo", column("i"), literal("bigint", None)]], "FALSE"),
        (["Or", SMALL, ["Not", ["LessThan", column("i"), literal("bigint", None)]]], "`1` < 5"),
        (["Not", ["And", SMALL, ["EqualTo", column("i"), literal("bigint", None)]]], "`1` >= 5"),
        (["In", column("i"), literal("bigint", "5"), literal("bigint", None)], "`1` = 5"),
        (["Not", ["In", column("i"), literal("bigint", "5"), literal("bigint", None)]], "FALSE"),
        (literal("boolean", None), "FALSE"),
        (["EqualTo", ["FrazilBucket", literal("int", "4"), column("i")], literal("int", "3")], "bucket(4, `1`) = 3"),
        (["And", SMALL, UNKNOWN], "`1` < 5"),
        (["And", UNKNOWN, ["Or", SMALL, LARGE]], "`1` < 5 OR `1` > 9"),
    ],
)
def test_a_filter_of_spark_has_its_meaning(tree: Any, expected: str) -> None:
    assert pushed(tree).lower() == expected.lower()


@pytest.mark.parametrize(
    "tree",
    [
        UNKNOWN,
        ["Or", SMALL, UNKNOWN],
        ["Not", ["And", SMALL, UNKNOWN]],
        ["Not", UNKNOWN],
        ["EqualTo", {"c": ["gone"], "t": "bigint"}, literal("bigint", "1")],
        ["EqualTo", {"c": ["a.b"], "t": "string collate UTF8_LCASE"}, literal("string collate UTF8_LCASE", "A")],
        ["EqualTo", column("u"), literal("string", "F79C3E09-677C-4BBD-A479-3F349CB785E7")],
        ["Not", ["EqualTo", column("u"), literal("string", "no uuid")]],
        ["EqualTo", column("i"), column("i")],
        literal("boolean", "true"),
    ],
)
def test_what_is_not_understood_keeps_all_rows(tree: Any) -> None:
    assert isinstance(pushed_filter(json.dumps([tree]), SCHEMA), AlwaysTrue)


def test_timestamps_are_microseconds_with_and_without_a_zone() -> None:
    for name, kind in (("t", "timestamp_ntz"), ("z", "timestamp")):
        found = pushed_filter(json.dumps([["EqualTo", column(name), literal(kind, "-1")]]), SCHEMA)
        assert found.literals == (-1,)  # type: ignore[attr-defined]


def test_nan_is_greater_than_any_number_as_in_spark() -> None:
    assert pushed(["GreaterThan", column("f"), literal("double", "1.0")]) == "`7` > 1.0e0 OR `7` IS NaN"


def test_several_filters_must_all_match() -> None:
    assert pushed(SMALL, UNKNOWN, ["IsNotNull", column("d")]) == "`1` < 5 AND `3` IS NOT NULL"
