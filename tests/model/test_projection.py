from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.model.arrow import array_from_canonical
from frazil.model.arrow_evaluator import filter_mask
from frazil.model.binding import bind
from frazil.model.expression_parser import parse_expression
from frazil.model.expressions import Expression
from frazil.model.partition import PartitionField, PartitionSpec, parse_partition_by
from frazil.model.projection import inclusive, strict
from frazil.model.residuals import residual, residuals
from frazil.model.schema import Schema
from frazil.model.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from frazil.model.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)
from tests.model.expression_strategies import COLUMNS, SCHEMA, batch_of, filters, rows_of

TABLE = Schema(
    (
        NestedField(1, "i", IntegerType()),
        NestedField(2, "n", LongType()),
        NestedField(3, "dec", DecimalType(9, 2)),
        NestedField(4, "s", StringType()),
        NestedField(5, "b", BinaryType()),
        NestedField(6, "day", DateType()),
        NestedField(7, "ts", TimestampType()),
    )
)


@pytest.mark.parametrize(
    ("part", "text", "over", "under"),
    [
        ("i", "i > 5", "i > 5", "i > 5"),
        ("i", "n > 5", "TRUE", "FALSE"),
        ("bucket(16, i)", "i = 34", "i_bucket = 3", "FALSE"),
        ("bucket(16, i)", "i <> 34", "TRUE", "i_bucket <> 3"),
        ("bucket(16, i)", "i IN (34, 35)", "i_bucket IN (3, 5)", "FALSE"),
        ("bucket(16, i)", "i NOT IN (34, 35)", "TRUE", "i_bucket NOT IN (3, 5)"),
        ("bucket(16, i)", "i > 34", "TRUE", "FALSE"),
        ("bucket(16, i)", "i IS NULL", "i_bucket IS NULL", "i_bucket IS NULL"),
        ("bucket(16, i)", "bucket(16, i) > 3", "i_bucket > 3", "i_bucket > 3"),
        ("bucket(16, i)", "bucket(8, i) = 3", "TRUE", "FALSE"),
        ("truncate(8, i)", "i < 16", "i_trunc <= 8", "i_trunc < 16"),
        ("truncate(8, i)", "i < 17", "i_trunc <= 16", "i_trunc < 16"),
        ("truncate(8, i)", "i <= 15", "i_trunc <= 8", "i_trunc < 16"),
        ("truncate(8, i)", "i > 15", "i_trunc >= 16", "i_trunc > 8"),
        ("truncate(8, i)", "i >= 16", "i_trunc >= 16", "i_trunc > 8"),
        ("truncate(8, i)", "i = -1", "i_trunc = -8", "FALSE"),
        ("truncate(8, i)", "i <> -1", "TRUE", "i_trunc <> -8"),
        ("truncate(10, i)", "i < 10", "i_trunc <= 0 OR i_trunc = 2147483646", "i_trunc < 10"),
        ("truncate(10, i)", "i > 10", "i_trunc >= 10", "i_trunc > 10 AND i_trunc <> 2147483646"),
        ("truncate(10, i)", "i > -2147483647", "TRUE", "FALSE"),
        ("truncate(50, dec)", "dec < 1.00", "dec_trunc <= 0.50", "dec_trunc < 1.00"),
        ("truncate(50, dec)", "dec >= -0.01", "dec_trunc >= -0.50", "dec_trunc > -0.50"),
        ("truncate(3, s)", "s = 'iceberg'", "s_trunc = 'ice'", "FALSE"),
        ("truncate(3, s)", "s = 'ic'", "s_trunc = 'ic'", "s_trunc = 'ic'"),
        ("truncate(3, s)", "s <> 'ic'", "s_trunc <> 'ic'", "s_trunc <> 'ic'"),
        ("truncate(3, s)", "s < 'iceberg'", "s_trunc <= 'ice'", "s_trunc < 'ice'"),
        ("truncate(3, s)", "s < 'ice'", "s_trunc < 'ice'", "s_trunc < 'ice'"),
        ("truncate(3, s)", "s >= 'ice'", "s_trunc >= 'ice'", "s_trunc >= 'ice'"),
        ("truncate(3, s)", "s > 'ice'", "s_trunc >= 'ice'", "s_trunc > 'ice'"),
        ("truncate(3, s)", "s LIKE 'ic%'", "s_trunc LIKE 'ic%'", "s_trunc LIKE 'ic%'"),
        ("truncate(3, s)", "s LIKE 'ice%'", "s_trunc = 'ice'", "s_trunc = 'ice'"),
        ("truncate(3, s)", "s LIKE 'iceb%'", "s_trunc = 'ice'", "FALSE"),
        ("truncate(3, s)", "s NOT LIKE 'ic%'", "s_trunc NOT LIKE 'ic%'", "s_trunc NOT LIKE 'ic%'"),
        ("truncate(3, s)", "s NOT LIKE 'ice%'", "s_trunc <> 'ice'", "s_trunc <> 'ice'"),
        ("truncate(3, s)", "s NOT LIKE 'iceb%'", "TRUE", "s_trunc <> 'ice'"),
        ("truncate(2, b)", "b = X'010203'", "b_trunc = X'0102'", "FALSE"),
        ("day", "day = DATE '1969-12-31'", "day = DATE '1969-12-31'", "day = DATE '1969-12-31'"),
        ("days(day)", "day < DATE '1969-12-31'", "day_day <= DATE '1969-12-30'", "day_day < DATE '1969-12-31'"),
        ("years(ts)", "ts >= TIMESTAMP '2020-06-01 00:00:00'", "ts_year >= 50", "ts_year > 50"),
        ("years(ts)", "ts >= TIMESTAMP '2020-01-01 00:00:00'", "ts_year >= 50", "ts_year > 49"),
        ("months(ts)", "ts < TIMESTAMP '1970-01-01 00:00:00'", "ts_month <= 0", "ts_month < 0"),
        (
            "days(ts)",
            "ts = TIMESTAMP '1969-12-31 10:00:00'",
            "ts_day IN (DATE '1969-12-31', DATE '1970-01-01')",
            "FALSE",
        ),
        (
            "days(ts)",
            "ts <> TIMESTAMP '1969-12-31 10:00:00'",
            "TRUE",
            "ts_day NOT IN (DATE '1969-12-31', DATE '1970-01-01')",
        ),
        ("days(ts)", "ts = TIMESTAMP '2024-01-01 10:00:00'", "ts_day = DATE '2024-01-01'", "FALSE"),
        ("hours(ts)", "ts >= TIMESTAMP '1969-12-31 23:00:00'", "ts_hour >= -1", "ts_hour > -1"),
        ("hours(ts)", "ts > TIMESTAMP '1970-01-01 01:59:59.999999'", "ts_hour >= 2", "ts_hour > 1"),
        ("days(ts)", "days(ts) = DATE '1969-12-31'", "ts_day IN (DATE '1969-12-31', DATE '1970-01-01')", "FALSE"),
        ("days(ts)", "days(ts) > DATE '1969-12-31'", "ts_day > DATE '1969-12-31'", "ts_day > DATE '1970-01-01'"),
        ("days(ts)", "ts IS NOT NULL", "ts_day IS NOT NULL", "ts_day IS NOT NULL"),
    ],
)
def test_predicates_project_through_transforms(part: str, text: str, over: str, under: str) -> None:
    spec = parse_partition_by(TABLE, [part])
    expression = parse_expression(text)
    assert str(inclusive(TABLE, spec, expression)) == over
    assert str(strict(TABLE, spec, expression)) == under


