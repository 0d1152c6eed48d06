"""Change data into keyed tables, from DataFrames and from streams: in order, once, and nothing that is unknown."""

from __future__ import annotations

import pytest

from frazil.errors import FrazilError, InvalidArgument, Unsupported
from tests.spark.mixed.keyed import PARTITIONINGS, Keyed
from tests.spark.test_streaming import forget_last_commit

CHANGES = "op STRING, ts INT, id BIGINT, name STRING, region STRING"
SPELLINGS = {
    "words": ("insert", "update_before", "update_after", "delete"),
    "flink": ("+I", "-U", "+U", "-D"),
    "delta": ("insert", "update_preimage", "update_postimage", "delete"),
}


def frame(spark, *changes):
    return spark.createDataFrame(changes, CHANGES).repartition(3)


@pytest.mark.parametrize("words", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("partition_by", [[], ["region"]], ids=["whole", "by region"])
def test_changes_are_applied_in_their_order(spark, lake, name, words, partition_by):
    keyed = Keyed(lake, name, partition_by).filled(4)
    insert, before, after, delete = words
    changes = [
        (insert, 1, 50, "a", "eu"),
        (before, 2, 50, "a", "eu"),
        (after, 2, 50, "b", "us"),
        (delete, 3, 50, "b", "us"),
        (insert, 4, 50, "c", "eu"),
        (delete, 5, 1, "old", "us"),
        (insert, 6, 1, "back", "ap"),
        (before, 7, 0, "old", "eu"),
        (after, 7, 0, "new", "eu"),
        (delete, 8, 2, "old", None),
    ]
    done = keyed.table.ingest(frame(spark, *changes), order="ts")
    assert done.data_files_added > 0
    keyed.rows |= {50: (50, "c", "eu"), 1: (1, "back", "ap"), 0: (0, "new", "eu")}
    del keyed.rows[2]
    keyed.check(spark)


def test_letters_replace_what_has_the_key(spark, lake, name):
    keyed = Keyed(lake, name, ["bucket(2, id)"]).filled(3)
    debezium = [("c", 1, 9, "a", "eu"), ("u", 2, 9, "b", "us"), ("u", 1, 0, "z", "us"), ("d", 3, 1, None, None)]
    keyed.table.ingest(frame(spark, *debezium, ("r", 1, 30, "snap", None)), order=["ts"])
    keyed.rows |= {9: (9, "b", "us"), 0: (0, "z", "us"), 30: (30, "snap", None)}
    del keyed.rows[1]
    keyed.check(spark)
    letters = [("I", 1, 31, "a", "eu"), ("U", 2, 31, "b", "eu"), ("D", 1, 30, None, None)]
    keyed.table.ingest(frame(spark, *letters), order="ts")
    keyed.rows[31] = (31, "b", "eu")
    del keyed.rows[30]
    keyed.check(spark)


def test_many_changes_of_few_keys_come_in_order_through_many_tasks(spark, lake, name):
    keyed = Keyed(lake, name, [])
    count, keys = 3000, 40
    changes = spark.range(count).selectExpr(
        "if(id % 7 = 3, 'delete', 'update') AS op", "id AS seq", f"id % {keys} AS key", "cast(id AS STRING) AS name"
    )
    keyed.table.ingest(changes.withColumnRenamed("key", "id").repartition(5), order="seq")
    for number in range(count):
        if number % 7 == 3:
            keyed.rows.pop(number % keys, None)
        else:
            keyed.rows[number % keys] = (number % keys, str(number), None)
    keyed.check(spark)


def test_what_is_not_clear_is_refused_and_changes_nothing(spark, lake, name):
    keyed = Keyed(lake, name, []).filled(3)
    before = keyed.versions
    two = [("insert", 1, 7, "a", "eu"), ("delete", 1, 7, "a", "eu")]
    for changes, order, told in (
        ([("insert", 1, 7, "a", "eu"), ("upsert", 2, 8, "a", "eu")], "ts", "operation 'upsert', which is unknown"),
        ([(None, 1, 7, "a", "eu")], "ts", "operation None"),
        ([("insert", 1, None, "a", "eu")], "ts", "id"),
        (two, None, "several changes of the key id = 7, and nothing says which came first"),
        (two, "ts", "two changes of the key id = 7 have the same ts"),
        ([("insert", None, 7, "a", "eu")], "ts", "a change has no ts"),
        (two, "when", "no column 'when'"),
    ):
        given = frame(spark, *changes)
        with pytest.raises(FrazilError, match=told):
            keyed.table.ingest(given if order else given.drop("ts"), order=order)
    with pytest.raises(FrazilError, match="no column 'kind'"):
        keyed.table.ingest(frame(spark, *two), "kind")
    with pytest.raises(FrazilError, match="no column 'more'"):
        keyed.table.ingest(frame(spark, *two).selectExpr("*", "1 AS more"), order="ts")
    assert keyed.versions == before
    keyed.check(spark)
    store = keyed.table.change_store
    kept = {task.file.file_path for task in store.scan().plan().tasks()}
    assert {file.location for file in store.store.list(f"{store.location}/data")} == kept


def test_columns_that_would_have_to_be_cast_are_refused(spark, lake, name):
    keyed = Keyed(lake, name, []).filled(2)
    for column, wrong, words in (
        ("id", "'one'", "column `id` of the rows is of type STRING, which does not become BIGINT"),
        ("name", "array('a')", "column `name` of the rows is of type ARRAY<STRING>, which does not become STRING"),
    ):
        values = {"op": "'c'", "id": "1L", "name": "'a'", "region": "'eu'", column: wrong}
        rows = spark.sql("SELECT " + ", ".join(f"{text} AS {key}" for key, text in values.items()))
        with pytest.raises(InvalidArgument, match=words):
            keyed.table.ingest(rows)
        for write in (keyed.table.append, keyed.table.upsert):
            with pytest.raises(InvalidArgument, match=words):
                write(rows.drop("op"))
    keyed.check(spark)


def test_old_rows_that_are_not_told_are_found_in_any_partition(spark, lake, name):
    keyed = Keyed(lake, name, ["region"]).filled(6)
    changes = [("u", 1, 0, "x", "ap"), ("u", 2, 0, "y", "us"), ("d", 3, 1, None, None), ("c", 4, 1, "back", "eu")]
    keyed.table.ingest(frame(spark, *changes, ("c", 1, 40, "new", None), ("d", 5, 2, None, "us")), order="ts")
    keyed.rows |= {0: (0, "y", "us"), 1: (1, "back", "eu"), 40: (40, "new", None)}
    del keyed.rows[2]
    keyed.check(spark)
    before = keyed.versions
    for changes, told in (
        ([("u", 1, 7, "a", "eu"), ("d", 1, 7, "a", "eu")], "two changes of the key id = 7 have the same ts"),
        ([("u", 1, 7, "a", "eu"), ("z", 2, 7, "a", "eu")], "operation 'z', which is unknown"),
        ([("u", 1, None, "a", "eu")], "primary key"),
        ([("u", None, 7, "a", "eu")], "a change has no ts"),
    ):
        with pytest.raises(FrazilError, match=told):
            keyed.table.ingest(frame(spark, *changes), order="ts")
    assert keyed.versions == before
    keyed.check(spark)
    some = [("-U", 1, 0, "y", "us"), ("+U", 1, 0, "z", "ap"), ("+U", 1, 3, "z", "us"), ("-U", 2, 4, "old", "us")]
    keyed.table.ingest(frame(spark, *some, ("+U", 2, 41, "moved", None)), order="ts")
    keyed.rows |= {0: (0, "z", "ap"), 3: (3, "z", "us"), 41: (41, "moved", None)}
    del keyed.rows[4]
    keyed.check(spark)


def test_deletes_may_tell_the_key_alone_wherever_their_rows_are(spark, lake, name):
    keyed = Keyed(lake, name, ["region"]).filled(6)
    keys_alone = [("d", 1, key, None, None) for key in (0, 1, 77)]
    keyed.table.ingest(frame(spark, *keys_alone).drop("ts"))
    for gone in (0, 1):
        del keyed.rows[gone]
    keyed.check(spark)
    told = [("d", 1, 2, None, None), ("-U", 1, 3, "old", "eu"), ("+U", 1, 3, "new", "us"), ("c", 1, 8, "a", "eu")]
    keyed.table.ingest(frame(spark, *told), order="ts")
    del keyed.rows[2]
    keyed.rows |= {3: (3, "new", "us"), 8: (8, "a", "eu")}
    keyed.check(spark)


REQUIRED = "id BIGINT NOT NULL, name STRING NOT NULL, region STRING NOT NULL"


@pytest.mark.parametrize("upserts", ["false", "true"])
@pytest.mark.parametrize("partition_by", PARTITIONINGS.values(), ids=PARTITIONINGS)
def test_deletes_may_tell_the_key_alone_where_other_columns_are_required(spark, lake, name, partition_by, upserts):
    keyed = Keyed(lake, name, partition_by, schema=REQUIRED, **{"write.upsert.enabled": upserts})
    keyed.table.append([{"id": n, "name": "old", "region": ("eu", "us")[n % 2]} for n in range(6)])
    keyed.rows = {n: (n, "old", ("eu", "us")[n % 2]) for n in range(6)}
    keyed.table.ingest(frame(spark, ("d", 1, 0, None, None)).select("op", "id"))
    del keyed.rows[0]
    keyed.check(spark)
    told = [
        ("d", 1, 1, None, None),
        ("c", 2, 1, "back", "eu"),
        ("c", 1, 50, "a", "eu"),
        ("d", 2, 50, None, None),
        ("-U", 1, 2, "old", "eu"),
        ("+U", 1, 2, "new", "us"),
        ("u", 3, 3, "c", "eu"),
        ("d", 1, 4, None, "us"),
        ("c", 1, 51, "b", "us"),
        ("d", 1, 77, None, None),
    ]
    keyed.table.ingest(frame(spark, *told), order="ts", batch_id="x")
    keyed.rows |= {1: (1, "back", "eu"), 2: (2, "new", "us"), 3: (3, "c", "eu"), 51: (51, "b", "us")}
    del keyed.rows[4]
    keyed.check(spark)
    gone = keyed.table.change.scan("_change_action = 'DELETE'", columns=["name", "region"]).to_arrow()
    assert [column.null_count for column in gone.columns] == [0, 0]
    later = [(4, "later", "eu"), (77, "later", "us")]
    keyed.table.upsert([dict(zip(("id", "name", "region"), one, strict=True)) for one in later])
    keyed.rows |= {one[0]: one for one in later}
    keyed.table.ingest(frame(spark, *told), order="ts", batch_id="x")
    keyed.check(spark)


@pytest.mark.parametrize("partition_by", PARTITIONINGS.values(), ids=PARTITIONINGS)
def test_rows_but_deleted_ones_that_lack_what_is_required_are_refused(spark, lake, name, partition_by):
    """Also if a later change takes them."""
    keyed = Keyed(lake, name, partition_by, schema=REQUIRED)
    keyed.table.append([{"id": n, "name": "old", "region": "eu"} for n in range(3)])
    keyed.rows = {n: (n, "old", "eu") for n in range(3)}
    before = keyed.versions
    for operation, others in (
        ("c", []),
        ("u", [("d", 9, 0, None, None)]),
        ("-U", [("d", 9, 0, None, None)]),
        ("+U", [("d", 9, 1, None, None)]),
    ):
        given = frame(spark, (operation, 1, 1, None, "eu"), *others)
        for rows in (given, given.drop("name")):
            with pytest.raises(FrazilError, match="column 'name'"):
                keyed.table.ingest(rows, order="ts")
    assert keyed.versions == before
    keyed.check(spark)


def test_what_is_required_inside_a_column_is_not_required_of_deletes(spark, lake, name):
    inside = "s STRUCT<a: INT NOT NULL, b: INT>, l ARRAY<STRUCT<c: INT NOT NULL>> NOT NULL, m MAP<STRING, INT NOT NULL>"
    keyed = Keyed(lake, name, [], schema=f"id BIGINT NOT NULL, {inside}")
    one = {"s": {"a": 1, "b": None}, "l": [{"c": 1}], "m": {"k": 1}}
    keyed.table.append([{"id": number, **one} for number in range(5)])
    lacking = {
        1: {"s": {"a": None, "b": None}},
        2: {"l": [{"c": 1}, {"c": None}]},
        3: {"m": {"k": None}},
        4: {"s": None, "l": None, "m": None},
    }
    schema = f"op STRING, id BIGINT, {inside.replace(' NOT NULL', '')}"
    for number, values in lacking.items():
        goes = {"op": "d", "id": number, **one, **values}
        comes = {**goes, "op": "u", "id": 0}
        with pytest.raises(FrazilError, match=f"column '{next(iter(values)) if number < 4 else 'l'}' lacks"):
            keyed.table.ingest(spark.createDataFrame([goes, comes], schema))
        keyed.table.ingest(spark.createDataFrame([goes], schema))
        assert [found["id"] for found in keyed.table.scan().to_arrow().sort_by("id").to_pylist()] == [
            0,
            *range(number + 1, 5),
        ]
    assert [found["id"] for found in spark.table(name).collect()] == [0]


def test_a_batch_that_found_nothing_to_delete_is_not_applied_later(spark, lake, name):
    keyed = Keyed(lake, name, [], schema=REQUIRED)
    changes = frame(spark, ("d", 1, 7, None, None))
    keyed.table.ingest(changes, order="ts", batch_id="gone")
    keyed.table.upsert([{"id": 7, "name": "came later", "region": "eu"}])
    keyed.table.ingest(changes, order="ts", batch_id="gone")
    keyed.rows = {7: (7, "came later", "eu")}
    keyed.check(spark)


def test_a_batch_is_applied_once(spark, lake, name):
    keyed = Keyed(lake, name, [])
    for _ in range(2):
        keyed.table.ingest(frame(spark, ("insert", 1, 7, "a", "eu")), order="ts", batch_id="monday")
    keyed.rows = {7: (7, "a", "eu")}
    keyed.check(spark)


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_batch_with_a_blank_name_is_refused(spark, lake, name, blank):
    keyed = Keyed(lake, name, []).filled(2)
    before = len(keyed.table.snapshots)
    changes = frame(spark, ("insert", 1, 7, "a", "eu"))
    rows = changes.select("id", "name", "region")
    for write in (
        lambda: keyed.table.ingest(changes, order="ts", batch_id=blank),
        lambda: keyed.table.append(rows, batch_id=blank),
        lambda: keyed.table.upsert(rows, batch_id=blank),
        lambda: rows.writeTo(name).option("batch-id", blank).append(),
        lambda: rows.write.option("batch-id", blank).mode("append").saveAsTable(name),
    ):
        with pytest.raises(InvalidArgument, match=r"batch_id is .* which is no name"):
            write()
    assert len(keyed.table.refresh().snapshots) == before
    keyed.check(spark)


def stream(spark, folder, name, checkpoint, **options):
    """Take in what is in a folder; how many rows there were."""
    frame = spark.readStream.schema(CHANGES).option("maxFilesPerTrigger", 1).json(str(folder))
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).options(**options)
    query = writer.trigger(availableNow=True).toTable(name)
    try:
        query.awaitTermination(120)
        return sum(progress["numInputRows"] for progress in query.recentProgress)
    finally:
        query.stop()


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "source"
    made.mkdir()

    def put(number, *changes):
        lines = [str(dict(zip(("op", "ts", "id", "name", "region"), one, strict=True))) for one in changes]
        (made / f"{number}.json").write_text("\n".join(lines).replace("'", '"').replace("None", "null"))

    return made, put


