"""DELETE, TRUNCATE and REPLACE WHERE: the rows for which Spark finds the condition true, from the right branch."""

from __future__ import annotations

import pytest

_ROWS = """SELECT * FROM VALUES
    (1L, 'a', 1.5D, DATE '2024-01-01', true), (2L, 'b', CAST('NaN' AS DOUBLE), DATE '2024-02-01', false),
    (3L, NULL, NULL, NULL, NULL), (4L, 'xyz', -1.0D, DATE '2023-01-01', true),
    (NULL, 'a', 0.0D, DATE '2020-05-05', false)
    AS t(Id, v, x, d, ok)"""
CONDITIONS = [
    "Id = 2",
    "id = 2",
    "NOT (id = NULL)",
    "id = NULL",
    "NOT (x < CAST(NULL AS DOUBLE))",
    "v <> 'a' OR NOT (v = NULL)",
    "NOT x < double('NaN')",
    "x < double('NaN')",
    "NOT (x >= 0)",
    "x > 1",
    "x = double('NaN')",
    "id NOT IN (1, NULL)",
    "id IN (1, NULL)",
    "NOT (id IN (1, 2) AND v = 'a')",
    "id IN (2, 3)",
    "id NOT IN (1, 2)",
    "id BETWEEN 2 AND 3",
    "id NOT BETWEEN 2 AND 3",
    "v LIKE 'x%'",
    "NOT v LIKE 'x%'",
    "v <=> NULL",
    "NOT (v <=> NULL)",
    "v <=> 'a'",
    "ok",
    "NOT ok",
    "ok IS NOT TRUE",
    "d < current_date() - INTERVAL 500 DAYS",
    "d >= '2024-01-01'",
    "id + 0 = 2 OR TRUE",
    "1 = 2",
    "NULL",
    "id = 2.0",
    "id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)",
]


@pytest.fixture
def rows(spark, lake):
    spark.sql(_ROWS).createOrReplaceTempView("rows_to_delete")
    yield lambda where: sorted(spark.sql(f"SELECT * FROM rows_to_delete WHERE {where}").collect(), key=str)
    spark.catalog.dropTempView("rows_to_delete")


@pytest.mark.parametrize("condition", CONDITIONS)
def test_delete_takes_the_rows_that_spark_finds_it_true_for(spark, name, rows, condition):
    spark.sql(f"CREATE TABLE {name} AS SELECT * FROM rows_to_delete")
    spark.sql(f"DELETE FROM {name} WHERE {condition}")
    left = sorted(spark.table(name).collect(), key=str)
    assert str(left) == str(rows(f"({condition}) IS NOT TRUE"))


@pytest.mark.parametrize(
    "condition", ["id NOT IN (1, NULL)", "NOT (id = NULL)", "NOT x < double('NaN')", "id = 2", "ok"]
)
def test_replace_where_takes_the_same_rows(spark, name, rows, condition):
    if condition == "NOT (id = NULL)" and spark.version < "4.1":
        pytest.skip("this Spark refuses a condition that is null")
    spark.sql(f"CREATE TABLE {name} AS SELECT * FROM rows_to_delete")
    spark.sql(f"INSERT INTO {name} REPLACE WHERE {condition} SELECT * FROM rows_to_delete WHERE id = 4")
    found = sorted(spark.table(name).collect(), key=str)
    wanted = [*rows(f"({condition}) IS NOT TRUE"), *rows("id = 4")]
    assert str(found) == str(sorted(wanted, key=str))


def test_what_a_filter_cannot_say_is_deleted_too(spark, sql, name):
    spark.sql(f"CREATE TABLE {name} AS SELECT id, 'a' AS v FROM range(6)")
    for condition, left in (("id % 3 = 1", 4), ("upper(v) = 'B'", 4), ("id IN (SELECT 2L)", 3), ("rand() < 2", 0)):
        sql(f"DELETE FROM {name} WHERE {condition}")
        assert sql(f"SELECT count(*) FROM {name}") == [(left,)]


def test_replace_where_takes_filters_only(spark, sql, name):
    spark.sql(f"CREATE TABLE {name} AS SELECT 1L AS id, 'a' AS v")
    with pytest.raises(Exception, match=r"upper|Upper|filter"):
        sql(f"INSERT INTO {name} REPLACE WHERE upper(v) = 'A' SELECT 2L, 'b'")
    assert sql(f"SELECT count(*) FROM {name}") == [(1,)]


@pytest.mark.parametrize("what", ["DELETE FROM {} WHERE TRUE", "DELETE FROM {} WHERE id = 1", "TRUNCATE TABLE {}"])
def test_only_branches_lose_rows(spark, sql, name, table, what):
    spark.sql(f"CREATE TABLE {name} AS SELECT 1 AS id UNION ALL SELECT 2")
    spark.sql(f"ALTER TABLE {name} CREATE TAG v1")
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH b")
    at = table().current_snapshot.snapshot_id
    for part in ("tag_v1", f"snapshot_id_{at}", "snapshots", "files"):
        with pytest.raises(Exception, match=r"cannot be changed|UNRESOLVED_COLUMN"):
            sql(what.format(f"{name}.{part}"))
    assert sql(f"SELECT count(*) FROM {name}") == [(2,)]
    sql(what.format(f"{name}.branch_b"))
    assert sql(f"SELECT count(*) FROM {name}") == [(2,)]
    assert sql(f"SELECT count(*) FROM {name}.branch_b") == [(1 if "id = 1" in what else 0,)]


@pytest.mark.parametrize("what", ["DELETE FROM {} WHERE id = 1", "TRUNCATE TABLE {}", "INSERT OVERWRITE {} VALUES (9)"])
def test_what_is_to_be_audited_does_not_change_the_main_branch(spark, sql, name, table, what):
    spark.sql(f"CREATE TABLE {name} TBLPROPERTIES ('write.wap.enabled' = 'true') AS SELECT 1 AS id UNION ALL SELECT 2")
    before = table().current_snapshot.snapshot_id
    try:
        spark.conf.set("spark.wap.id", "audit")
        sql(what.format(name))
        spark.conf.unset("spark.wap.id")
        assert table().current_snapshot.snapshot_id == before
        [staged] = [one for one in table().snapshots if one.summary.get("wap.id") == "audit"]
        assert staged.parent_snapshot_id == before
        spark.conf.set("spark.wap.branch", "audit")
        sql(what.format(name))
    finally:
        spark.conf.unset("spark.wap.id")
        spark.conf.unset("spark.wap.branch")
    assert table().current_snapshot.snapshot_id == before
    assert sql(f"SELECT count(*) FROM {name}") == [(2,)]
    left = {"D": [(2,)], "T": [], "I": [(9,)]}[what[0]]
    assert sql(f"SELECT id FROM {name}.branch_audit") == left


def test_a_delete_that_finds_nothing_makes_no_snapshot(spark, sql, name, table):
    spark.sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    before = table().current_snapshot.snapshot_id
    sql(f"DELETE FROM {name} WHERE id = 7")
    sql(f"DELETE FROM {name} WHERE FALSE")
    assert table().current_snapshot.snapshot_id == before
    sql(f"DELETE FROM {name} WHERE id = 1")
    summary = table().current_snapshot.summary
    assert (summary["operation"], summary["deleted-records"]) == ("delete", "1")
    assert summary["engine-name"] == "spark"
