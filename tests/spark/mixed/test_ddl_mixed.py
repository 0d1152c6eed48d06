"""Mixed tables are made, shown, altered, replaced and dropped in SQL."""

from __future__ import annotations

import shutil

import pytest
from pyspark.errors import AnalysisException

import frazil
from frazil.errors import (
    ColumnNotFound,
    InvalidArgument,
    InvalidEvolution,
    InvalidSchema,
    StoreError,
    StoreMissing,
    TableNotFound,
    Unsupported,
)
from frazil.mixed.evolution import UpdateMixedProperties
from frazil.spark.catalog import resolve


@pytest.fixture
def opened(lake, name):
    return lambda: lake.table(name.removeprefix("lake."))


@pytest.mark.smoke
def test_a_table_is_made_with_its_key(sql, name, opened):
    sql(
        f"CREATE TABLE {name} (ID BIGINT NOT NULL COMMENT 'the key', part STRING, ts TIMESTAMP, PRIMARY KEY (id, Part))"
        " USING mixed PARTITIONED BY (days(ts), part) COMMENT 'a table'"
        " TBLPROPERTIES ('write.upsert.enabled' = 'true', 'change.file-index.hash-bucket' = '8')"
    )
    table = opened()
    assert table.format == "mixed"
    assert table.primary_key == ("ID", "part")
    assert [str(part.transform) for part in table.spec.fields] == ["day", "identity"]
    assert table.schema.find("ID").required
    assert table.schema.find("ID").doc == "the key"
    for store in (table.base_store, table.change_store):
        assert store.properties["change.file-index.hash-bucket"] == "8"
        assert store.properties["mixed-format.primary-key-fields"] == "ID,part"
    assert table.base_store.location.endswith("/base")
    shown = dict(sql(f"SHOW TBLPROPERTIES {name}"))
    assert shown["primary-key"] == "ID,part"
    assert "mixed-format.table-store" not in shown
    described = {row[0]: row[1] for row in sql(f"DESCRIBE TABLE EXTENDED {name}")}
    assert described["Provider"] == "mixed"
    assert "primary-key=ID,part" in described["Table Properties"]
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        sql(f"CREATE TABLE {name} (id INT, PRIMARY KEY (id)) USING mixed")
    sql(f"CREATE TABLE IF NOT EXISTS {name} (id INT, PRIMARY KEY (id)) USING mixed")


def test_what_is_shown_makes_the_same_table_again(sql, name, opened, lake):
    sql(f"CREATE TABLE {name} (id INT, d DATE, PRIMARY KEY (id)) USING mixed PARTITIONED BY (d)")
    [(created,)] = sql(f"SHOW CREATE TABLE {name}")
    assert "'primary-key' = 'id'" in created
    assert "USING mixed" in created
    short = name.rpartition(".")[2]
    other = f"{name}_again"
    sql(created.replace(name, other).replace(f"/{short}'", f"/{short}_again'"))
    first, second = opened(), lake.table(other.removeprefix("lake."))
    assert second.primary_key == first.primary_key == ("id",)
    assert second.schema == first.schema
    assert second.spec == first.spec


@pytest.mark.parametrize("key", ["id INT, PRIMARY KEY (id)", "id INT"])
@pytest.mark.parametrize("layout", ["nested", "sibling"])
def test_what_is_shown_makes_a_table_of_the_same_layout(sql, name, opened, lake, layout, key):
    sql(f"CREATE TABLE {name} ({key}) USING mixed TBLPROPERTIES ('layout' = '{layout}')")
    [(created,)] = sql(f"SHOW CREATE TABLE {name}")
    assert ("'layout' = 'sibling'" in created) == (layout == "sibling")
    short = name.rpartition(".")[2]
    other = f"{name}_again"
    sql(created.replace(name, other).replace(f"/{short}'", f"/{short}_again'"))
    first, second = opened(), lake.table(other.removeprefix("lake."))
    assert (first.layout, second.layout) == (layout, layout)
    assert second.location == first.location + "_again"
    assert [store.location.removeprefix(second.location) for store in _stores(second)] == [
        store.location.removeprefix(first.location) for store in _stores(first)
    ]


