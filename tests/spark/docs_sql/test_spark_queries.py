"""Every statement of Iceberg's page "Spark Queries" (docs/docs/spark-queries.md) up to "Inspecting tables".

The table has the snapshots the page tells of: 10963874102873 was current on October 26, 1986 at 01:21:00.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

import frazil
from frazil import ambient
from frazil.errors import FrazilError
from frazil.spark.functions import ICEBERG_VERSION
from tests.spark.docs_sql.cases import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.lake import Lake

OLD, NEW, BRANCHED = 10963874102873, 63874143573109, 4686954189838128572
BEFORE_MS = 499162860_000 - 60_000
"""A minute before October 26, 1986 at 01:21:00."""

FIRST = [(1, "NEW"), (2, "PAID")]
LATER = [(1, "NEW"), (2, "PAID"), (3, "PAID")]
ON_BRANCH = [(1, "NEW", None), (2, "PAID", None), (4, "AUDIT", 4.0)]


@pytest.fixture(scope="module")
def table(spark: SparkSession, prod: Lake) -> Iterator[str]:
    """prod.db.table: two snapshots, a branch with one more row, a tag at the first, and a column that came later."""
    world = World(spark, prod)
    ids = iter((OLD, NEW, BRANCHED))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ambient, "new_snapshot_id", lambda: next(ids))
        with ambient.replaced(ambient.Ambient(start_ms=BEFORE_MS)):
            world.sql("CREATE TABLE prod.db.table (id BIGINT, status STRING) USING iceberg")
            world.sql("INSERT INTO prod.db.table VALUES (1, 'NEW'), (2, 'PAID')")
        world.sql(f"ALTER TABLE prod.db.table CREATE TAG `historical-snapshot` AS OF VERSION {OLD}")
        world.sql(f"ALTER TABLE prod.db.table CREATE BRANCH `audit-branch` AS OF VERSION {OLD}")
        world.sql("INSERT INTO prod.db.table VALUES (3, 'PAID')")
        world.sql("ALTER TABLE prod.db.table ADD COLUMN total DOUBLE")
        world.sql("INSERT INTO prod.db.table.`branch_audit-branch` VALUES (4, 'AUDIT', 4.0)")
    yield "prod.db.table"
    prod.drop_table("db.table", purge=True)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_querying_with_sql(spark: SparkSession, table: str) -> None:
    assert rows(spark.sql("SELECT * FROM prod.db.table")) == [(*row, None) for row in LATER]
    files = spark.sql("SELECT * FROM prod.db.table.files").collect()
    assert {(file.content, file.file_format, file.spec_id) for file in files} == {(0, "PARQUET", 0)}
    assert sum(file.record_count for file in files) == len(LATER)
    assert {file.file_path for file in files} == {row[0] for row in rows(spark.sql("SELECT _file FROM prod.db.table"))}


TIME_TRAVEL = [
    ("TIMESTAMP AS OF '1986-10-26 01:21:00'", FIRST),
    (f"VERSION AS OF {OLD}", FIRST),
    ("VERSION AS OF 'audit-branch'", ON_BRANCH),
    ("VERSION AS OF 'historical-snapshot'", FIRST),
    ("FOR SYSTEM_TIME AS OF '1986-10-26 01:21:00'", FIRST),
    (f"FOR SYSTEM_VERSION AS OF {OLD}", FIRST),
    ("FOR SYSTEM_VERSION AS OF 'audit-branch'", ON_BRANCH),
    ("FOR SYSTEM_VERSION AS OF 'historical-snapshot'", FIRST),
    ("TIMESTAMP AS OF 499162860", FIRST),
    ("FOR SYSTEM_TIME AS OF 499162860", FIRST),
    (f"VERSION AS OF {NEW}", LATER),
]


@pytest.mark.parametrize(("clause", "expected"), TIME_TRAVEL)
def test_time_travel_queries_with_sql(spark: SparkSession, table: str, clause: str, expected: list[Any]) -> None:
    """A branch has the table's columns; a snapshot, a time and a tag have those of their snapshot."""
    assert rows(spark.sql(f"SELECT * FROM prod.db.table {clause}")) == expected


@pytest.mark.parametrize(("name", "expected"), [("branch_audit-branch", ON_BRANCH), ("tag_historical-snapshot", FIRST)])
def test_a_branch_or_tag_is_part_of_the_name(spark: SparkSession, table: str, name: str, expected: list[Any]) -> None:
    assert rows(spark.sql(f"SELECT * FROM prod.db.table.`{name}`")) == expected


