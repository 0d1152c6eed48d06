"""COUNT, MIN and MAX from metadata: the same answers as from the rows, and no answer where metadata does not tell."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from frazil.iceberg.table import IcebergTable
from tests.interop.deletes import delete_rows, equality_deletes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake

ENABLED = "spark.sql.frazil.aggregate-push-down.enabled"
NAN = float("nan")
_NUMBERS = itertools.count(1)
Make = Callable[..., IcebergTable]


@pytest.fixture(scope="module")
def make(lake: Lake) -> Make:
    """A new table with some rows, in one file for each list of them."""

    def create(schema: str, *appends: list[dict[str, Any]], version: int = 2, **options: Any) -> IcebergTable:
        table = lake.create_table(f"db.agg{next(_NUMBERS)}", schema, format_version=version, **options)
        for rows in appends:
            table.append(rows)
        return table

    return create


@pytest.fixture
def ask(spark: SparkSession) -> Callable[..., tuple[Any, bool]]:
    """The values that an aggregate query gives, and whether metadata gave them."""

    def run(table: IcebergTable, what: str, where: str = "TRUE", tail: str = "") -> tuple[Any, bool]:
        frame = spark.sql(f"SELECT {what} FROM lake.{table.identifier}{tail} WHERE {where}")
        (row,) = frame.collect()
        return tuple(row), "parquet" not in frame._jdf.queryExecution().optimizedPlan().toString()

    return run


@contextmanager
def switched_off(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(ENABLED, "false")
    try:
        yield
    finally:
        spark.conf.unset(ENABLED)


Ask = Callable[..., tuple[Any, bool]]


# What metadata tells


def test_rows_values_and_extremes_are_known(make: Make, ask: Ask) -> None:
    day = dt.date(2020, 2, 29)
    table = make("a BIGINT, b DATE", [{"a": 3, "b": None}, {"a": None, "b": None}], [{"a": 7, "b": day}])
    found = ask(table, "count(*), count(1), count(a), min(a), max(a), max(a) + count(*), max(b), count(b)")
    assert found == ((3, 3, 2, 3, 7, 10, day, 1), True)


def test_a_table_without_rows_has_none(make: Make, ask: Ask) -> None:
    assert ask(make("a BIGINT"), "count(*), count(a), min(a), max(a)") == ((0, 0, None, None), True)


def test_a_column_of_nulls_has_no_extremes(make: Make, ask: Ask) -> None:
    assert ask(make("a BIGINT", [{"a": None}] * 3), "count(a), min(a), max(a)") == ((0, None, None), True)


def test_all_types_with_an_order_are_answered(make: Make, ask: Ask, spark: SparkSession) -> None:
    rows: list[dict[str, Any]] = [
        {
            "o": sign > 0,
            "i": sign * 7,
            "l": sign * 2**40,
            "f": sign * 0.5,
            "d": sign * 1e300,
            "n": Decimal(sign) * 10**20,
            "dt": dt.date(1950 + 50 * (sign > 0), 1, 1),
            "t": dt.datetime(1900 + 200 * (sign > 0), 1, 1),
            "z": dt.datetime(2000 + sign, 1, 1, tzinfo=dt.UTC),
        }
        for sign in (1, -1)
    ]
    kinds = "o BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(38,2), dt DATE, t TIMESTAMP, z TIMESTAMPTZ"
    table = make(kinds, rows)
    what = ", ".join(f"min({name}), max({name})" for name in rows[0])
    values, from_metadata = ask(table, what)
    assert from_metadata
    with switched_off(spark):
        assert ask(table, what) == (values, False)


def test_views_subqueries_and_data_frames_are_answered_too(make: Make, spark: SparkSession) -> None:
    table = make("a BIGINT", [{"a": 3}], [{"a": 7}])
    name = f"lake.{table.identifier}"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW over AS SELECT a AS b FROM {name}")
    for frame in (
        spark.sql("SELECT max(b) FROM over"),
        spark.sql(f"SELECT (SELECT max(a) FROM {name})"),
        spark.table(name).selectExpr("a AS c").selectExpr("c AS d").groupBy().max("d"),
        spark.sql(f"SELECT 1 + max(x) - 1 FROM (SELECT a AS x FROM {name} WHERE TRUE)"),
    ):
        plan = frame._jdf.queryExecution().optimizedPlan().toString().lower()
        assert [tuple(row) for row in frame.collect()] == [(7,)]
        assert "parquet" not in plan


@pytest.mark.parametrize(
    ("where", "count"),
    [
        *(("p = 'x'", 2), ("p IS NULL", 1), ("p <> 'x'", 1), ("p IN ('x', 'y', 'z')", 3), ("p > 'x' OR p IS NULL", 2)),
        *(("NOT (p = 'x')", 1), ("p <=> NULL", 1), ("p LIKE 'x%'", 2), ("p = 'none'", 0), ("a >= 1", 4), ("a > 9", 0)),
        ("p = 'x' AND a < 100", 2),
    ],
)
def test_filters_that_take_whole_files_are_answered(
    partitioned: IcebergTable, ask: Ask, where: str, count: int
) -> None:
    assert ask(partitioned, "count(*)", where) == ((count,), True)


@pytest.fixture(scope="module")
def partitioned(make: Make) -> IcebergTable:
    rows = [{"a": 1, "p": "x"}, {"a": 2, "p": "x"}, {"a": 3, "p": "y"}, {"a": 4, "p": None}]
    return make("a BIGINT, p STRING", rows, partition_by=["p"])


def test_partition_values_are_exact_also_as_text(partitioned: IcebergTable, ask: Ask) -> None:
    assert ask(partitioned, "min(p), max(p), count(p), max(a)") == (("x", "y", 3, 4), True)


def test_a_snapshot_has_its_own_numbers(make: Make, ask: Ask) -> None:
    table = make("a BIGINT", [{"a": 1}], [{"a": 2}])
    first = table.snapshots[0].snapshot_id
    assert ask(table, "count(*), max(a)", tail=f" VERSION AS OF {first}") == ((1, 1), True)
    assert ask(table, "count(*), max(a)") == ((2, 2), True)


# What it does not tell


@pytest.mark.parametrize("where", ["a > 1", "upper(p) = 'X'", "p = 'x' AND a = 2", "p RLIKE 'x'", "length(p) = 1"])
def test_filters_that_split_files_or_are_not_understood_are_read(
    partitioned: IcebergTable, ask: Ask, spark: SparkSession, where: str
) -> None:
    values, from_metadata = ask(partitioned, "count(*), max(a)", where)
    assert not from_metadata
    with switched_off(spark):
        assert ask(partitioned, "count(*), max(a)", where)[0] == values


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        *(("count(DISTINCT a)", 2), ("sum(a)", 9), ("count(*) FILTER (WHERE a > 2)", 2), ("max(a + 1)", 7)),
        *(("count(a, s)", 2), ("max(s)", "c" * 20), ("min(s)", "b" * 20), ("max(x)", b"\1"), ("max(_pos)", 1)),
        *(("count(st)", 1), ("count(st.y)", 1), ("max(st.y)", 5), ("count(DISTINCT _file)", 2)),
    ],
)
def test_what_metadata_does_not_have_is_read(make: Make, ask: Ask, what: str, expected: Any) -> None:
    rows = [
        {"a": 6, "s": "b" * 20, "x": b"\1", "st": {"y": 5}},
        {"a": 3, "s": "c" * 20, "x": None, "st": None},
    ]
    table = make("a BIGINT, s STRING, x BINARY, st STRUCT<y: BIGINT>", rows, [{"a": None}])
    assert ask(table, what) == ((expected,), False)


def test_groups_are_read(make: Make, spark: SparkSession) -> None:
    table = make("a BIGINT", [{"a": 3}, {"a": 7}])
    found = spark.sql(f"SELECT a, count(*) FROM lake.{table.identifier} GROUP BY a ORDER BY a").collect()
    assert [tuple(row) for row in found] == [(3, 1), (7, 1)]


@pytest.mark.parametrize("values", [[1.0, NAN], [NAN], [0.0, 1.0], [-0.0, -1.0]])
def test_nan_and_the_sign_of_zero_are_read_from_rows(
    make: Make, ask: Ask, spark: SparkSession, values: list[float]
) -> None:
    table = make("a DOUBLE", [{"a": value} for value in values])
    with switched_off(spark):
        expected = ask(table, "min(a), max(a)")[0]
    found = ask(table, "min(a), max(a)")
    assert (str(found[0]), found[1]) == (str(expected), False)
    assert ask(table, "count(a)") == ((len(values),), True)


def test_text_is_exact_where_a_file_has_one_value(make: Make, ask: Ask) -> None:
    table = make("s STRING", [{"s": "b"}, {"s": "b"}], [{"s": "a"}])
    assert ask(table, "min(s), max(s)") == (("a", "b"), True)
    table.append([{"s": "long" * 10}])
    assert ask(table, "max(s)") == (("long" * 10,), False)


def test_files_older_than_a_column_are_read(make: Make, ask: Ask) -> None:
    table = make("a BIGINT", [{"a": 1}], version=3)
    table.update_schema().add_column("n", "long", default=5).add_column("e", "long").commit()
    table.append([{"a": 2, "n": None, "e": 9}])
    assert ask(table, "count(n), max(n), count(e), max(e)") == ((1, 5, 1, 9), False)
    assert ask(table, "count(*), max(a)") == ((2, 2), True)


def test_a_dropped_name_used_again_has_none_of_the_old_numbers(make: Make, ask: Ask) -> None:
    table = make("a BIGINT, b BIGINT", [{"a": 1, "b": 5}])
    table.update_schema().drop_column("b").commit()
    table.update_schema().add_column("b", "long").commit()
    assert ask(table, "count(b), max(b)") == ((0, None), False)


def test_renamed_and_widened_columns_keep_their_numbers(make: Make, ask: Ask) -> None:
    table = make("a INT", [{"a": -1}])
    table.update_schema().update_column("a", "long").rename_column("a", "b").commit()
    table.append([{"b": 2**40}])
    assert ask(table, "min(b), max(b), count(b)") == ((-1, 2**40, 2), True)


def test_columns_without_metrics_are_read(make: Make, ask: Ask) -> None:
    properties = {"write.metadata.metrics.column.a": "none", "write.metadata.metrics.column.b": "counts"}
    table = make("a BIGINT, b BIGINT", [{"a": 1, "b": 2}], properties=properties)
    assert ask(table, "count(a), max(a)") == ((1, 1), False)
    assert ask(table, "max(b)") == ((2,), False)
    assert ask(table, "count(b), count(*)") == ((1, 1), True)


def test_deletes_are_applied_to_rows_unless_they_hit_other_files(make: Make, ask: Ask) -> None:
    rows = [{"a": 1, "p": "x"}, {"a": 2, "p": "x"}, {"a": 3, "p": "y"}]
    table = make("a BIGINT, p STRING", rows, version=3, partition_by=["p"])
    delete_rows(table, "a", {2})
    assert ask(table, "count(*), max(a)") == ((2, 3), False)
    assert ask(table, "count(*), max(a)", "p = 'y'") == ((1, 3), True)
    assert ask(table, "count(*), max(a)", "p = 'x'") == ((1, 1), False)


def test_vectors_tell_how_many_rows_are_left(make: Make, ask: Ask) -> None:
    table = make("a BIGINT", [{"a": 1}, {"a": 2}, {"a": 3}], [{"a": 4}, {"a": 5}], [{"a": 6}], version=3)
    delete_rows(table, "a", {2, 5})
    delete_rows(table, "a", {3})
    assert ask(table, "count(*)") == ((3,), True)
    assert ask(table, "count(*)", "a >= 4") == ((2,), True)
    assert ask(table, "count(*)", "a >= 5") == ((1,), False)
    assert ask(table, "count(a)") == ((3,), False)


def test_files_of_positions_do_not_tell_how_many_rows_are_left(make: Make, ask: Ask) -> None:
    table = make("a BIGINT", [{"a": 1}, {"a": 2}, {"a": 3}])
    delete_rows(table, "a", {2})
    assert ask(table, "count(*)") == ((2,), False)


def test_equality_deletes_are_applied_to_rows(make: Make, ask: Ask) -> None:
    table = make("a BIGINT", [{"a": 1}, {"a": 2}])
    table.new_row_delta().add_deletes(equality_deletes(table, "eq", [{"a": 2}], ["a"])).commit()
    table.append([{"a": 3}])
    assert ask(table, "count(*), min(a), max(a)") == ((2, 1, 3), False)


def test_the_option_decides_before_the_setting(make: Make, spark: SparkSession) -> None:
    table = make("a BIGINT", [{"a": 1}])

    def from_metadata(**options: str) -> bool:
        frame = spark.read.options(**options).table(f"lake.{table.identifier}").groupBy().max("a")
        assert [tuple(row) for row in frame.collect()] == [(1,)]
        return "parquet" not in frame._jdf.queryExecution().optimizedPlan().toString()

    option = "aggregate-push-down-enabled"
    assert from_metadata()
    assert not from_metadata(**{option: "false"})
    with switched_off(spark):
        assert not from_metadata()
        assert from_metadata(**{option: "true"})


# All together, by chance


def _row(chance: random.Random) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    return {
        "a": maybe(chance.randint(-3, 3)),
        "f": maybe(chance.choice([-1.5, 0.0, -0.0, 2.0, NAN, float("inf")])),
        "s": maybe(chance.choice(["", "a", "b", "word" * 6, "word" * 6 + "!"])),
        "d": maybe(dt.date(2000, 1, 1) + dt.timedelta(chance.randint(-400, 400))),
        "n": maybe(Decimal(chance.randint(-99, 99)) / 10),
        "p": maybe(chance.choice(["x", "y"])),
        "t": dt.datetime(2000, 1, chance.randint(1, 3), chance.randint(0, 23)),
    }


COLUMNS = "a BIGINT, f DOUBLE, s STRING, d DATE, n DECIMAL(9,1), p STRING, t TIMESTAMP"
FILTERS = [
    *("TRUE", "p = 'x'", "p IS NOT NULL", "NOT (p = 'x' OR p IS NULL)", "p <=> 'y'", "a IS NULL", "a <= 3", "a > 0"),
    *("f > 1", "isnan(f)", "NOT isnan(f)", "s LIKE 'wo%'", "t >= timestamp_ntz'2000-01-02'", "d < date'2030-01-01'"),
    *("n <> 5", "f <= double('NaN')", "p = 'x' AND a IS NOT NULL", "t < timestamp_ntz'2000-01-02' OR p = 'y'"),
]


@pytest.mark.parametrize("seed", range(3))
def test_answers_from_metadata_are_those_of_the_rows(make: Make, ask: Ask, spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    layout = [{}, {"partition_by": ["p"]}, {"partition_by": ["day(t)", "p"]}][seed]
    table = make(COLUMNS, *([_row(chance) for _ in range(chance.randint(1, 4))] for _ in range(3)), **layout)
    table.update_schema().drop_column("n").rename_column("a", "b").commit()
    table.update_schema().rename_column("b", "a").add_column("n", "decimal(9,1)").commit()
    table.append([_row(chance)])
    questions = ["count(*)", *(f"{function}({name})" for name in "afsdnpt" for function in ("count", "min", "max"))]
    answered = 0
    for where in chance.sample(FILTERS, 8):
        with switched_off(spark):
            expected, _ = ask(table, ", ".join(questions), where)
        for number in chance.sample(range(len(questions)), 5):
            (value,), from_metadata = ask(table, questions[number], where)
            assert repr(value) == repr(expected[number]), (questions[number], where, from_metadata)
            answered += from_metadata
    assert answered > 3
