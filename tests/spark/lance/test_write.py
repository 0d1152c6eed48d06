"""INSERT, overwrite, CREATE and CTAS: what Spark writes, pylance reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.errors import InvalidArgument, Unsupported

lance = pytest.importorskip("lance")


def rows(dataset, columns=("id", "word")):
    return sorted(tuple(row[name] for name in columns) for row in dataset.to_table().to_pylist())


def data_files(table):
    return sorted(file.location.rpartition("/")[2] for file in table.store.list(f"{table.location}/data"))


def referenced(dataset):
    return sorted(file.path for fragment in dataset.get_fragments() for file in fragment.data_files())


@pytest.mark.smoke
def test_create_and_insert(spark, lake, name, dataset):
    spark.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL COMMENT 'the key', word STRING) USING lance")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, NULL)")
    spark.range(10, 14, 1, 2).selectExpr("cast(id AS STRING) AS word", "id").writeTo(name).append()
    found = dataset(name)
    found.validate()
    assert rows(found) == [(1, "a"), (2, None), *((n, str(n)) for n in range(10, 14))]
    assert found.schema.field("id") == pa.field("id", pa.int64(), nullable=False, metadata={"doc": "the key"})
    assert found.data_storage_version == "2.2"
    assert data_files(lake.table(name[5:])) == referenced(found)
    found.insert(pa.table({"id": [99], "word": ["pylance"]}, schema=found.schema))
    assert spark.sql(f"SELECT word FROM {name} WHERE id = 99").collect() == [("pylance",)]


def test_overwrite(spark, name, dataset):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, word STRING) USING lance")
    spark.sql(f"INSERT INTO {name} SELECT id, 'old' FROM range(20)")
    spark.createDataFrame([(100, "new")], "id BIGINT, word STRING").writeTo(name).overwrite(_less_than_5())
    assert rows(dataset(name)) == [*((n, "old") for n in range(5, 20)), (100, "new")]
    assert dataset(name).version == 3
    spark.sql(f"INSERT OVERWRITE {name} VALUES (7, 'only')")
    assert rows(dataset(name)) == [(7, "only")]
    spark.sql(f"TRUNCATE TABLE {name}")
    assert dataset(name).count_rows() == 0
    with pytest.raises(Unsupported, match="partitions"):
        spark.range(1).selectExpr("id", "'x' AS word").writeTo(name).overwritePartitions()


def _less_than_5():
    from pyspark.sql.functions import col

    return col("id") < 5


def test_create_as_select(spark, lake, name, dataset):
    spark.sql(
        f"CREATE TABLE {name} USING lance TBLPROPERTIES ('a' = 'b', 'enable_stable_row_ids' = 'true',"
        " 'format-version' = '2.1') AS SELECT id, cast(id AS STRING) AS word FROM range(0, 50, 1, 3)"
    )
    found = dataset(name)
    assert (found.version, found.count_rows(), found.data_storage_version) == (1, 50, "2.1")
    assert found.has_stable_row_ids
    assert lake.table(name[5:]).properties["a"] == "b"
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {name} USING lance AS SELECT 1 AS id")
    spark.sql(f"CREATE OR REPLACE TABLE {name} USING lance AS SELECT 'x' AS other")
    assert dataset(name).to_table().to_pylist() == [{"other": "x"}]
    assert spark.sql(f"SELECT count(*) FROM {name} VERSION AS OF 1").collect() == [(50,)]
    spark.range(3).writeTo(name).using("lance").createOrReplace()
    assert rows(dataset(name), ["id"]) == [(0,), (1,), (2,)]


def test_a_failed_create_as_select_leaves_no_table(spark, lake, name):
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql(f"CREATE TABLE {name} USING lance AS SELECT 1 / (id - 5) AS x FROM range(0, 10, 1, 2)")
    assert not lake.table_exists(name[5:])
    folder = f"{lake.catalog.warehouse}/db/{name.split('.')[-1]}"
    assert list(lake.catalog.store.list(folder)) == []


def test_a_failed_insert_leaves_nothing(spark, lake, name, dataset):
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING lance")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql(f"INSERT INTO {name} SELECT cast(1 / (id - 9999) AS BIGINT) FROM range(0, 20000, 1, 4)")
    assert dataset(name).count_rows() == 1
    assert data_files(lake.table(name[5:])) == referenced(dataset(name))


def test_nulls_are_refused_where_there_may_be_none(spark, name):
    spark.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL) USING lance")
    with pytest.raises(Exception, match="NULL"):
        spark.sql(f"INSERT INTO {name} SELECT if(id = 1, NULL, id) FROM range(3)")
    assert spark.table(name).count() == 0


def test_what_lance_has_no_place_for(spark, name):
    with pytest.raises(Unsupported, match="partitions"):
        spark.sql(f"CREATE TABLE {name} (id BIGINT) USING lance PARTITIONED BY (id)")
    with pytest.raises(Unsupported, match="default"):
        spark.sql(f"CREATE TABLE {name} (id BIGINT DEFAULT 3) USING lance")
    with pytest.raises(InvalidArgument, match="names no column"):
        spark.sql(f"CREATE TABLE {name} (id BIGINT) USING lance TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '3')")


def test_branches_are_written_by_name_and_by_option(spark, made, dataset):
    name = made.name
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH side")
    spark.sql(f"INSERT INTO {name}.branch_side VALUES (200, 'side', 0.0)")
    spark.createDataFrame([(201, "side", 0.0)], "id BIGINT, word STRING, x DOUBLE").writeTo(name).option(
        "branch", "side"
    ).append()
    assert spark.table(f"{name}.branch_side").where("id >= 200").count() == 2
    assert dataset(name).count_rows() == 97
    assert dataset(name).checkout_version(("side", None)).count_rows() == 99
    with pytest.raises(Exception, match="UNSUPPORTED_FEATURE"):
        spark.sql(f"INSERT INTO {name}.snapshot_id_2 VALUES (1, 'x', 0.0)")


def test_by_path(spark, lake, tmp_path):
    place = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE lake.`{place}` (id BIGINT) USING lance")
    spark.range(5).write.format("frazil").mode("append").save(place)
    assert sorted(lance.dataset(place).to_table()["id"].to_pylist()) == list(range(5))
    with pytest.raises(Exception, match="ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE lake.`{place}` (id BIGINT) USING lance")
    other = str(tmp_path / "u")
    spark.sql(f"CREATE TABLE lake.`{other}` USING lance AS SELECT id FROM range(3)")
    assert lance.dataset(other).count_rows() == 3


def test_properties_of_a_commit(spark, name):
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING lance")
    spark.range(1).writeTo(name).option("snapshot-property.who", "me").append()
    assert spark.sql(f"SELECT summary['who'] FROM {name}.versions WHERE version = 2").collect() == [("me",)]


def test_a_write_by_another_meanwhile(spark, lake, made, dataset):
    """An append goes on top of what others did since the table was loaded."""
    handle = spark.table(made.name)
    dataset(made.name).insert(pa.table({"id": [300], "word": ["other"], "x": [1.0]}, schema=dataset(made.name).schema))
    handle.limit(1).selectExpr("id + 400 AS id", "word", "x").writeTo(made.name).append()
    assert dataset(made.name).count_rows() == 99