def test_several_fields_of_one_column_work_together() -> None:
    spec = PartitionSpec(
        0,
        (
            PartitionField((1,), 1000, "a", BucketTransform(16)),
            PartitionField((1,), 1001, "b", TruncateTransform(8)),
            PartitionField((1,), 1002, "gone", VoidTransform()),
            PartitionField((1,), 1003, "new", UnknownTransform("zorder")),
        ),
    )
    expression = parse_expression("i = 34 OR n = 1")
    assert str(inclusive(TABLE, spec, parse_expression("i = 34"))) == "a = 3 AND b = 32"
    assert str(strict(TABLE, spec, parse_expression("i <> 34"))) == "a <> 3 OR b <> 32"
    assert str(inclusive(TABLE, spec, expression)) == "TRUE"
    assert str(strict(TABLE, spec, expression)) == "FALSE"


# Random predicates through every transform

TRANSFORMS: list[Transform] = [
    *(IdentityTransform(), BucketTransform(3), TruncateTransform(2), TruncateTransform(7), VoidTransform()),
    *(YearTransform(), MonthTransform(), DayTransform(), HourTransform()),
]
PAIRS = [(name, t) for name in COLUMNS for t in TRANSFORMS if t.can_transform(COLUMNS[name][0])]


def old_writer(transform: Transform, value: int | None) -> int | None:
    """What versions before 0.11 wrote for time transforms of values before 1970: rounded toward zero."""
    return value + 1 if value is not None and value < 0 else value


