"""`format("frazil")`: tables by path and by name, read and written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil.errors import FrazilError, InvalidArgument
from frazil.spark.attach import OWN_CATALOG, bridges_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.lake import Lake

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def rows(spark: SparkSession, lake: Lake) -> DataFrame:
    return spark.range(6).selectExpr("id", "concat('n', id) AS name", "id % 2 AS part")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "somewhere" / "t")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def test_a_table_is_made_at_a_path_and_read_there(spark: SparkSession, rows: DataFrame, folder: str) -> None:
    rows.write.format("frazil").partitionBy("part").option("write.parquet.compression-codec", "snappy").save(folder)
    table = frazil.open(folder)
    assert [field.name for field in table.spec.fields] == ["part"]
    assert table.properties["write.parquet.compression-codec"] == "snappy"
    assert table.scan().count() == 6
    found = spark.read.format("frazil").load(folder)
    assert ids(found.where("part = 1")) == [1, 3, 5]
    assert spark.read.format("frazil").load(f"file:{folder}").count() == 6
    assert spark.read.format("iceberg").load(folder).count() == 6


def test_save_modes_do_what_they_say(spark: SparkSession, rows: DataFrame, folder: str) -> None:
    from pyspark.errors import AnalysisException

    for mode in ("append", "append", "ignore"):
        rows.write.format("frazil").mode(mode).save(folder)
    load = spark.read.format("frazil").load
    assert ids(load(folder)) == sorted([*range(6)] * 2)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        rows.write.format("frazil").save(folder)
    rows.where("id < 2").write.format("frazil").mode("overwrite").save(folder)
    assert ids(load(folder)) == [0, 1]
    assert len(frazil.open(folder).snapshots) == 3


@pytest.mark.parametrize("mode", ["overwrite", "ignore", "errorifexists"])
def test_each_mode_makes_the_table_where_there_is_none(
    spark: SparkSession, rows: DataFrame, folder: str, mode: str
) -> None:
    rows.write.format("frazil").mode(mode).save(folder)
    assert spark.read.format("frazil").load(folder).count() == 6


def test_rows_go_into_columns_by_name(spark: SparkSession, rows: DataFrame, folder: str) -> None:
    from pyspark.errors import AnalysisException

    rows.write.format("frazil").save(folder)
    rows.select("part", "id", "name").write.format("frazil").mode("append").save(folder)
    assert ids(spark.read.format("frazil").load(folder).where("name = 'n5'")) == [5, 5]
    with pytest.raises(AnalysisException, match=r"name|other"):
        rows.withColumnRenamed("name", "other").write.format("frazil").mode("append").save(folder)
    assert spark.read.format("frazil").load(folder).count() == 12


def test_a_failed_write_leaves_no_table(spark: SparkSession, rows: DataFrame, folder: str) -> None:
    with pytest.raises(Exception, match="no good"):
        rows.selectExpr("CAST(raise_error('no good') AS BIGINT) AS id").write.format("frazil").save(folder)
    with pytest.raises(FrazilError):
        frazil.open(folder)
    rows.write.format("frazil").save(folder)
    assert spark.read.format("frazil").load(folder).count() == 6


def test_partitioning_that_is_not_the_tables_is_refused(rows: DataFrame, folder: str) -> None:
    rows.write.format("frazil").partitionBy("part").save(folder)
    rows.write.format("frazil").partitionBy("part").mode("append").save(folder)
    with pytest.raises(InvalidArgument, match="not partitioned by name"):
        rows.write.format("frazil").partitionBy("name").mode("append").save(folder)


def test_tables_are_found_by_name(spark: SparkSession, lake: Lake, rows: DataFrame, name: str) -> None:
    short = name.removeprefix("lake.")
    rows.write.format("frazil").partitionBy("part").save(short)
    rows.write.format("frazil").mode("append").save(name)
    assert lake.table(short).scan().count() == 12
    for given in (name, short):
        assert spark.read.format("frazil").load(given).count() == 12
    assert spark.read.format("frazil").load(f"{short}.snapshots").count() == 2
    spark.sql("USE lake.db")
    try:
        assert spark.read.format("frazil").load(short.removeprefix("db.")).count() == 12
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")


def test_tables_are_saved_and_inserted_into_by_name(spark: SparkSession, rows: DataFrame, name: str) -> None:
    rows.write.format("frazil").saveAsTable(name)
    rows.write.format("iceberg").mode("append").saveAsTable(name)
    rows.write.insertInto(name)
    assert spark.table(name).count() == 18
    rows.write.format("frazil").mode("overwrite").saveAsTable(name)
    assert spark.table(name).count() == 6


def test_tables_are_created_using_either_format(sql: Sql, name: str) -> None:
    for number, form in enumerate(("frazil", "iceberg", "FRAZIL")):
        sql(f"CREATE TABLE {name}_{number} (id BIGINT) USING {form}")
        sql(f"INSERT INTO {name}_{number} VALUES (1)")
        assert sql(f"SELECT * FROM {name}_{number}") == [(1,)]


def test_a_path_is_a_name_in_sql_as_well(sql: Sql, rows: DataFrame, folder: str) -> None:
    rows.write.format("frazil").save(folder)
    sql(f"INSERT INTO lake.`{folder}` VALUES (9, 'n9', 1)")
    assert sql(f"SELECT count(*), max(id) FROM lake.`{folder}`") == [(7, 9)]
    assert len(sql(f"SELECT * FROM lake.`{folder}`.snapshots")) == 2


def test_a_metadata_file_is_exactly_that_state(spark: SparkSession, rows: DataFrame, folder: str) -> None:
    rows.write.format("frazil").save(folder)
    state = frazil.open(folder).metadata_location
    rows.write.format("frazil").mode("append").save(folder)
    assert spark.read.format("frazil").load(state).count() == 6
    with pytest.raises(FrazilError):
        rows.write.format("frazil").mode("append").save(state)
    assert spark.read.format("frazil").load(f"{folder}#history").count() == 2


def test_options_choose_the_snapshot_and_its_columns(
    spark: SparkSession, lake: Lake, rows: DataFrame, name: str, sql: Sql
) -> None:
    short = name.removeprefix("lake.")
    rows.write.format("frazil").save(short)
    first = lake.table(short).current_snapshot
    assert first is not None
    sql(f"ALTER TABLE {name} CREATE TAG old")
    sql(f"ALTER TABLE {name} ADD COLUMN extra INT")
    sql(f"INSERT INTO {name} VALUES (7, 'n7', 1, 3)")
    sql(f"ALTER TABLE {name} CREATE BRANCH side")

    def read(**options: Any) -> DataFrame:
        return spark.read.format("frazil").options(**options).load(short)

    assert read().count() == 7
    as_text = sql(f"SELECT CAST(timestamp_micros({first.timestamp_ms}000) AS STRING)")[0][0]
    for options in (
        {"snapshot-id": str(first.snapshot_id)},
        {"as-of-timestamp": str(first.timestamp_ms)},
        {"tag": "old"},
        {"versionAsOf": "old"},
        {"versionAsOf": str(first.snapshot_id)},
        {"timestampAsOf": as_text},
    ):
        found = read(**options)
        assert (found.count(), found.columns) == (6, ["id", "name", "part"]), options
    assert (read(branch="side").count(), len(read(branch="side").columns)) == (7, 4)
    with pytest.raises(InvalidArgument, match="snapshot-id and tag"):
        read(tag="old", **{"snapshot-id": "1"})
    with pytest.raises(InvalidArgument, match="soon"):
        read(timestampAsOf="soon")


def test_incremental_reads_give_what_was_appended(
    spark: SparkSession, lake: Lake, rows: DataFrame, name: str, sql: Sql
) -> None:
    short = name.removeprefix("lake.")
    for first in (0, 2, 4):
        rows.where(f"id >= {first} AND id < {first + 2}").write.format("frazil").mode("append").save(short)
    sql(f"DELETE FROM {name} WHERE id = 2")
    sql(f"INSERT INTO {name} VALUES (9, 'n9', 1)")
    history = [str(snapshot.snapshot_id) for snapshot in reversed(lake.table(short).history)]

    def read(start: str, **end: str) -> DataFrame:
        return spark.read.format("frazil").options(**{"start-snapshot-id": start}, **end).load(short)

    assert ids(read(history[0])) == [2, 3, 4, 5, 9]
    assert read(history[0]).count() == 5
    assert ids(read(history[0], **{"end-snapshot-id": history[1]})) == [2, 3]
    assert ids(read(history[2], **{"end-snapshot-id": history[3]})) == []
    assert ids(spark.read.option("start-snapshot-id", history[3]).table(name)) == [9]
    with pytest.raises(InvalidArgument, match="is not one of those before"):
        read(history[2], **{"end-snapshot-id": history[1]}).collect()
    with pytest.raises(InvalidArgument, match="end-snapshot-id alone does not say"):
        spark.read.option("end-snapshot-id", history[3]).table(name).collect()


def test_writes_take_a_branch_and_snapshot_properties(lake: Lake, rows: DataFrame, name: str, sql: Sql) -> None:
    short = name.removeprefix("lake.")
    rows.write.format("frazil").save(short)
    sql(f"ALTER TABLE {name} CREATE BRANCH side")
    options = {"branch": "side", "snapshot-property.who": "me"}
    rows.write.format("frazil").mode("append").options(**options).save(short)
    table = lake.table(short)
    assert (table.scan().count(), table.scan(ref="side").count()) == (6, 12)
    assert table.snapshot(table.refs["side"].snapshot_id).summary["who"] == "me"


def test_what_is_not_there_is_an_error(spark: SparkSession, lake: Lake, folder: str) -> None:
    from pyspark.errors import AnalysisException

    for place in (folder, "db.nothing_here", "lake.nowhere.t"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.read.format("frazil").load(place)
    with pytest.raises(InvalidArgument, match="no table"):
        spark.read.format("frazil").load()


def test_a_schema_is_not_for_the_reader_to_give(spark: SparkSession, rows: DataFrame, folder: str) -> None:
    rows.write.format("frazil").save(folder)
    with pytest.raises(InvalidArgument, match="schema is given"):
        spark.read.schema("id INT").format("frazil").load(folder)
    assert spark.read.schema(rows.schema).format("frazil").load(folder).count() == 6


def test_a_table_of_sparks_own_catalog_can_lie_at_a_path(
    spark: SparkSession, rows: DataFrame, folder: str, sql: Sql
) -> None:
    rows.write.format("frazil").save(folder)
    sql(f"CREATE TABLE spark_catalog.default.by_path USING frazil LOCATION '{folder}'")
    try:
        rows.write.format("frazil").mode("append").save(folder)
        assert sql("SELECT count(*), max(id) FROM spark_catalog.default.by_path") == [(12, 5)]
    finally:
        sql("DROP TABLE spark_catalog.default.by_path")


def test_the_lake_must_be_told_where_there_are_several(
    spark: SparkSession, lake: Lake, rows: DataFrame, name: str, tmp_path: Path
) -> None:
    short = name.removeprefix("lake.")
    rows.write.format("frazil").save(short)
    other = frazil.connect(tmp_path / "other")
    other.create_namespace("db")
    other.attach(spark, "other")
    try:
        with pytest.raises(InvalidArgument, match="lake or other"):
            spark.read.format("frazil").load(short)
        rows.limit(1).write.format("frazil").save(f"other.{short}")
        assert spark.read.format("frazil").load(f"other.{short}").count() == 1
        assert spark.read.format("frazil").load(name).count() == 6
    finally:
        other.detach(spark, "other")
    assert spark.read.format("frazil").load(short).count() == 6


def test_the_catalog_of_a_session_without_a_lake_is_not_meant(
    spark: SparkSession, lake: Lake, rows: DataFrame, name: str
) -> None:
    if OWN_CATALOG not in {bridge.name for bridge in bridges_of(spark)}:  # it stays, as it does for users
        frazil.connect("memory:").attach(spark, OWN_CATALOG)
    rows.write.format("frazil").save(name.removeprefix("lake."))
    assert spark.read.format("frazil").load(name.removeprefix("lake.")).count() == 6
