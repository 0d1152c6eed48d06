"""Every statement of Iceberg's page "Spark Writes" (docs/docs/spark-writes.md) but DELETE, UPDATE and MERGE.

Those are in `test_spark_row_changes`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from frazil.errors import FrazilError
from tests.spark.docs_sql.cases import Case, World, columns, partitioning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLE = "CREATE TABLE prod.db.table (id bigint, data string) USING iceberg"
ROWS = "SELECT * FROM prod.db.table"

CASES = [
    Case("INSERT INTO", "INSERT INTO prod.db.table VALUES (1, 'a'), (2, 'b')", [(1, "a"), (2, "b")], ROWS, TABLE),
    Case(
        "INSERT INTO",
        "INSERT INTO prod.db.table SELECT id, concat('d', id) FROM range(2)",
        [(0, "d0"), (1, "d1"), (7, "x")],
        ROWS,
        f"{TABLE}; INSERT INTO prod.db.table VALUES (7, 'x')",
    ),
    Case(
        "Writing to branches, via SQL",
        "INSERT INTO prod.db.table.branch_audit VALUES (1, 'a'), (2, 'b')",
        ([(0, "old"), (1, "a"), (2, "b")], [(0, "old")]),
        lambda world: (sorted(world.sql("SELECT * FROM prod.db.table.branch_audit")), world.sql(ROWS)),
        f"{TABLE}; INSERT INTO prod.db.table VALUES (0, 'old'); ALTER TABLE prod.db.table CREATE BRANCH audit",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_statement_of_the_page(case: Case, world: World) -> None:
    case.run(world)


# INSERT OVERWRITE

JULY_1 = "2020-07-01"


@pytest.fixture
def logs(world: World) -> Iterator[World]:
    """prod.my_app.logs: events of two days and two levels, one of them twice."""
    world.sql("CREATE NAMESPACE IF NOT EXISTS prod.my_app")
    world.sql(
        """CREATE TABLE prod.my_app.logs (uuid string NOT NULL, level string NOT NULL, ts timestamp NOT NULL,
        message string) USING iceberg PARTITIONED BY (level, hours(ts))"""
    )
    world.sql(
        f"""INSERT INTO prod.my_app.logs VALUES
        ('a', 'INFO', timestamp '{JULY_1} 01:00:00', 'once'), ('b', 'INFO', timestamp '{JULY_1} 02:00:00', 'twice'),
        ('b', 'INFO', timestamp '{JULY_1} 02:00:00', 'twice'), ('c', 'WARN', timestamp '2020-07-02 01:00:00', 'no')"""
    )
    yield world
    world.sql("DROP TABLE prod.my_app.logs PURGE")


def messages(world: World) -> list[tuple[Any, ...]]:
    return sorted(world.sql("SELECT uuid, level, message FROM prod.my_app.logs"))


WITHOUT_DUPLICATES = f"""INSERT OVERWRITE prod.my_app.logs SELECT uuid, first(level), first(ts), first(message)
    FROM prod.my_app.logs WHERE cast(ts as date) = '{JULY_1}' GROUP BY uuid"""


def test_dynamic_overwrite_replaces_the_partitions_that_rows_go_to(logs: World) -> None:
    logs.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        logs.sql(WITHOUT_DUPLICATES)
    finally:
        logs.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert messages(logs) == [("a", "INFO", "once"), ("b", "INFO", "twice"), ("c", "WARN", "no")]


def test_static_overwrite_without_a_partition_clause_replaces_all(logs: World) -> None:
    logs.sql(WITHOUT_DUPLICATES)
    assert messages(logs) == [("a", "INFO", "once"), ("b", "INFO", "twice")]


def test_static_overwrite_replaces_what_its_partition_clause_says(logs: World) -> None:
    """The page selects the column of the clause as well; Spark asks for it in one of both places only."""
    logs.sql(
        """INSERT OVERWRITE prod.my_app.logs PARTITION (level = 'INFO') SELECT uuid, first(ts), first(message)
        FROM prod.my_app.logs WHERE level = 'INFO' GROUP BY uuid"""
    )
    assert messages(logs) == [("a", "INFO", "once"), ("b", "INFO", "twice"), ("c", "WARN", "no")]


# Branches


def test_wap_branch_write(world: World) -> None:
    world.sql(f"{TABLE} TBLPROPERTIES ('write.wap.enabled' = 'true')")
    world.sql("INSERT INTO prod.db.table VALUES (0, 'old')")
    world.sql("ALTER TABLE prod.db.table CREATE BRANCH `audit-branch`")
    world.sql("ALTER TABLE prod.db.table CREATE BRANCH other")
    world.sql("SET spark.wap.branch = audit-branch")
    try:
        world.sql("INSERT INTO prod.db.table VALUES (3, 'c')")
        with pytest.raises(FrazilError, match=r"spark\.wap\.branch"):
            world.sql("INSERT INTO prod.db.table.branch_other VALUES (4, 'd')")
    finally:
        world.spark.conf.unset("spark.wap.branch")
    assert world.sql(ROWS) == [(0, "old")]
    assert sorted(world.sql("SELECT * FROM prod.db.table VERSION AS OF 'audit-branch'")) == [(0, "old"), (3, "c")]


def test_branches_are_written_via_data_frames(world: World) -> None:
    world.sql(f"{TABLE} PARTITIONED BY (data)")
    world.sql("INSERT INTO prod.db.table VALUES (0, 'a'), (1, 'b')")
    world.sql("ALTER TABLE prod.db.table CREATE BRANCH audit")
    data = world.spark.sql("SELECT 2L AS id, 'a' AS data")
    data.writeTo("prod.db.table.branch_audit").append()
    assert sorted(world.sql("SELECT * FROM prod.db.table.branch_audit")) == [(0, "a"), (1, "b"), (2, "a")]
    data.writeTo("prod.db.table.branch_audit").overwritePartitions()
    assert sorted(world.sql("SELECT * FROM prod.db.table.branch_audit")) == [(1, "b"), (2, "a")]
    assert sorted(world.sql(ROWS)) == [(0, "a"), (1, "b")]


# Writing with DataFrames

CREATED = "CREATE TABLE prod.db.sample (level string, ts timestamp, id bigint) USING iceberg PARTITIONED BY (level)"
ALL = "SELECT level, id FROM prod.db.sample"


def events(world: World, *rows: tuple[str, int]) -> DataFrame:
    """Rows of the sample table, all of one day."""
    day = dt.datetime(2020, 7, 1, tzinfo=dt.UTC)
    return world.spark.createDataFrame(
        [(level, day, number) for level, number in rows], "level string, ts timestamp, id bigint"
    )


def test_appending_data(world: World) -> None:
    world.sql(CREATED)
    events(world, ("INFO", 1)).writeTo("prod.db.sample").append()
    events(world, ("INFO", 2)).select("id", "ts", "level").writeTo("prod.db.sample").append()
    assert sorted(world.sql(ALL)) == [("INFO", 1), ("INFO", 2)]


def test_overwriting_data(world: World) -> None:
    from pyspark.sql.functions import col

    world.sql(CREATED)
    events(world, ("INFO", 1), ("WARN", 2), ("ERROR", 3)).writeTo("prod.db.sample").append()
    events(world, ("WARN", 4)).writeTo("prod.db.sample").overwritePartitions()
    assert sorted(world.sql(ALL)) == [("ERROR", 3), ("INFO", 1), ("WARN", 4)]
    events(world, ("INFO", 5)).writeTo("prod.db.sample").overwrite(col("level") == "INFO")
    assert sorted(world.sql(ALL)) == [("ERROR", 3), ("INFO", 5), ("WARN", 4)]


def test_creating_tables(world: World) -> None:
    events(world, ("INFO", 1)).writeTo("prod.db.sample").create()
    assert world.sql(ALL) == [("INFO", 1)]
    events(world, ("INFO", 2)).writeTo("prod.db.sample").using("iceberg").replace()
    assert world.sql(ALL) == [("INFO", 2)]


def test_created_tables_are_configured(world: World) -> None:
    from pyspark.sql.functions import col
    from pyspark.sql.functions import partitioning as terms

    writer = events(world, ("INFO", 1)).writeTo("prod.db.sample").tableProperty("write.format.default", "orc")
    writer.partitionedBy(col("level"), terms.days(col("ts"))).createOrReplace()
    assert partitioning(world) == ["level = identity(level)", "ts_day = day(ts)"]
    assert world.sql("SELECT file_format FROM prod.db.sample.files") == [("ORC",)]
    assert world.sql(ALL) == [("INFO", 1)]


def test_created_tables_are_placed(world: World, tmp_path: Path) -> None:
    writer = events(world, ("INFO", 1)).writeTo("prod.db.sample")
    writer.tableProperty("location", f"{tmp_path}/location").createOrReplace()
    assert world.table().location == f"{tmp_path}/location"
    assert list((tmp_path / "location").rglob("*.parquet"))
    assert world.sql(ALL) == [("INFO", 1)]


def test_schema_merge(world: World) -> None:
    world.sql("CREATE TABLE prod.db.sample (id bigint, data string) USING iceberg")
    world.sql("INSERT INTO prod.db.sample VALUES (1, 'a')")
    world.sql("ALTER TABLE prod.db.sample SET TBLPROPERTIES ('write.spark.accept-any-schema'='true')")
    data = world.spark.sql("SELECT 2L AS id, 2.5D AS added")
    data.writeTo("prod.db.sample").option("mergeSchema", "true").append()
    assert columns(world) == ["id bigint", "data string", "added double"]
    assert sorted(world.sql("SELECT * FROM prod.db.sample")) == [(1, "a", None), (2, None, 2.5)]


# Writing distribution modes


@pytest.mark.parametrize("mode", ["none", "hash", "range"])
def test_writing_distribution_modes(world: World, mode: str) -> None:
    world.sql(
        f"""CREATE TABLE prod.db.sample (id bigint, data string, category string, ts timestamp) USING iceberg
        PARTITIONED BY (days(ts), category) TBLPROPERTIES ('write.distribution-mode' = '{mode}')"""
    )
    world.spark.sql(
        """SELECT id, concat('d', id) AS data, concat('c', id % 3) AS category,
        timestamp_seconds(id % 2 * 86400) AS ts FROM range(0, 60, 1, 4)"""
    ).createOrReplaceTempView("another_table")
    world.sql("INSERT INTO prod.db.sample SELECT id, data, category, ts FROM another_table")
    assert world.sql("SELECT count(*), sum(id), count(DISTINCT data) FROM prod.db.sample") == [(60, 1770, 60)]
    found = world.sql("SELECT record_count, file_count FROM prod.db.sample.partitions")
    assert [rows for rows, _ in found] == [10] * 6
    if mode == "hash":
        assert [files for _, files in found] == [1] * 6