def _stores(table):
    return [store for store in (table.base_store, table.change_store) if store is not None]


@pytest.mark.parametrize(
    "columns",
    [
        "id BIGINT PRIMARY KEY, v STRING",
        "id BIGINT NOT NULL PRIMARY KEY, v STRING",
        "PRIMARY KEY (ID), id BIGINT, v STRING",
    ],
)
def test_a_key_may_be_said_of_its_column_or_before_all_columns(sql, name, opened, columns):
    sql(f"CREATE TABLE {name} ({columns}) USING mixed TBLPROPERTIES ('write.upsert.enabled' = 'true')")
    assert opened().primary_key == ("id",)
    assert opened().schema.columns == ["id", "v"]
    for text in "ab":
        sql(f"INSERT INTO {name} VALUES (1, '{text}')")
    assert sql(f"SELECT * FROM {name}") == [(1, "b")]


@pytest.mark.parametrize(
    ("definition", "error", "words"),
    [
        ("(id INT, PRIMARY KEY (other)) USING mixed", ColumnNotFound, "other"),
        ("(id INT, x ARRAY<INT>, PRIMARY KEY (x)) USING mixed", InvalidSchema, "primary key"),
        ("(id INT, PRIMARY KEY (id)) USING mixed TBLPROPERTIES ('layout' = 'odd')", InvalidArgument, "layout"),
        ("(id INT, PRIMARY KEY (id)) USING mixed TBLPROPERTIES ('format-version' = '3')", InvalidArgument, "version 2"),
        (
            "(id INT, PRIMARY KEY (id)) USING mixed TBLPROPERTIES ('base.file-index.hash-bucket' = '3')",
            InvalidArgument,
            "power of two",
        ),
        ("(id INT, t DATE, PRIMARY KEY (id)) USING mixed PARTITIONED BY (years(t))", InvalidSchema, "years"),
        ("(id INT PRIMARY KEY, x INT PRIMARY KEY) USING mixed", InvalidSchema, "two primary keys"),
        (
            "(id INT PRIMARY KEY) USING mixed TBLPROPERTIES ('table.event-time-field' = 'gone')",
            InvalidArgument,
            "names a column 'gone'",
        ),
        (
            "(id INT PRIMARY KEY, b BOOLEAN) USING mixed TBLPROPERTIES ('table.event-time-field' = 'b')",
            InvalidArgument,
            "names 'b' of type boolean, which tells no time",
        ),
        ("(id INT, _Tree_node INT, PRIMARY KEY (id)) USING mixed", InvalidSchema, "'_Tree_node' has the name"),
        ("PRIMARY KEY (id) USING mixed AS SELECT 1 AS id, 2 AS _change_action", InvalidSchema, "has the name"),
    ],
)
def test_a_table_that_cannot_be_is_refused(sql, name, lake, definition, error, words):
    with pytest.raises(error, match=words):
        sql(f"CREATE TABLE {name} {definition}")
    assert not lake.table_exists(name.removeprefix("lake."))


def test_a_key_is_for_mixed_tables(sql, name):
    with pytest.raises(Exception, match=r"PARSE_SYNTAX_ERROR|constraint"):
        sql(f"CREATE TABLE {name} (id INT, PRIMARY KEY (id)) USING iceberg")


@pytest.mark.parametrize("layout", ["nested", "sibling"])
def test_a_table_is_made_from_a_query(spark, sql, name, opened, lake, layout):
    sql(
        f"CREATE TABLE {name} PRIMARY KEY (id) USING mixed PARTITIONED BY (bucket(2, id))"
        f" TBLPROPERTIES ('layout' = '{layout}') AS SELECT id, id * 2 AS x FROM range(20)"
    )
    table = opened()
    assert table.primary_key == ("id",)
    assert sorted(row.x for row in spark.table(name).collect()) == [2 * n for n in range(20)]
    assert len(table.base_store.snapshots) == 1
    assert table.current_snapshot.change is None
    table.upsert([{"id": 3, "x": -1}, {"id": 99, "x": 0}])
    assert dict(sql(f"SELECT id, x FROM {name} WHERE x <= 0")) == {0: 0, 3: -1, 99: 0}
    first = table.base_store.snapshots[0].snapshot_id
    assert sql(f"SELECT count(*) FROM {name} VERSION AS OF {first}") == [(20,)]
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        sql(f"CREATE TABLE {name} PRIMARY KEY (id) USING mixed AS SELECT 1L AS id, 2L AS x")


