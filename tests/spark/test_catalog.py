"""Names: namespaces, tables, versions of tables; through plain `spark.sql` and `spark.catalog`."""

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

import frazil
from frazil.errors import InvalidArgument, RefNotFound, SnapshotNotFound, Unsupported
from frazil.spark.formats import format_named


def test_a_namespace_is_made_described_altered_and_dropped(sql, lake):
    sql("CREATE NAMESPACE lake.ns COMMENT 'of a test' WITH DBPROPERTIES ('k' = 'v')")
    assert ("ns",) in sql("SHOW NAMESPACES IN lake")
    assert ("ns",) in sql("SHOW SCHEMAS IN lake LIKE 'n*'")
    told = dict(sql("DESCRIBE NAMESPACE EXTENDED lake.ns"))
    assert told["Comment"] == "of a test"
    assert "(k,v)" in told["Properties"]
    sql("ALTER NAMESPACE lake.ns SET PROPERTIES ('k' = 'w', 'x' = 'y')")
    properties = lake.namespace_properties("ns")
    assert (properties["k"], properties["x"]) == ("w", "y")
    sql("CREATE NAMESPACE IF NOT EXISTS lake.ns")
    sql("DROP NAMESPACE lake.ns")
    assert not lake.namespace_exists("ns")
    sql("DROP NAMESPACE IF EXISTS lake.ns")


def test_namespaces_nest(sql):
    sql("CREATE NAMESPACE lake.outer_")
    sql("CREATE NAMESPACE lake.outer_.inner_")
    sql("CREATE TABLE lake.outer_.inner_.t (id INT)")
    assert sql("SHOW NAMESPACES IN lake.outer_") == [("outer_.inner_",)]
    assert sql("SELECT * FROM lake.outer_.inner_.t") == []
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        sql("DROP NAMESPACE lake.outer_")
    sql("DROP NAMESPACE lake.outer_ CASCADE")
    assert ("outer_",) not in sql("SHOW NAMESPACES IN lake")


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("SHOW TABLES IN lake.nothing", "SCHEMA_NOT_FOUND"),
        ("DROP NAMESPACE lake.nothing", "SCHEMA_NOT_FOUND"),
        ("CREATE NAMESPACE lake.db", "SCHEMA_ALREADY_EXISTS"),
        ("CREATE TABLE lake.nothing.t (id INT)", "SCHEMA_NOT_FOUND"),
        ("CREATE TABLE lake.nothing.t AS SELECT 1 AS id", "SCHEMA_NOT_FOUND"),
        ("SELECT * FROM lake.db.nothing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM lake.db.nothing.snapshots", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM lake.db.`a/../b`", "TABLE_OR_VIEW_NOT_FOUND"),
        ("INSERT INTO lake.db.nothing VALUES (1)", "TABLE_OR_VIEW_NOT_FOUND"),
        ("DROP TABLE lake.db.nothing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("DELETE FROM lake.db.nothing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("ALTER TABLE lake.db.nothing ADD COLUMN x INT", "TABLE_OR_VIEW_NOT_FOUND"),
        ("ALTER TABLE lake.db.nothing ADD PARTITION FIELD x", "TABLE_OR_VIEW_NOT_FOUND"),
        ("REPLACE TABLE lake.db.nothing (id INT)", "TABLE_OR_VIEW_NOT_FOUND"),
        ("USE lake.nothing", "SCHEMA_NOT_FOUND"),
    ],
)
def test_what_is_not_there_is_told_by_spark_in_its_own_words(sql, statement, condition):
    with pytest.raises(AnalysisException) as raised:
        sql(statement)
    assert raised.value.getCondition() == condition, raised.value


def test_a_table_of_a_taken_name_is_refused_unless_it_may_exist(sql, name):
    sql(f"CREATE TABLE {name} (id INT)")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql(f"CREATE TABLE {name} (other INT)")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    sql(f"CREATE TABLE IF NOT EXISTS {name} (other INT)")
    assert sql(f"DESCRIBE {name}") == [("id", "int", None)]


