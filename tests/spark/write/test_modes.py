"""Every way to write rows from Spark, and what it leaves in the table."""

from __future__ import annotations

import pytest

from frazil.errors import CommitConflict, FrazilError, InvalidArgument
from tests.spark.write.disk import path_of


@pytest.fixture
def filled(spark, name):
    """Ten rows in the partitions p = 0, 1, 2."""
    spark.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL, p INT, s STRING) PARTITIONED BY (p)")
    _rows(spark, 10).writeTo(name).append()
    return name


def _rows(spark, count, start=0):
    return spark.range(start, start + count).selectExpr("id", "cast(id % 3 as int) AS p", "cast(id as string) AS s")


def test_overwrite_by_filter_removes_whole_partitions_by_metadata(spark, sql, filled, files):
    from pyspark.sql import functions

    kept = {file.file_path for file in files() if file.partition != (1,)}
    _rows(spark, 3, 100).writeTo(filled).overwrite(functions.expr("p = 1"))
    assert sorted(row[0] for row in sql(f"SELECT id FROM {filled}")) == [0, 2, 3, 5, 6, 8, 9, 100, 101, 102]
    assert kept < {file.file_path for file in files()}


def test_overwrite_by_filter_rewrites_files_that_match_in_part(spark, sql, filled, table):
    from pyspark.sql import functions

    _rows(spark, 1, 100).writeTo(filled).overwrite(functions.col("id") >= 5)
    assert sorted(row[0] for row in sql(f"SELECT id FROM {filled}")) == [0, 1, 2, 3, 4, 100]
    assert sorted(row["id"] for row in table().scan().to_arrow().to_pylist()) == [0, 1, 2, 3, 4, 100]
    sql(f"INSERT INTO {filled} REPLACE WHERE s = '100' SELECT * FROM VALUES (7L, 7, 'x') AS t(id, p, s)")
    assert sorted(row[0] for row in sql(f"SELECT id FROM {filled}")) == [0, 1, 2, 3, 4, 7]


def test_overwriting_everything_is_one_snapshot(spark, sql, filled, table):
    before = len(table().snapshots)
    sql(f"INSERT OVERWRITE {filled} SELECT 5L, 5, 'five'")
    assert sql(f"SELECT * FROM {filled}") == [(5, 5, "five")]
    assert len(table().snapshots) == before + 1
    _rows(spark, 4).write.mode("overwrite").saveAsTable(filled)
    assert sql(f"SELECT count(*) FROM {filled}") == [(4,)]
    _rows(spark, 2).write.insertInto(filled, overwrite=True)
    assert sql(f"SELECT count(*) FROM {filled}") == [(2,)]
    _rows(spark, 2).write.insertInto(filled)
    _rows(spark, 2).write.mode("append").saveAsTable(filled)
    assert sql(f"SELECT count(*) FROM {filled}") == [(6,)]


def test_dynamic_overwrite_replaces_the_partitions_that_rows_go_to(spark, sql, filled, table):
    _rows(spark, 1, 100).writeTo(filled).overwritePartitions()  # 100 % 3 = 1
    assert sorted(row[0] for row in sql(f"SELECT id FROM {filled}")) == [0, 2, 3, 5, 6, 8, 9, 100]
    assert table().current_snapshot.summary["replace-partitions"] == "true"
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        sql(f"INSERT OVERWRITE {filled} VALUES (200L, 2, 'x')")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sorted(row[0] for row in sql(f"SELECT id FROM {filled}")) == [0, 3, 6, 9, 100, 200]
    before = table().current_snapshot.snapshot_id
    _rows(spark, 0).writeTo(filled).overwritePartitions()
    assert table().current_snapshot.snapshot_id == before
    _rows(spark, 1, 300).write.option("overwrite-mode", "dynamic").insertInto(filled, overwrite=True)
    assert sorted(row[0] for row in sql(f"SELECT id FROM {filled}")) == [100, 200, 300]


def test_static_partition_overwrite(sql, filled):
    sql(f"INSERT OVERWRITE {filled} PARTITION (p = 1) SELECT 50L, 'x'")
    assert sorted(row[0] for row in sql(f"SELECT id FROM {filled}")) == [0, 2, 3, 5, 6, 8, 9, 50]


def test_a_table_is_overwritten_with_rows_of_itself(spark, sql, filled):
    from pyspark.sql import functions

    spark.table(filled).where("id < 4").writeTo(filled).overwrite(functions.lit(True))
    assert sorted(row[0] for row in sql(f"SELECT id FROM {filled}")) == [0, 1, 2, 3]