def test_a_query_that_fails_leaves_nothing(sql, name, lake):
    failing = "SELECT id, CAST(raise_error('no luck') AS STRING) AS x FROM range(5)"
    with pytest.raises(Exception, match="no luck"):
        sql(f"CREATE TABLE {name} PRIMARY KEY (id) USING mixed AS {failing}")
    assert not lake.table_exists(name.removeprefix("lake."))
    with pytest.raises(frazil.errors.InvalidValue, match="primary key"):
        sql(f"CREATE TABLE {name} PRIMARY KEY (id) USING mixed AS SELECT nullif(id, 3) AS id FROM range(5)")
    assert not lake.table_exists(name.removeprefix("lake."))
    sql(f"CREATE TABLE {name} PRIMARY KEY (id) USING mixed AS SELECT id FROM range(5)")


def test_a_frame_makes_a_table(spark, name, opened):
    rows = spark.range(10).selectExpr("id", "'a' AS name")
    rows.writeTo(name).using("mixed").tableProperty("primary-key", "id").partitionedBy("name").create()
    assert opened().primary_key == ("id",)
    assert spark.table(name).count() == 10
    plain = f"{name}_plain"
    rows.writeTo(plain).using("mixed").create()
    assert spark.table(plain).count() == 10


def test_rows_are_replaced_and_columns_are_not(spark, sql, name, opened):
    sql(f"CREATE OR REPLACE TABLE {name} PRIMARY KEY (id) USING mixed AS SELECT id, 'a' AS v FROM range(5)")
    before = opened().base_store.snapshots[-1].snapshot_id
    sql(f"CREATE OR REPLACE TABLE {name} PRIMARY KEY (id) USING mixed AS SELECT id, 'b' AS v FROM range(3, 6)")
    assert sorted(map(tuple, spark.table(name).collect())) == [(3, "b"), (4, "b"), (5, "b")]
    assert sql(f"SELECT count(*) FROM {name} VERSION AS OF {before}") == [(5,)]
    for other in ("PRIMARY KEY (v)", "PRIMARY KEY (id, v)", ""):
        with pytest.raises(Unsupported, match="replaced"):
            sql(f"CREATE OR REPLACE TABLE {name} {other} USING mixed AS SELECT id, 'b' AS v FROM range(3)")
    with pytest.raises(Unsupported, match="replaced"):
        sql(f"REPLACE TABLE {name} PRIMARY KEY (id) USING mixed AS SELECT id FROM range(3)")
    sql(f"REPLACE TABLE {name} (id BIGINT, v STRING, PRIMARY KEY (id)) USING mixed")
    assert spark.table(name).count() == 0
    with pytest.raises((TableNotFound, AnalysisException)):
        sql(f"REPLACE TABLE {name}_none PRIMARY KEY (id) USING mixed AS SELECT 1 AS id")


COLUMNS = "(id BIGINT, v STRING, PRIMARY KEY (id))"
QUERY = "AS SELECT id, 'new' AS v FROM range(3)"


