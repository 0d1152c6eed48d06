"""CALL lake.system.<procedure>: Iceberg's names, arguments, defaults and results."""

from __future__ import annotations

import os
import time
from pathlib import Path
from urllib.parse import urlparse

import pytest

from frazil.errors import InvalidArgument, NotFound, RefNotFound, SnapshotNotFound, TableNotFound

OLD = 1_600_000_000


@pytest.fixture
def short(name):
    return name.removeprefix("lake.")


@pytest.fixture
def table(sql, name, lake, short):
    """A table with snapshots of the rows 1; 1 and 2; 1, 2 and 3."""
    sql(f"CREATE TABLE {name} (id INT)")
    for number in (1, 2, 3):
        sql(f"INSERT INTO {name} VALUES ({number})")
    return lake.table(short)


def snapshots(lake, short):
    return [snapshot.snapshot_id for snapshot in lake.table(short).snapshots]


def plant(table, name, seconds=OLD):
    """A file nobody knows of, as old as that; its location."""
    path = Path(urlparse(table.location).path) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("stray")
    os.utime(path, (seconds, seconds))
    return str(path)


def make_old(table):
    """All files of a table were written long ago."""
    for path in Path(urlparse(table.location).path).rglob("*"):
        os.utime(path, (OLD, OLD))


# How they are called.


def test_they_are_listed_in_system(spark, sql):
    if spark.version < "4.1":
        pytest.skip("this Spark has no SHOW PROCEDURES")
    names = {row[-1] for row in sql("SHOW PROCEDURES IN lake.system")}
    assert names == {
        *("rollback_to_snapshot", "rollback_to_timestamp", "set_current_snapshot", "cherrypick_snapshot"),
        *("publish_changes", "fast_forward", "ancestors_of", "register_table", "convert"),
        *("expire_snapshots", "remove_orphan_files", "rewrite_manifests", "rewrite_data_files"),
        *("rewrite_position_delete_files", "convert_equality_deletes", "optimize", "evaluate"),
    }


def test_the_table_is_named_with_or_without_catalog_and_namespace(spark, sql, name, short, table):
    newest = table.current_snapshot.snapshot_id
    alone = short.rpartition(".")[2]
    spark.sql("USE lake.db")
    try:
        for spelling in (name, short, alone, f"`db`.`{alone}`"):
            assert sql(f"CALL lake.system.ancestors_of('{spelling}')")[0][0] == newest
    finally:
        spark.sql("USE spark_catalog.default")
    with pytest.raises(TableNotFound):
        sql("CALL lake.system.ancestors_of('db.nothing')")
    with pytest.raises(InvalidArgument):
        sql("CALL lake.system.ancestors_of('')")


def test_what_must_be_given_is_asked_for_by_name(sql, short, table):
    with pytest.raises(InvalidArgument, match="needs its argument snapshot_id"):
        sql(f"CALL lake.system.rollback_to_snapshot('{short}', NULL)")
    with pytest.raises(InvalidArgument, match="needs its argument table"):
        sql("CALL lake.system.expire_snapshots(table => NULL)")
    with pytest.raises(NotFound, match="no procedure"):
        sql(f"CALL lake.system.rewrite_everything('{short}')")


# History.


def test_rollbacks_tell_where_the_table_was_and_is(spark, sql, name, short, lake, table):
    first, second, third = snapshots(lake, short)
    assert sql(f"CALL lake.system.rollback_to_snapshot('{short}', {second})") == [(third, second)]
    assert sql(f"SELECT max(id) FROM {name}") == [(2,)]
    moment = table.snapshot(second).timestamp_ms
    frame = spark.sql(f"CALL lake.system.rollback_to_timestamp('{short}', timestamp_millis({moment}))")
    assert frame.columns == ["previous_snapshot_id", "current_snapshot_id"]
    assert [tuple(row) for row in frame.collect()] == [(second, first)]
    with pytest.raises(InvalidArgument, match="not an ancestor"):
        sql(f"CALL lake.system.rollback_to_snapshot('{short}', {third})")
    with pytest.raises(SnapshotNotFound):
        sql(f"CALL lake.system.rollback_to_timestamp('{short}', TIMESTAMP '2001-01-01 00:00:00')")


