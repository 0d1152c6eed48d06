"""Both engines on one table: each reads what the other wrote, shows the same metadata, and goes on from there."""

from __future__ import annotations

import pytest

from frazil.lake import Lake
from tests.interop.java.conftest import Sql

SIDES = [("java", "lake"), ("lake", "java")]
COLUMNS = """
    id BIGINT NOT NULL, b BOOLEAN, i INT, f FLOAT, d DOUBLE, d9 DECIMAL(9, 2), d38 DECIMAL(38, 10), day DATE,
    ts TIMESTAMP, tn TIMESTAMP_NTZ, s STRING, x BINARY,
    st STRUCT<a: INT, b: STRUCT<c: STRING>>, l ARRAY<INT>, ls ARRAY<STRUCT<k: STRING, v: DOUBLE>>, m MAP<STRING, INT>
"""
VALUES = """
    (1, true, 34, 1.5F, 1.1D, 14.20, 1.0000000000, DATE '2017-11-16', TIMESTAMP '2017-11-16 22:31:08.000001Z',
     TIMESTAMP_NTZ '2017-11-16 22:31:08.000001', 'iceberg', X'00010203',
     named_struct('a', 1, 'b', named_struct('c', 'x')),
     array(1, NULL, 3), array(named_struct('k', 'k', 'v', 0.5D)), map('a', 1, 'b', NULL)),
    (2, false, -2147483648, float('NaN'), double('-Infinity'), -9999999.95, -1234567890123456789012345678.0123456789,
     DATE '1969-12-31', TIMESTAMP '1900-01-01 00:00:00Z', TIMESTAMP_NTZ '1969-12-31 23:59:58', '', X'',
     named_struct('a', NULL, 'b', NULL), array(), array(NULL), map()),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""
TRANSFORMS = [
    "", "b", "i", "d9", "day", "s", "x", "ts", "tn", "st.a", "bucket(4, i)", "bucket(4, s)", "bucket(4, d9)",
    "bucket(4, x)", "bucket(4, day)", "bucket(4, ts)", "truncate(3, i)", "truncate(2, s)", "truncate(5, d9)",
    "years(ts)", "months(tn)", "days(ts)", "hours(tn)", "days(day)", "bucket(4, id), days(ts), s",
]  # fmt: skip
CONDITIONS = [
    "i = 34", "s = ''", "day < DATE '1970-01-01'", "ts > TIMESTAMP '2000-01-01'", "b IS NULL", "d9 < 0", "x = X''",
]  # fmt: skip
METADATA_TABLES = [
    "history", "metadata_log_entries", "snapshots", "entries", "files", "data_files", "delete_files", "manifests",
    "partitions", "position_deletes", "all_data_files", "all_delete_files", "all_files", "all_entries",
    "all_manifests", "refs",
]  # fmt: skip


def make(sql: Sql, side: str, name: str, version: int, by: str = "", **properties: str) -> None:
    told = {"format-version": str(version), **properties}
    listed = ", ".join(f"'{key}' = '{text}'" for key, text in told.items())
    partitions = f"PARTITIONED BY ({by})" if by else ""
    sql(f"CREATE TABLE {side}.{name} ({COLUMNS}) USING iceberg {partitions} TBLPROPERTIES ({listed})")
    sql(f"INSERT INTO {side}.{name} VALUES {VALUES}")


def agree(sql: Sql, lake: Lake, name: str) -> list[object]:
    """The rows of the table, which must be the same by Java, by both ways of ours in Spark, and in-process."""
    theirs = sql(f"SELECT * FROM java.{name}")
    for way in ("auto", "arrow"):
        assert sql(f"SELECT * FROM lake.{name} WITH (`frazil.scan` = '{way}')") == theirs, way
    assert lake.table(name).scan().count() == len(theirs)
    return list(theirs)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(("writer", "other"), SIDES)
def test_every_type_and_the_other_appends(
    sql: Sql, lake: Lake, name: str, writer: str, other: str, version: int
) -> None:
    make(sql, writer, name, version)
    assert len(agree(sql, lake, name)) == 3
    sql(f"INSERT INTO {other}.{name} VALUES {VALUES}")
    sql(f"INSERT INTO {writer}.{name} SELECT * FROM {other}.{name}")
    assert len(agree(sql, lake, name)) == 12


@pytest.mark.parametrize("by", TRANSFORMS[1:])
@pytest.mark.parametrize(("writer", "other"), SIDES)
def test_every_transform(sql: Sql, lake: Lake, name: str, writer: str, other: str, by: str) -> None:
    make(sql, writer, name, 2, by)
    sql(f"INSERT INTO {other}.{name} VALUES {VALUES}")
    rows = agree(sql, lake, name)
    assert len(rows) == 6
    partitions = "SELECT partition, record_count, file_count FROM {}.{}.partitions"
    assert sql(partitions.format("java", name)) == sql(partitions.format("lake", name))
    # the other side's rows went into the writer's partitions: every count is even
    assert all(row[1] % 2 == 0 for row in sql(partitions.format("java", name)))
    for condition in (
        "i = 34",
        "s = ''",
        "day < DATE '1970-01-01'",
        "ts > TIMESTAMP '2000-01-01'",
        "b IS NULL",
        "d9 < 0",
        "x = X''",
    ):
        question = f"SELECT id FROM {{}}.{name} WHERE {condition}"
        assert sql(question.format("java")) == sql(question.format("lake")), condition


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(("writer", "other"), SIDES)
def test_metadata_tables_show_the_same(sql: Sql, lake: Lake, name: str, writer: str, other: str, version: int) -> None:
    make(sql, writer, name, version, "bucket(2, id), s")
    sql(f"INSERT OVERWRITE {other}.{name} SELECT * FROM {other}.{name} WHERE id < 3")
    sql(f"ALTER TABLE {writer}.{name} CREATE TAG first")
    sql(f"ALTER TABLE {other}.{name} ADD PARTITION FIELD days(ts)")
    sql(f"INSERT INTO {writer}.{name} VALUES {VALUES}")
    for table in METADATA_TABLES:
        theirs, ours = (sql(f"SELECT * FROM {side}.{name}.{table}") for side in ("java", "lake"))
        assert ours == theirs, table


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(("writer", "other"), SIDES)
def test_evolution_by_turns(sql: Sql, lake: Lake, name: str, writer: str, other: str, version: int) -> None:
    make(sql, writer, name, version, "days(ts)")
    sql(f"ALTER TABLE {other}.{name} ADD COLUMN added STRING")
    sql(f"ALTER TABLE {other}.{name} ALTER COLUMN i TYPE BIGINT")
    sql(f"ALTER TABLE {writer}.{name} RENAME COLUMN s TO renamed")
    sql(f"ALTER TABLE {writer}.{name} DROP COLUMN x")
    sql(f"ALTER TABLE {other}.{name} ADD COLUMN s INT FIRST")
    sql(f"ALTER TABLE {other}.{name} REPLACE PARTITION FIELD days(ts) WITH months(ts)")
    sql(f"ALTER TABLE {writer}.{name} WRITE ORDERED BY renamed DESC NULLS LAST, id")
    for side in (writer, other):
        values = f"7L AS id, 5000000000 AS i, '{side}' AS renamed, 1 AS s, 'a' AS added"
        sql(f"INSERT INTO {side}.{name} BY NAME SELECT {values}")
    rows = agree(sql, lake, name)
    assert len(rows) == 5
    described = [sql(f"SHOW TBLPROPERTIES {side}.{name}('sort-order')") for side in ("java", "lake")]
    assert described[0] == described[1]


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_java_deletes_and_changes_are_gone_for_us(sql: Sql, lake: Lake, name: str, version: int) -> None:
    modes = {f"write.{command}.mode": "merge-on-read" for command in ("delete", "update", "merge")}
    make(sql, "java", name, version, "s", **modes)
    sql(f"INSERT INTO lake.{name} (id, i, s) SELECT id, CAST(id AS INT), 'iceberg' FROM range(100, 1100)")
    sql(f"DELETE FROM java.{name} WHERE id % 3 = 0")
    sql(f"UPDATE java.{name} SET i = -1 WHERE id % 7 = 0")
    sql(f"""MERGE INTO java.{name} t USING (SELECT id FROM range(1000, 1200)) s ON t.id = s.id
            WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, 'new')""")
    agree(sql, lake, name)
    if version == 3:
        lineage = f"SELECT id, _row_id, _last_updated_sequence_number FROM {{}}.{name}"
        assert sql(lineage.format("java")) == sql(lineage.format("lake"))
    for snapshot in lake.table(name).snapshots:
        question = f"SELECT * FROM {{}}.{name} VERSION AS OF {snapshot.snapshot_id}"
        assert sql(question.format("java")) == sql(question.format("lake"))


@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("version", [2, 3])
def test_rows_deleted_in_turns(sql: Sql, lake: Lake, name: str, version: int, granularity: str) -> None:
    """Each takes in what the other deleted of the same files; in the end, of one partition, everything."""
    properties = {"write.delete.mode": "merge-on-read", "write.delete.granularity": granularity}
    make(sql, "java", name, version, "s", **properties)
    sql(f"INSERT INTO java.{name} (id, i, s) SELECT id, CAST(id AS INT), 'iceberg' FROM range(100, 1100)")
    for ours, java in (("id IN (103, 500, 1099)", "id % 7 = 0"), ("id < 600", "id % 11 = 0"), ("id < 700", "id = 702")):
        lake.table(name).delete(f"id >= 100 AND {ours}")
        agree(sql, lake, name)
        sql(f"DELETE FROM java.{name} WHERE id >= 100 AND {java}")
        agree(sql, lake, name)
    left = {number for number in range(700, 1100) if number % 7 and number % 11} - {702, 1099}
    assert {row[0] for row in agree(sql, lake, name)} == {1, 2, 3} | left
    lake.table(name).delete("id >= 100")
    assert len(agree(sql, lake, name)) == 3


@pytest.mark.parametrize("fmt", ["orc", "avro"])
@pytest.mark.parametrize(("writer", "other"), SIDES)
def test_other_file_formats(sql: Sql, lake: Lake, name: str, writer: str, other: str, fmt: str) -> None:
    make(sql, writer, name, 2, "bucket(2, id)", **{"write.format.default": fmt})
    sql(f"INSERT INTO {other}.{name} VALUES {VALUES}")
    assert len(agree(sql, lake, name)) == 6
    formats = sql(f"SELECT DISTINCT file_format FROM java.{name}.files")
    assert formats == [(fmt.upper(),)]


@pytest.mark.parametrize(("writer", "other"), SIDES)
def test_variants_and_defaults(sql: Sql, lake: Lake, name: str, writer: str, other: str) -> None:
    sql(f"CREATE TABLE {writer}.{name} (id BIGINT, v VARIANT) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    for side in (writer, other):
        sql(f"""INSERT INTO {side}.{name} VALUES (1, parse_json('{{"a": [1, 2.5, null], "b": {{"c": true}}}}')),
                (2, parse_json('"text"')), (3, NULL)""")
    question = f"SELECT id, to_json(v) FROM {{}}.{name}"
    assert sql(question.format("java")) == sql(question.format("lake"))
    assert len(sql(question.format("java"))) == 6


@pytest.mark.parametrize(("writer", "other"), SIDES)
def test_branches_and_tags(sql: Sql, lake: Lake, name: str, writer: str, other: str) -> None:
    make(sql, writer, name, 2)
    sql(f"ALTER TABLE {writer}.{name} CREATE BRANCH trial RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS")
    sql(f"ALTER TABLE {other}.{name} CREATE TAG kept RETAIN 30 DAYS")
    sql(f"INSERT INTO {other}.{name}.branch_trial VALUES {VALUES}")
    for ref, count in (("branch_trial", 6), ("tag_kept", 3)):
        rows = [sql(f"SELECT * FROM {side}.{name}.{ref}") for side in ("java", "lake")]
        assert rows[0] == rows[1]
        assert len(rows[0]) == count
    refs = [sql(f"SELECT * FROM {side}.{name}.refs") for side in ("java", "lake")]
    assert refs[0] == refs[1]