@pytest.mark.parametrize("how", ["CREATE OR REPLACE", "REPLACE"])
@pytest.mark.parametrize("old_rows", [2, 0])
@pytest.mark.parametrize("rows", ["", QUERY])
def test_properties_and_comment_of_a_replacement_are_set_and_others_stay(sql, name, opened, how, old_rows, rows):
    sql(f"CREATE TABLE {name} {COLUMNS} USING mixed COMMENT 'old' TBLPROPERTIES ('mine' = '1', 'kept' = '2')")
    sql(f"INSERT INTO {name} SELECT id, 'old' FROM range({old_rows})")
    sql(
        f"{how} TABLE {name} {'PRIMARY KEY (id)' if rows else COLUMNS} USING mixed COMMENT 'new'"
        f" TBLPROPERTIES ('write.upsert.enabled' = 'true', 'mine' = '3', 'base.write.format' = 'orc') {rows}"
    )
    table = opened()
    for store in (table.base_store, table.change_store):
        told = {key: store.properties.get(key) for key in ("comment", "mine", "kept", "write.upsert.enabled")}
        assert told == {"comment": "new", "mine": "3", "kept": "2", "write.upsert.enabled": "true"}
    assert {task.file.file_format.lower() for task in table.base_store.scan().plan().tasks()} == (
        {"orc"} if rows else set()
    )
    for text in "ab":
        sql(f"INSERT INTO {name} VALUES (1, '{text}')")
    wanted = {0: "new", 1: "b", 2: "new"} if rows else {1: "b"}
    assert sorted(sql(f"SELECT * FROM {name}")) == sorted(wanted.items())
    assert dict(sql(f"SHOW TBLPROPERTIES {name}"))["mine"] == "3"


def test_a_table_without_a_key_gets_the_properties_of_its_replacement(sql, name, opened):
    sql(f"CREATE TABLE {name} (id BIGINT) USING mixed")
    sql(f"CREATE OR REPLACE TABLE {name} USING mixed TBLPROPERTIES ('mine' = '1') AS SELECT id FROM range(3)")
    assert opened().properties["mine"] == "1"
    sql(f"REPLACE TABLE {name} (id BIGINT) USING mixed COMMENT 'empty' TBLPROPERTIES ('mine' = '2')")
    assert (opened().properties["mine"], opened().properties["comment"]) == ("2", "empty")
    assert sql(f"SELECT * FROM {name}") == []


def test_a_replacement_that_names_no_format_sets_properties_too(spark, sql, name, opened):
    sql(f"CREATE TABLE {name} {COLUMNS} USING mixed")
    rows = spark.range(3).selectExpr("id", "'a' AS v")
    rows.writeTo(name).tableProperty("mine", "1").createOrReplace()
    assert (opened().format, opened().properties["mine"]) == ("mixed", "1")
    rows.write.mode("overwrite").saveAsTable(name)
    assert (opened().properties["mine"], spark.table(name).count()) == ("1", 3)
    assert "write.format.default" not in opened().properties
    with pytest.raises(Unsupported, match="another key"):
        rows.writeTo(name).tableProperty("primary-key", "v").createOrReplace()


def test_the_rows_of_a_replacement_must_fit_its_properties_or_nothing_changes(sql, name, opened):
    sql(f"CREATE TABLE {name} PRIMARY KEY (id) USING mixed AS SELECT id, 'old' AS v FROM range(2)")
    for properties, query in (
        ("'write.upsert.enabled' = 'true'", "SELECT 1L AS id, 'new' AS v FROM range(2)"),
        ("'write.upsert.enabled' = 'perhaps'", "SELECT id, 'new' AS v FROM range(2)"),
        ("'mine' = '1'", "SELECT id, CAST(raise_error('no luck') AS STRING) AS v FROM range(2)"),
        ("'layout' = 'sibling'", "SELECT id, 'new' AS v FROM range(2)"),
    ):
        with pytest.raises(Exception, match=r"several rows|two rows|true or false|no luck|layout sibling"):
            sql(f"REPLACE TABLE {name} PRIMARY KEY (id) USING mixed TBLPROPERTIES ({properties}) AS {query}")
    table = opened()
    for store in (table.base_store, table.change_store):
        assert not {"write.upsert.enabled", "mine", "layout"}.intersection(store.properties)
    assert sorted(sql(f"SELECT * FROM {name}")) == [(0, "old"), (1, "old")]


