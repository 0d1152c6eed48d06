"""Compaction: the same rows in fewer, better files, whatever happens beside it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import urlparse

import pytest

from frazil.errors import CommitConflict, InvalidArgument, Unsupported
from frazil.spark.upkeep import rewrite_data_files as module
from frazil.spark.upkeep.rewrite_data_files import Compaction

RESULT = (
    *("rewritten_data_files_count", "added_data_files_count", "rewritten_bytes_count", "failed_data_files_count"),
    "removed_delete_files_count",
)


@pytest.fixture
def made(spark, sql, lake, name):
    """A table of many small files, some of whose rows are deleted."""

    def make(version=3, by="", properties="", inserts=4):
        mode = "merge-on-read" if version > 1 else "copy-on-write"
        sql(
            f"CREATE TABLE {name} (id BIGINT, a STRING, b DOUBLE) USING iceberg {by} TBLPROPERTIES ("
            f"'format-version' = '{version}', 'write.delete.mode' = '{mode}' {properties})"
        )
        for k in range(inserts):
            rows = f"SELECT id * {inserts} + {k} AS id, string(id % 5) AS a, id * 1.5D AS b FROM range(0, 20, 1, 1)"
            sql(f"INSERT INTO {name} {rows}")
        if version > 1:  # else the files would be rewritten
            sql(f"DELETE FROM {name} WHERE id % 7 = 1")
        return lake.table(name.removeprefix("lake."))

    return make


@pytest.fixture
def rows(spark, name):
    def read():
        columns = [*spark.table(name).columns]
        if "_row_id" in {row[0] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}:
            columns += ["_row_id", "_last_updated_sequence_number"]
        return sorted(map(tuple, spark.table(name).select(*columns).collect()))

    return read


def call(spark, name, arguments=""):
    more = f", {arguments}" if arguments else ""
    found = spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name.removeprefix('lake.')}'{more})")
    assert tuple(found.columns) == RESULT
    return found.collect()[0].asDict()


def disk(table):
    return set(Path(urlparse(table.location).path).rglob("*.parquet"))


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (bucket(2, id))"])
def test_the_same_rows_in_fewer_files(spark, sql, made, rows, name, version, by):
    table = made(version, by)
    before, at = rows(), table.current_snapshot.snapshot_id
    result = call(spark, name, "options => map('min-input-files', '2')")
    assert result["added_data_files_count"] == (2 if by else 1)
    assert result["rewritten_data_files_count"] >= 2
    assert result["failed_data_files_count"] == 0
    assert rows() == before
    assert len(sql(f"SELECT * FROM {name} VERSION AS OF {at}")) == len(before)
    table.refresh()
    assert table.current_snapshot.operation == "replace"
    assert sql(f"SELECT count(*) FROM {name}.delete_files") == [(0,)]
    again = call(spark, name, "options => map('min-input-files', '2')")
    assert set(again.values()) == {0}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("asked", [True, False])
def test_deletes_that_apply_to_nothing_go_if_asked(spark, sql, made, rows, name, version, asked):
    """Those that name a file which goes, go with it; those of a partition, and keys, must be looked for."""
    table = made(version, "PARTITIONED BY (bucket(2, id))", ", 'write.delete.granularity' = 'partition'")
    table.upsert([{"id": 3, "a": "x", "b": 0.0}], keys=["id"])
    before = rows()
    options = f"options => map('rewrite-all', 'true', 'remove-dangling-deletes', '{asked}')"
    removed = call(spark, name, options)["removed_delete_files_count"]
    left = len(table.refresh().scan().plan().delete_files)
    assert (left == 0) == asked
    assert removed + left >= 3
    assert rows() == before


def test_sorted_by_an_order(spark, sql, made, rows, name):
    made()
    before = rows()
    call(
        spark,
        name,
        "strategy => 'sort', sort_order => 'a DESC NULLS LAST, id ASC', options => map('rewrite-all', 'true')",
    )
    assert rows() == before
    ids = [(row[0], row[1]) for row in sql(f"SELECT a, id FROM {name} ORDER BY _file, _pos")]
    assert ids == sorted(ids, key=lambda pair: (-int(pair[0]), pair[1]))


def test_sorted_by_the_tables_order(spark, sql, made, rows, name):
    made()
    with pytest.raises(InvalidArgument, match="no sort order"):
        call(spark, name, "strategy => 'sort'")
    sql(f"ALTER TABLE {name} WRITE ORDERED BY b DESC")
    before = rows()
    call(spark, name, "strategy => 'sort', options => map('rewrite-all', 'true')")
    assert rows() == before
    assert sql(f"SELECT DISTINCT sort_order_id FROM {name}.files") == [(1,)]
    found = [row[0] for row in sql(f"SELECT b FROM {name} ORDER BY _file, _pos")]
    assert found == sorted(found, reverse=True)


def test_by_a_curve_through_columns(spark, sql, made, rows, name):
    made()
    before = rows()
    arguments = "sort_order => 'zorder(B, Id)', options => map('rewrite-all', 'true', 'var-length-contribution', '4')"
    result = call(spark, name, arguments)
    assert result["added_data_files_count"] == 1
    assert rows() == before
    keys = [bytes(row[0]) for row in sql(f"SELECT lake.system.zorder(8, 100, b, id) FROM {name} ORDER BY _file, _pos")]
    assert keys == sorted(keys)
    assert len(set(keys)) > 50


def test_only_what_a_filter_chooses(spark, sql, made, rows, name):
    made(by="PARTITIONED BY (a)")
    before = rows()
    files = {row[0] for row in sql(f"SELECT file_path FROM {name}.files WHERE partition.a <> '3'")}
    call(spark, name, "where => \"a = '3'\", options => map('rewrite-all', 'true')")
    assert rows() == before
    assert {row[0] for row in sql(f"SELECT file_path FROM {name}.files WHERE partition.a <> '3'")} == files
    assert sql(f"SELECT count(*) FROM {name}.data_files WHERE partition.a = '3'") == [(1,)]


def test_files_of_an_old_spec_move_to_the_new_one(spark, sql, made, rows, name):
    made()
    sql(f"ALTER TABLE {name} ADD PARTITION FIELD a")
    before = rows()
    call(spark, name, "options => map('min-input-files', '2')")
    assert rows() == before
    assert sql(f"SELECT DISTINCT spec_id FROM {name}.files") == [(1,)]
    assert len(sql(f"SELECT * FROM {name}.partitions")) == 5


def test_partial_progress_commits_groups_by_themselves(spark, sql, made, rows, name, monkeypatch):
    table = made(by="PARTITIONED BY (a)")
    before, snapshots = rows(), len(table.snapshots)
    write = module.write_files

    def failing(bridge, job, frame, transforms):
        groups.append(job)
        if len(groups) == 3:
            raise InvalidArgument("no room", hint="none")
        return write(bridge, job, frame, transforms)

    groups = []
    monkeypatch.setattr(module, "write_files", failing)
    options = {
        "rewrite-all": "true",
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": "5",
        "max-concurrent-file-group-rewrites": "1",
    }
    result = table.rewrite_data_files(options=options, spark=spark)
    assert rows() == before
    assert (result.added_data_files_count, result.failed_data_files_count > 0) == (4, True)
    assert len(table.refresh().snapshots) == snapshots + 4


def test_a_failure_leaves_the_table_and_no_files(spark, made, rows, name, monkeypatch):
    table = made(by="PARTITIONED BY (a)")
    before, files, at = rows(), disk(table), table.current_snapshot
    write = module.write_files
    calls = []

    def failing(*given):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return write(*given)

    monkeypatch.setattr(module, "write_files", failing)
    with pytest.raises(KeyboardInterrupt):
        table.rewrite_data_files(options={"rewrite-all": "true"}, spark=spark)
    assert table.refresh().current_snapshot == at
    assert (rows(), disk(table)) == (before, files)


@pytest.mark.parametrize("partial", ["true", "false"])
def test_ctrl_c_ends_all_of_it_and_leaves_no_files(spark, made, rows, name, monkeypatch, partial):
    """Groups that are done wait for the commit; and one that fails because of it is not only one that failed."""
    table = made(by="PARTITIONED BY (a)")
    before, files, at = rows(), disk(table), table.current_snapshot
    write, calls = module.write_files, []

    def interrupted(*given):
        calls.append(1)
        if len(calls) == 2:
            monkeypatch.setattr(module, "interruptions", lambda: 1)
            raise RuntimeError("the job was cancelled")
        return write(*given)

    monkeypatch.setattr(module, "interruptions", lambda: 0)
    monkeypatch.setattr(module, "write_files", interrupted)
    options = {"rewrite-all": "true", "partial-progress.enabled": partial, "partial-progress.max-commits": "1"}
    options["max-concurrent-file-group-rewrites"] = "1"
    with pytest.raises(RuntimeError, match="cancelled"):
        table.rewrite_data_files(options=options, spark=spark)
    assert len(calls) >= 2
    assert table.refresh().current_snapshot == at
    assert (rows(), disk(table)) == (before, files)


def test_groups_that_wait_are_taken_back_when_the_waiting_ends(spark, made, rows, name, monkeypatch):
    table = made(by="PARTITIONED BY (a)")
    before, files = rows(), disk(table)
    add, seen = module._Batches.add, []

    def pressed(self, one):
        seen.append(add(self, one))
        if len(seen) == 2:
            raise KeyboardInterrupt
        return seen[-1]

    monkeypatch.setattr(module._Batches, "add", pressed)
    with pytest.raises(KeyboardInterrupt):
        table.rewrite_data_files(options={"rewrite-all": "true"}, spark=spark)
    assert (rows(), disk(table)) == (before, files)


def concurrently(monkeypatch, statement):
    """Let something happen after the files were written, before they are committed."""
    commit = Compaction.commit

    def after(self, done):
        monkeypatch.setattr(Compaction, "commit", commit)
        statement()
        return commit(self, done)

    monkeypatch.setattr(Compaction, "commit", after)


@pytest.mark.parametrize("version", [2, 3])
def test_rows_deleted_meanwhile_do_not_come_back(spark, sql, made, rows, name, monkeypatch, version):
    table = made(version)
    concurrently(monkeypatch, lambda: sql(f"DELETE FROM {name} WHERE id = 5"))
    with pytest.raises(CommitConflict):
        table.rewrite_data_files(options={"rewrite-all": "true"}, spark=spark)
    files = {row[0] for row in sql(f"SELECT file_path FROM {name}.all_files")}
    assert {str(path) for path in disk(table)} <= {urlparse(path).path for path in files}
    assert not [row for row in rows() if row[0] == 5]


def test_rows_upserted_meanwhile_are_replaced(spark, sql, made, rows, name, monkeypatch):
    """Incident 12: an equality delete that came during the rewrite finds the rows in their new files."""
    table = made()
    fresh = table.metadata
    assert fresh is not None
    other = lambda: sql("SELECT 1") and _other(table).upsert([{"id": 5, "a": "new", "b": 0.0}], ["id"])  # noqa: E731
    concurrently(monkeypatch, other)
    table.rewrite_data_files(options={"rewrite-all": "true"}, spark=spark)
    assert [row[:3] for row in rows() if row[0] == 5] == [(5, "new", 0.0)]


def _other(table):
    """The same table, as another writer has it."""
    from frazil.iceberg.table import IcebergTable

    return IcebergTable(table.identifier, table.store, table._committer, table._committer.load())


def test_rows_appended_meanwhile_stay(spark, sql, made, rows, name, monkeypatch):
    table = made()
    before = rows()
    concurrently(monkeypatch, lambda: sql(f"INSERT INTO {name} VALUES (1000, 'late', 1.0)"))
    table.rewrite_data_files(options={"rewrite-all": "true"}, spark=spark)
    assert [row for row in rows() if row[0] != 1000] == before
    assert len(rows()) == len(before) + 1


def test_bad_input(spark, made, name):
    made(inserts=1)
    for arguments, told in (
        ("options => map('nope', '1')", "unknown option 'nope'"),
        ("strategy => 'magic'", "magic"),
        ("sort_order => 'zorder(nope)'", "nope"),
        ("sort_order => 'nope DESC'", "nope"),
        ("strategy => 'binpack', sort_order => 'id'", "binpack takes no sort_order"),
        ("where => 'nope = 1'", "nope"),
        ("branch => 'nope'", "nope"),
    ):
        with pytest.raises(Exception, match=told):
            call(spark, name, arguments)


@pytest.mark.parametrize(
    "where",
    [
        'id = 1 AND s = "foo"',
        "ID = 1",
        "id = 1L",
        "day = current_date() - 1",
        "s LIKE 'fo%' AND id <=> 1",
        "t.id IN (1)",
    ],
)
def test_a_filter_is_sparks_sql(spark, lake, name, where):
    lake.create_table(name.removeprefix("lake."), "id BIGINT, s STRING, day DATE", partition_by=["id"])
    for number in (1, 2):
        spark.sql(f"INSERT INTO {name} VALUES ({number}, 'foo', current_date() - {number})")
    text = where.replace("'", "\\'")
    done = call(spark, name, f"where => '{text}', options => map('rewrite-all', 'true')")
    assert done["rewritten_data_files_count"] == 1


def test_a_filter_that_files_cannot_be_chosen_by_is_refused(spark, lake, name):
    lake.create_table(name.removeprefix("lake."), "id BIGINT")
    with pytest.raises(Unsupported, match="Remainder"):
        call(spark, name, "where => 'id % 2 = 1'")


def test_names_with_commas_and_backquotes_are_in_orders(spark, lake, name):
    spark.sql(f"CREATE TABLE {name} (`a,b` INT, `o``x` INT)")
    spark.sql(f"INSERT INTO {name} VALUES (2, 1), (1, 2)")
    for order in ("zorder(`a,b`, `o``x`)", "`a,b`, `o``x` DESC"):
        done = call(spark, name, f"sort_order => '{order}', options => map('rewrite-all', 'true')")
        assert done["added_data_files_count"] == 1
    assert [tuple(row) for row in spark.table(name).collect()] == [(1, 2), (2, 1)]
    with pytest.raises(InvalidArgument, match="zorder"):
        call(spark, name, "sort_order => 'zorder()'")


@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
def test_the_calendar_of_a_session_does_not_move_old_days(spark, lake, name, mode):
    table = lake.create_table(name.removeprefix("lake."), "id BIGINT, d DATE, ts TIMESTAMPTZ")
    old = datetime(1, 1, 1, tzinfo=UTC)
    table.append([{"id": 1, "d": old.date(), "ts": old}, {"id": 2, "d": date(1582, 10, 10), "ts": old}])
    settings = [
        f"spark.sql.parquet.{kind}RebaseModeIn{way}" for kind in ("datetime", "int96") for way in ("Read", "Write")
    ]
    before = {key: spark.conf.get(key) for key in settings}
    for key in settings:
        spark.conf.set(key, mode)
    try:
        call(spark, name, "options => map('rewrite-all', 'true')")
        spark.sql(f"UPDATE {name} SET id = id + 10 WHERE id = 1")
        assert spark.sql(f"SELECT id FROM {name} WHERE d = DATE'0001-01-01'").collect()[0].id == 11
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    found = sorted(table.refresh().scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["d"], row["ts"]) for row in found] == [(2, date(1582, 10, 10), old), (11, old.date(), old)]


def test_a_name_with_a_dot_is_written_by_workers_too(spark, lake, name):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, `a.b` STRING, l ARRAY<INT>)")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'x', array(1))")
    spark.sql(f"UPDATE {name} SET `a.b` = 'y'")
    call(spark, name, "options => map('rewrite-all', 'true')")
    assert [tuple(row) for row in spark.table(name).collect()] == [(1, "y", [1])]
