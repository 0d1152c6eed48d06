"""The engine at work, from rows in to rows out: what must hold on a cluster as it does in one process."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.smoke


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("writer", ["native", "arrow"])
def test_what_is_written_is_read(spark, lake, name, writer):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING, p INT) PARTITIONED BY (p, bucket(4, id))")
    data = spark.range(0, 1000, 1, 4).selectExpr("id", "cast(id AS STRING) AS s", "cast(id % 3 AS INT) AS p")
    data.writeTo(name).option("frazil.write", writer).append()
    table = lake.table(name.removeprefix("lake."))
    files = list(table.scan().plan().tasks())
    assert len(files) == 12
    assert sum(task.file.record_count for task in files) == 1000
    expected = [(number, str(number), number % 3) for number in range(1000)]
    for reader in ("native", "arrow"):
        frame = spark.read.option("frazil.scan", reader).table(name)
        assert rows(frame) == expected
        assert rows(frame.where("p = 1 AND id BETWEEN 500 AND 520")) == [
            row for row in expected if row[2] == 1 and 500 <= row[0] <= 520
        ]
        assert frame.where("s LIKE '99%'").count() == 11
        assert frame.selectExpr("sum(id)").collect() == [(499500,)]


def test_rows_go_by_every_statement(spark, lake, name):
    spark.sql(
        f"CREATE TABLE {name} PARTITIONED BY (p) TBLPROPERTIES ('format-version' = '3') AS"
        " SELECT id, id % 2 AS p FROM range(10)"
    )
    first = lake.table(name.removeprefix("lake.")).current_snapshot.snapshot_id
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    spark.sql(f"INSERT OVERWRITE {name} PARTITION (p = 0) SELECT id + 100 FROM range(2)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN note STRING DEFAULT 'none'")
    assert rows(spark.table(name)) == sorted(
        [(100, 0, "none"), (101, 0, "none"), *((number, 1, "none") for number in (1, 5, 7, 9))]
    )
    assert spark.sql(f"SELECT count(*) FROM {name} VERSION AS OF {first}").collect() == [(10,)]
    joined = spark.sql(f"SELECT a.id FROM {name} a JOIN {name} b ON a.id = b.id + 1")
    assert rows(joined) == [(101,)]
    assert spark.sql(f"SELECT sum(record_count) FROM {name}.files").collect() == [(6,)]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_changed_by_every_command(spark, name, version, mode):
    modes = ", ".join(f"'write.{command}.mode' = '{mode}'" for command in ("delete", "update", "merge"))
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, v INT, s STRUCT<a: INT NOT NULL>)"
        f" TBLPROPERTIES ('format-version' = '{version}', {modes})"
    )
    spark.sql(f"INSERT INTO {name} SELECT id, 0, named_struct('a', 1) FROM range(0, 40, 1, 4)")
    spark.sql(f"DELETE FROM {name} WHERE id % 4 = 3")
    spark.sql(f"UPDATE {name} SET v = 1 WHERE id % 4 = 2")
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT id * 2 AS id FROM range(25)) s ON t.id = s.id"
        " WHEN MATCHED AND t.v = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 2"
        " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 3)"
    )
    untouched = [(number, 0, 1) for number in range(1, 40, 4)]
    updated = [(number, 2, 1) for number in range(0, 40, 4)]
    inserted = [(number, 3, None) for number in range(40, 50, 2)]
    assert rows(spark.table(name).selectExpr("id", "v", "s.a")) == sorted(untouched + updated + inserted)