def test_a_stream_of_changes_is_applied_in_order_and_exactly_once(spark, lake, name, tmp_path, folder):
    keyed = Keyed(lake, name, ["bucket(2, id)"]).filled(3)
    source, put = folder
    how = {"operation": "op", "order": "ts"}
    put(1, ("c", 1, 10, "a", "eu"), ("u", 2, 10, "b", "eu"), ("d", 3, 0, None, None))
    put(2, ("u", 4, 10, "c", "us"), ("c", 5, 11, "x", "us"))
    assert stream(spark, source, name, tmp_path / "at", **how) == 5
    keyed.rows |= {10: (10, "c", "us"), 11: (11, "x", "us")}
    del keyed.rows[0]
    keyed.check(spark)
    before = keyed.versions
    forget_last_commit(tmp_path / "at")
    stream(spark, source, name, tmp_path / "at", **how)
    assert keyed.versions == before
    put(3, ("d", 6, 11, None, None), ("c", 7, 0, "back", "eu"))
    stream(spark, source, name, tmp_path / "at", **how)
    keyed.rows[0] = (0, "back", "eu")
    del keyed.rows[11]
    keyed.check(spark)
    put(4, ("q", 8, 11, None, None))
    with pytest.raises(Exception, match="operation 'q', which is unknown"):
        stream(spark, source, name, tmp_path / "at", **how)
    keyed.check(spark)


