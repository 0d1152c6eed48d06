"""DELETE, UPDATE and MERGE of keyed tables by Spark: a dictionary, Spark and the kernel agree on what is left."""

from __future__ import annotations

import pytest

from frazil.errors import CommitConflict, FrazilError
from frazil.mixed.overwrite import Overwrite
from frazil.spark.mixed import write
from tests.spark.mixed.keyed import PARTITIONINGS, Keyed


@pytest.fixture(params=PARTITIONINGS.values(), ids=PARTITIONINGS)
def keyed(request, lake, name):
    return Keyed(lake, name, request.param).filled()


@pytest.fixture
def some(lake, name):
    """A table whose partitions do not follow from the key."""
    return Keyed(lake, name, ["region"]).filled()


def test_delete(spark, sql, keyed):
    sql(f"DELETE FROM {keyed.name} WHERE id % 3 = 1 AND upper(name) = 'OLD'")
    keyed.rows = {key: row for key, row in keyed.rows.items() if key % 3 != 1}
    keyed.check(spark)
    before = keyed.versions
    sql(f"DELETE FROM {keyed.name} WHERE id > 1000")
    assert keyed.versions == before
    sql(f"DELETE FROM {keyed.name}")
    keyed.rows = {}
    keyed.check(spark)


def test_update_of_values_partitions_and_keys(spark, sql, keyed):
    sql(f"UPDATE {keyed.name} SET name = concat(name, id), region = 'ap' WHERE id < 4")
    keyed.rows.update({key: (key, f"old{key}", "ap") for key in range(4)})
    keyed.check(spark)
    sql(f"UPDATE {keyed.name} SET id = id + 1")  # each takes the key that another gives up
    keyed.rows = {key + 1: (key + 1, *row[1:]) for key, row in keyed.rows.items()}
    keyed.check(spark)
    sql(f"UPDATE {keyed.name} SET id = CASE id WHEN 1 THEN 2 ELSE 1 END WHERE id IN (1, 2)")
    one, two = keyed.rows[1], keyed.rows[2]
    keyed.rows.update({1: (1, *two[1:]), 2: (2, *one[1:])})
    keyed.check(spark)