def test_create_and_replace_from_a_frame(spark, sql, name, table):
    from pyspark.sql import functions

    rows = _rows(spark, 10)
    rows.writeTo(name).partitionedBy(functions.partitioning.bucket(4, "id")).tableProperty("k", "v").create()
    assert table().properties["k"] == "v"
    assert str(table().spec.fields[0].transform) == "bucket[4]"
    assert len(table().snapshots) == 1
    rows.limit(3).writeTo(name).replace()
    assert table().spec.is_unpartitioned
    spark.table(name).writeTo(name).createOrReplace()
    assert sql(f"SELECT count(*) FROM {name}") == [(3,)]
    sql(f"CREATE OR REPLACE TABLE {name} PARTITIONED BY (p) AS SELECT * FROM {name} WHERE id < 2")
    assert sql(f"SELECT count(*) FROM {name}") == [(2,)]
    assert [field.name for field in table().spec.fields] == ["p"]


def test_a_failed_create_leaves_no_table_and_no_file(spark, lake, name):
    failing = spark.range(10).selectExpr("if(id = 9, cast(raise_error('broken row') as bigint), id) AS id")
    with pytest.raises(Exception, match="broken row"):
        failing.writeTo(name).create()
    short = name.removeprefix("lake.")
    assert not lake.table_exists(short)
    spark.range(1).writeTo(name).create()  # at the same place
    folder = path_of(lake.table(short).location)
    assert len(list(folder.rglob("*.parquet"))) == 1


def test_a_branch_is_written_to_and_main_stays(spark, sql, filled, table):
    sql(f"ALTER TABLE {filled} CREATE BRANCH audit")
    _rows(spark, 1, 100).writeTo(filled).option("branch", "audit").append()
    sql(f"INSERT INTO {filled}.branch_audit VALUES (101L, 1, 'x')")
    sql(f"INSERT OVERWRITE {filled}.branch_audit PARTITION (p = 0) SELECT 102L, 'y'")
    assert sql(f"SELECT count(*) FROM {filled}") == [(10,)]
    found = sql(f"SELECT id FROM {filled} VERSION AS OF 'audit'")
    assert sorted(row[0] for row in found) == [1, 2, 4, 5, 7, 8, 100, 101, 102]


def test_snapshot_properties_are_kept(spark, filled, table):
    from pyspark.sql import functions

    rows = _rows(spark, 1)
    rows.writeTo(filled).option("snapshot-property.Who", "me").append()
    assert table().current_snapshot.summary["Who"] == "me"
    assert table().current_snapshot.summary["engine-name"] == "spark"
    rows.writeTo(filled).option("snapshot-property.Who", "you").overwrite(functions.expr("id = 1"))
    assert table().current_snapshot.summary["Who"] == "you"
    rows.writeTo(filled).option("snapshot-property.Who", "they").overwritePartitions()
    assert table().current_snapshot.summary["Who"] == "they"


