"""The transforms as SQL functions: `lake.system.bucket(16, id)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil.model.transforms import parse_transform
from frazil.model.types import parse_type
from frazil.model.values import canonical
from frazil.spark.functions import ICEBERG_VERSION
from tests.spark.scan.metrics import files_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake

Sql = Callable[..., list[tuple[Any, ...]]]

MANY = 2**31 - 1
"""So many buckets that the bucket is the hash itself, but for its sign."""

HASHES = {
    "34": 2017239379,
    "34L": 2017239379,
    "CAST(34 AS TINYINT)": 2017239379,
    "CAST(34 AS SMALLINT)": 2017239379,
    "CAST(14.20 AS DECIMAL(9, 2))": -500754589,
    "CAST(14.20 AS DECIMAL(38, 2))": -500754589,
    "DATE '2017-11-16'": -653330422,
    "TIMESTAMP_NTZ '2017-11-16T22:31:08'": -2047944441,
    "TIMESTAMP_NTZ '2017-11-16T22:31:08.000001'": -1207196810,
    "TIMESTAMP '2017-11-16T14:31:08-08:00'": -2047944441,
    "TIMESTAMP '2017-11-16T14:31:08.000001-08:00'": -1207196810,
    "'iceberg'": 1210000089,
    "X'00010203'": -188683207,
}
"""Appendix B of the spec. Spark has texts for uuids, and no fixed."""


@pytest.mark.parametrize("value", HASHES)
def test_bucket_hashes_as_the_spec_says(sql: Sql, value: str) -> None:
    expected = (HASHES[value] & MANY) % MANY
    assert sql(f"SELECT lake.system.bucket({MANY}, {value})") == [(expected,)]
    [[in_a_column]] = sql(f"SELECT lake.system.bucket(16, v) FROM (SELECT {value} AS v FROM range(2) LIMIT 1)")
    assert in_a_column == (HASHES[value] & MANY) % 16


def test_bucket_hashes_times_of_the_day(sql: Sql, spark: SparkSession) -> None:
    if spark.version < "4.1":
        pytest.skip("this Spark has no TIME")
    assert sql(f"SELECT lake.system.bucket({MANY}, TIME '22:31:08')") == [(-662762989 & MANY,)]


@pytest.mark.parametrize(
    ("call", "type_", "value"),
    [
        ("truncate(10, {})", "int", "-1"),
        ("truncate(10, {})", "long", "-11"),
        ("truncate(10, {})", "int", "9"),
        ("truncate(50, {})", "decimal(9, 2)", "10.65"),
        ("truncate(50, {})", "decimal(9, 2)", "-10.65"),
        ("truncate(3, {})", "string", "イロハニ"),
        ("truncate(3, {})", "string", "ab"),
        ("years({})", "date", "1969-12-31"),
        ("months({})", "date", "1969-12-31"),
        ("days({})", "date", "1969-12-31"),
        ("years({})", "timestamptz", "1969-12-31T23:59:59.999999+00:00"),
        ("months({})", "timestamptz", "2021-02-28T23:59:59.999999+00:00"),
        ("days({})", "timestamp", "1969-12-31T23:59:59.999999"),
        ("hours({})", "timestamp", "1969-12-31T23:59:59.999999"),
        ("hours({})", "timestamptz", "2021-02-28T23:00:00+00:00"),
    ],
)
def test_functions_agree_with_the_partition_transforms(sql: Sql, call: str, type_: str, value: str) -> None:
    kind = parse_type(type_)
    name, _, rest = call.partition("(")
    width = rest.partition(",")[0]
    transform = parse_transform(f"truncate[{width}]" if name == "truncate" else name.removesuffix("s"))
    expected = transform.apply(kind, canonical(kind, int(value) if type_ in ("int", "long") else value))
    spark_type = {"long": "BIGINT", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP"}.get(type_, type_)
    got = f"lake.system.{call.format('v')}"
    shown = f"unix_date({got})" if name == "days" else f"CAST({got} AS STRING)"
    [[found]] = sql(f"SELECT {shown} FROM (SELECT CAST('{value}' AS {spark_type}) AS v)")
    if type_.startswith("decimal"):
        found = canonical(kind, found)
    assert str(found) == str(expected)


def test_truncate_of_bytes_takes_the_first_ones(sql: Sql) -> None:
    assert sql("SELECT lake.system.truncate(2, X'010203'), lake.system.truncate(4, X'010203')") == [
        (bytearray(b"\1\2"), bytearray(b"\1\2\3"))
    ]


def test_singular_names_and_any_case_are_the_same_functions(sql: Sql) -> None:
    days = "date'2020-03-01'"
    [row] = sql(f"SELECT lake.system.year({days}), lake.system.MONTHS({days}), lake.system.Day({days})")
    assert [str(value) for value in row] == ["50", "602", "2020-03-01"]


def test_null_gives_null(sql: Sql) -> None:
    calls = ["bucket(4, CAST(NULL AS STRING))", "bucket(CAST(NULL AS INT), 1)", "truncate(2, CAST(NULL AS BIGINT))"]
    calls += [f"{name}(CAST(NULL AS TIMESTAMP))" for name in ("years", "months", "days", "hours")]
    calls += ["bucket(4, NULL)", "days(NULL)"]
    for call in calls:
        assert sql(f"SELECT lake.system.{call}") == [(None,)], call
    assert sql("SELECT lake.system.bucket(4, v) FROM VALUES (CAST(NULL AS INT)), (34) AS t(v)") == [(None,), (3,)]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("bucket(4, true)", "boolean"),
        ("bucket(4, 1.5D)", "double"),
        ("bucket('a', 1)", "string"),
        ("truncate(4, date'2020-01-01')", "date"),
        ("hours(date'2020-01-01')", "date"),
        ("years(1)", "int"),
        ("days(1, 2)", "argument"),
    ],
)
def test_a_wrong_type_is_named_in_the_error(sql: Sql, call: str, named: str) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=named):
        sql(f"SELECT lake.system.{call}")


def test_a_number_of_buckets_must_be_positive(sql: Sql) -> None:
    with pytest.raises(Exception, match="must be positive, not 0"):
        sql("SELECT lake.system.bucket(v, 1) FROM VALUES (0) AS t(v)")


def test_functions_group_rows_as_partitions_do(sql: Sql, lake: Lake, name: str) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT, s STRING) PARTITIONED BY (bucket(5, id), truncate(1, s))")
    sql(f"INSERT INTO {name} SELECT id, concat(char(97 + id % 3), id) FROM range(60)")
    stored = sql(f"SELECT partition.*, record_count FROM {name}.partitions")
    computed = sql(f"SELECT lake.system.bucket(5, id), lake.system.truncate(1, s), count(*) FROM {name} GROUP BY 1, 2")
    assert sorted(computed) == sorted(stored)
    assert len(stored) > 10


@pytest.mark.parametrize(
    ("condition", "files"),
    [
        ("lake.system.bucket(4, id) = 0", 1),
        ("lake.system.bucket(4, id) IN (0, 3)", 2),
        ("lake.system.days(ts) = DATE '2024-01-02'", 1),
        ("lake.system.days(ts) >= DATE '2024-01-02'", 3),
        ("NOT lake.system.days(ts) < DATE '2024-01-02' AND lake.system.months(ts) = 648", 3),
        ("lake.system.truncate(2, name) = 'n1'", 1),
    ],
)
def test_files_are_pruned_by_functions_of_partitions(
    sql: Sql, spark: SparkSession, name: str, condition: str, files: int
) -> None:
    by = next(term for term in ("bucket(4, id)", "days(ts)", "truncate(2, name)") if term.split("(")[0] in condition)
    spark.sql(f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP, name STRING) PARTITIONED BY ({by})")
    start = "timestamp '2023-12-30 12:00:00'"
    rows = f"SELECT id, {start} + make_interval(0, 0, 0, id) AS ts, 'n' || id AS name FROM range(6)"
    sql(f"INSERT INTO {name} {rows}")
    frame = spark.sql(f"SELECT id FROM {name} WHERE {condition}")
    found = sorted(row.id for row in frame.collect())
    assert files_read(frame) == [files]
    assert found == [row.id for row in spark.sql(f"SELECT * FROM ({rows}) WHERE {condition} ORDER BY id").collect()]
    assert found


def test_functions_are_listed_and_described(sql: Sql, spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    listed = {row[0] for row in sql("SHOW USER FUNCTIONS IN lake.system")}
    assert {"bucket", "truncate", "years", "months", "days", "hours", "frazil_version", "iceberg_version"} <= {
        one.rpartition(".")[2] for one in listed
    }
    assert sql("SELECT lake.system.frazil_version(), lake.system.iceberg_version()") == [
        (frazil.__version__, ICEBERG_VERSION)
    ]
    assert sql("SHOW USER FUNCTIONS IN lake.db") == []
    assert "bucket(buckets, column)" in str(spark.catalog.getFunction("lake.system.bucket").description)
    with pytest.raises(AnalysisException, match="does not support functions"):  # of no catalog but its own, says Spark
        sql("DESCRIBE FUNCTION lake.system.bucket")


def test_an_unknown_function_is_sparks_error(sql: Sql, spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
        sql("SELECT lake.system.nope(1)")
    spark.catalog.setCurrentCatalog("lake")
    try:
        assert sql("SELECT upper('a'), year(date'2020-01-01')") == [("A", 2020)]
        with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
            sql("SELECT lake.db.bucket(4, 1)")
        assert sql("SELECT system.bucket(100, 34)") == [(79,)]
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")
