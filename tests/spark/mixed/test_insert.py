"""Rows into keyed tables from Spark: INSERT in all its forms, upserts, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import functions

from frazil.errors import FrazilError
from frazil.mixed.file_names import FileType, parse_base, parse_change
from frazil.spark.mixed.partitions import drop_partitions
from tests.mixed.test_amoro_needs import entries
from tests.spark.mixed.keyed import PARTITIONINGS, SCHEMA, Keyed

NAME = re.compile(r"(\d+)-(B|I|ED)-(\d+)-(\d{5})-(\d+)-(\d{1,19})-(\d{5})\.parquet")


@pytest.fixture(params=PARTITIONINGS.values(), ids=PARTITIONINGS)
def partition_by(request):
    return request.param


def frame(spark, *rows):
    return spark.createDataFrame(rows, SCHEMA)


@pytest.mark.smoke
def test_rows_that_are_inserted_are_there(spark, sql, lake, name, partition_by):
    keyed = Keyed(lake, name, partition_by)
    sql(f"INSERT INTO {name} VALUES (1, 'a', 'eu'), (2, NULL, NULL)")
    frame(spark, (3, "c", "us")).writeTo(name).append()
    frame(spark, (4, "d", "us")).write.mode("append").saveAsTable(name)
    sql(f"INSERT INTO {name} (name, region, id) SELECT 'e', NULL, id FROM range(5, 8)")
    keyed.rows = {1: (1, "a", "eu"), 2: (2, None, None), 3: (3, "c", "us"), 4: (4, "d", "us")}
    keyed.rows |= {n: (n, "e", None) for n in range(5, 8)}
    keyed.check(spark)
    [last] = [one for one in keyed.table.change_store.snapshots if "added-data-files" in one.summary][-1:]
    assert last.summary["added-records"] == "3"
    sql(f"INSERT INTO {name} SELECT * FROM {name} WHERE id > 1000")
    keyed.check(spark)


def test_files_have_the_names_nodes_and_columns_of_the_format(spark, sql, lake, name):
    """The walk of tests/mixed, on files that Spark's tasks wrote."""
    import pyarrow.parquet as pq

    from frazil.mixed.key_hash import key_hashes
    from frazil.mixed.tree import node_of

    keyed = Keyed(lake, name, ["region"])
    rows = spark.range(400).selectExpr("id", "'a' AS name", "if(id % 2 = 0, 'eu', 'us') AS region").repartition(3)
    rows.writeTo(name).append()
    sql(f"UPDATE {name} SET name = 'b' WHERE id % 10 = 0")
    sql(f"INSERT OVERWRITE {name} PARTITION (region = 'us') SELECT id, 'o' FROM range(1001, 1100)")
    table = keyed.table.refresh()
    seen = set()
    for store in (table.base_store, table.change_store):
        is_change = store is table.change_store
        for file in entries(store):
            place = file.file_path.rpartition("/")[2]
            assert NAME.fullmatch(place), place
            assert file.file_path == f"{store.location}/data/region={file.partition[0]}/{place}"
            told = parse_change(file.file_path, 0) if is_change else parse_base(file.file_path)
            seen.add(told.type)
            assert told.transaction_id > 0
            footer = pq.ParquetFile(store.store.open_input(file.file_path))
            ids = {one.name: int(one.metadata[b"PARQUET:field_id"]) for one in footer.schema_arrow}
            assert ids == {"id": 1, "name": 2, "region": 3} | ({"_file_offset": 2147482645} if is_change else {})
            stored = footer.read()
            mask, index = node_of(told.node)
            hashes = key_hashes([stored.column("id").combine_chunks()], [store.schema.find("id").type])
            assert set((hashes & mask).tolist()) == {index}
            assert mask == 3
            assert file.record_count == stored.num_rows
    assert seen == {FileType.BASE, FileType.INSERT, FileType.EQ_DELETE}
    keyed.rows = {n: (n, "b" if n % 10 == 0 else "a", "eu") for n in range(0, 400, 2)}
    keyed.rows |= {n: (n, "o", "us") for n in range(1001, 1100)}
    keyed.check(spark)


def test_a_table_that_upserts_replaces_rows_by_key(spark, sql, lake, name, partition_by):
    keyed = Keyed(lake, name, partition_by, **{"write.upsert.enabled": "true"}).filled()
    sql(f"INSERT INTO {name} VALUES (1, 'new', 'ap'), (40, 'new', 'eu')")
    keyed.rows |= {1: (1, "new", "ap"), 40: (40, "new", "eu")}
    keyed.check(spark)
    done = keyed.table.upsert(frame(spark, (1, "newer", "eu"), (41, "x", None)))
    assert done.rows_inserted == 2
    keyed.rows |= {1: (1, "newer", "eu"), 41: (41, "x", None)}
    keyed.check(spark)
    before = keyed.versions
    with pytest.raises(FrazilError, match="several rows have the key id = 1"):
        keyed.table.upsert(frame(spark, (1, "a", "eu"), (2, "b", "eu"), (1, "c", "us")))
    keyed.check(spark)
    assert keyed.versions == before


