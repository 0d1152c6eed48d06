"""Where changes go and where they are seen: branches, audits, caches, views, nested columns, summaries of snapshots."""

from __future__ import annotations

import time

import pytest

from tests.spark.changes.layouts import COPY, LAYOUTS, MERGE, SOURCE, as_dicts, modes, new

_ON = "MERGE INTO {t} t USING src s ON t.id = s.id"
_MERGE = f"{_ON} WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
_COMMANDS = {
    "delete": ("DELETE FROM {t} WHERE id % 2 = 0", [1, 3, 5, 7]),
    "update": ("UPDATE {t} SET id = id + 100 WHERE id <= 2", [3, 4, 5, 6, 7, 8, 101, 102]),
    "merge": (_MERGE, [1, 2, 3, 4, 5, 6, 7, 8, 20, 21]),
}
_BEGIN = list(range(1, 9))


@pytest.fixture
def ids(sql, name):
    def read(of=None):
        return [row[0] for row in sql(f"SELECT id FROM {of or name} ORDER BY id")]

    return read


@pytest.mark.parametrize(("kind", "mode", "version"), [("delete", MERGE, 3), ("update", COPY, 2), ("merge", MERGE, 2)])
def test_branches(spark, lake, name, ids, table, views, kind, mode, version):
    LAYOUTS["identity"](lake, name, version, mode)
    statement, left = _COMMANDS[kind]
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH b")
    spark.sql(statement.format(t=f"{name}.branch_b"))
    assert ids() == _BEGIN
    assert ids(f"{name}.branch_b") == left
    assert table().refs["b"].snapshot_id != table().current_snapshot.snapshot_id
    spark.sql(f"DELETE FROM {name} WHERE id + 0 = 8")  # the branches go apart
    spark.sql(f"UPDATE {name}.branch_b SET v = -1 WHERE id = 3")
    assert ids() == _BEGIN[:-1]
    assert ids(f"{name}.branch_b") == left


@pytest.mark.parametrize(("kind", "mode"), [("delete", COPY), ("update", MERGE), ("merge", COPY)])
def test_audits(spark, lake, name, ids, table, views, kind, mode):
    LAYOUTS["plain"](lake, name, 2, mode)
    table().update_properties().set("write.wap.enabled", "true").commit()
    statement, left = _COMMANDS[kind]
    before = table().current_snapshot.snapshot_id
    try:
        spark.conf.set("spark.wap.id", "audit")
        spark.sql(statement.format(t=name))
        spark.conf.unset("spark.wap.id")
        [staged] = [one for one in table().snapshots if one.summary.get("wap.id") == "audit"]
        assert (staged.parent_snapshot_id, table().current_snapshot.snapshot_id) == (before, before)
        spark.conf.set("spark.wap.branch", "audit")
        spark.sql(statement.format(t=name))
        assert ids() == left  # while the branch is set, it is what is read
        spark.sql(f"DELETE FROM {name} WHERE id + 0 = {left[0]}")  # a second one builds on the first
        assert ids() == left[1:]
    finally:
        spark.conf.unset("spark.wap.id")
        spark.conf.unset("spark.wap.branch")
    assert ids() == _BEGIN
    assert ids(f"{name}.branch_audit") == left[1:]
    assert sorted(table().scan(version=staged.snapshot_id).to_arrow()["id"].to_pylist()) == left


@pytest.fixture
def audited(spark, lake, name):
    """A table that takes part in audits; the session's settings are gone after the test."""
    made = lake.create_table(
        name.removeprefix("lake."), "id BIGINT, v BIGINT", properties={"write.wap.enabled": "true"}
    )
    for number in (1, 2):
        made.append([{"id": number, "v": 0}])
    yield made
    spark.conf.unset("spark.wap.id")
    spark.conf.unset("spark.wap.branch")


def _upsert(spark, table):
    return table.upsert(spark.createDataFrame([(2, 5), (3, 5)], "id BIGINT, v BIGINT"), keys=["id"])


def _merge(spark, table):
    merge = table.merge([{"id": 2, "v": 5}, {"id": 3, "v": 5}], "id", spark=spark)
    return merge.when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize("put", [_upsert, _merge])
