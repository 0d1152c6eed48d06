"""The traps that the first experiments fell into (shared/spikes/SQL.md, section 5, by number; SCAN.md C and D)."""

from __future__ import annotations

import pytest

from frazil.spark import jvm as classes
from frazil.spark.attach import bridge_of


def test_1_explaining_a_command_does_not_carry_it_out(spark, sql, name):
    sql(f"CREATE TABLE {name} AS SELECT id FROM range(3)")
    spark.sql(f"EXPLAIN DELETE FROM {name} WHERE id = 1").collect()
    spark.sql(f"EXPLAIN INSERT INTO {name} VALUES (9)").collect()
    assert sql(f"SELECT count(*) FROM {name}") == [(3,)]


def test_1_a_command_runs_once_whatever_is_done_with_its_frame(spark, sql, name):
    sql(f"CREATE TABLE {name} (id INT)")
    frame = spark.sql(f"INSERT INTO {name} VALUES (1)")
    frame.collect()
    frame.count()
    assert sql(f"SELECT * FROM {name}") == [(1,)]


def test_1_procedures_are_called_with_named_and_default_arguments(sql, name, lake):
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    short = name.removeprefix("lake.")
    first = lake.table(short).current_snapshot.snapshot_id
    sql(f"INSERT INTO {name} VALUES (2)")
    second = lake.table(short).current_snapshot.snapshot_id
    assert sql(f"CALL lake.system.rollback_to_snapshot('{short}', {first})") == [(second, first)]
    assert sql(f"SELECT * FROM {name}") == [(1,)]
    assert sql(f"CALL lake.system.set_current_snapshot(table => '{name}', snapshot_id => {second})") == [
        (first, second)
    ]
    assert [row[0] for row in sql(f"CALL lake.system.ancestors_of(table => '{short}')")] == [second, first]
    sql(f"ALTER TABLE {name} CREATE BRANCH side AS OF VERSION {first}")
    assert sql(f"CALL lake.system.fast_forward(table => '{short}', branch => 'side', to => 'main')") == [
        ("side", first, second)
    ]
    sql(f"CACHE TABLE {name}")
    sql(f"CALL lake.system.rollback_to_snapshot(table => '{short}', snapshot_id => {first})")
    assert sql(f"SELECT * FROM {name}") == [(1,)]
    sql(f"UNCACHE TABLE {name}")


def test_2_a_cached_table_is_still_deleted_from(sql, name):
    sql(f"CREATE TABLE {name} AS SELECT id FROM range(9)")
    sql(f"CACHE TABLE {name}")
    try:
        assert sql(f"SELECT count(*) FROM {name}") == [(9,)]
        sql(f"DELETE FROM {name} WHERE id = 3")
        assert sql(f"SELECT count(*) FROM {name}") == [(8,)]
    finally:
        sql(f"UNCACHE TABLE {name}")


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("DELETE FROM {t} WHERE id >= 7", 7),
        ("INSERT INTO {t} VALUES (100)", 10),
        ("INSERT OVERWRITE {t} VALUES (1)", 1),
        ("TRUNCATE TABLE {t}", 0),
        ("ALTER TABLE {t} CREATE OR REPLACE BRANCH main AS OF VERSION {first}", 4),
        ("REPLACE TABLE {t} AS SELECT 5L AS id", 1),
    ],
)
def test_3_no_cache_goes_stale(spark, sql, name, lake, change, left):
    sql(f"CREATE TABLE {name} AS SELECT id FROM range(4)")
    first = lake.table(name.removeprefix("lake.")).current_snapshot.snapshot_id
    sql(f"INSERT INTO {name} SELECT id + 4 FROM range(5)")
    sql(f"CACHE TABLE {name}")
    cached = spark.table(name).filter("id >= 0").cache()
    try:
        assert cached.count() == 9
        sql(change.format(t=name, first=first))
        assert sql(f"SELECT count(*) FROM {name}") == [(left,)]
        assert spark.table(name).filter("id >= 0").count() == left
    finally:
        cached.unpersist()
        sql(f"UNCACHE TABLE IF EXISTS {name}")