def test_rows_of_a_batch_are_written_once(spark, lake, name):
    keyed = Keyed(lake, name, [])
    for _ in range(2):
        keyed.table.append(frame(spark, (1, "a", "eu")), batch_id="monday")
        frame(spark, (2, "b", "eu")).writeTo(name).option("batch-id", "tuesday").append()
    keyed.rows = {1: (1, "a", "eu"), 2: (2, "b", "eu")}
    keyed.check(spark)
    named = frame(spark, (3, "c", "eu")).writeTo(name).option("batch-id", "friday")
    for overwrite in (named.overwritePartitions, lambda: named.overwrite(functions.lit(True))):
        with pytest.raises(FrazilError, match="an overwrite takes no batch-id"):
            overwrite()
    unkeyed = f"{name}_unkeyed"
    lake.create_table(unkeyed.removeprefix("lake."), "id BIGINT, name STRING, region STRING", format="mixed")
    with pytest.raises(FrazilError, match="has no primary key"):
        frame(spark, (3, "c", "eu")).writeTo(unkeyed).option("batch-id", "friday").append()
    keyed.check(spark)


def test_overwriting_partitions(spark, sql, lake, name):
    keyed = Keyed(lake, name, ["region"]).filled()
    sql(f"DELETE FROM {name} WHERE id = 6")
    sql(f"INSERT OVERWRITE {name} PARTITION (region = 'eu') VALUES (100, 'o')")
    keyed.rows = {key: row for key, row in keyed.rows.items() if row[2] != "eu"} | {100: (100, "o", "eu")}
    keyed.check(spark)
    frame(spark, (101, "d", "us"), (102, "d", "ap")).writeTo(name).overwritePartitions()
    keyed.rows = {key: row for key, row in keyed.rows.items() if row[2] != "us"}
    keyed.rows |= {101: (101, "d", "us"), 102: (102, "d", "ap")}
    keyed.check(spark)
    sql(f"INSERT INTO {name} VALUES (103, 'after', 'us')")
    keyed.rows[103] = (103, "after", "us")
    keyed.check(spark)
    sql(f"ALTER TABLE {name} DROP PARTITION (region = 'us')")
    keyed.rows = {key: row for key, row in keyed.rows.items() if row[2] != "us"}
    keyed.check(spark)
    sql(f"ALTER TABLE {name} DROP IF EXISTS PARTITION (region = 'none'), PARTITION (region = 'ap')")
    keyed.rows = {key: row for key, row in keyed.rows.items() if row[2] != "ap"}
    keyed.check(spark)
    with pytest.raises(FrazilError, match="no partition"):
        sql(f"ALTER TABLE {name} DROP PARTITION (region = 'none')")
    with pytest.raises(FrazilError, match="not partitioned by the values of 'id'"):
        sql(f"ALTER TABLE {name} DROP PARTITION (id = 1)")
    sql(f"TRUNCATE TABLE {name}")
    keyed.rows = {}
    keyed.check(spark)


def test_columns_of_a_dropped_partition_are_found_whatever_their_case(spark, sql, lake, name):
    keyed = Keyed(lake, name, ["region"]).filled()
    sql(f"ALTER TABLE {name} DROP PARTITION (REGION = 'us')")
    keyed.rows = {key: row for key, row in keyed.rows.items() if row[2] != "us"}
    keyed.check(spark)
    with pytest.raises(FrazilError, match="not partitioned by the values of 'ID'"):
        sql(f"ALTER TABLE {name} DROP PARTITION (ID = 1)")
    with pytest.raises(FrazilError, match="not partitioned by the values of 'nope'"):
        sql(f"ALTER TABLE {name} DROP PARTITION (nope = 1)")
    with pytest.raises(FrazilError, match="'region' twice"):
        drop_partitions(keyed.table, [{"region": "eu", "REGION": "ap"}], False)
    keyed.check(spark)


def test_a_partition_whose_column_could_be_several_is_not_dropped(lake, name):
    table = lake.create_table(
        name.removeprefix("lake."),
        "id BIGINT, area STRING, Area STRING",
        format="mixed",
        primary_key=["id"],
        partition_by=["area"],
    )
    table.append([{"id": 1, "area": "eu", "Area": "us"}])
    with pytest.raises(FrazilError, match="fits several columns"):
        drop_partitions(table, [{"AREA": "eu"}], False)
    with pytest.raises(FrazilError, match="not partitioned by the values of 'Area'"):
        drop_partitions(table, [{"Area": "eu"}], False)
    drop_partitions(table, [{"area": "eu"}], False)
    assert table.scan().count() == 0