@pytest.mark.parametrize("name", ["branch_audit-branch", "tag_historical-snapshot"])
def test_a_name_with_a_branch_or_tag_goes_with_no_version(spark: SparkSession, table: str, name: str) -> None:
    for clause in (f"VERSION AS OF {OLD}", "TIMESTAMP AS OF '1986-10-26 01:21:00'"):
        with pytest.raises(FrazilError, match="version"):
            spark.sql(f"SELECT * FROM prod.db.table.`{name}` {clause}").collect()


def test_an_id_goes_before_a_ref_of_that_name(world: World) -> None:
    world.sql("CREATE TABLE prod.db.t AS SELECT 1 AS id")
    world.sql("INSERT INTO prod.db.t VALUES (2)")
    first, second = (snapshot.snapshot_id for snapshot in world.table("db.t").snapshots)
    world.sql(f"ALTER TABLE prod.db.t CREATE TAG `{first}` AS OF VERSION {second}")
    assert world.sql(f"SELECT * FROM prod.db.t VERSION AS OF '{first}'") == [(1,)]


def test_schema_selection_in_time_travel_queries(world: World) -> None:
    world.sql("CREATE TABLE prod.db.orders (id BIGINT, status STRING) USING iceberg")
    world.sql("INSERT INTO prod.db.orders VALUES (1, 'NEW'), (2, 'PAID')")
    world.sql("ALTER TABLE prod.db.orders ADD COLUMN total DOUBLE")
    world.sql("INSERT INTO prod.db.orders VALUES (3, 'PAID', 100.0)")
    [(first, committed_at), _] = world.sql(
        "SELECT snapshot_id, committed_at FROM prod.db.orders.snapshots ORDER BY committed_at"
    )
    world.sql(f"ALTER TABLE prod.db.orders CREATE BRANCH audit_branch AS OF VERSION {first}")
    world.sql(f"ALTER TABLE prod.db.orders CREATE TAG first_load AS OF VERSION {first}")
    old, new = [(1, "NEW"), (2, "PAID")], [(1, "NEW", None), (2, "PAID", None)]
    for source, expected in (
        (f"prod.db.orders VERSION AS OF {first}", old),
        (f"prod.db.orders TIMESTAMP AS OF '{committed_at}'", old),
        ("prod.db.orders VERSION AS OF 'audit_branch'", new),
        ("prod.db.orders.`branch_audit_branch`", new),
        ("prod.db.orders VERSION AS OF 'first_load'", old),
        ("prod.db.orders.`tag_first_load`", old),
    ):
        frame = world.spark.sql(f"SELECT * FROM {source}")
        assert frame.columns == ["id", "status", "total"][: len(expected[0])], source
        assert rows(frame) == expected, source
    assert sorted(world.sql("SELECT * FROM prod.db.orders")) == [*new, (3, "PAID", 100.0)]


# Querying with DataFrames


def test_a_table_is_a_data_frame(spark: SparkSession, table: str) -> None:
    assert rows(spark.table("prod.db.table").select("id", "status")) == LATER


def test_names_are_found_as_spark_finds_them(world: World) -> None:
    spark = world.spark
    world.sql("CREATE NAMESPACE IF NOT EXISTS prod.db.inner")
    world.sql("CREATE TABLE prod.db.tablename AS SELECT 1 AS id")
    world.sql("CREATE TABLE prod.db.inner.tablename AS SELECT 2 AS id")
    world.sql("USE prod.db")
    try:
        for name, found in (
            ("tablename", 1),
            ("db.tablename", 1),
            ("prod.db.tablename", 1),
            ("db.inner.tablename", 2),
            ("prod.db.inner.tablename", 2),
        ):
            assert rows(spark.table(name)) == [(found,)], name
            assert rows(spark.read.format("frazil").load(name)) == [(found,)], name
    finally:
        world.sql("USE spark_catalog.default")
        world.sql("DROP TABLE prod.db.inner.tablename PURGE")
        world.sql("DROP NAMESPACE prod.db.inner")


OPTIONS = [
    ("as-of-timestamp", "499162860000", FIRST),
    ("snapshot-id", OLD, FIRST),
    ("tag", "historical-snapshot", FIRST),
    ("branch", "audit-branch", ON_BRANCH),
]


@pytest.mark.parametrize(("option", "value", "expected"), OPTIONS)
def test_time_travel_queries_with_data_frames(
    spark: SparkSession, prod: Lake, table: str, option: str, value: Any, expected: list[Any]
) -> None:
    """By path the columns are those of the snapshot; by name they are chosen before options are seen."""
    by_path = spark.read.option(option, value).format("frazil").load(prod.table("db.table").location)
    assert rows(by_path) == expected
    by_name = spark.read.option(option, value).table("prod.db.table")
    assert rows(by_name) == [(*row, None) if len(row) == 2 else row for row in expected]


