"""Tables made, replaced and altered by SQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

import frazil
from frazil.errors import FrazilError, InvalidEvolution, InvalidSchema, Unsupported


def _table(lake, name):
    return lake.table(name.removeprefix("lake."))


def _columns(sql, name):
    rows = sql(f"DESCRIBE {name}")
    ends = [at for at, row in enumerate(rows) if not row[0]]
    return [row[:2] for row in rows[: ends[0] if ends else None]]


def test_every_transform_makes_its_partition_field(sql, lake, name):
    sql(
        f"""CREATE TABLE {name} (id BIGINT, k STRING, a TIMESTAMP, b TIMESTAMP_NTZ, c DATE, d TIMESTAMP,
        s STRUCT<x: INT>)
        PARTITIONED BY (k, years(a), months(b), days(c), hours(d), bucket(8, id), truncate(10, k), s.x)"""
    )
    spec = _table(lake, name).spec
    assert [(field.name, str(field.transform)) for field in spec.fields] == [
        ("k", "identity"),
        ("a_year", "year"),
        ("b_month", "month"),
        ("c_day", "day"),
        ("d_hour", "hour"),
        ("id_bucket", "bucket[8]"),
        ("k_trunc", "truncate[10]"),
        ("s.x", "identity"),
    ]


@pytest.mark.parametrize("word", ["year", "month", "day", "hour", "date", "date_hour"])
def test_transforms_have_singular_names_too(sql, lake, name, word):
    sql(f"CREATE TABLE {name} (ts TIMESTAMP) PARTITIONED BY ({word}(ts))")
    assert len(_table(lake, name).spec.fields) == 1


def test_types_come_back_as_they_were_given(sql, spark, name):
    types = {
        "a": "boolean",
        "b": "int",
        "c": "bigint",
        "d": "float",
        "e": "double",
        "f": "decimal(38,10)",
        "g": "date",
        "h": "timestamp",
        "i": "timestamp_ntz",
        "j": "string",
        "k": "binary",
        "l": "array<struct<x:int,y:map<string,bigint>>>",
        "m": "map<int,array<string>>",
        "n": "struct<x:struct<y:string>>",
    }
    sql(f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in types.items())})")
    assert dict(_columns(sql, name)) == types


def test_small_integers_and_short_texts_become_what_tables_have(sql, name):
    sql(f"CREATE TABLE {name} (a TINYINT, b SMALLINT, c VARCHAR(10), d CHAR(3))")
    assert [kind for _, kind in _columns(sql, name)] == ["int", "int", "string", "string"]


def test_a_type_that_tables_cannot_hold_is_named(sql, name):
    with pytest.raises((InvalidSchema, AnalysisException), match=r"(?i)interval"):
        sql(f"CREATE TABLE {name} (x INTERVAL DAY TO SECOND)")


def test_variant_needs_format_version_3_and_works_there(sql, name):
    with pytest.raises(InvalidSchema, match="format version 3"):
        sql(f"CREATE TABLE {name} (v VARIANT) TBLPROPERTIES ('format-version' = '2')")
    sql(f"CREATE TABLE {name} (v VARIANT) TBLPROPERTIES ('format-version' = '3')")
    assert _columns(sql, name) == [("v", "variant")]


def test_times_and_nanoseconds_are_made_added_selected_and_compared(sql, spark, name):
    if spark.version < "4.3":
        pytest.skip("this Spark has not all of these types")
    moment = "2024-02-29 23:59:59.123456789"
    sql(f"CREATE TABLE {name} (id INT, t TIME, n TIMESTAMP_NTZ(9)) TBLPROPERTIES ('format-version' = '3')")
    sql(f"INSERT INTO {name} VALUES (1, TIME'12:34:56.5', TIMESTAMP_NTZ'2020-01-01'), (2, TIME'23:59:59', NULL)")
    sql(f"ALTER TABLE {name} ADD COLUMNS (z TIMESTAMP_LTZ(9), d TIME(3) DEFAULT TIME'01:02:03')")
    assert _columns(sql, name)[1:] == [
        ("t", "time(6)"),
        ("n", "timestamp_ntz(9)"),
        ("z", "timestamp_ltz(9)"),
        ("d", "time(6)"),
    ]
    sql(f"INSERT INTO {name} (id, z) VALUES (3, CAST('{moment}Z' AS TIMESTAMP_LTZ(9)))")
    assert sql(f"SELECT id, string(z) FROM {name} WHERE z = CAST('{moment}Z' AS TIMESTAMP_LTZ(9))") == [(3, moment)]
    assert sql(f"SELECT id, string(n) FROM {name} WHERE n < CAST('{moment}' AS TIMESTAMP_NTZ(9))") == [
        (1, "2020-01-01 00:00:00")
    ]
    assert sql(f"SELECT DISTINCT d FROM {name} WHERE d < TIME'12:00:00'") == [(dt.time(1, 2, 3),)]
    sql(f"DELETE FROM {name} WHERE t = TIME'12:34:56.5'")
    sql(f"DELETE FROM {name} WHERE z <= CAST('{moment}Z' AS TIMESTAMP_LTZ(9))")
    assert sql(f"SELECT id FROM {name}") == [(2,)]
    copy = f"{name}_copy"
    sql(
        f"CREATE TABLE {copy} TBLPROPERTIES ('format-version' = '3') AS"
        f" SELECT TIME'12:00:00' AS t, CAST('{moment}' AS TIMESTAMP_NTZ(9)) AS n"
    )
    assert sql(f"SELECT t, string(n) FROM {copy}") == [(dt.time(12), moment)]


def test_times_finer_than_tables_hold_are_refused(sql, spark, name):
    if spark.version < "4.3":
        pytest.skip("this Spark has not all of these types")
    with pytest.raises(InvalidSchema, match="time cannot have 9 digits"):
        sql(f"CREATE TABLE {name} (t TIME(9))")
    with pytest.raises(Unsupported, match="'n' of type timestamp_ns has the default"):
        sql(f"CREATE TABLE {name} (n TIMESTAMP_NTZ(9) DEFAULT now()) TBLPROPERTIES ('format-version' = '3')")


def test_collations_are_refused_by_name(sql, name):
    with pytest.raises(InvalidSchema, match=r"'s.t' has a collation"):
        sql(f"CREATE TABLE {name} (s STRUCT<t: STRING COLLATE UNICODE>)")


def test_a_table_goes_where_it_is_told(spark, tmp_path):
    made = frazil.connect(f"sqlite:///{tmp_path}/lake.db", warehouse=tmp_path / "warehouse")
    made.attach(spark, "placed")
    try:
        spark.sql("CREATE NAMESPACE placed.db")
        spark.sql(f"CREATE TABLE placed.db.t LOCATION '{tmp_path}/elsewhere' AS SELECT 1 AS id")
        assert made.table("db.t").location == f"{tmp_path}/elsewhere"
        spark.sql(f"ALTER TABLE placed.db.t SET LOCATION '{tmp_path}/moved'")
        assert made.table("db.t").location == f"{tmp_path}/moved"
        assert spark.table("placed.db.t").count() == 1
    finally:
        made.detach(spark, "placed")
        made.close()


def test_providers(sql, lake, name):
    sql(f"CREATE TABLE {name} (id INT) USING frazil")
    sql(f"CREATE TABLE {name}_p (id INT) USING avro")
    assert _table(lake, f"{name}_p").properties["write.format.default"] == "avro"
    with pytest.raises(Unsupported, match="USING csv"):
        sql(f"CREATE TABLE {name}_c (id INT) USING csv")


def test_format_version_and_properties_are_kept(sql, lake, name):
    sql(f"CREATE TABLE {name} (id INT) TBLPROPERTIES ('format-version' = '3', 'a' = 'b')")
    table = _table(lake, name)
    assert table.format_version == 3
    assert table.properties["a"] == "b"
    assert "provider" not in table.properties
    assert "owner" not in table.properties


# Defaults


def _insert_id(sql, spark, name, number, columns):
    """Spark 4.0 fills columns that are left out only where it is told to."""
    if spark.version.startswith("4.0"):
        sql(f"INSERT INTO {name} VALUES ({number}{', DEFAULT' * columns})")
    else:
        sql(f"INSERT INTO {name} (id) VALUES ({number})")


def test_defaults_fill_rows_old_and_new(sql, spark, name):
    sql(f"CREATE TABLE {name} (id INT) TBLPROPERTIES ('format-version' = '3')")
    sql(f"INSERT INTO {name} VALUES (1)")
    sql(f"ALTER TABLE {name} ADD COLUMN n BIGINT DEFAULT 5 + 5")
    sql(f"ALTER TABLE {name} ADD COLUMN s STRING DEFAULT 'it\\'s'")
    sql(f"ALTER TABLE {name} ADD COLUMN d DATE DEFAULT DATE '2024-02-03'")
    sql(f"ALTER TABLE {name} ADD COLUMN x DECIMAL(9,2) DEFAULT 1.5")
    _insert_id(sql, spark, name, 2, 4)
    filled = (10, "it's", dt.date(2024, 2, 3), Decimal("1.50"))
    assert sql(f"SELECT * FROM {name} ORDER BY id") == [(1, *filled), (2, *filled)]
    sql(f"ALTER TABLE {name} ALTER COLUMN n SET DEFAULT 11")
    sql(f"ALTER TABLE {name} ALTER COLUMN s DROP DEFAULT")
    _insert_id(sql, spark, name, 3, 4)
    assert sql(f"SELECT n, s FROM {name} ORDER BY id") == [(10, "it's"), (10, "it's"), (11, None)]


def test_a_new_table_has_its_defaults(sql, spark, name):
    sql(
        f"""CREATE TABLE {name} (id INT, b BOOLEAN DEFAULT true, f DOUBLE DEFAULT 1e3, ts TIMESTAMP DEFAULT
        TIMESTAMP '2024-01-01 00:00:00', raw BINARY DEFAULT X'00ff') TBLPROPERTIES ('format-version' = '3')"""
    )
    _insert_id(sql, spark, name, 1, 4)
    [row] = sql(f"SELECT b, f, ts, raw FROM {name}")
    assert row == (True, 1000.0, dt.datetime(2024, 1, 1), bytearray(b"\x00\xff"))
    sql(f"INSERT INTO {name} VALUES (2, DEFAULT, DEFAULT, NULL, NULL)")
    assert sql(f"SELECT b, f, ts FROM {name} WHERE id = 2") == [(True, 1000.0, None)]


def test_defaults_need_format_version_3(sql, name):
    with pytest.raises(FrazilError, match="format version 3"):
        sql(f"CREATE TABLE {name} (id INT DEFAULT 5) TBLPROPERTIES ('format-version' = '2')")


# Columns


def test_columns_are_added_where_they_are_wanted(sql, name):
    sql(
        f"""CREATE TABLE {name} (id INT, s STRUCT<a: INT, c: INT>, l ARRAY<STRUCT<p: INT>>,
        m MAP<STRING, STRUCT<q: INT>>)"""
    )
    sql(f"ALTER TABLE {name} ADD COLUMNS (first STRING COMMENT 'one' FIRST, second INT AFTER id)")
    sql(f"ALTER TABLE {name} ADD COLUMN s.b STRING AFTER a")
    sql(f"ALTER TABLE {name} ADD COLUMN l.element.r STRING")
    sql(f"ALTER TABLE {name} ADD COLUMN m.value.t STRING FIRST")
    assert _columns(sql, name) == [
        ("first", "string"),
        ("id", "int"),
        ("second", "int"),
        ("s", "struct<a:int,b:string,c:int>"),
        ("l", "array<struct<p:int,r:string>>"),
        ("m", "map<string,struct<t:string,q:int>>"),
    ]


def test_columns_are_renamed_moved_widened_commented_and_dropped(sql, lake, name):
    sql(f"CREATE TABLE {name} (a INT, b FLOAT, c DECIMAL(5,2), s STRUCT<x: INT, y: INT>, r STRING NOT NULL)")
    sql(f"INSERT INTO {name} VALUES (1, 2.5, 3.25, named_struct('x', 4, 'y', 5), 'r')")
    sql(f"ALTER TABLE {name} RENAME COLUMN a TO z")
    sql(f"ALTER TABLE {name} RENAME COLUMN s.x TO w")
    sql(f"ALTER TABLE {name} ALTER COLUMN z TYPE BIGINT")
    sql(f"ALTER TABLE {name} ALTER COLUMN b TYPE DOUBLE")
    sql(f"ALTER TABLE {name} ALTER COLUMN c TYPE DECIMAL(9,2)")
    sql(f"ALTER TABLE {name} ALTER COLUMN c COMMENT 'see'")
    sql(f"ALTER TABLE {name} ALTER COLUMN c FIRST")
    sql(f"ALTER TABLE {name} ALTER COLUMN z AFTER b")
    sql(f"ALTER TABLE {name} ALTER COLUMN s.y FIRST")
    sql(f"ALTER TABLE {name} ALTER COLUMN r DROP NOT NULL")
    assert _columns(sql, name) == [
        ("c", "decimal(9,2)"),
        ("b", "double"),
        ("z", "bigint"),
        ("s", "struct<y:int,w:int>"),
        ("r", "string"),
    ]
    assert sql(f"DESCRIBE {name}")[0][2] == "see"
    assert not _table(lake, name).schema.find("r").required
    assert sql(f"SELECT z, b, s.w, s.y FROM {name}") == [(1, 2.5, 4, 5)]
    sql(f"ALTER TABLE {name} DROP COLUMN s.y")
    sql(f"ALTER TABLE {name} DROP COLUMNS (b, z)")
    sql(f"ALTER TABLE {name} DROP COLUMN IF EXISTS nothing")
    assert sql(f"SELECT * FROM {name}") == [(Decimal("3.25"), (4,), "r")]


def test_a_dropped_and_added_name_is_another_column(sql, name):
    sql(f"CREATE TABLE {name} (id INT, v STRING)")
    sql(f"INSERT INTO {name} VALUES (1, 'old')")
    sql(f"ALTER TABLE {name} DROP COLUMN v")
    sql(f"ALTER TABLE {name} ADD COLUMN v STRING")
    assert sql(f"SELECT * FROM {name} WHERE v IS NULL") == [(1, None)]


def test_columns_are_replaced_as_a_whole(sql, name):
    sql(f"CREATE TABLE {name} (id INT, v STRING)")
    sql(f"ALTER TABLE {name} REPLACE COLUMNS (id INT, w BIGINT COMMENT 'new')")
    assert _columns(sql, name) == [("id", "int"), ("w", "bigint")]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER COLUMN id TYPE STRING",
        "ALTER COLUMN big TYPE INT",
        "ADD COLUMN id INT",
        "DROP COLUMN nothing",
        "RENAME COLUMN id TO big",
        "ALTER COLUMN id SET NOT NULL",
        "ALTER COLUMN nothing COMMENT 'x'",
        "DROP COLUMN part",
    ],
)
def test_changes_that_cannot_be_are_refused_and_change_nothing(sql, lake, name, change):
    sql(f"CREATE TABLE {name} (id INT, big BIGINT, part INT) PARTITIONED BY (part)")
    before = _table(lake, name).metadata_location
    with pytest.raises((AnalysisException, InvalidEvolution)):
        sql(f"ALTER TABLE {name} {change}")
    assert _table(lake, name).metadata_location == before


# Properties


def test_properties_are_set_and_unset(sql, lake, name):
    sql(f"CREATE TABLE {name} (id INT)")
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('a' = '1', 'comment' = 'told', 'read.split.target-size' = '1000000')")
    assert _table(lake, name).properties["a"] == "1"
    sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('a')")
    assert "a" not in _table(lake, name).properties
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version' = '3')")
    assert _table(lake, name).format_version == 3
    sql(f"COMMENT ON TABLE {name} IS 'another'")
    assert _table(lake, name).properties["comment"] == "another"


def test_properties_that_show_state_are_refused_with_the_statement_for_it(sql, name):
    sql(f"CREATE TABLE {name} (id INT)")
    with pytest.raises(Unsupported, match="WRITE ORDERED BY"):
        sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('sort-order' = 'id')")
    with pytest.raises(FrazilError, match=r"write\.target-file-size-bytes"):
        sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.target-file-size-bytes' = 'big')")


def test_the_current_snapshot_can_be_set_like_a_property(sql, lake, name):
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    first = _table(lake, name).current_snapshot.snapshot_id
    sql(f"INSERT INTO {name} VALUES (2)")
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('current-snapshot-id' = '{first}')")
    assert sql(f"SELECT * FROM {name}") == [(1,)]


# AS SELECT, and replacing


def test_create_as_select_and_replace_keep_what_was_told(sql, lake, name):
    sql(f"CREATE TABLE {name} PARTITIONED BY (k) TBLPROPERTIES ('p' = '1') AS SELECT id, id % 2 AS k FROM range(4)")
    table = _table(lake, name)
    assert [field.name for field in table.spec.fields] == ["k"]
    assert table.properties["p"] == "1"
    assert len(table.snapshots) == 1
    sql(f"REPLACE TABLE {name} AS SELECT id, 'x' AS v FROM range(2)")
    assert sql(f"SELECT * FROM {name} ORDER BY id") == [(0, "x"), (1, "x")]
    replaced = _table(lake, name)
    assert replaced.metadata.table_uuid == table.metadata.table_uuid
    assert len(replaced.snapshots) == 2
    sql(f"CREATE OR REPLACE TABLE {name} (other STRING) COMMENT 'empty'")
    assert sql(f"SELECT * FROM {name}") == []
    assert _columns(sql, name) == [("other", "string")]
    first = replaced.snapshots[0].snapshot_id
    assert sql(f"SELECT count(*) FROM {name} VERSION AS OF {first}") == [(4,)]


def test_data_frames_make_and_replace_tables(spark, sql, lake, name):
    from pyspark.sql.functions import col, partitioning

    frame = spark.range(6).withColumn("k", col("id") % 3)
    frame.writeTo(name).using("iceberg").partitionedBy("k").tableProperty("format-version", "3").create()
    assert _table(lake, name).format_version == 3
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        frame.writeTo(name).create()
    frame.limit(2).writeTo(name).replace()
    assert spark.table(name).count() == 2
    frame.writeTo(name).partitionedBy(partitioning.bucket(4, "id")).createOrReplace()
    assert str(_table(lake, name).spec.fields[0].transform) == "bucket[4]"
    frame.writeTo(name).append()
    assert spark.table(name).count() == 12
    frame.limit(1).write.mode("overwrite").saveAsTable(name)
    assert spark.table(name).count() == 1
    frame.limit(1).write.insertInto(name)
    frame.limit(1).write.mode("append").saveAsTable(name)
    assert spark.table(name).count() == 3


def test_inserts_by_position_by_name_and_over(spark, sql, name):
    sql(f"CREATE TABLE {name} (id INT, k STRING) PARTITIONED BY (k)")
    sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    sql(f"INSERT INTO {name} BY NAME SELECT 'd' AS k, 4 AS id")
    sql(f"INSERT INTO {name} (k, id) VALUES ('e', 5)")
    assert sql(f"SELECT * FROM {name} ORDER BY id")[3:] == [(4, "d"), (5, "e")]
    sql(f"INSERT OVERWRITE {name} PARTITION (k = 'a') SELECT 10")
    assert sql(f"SELECT id FROM {name} ORDER BY id") == [(2,), (3,), (4,), (5,), (10,)]
    sql(f"INSERT INTO {name} REPLACE WHERE id >= 4 AND k <> 'x' SELECT 20, 'z'")
    assert sql(f"SELECT id FROM {name} ORDER BY id") == [(2,), (3,), (20,)]
    spark.sql("SELECT 21 AS id, 'z' AS k").writeTo(name).overwritePartitions()
    assert sql(f"SELECT id FROM {name} ORDER BY id") == [(2,), (3,), (21,)]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        sql(f"INSERT OVERWRITE {name} SELECT 22, 'b'")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sql(f"SELECT id FROM {name} ORDER BY id") == [(3,), (21,), (22,)]
    sql(f"INSERT OVERWRITE {name} VALUES (0, 'q')")
    assert sql(f"SELECT * FROM {name}") == [(0, "q")]
    sql(f"TRUNCATE TABLE {name}")
    assert sql(f"SELECT * FROM {name}") == []


def test_bad_rows_leave_nothing_behind(sql, lake, name):
    sql(f"CREATE TABLE {name} (id INT NOT NULL, v STRING)")
    with pytest.raises(Exception, match=r"(?i)null"):
        sql(f"INSERT INTO {name} SELECT CAST(NULL AS INT), 'x'")
    with pytest.raises(AnalysisException, match="INSERT_COLUMN_ARITY_MISMATCH"):
        sql(f"INSERT INTO {name} VALUES (1)")
    with pytest.raises(AnalysisException, match="INCOMPATIBLE_DATA_FOR_TABLE"):
        sql(f"INSERT INTO {name} VALUES (array(1), 'x')")
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        sql(f"SELECT nothing FROM {name}")
    assert _table(lake, name).snapshots == ()


@pytest.mark.parametrize("odd", ["we-ird", "two words", "1st", "ünïcode", "select"])
def test_names_that_need_quotes(spark, sql, lake, name, odd):
    space = f"{name.removeprefix('lake.db.')}-{odd}"
    table = f"lake.`{space}`.`{odd}`"
    sql(f"CREATE NAMESPACE lake.`{space}`")
    sql(f"CREATE TABLE {table} (a INT)")
    sql(f"INSERT INTO {table} VALUES (1), (2), (3)")
    sql(f"ALTER TABLE {table} CREATE TAG before")
    sql(f"CACHE TABLE {table}")
    lake.table((space, odd)).append([{"a": 4}])
    assert sql(f"SELECT max(a) FROM {table}") == [(4,)]
    sql(f"UNCACHE TABLE {table}")
    sql(f"DELETE FROM {table} WHERE a = 1")
    sql(f"ALTER TABLE {table} ADD PARTITION FIELD a")
    assert sorted(sql(f"SELECT * FROM {table}")) == [(2,), (3,), (4,)]
    spark.sql("SELECT 5 AS a").writeTo(table).overwritePartitions()
    assert sorted(sql(f"SELECT * FROM {table} VERSION AS OF 'before'")) == [(1,), (2,), (3,)]
    [[tagged]] = sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'before'")
    sql(f"CALL lake.system.rollback_to_snapshot(table => '`{space}`.`{odd}`', snapshot_id => {tagged})")
    spark.range(1).selectExpr("7 AS a").write.format("frazil").mode("append").save(f"lake.`{space}`.`{odd}`")
    assert sorted(sql(f"SELECT * FROM {table}")) == [(1,), (2,), (3,), (7,)]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_failed_create_as_select_leaves_no_folder(sql, lake, name, file_format):
    with pytest.raises(Exception, match=r"no luck"):
        sql(
            f"CREATE TABLE {name} TBLPROPERTIES ('write.format.default' = '{file_format}')"
            " AS SELECT IF(id < 900, id, raise_error('no luck')) AS id FROM range(0, 1000, 1, 1)"
        )
    assert not (Path(lake.catalog.warehouse) / name.removeprefix("lake.").replace(".", "/")).exists()
