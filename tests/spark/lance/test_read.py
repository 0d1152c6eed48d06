"""SELECT from Lance tables: what pylance reads is what Spark gets."""

from __future__ import annotations

import json

import pytest

from frazil.errors import InvalidArgument, NotFound, SnapshotNotFound

lance = pytest.importorskip("lance")


def ids(frame):
    return sorted(row[0] for row in frame.select("id").collect())


@pytest.mark.smoke
def test_rows_columns_and_filters(spark, made, dataset):
    frame = spark.table(made.name)
    expected = sorted(map(tuple, (row.values() for row in dataset(made.name).to_table().to_pylist())))
    assert sorted(map(tuple, frame.collect())) == expected
    assert [field.simpleString() for field in frame.schema] == ["id:bigint", "word:string", "x:double"]
    assert ids(frame.where("word = 'w2' AND x < 10")) == [n for n in made.ids if n % 7 == 2 and n < 40]
    assert ids(frame.where("word LIKE '%3' OR id > 97")) == [n for n in made.ids if n % 7 == 3 or n > 97]
    assert frame.where("x > 5").selectExpr("sum(id)").collect() == [(sum(n for n in made.ids if n > 20),)]


def test_filters_are_applied_before_rows_reach_the_jvm(spark, made):
    from pyspark.sql.functions import col

    plan = spark.table(made.name).where(col("id") == 7)
    plan.collect()
    scans = plan._jdf.queryExecution().executedPlan().collectLeaves()
    assert [scans.apply(at).metrics().apply("numOutputRows").value() for at in range(scans.size())] == [1]


def test_count_is_known_without_reading(spark, made):
    counted = spark.sql(f"SELECT count(*), count(id) FROM {made.name}")
    assert counted.collect() == [(97, 97)]
    assert "Frazil by Arrow" not in counted._jdf.queryExecution().optimizedPlan().toString()
    assert spark.sql(f"SELECT count(*) FROM {made.name} WHERE id >= 50").collect() == [(50,)]
    assert spark.sql(f"SELECT count(word) FROM {made.name}").collect() == [(97,)]


def test_joins_and_subqueries(spark, made):
    found = spark.sql(f"SELECT a.id FROM {made.name} a JOIN {made.name} b ON a.id = b.id + 1 WHERE a.id < 6")
    assert ids(found) == [1, 2, 5]
    assert ids(spark.sql(f"SELECT id FROM {made.name} WHERE id > (SELECT max(id) - 2 FROM {made.name})")) == [98, 99]