def test_the_current_snapshot_is_set_by_id_or_by_ref(sql, name, short, lake, table):
    first, second, third = snapshots(lake, short)
    table.manage_refs().create_tag("old", first).commit()
    call = f"CALL lake.system.set_current_snapshot(table => '{short}'"
    assert sql(f"{call}, ref => 'old')") == [(third, first)]
    assert sql(f"{call}, snapshot_id => {second})") == [(first, second)]
    assert sql(f"SELECT count(*) FROM {name}") == [(2,)]
    for arguments in ("", f", snapshot_id => {first}, ref => 'old'"):
        with pytest.raises(InvalidArgument, match="either snapshot_id or ref"):
            sql(f"{call}{arguments})")
    with pytest.raises(RefNotFound):
        sql(f"{call}, ref => 'young')")


def test_a_snapshot_is_cherry_picked(sql, name, short, lake, table):
    first, second, third = snapshots(lake, short)
    sql(f"CALL lake.system.rollback_to_snapshot('{short}', {first})")
    (row,) = sql(f"CALL lake.system.cherrypick_snapshot('{short}', {third})")
    assert row == (third, lake.table(short).current_snapshot.snapshot_id)
    assert row[1] not in (first, second, third)
    assert sorted(sql(f"SELECT * FROM {name}")) == [(1,), (3,)]


def test_staged_changes_are_published_by_their_wap_id(spark, sql, name, short, lake, table):
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    for wap_id, values in (("one", (10,)), ("two", (20, 21))):
        for value in values:
            spark.conf.set("spark.wap.id", wap_id)
            try:
                sql(f"INSERT INTO {name} VALUES ({value})")
            finally:
                spark.conf.unset("spark.wap.id")
    staged = next(one for one in lake.table(short).snapshots if one.summary.get("wap.id") == "one").snapshot_id
    assert sql(f"SELECT count(*) FROM {name}") == [(3,)]
    frame = spark.sql(f"CALL lake.system.publish_changes(wap_id => 'one', table => '{short}')")
    assert frame.columns == ["source_snapshot_id", "current_snapshot_id"]
    assert [tuple(row) for row in frame.collect()] == [(staged, lake.table(short).current_snapshot.snapshot_id)]
    assert sorted(sql(f"SELECT * FROM {name}")) == [(1,), (2,), (3,), (10,)]
    with pytest.raises(InvalidArgument, match="2 snapshots are staged as 'two'"):
        sql(f"CALL lake.system.publish_changes('{short}', 'two')")
    with pytest.raises(SnapshotNotFound, match="'three'"):
        lake.table(short).publish_changes("three")
    with pytest.raises(InvalidArgument, match="cannot be cherry-picked"):
        lake.table(short).publish_changes("one")


def test_branches_are_fast_forwarded_and_created(sql, short, lake, table):
    first, _, third = snapshots(lake, short)
    table.manage_refs().create_branch("side", first).commit()
    call = "CALL lake.system.fast_forward"
    assert sql(f"{call}('{short}', 'side', 'main')") == [("side", first, third)]
    assert sql(f"{call}('{short}', 'new', 'main')") == [("new", None, third)]
    with pytest.raises(RefNotFound):
        sql(f"{call}('{short}', 'side', 'nowhere')")
    table.refresh().append([{"id": 9}], branch="side")
    table.append([{"id": 8}])
    with pytest.raises(InvalidArgument, match="cannot be fast-forwarded"):
        sql(f"{call}('{short}', 'side', 'main')")