def test_tables_are_listed_described_and_shown(sql, name, spark):
    sql(
        f"""CREATE TABLE {name} (id BIGINT NOT NULL COMMENT 'the key', `odd name` STRING, ts TIMESTAMP)
        USING iceberg PARTITIONED BY (years(ts), bucket(4, id), truncate(3, `odd name`)) COMMENT 'a table'
        TBLPROPERTIES ('owner.team' = 'ours', 'write.format.default' = 'orc')"""
    )
    short = name.split(".")[-1]
    assert ("db", short, False) in sql("SHOW TABLES IN lake.db")
    assert sql(f"SHOW TABLES IN lake.db LIKE '{short}'") == [("db", short, False)]
    assert sql(f"DESCRIBE {name}")[:3] == [
        ("id", "bigint", "the key"),
        ("odd name", "string", None),
        ("ts", "timestamp", None),
    ]
    extended = {row[0]: row[1] for row in sql(f"DESCRIBE EXTENDED {name}")}
    assert extended["Comment"] == "a table"
    assert extended["Provider"] == "iceberg"
    assert extended["Location"].endswith(f"/db/{short}")
    assert extended["_pos"] == "bigint"
    [(created,)] = sql(f"SHOW CREATE TABLE {name}")
    assert "PARTITIONED BY (years(ts), bucket(4, id), truncate(3, `odd name`))" in created
    assert "COMMENT 'the key'" in created
    properties = dict(sql(f"SHOW TBLPROPERTIES {name}"))
    assert properties["owner.team"] == "ours"
    assert properties["format"] == "iceberg/orc"
    assert sql(f"SHOW TBLPROPERTIES {name} ('owner.team')") == [("owner.team", "ours")]
    assert sql(f"SHOW COLUMNS IN {name}") == [("id",), ("odd name",), ("ts",)]
    # what is shown can be run: it makes the same table again
    other = f"{name}_again"
    sql(created.replace(name, other).replace(f"/{short}'", f"/{short}_again'"))
    assert sql(f"DESCRIBE {other}") == sql(f"DESCRIBE {name}")


def test_spark_catalog_lists_what_there_is(spark, sql, name, lake):
    sql(f"CREATE TABLE {name} (id INT)")
    short = name.split(".")[-1]
    assert "lake" in [found.name for found in spark.catalog.listCatalogs()]
    assert short in [found.name for found in spark.catalog.listTables("lake.db")]
    assert spark.catalog.tableExists(name)
    assert not spark.catalog.tableExists("lake.db.nothing")
    assert spark.catalog.getTable(name).tableType == "MANAGED"
    assert [column.name for column in spark.catalog.listColumns(name)] == ["id"]
    assert spark.catalog.databaseExists("lake.db")
    assert spark.table(name).columns == ["id"]


def test_use_makes_names_short(spark, sql, name):
    short = name.split(".")[-1]
    sql(f"CREATE TABLE {name} (id INT)")
    sql("USE lake.db")
    try:
        assert spark.catalog.currentCatalog() == "lake"
        sql(f"INSERT INTO {short} VALUES (1)")
        assert sql(f"SELECT * FROM {short}") == [(1,)]
        assert sql(f"SELECT * FROM db.{short}") == [(1,)]
        sql(f"ALTER TABLE {short} ADD PARTITION FIELD bucket(2, id)")
        sql(f"ALTER TABLE db.{short} CREATE TAG one")
        assert sql(f"SELECT * FROM {short} VERSION AS OF 'one'") == [(1,)]
    finally:
        sql("USE spark_catalog.default")


def test_dropping_forgets_the_table_and_purging_removes_its_files(sql, lake, name):
    from pathlib import Path

    short = name.removeprefix("lake.")
    sql(f"CREATE TABLE {name} (id INT)")
    sql(f"INSERT INTO {name} VALUES (1)")
    location = Path(lake.table(short).location)
    assert list(location.rglob("*.parquet"))
    sql(f"DROP TABLE {name} PURGE")
    assert not lake.table_exists(short)
    assert not list(location.rglob("*.parquet"))
    sql(f"DROP TABLE IF EXISTS {name}")
    sql(f"CREATE TABLE {name} (other INT)")
    sql(f"DROP TABLE {name}")
    assert not lake.table_exists(short)