@pytest.mark.smoke
def test_merge(spark, sql, keyed):
    source = [(3, "upd", "eu"), (4, None, None), (7, "upd", "ap"), (50, "ins", "us"), (51, "ins", None)]
    spark.createDataFrame(source, "id BIGINT, name STRING, region STRING").createOrReplaceTempView("source")
    sql(
        f"MERGE INTO {keyed.name} t USING source s ON t.id = s.id WHEN MATCHED AND s.name IS NULL THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.id = 50 THEN INSERT *"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN UPDATE SET name = 'alone'"
    )
    keyed.rows.update({3: source[0], 7: source[2], 50: source[3], 1: (1, "alone", "us")})
    del keyed.rows[4], keyed.rows[0]
    keyed.check(spark)
    sql(f"MERGE INTO {keyed.name} t USING source s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    keyed.rows.update({4: source[1], 51: source[4]})
    keyed.check(spark)


def test_a_merge_into_a_large_table_looks_at_rows_that_may_match(spark, sql, some, monkeypatch):
    monkeypatch.setattr("frazil.spark.changes.command._LARGE", 1)
    sql(
        f"MERGE INTO {some.name} t USING (SELECT id * 3 AS id FROM range(5)) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET name = 'm' WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'n')"
    )
    some.rows |= {key: (key, "m", "eu") for key in (0, 3, 6, 9)} | {12: (12, "n", None)}
    some.check(spark)


def test_commands_from_python(spark, some):
    from pyspark.sql.functions import expr

    done = some.table.update({"name": "concat('n', id)"}, "id IN (1, 2)", spark=spark)
    assert (done.rows_updated, done.rows_inserted, done.rows_deleted) == (2, 0, 0)
    assert done.snapshot.snapshot_id == some.table.current_snapshot.change.snapshot_id
    assert some.table.delete("id = 3", spark=spark).rows_deleted == 1
    source = spark.createDataFrame([(1, "m", "eu"), (77, "m", "us")], "id BIGINT, name STRING, region STRING")
    done = (
        some.table.merge(source)
        .when_matched_update({"name": "s.name"})
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("t.id >= 10")
        .execute()
    )
    assert (done.rows_updated, done.rows_inserted, done.rows_deleted) == (1, 1, 2)
    some.rows.update({1: (1, "m", "us"), 2: (2, "n2", None), 77: (77, "m", "us")})
    for key in (3, 10, 11):
        del some.rows[key]
    some.check(spark)
    source.alias("s").mergeInto(some.name, expr(f"{some.name}.id = s.id")).whenMatched().delete().merge()
    for key in (1, 77):
        del some.rows[key]
    some.check(spark)


def test_changes_say_how_rows_were_and_what_they_became(spark, sql, lake, name):
    keyed = Keyed(lake, name, ["region"]).filled(3)
    sql(f"UPDATE {name} SET name = 'new', region = 'ap' WHERE id = 1")
    sql(f"DELETE FROM {name} WHERE id = 2")
    told = keyed.table.refresh().change.scan().to_arrow().to_pylist()
    last = sorted({row["_transaction_id"] for row in told})[-2:]
    found = [(row["_transaction_id"], row["_change_action"], row["id"], row["name"], row["region"]) for row in told]
    assert sorted(row for row in found if row[0] in last) == [
        (last[0], "DELETE", 1, "old", "us"),
        (last[0], "INSERT", 1, "new", "ap"),
        (last[1], "DELETE", 2, "old", None),
    ]


def test_an_ambiguous_merge_is_refused_by_name_and_changes_nothing(spark, sql, some):
    before = some.versions
    with pytest.raises(FrazilError, match=r"MERGE_CARDINALITY_VIOLATION: 2 rows .* id = 3"):
        sql(
            f"MERGE INTO {some.name} t USING (SELECT 3 AS id, explode(array('a', 'b')) AS w) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET name = s.w"
        )
    some.check(spark)
    assert some.versions == before


def test_a_null_key_is_refused_and_nothing_is_left(spark, sql, lake, name):
    table = lake.create_table(name[5:], "id BIGINT, v INT", format="mixed", primary_key=["id"])
    table.append([{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    for text in (
        f"INSERT INTO {name} SELECT if(id = 7, NULL, id), 1 FROM range(20)",
        f"UPDATE {name} SET id = if(v = 2, NULL, id)",
        f"INSERT OVERWRITE {name} SELECT NULL, 5",
    ):
        with pytest.raises(FrazilError, match="a row has no id, which is in the primary key"):
            sql(text)
    assert sorted(sql(f"SELECT * FROM {name}")) == [(1, 1), (2, 2)]
    table.refresh()
    for store in (table.base_store, table.change_store):
        kept = {task.file.file_path for task in store.scan().plan().tasks()}
        files = store.store.list(f"{store.location}/data")
        assert {file.location for file in files if not file.location.endswith(".puffin")} == kept


def test_two_new_rows_of_one_key_are_refused_and_nothing_is_left(spark, sql, some, monkeypatch):
    spark.createDataFrame([(50, "a"), (50, "b"), (3, "c")], "id BIGINT, name STRING").createOrReplaceTempView("twice")
    insert = "WHEN NOT MATCHED THEN INSERT (id, name, region) VALUES (s.id, s.name, s.name)"
    merge = f"MERGE INTO {some.name} t USING twice s ON t.id = s.id"
    for text, key in (
        (f"UPDATE {some.name} SET id = 1 WHERE id < 5", 1),
        (f"UPDATE {some.name} SET id = id DIV 4 WHERE id IN (4, 5)", 1),
        (f"{merge} {insert}", 50),
        (f"{merge} WHEN MATCHED THEN DELETE {insert}", 50),
        (f"{merge} WHEN MATCHED THEN UPDATE SET id = 50 {insert}", 50),
    ):
        with pytest.raises(FrazilError, match=rf"several rows of the key id = {key}"):
            sql(text)
        monkeypatch.setattr("frazil.spark.mixed.new_keys._FEW_ROWS", 0)  # workers find it as well
    some.check(spark)
    change = some.table.refresh().change_store
    kept = {task.file.file_path for task in change.scan().plan().tasks()}
    assert {file.location for file in change.store.list(f"{change.location}/data")} == kept


def meanwhile(monkeypatch, times, do):
    """Let something happen after the rows of a command were written, and before they are committed."""
    commit = write.commit_changes
    left = [times]

    def late(*arguments, **options):
        if left[0]:
            left[0] -= 1
            do()
        return commit(*arguments, **options)

    monkeypatch.setattr(write, "commit_changes", late)


def test_a_command_whose_rows_others_change_meanwhile_is_worked_out_again(spark, sql, some, lake, monkeypatch):
    other = lake.table(some.name[5:])
    meanwhile(monkeypatch, 2, lambda: other.upsert([{"id": 5, "name": f"{len(other.snapshots)}", "region": "eu"}]))
    sql(f"UPDATE {some.name} SET name = concat(name, '!') WHERE id IN (4, 5)")
    some.rows[4] = (4, "old!", some.rows[4][2])
    [last] = [row for row in in_rows(spark, some) if row[0] == 5]
    assert last[1].endswith("!")
    assert last[1] != "old!"
    some.rows[5] = last
    some.check(spark)


def test_changes_of_another_partition_are_no_conflict(spark, sql, some, lake, monkeypatch):
    other = lake.table(some.name[5:])
    meanwhile(monkeypatch, 9, lambda: other.ingest([{"op": "c", "id": 1000, "name": "late", "region": "ap"}]))
    sql(f"UPDATE {some.name} SET name = 'mine' WHERE region = 'eu' AND name <> 'x'")
    assert len([one for one in some.table.refresh().change_store.snapshots if "tx.begin.signature" in one.summary]) == 4
    some.rows |= {key: (key, "mine", "eu") for key, row in some.rows.items() if row[2] == "eu"}
    some.rows[1000] = (1000, "late", "ap")
    some.check(spark)


def in_rows(spark, keyed):
    return [tuple(row) for row in spark.table(keyed.name).collect()]


def test_a_merge_that_reads_its_table_twice_reads_one_state_of_it(spark, sql, lake, name, monkeypatch):
    keyed = Keyed(lake, name, []).filled(4)
    other = lake.table(name[5:])
    meanwhile(monkeypatch, 1, lambda: other.append([{"id": 100, "name": "late", "region": None}]))
    sql(
        f"MERGE INTO {name} t USING (SELECT id + 1 AS id, name, region FROM {name}) s ON t.id = s.id"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    keyed.rows.update({4: (4, "old", "eu"), 100: (100, "late", None), 101: (101, "late", None)})
    keyed.check(spark)


def test_a_command_that_never_comes_first_gives_up_and_leaves_nothing(spark, sql, lake, name, monkeypatch):
    keyed = Keyed(lake, name, [], **{"commit.retry.num-retries": "1"}).filled(4)
    other = lake.table(name[5:])
    meanwhile(monkeypatch, 5, lambda: other.upsert([{"id": 3, "name": "theirs", "region": None}]))
    with pytest.raises(CommitConflict, match="changed the table"):
        sql(f"UPDATE {name} SET name = 'mine'")
    keyed.rows[3] = (3, "theirs", None)
    keyed.check(spark)
    change = keyed.table.refresh().change_store
    kept = {task.file.file_path for task in change.scan().plan().tasks()}
    assert {file.location for file in change.store.list(f"{change.location}/data")} == kept


def test_a_table_without_a_key_is_changed_as_an_iceberg_table(spark, sql, lake, name):
    table = lake.create_table(name[5:], "id BIGINT, v STRING", format="mixed")
    sql(f"INSERT INTO {name} SELECT id, 'a' FROM range(5)")
    sql(f"DELETE FROM {name} WHERE id = 1")
    sql(f"UPDATE {name} SET v = 'b' WHERE id = 2")
    sql(
        f"MERGE INTO {name} t USING (SELECT 3 AS id UNION ALL SELECT 9) s ON t.id = s.id"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'm')"
    )
    wanted = [(0, "a"), (2, "b"), (4, "a"), (9, "m")]
    assert sorted(sql(f"SELECT * FROM {name}")) == wanted
    found = table.refresh().scan().to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == wanted


def test_an_upsert_is_not_lost_to_a_quicker_update_that_did_not_see_it(spark, lake, name, monkeypatch):
    keyed = Keyed(lake, name, []).filled()
    other = lake.table(name[5:])
    meanwhile(monkeypatch, 1, lambda: other.update({"name": "name || '!'"}))
    rows = [(1, "upserted", "eu"), (50, "upserted", "eu")]
    source = spark.createDataFrame(rows, "id BIGINT, name STRING, region STRING")
    assert keyed.table.upsert(source, batch_id="once").rows_inserted == 2
    assert keyed.table.upsert(source, batch_id="once").rows_inserted == 0
    keyed.rows = {key: (key, "old!", row[2]) for key, row in keyed.rows.items()}
    keyed.rows |= {key: (key, "upserted", "eu") for key in (1, 50)}
    keyed.check(spark)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_an_overwrite_is_not_lost_to_a_quicker_update_that_did_not_see_it(spark, sql, lake, name, mode, monkeypatch):
    keyed = Keyed(lake, name, []).filled()
    other = lake.table(name[5:])
    close = Overwrite._commit

    def late(*arguments):
        other.update({"name": "name || '!'"}, "id = 1")
        return close(*arguments)

    monkeypatch.setattr(Overwrite, "_commit", late)
    sql(f"SET spark.sql.sources.partitionOverwriteMode = {mode}")
    sql(f"INSERT OVERWRITE {name} VALUES (1, 'overwritten', 'eu')")
    sql("RESET spark.sql.sources.partitionOverwriteMode")
    keyed.rows = {1: (1, "overwritten", "eu")}
    keyed.check(spark)