def test_a_replacement_that_comes_to_the_base_store_only_is_whole_and_can_be_repeated(sql, name, opened, monkeypatch):
    sql(f"CREATE TABLE {name} PRIMARY KEY (id) USING mixed AS SELECT id, 'old' AS v FROM range(2)")
    sql(f"INSERT INTO {name} VALUES (7, 'old')")
    replacement = f"REPLACE TABLE {name} PRIMARY KEY (id) USING mixed TBLPROPERTIES ('mine' = '1') {QUERY}"

    def interrupted(self):
        raise StoreError("the line is cut", hint="wait")

    with monkeypatch.context() as patch:
        patch.setattr(UpdateMixedProperties, "commit", interrupted)
        with pytest.raises(StoreError, match="the line is cut"):
            sql(replacement)
    assert sorted(sql(f"SELECT * FROM {name}")) == [(0, "new"), (1, "new"), (2, "new")]
    assert opened().properties["mine"] == "1"
    sql(replacement)
    assert opened().change_store.properties["mine"] == "1"


def test_columns_change_in_both_stores(spark, sql, name, opened):
    sql(f"CREATE TABLE {name} PRIMARY KEY (id) USING mixed AS SELECT id, int(id) AS n, 'a' AS s FROM range(5)")
    opened().upsert([{"id": 1, "n": 10, "s": "b"}])
    sql(f"ALTER TABLE {name} ADD COLUMNS (more STRING COMMENT 'new' AFTER id, x INT)")
    sql(f"ALTER TABLE {name} RENAME COLUMN s TO word")
    sql(f"ALTER TABLE {name} ALTER COLUMN n TYPE BIGINT")
    sql(f"ALTER TABLE {name} DROP COLUMN x")
    table = opened()
    assert table.schema.columns == ["id", "more", "n", "word"]
    assert table.change_store is not None
    assert table.change_store.schema == table.schema
    table.upsert([{"id": 2, "more": "m", "n": 2**40, "word": "c"}])
    wanted = [(0, None, 0, "a"), (1, None, 10, "b"), (2, "m", 2**40, "c"), (3, None, 3, "a"), (4, None, 4, "a")]
    for options in ({}, {"frazil.scan": "arrow"}, {"frazil.merge": "shuffle"}):
        assert sorted(map(tuple, spark.read.options(**options).table(name).collect())) == wanted
    assert sql(f"SELECT id FROM {name} WHERE word = 'a' AND n > 2 ORDER BY id") == [(3,), (4,)]
    for statement in (
        f"ALTER TABLE {name} DROP COLUMN id",
        f"ALTER TABLE {name} RENAME COLUMN id TO key",
    ):
        with pytest.raises(InvalidEvolution, match="primary key"):
            sql(statement)
    for statement in (
        f"ALTER TABLE {name} ADD COLUMN _file_offset INT",
        f"ALTER TABLE {name} RENAME COLUMN word TO _FILE_OFFSET",
    ):
        with pytest.raises(InvalidSchema, match="has the name of a column"):
            sql(statement)
    with pytest.raises(Unsupported, match="AddPartitionField"):
        sql(f"ALTER TABLE {name} ADD PARTITION FIELD n")


def test_properties_change_in_both_stores(sql, name, opened):
    sql(f"CREATE TABLE {name} (id INT, PRIMARY KEY (id)) USING mixed")
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.upsert.enabled' = 'true', 'mine' = '1')")
    table = opened()
    for store in (table.base_store, table.change_store):
        assert (store.properties["write.upsert.enabled"], store.properties["mine"]) == ("true", "1")
    sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('mine')")
    assert "mine" not in opened().properties
    for refused in ("primary-key", "table-format", "layout", "watermark.table", "current-snapshot-id"):
        with pytest.raises(Unsupported, match=refused):
            sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{refused}' = 'id')")
    with pytest.raises(InvalidArgument, match="names a column 'gone'"):
        sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('table.event-time-field' = 'gone')")
    with pytest.raises(InvalidArgument, match="power of two"):
        sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('base.file-index.hash-bucket' = '3')")