def test_hidden_columns(spark, made, dataset):
    found = spark.sql(f"SELECT _rowid, _rowaddr, _file, _pos, id FROM {made.name} ORDER BY id")
    expected = dataset(made.name).to_table(columns=["id"], with_row_id=True, with_row_address=True).to_pylist()
    assert [(row[0], row[1], row[4]) for row in found.collect()] == sorted(
        ((row["_rowid"], row["_rowaddr"], row["id"]) for row in expected), key=lambda row: row[2]
    )
    assert {(row[2], row[3]) for row in found.collect()} == {(str(n // 25), n % 25) for n in made.ids}


def test_fragments_that_cannot_have_the_address_are_not_read(spark, made):
    frame = spark.table(made.name).where(f"_rowaddr >= {2 << 32} AND _rowaddr < {3 << 32}")
    assert ids(frame) == list(range(50, 75))
    from frazil.spark.lance.scan import LanceSource

    state = made.table.current_snapshot
    source = LanceSource(made.table.store, state, state, made.table.schema)
    literal = {"v": str(3 << 32), "t": "bigint"}
    asked = json.dumps([["GreaterThanOrEqual", {"c": ["_rowaddr"], "t": "bigint"}, literal]])
    assert [task.fragment_id for task in source.plan([], asked).fragments] == [3]


def test_time_travel(spark, lake, made, dataset):
    name, table = made.name, made.table
    table.create_tag("first", 2)
    table.create_branch("side", 3).append([{"id": 1000, "word": "side", "x": 0.5}])
    assert spark.sql(f"SELECT count(*) FROM {name} VERSION AS OF 2").collect() == [(25,)]
    assert ids(spark.sql(f"SELECT * FROM {name} VERSION AS OF 'first'")) == list(range(25))
    assert ids(spark.table(f"{name}.tag_first")) == list(range(25))
    assert ids(spark.table(f"{name}.branch_side")) == [*range(50), 1000]
    assert ids(spark.sql(f"SELECT * FROM {name} VERSION AS OF 'side'")) == [*range(50), 1000]
    assert ids(spark.table(f"{name}.snapshot_id_3")) == list(range(50))
    moment = table.at(version=4).timestamp_ms
    assert ids(spark.read.option("as-of-timestamp", moment).table(name)) == ids(
        spark.table(f"{name}.at_timestamp_{moment}")
    )
    assert ids(spark.read.option("versionAsOf", 2).table(name)) == list(range(25))
    assert sorted(dataset(name, 2).to_table()["id"].to_pylist()) == list(range(25))
    with pytest.raises(SnapshotNotFound):
        spark.sql(f"SELECT * FROM {name} VERSION AS OF 77")
    with pytest.raises(InvalidArgument):
        spark.table(f"{name}.branch_first")


def test_an_older_version_lacks_the_columns_that_came_later(spark, made):
    made.table.add_columns({"twice": "id * 2"})
    older = spark.read.option("snapshot-id", 2).table(made.name)
    assert older.columns == ["id", "word", "x", "twice"]
    assert older.selectExpr("count(id)", "count(twice)").collect() == [(25, 0)]
    assert spark.sql(f"SELECT * FROM {made.name} VERSION AS OF 2").columns == ["id", "word", "x"]


def test_a_version_keeps_its_rows(spark, made):
    """Spark 4.1 and newer load the newest version before they run a DataFrame, but where one was asked for."""
    fixed, frame = spark.sql(f"SELECT * FROM {made.name} VERSION AS OF 6"), made.table.to_spark(spark)
    made.table.append([{"id": 500, "word": None, "x": None}])
    assert ids(fixed) == ids(frame) == made.ids
    assert ids(spark.table(made.name)) == [*made.ids, 500]


def test_a_handle_that_was_let_go_is_made_again(spark, lake, made):
    from frazil.spark.formats import format_named, handle_of

    made.table.create_tag("kept", 3)
    made.table.create_branch("side", 3).append([{"id": 1000, "word": None, "x": None}])
    now = handle_of(made.table)
    handles = [now, now.at_tag("kept"), now.at_branch("side"), now.at_millis(now.state.timestamp_ms)]
    handles += [now.metadata_table("files"), now.at_number(2).with_columns_of(now)]
    for handle in handles:
        again = format_named("lance").again(lake, json.loads(handle.key))
        assert again.key == handle.key
        assert (again.schema, again.state.location) == (handle.schema, handle.state.location)
    lake.drop_table(made.name[5:], purge=True)
    lake.create_table(made.name[5:], "id BIGINT", format="lance").append([{"id": 1}])
    for version in range(2, 6):
        lake.table(made.name[5:]).append([{"id": version}])
    with pytest.raises(NotFound, match="made anew"):
        format_named("lance").again(lake, json.loads(now.key))


def test_tables_without_a_catalog(spark, made):
    table = made.table
    assert ids(table.to_spark(spark)) == made.ids
    assert ids(table.to_spark(spark, where="id < 5", columns=["id"], version=2)) == [0, 1, 2, 3, 4]
    assert ids(spark.read.format("frazil").load(table.location)) == made.ids
    assert ids(spark.read.format("frazil").option("versionAsOf", "2").load(table.location)) == list(range(25))
    assert ids(spark.sql(f"SELECT * FROM lake.`{table.location}`")) == made.ids


def test_metadata_tables(spark, made, dataset):
    name = made.name
    made.table.create_tag("kept", 3)
    found = spark.sql(f"SELECT version, operation, summary['total-records'] FROM {name}.versions ORDER BY 1").collect()
    appends = [(n, "append", str(25 * (n - 1))) for n in range(2, 6)]
    assert found == [(1, "overwrite", "0"), *appends, (6, "delete", "97")]
    assert [row["version"] for row in dataset(name).versions()] == [row[0] for row in found]
    assert spark.table(f"{name}.history").count() == spark.table(f"{name}.snapshots").count() == 6
    fragments = spark.sql(f"SELECT fragment_id, physical_rows, deleted_rows FROM {name}.fragments ORDER BY 1").collect()
    expected = [(one.fragment_id, one.physical_rows, one.num_deletions) for one in dataset(name).get_fragments()]
    assert fragments == expected == [(0, 25, 1), (1, 25, 2), (2, 25, 0), (3, 25, 0)]
    assert spark.sql(f"SELECT sum(record_count) FROM {name}.files VERSION AS OF 3").collect() == [(50,)]
    assert spark.sql(f"SELECT name, type, version FROM {name}.refs ORDER BY name").collect() == [("kept", "TAG", 3)]
    dataset(name).create_scalar_index("id", "BTREE", name="by_id")
    assert spark.sql(f"SELECT name, columns, fragments FROM {name}.indices").collect() == [
        ("by_id", ["id"], [0, 1, 2, 3])
    ]


def test_an_empty_table(spark, lake, name):
    lake.create_table(name.removeprefix("lake."), "id BIGINT", format="lance")
    assert spark.table(name).collect() == []
    assert spark.table(name).where("id > 1").count() == 0


def test_listed_and_described(spark, made, sql):
    assert (made.name.split(".")[-1],) in [row[1:2] for row in sql("SHOW TABLES IN lake.db")]
    told = dict(row[:2] for row in sql(f"DESCRIBE TABLE EXTENDED {made.name}"))
    assert told["Provider"] == "lance"
    assert "USING lance" in sql(f"SHOW CREATE TABLE {made.name}")[0][0]
