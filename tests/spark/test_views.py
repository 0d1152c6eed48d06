"""Views over our tables, and caches: neither is ever behind the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import frazil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def table(sql: Sql, name: str) -> str:
    sql(f"CREATE TABLE {name} (id BIGINT, word STRING)")
    sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    return name


@pytest.fixture
def by_another(lake: Lake, table: str) -> Callable[..., None]:
    """Rows from a writer that this session knows nothing of."""
    elsewhere = frazil.connect(lake.catalog.warehouse)

    def write(*numbers: int) -> None:
        elsewhere.table(table.removeprefix("lake.")).append([{"id": number, "word": "x"} for number in numbers])

    return write


VIEWS = {
    "temp": ("CREATE TEMP VIEW seen AS", "seen", "DROP VIEW seen"),
    "global temp": ("CREATE GLOBAL TEMP VIEW seen AS", "global_temp.seen", "DROP VIEW global_temp.seen"),
    "stored": ("CREATE VIEW spark_catalog.default.seen AS", "spark_catalog.default.seen", "DROP VIEW default.seen"),
}


@pytest.mark.parametrize("kind", VIEWS)
def test_views_follow_their_table(sql: Sql, table: str, by_another: Callable[..., None], kind: str) -> None:
    create, view, drop = VIEWS[kind]
    sql(f"{create} SELECT id, upper(word) AS word FROM {table} WHERE id <> 2")
    try:
        assert sql(f"SELECT * FROM {view}") == [(1, "A")]
        sql(f"INSERT INTO {table} VALUES (3, 'c')")
        by_another(4)
        assert sorted(sql(f"SELECT id FROM {view}")) == [(1,), (3,), (4,)]
        sql(f"DELETE FROM {table} WHERE id = 1")
        sql(f"ALTER TABLE {table} ADD COLUMN more INT")
        assert sorted(sql(f"SELECT * FROM {view}")) == [(3, "C"), (4, "X")]
        sql(f"CREATE OR REPLACE TABLE {table} AS SELECT 9L AS id, 'z' AS word")
        assert sql(f"SELECT * FROM {view}") == [(9, "Z")]
    finally:
        sql(drop)


def test_a_view_says_what_its_table_lacks(sql: Sql, table: str) -> None:
    from pyspark.errors import AnalysisException

    sql(f"CREATE OR REPLACE TEMP VIEW broken AS SELECT word FROM {table}")
    sql(f"ALTER TABLE {table} DROP COLUMN word")
    with pytest.raises(AnalysisException, match="word"):
        sql("SELECT * FROM broken")
    sql(f"DROP TABLE {table}")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM broken")
    sql("DROP VIEW broken")


def test_a_view_can_travel_in_time(sql: Sql, table: str, lake: Lake) -> None:
    found = lake.table(table.removeprefix("lake.")).current_snapshot
    assert found is not None
    sql(f"CREATE OR REPLACE TEMP VIEW before AS SELECT * FROM {table} VERSION AS OF {found.snapshot_id}")
    sql(f"INSERT INTO {table} VALUES (3, 'c')")
    assert sql("SELECT count(*) FROM before") == [(2,)]
    sql("DROP VIEW before")


def test_a_view_of_a_data_frame_by_path(spark: SparkSession, lake: Lake, sql: Sql, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    spark.range(3).write.format("frazil").save(place)
    spark.read.format("frazil").load(place).createOrReplaceTempView("by_path")
    assert sql("SELECT sum(id) FROM by_path") == [(3,)]
    sql("DROP VIEW by_path")


def test_views_of_the_lake_itself_are_refused_by_spark(sql: Sql, table: str) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="does not support views"):
        sql(f"CREATE VIEW lake.db.own AS SELECT * FROM {table}")


CHANGES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "INSERT": ("INSERT INTO {} VALUES (3, 'c')", [(1, "a"), (2, "b"), (3, "c")]),
    "OVERWRITE": ("INSERT OVERWRITE {} VALUES (3, 'c')", [(3, "c")]),
    "DELETE": ("DELETE FROM {} WHERE id = 1", [(2, "b")]),
    "TRUNCATE": ("TRUNCATE TABLE {}", []),
    "REPLACE": ("CREATE OR REPLACE TABLE {} AS SELECT 9L AS id, 'z' AS word", [(9, "z")]),
    "RENAME": ("ALTER TABLE {} RENAME COLUMN word TO term", [(1, "a"), (2, "b")]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_cached_table_is_never_stale(sql: Sql, spark: SparkSession, table: str, change: str) -> None:
    statement, expected = CHANGES[change]
    sql(f"CACHE TABLE {table}")
    assert len(sql(f"SELECT * FROM {table}")) == 2
    sql(statement.format(table))
    assert sorted(sql(f"SELECT * FROM {table}")) == expected
    assert spark.table(table).where("id > 0").count() == len(expected)
    sql(f"UNCACHE TABLE IF EXISTS {table}")


def test_a_cached_table_shows_what_others_wrote(
    sql: Sql, spark: SparkSession, table: str, by_another: Callable[..., None]
) -> None:
    sql(f"CACHE TABLE {table}")
    by_another(3)
    assert sorted(row[0] for row in sql(f"SELECT id FROM {table}")) == [1, 2, 3]
    sql(f"UNCACHE TABLE IF EXISTS {table}")


def test_a_cached_data_frame_never_makes_another_one_stale(
    sql: Sql, spark: SparkSession, table: str, by_another: Callable[..., None], lake: Lake
) -> None:
    cached = spark.table(table).where("id > 1").cache()
    try:
        assert cached.count() == 1
        by_another(3)
        assert spark.table(table).where("id > 1").count() == 2
        lake.table(table.removeprefix("lake.")).delete("id = 2")
        assert spark.table(table).where("id > 1").count() == 1
        sql(f"INSERT INTO {table} VALUES (4, 'd'), (5, 'e')")
        assert spark.table(table).where("id > 1").count() == 3
    finally:
        cached.unpersist()


def test_the_cache_is_used_while_nothing_changes(sql: Sql, spark: SparkSession, table: str) -> None:
    sql(f"CACHE TABLE {table}")
    plan = spark.table(table)._jdf.queryExecution().optimizedPlan().toString()
    assert "InMemoryRelation" in plan
    sql(f"UNCACHE TABLE {table}")


def test_a_cached_read_by_format_is_never_stale(spark: SparkSession, sql: Sql, table: str) -> None:
    load = spark.read.format("frazil").load
    cached = load(table).cache()
    try:
        assert cached.count() == 2
        spark.range(5, 7).selectExpr("id", "'w' AS word").write.format("frazil").mode("append").save(table)
        assert load(table).count() == 4
        assert spark.table(table).count() == 4
    finally:
        cached.unpersist()


def test_a_query_on_a_cached_view_sees_new_rows(sql: Sql, table: str, by_another: Callable[..., None]) -> None:
    sql(f"CREATE OR REPLACE TEMP VIEW warm AS SELECT id FROM {table}")
    sql("CACHE TABLE warm")
    sql(f"INSERT INTO {table} VALUES (3, 'c')")
    assert len(sql("SELECT * FROM warm")) == 3
    by_another(4)
    assert len(sql("SELECT * FROM warm")) == 4
    sql("UNCACHE TABLE IF EXISTS warm")
    sql("DROP VIEW warm")