@pytest.mark.parametrize("purge", ["", " PURGE"])
@pytest.mark.parametrize("layout", ["nested", "sibling"])
def test_both_stores_are_dropped(sql, name, lake, opened, layout, purge):
    sql(f"CREATE TABLE {name} PRIMARY KEY (id) USING mixed TBLPROPERTIES ('layout' = '{layout}') AS SELECT 1 AS id")
    table = opened()
    table.upsert([{"id": 2}])
    files = [
        task.file.file_path for store in (table.base_store, table.change_store) for task in store.scan().plan().tasks()
    ]
    sql(f"DROP TABLE {name}{purge}")
    assert not lake.table_exists(name.removeprefix("lake."))
    assert [table.store.exists(path) for path in files] == [not purge] * len(files)
    assert name.rpartition(".")[2] not in {row[1] for row in sql("SHOW TABLES IN lake.db")}
    assert not lake.table_exists(f"{name.removeprefix('lake.')}_change_")


@pytest.mark.parametrize("layout", ["nested", "sibling"])
def test_a_store_is_not_dropped_alone(sql, name, lake, layout):
    sql(f"CREATE TABLE {name} (id INT, PRIMARY KEY (id)) USING mixed TBLPROPERTIES ('layout' = '{layout}')")
    for part in (f"{name}.change", f"{name}.base", f"{name}.change.files", f"{name}.files"):
        with pytest.raises(Unsupported):
            sql(f"DROP TABLE {part}")
    assert sql(f"SELECT * FROM {name}") == []


def test_a_change_store_is_neither_listed_nor_dropped_alone(sql, name, lake):
    sql(f"CREATE TABLE {name} (id INT, PRIMARY KEY (id)) USING mixed TBLPROPERTIES ('layout' = 'sibling')")
    beside = f"{name}_change_"
    assert beside.rpartition(".")[2] not in {row[1] for row in sql("SHOW TABLES IN lake.db")}
    with pytest.raises(Unsupported, match="store of db"):
        sql(f"DROP TABLE {beside}")
    with pytest.raises(Unsupported, match="store"):
        lake.drop_table(beside.removeprefix("lake."), purge=True)
    with pytest.raises(Unsupported, match="store"):
        lake.rename_table(beside.removeprefix("lake."), "db.other")
    assert sql(f"SELECT * FROM {name}") == []


def test_a_table_of_a_sql_catalog_is_renamed(spark, tmp_path):
    lake = frazil.connect(f"sqlite:///{tmp_path}/lake.db", warehouse=tmp_path / "w")
    lake.attach(spark, "named")
    try:
        spark.sql("CREATE NAMESPACE named.db")
        spark.sql("CREATE TABLE named.db.t PRIMARY KEY (id) USING mixed AS SELECT id FROM range(5)")
        spark.sql("ALTER TABLE named.db.t RENAME TO named.db.u")
        lake.table("db.u").upsert([{"id": 7}])
        assert spark.table("named.db.u").count() == 6
        assert spark.table("named.db.u.change").count() == 2
        assert not lake.table_exists("db.t")
        handle = resolve(lake, ["db", "u"])
        assert handle.name == "db.u"
        spark.sql("DROP TABLE named.db.u PURGE")
    finally:
        lake.detach(spark, "named")


def test_a_filesystem_catalog_cannot_rename(sql, name):
    sql(f"CREATE TABLE {name} (id INT, PRIMARY KEY (id)) USING mixed")
    with pytest.raises(Unsupported, match="renamed"):
        sql(f"ALTER TABLE {name} RENAME TO {name}_other")


def test_a_table_that_lost_its_change_store_says_so_and_can_be_dropped(spark, sql, name, opened):
    sql(f"CREATE TABLE {name} PRIMARY KEY (id) USING mixed AS SELECT id FROM range(3)")
    shutil.rmtree(opened().change_store.location)
    for statement in (
        f"SELECT * FROM {name}",
        f"SELECT * FROM {name}.change",
        f"INSERT INTO {name} VALUES (7)",
        f"DELETE FROM {name} WHERE id = 1",
        f"DESCRIBE TABLE {name}",
    ):
        with pytest.raises(StoreMissing, match=r"no change store in .*, which a keyed table needs"):
            sql(statement)
    sql(f"DROP TABLE {name}")
    assert not spark.catalog.tableExists(name)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql(f"SELECT * FROM {name}")