def test_overwriting_all_rows_and_those_that_match(spark, sql, lake, name, partition_by):
    keyed = Keyed(lake, name, partition_by).filled()
    sql(f"INSERT INTO {name} REPLACE WHERE id >= 4 AND name <> 'x' AND region = 'eu' VALUES (200, 'r', 'us')")
    keyed.rows = {key: row for key, row in keyed.rows.items() if not (key >= 4 and row[2] == "eu")}
    keyed.rows[200] = (200, "r", "us")
    keyed.check(spark)
    frame(spark, (5, "w", "us")).writeTo(name).overwrite(spark_condition())
    keyed.rows = {key: row for key, row in keyed.rows.items() if key >= 3} | {5: (5, "w", "us")}
    keyed.check(spark)
    sql(f"INSERT OVERWRITE {name} SELECT id, 'all', 'eu' FROM range(3)")
    keyed.rows = {n: (n, "all", "eu") for n in range(3)}
    keyed.check(spark)
    frame(spark, (9, "t", "ap")).write.mode("overwrite").saveAsTable(name)
    keyed.rows = {9: (9, "t", "ap")}
    keyed.check(spark)


def test_what_replaces_rows_of_a_table_that_upserts_has_each_key_once(spark, sql, lake, name):
    keyed = Keyed(lake, name, ["region"], **{"write.upsert.enabled": "true"}).filled()
    folder = Path(keyed.table.location.removeprefix("file:"))
    files = sorted(folder.rglob("*.parquet"))
    twice = "VALUES (70, 'x', 'eu'), (71, 'y', 'us'), (70, 'z', 'us')"
    upserts = "TBLPROPERTIES ('write.upsert.enabled' = 'true')"
    for statement in (
        f"INSERT OVERWRITE {name} {twice}",
        f"INSERT INTO {name} REPLACE WHERE region = 'eu' OR region = 'us' {twice}",
        f"INSERT INTO {name} REPLACE WHERE id > 3 {twice}",
        f"CREATE TABLE {name}_b PRIMARY KEY (id) USING mixed {upserts} AS SELECT id % 2 AS id FROM range(4)",
    ):
        with pytest.raises(FrazilError, match=r"id = \d+"):
            sql(statement)
    frames = frame(spark, (70, "x", "eu"), (70, "z", "us"))
    with pytest.raises(FrazilError, match="id = 70"):
        frames.writeTo(name).overwritePartitions()
    assert not lake.table_exists(f"{name.removeprefix('lake.')}_b")
    assert sorted(folder.rglob("*.parquet")) == files
    keyed.check(spark)
    sql(f"INSERT OVERWRITE {name} VALUES (70, 'x', 'eu'), (71, 'y', 'us')")
    keyed.rows = {70: (70, "x", "eu"), 71: (71, "y", "us")}
    keyed.check(spark)


def spark_condition():
    from pyspark.sql import functions

    return (functions.col("id") < 3) | (functions.col("id") == 5)


def test_rows_for_other_partitions_than_those_overwritten_leave_their_changes(spark, sql, lake, name):
    keyed = Keyed(lake, name, ["region"]).filled()
    frame(spark, (300, "moved", "us")).writeTo(name).overwrite(region_is("eu"))
    keyed.rows = {key: row for key, row in keyed.rows.items() if row[2] != "eu"} | {300: (300, "moved", "us")}
    keyed.check(spark)


def region_is(region):
    from pyspark.sql import functions

    return functions.col("region") == region


def test_every_type_of_key_and_odd_names(spark, sql, lake, name):
    """Names and types that a column may have reach the workers and come back."""
    columns = (
        "`my.key` STRING NOT NULL, `day of` DATE NOT NULL, amount DECIMAL(12, 3) NOT NULL, at TIMESTAMP, "
        "local TIMESTAMP_NTZ, data BINARY, tags ARRAY<STRING>, more MAP<STRING, INT>,"
        " inner STRUCT<a: INT, `b.c`: STRING>"
    )
    sql(f"CREATE TABLE {name} ({columns}, PRIMARY KEY (`my.key`, `day of`, amount)) USING mixed")
    table = lake.table(name[5:])
    values = (
        "'k', DATE'2024-02-29', 1.250BD, TIMESTAMP'2024-01-01 00:00:00Z', TIMESTAMP_NTZ'1969-12-31 23:59:59.5',"
        " X'00ff', array('x', NULL), map('y', 1), named_struct('a', 1, 'b.c', 'z')"
    )
    sql(f"INSERT INTO {name} SELECT {values}")
    sql(f"UPDATE {name} SET data = X'01', inner.a = 2 WHERE `my.key` = 'k'")
    [row] = table.refresh().scan().to_arrow().to_pylist()
    assert row["data"] == b"\x01"
    assert row["inner"] == {"a": 2, "b.c": "z"}
    assert row["tags"] == ["x", None]
    assert len(sql(f"SELECT * FROM {name}")) == 1
    sql(f"DELETE FROM {name} WHERE amount = 1.25")
    assert table.refresh().scan().count() == 0


def test_what_cannot_be_written_says_so(spark, sql, lake, name):
    keyed = Keyed(lake, name, []).filled(3)
    with pytest.raises(FrazilError, match="name the table"):
        sql(f"DELETE FROM {name}.change")
    with pytest.raises(FrazilError, match="power of two"):
        sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('change.file-index.hash-bucket' = '3')")
    keyed.check(spark)