@pytest.mark.parametrize("part", ["snapshots", "branch_main", "files"])
def test_parts_of_a_table_are_not_dropped_alone(sql, name, part):
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    with pytest.raises(Unsupported, match=f"{part} cannot be dropped"):
        sql(f"DROP TABLE {name}.{part}")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql(f"DROP TABLE {name}.nothing")
    assert sql(f"SELECT id FROM {name}") == [(1,)]


def test_a_checkpoint_in_the_warehouse_does_not_hide_namespaces(sql, lake):
    checkpoint = Path(lake.catalog.warehouse) / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text("{}")
    assert ("db",) in sql("SHOW NAMESPACES IN lake")
    sql("SHOW TABLES IN lake.db")


def test_tables_are_renamed_in_a_catalog_that_can(spark, tmp_path):
    made = frazil.connect(f"sqlite:///{tmp_path}/lake.db", warehouse=tmp_path / "warehouse")
    made.attach(spark, "named")
    try:
        spark.sql("CREATE NAMESPACE named.db")
        spark.sql("CREATE NAMESPACE named.other")
        spark.sql("CREATE TABLE named.db.a AS SELECT 1 AS id")
        spark.sql("CREATE TABLE named.db.taken (id INT)")
        spark.sql("ALTER TABLE named.db.a RENAME TO b")
        assert made.tables("db") == ["db.b", "db.taken"]
        spark.sql("ALTER TABLE named.db.b RENAME TO named.other.c")
        assert spark.table("named.other.c").collect()[0].id == 1
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
            spark.sql("ALTER TABLE named.other.c RENAME TO db.taken")
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql("ALTER TABLE named.db.nothing RENAME TO x")
    finally:
        made.detach(spark, "named")
        made.close()


@pytest.fixture(scope="module")
def versions(spark, lake):
    """A table of three snapshots: one, two and three rows; tag `one`, branch `side` at two rows."""
    spark.sql("CREATE TABLE lake.db.versions (id INT)")
    for number in range(3):
        spark.sql(f"INSERT INTO lake.db.versions VALUES ({number})")
    table = lake.table("db.versions")
    ids = [snapshot.snapshot_id for snapshot in table.snapshots]
    spark.sql(f"ALTER TABLE lake.db.versions CREATE TAG one AS OF VERSION {ids[0]}")
    spark.sql(f"ALTER TABLE lake.db.versions CREATE BRANCH side AS OF VERSION {ids[1]}")
    return table.refresh()