def test_incremental_read(spark: SparkSession, table: str) -> None:
    for start, end, expected in ((OLD, NEW, [(3, "PAID", None)]), (OLD, None, [(3, "PAID", None)])):
        reader = spark.read.option("start-snapshot-id", str(start))
        if end is not None:
            reader = reader.option("end-snapshot-id", str(end))
        assert rows(reader.table(table)) == expected


def test_incremental_read_is_of_appended_rows_only(world: World) -> None:
    world.sql("CREATE TABLE prod.db.t (id BIGINT) USING iceberg")
    for text in (
        *("INSERT INTO prod.db.t VALUES (1)", "INSERT INTO prod.db.t VALUES (2)", "INSERT INTO prod.db.t VALUES (3)"),
        *("DELETE FROM prod.db.t WHERE id = 2", "INSERT INTO prod.db.t VALUES (4)"),
    ):
        world.sql(text)
    first, second, third, _, last = (snapshot.snapshot_id for snapshot in world.table("db.t").snapshots)

    def read(start: int, end: int | None = None) -> list[Any]:
        reader = world.spark.read.option("start-snapshot-id", start)
        return rows((reader if end is None else reader.option("end-snapshot-id", end)).table("prod.db.t"))

    assert read(first, third) == [(2,), (3,)]
    assert read(second, third) == [(3,)]
    assert read(first, last) == read(first) == [(2,), (3,), (4,)]
    with pytest.raises(FrazilError, match=" before "):
        read(third, second)
    with pytest.raises(FrazilError, match="start-snapshot-id"):
        world.spark.read.option("end-snapshot-id", third).table("prod.db.t").collect()
    with pytest.raises(FrazilError, match="snapshot-id"):
        world.spark.read.option("start-snapshot-id", first).option("snapshot-id", third).table("prod.db.t").collect()


# Spark SQL functions


@pytest.fixture(scope="module")
def values(spark: SparkSession, prod: Lake) -> Iterator[str]:
    """prod.db.values: one row of values and one of nulls."""
    World(spark, prod).sql(
        """CREATE TABLE prod.db.values AS SELECT * FROM VALUES
        (34L, timestamp '2017-11-16 22:31:08', date '2017-11-16', 'iceberg', 10.65, X'00010203'),
        (null, null, null, null, null, null) AS t(id, ts, day, data, price, raw)"""
    )
    yield "prod.db.values"
    prod.drop_table("db.values", purge=True)


FUNCTIONS = [
    ("bucket(16, id)", 3),
    ("bucket(100, data)", 89),
    ("years(ts)", 47),
    ("years(day)", 47),
    ("months(ts)", 574),
    ("days(ts)", dt.date(2017, 11, 16)),
    ("days(day)", dt.date(2017, 11, 16)),
    ("hours(ts)", 419686),
    ("truncate(10, id)", 30),
    ("truncate(4, data)", "iceb"),
]


@pytest.mark.parametrize(("call", "expected"), FUNCTIONS)
def test_spark_sql_functions(spark: SparkSession, values: str, call: str, expected: Any) -> None:
    assert spark.sql(f"SELECT prod.system.{call} FROM {values} WHERE id IS NOT NULL").collect()[0][0] == expected
    assert spark.sql(f"SELECT prod.system.{call} FROM {values} WHERE id IS NULL").collect()[0][0] is None


def test_functions_of_the_current_catalog_need_no_catalog_name(world: World, values: str) -> None:
    """`iceberg_version()` is the version whose SQL this is; ours has a version too."""
    world.sql("USE prod")
    try:
        assert world.sql("SELECT system.iceberg_version()") == [(ICEBERG_VERSION,)]
        assert world.sql("SELECT system.frazil_version()") == [(frazil.__version__,)]
        found = world.sql("SELECT system.bucket(16, id), system.days(ts) FROM prod.db.values WHERE id = 34")
        assert found == [(3, dt.date(2017, 11, 16))]
    finally:
        world.sql("USE spark_catalog.default")


def test_functions_filter_rows(spark: SparkSession, values: str) -> None:
    found = spark.sql(f"SELECT id FROM {values} WHERE prod.system.days(ts) = date('2017-11-16')").collect()
    assert found == [(34,)]


def test_a_function_that_is_not_there_is_named(spark: SparkSession, values: str) -> None:
    with pytest.raises(AnalysisException, match="nothing"):
        spark.sql(f"SELECT prod.system.nothing(id) FROM {values}")