def test_4_a_table_may_be_replaced_by_a_query_of_itself(sql, name):
    sql(f"CREATE TABLE {name} AS SELECT id FROM range(6)")
    sql(f"CREATE OR REPLACE TABLE {name} AS SELECT id, id * 2 AS twice FROM {name} WHERE id > 2")
    assert sql(f"SELECT * FROM {name} ORDER BY id") == [(3, 6), (4, 8), (5, 10)]


def test_4_a_failed_replacement_leaves_the_table_and_a_failed_creation_none(spark, sql, name, lake):
    sql(f"CREATE TABLE {name} AS SELECT id FROM range(6)")
    with pytest.raises(Exception, match="boom"):
        sql(f"CREATE OR REPLACE TABLE {name} AS SELECT CAST(raise_error('boom') AS INT) AS x FROM range(2)")
    assert sql(f"SELECT count(*) FROM {name}") == [(6,)]
    with pytest.raises(Exception, match="boom"):
        sql(f"CREATE TABLE {name}_2 AS SELECT CAST(raise_error('boom') AS INT) AS x FROM range(2)")
    assert not lake.table_exists(f"{name}_2".removeprefix("lake."))
    assert bridge_of(spark).tables._staged == {}


def test_5_partitions_are_overwritten_dynamically(spark, sql, name):
    sql(f"CREATE TABLE {name} PARTITIONED BY (k) AS SELECT id, id % 3 AS k FROM range(9)")
    spark.sql("SELECT 100L AS id, 1L AS k").writeTo(name).overwritePartitions()
    assert sql(f"SELECT k, count(*) FROM {name} GROUP BY k ORDER BY k") == [(0, 3), (1, 1), (2, 3)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {t} SET v = IF(id = 1, CAST(raise_error('boom') AS BIGINT), 1)",
        (
            "MERGE INTO {t} t USING"
            " (SELECT id, IF(id = 1, CAST(raise_error('boom') AS BIGINT), 1) AS v FROM range(2)) s"
            " ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
        ),
        "DELETE FROM {t} WHERE IF(id = 1, CAST(raise_error('boom') AS BOOLEAN), TRUE)",
    ],
)
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_6_row_level_commands_that_fail_do_nothing(sql, name, statement, mode):
    modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    sql(f"CREATE TABLE {name} TBLPROPERTIES ({modes}) AS SELECT id, id AS v FROM range(3)")
    with pytest.raises(Exception, match="boom"):
        sql(statement.format(t=name))
    assert sql(f"SELECT * FROM {name} ORDER BY id") == [(0, 0), (1, 1), (2, 2)]


def test_7_no_class_lacks_a_method_or_has_two_defaults_for_one(spark, lake):
    jvm = spark.sparkContext._jvm
    modifier = jvm.java.lang.reflect.Modifier
    loader = jvm.java.lang.Class.forName(classes.ANCHOR).getClassLoader()
    for name in classes.definition_order(classes.sources().values()):
        found = jvm.java.lang.Class.forName(f"{classes.PACKAGE}.{name}", True, loader)
        if modifier.isAbstract(found.getModifiers()):
            continue
        seen: dict[str, str] = {}
        for method in found.getMethods():
            if modifier.isStatic(method.getModifiers()):
                continue
            text = method.toString()
            assert not modifier.isAbstract(method.getModifiers()), f"{name} lacks {text}"
            if method.isDefault():
                types = ",".join(kind.getName() for kind in method.getParameterTypes())
                signature = f"{method.getReturnType().getName()} {method.getName()}({types})"
                assert seen.setdefault(signature, text) == text, f"{name} has two defaults for {signature}"