def test_audits_of_methods(spark, audited, put):
    before = audited.current_snapshot
    spark.conf.set("spark.wap.id", "audit")
    staged = put(spark, audited).snapshot
    assert staged.summary["wap.id"] == "audit"
    assert audited.refresh().current_snapshot == before
    spark.conf.unset("spark.wap.id")
    spark.conf.set("spark.wap.branch", "audit")
    put(spark, audited)
    audited.update({"v": "v + 1"}, "id = 3", spark=spark)  # on what the branch has
    assert audited.refresh().current_snapshot == before
    rows = [tuple(row.values()) for row in audited.scan(ref="audit").to_arrow().sort_by("id").to_pylist()]
    assert rows == [(1, 0), (2, 5), (3, 6)]


@pytest.mark.parametrize("setting", ["spark.wap.id", "spark.wap.branch"])
def test_compaction_is_no_matter_of_audits(spark, audited, setting):
    spark.conf.set(setting, "audit")
    done = audited.rewrite_data_files(options={"rewrite-all": "true"}, spark=spark)
    assert (done.rewritten_data_files_count, done.added_data_files_count) == (2, 1)
    assert audited.refresh().current_snapshot.summary["total-data-files"] == "1"
    assert list(audited.refs) == ["main"]


@pytest.mark.parametrize("mode", [COPY, MERGE])
def test_what_is_cached_is_never_stale(spark, lake, name, ids, views, mode):
    LAYOUTS["bucket"](lake, name, 3, mode)
    spark.sql(f"CACHE TABLE {name}")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW over AS SELECT id FROM {name} WHERE id < 50")
    held = spark.table("over").cache()
    assert (held.count(), ids("over")) == (8, _BEGIN)
    expected = _BEGIN
    for statement, expected in (
        ("DELETE FROM {t} WHERE id = 8 OR id * 2 = 2", [2, 3, 4, 5, 6, 7]),
        ("UPDATE {t} SET id = 40 WHERE id = 7", [2, 3, 4, 5, 6, 40]),
        (_MERGE, [2, 3, 4, 5, 6, 20, 21, 40]),
    ):
        spark.sql(statement.format(t=name))
        assert ids() == expected
        assert ids("over") == expected
        assert spark.table(name).count() == len(expected)
    spark.sql(f"UNCACHE TABLE {name}")
    spark.catalog.dropTempView("over")


def test_a_cached_target_is_changed_by_what_is_in_the_table(spark, lake, name, ids, views):
    """Another writer came meanwhile: what this session cached must not decide which rows are changed."""
    LAYOUTS["plain"](lake, name, 2, MERGE)
    spark.sql(f"CACHE TABLE {name}")
    lake.table(name.removeprefix("lake.")).append(as_dicts([(30, "a", 1, None, None)]))
    spark.sql(f"UPDATE {name} SET id = id + 1 WHERE id >= 8")
    assert ids() == [1, 2, 3, 4, 5, 6, 7, 9, 31]
    spark.sql(f"UNCACHE TABLE {name}")


def test_merge_into_of_dataframes(spark, lake, name, rows, wanted):
    from pyspark.sql.functions import col, expr

    LAYOUTS["days"](lake, name, 3, MERGE)
    source = spark.table("src").alias("s")
    merge = source.mergeInto(name, expr(f"{name}.id = s.id"))
    merge = merge.whenMatched(expr("s.v IS NULL")).delete().whenMatched().update({"v": col("s.v")})
    merge = merge.whenNotMatched(expr("s.id = 20")).insertAll()
    merge.whenNotMatchedBySource(expr(f"{name}.id = 1")).update({"cat": expr("'one'")}).merge()
    assert rows() == wanted(
        "SELECT o.id, IF(o.id = 1, 'one', o.cat) AS cat, IF(s.id IS NULL, o.v, s.v) AS v, o.x, o.ts"
        " FROM old o LEFT JOIN src s ON o.id = s.id WHERE o.id <> 5 UNION ALL SELECT * FROM src WHERE id = 20"
    )


