"""The statements that Spark's grammar lacks: as they are read, and what they do."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import ParseException

from frazil.errors import AlreadyExists, ColumnNotFound, FrazilError, RefNotFound
from frazil.spark import grammar
from frazil.spark.grammar import (
    AddPartitionField,
    AlterColumn,
    BadStatement,
    DropPartitionField,
    DropRef,
    PutRef,
    ReplacePartitionField,
    SetIdentifierFields,
    WriteOrder,
)

DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("ADD PARTITION FIELD category", AddPartitionField("category")),
        ("ADD PARTITION FIELD bucket(16, id) AS shard", AddPartitionField("bucket(16, id)", "shard")),
        ("add partition field truncate(data, 4)", AddPartitionField("truncate(data, 4)")),
        ("ADD PARTITION FIELD days(a.`odd b`)", AddPartitionField("days(a.`odd b`)")),
        ("DROP PARTITION FIELD shard", DropPartitionField("shard")),
        ("DROP PARTITION FIELD years(ts);", DropPartitionField("years(ts)")),
        ("REPLACE PARTITION FIELD ts_day WITH hour(ts)", ReplacePartitionField("ts_day", "hour(ts)")),
        ("REPLACE PARTITION FIELD ts_day WITH hour(ts) AS h", ReplacePartitionField("ts_day", "hour(ts)", "h")),
        ("WRITE ORDERED BY category, id", WriteOrder("range", ("category", "id"))),
        (
            "WRITE ORDERED BY category ASC NULLS LAST, id DESC NULLS FIRST",
            WriteOrder("range", ("category ASC NULLS LAST", "id DESC NULLS FIRST")),
        ),
        ("WRITE ORDERED BY (bucket(4, id))", WriteOrder("range", ("bucket(4, id)",))),
        ("WRITE LOCALLY ORDERED BY id", WriteOrder(None, ("id",))),
        ("WRITE DISTRIBUTED BY PARTITION", WriteOrder("hash")),
        ("WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id", WriteOrder("hash", ("id",))),
        ("WRITE ORDERED BY id DISTRIBUTED BY PARTITION", WriteOrder("hash", ("id",))),
        ("WRITE UNORDERED", WriteOrder("none")),
        ("SET IDENTIFIER FIELDS a, b.c", SetIdentifierFields(("a", "b.c"))),
        ("CREATE BRANCH b", PutRef("branch", "b", True, False)),
        ("CREATE BRANCH IF NOT EXISTS `b 1`", PutRef("branch", "b 1", True, False, if_not_exists=True)),
        ("CREATE OR REPLACE TAG t AS OF VERSION 7", PutRef("tag", "t", True, True, snapshot_id=7)),
        ("REPLACE TAG t RETAIN 5 HOURS", PutRef("tag", "t", False, True, max_ref_age_ms=5 * 3_600_000)),
        (
            "CREATE BRANCH b AS OF VERSION 1 RETAIN 30 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS",
            PutRef("branch", "b", True, False, False, 1, 30 * DAY, 3, 2 * DAY),
        ),
        (
            "CREATE BRANCH b WITH SNAPSHOT RETENTION 3 SNAPSHOTS",
            PutRef("branch", "b", True, False, min_snapshots_to_keep=3),
        ),
        (
            "CREATE BRANCH b WITH SNAPSHOT RETENTION 10 MINUTES",
            PutRef("branch", "b", True, False, max_snapshot_age_ms=600_000),
        ),
        ("DROP BRANCH b", DropRef("branch", "b")),
        ("DROP TAG IF EXISTS t", DropRef("tag", "t", if_exists=True)),
        ("ALTER COLUMN a.b TYPE decimal(9,2) COMMENT 'x'", AlterColumn(("a", "b"), "decimal ( 9 , 2 )", "'x'")),
        ('CHANGE COLUMN s TYPE map<int, int> COMMENT "it\'s"', AlterColumn(("s",), "map < int , int >", '"it\'s"')),
    ],
)
def test_statements_are_read_as_documented(text, change):
    found = grammar.parse(f"ALTER  TABLE /* here */ lake.db.`odd t`\n {text} -- and no more")
    assert found is not None
    assert found.table == ("lake", "db", "odd t")
    assert found.change == change


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1",
        "ALTER TABLE",
        "ALTER TABLE t",
        "ALTER TABLE t ADD COLUMN x INT",
        "ALTER TABLE t ALTER COLUMN x TYPE INT",
        "ALTER TABLE t ALTER COLUMN x TYPE INT COMMENT",
        "ALTER TABLE t ALTER COLUMN x TYPE INT, y COMMENT 'z'",
        "ALTER TABLE t ALTER COLUMN x TYPE map<int, array<int>>, y COMMENT 'z'",
        "ALTER TABLE t ALTER COLUMN x COMMENT 'y'",
        "ALTER TABLE t ALTER COLUMN x SET DEFAULT 'y'",
        "ALTER TABLE t SET x",
        "DROP TAG t",
        "x ? y",
    ],
)
def test_other_texts_are_left_to_spark(text):
    assert grammar.parse(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ADD PARTITION FIELD", "end of input"),
        ("ADD PARTITION FIELD bucket(4 id)", "'id'"),
        ("REPLACE PARTITION FIELD a b", "expected WITH"),
        ("CREATE BRANCH b RETAIN 5 YEARS", "DAYS, HOURS or MINUTES"),
        ("CREATE TAG t AS OF VERSION x", "a number"),
        ("CREATE TAG t WITH SNAPSHOT RETENTION 2 DAYS", "the end"),
        ("DROP BRANCH b c", "the end"),
        ("WRITE", "ORDERED BY"),
        ("WRITE SOMEHOW", "ORDERED BY"),
        ("ALTER COLUMN x TYPE INT COMMENT y", "a text"),
        ("ALTER COLUMN x TYPE INT COMMENT 'y' FIRST", "the end"),
    ],
)
def test_statements_gone_wrong_say_where(text, expected):
    with pytest.raises(BadStatement, match=expected):
        grammar.parse(f"ALTER TABLE t {text}")


@given(st.text(alphabet="ALTERTBLDROPINFDCHWZ `(),.;0_ab\n-/*'\"é", max_size=60))
def test_no_text_breaks_the_parser(text):
    for whole in (text, f"ALTER TABLE {text}", f"ALTER TABLE t ADD PARTITION FIELD {text}"):
        with contextlib.suppress(BadStatement):
            grammar.parse(whole)


# What they do.


def _table(lake, name):
    return lake.table(name.removeprefix("lake."))


def test_partition_fields_come_and_go(sql, lake, name):
    sql(f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP, data STRING)")
    sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(16, id) AS shard")
    sql(f"ALTER TABLE {name} ADD PARTITION FIELD days(ts)")
    sql(f"ALTER TABLE {name} ADD PARTITION FIELD truncate(data, 4)")
    assert [field.name for field in _table(lake, name).spec.fields] == ["shard", "ts_day", "data_trunc_4"]
    sql(f"ALTER TABLE {name} REPLACE PARTITION FIELD ts_day WITH hours(ts)")
    sql(f"ALTER TABLE {name} DROP PARTITION FIELD shard")
    sql(f"ALTER TABLE {name} DROP PARTITION FIELD truncate(4, data)")
    assert [field.name for field in _table(lake, name).spec.fields] == ["ts_hour"]
    sql(f"INSERT INTO {name} VALUES (1, TIMESTAMP '2024-01-01 05:00:00', 'abcdef')")
    assert sql(f"SELECT id FROM {name}") == [(1,)]
    with pytest.raises(FrazilError, match="nothing"):
        sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, nothing)")


def test_write_order_and_distribution(sql, lake, name):
    sql(f"CREATE TABLE {name} (id BIGINT, category STRING)")
    sql(f"ALTER TABLE {name} WRITE ORDERED BY category ASC NULLS LAST, bucket(4, id) DESC")
    table = _table(lake, name)
    assert [str(field) for field in table.sort_order.fields] == [
        "identity(2) asc nulls-last",
        "bucket[4](1) desc nulls-last",
    ]
    assert table.properties["write.distribution-mode"] == "range"
    assert (
        dict(sql(f"SHOW TBLPROPERTIES {name}"))["sort-order"]
        == "category ASC NULLS LAST, bucket(4, id) DESC NULLS LAST"
    )
    sql(f"ALTER TABLE {name} WRITE LOCALLY ORDERED BY id")
    assert _table(lake, name).properties["write.distribution-mode"] == "range"
    sql(f"ALTER TABLE {name} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id")
    assert _table(lake, name).properties["write.distribution-mode"] == "hash"
    sql(f"ALTER TABLE {name} WRITE UNORDERED")
    table = _table(lake, name)
    assert table.sort_order.fields == ()
    assert table.properties["write.distribution-mode"] == "none"


def test_identifier_fields(sql, lake, name):
    sql(f"CREATE TABLE {name} (id BIGINT NOT NULL, k STRING NOT NULL, v STRING)")
    sql(f"ALTER TABLE {name} SET IDENTIFIER FIELDS id, k")
    assert dict(sql(f"SHOW TBLPROPERTIES {name}"))["identifier-fields"] == "[id,k]"
    sql(f"ALTER TABLE {name} DROP IDENTIFIER FIELDS k")
    assert _table(lake, name).schema.identifier_field_ids == (1,)
    with pytest.raises(ColumnNotFound, match="k is not an identifier field"):
        sql(f"ALTER TABLE {name} DROP IDENTIFIER FIELDS k")
    with pytest.raises(FrazilError, match="v"):
        sql(f"ALTER TABLE {name} SET IDENTIFIER FIELDS v")


def test_branches_and_tags(sql, lake, name):
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    sql(f"INSERT INTO {name} VALUES (2)")
    first, second = (snapshot.snapshot_id for snapshot in _table(lake, name).snapshots)
    sql(
        f"""ALTER TABLE {name} CREATE BRANCH b AS OF VERSION {first} RETAIN 7 DAYS
        WITH SNAPSHOT RETENTION 2 SNAPSHOTS 1 DAYS"""
    )
    ref = _table(lake, name).refs["b"]
    assert (ref.snapshot_id, ref.max_ref_age_ms, ref.min_snapshots_to_keep, ref.max_snapshot_age_ms) == (
        first,
        7 * DAY,
        2,
        DAY,
    )
    with pytest.raises(AlreadyExists, match="'b'"):
        sql(f"ALTER TABLE {name} CREATE BRANCH b")
    sql(f"ALTER TABLE {name} CREATE BRANCH IF NOT EXISTS b")
    assert _table(lake, name).refs["b"].snapshot_id == first
    sql(f"ALTER TABLE {name} CREATE OR REPLACE BRANCH b")
    assert _table(lake, name).refs["b"].snapshot_id == second
    assert _table(lake, name).refs["b"].min_snapshots_to_keep == 2
    sql(f"ALTER TABLE {name} CREATE TAG `v 1` RETAIN 365 DAYS")
    sql(f"ALTER TABLE {name} REPLACE TAG `v 1` AS OF VERSION {first}")
    assert sql(f"SELECT * FROM {name} VERSION AS OF 'v 1'") == [(1,)]
    with pytest.raises(RefNotFound):
        sql(f"ALTER TABLE {name} REPLACE TAG other")
    sql(f"ALTER TABLE {name} DROP TAG `v 1`")
    sql(f"ALTER TABLE {name} DROP TAG IF EXISTS `v 1`")
    with pytest.raises(RefNotFound):
        sql(f"ALTER TABLE {name} DROP BRANCH nothing")
    sql(f"ALTER TABLE {name} DROP BRANCH b")
    assert list(_table(lake, name).refs) == ["main"]


def test_a_statement_gone_wrong_is_a_parse_exception(sql, name):
    sql(f"CREATE TABLE {name} (id INT)")
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(4 id)")
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        sql(f"ALTER TABLE {name} PLEASE")
    with pytest.raises(ParseException):
        sql("SELEC 1")


def test_tables_of_other_catalogs_are_not_ours(sql, spark):
    with pytest.raises(ParseException):
        sql("ALTER TABLE spark_catalog.default.t ADD PARTITION FIELD x")
    with pytest.raises(ParseException):
        sql("ALTER TABLE t ADD PARTITION FIELD x")