def test_ancestors_come_newest_first(spark, sql, name, short, lake, table):
    first, second, third = snapshots(lake, short)
    frame = spark.sql(f"CALL lake.system.ancestors_of('{short}')")
    assert frame.columns == ["snapshot_id", "timestamp"]
    rows = [tuple(row) for row in frame.collect()]
    assert rows == [(number, table.snapshot(number).timestamp_ms) for number in (third, second, first)]
    assert sql(f"CALL lake.system.ancestors_of(snapshot_id => {second}, table => '{short}')") == rows[1:]
    with pytest.raises(SnapshotNotFound):
        sql(f"CALL lake.system.ancestors_of('{short}', 12345)")
    sql(f"CREATE TABLE {name}_empty (id INT)")
    assert sql(f"CALL lake.system.ancestors_of('{short}_empty')") == []


def test_a_table_is_registered(sql, name, short, table):
    metadata = table.metadata_location
    current = table.current_snapshot.snapshot_id
    assert sql(f"CALL lake.system.register_table('{name}_again', '{metadata}')") == [(current, 3, 3)]
    assert sorted(sql(f"SELECT * FROM {name}_again")) == [(1,), (2,), (3,)]
    with pytest.raises(InvalidArgument, match="metadata_file is empty"):
        sql(f"CALL lake.system.register_table('{short}_more', '')")


# Upkeep.

EXPIRED = [
    "deleted_data_files_count",
    "deleted_position_delete_files_count",
    "deleted_equality_delete_files_count",
    "deleted_manifest_files_count",
    "deleted_manifest_lists_count",
    "deleted_statistics_files_count",
]


def test_snapshots_expire_by_age_and_number(spark, sql, name, short, lake, table):
    sql(f"INSERT OVERWRITE {name} VALUES (4)")
    later = f"timestamp_millis({int(time.time() * 1000) + 60_000})"
    frame = spark.sql(f"CALL lake.system.expire_snapshots('{short}', {later}, 2, dry_run => true)")
    assert frame.columns == EXPIRED
    planned = [tuple(row) for row in frame.collect()]
    assert len(snapshots(lake, short)) == 4
    # the files of the first two are in the third too
    assert sql(f"CALL lake.system.expire_snapshots('{short}', {later}, 2)") == planned == [(0, 0, 0, 0, 2, 0)]
    assert len(snapshots(lake, short)) == 2
    call = f"CALL lake.system.expire_snapshots(table => '{short}', older_than => {later}, "
    ((files, *deletes, manifests, lists, statistics),) = sql(f"{call} max_concurrent_deletes => 4)")
    assert (files, deletes, lists, statistics) == (3, [0, 0], 1, 0)
    assert manifests > 0
    assert sql(f"SELECT * FROM {name}") == [(4,)]
    with pytest.raises(InvalidArgument, match="max_concurrent_deletes"):
        sql(f"{call} max_concurrent_deletes => 0)")
    with pytest.raises(InvalidArgument, match="retain"):
        sql(f"{call} retain_last => 0)")


def test_snapshots_expire_by_their_ids(sql, short, lake, table):
    first, second, third = snapshots(lake, short)
    call = f"CALL lake.system.expire_snapshots(table => '{short}', stream_results => true"
    assert sql(f"{call}, snapshot_ids => ARRAY({first}, {second}))") == [(0, 0, 0, 0, 2, 0)]
    assert snapshots(lake, short) == [third]
    with pytest.raises(InvalidArgument, match="main refers to it"):
        sql(f"{call}, snapshot_ids => ARRAY({third}))")
    assert sql(f"{call}, snapshot_ids => ARRAY())") == [(0, 0, 0, 0, 0, 0)]


def test_schemas_that_no_snapshot_uses_are_cleaned(sql, name, short, lake, table):
    sql(f"ALTER TABLE {name} ADD COLUMN more INT")
    sql(f"INSERT INTO {name} VALUES (4, 4)")
    later = f"timestamp_millis({int(time.time() * 1000) + 60_000})"
    call = f"CALL lake.system.expire_snapshots(table => '{short}', older_than => {later}"
    sql(f"{call})")
    assert len(lake.table(short).metadata.schemas) == 2
    sql(f"{call}, clean_expired_metadata => true)")
    assert len(lake.table(short).metadata.schemas) == 1