def test_a_source_that_is_not_the_same_twice_is_made_once(spark, lake, name, sql, table):
    new(lake, name, 2, COPY, columns="id BIGINT, v DOUBLE").append([{"id": 1, "v": 0.5}, {"id": 2, "v": 0.5}])
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT CAST(1 + rand() * 1000000 AS BIGINT) AS id, uuid() AS u FROM range(50)) s"
        " ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.id)"
    )
    assert sql(f"SELECT count(*), count_if(id = v) FROM {name}") == [(52, 50)]
    spark.sql(f"DELETE FROM {name} WHERE rand() < 0.5")
    left = sql(f"SELECT id, v FROM {name} ORDER BY id")
    assert left == [tuple(row.values()) for row in table().scan().to_arrow().sort_by("id").to_pylist()]
    spark.sql(f"UPDATE {name} SET v = rand() + 5 WHERE rand() < 0.5")
    assert [row[0] for row in sql(f"SELECT id FROM {name} ORDER BY id")] == [row[0] for row in left]


_NESTED = (
    "id BIGINT NOT NULL, s STRUCT<x: INT, y: STRUCT<z: STRING, w: INT NOT NULL>>, l ARRAY<INT>,"
    " m MAP<STRING, STRUCT<a: INT>>, d DECIMAL(10, 2), b BINARY"
)


def _nested(number):
    inner = {"z": f"z{number}", "w": number}
    return {
        "id": number,
        "s": None if number == 4 else {"x": number, "y": None if number == 3 else inner},
        "l": [number, None] if number % 2 else [],
        "m": {"k": {"a": number}} if number != 2 else None,
        "d": None,
        "b": bytes([number]),
    }


@pytest.mark.parametrize(("version", "mode", "format_"), [(1, COPY, "avro"), (2, MERGE, "parquet"), (3, COPY, "orc")])
def test_nested_columns(spark, lake, name, sql, rows, version, mode, format_):
    made = new(lake, name, version, mode, columns=_NESTED, write__format__default=format_)
    made.append([_nested(number) for number in range(1, 6)])
    spark.sql(f"UPDATE {name} SET s.x = -1, s.y.z = upper(s.y.z), d = 1.25 WHERE id IN (1, 5)")
    assert sql(f"SELECT id, s.x, s.y.z, s.y.w, d FROM {name} ORDER BY id") == [
        (1, -1, "Z1", 1, sql("SELECT 1.25BD")[0][0]),
        (2, 2, "z2", 2, None),
        (3, 3, None, None, None),
        (4, None, None, None, None),
        (5, -1, "Z5", 5, sql("SELECT 1.25BD")[0][0]),
    ]
    spark.sql(f"DELETE FROM {name} WHERE s.y.w = 5 OR array_contains(l, 3) OR m IS NULL")
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT 4L AS id, array(7) AS l UNION ALL SELECT 9L, NULL) u ON t.id = u.id"
        " WHEN MATCHED THEN UPDATE SET l = u.l, t.m = map('n', named_struct('a', 5))"
        " WHEN NOT MATCHED THEN INSERT (id, s) VALUES (u.id, named_struct('x', 9, 'y', named_struct('z', 'q', 'w', 1)))"
    )
    found = sql(f"SELECT id, s.x, s.y.z, l, m['n'].a, m['k'].a, hex(b) FROM {name} ORDER BY id")
    assert found == [
        (1, -1, "Z1", [1, None], None, 1, "01"),
        (4, None, None, [7], 5, None, "04"),
        (9, 9, "q", None, None, None, None),
    ]
    assert sum(rows().values()) == 3


def _summary(table, *keys):
    summary = table().current_snapshot.summary
    return {key: summary.get(key) for key in keys}


def test_snapshots_tell_what_was_done_by_copies(spark, lake, name, table, views):
    LAYOUTS["plain"](lake, name, 2, COPY)
    keys = ("operation", "deleted-data-files", "added-records", "deleted-records", "total-records")
    spark.sql(f"UPDATE {name} SET v = 0 WHERE id = 1")
    assert _summary(table, *keys) == dict(zip(keys, ("overwrite", "1", "4", "4", "8"), strict=True))
    spark.sql(f"DELETE FROM {name} WHERE id IN (SELECT 5L)")
    assert _summary(table, *keys) == dict(zip(keys, ("overwrite", "1", "3", "4", "7"), strict=True))
    spark.sql(f"DELETE FROM {name} WHERE id >= 6")  # a whole file
    assert _summary(table, *keys) == dict(zip(keys, ("delete", "1", None, "3", "4"), strict=True))
    spark.sql(_MERGE.format(t=name))
    assert _summary(table, "operation", "total-records") == {
        "operation": "overwrite",
        "total-records": str(4 + len(SOURCE) - 2),
    }
    before = table().current_snapshot
    spark.sql(f"{_ON} WHEN NOT MATCHED THEN INSERT *".format(t=name))
    assert table().current_snapshot == before  # nothing was new
    summary = table().current_snapshot.summary
    assert (summary["engine-name"], summary["engine-version"]) == ("spark", spark.version)
    assert summary["spark.app.id"] == spark.sparkContext.applicationId