def test_8_numbers_cross_the_bridge_whole(sql, name, lake):
    """Snapshot ids have 63 bits: never through a float, and py4j sends small ones as another type."""
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    snapshot = lake.table(name.removeprefix("lake.")).current_snapshot
    assert sql(f"SELECT count(*) FROM {name} VERSION AS OF {snapshot.snapshot_id}") == [(1,)]
    assert sql(f"SELECT count(*) FROM {name}.snapshot_id_{snapshot.snapshot_id}") == [(1,)]
    assert sql(f"CALL lake.system.ancestors_of('{name}', {snapshot.snapshot_id})")[0][0] == snapshot.snapshot_id


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("s = 'it\\'s'", ["\\ back", "x\ny"]),
        ("startswith(s, 'x')", ["it's", "\\ back"]),
        ("s IN ('it\\'s', 'x\\ny')", ["\\ back"]),
        ("s IS NOT NULL AND NOT (s = 'it\\'s')", ["it's"]),
        ("d = 1.50", ["\\ back", "x\ny"]),
        ("day = DATE '2024-01-02' OR f > 2", ["it's"]),
        ("b = X'0001'", ["\\ back", "x\ny"]),
        ("f = double('NaN')", ["it's", "\\ back"]),
        ("f >= 1", ["it's"]),
    ],
)
def test_9_conditions_are_walked_not_read_as_text(sql, name, where, left):
    sql(f"CREATE TABLE {name} (s STRING, d DECIMAL(5,2), day DATE, b BINARY, f DOUBLE)")
    sql(
        f"""INSERT INTO {name} VALUES ('it\\'s', 1.5, DATE '2024-01-01', X'0001', 0),
        ('\\\\ back', 2.5, DATE '2024-01-02', X'00', 1), ('x\\ny', NULL, NULL, NULL, double('NaN'))"""
    )
    sql(f"CREATE TABLE {name}_2 AS SELECT * FROM {name}")
    sql(f"DELETE FROM {name} WHERE {where}")
    assert sorted(row[0] for row in sql(f"SELECT s FROM {name}")) == sorted(left)
    sql(f"INSERT INTO {name}_2 REPLACE WHERE {where} SELECT * FROM {name}_2 WHERE false")
    assert sorted(row[0] for row in sql(f"SELECT s FROM {name}_2")) == sorted(left)


def test_10_the_private_fields_are_set_once_for_all_lakes(spark, lake, tmp_path):
    import frazil

    state = spark._jsparkSession.sessionState()

    def ours():
        rules = state.analyzer().postHocResolutionRules()
        names = [rules.apply(at).getClass().getSimpleName() for at in range(rules.size())]
        return names.count("FrazilRule")

    assert ours() == 1
    other = frazil.connect(tmp_path)
    other.attach(spark, "other")
    try:
        assert ours() == 1
    finally:
        other.detach(spark, "other")
    parser = state.sqlParser()
    assert not spark.sparkContext._jvm.org.apache.spark.sql.connector.catalog.FrazilParser.wraps(
        spark.sparkContext._jvm.org.apache.spark.sql.connector.catalog.FrazilParser.under(parser)
    )


def test_equal_scans_are_equal_to_spark_and_others_are_not(spark, sql, name, lake):
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")

    def handle(text):
        plan = spark.sql(text)._jdf.queryExecution().analyzed()
        relation = plan.collectLeaves().apply(0)
        return relation.table()

    plain = handle(f"SELECT * FROM {name}")
    assert plain.equals(handle(f"SELECT * FROM {name}"))
    assert plain.hashCode() == handle(f"SELECT * FROM {name}").hashCode()
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('a' = 'b')")
    assert plain.equals(handle(f"SELECT * FROM {name}"))
    sql(f"INSERT INTO {name} VALUES (2)")
    assert not plain.equals(handle(f"SELECT * FROM {name}"))


def test_a_handle_that_was_let_go_is_made_again(spark, sql, name):
    """A DataFrame may be older than the tables that are kept."""
    sql(f"CREATE TABLE {name} AS SELECT id FROM range(3)")
    frame = spark.table(name)
    tables = bridge_of(spark).tables
    tables._recent.clear()
    assert frame.count() == 3
    assert len(tables._recent) > 0


def test_views_see_the_newest_rows_or_those_they_were_made_with(spark, sql, name):
    sql(f"CREATE TABLE {name} AS SELECT id FROM range(6)")
    sql(f"CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM {name}")
    sql(f"INSERT INTO {name} VALUES (6)")
    assert sql("SELECT count(*) FROM v") == [(7,)]
    sql("DROP VIEW v")