def test_a_stream_of_changes_may_delete_by_the_key_alone_where_other_columns_are_required(
    spark, lake, name, tmp_path, folder
):
    keyed = Keyed(lake, name, [], schema=REQUIRED)
    source, put = folder
    how = {"operation": "op", "order": "ts"}
    put(1, ("c", 1, 10, "a", "eu"), ("c", 2, 11, "b", "eu"), ("d", 3, 10, None, None))
    put(2, ("d", 4, 11, None, None), ("c", 5, 12, "x", "us"))
    put(3, ("d", 6, 99, None, None))
    assert stream(spark, source, name, tmp_path / "at", **how) == 6
    keyed.rows = {12: (12, "x", "us")}
    keyed.check(spark)
    keyed.table.upsert([{"id": 99, "name": "came later", "region": "eu"}])
    keyed.rows[99] = (99, "came later", "eu")
    before = keyed.versions
    forget_last_commit(tmp_path / "at")
    stream(spark, source, name, tmp_path / "at", **how)
    assert keyed.versions == before
    keyed.check(spark)


def test_a_stream_of_rows_replaces_what_has_their_keys(spark, lake, name, tmp_path, folder):
    keyed = Keyed(lake, name, [], **{"write.upsert.enabled": "true"}).filled(3)
    source, put = folder
    put(1, ("", 0, 1, "s", "eu"), ("", 0, 5, "s", "eu"))
    rows = spark.readStream.schema(CHANGES).json(str(source)).select("id", "name", "region")
    query = rows.writeStream.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True).toTable(name)
    query.awaitTermination(120)
    keyed.rows |= {1: (1, "s", "eu"), 5: (5, "s", "eu")}
    keyed.check(spark)