@pytest.mark.parametrize(("version", "kind"), [(2, "position-delete-files"), (3, "dvs")])
def test_snapshots_tell_what_was_done_by_deletes(spark, lake, name, table, version, kind):
    LAYOUTS["plain"](lake, name, version, MERGE)
    spark.sql(f"DELETE FROM {name} WHERE id IN (1, 2) OR id * 2 = 10")
    keys = ("operation", "added-delete-files", f"added-{kind}", "added-position-deletes", "total-position-deletes")
    assert _summary(table, *keys) == dict(zip(keys, ("delete", "2", "2", "3", "3"), strict=True))
    assert _summary(table, "total-records", "added-data-files") == {"total-records": "8", "added-data-files": None}
    spark.sql(f"UPDATE {name} SET v = 1 WHERE id = 3")
    assert _summary(table, *keys) == dict(zip(keys, ("overwrite", "1", "1", "3", "4"), strict=True))
    assert _summary(table, f"removed-{kind}", "added-records") == {f"removed-{kind}": "1", "added-records": "1"}
    spark.sql(f"DELETE FROM {name} WHERE v = 40")  # the last row of its file: the file goes, and its deletes
    assert _summary(table, "operation", "deleted-data-files", "added-delete-files", "total-position-deletes") == {
        "operation": "delete",
        "deleted-data-files": "1",
        "added-delete-files": None,
        "total-position-deletes": "1",
    }


def test_commands_that_find_nothing_make_no_snapshot(spark, lake, name, table, views):
    LAYOUTS["deleted"](lake, name, 3, MERGE)
    before = table().metadata_location
    for statement in (
        "DELETE FROM {t} WHERE id % 1000 = 999",
        "UPDATE {t} SET v = 1 WHERE id = 103",  # deleted by its key
        "MERGE INTO {t} t USING src s ON t.id = s.id + 500 WHEN MATCHED THEN DELETE",
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED AND s.v > 1000 THEN DELETE",
    ):
        spark.sql(statement.format(t=name))
        assert table().metadata_location == before


def test_files_without_a_match_are_not_rewritten(spark, lake, name, table):
    made = new(lake, name, 2, COPY, columns="id BIGINT, v BIGINT")
    for part in range(4):
        made.append([{"id": part * 10 + number, "v": 0} for number in range(10)])

    def files():
        return {task.file.file_path for task in table().scan().plan().tasks()}

    before = files()
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT id FROM VALUES (13L), (17L) AS s(id)) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = 1"
    )
    assert len(before - files()) == 1
    before = files()
    spark.sql(f"UPDATE {name} SET v = 2 WHERE id IN (SELECT 25L)")
    assert len(before - files()) == 1


def test_a_name_in_another_case_and_a_path(spark, lake, name, sql, table):
    LAYOUTS["identity"](lake, name, 2, MERGE)
    spark.sql(f"UPDATE {name} SET V = 1, CAT = 'Z' WHERE ID = 1 AND Cat = 'a'")
    assert sql(f"SELECT cat, v FROM {name} WHERE id = 1") == [("Z", 1)]
    path = table().location.removeprefix("file://")
    spark.sql(f"DELETE FROM lake.`{path}` WHERE id < 3 AND id % 1 = 0")
    assert sql(f"SELECT min(id), count(*) FROM {name}") == [(3, 6)]


def test_an_empty_table(spark, lake, name, ids, views, table):
    new(lake, name, 3, MERGE)
    spark.sql(f"DELETE FROM {name} WHERE id % 2 = 0")
    spark.sql(f"UPDATE {name} SET v = 0")
    assert table().current_snapshot is None
    spark.sql(_MERGE.format(t=name))
    assert ids() == [2, 3, 5, 20, 21]


_ODD = ["a b", "x/y=z", "100%25", "ä€😀", "", "c:\\d", "q?w#e&r+t", None]