def test_time_travel_has_many_spellings(sql, spark, versions):
    first, second, _ = versions.snapshots

    def count(text):
        return sql(f"SELECT count(*) FROM {text}")[0][0]

    t = "lake.db.versions"
    assert count(t) == 3
    assert count(f"{t} VERSION AS OF {first.snapshot_id}") == 1
    assert count(f"{t} FOR SYSTEM_VERSION AS OF {second.snapshot_id}") == 2
    assert count(f"{t} FOR VERSION AS OF 'one'") == 1
    assert count(f"{t} VERSION AS OF 'side'") == 2
    assert count(f"{t}.tag_one") == 1
    assert count(f"{t}.branch_side") == 2
    assert count(f"{t}.snapshot_id_{first.snapshot_id}") == 1
    assert count(f"{t}.at_timestamp_{second.timestamp_ms}") == 2
    when = dt.datetime.fromtimestamp(second.timestamp_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    assert count(f"{t} TIMESTAMP AS OF '{when}'") == 2
    assert count(f"{t} FOR SYSTEM_TIME AS OF timestamp '{when}'") == 2
    assert count(f"{t} TIMESTAMP AS OF now()") == 3
    for option, value, rows in (
        ("versionAsOf", first.snapshot_id, 1),
        ("versionAsOf", "side", 2),
        ("timestampAsOf", when, 2),
        ("snapshot-id", first.snapshot_id, 1),
        ("as-of-timestamp", second.timestamp_ms, 2),
        ("branch", "side", 2),
        ("tag", "one", 1),
    ):
        assert spark.read.option(option, value).table(t).count() == rows, option


def test_a_version_that_is_not_there_says_so(sql, versions):
    with pytest.raises(SnapshotNotFound, match="no snapshot 17"):
        sql("SELECT * FROM lake.db.versions VERSION AS OF 17")
    with pytest.raises(RefNotFound, match="nope"):
        sql("SELECT * FROM lake.db.versions VERSION AS OF 'nope'")
    with pytest.raises(SnapshotNotFound):
        sql("SELECT * FROM lake.db.versions TIMESTAMP AS OF '1999-01-01'")
    with pytest.raises(RefNotFound):
        sql("SELECT * FROM lake.db.versions.branch_nope")


def test_options_that_contradict_each_other_or_the_name_are_refused(spark, versions):
    first, second, _ = (snapshot.snapshot_id for snapshot in versions.snapshots)

    def refused(words, table="lake.db.versions", **options):
        with pytest.raises(InvalidArgument, match=words):
            spark.read.options(**options).table(table).collect()

    refused("snapshot-id and branch", branch="side", **{"snapshot-id": first})
    refused("snapshot-id and versionasof", versionAsOf=second, **{"snapshot-id": first})
    refused("tag and timestampasof", timestampAsOf="2999-01-01", tag="one")
    refused("'side' is a branch", tag="side")
    refused("'one' is a tag", branch="one")
    refused("'one' is a tag", "lake.db.versions.branch_one")
    refused("snapshot-id is 'one'", **{"snapshot-id": "one"})
    refused("branch is 'side' .* at another snapshot", "lake.db.versions.tag_one", branch="side")
    refused("snapshot-id is .* at another", f"lake.db.versions.snapshot_id_{first}", **{"snapshot-id": second})
    same = spark.read.option("snapshot-id", second).table("lake.db.versions.branch_side")
    assert same.count() == 2


def test_old_versions_have_the_columns_they_had(sql, name, lake):
    sql(f"CREATE TABLE {name} (id INT, gone STRING)")
    sql(f"INSERT INTO {name} VALUES (1, 'x')")
    sql(f"ALTER TABLE {name} CREATE TAG before")
    sql(f"ALTER TABLE {name} CREATE BRANCH beside")
    sql(f"ALTER TABLE {name} DROP COLUMN gone")
    sql(f"ALTER TABLE {name} ADD COLUMN added INT")
    assert sql(f"SELECT * FROM {name} VERSION AS OF 'before'") == [(1, "x")]
    assert sql(f"SELECT * FROM {name}.branch_beside") == [(1, None)]


def test_branches_are_written_and_tags_are_not(sql, name):
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    sql(f"ALTER TABLE {name} CREATE BRANCH audit")
    sql(f"ALTER TABLE {name} CREATE TAG fixed")
    sql(f"INSERT INTO {name}.branch_audit VALUES (2)")
    sql(f"DELETE FROM {name}.branch_audit WHERE id = 1")
    assert sql(f"SELECT * FROM {name}.branch_audit") == [(2,)]
    assert sql(f"SELECT * FROM {name}") == [(1,)]
    with pytest.raises(AnalysisException, match="UNSUPPORTED_FEATURE"):
        sql(f"INSERT INTO {name}.tag_fixed VALUES (2)")


def test_a_query_keeps_the_rows_it_was_planned_with(spark, sql, name):
    """Spark 4.1 and newer load the newest version before they run a DataFrame; rows within one run agree."""
    sql(f"CREATE TABLE {name} AS SELECT id FROM range(3)")
    frame = spark.sql(f"SELECT a.id FROM {name} a JOIN {name} b ON a.id = b.id")
    assert frame.count() == 3
    sql(f"INSERT INTO {name} VALUES (3)")
    assert frame.count() in (3, 4)
    assert spark.sql(f"SELECT a.id FROM {name} a JOIN {name} b ON a.id = b.id").count() == 4


def test_metadata_tables_are_behind_the_name_of_their_table(sql, spark, versions):
    first, second, third = (snapshot.snapshot_id for snapshot in versions.snapshots)
    t = "lake.db.versions"
    assert [row[0] for row in sql(f"SELECT snapshot_id FROM {t}.snapshots ORDER BY committed_at")] == [
        first,
        second,
        third,
    ]
    assert sql(f"SELECT name, type FROM {t}.refs ORDER BY name") == [
        ("main", "BRANCH"),
        ("one", "TAG"),
        ("side", "BRANCH"),
    ]
    assert sql(f"SELECT sum(record_count) FROM {t}.files") == [(3,)]
    assert sql(f"SELECT sum(record_count) FROM {t}.files VERSION AS OF {first}") == [(1,)]
    assert spark.read.option("snapshot-id", second).table(f"{t}.files").count() == 2
    assert sql(f"SELECT h.is_current_ancestor FROM {t}.history h JOIN {t}.snapshots s USING (snapshot_id)")[0] == (
        True,
    )
    with pytest.raises(InvalidArgument, match="all snapshots"):
        sql(f"SELECT * FROM {t}.snapshots VERSION AS OF {first}")
    with pytest.raises(AnalysisException, match="UNSUPPORTED_FEATURE"):
        sql(f"INSERT INTO {t}.refs SELECT * FROM {t}.refs")


def test_every_metadata_table_can_be_read(sql, versions):
    from frazil.iceberg.metadata_tables import METADATA_TABLES, metadata_table_schema

    for name in METADATA_TABLES:
        columns = [row[0] for row in sql(f"DESCRIBE lake.db.versions.{name}")]
        assert columns == metadata_table_schema(versions.metadata, name).columns, name
        sql(f"SELECT * FROM lake.db.versions.{name}")


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("uuid", uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("time", dt.time(12, 34, 56, 789012), "12:34:56.789012"),
        ("timestamp_ns", dt.datetime(2024, 2, 29, 23, 59, 59, 123456), "2024-02-29 23:59:59.123456"),
        ("timestamptz_ns", dt.datetime(2024, 2, 29, 23, 59, 59, 123456, dt.UTC), "2024-02-29 23:59:59.123456"),
    ],
)
def test_metadata_tables_show_partitions_of_every_type(sql, spark, lake, name, kind, value, shown):
    if kind != "uuid" and spark.version < "4.3":
        pytest.skip("this Spark has not all of these types")
    table = lake.create_table(name.removeprefix("lake."), f"id INT, p {kind}", partition_by=["p"], format_version=3)
    table.append([{"id": 1, "p": value}, {"id": 2, "p": None}])
    for metadata_table in ("files", "all_files", "entries", "partitions"):
        assert len(sql(f"SELECT string(struct(*)) FROM {name}.{metadata_table}")) == 2
    assert sql(f"SELECT string(partition.p) FROM {name}.partitions ORDER BY 1") == [(None,), (shown,)]
    bounds = sql(f"SELECT string(readable_metrics.p.lower_bound) FROM {name}.files ORDER BY 1")
    assert bounds == [(None,), (shown,)]


def test_hidden_columns_are_there_when_asked_for(sql, lake, name):
    sql(f"CREATE TABLE {name} (id INT) TBLPROPERTIES ('format-version' = '3')")
    sql(f"INSERT INTO {name} VALUES (7), (8)")
    columns = ["id", "_file", "_pos", "_spec_id", "_row_id"]
    found = sql(f"SELECT {', '.join(columns)} FROM {name} WHERE id = 8")
    [expected] = lake.table(name.removeprefix("lake.")).scan("id = 8", columns).to_arrow().to_pylist()
    assert found == [tuple(expected.values())]
    assert len(sql(f"SELECT * FROM {name}")[0]) == 1


def test_tables_of_all_formats_are_listed(spark, lake, name):
    short = name.removeprefix("lake.")
    lake.create_table(short, "id BIGINT NOT NULL", format="mixed", primary_key=["id"])
    assert (short.split(".")[-1],) in [(row.tableName,) for row in spark.sql("SHOW TABLES IN lake.db").collect()]


def test_a_format_that_spark_does_not_know_is_refused():
    with pytest.raises(Unsupported, match="delta tables are not for Spark yet"):
        format_named("delta")