def test_a_stream_reads_the_changes_and_goes_on_where_it_was(spark, sql, lake, name, tmp_path):
    """Also past commits that take changes from the store, once they are in the base store."""
    from frazil.optimize.change_expiry import expire_changes

    keyed = Keyed(lake, name, [])
    sql(f"INSERT INTO {name} VALUES (1, 'a', 'eu'), (2, 'b', 'us')")
    columns = ("_change_action", "id", "name")

    def taken():
        frame = spark.readStream.table(f"{name}.change").select(*columns)
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True)
        query = writer.toTable(f"{name}_out")
        query.awaitTermination(120)
        return sorted(sql(f"SELECT * FROM {name}_out"))

    first = [("INSERT", 1, "a"), ("INSERT", 2, "b")]
    assert taken() == first
    sql(f"UPDATE {name} SET name = 'c' WHERE id = 1")
    assert taken() == sorted([*first, ("DELETE", 1, "a"), ("INSERT", 1, "c")])
    table = keyed.table.refresh()
    table.optimize("minor", upkeep=False)
    expire_changes(table.refresh(), older_than_ms=10**15)
    sql(f"DELETE FROM {name} WHERE id = 2")
    assert taken() == sorted([*first, ("DELETE", 1, "a"), ("INSERT", 1, "c"), ("DELETE", 2, "b")])


def test_a_stream_of_updates_replaces_what_has_their_keys(spark, lake, name, tmp_path, folder):
    """Counts by key, of which a batch brings those that changed."""
    keyed = Keyed(lake, name, [], **{"write.upsert.enabled": "true"})
    source, put = folder

    def taken():
        rows = spark.readStream.schema(CHANGES).json(str(source)).groupBy("id").count()
        counted = rows.selectExpr("id", "cast(count AS STRING) AS name", "'eu' AS region")
        writer = counted.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "at"))
        writer.trigger(availableNow=True).toTable(name).awaitTermination(120)

    put(1, *((("", 0, number, "x", "eu")) for number in (1, 2, 2)))
    taken()
    put(2, *((("", 0, number, "x", "eu")) for number in (2, 3)))
    taken()
    keyed.rows = {1: (1, "1", "eu"), 2: (2, "3", "eu"), 3: (3, "1", "eu")}
    keyed.check(spark)
    lake.table(name[5:]).update_properties().set("write.upsert.enabled", "false").commit()
    with pytest.raises(Unsupported, match="output mode update"):
        taken()