@pytest.mark.parametrize(("version", "mode"), [(2, COPY), (2, MERGE), (3, MERGE)])
def test_odd_partitions_and_folders(spark, lake, name, sql, tmp_path, version, mode):
    """The file that a row is in is known by its name, however the name is written."""
    root = tmp_path / "with space % and ü"
    made = lake.create_table(
        name.removeprefix("lake."),
        "id BIGINT, cat STRING",
        partition_by=["cat"],
        format_version=version,
        properties={**modes(mode), "write.data.path": str(root)},
    )
    made.append([{"id": number, "cat": _ODD[number % len(_ODD)]} for number in range(16)])
    spark.sql(f"UPDATE {name} SET id = id + 100 WHERE id % 16 < 8")
    spark.sql(f"DELETE FROM {name} WHERE id IN (SELECT id FROM range(8, 12)) OR id = 103 OR id * 2 = 214")
    expected = sorted([*(100 + number for number in range(7) if number != 3), *range(12, 16)])
    assert [row[0] for row in sql(f"SELECT id FROM {name} ORDER BY id")] == expected
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT DISTINCT cat FROM {name}) s ON t.cat <=> s.cat"
        " WHEN MATCHED THEN UPDATE SET id = -t.id"
    )
    assert sorted(row[0] for row in sql(f"SELECT -id FROM {name}")) == expected


def test_columns_that_are_not_named_get_their_defaults(spark, lake, name, sql):
    made = new(lake, name, 3, MERGE, columns="id BIGINT")
    made.append([{"id": 1}, {"id": 2}])
    spark.sql(f"ALTER TABLE {name} ADD COLUMN v INT DEFAULT 7")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN v SET DEFAULT 9")
    spark.sql(f"UPDATE {name} SET v = DEFAULT WHERE id = 1")
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT 3L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    )
    assert sql(f"SELECT id, v FROM {name} ORDER BY id") == [(1, 9), (2, 7), (3, 9)]
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT 2L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = DEFAULT"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET id = 4"
    )
    assert sql(f"SELECT id, v FROM {name} ORDER BY id") == [(1, 9), (2, 9), (4, 9)]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_now_is_one_moment_for_a_command(spark, sql, name, mode, monkeypatch):
    """Rows whose time comes while an UPDATE runs are neither lost nor there twice."""
    from frazil.spark.changes.delta import Delta

    sql(f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP) TBLPROPERTIES ('write.update.mode' = '{mode}')")
    times = "timestampadd(MILLISECOND, id * 20, current_timestamp())"
    sql(f"INSERT INTO {name} SELECT id, {times} FROM range(0, 500, 1, 1)")
    touched = Delta.touched

    def later(self, plan):
        found = touched(self, plan)
        time.sleep(1.5)
        return found

    monkeypatch.setattr(Delta, "touched", later)
    sql(f"UPDATE {name} SET ts = TIMESTAMP '2000-01-01 00:00:00' WHERE ts < current_timestamp()")
    assert sql(f"SELECT count(*), count(DISTINCT id) FROM {name}") == [(500, 500)]
    assert sql(f"SELECT count(*) > 0 FROM {name} WHERE ts = TIMESTAMP '2000-01-01 00:00:00'") == [(True,)]


@pytest.mark.parametrize("mode", [COPY, MERGE])
def test_structs_are_assigned_by_names(spark, lake, sql, name, mode):
    lake.create_table(
        name.removeprefix("lake."),
        "id BIGINT, s STRUCT<x: INT, y: INT>, several ARRAY<STRUCT<x: INT, y: INT>>",
        properties=modes(mode),
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, named_struct('x', 1, 'y', 2), NULL)")
    turned = "named_struct('y', {}, 'x', {})"
    spark.sql(f"UPDATE {name} SET s = {turned.format(20, 10)}, several = array({turned.format(40, 30)})")
    assert sql(f"SELECT s.x, s.y, several[0].x, several[0].y FROM {name}") == [(10, 20, 30, 40)]
    source = (
        f"(SELECT explode(array(1L, 2L)) AS id, {turned.format(6, 5)} AS s, array({turned.format(8, 7)}) AS several)"
    )
    spark.sql(
        f"MERGE INTO {name} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = s.s "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    found = sql(f"SELECT id, s.x, s.y, several[0].x, several[0].y FROM {name} ORDER BY id")
    assert found == [(1, 5, 6, 30, 40), (2, 5, 6, 7, 8)]