def test_orphans_are_removed(spark, sql, name, short, table):
    strays = sorted([plant(table, "data/stray.parquet"), plant(table, "metadata/stray.avro")])
    young = plant(table, "data/young.parquet", time.time())
    make_old(table)
    os.utime(young)
    frame = spark.sql(f"CALL lake.system.remove_orphan_files(table => '{short}', dry_run => true)")
    assert frame.columns == ["orphan_file_location"]
    assert sorted(row[0] for row in frame.collect()) == strays
    assert all(Path(stray).exists() for stray in strays)
    data = f"{table.location}/data"
    call = f"CALL lake.system.remove_orphan_files(table => '{short}'"
    assert sql(f"{call}, location => '{data}', max_concurrent_deletes => 2)") == [(strays[0],)]
    days = int(time.time() * 1000) - 2 * 24 * 3_600_000
    assert sql(
        f"{call}, older_than => timestamp_millis({days}), equal_schemes => map('a,b', 'c'), equal_authorities => "
        f"map('x', 'y'), prefix_mismatch_mode => 'IGNORE', prefix_listing => true, stream_results => true)"
    ) == [(strays[1],)]
    assert Path(young).exists()
    assert sorted(sql(f"SELECT * FROM {name}")) == [(1,), (2,), (3,)]
    for arguments in (
        "older_than => now()",
        "location => '/tmp'",
        "prefix_mismatch_mode => 'PERHAPS'",
        "max_concurrent_deletes => 0",
        "equal_schemes => map('a', NULL)",
    ):
        with pytest.raises(InvalidArgument):
            sql(f"{call}, {arguments})")


def test_orphans_are_looked_for_in_a_view(spark, sql, short, table):
    listed, unlisted = plant(table, "data/listed"), plant(table, "data/unlisted")
    files = [task.file.file_path for task in table.scan().plan().tasks()]
    spark.sql(f"SELECT explode(array('{listed}', '{files[0]}')) AS file_path").selectExpr(
        "file_path", "TIMESTAMP '2020-01-01 00:00:00' AS last_modified"
    ).createOrReplaceTempView("listed_files")
    call = f"CALL lake.system.remove_orphan_files(table => '{short}', file_list_view => 'listed_files')"
    assert sql(call) == [(listed,)]
    assert Path(unlisted).exists()
    assert Path(files[0]).exists()


def test_manifests_are_rewritten_once(spark, sql, name, short, lake, table):
    frame = spark.sql(f"CALL lake.system.rewrite_manifests('{short}')")
    assert frame.columns == ["rewritten_manifests_count", "added_manifests_count"]
    assert [tuple(row) for row in frame.collect()] == [(3, 1)]
    number = len(snapshots(lake, short))
    assert sql(f"CALL lake.system.rewrite_manifests(table => '{short}', use_caching => true)") == [(0, 0)]
    assert len(snapshots(lake, short)) == number
    assert sorted(sql(f"SELECT * FROM {name}")) == [(1,), (2,), (3,)]


def test_manifests_of_the_current_spec_are_rewritten_unless_told(sql, name, short, table):
    sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(4, id)")
    for number in (4, 5):
        sql(f"INSERT INTO {name} VALUES ({number})")
    call = f"CALL lake.system.rewrite_manifests(table => '{short}'"
    assert sql(f"{call}, sort_by => ARRAY('id_bucket_4'))") == [(2, 1)]
    assert sql(f"{call}, spec_id => 0)") == [(3, 1)]
    assert sorted(sql(f"SELECT * FROM {name}")) == [(number,) for number in range(1, 6)]
    for arguments in ("sort_by => ARRAY('id')", "sort_by => ARRAY()"):
        with pytest.raises(InvalidArgument):
            sql(f"{call}, {arguments})")
    with pytest.raises(NotFound, match="no partition spec with id 7"):
        sql(f"{call}, spec_id => 7)")
