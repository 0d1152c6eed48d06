"""A lake whose catalog is a real PostgreSQL server, in Spark: statements, and writers in several processes at once."""

from __future__ import annotations

import pytest

import frazil
from frazil.errors import CatalogError
from tests.spark.programs import SMALL, start

_INSERTS = 6
_PROGRAM = f"""
import sys
import frazil
lake = frazil.connect(sys.argv[1], warehouse=sys.argv[2])
spark = lake.spark(master="local[1]", **{SMALL})
print("ready", flush=True)
sys.stdin.readline()
for number in range({_INSERTS}):
    spark.sql(f"INSERT INTO lake.db.shared VALUES ('{{sys.argv[3]}}', {{number}})")
spark.stop()
"""


@pytest.fixture
def pg_lake(spark, postgres_url, tmp_path):
    made = frazil.connect(postgres_url, warehouse=tmp_path)
    made.attach(spark, "pg")
    yield made
    made.detach(spark, "pg")
    made.close()


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_names_tables_and_rows(spark, pg_lake):
    spark.sql("CREATE NAMESPACE pg.db")
    spark.sql("CREATE TABLE pg.db.t (id BIGINT, d DATE) PARTITIONED BY (days(d)) TBLPROPERTIES ('k' = 'v')")
    spark.sql("INSERT INTO pg.db.t SELECT id, DATE'2026-11-01' FROM range(3)")
    spark.sql("ALTER TABLE pg.db.t RENAME COLUMN id TO number")
    spark.sql("ALTER TABLE pg.db.t RENAME TO pg.db.u")
    assert rows(spark.sql("SHOW TABLES IN pg.db")) == [("db", "u", False)]
    assert rows(spark.sql("SELECT number FROM pg.db.u")) == [(0,), (1,), (2,)]
    spark.sql("CREATE OR REPLACE TABLE pg.db.u AS SELECT 'other' AS only")
    assert rows(spark.table("pg.db.u")) == [("other",)]
    assert spark.sql("SELECT count(*) FROM pg.db.u.snapshots").collect() == [(2,)]
    spark.sql("DROP TABLE pg.db.u PURGE")
    spark.sql("DROP NAMESPACE pg.db")
    assert pg_lake.list_namespaces() == []


def test_rows_of_two_processes_are_all_there(spark, pg_lake, postgres_url, tmp_path):
    spark.sql("CREATE NAMESPACE pg.db")
    spark.sql(
        "CREATE TABLE pg.db.shared (who STRING, number INT)"
        " TBLPROPERTIES ('commit.retry.num-retries' = '20', 'commit.retry.min-wait-ms' = '10')"
    )
    other = start(_PROGRAM, postgres_url, str(tmp_path), "other")
    try:
        line = other.stdout.readline()
        while line and line.strip() != "ready":
            line = other.stdout.readline()
        other.stdin.write("go\n")
        other.stdin.flush()
        for number in range(_INSERTS):
            spark.sql(f"INSERT INTO pg.db.shared VALUES ('this', {number})")
        told, _ = other.communicate(timeout=120)
    finally:
        other.kill()
        other.wait()
    assert other.returncode == 0, told[-4000:]
    expected = sorted((who, number) for who in ("this", "other") for number in range(_INSERTS))
    assert rows(spark.table("pg.db.shared")) == expected
    assert len(pg_lake.table("db.shared").history) == 2 * _INSERTS


def test_a_database_that_does_not_answer_is_told_without_its_password(spark, tmp_path):
    secret = "hunter2hunter2"
    uri = f"postgresql://someone:{secret}@127.0.0.1:1/db?connect_timeout=1"
    with pytest.raises(CatalogError) as refused:
        _list_namespaces(spark, frazil.connect(uri, warehouse=tmp_path))
    assert secret not in str(refused.value)


def _list_namespaces(spark, lake):
    lake.attach(spark, "gone")
    try:
        spark.sql("SHOW NAMESPACES IN gone").collect()
    finally:
        lake.detach(spark, "gone")