@given(st.data())
def test_projections_are_sound_for_every_transform(data: st.DataObject) -> None:
    name, transform = data.draw(st.sampled_from(PAIRS))
    source = SCHEMA.find(name)
    spec = PartitionSpec(0, (PartitionField((source.id,), 1000, "p", transform),))
    expression = data.draw(filters(name))
    values = data.draw(rows_of(name))
    stored: list[Any] = [transform.apply(source.type, value) for value in values]
    coarse = isinstance(transform, YearTransform | MonthTransform | DayTransform | HourTransform)
    if coarse and name != "day" and data.draw(st.booleans()):
        stored = [old_writer(transform, value) for value in stored]
    result = transform.result_type(source.type)
    partitions = pa.record_batch({"p": array_from_canonical(result, stored)})
    match = filter_mask(bind(SCHEMA, expression), batch_of(**{name: values})).to_pylist()
    over = filter_mask(inclusive(SCHEMA, spec, expression), partitions).to_pylist()
    under = filter_mask(strict(SCHEMA, spec, expression), partitions).to_pylist()
    for value, matches, kept, certain in zip(values, match, over, under, strict=True):
        assert kept or not matches, (value, str(inclusive(SCHEMA, spec, expression)))
        assert matches or not certain, (value, str(strict(SCHEMA, spec, expression)))


@given(st.data())
def test_residuals_match_the_same_rows_of_their_partition(data: st.DataObject) -> None:
    name, transform = data.draw(st.sampled_from(PAIRS))
    source = SCHEMA.find(name)
    spec = PartitionSpec(0, (PartitionField((source.id,), 1000, "p", transform),))
    expression: Expression = data.draw(filters(name, "i"))
    values = data.draw(rows_of(name).filter(bool))
    others = data.draw(st.lists(st.none() | st.integers(-3, 3), min_size=len(values), max_size=len(values)))
    stored = array_from_canonical(
        transform.result_type(source.type), [transform.apply(source.type, value) for value in values]
    )
    which, left = residuals(SCHEMA, spec, expression, [stored], len(values))
    rows = {"i": others, name: values}
    for at, value in enumerate(values):
        row = batch_of(**{column: [held[at]] for column, held in rows.items()})
        expected = filter_mask(bind(SCHEMA, expression), row)
        assert filter_mask(left[which[at]], row) == expected, (value, str(left[which[at]]))
        one = residual(SCHEMA, spec, expression, (transform.apply(source.type, value),))
        assert one == left[which[at]]


def test_residuals_of_many_partitions_are_few() -> None:
    spec = parse_partition_by(TABLE, ["s"])
    partitions = pa.array(["a", "b", "c", None] * 100)
    expression = parse_expression("s = 'a' AND i > 5 OR s = 'b'")
    which, left = residuals(TABLE, spec, expression, [partitions], 400)
    assert sorted(map(str, left)) == ["FALSE", "TRUE", "i > 5"]
    assert [str(left[at]) for at in which[:4]] == ["i > 5", "TRUE", "FALSE", "FALSE"]


def test_a_filter_without_predicates_is_its_own_residual() -> None:
    which, left = residuals(TABLE, PartitionSpec(), parse_expression("TRUE"), [], 3)
    assert which.tolist() == [0, 0, 0]
    assert str(left[0]) == "TRUE"
    assert str(residual(TABLE, PartitionSpec(), parse_expression("i > 5"), ())) == "i > 5"