def test_an_audited_branch_is_read_by_the_session_that_writes_it(spark, sql, filled, table):
    sql(f"ALTER TABLE {filled} CREATE BRANCH other")
    spark.conf.set("spark.wap.branch", "audit")
    try:
        _rows(spark, 1, 50).writeTo(filled).append()
        assert sql(f"SELECT count(*) FROM {filled}") == [(11,)]  # not enabled on this table
        sql(f"ALTER TABLE {filled} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        assert sql(f"SELECT count(*) FROM {filled}") == [(11,)]  # no such branch yet
        _rows(spark, 2, 60).writeTo(filled).append()
        sql(f"INSERT OVERWRITE {filled} PARTITION (p = 0) SELECT 70L, 'x'")
        assert sorted(row[0] for row in sql(f"SELECT id FROM {filled}")) == [1, 2, 4, 5, 7, 8, 50, 61, 70]
        assert sql(f"SELECT count(*) FROM {filled} VERSION AS OF 'main'") == [(11,)]
        assert sql(f"SELECT count(*) FROM {filled}.branch_other") == [(10,)]
        assert spark.read.option("branch", "main").table(filled).count() == 11
        other = spark.newSession()
        assert other.table(filled).count() == 11
        with pytest.raises(InvalidArgument, match=r"spark\.wap\.branch is 'audit'"):
            _rows(spark, 1, 80).writeTo(f"{filled}.branch_other").append()
    finally:
        spark.conf.unset("spark.wap.branch")
    assert sql(f"SELECT count(*) FROM {filled}") == [(11,)]


def test_write_audit_publish_stages_or_branches(spark, sql, filled, table):
    spark.conf.set("spark.wap.id", "job-1")
    try:
        _rows(spark, 1, 50).writeTo(filled).append()
        assert sql(f"SELECT count(*) FROM {filled}") == [(11,)]  # not enabled on this table
        sql(f"ALTER TABLE {filled} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        current = table().current_snapshot.snapshot_id
        _rows(spark, 1, 60).writeTo(filled).append()
        assert table().current_snapshot.snapshot_id == current
        [staged] = [snapshot for snapshot in table().snapshots if snapshot.summary.get("wap.id") == "job-1"]
        spark.conf.set("spark.wap.branch", "audit")
        with pytest.raises(InvalidArgument, match="both set"):
            _rows(spark, 1, 70).writeTo(filled).append()
        spark.conf.unset("spark.wap.id")
        _rows(spark, 2, 70).writeTo(filled).append()
        assert table().current_snapshot.snapshot_id == current
        assert "audit" in table().refs
    finally:
        spark.conf.unset("spark.wap.id")
        spark.conf.unset("spark.wap.branch")
    table().cherry_pick(staged.snapshot_id).commit()
    assert sql(f"SELECT count(*) FROM {filled}") == [(12,)]


def test_merge_schema_adds_columns_in_the_same_commit(spark, sql, filled, table):
    from pyspark.errors import AnalysisException

    sql(f"ALTER TABLE {filled} SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    wider = spark.sql("SELECT 'n' AS extra, 100L AS id, 1 AS p, named_struct('a', 1) AS st")
    with pytest.raises(InvalidArgument, match="no column 'extra'"):
        wider.writeTo(filled).append()
    with pytest.raises(InvalidArgument, match="'id' is out of order"):
        wider.writeTo(filled).option("mergeSchema", "true").append()
    before = len(table().snapshots)
    wider.writeTo(filled).options(**{"mergeSchema": "true", "check-ordering": "false"}).append()
    assert list(table().schema.columns) == ["id", "p", "s", "extra", "st"]
    assert len(table().snapshots) == before + 1
    assert sql(f"SELECT id, p, s, extra, st.a FROM {filled} WHERE extra IS NOT NULL") == [(100, 1, None, "n", 1)]
    assert sql(f"SELECT count(*) FROM {filled} WHERE extra IS NULL") == [(10,)]
    with pytest.raises(AnalysisException, match="id"):
        spark.sql("SELECT 'text' AS id").writeTo(filled).append()
    with pytest.raises(AnalysisException, match="id"):
        spark.sql("SELECT 1 AS p").writeTo(filled).append()
    assert sql(f"SELECT count(*) FROM {filled}") == [(11,)]


def test_nullability_is_checked_by_schema_or_by_rows(spark, sql, filled, on_disk):
    from pyspark.errors import AnalysisException

    sql(f"ALTER TABLE {filled} SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    before = on_disk()
    perhaps = "SELECT if(id > {}, null, id) AS id FROM range(50, 52)"
    with pytest.raises(AnalysisException, match="id"):
        spark.sql(perhaps.format(99)).writeTo(filled).append()
    with pytest.raises(Exception, match="NOT_NULL_ASSERT_VIOLATION"):
        spark.sql(perhaps.format(50)).writeTo(filled).option("check-nullability", "false").append()
    assert on_disk() == before
    spark.sql(perhaps.format(99)).writeTo(filled).option("check-nullability", "false").append()
    assert sql(f"SELECT count(*) FROM {filled} WHERE p IS NULL") == [(2,)]


def test_null_in_a_required_column_is_refused_and_leaves_nothing(spark, sql, filled, table, on_disk):
    before, snapshots = on_disk(), len(table().snapshots)
    for option in ("native", "arrow"):
        rows = spark.range(0, 100, 1, 2).selectExpr("if(id = 70, null, id) AS id", "1 AS p", "'x' AS s")
        with pytest.raises(Exception, match=r"\bid\b") as caught:
            rows.writeTo(filled).option("frazil.write", option).append()
        assert "NULL" in str(caught.value).upper()
    with pytest.raises(Exception, match=r"\bid\b"):
        sql(f"INSERT INTO {filled} VALUES (null, 1, 'x')")
    assert on_disk() == before
    assert len(table().snapshots) == snapshots


def test_wrong_columns_and_types_are_sparks_own_errors(spark, filled, on_disk):
    from pyspark.errors import AnalysisException

    before = on_disk()
    with pytest.raises(AnalysisException, match="nope"):
        spark.sql("SELECT 1L AS id, 1 AS p, 'x' AS s, 2 AS nope").writeTo(filled).append()
    with pytest.raises(AnalysisException, match="`p`"):
        spark.sql("SELECT 1L AS id, array(1) AS p, 'x' AS s").writeTo(filled).append()
    with pytest.raises(FrazilError, match="distribution-mode"):
        _rows(spark, 1).writeTo(filled).option("distribution-mode", "sideways").append()
    assert on_disk() == before


@pytest.mark.parametrize("writer", ["native", "arrow"])
def test_a_failing_task_leaves_the_table_and_its_folder_as_they_were(spark, sql, filled, table, on_disk, writer):
    before, snapshot = on_disk(), table().current_snapshot
    rows = spark.range(0, 40_000, 1, 4).selectExpr(
        "if(id = 39999, cast(raise_error('broken row') as bigint), id) AS id", "cast(id % 3 as int) AS p", "'x' AS s"
    )
    with pytest.raises(Exception, match="broken row"):
        rows.writeTo(filled).option("frazil.write", writer).option("distribution-mode", "none").append()
    assert on_disk() == before
    assert table().current_snapshot == snapshot
    assert not [path for path in (path_of(table().location) / "data").iterdir() if not any(path.rglob("*.parquet"))]
    assert sql(f"SELECT count(*) FROM {filled}") == [(10,)]


def test_a_refused_commit_removes_the_files(spark, sql, filled, table, on_disk, monkeypatch):
    from frazil.iceberg.actions.append import MergeAppend

    def refuse(self, context, parent):
        raise CommitConflict("no", hint="none")

    before = on_disk()
    monkeypatch.setattr(MergeAppend, "validate", refuse)
    with pytest.raises(CommitConflict):
        _rows(spark, 5).writeTo(filled).append()
    assert on_disk() == before


def test_an_unknown_outcome_keeps_the_files(spark, filled, on_disk, monkeypatch):
    from frazil.errors import CommitStateUnknown
    from frazil.iceberg.transaction import Transaction

    def lost(self):
        raise CommitStateUnknown("the answer was lost", hint="look")

    before = on_disk()
    monkeypatch.setattr(Transaction, "_swap", lost)
    with pytest.raises(CommitStateUnknown):
        _rows(spark, 5).writeTo(filled).append()
    assert len(on_disk()) > len(before)


def test_isolation_is_checked_when_asked(spark, sql, filled, table):
    start = table().current_snapshot.snapshot_id
    _rows(spark, 1, 50).writeTo(filled).append()  # p = 2
    strict = {"isolation-level": "serializable", "validate-from-snapshot-id": str(start)}
    with pytest.raises(CommitConflict):
        _rows(spark, 3, 90).writeTo(filled).options(**strict).overwritePartitions()
    _rows(spark, 3, 90).writeTo(filled).overwritePartitions()
    assert sorted(row[0] for row in sql(f"SELECT id FROM {filled}")) == [90, 91, 92]


@pytest.mark.parametrize("isolation", [None, "serializable"])
def test_rows_that_come_meanwhile_are_overwritten_unless_isolation_is_asked_for(
    spark, sql, filled, lake, on_disk, monkeypatch, isolation
):
    import pyarrow as pa
    from pyspark.sql import functions

    from frazil.spark.write import insert

    other = pa.table({"id": [77], "p": pa.array([1], pa.int32()), "s": ["x"]})
    written = insert.write_files

    def and_another(*arguments):
        files = written(*arguments)
        lake.table(filled.removeprefix("lake.")).append(other)
        return files

    monkeypatch.setattr(insert, "write_files", and_another)
    before = on_disk()
    writer = _rows(spark, 1, 100).writeTo(filled)
    if isolation is None:
        writer.overwrite(functions.expr("p = 1"))
        assert sorted(row[0] for row in sql(f"SELECT id FROM {filled}")) == [0, 2, 3, 5, 6, 8, 9, 100]
        return
    with pytest.raises(CommitConflict):
        writer.option("isolation-level", isolation).overwrite(functions.expr("p = 1"))
    assert len(on_disk()) == len(before) + 1  # the other's
    assert sql(f"SELECT count(*) FROM {filled}") == [(11,)]


def test_two_writers_at_once_both_get_in(spark, sql, filled):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda n: _rows(spark, 5, n).writeTo(filled).append(), [100, 200]))
    assert sql(f"SELECT count(*) FROM {filled}") == [(20,)]
