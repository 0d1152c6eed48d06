"""Tables as DataFrames without a catalog; run on a cluster too (see test_cluster.py)."""

from __future__ import annotations

import pytest

import frazil
from frazil.errors import InvalidArgument
from tests.iceberg.test_goldens import golden
from tests.spark.scan.golden_rows import rows_in_process, rows_of

DELETES = ["pos_deletes_file", "eq_and_pos_deletes", "eq_deletes_multi", "dv_history", "v2_pos_to_v3_dv"]


@pytest.mark.smoke
@pytest.mark.parametrize("case", DELETES)
def test_deletes_of_all_kinds_are_applied(spark, case):
    table = golden(case)[0]
    found = table.to_spark(spark)
    assert "Arrow" not in found._jdf.queryExecution().executedPlan().toString()  # by Spark's own reader
    assert rows_of(found) == rows_in_process(table.scan())
    assert found.count() == table.scan().count()


@pytest.mark.smoke
def test_files_that_workers_read_give_the_same_rows(spark):
    table = golden("pos_deletes_avro")[0]
    assert rows_of(table.to_spark(spark)) == rows_in_process(table.scan())


def test_where_columns_and_versions_are_as_in_a_scan(spark, lake, name):
    table = lake.create_table(name.removeprefix("lake."), "id BIGINT, `a b` STRING")
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'x'), (2, 'y')")
    first = table.refresh().current_snapshot.snapshot_id
    spark.sql(f"INSERT INTO {name} VALUES (3, 'z')")
    table.refresh()
    assert sorted(map(tuple, table.to_spark(spark).collect())) == [(1, "x"), (2, "y"), (3, "z")]
    assert table.to_spark(spark, version=first).count() == 2
    assert table.to_spark(spark, where="id > 2", columns=["a b"]).collect() == [("z",)]
    assert table.to_spark(spark, columns=["_pos", "id"], where="id = 2").collect() == [(1, 2)]
    assert table.to_spark(columns=["id"], version=first).columns == ["id"]  # the active session


def test_without_any_session_it_is_told_how_to_get_one(monkeypatch):
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    table = frazil.connect("memory:").create_table("db.t", "id INT")
    with pytest.raises(InvalidArgument, match=r"lake\.spark"):
        table.to_spark()


def test_formats_and_statements_are_for_catalogs_to_answer(spark, lake, name):
    """Frames have a bridge of their own, to which no lake is attached."""
    spark.sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    assert lake.table(name.removeprefix("lake.")).to_spark(spark).count() == 1
    bridges = spark.sparkContext._jvm.org.apache.spark.sql.connector.catalog.Frazil
    assert len(bridges.catalogs) < len(bridges.bridges)
    assert all(key in bridges.bridges for key in bridges.catalogs)
    spark.sql(f"ALTER TABLE {name} CREATE TAG first")
    assert spark.read.format("frazil").load(name).count() == 1
