"""What the optimizer knows of a table, and what it makes of it: joins, pruned partitions, inferred filters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from frazil.iceberg.statistics import BlobMetadata, StatisticsFile
from frazil.iceberg.table import IcebergTable
from tests.spark.scan.metrics import files_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.lake import Lake

_NUMBERS = itertools.count(1)
ROWS = 2_000


@pytest.fixture(scope="module")
def facts(lake: Lake) -> IcebergTable:
    """Ten files of 200 rows, one for each `p`; larger than what the tests allow to be broadcast."""
    table = lake.create_table("db.facts", "id BIGINT, p INT, k BIGINT, pad STRING", partition_by=["p"])
    numbers = list(range(ROWS))
    table.append(
        pa.table(
            {
                "id": numbers,
                "p": pa.array([number // 200 for number in numbers], pa.int32()),
                "k": [number % 50 for number in numbers],
                "pad": [f"{number * 7919 % 1_000_003:020d}" * 3 for number in numbers],
            }
        )
    )
    return table


@pytest.fixture(scope="module")
def choices(lake: Lake) -> IcebergTable:
    table = lake.create_table("db.choices", "p INT, wanted STRING")
    table.append([{"p": number, "wanted": f"w{number}"} for number in range(10)])
    return table


@contextmanager
def settings(spark: SparkSession, **texts: str) -> Iterator[None]:
    named = {f"spark.sql.{key.replace('__', '.')}": text for key, text in texts.items()}
    for key, text in named.items():
        spark.conf.set(key, text)
    try:
        yield
    finally:
        for key in named:
            spark.conf.unset(key)


def total_bytes(table: IcebergTable) -> int:
    return table.scan().plan().total_bytes


def cost(frame: DataFrame) -> str:
    jvm: Any = frame.sparkSession.sparkContext._jvm
    mode = jvm.org.apache.spark.sql.execution.ExplainMode.fromString("cost")
    return str(frame._jdf.queryExecution().explainString(mode))


def plan_of(frame: DataFrame) -> str:
    frame.collect()
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_explain_cost_tells_bytes_and_rows(facts: IcebergTable, spark: SparkSession) -> None:
    frame = spark.table("lake.db.facts")
    assert f"sizeInBytes={total_bytes(facts) / 1024:.1f} KiB" in cost(frame)
    with settings(spark, cbo__enabled="true"):
        assert "rowCount=2.00E+3" in cost(spark.table("lake.db.facts"))


@pytest.mark.parametrize("mode", ["native", "arrow"])
def test_a_small_table_is_broadcast_and_a_large_one_is_not(
    facts: IcebergTable, choices: IcebergTable, spark: SparkSession, mode: str
) -> None:
    limit = str(total_bytes(choices) * 2)
    assert total_bytes(facts) > int(limit)
    with settings(spark, autoBroadcastJoinThreshold=limit, adaptive__enabled="false"):
        small = spark.read.option("frazil.scan", mode).table("lake.db.choices")
        large = spark.read.option("frazil.scan", mode).table("lake.db.facts")
        assert "BroadcastHashJoin" in plan_of(large.join(small, "p").select("id", "wanted"))
        alike = large.join(spark.table("lake.db.facts").selectExpr("id", "k AS other"), "id").selectExpr("sum(other)")
        assert "SortMergeJoin" in plan_of(alike)


@pytest.mark.parametrize("mode", ["native", "arrow"])
def test_a_large_table_of_which_filters_leave_little_is_broadcast(
    facts: IcebergTable, spark: SparkSession, mode: str
) -> None:
    limit = str(total_bytes(facts) // 4)
    with settings(spark, autoBroadcastJoinThreshold=limit, adaptive__enabled="false"):
        table = spark.read.option("frazil.scan", mode).table("lake.db.facts")
        left, right = table.selectExpr("id", "pad AS xp", "p"), table.selectExpr("id", "pad AS yp")
        assert "SortMergeJoin" in plan_of(left.join(right, "id").selectExpr("max(xp)", "max(yp)"))
        for condition in ("p = 3", "id < 150"):  # a partition, a bound
            some = left.filter(condition).join(right, "id").selectExpr("count(*)", "max(xp)", "max(yp)")
            assert "BroadcastHashJoin" in plan_of(some)
            assert some.collect()[0][0] == (200 if condition == "p = 3" else 150)


# Columns


def test_columns_have_bounds_nulls_and_distinct_values_where_costs_are_reckoned(
    lake: Lake, spark: SparkSession
) -> None:
    table = lake.create_table("db.known", "a BIGINT, d DATE, z TIMESTAMPTZ, f DOUBLE, s STRING, o BOOLEAN, gone BIGINT")
    table.append([{"a": number, "f": number / 2, "s": f"s{number}", "o": number > 5} for number in range(100)])
    table.append([{"a": None, "d": "2020-02-29", "z": "2020-01-01T00:00:00.123456+00:00", "f": float("inf")}])
    snapshot = table.current_snapshot
    assert snapshot is not None
    blobs = tuple(
        BlobMetadata("apache-datasketches-theta-v1", snapshot.snapshot_id, 2, (number,), {"ndv": ndv})
        for number, ndv in ((1, "90"), (5, "1000000"), (6, "many"))
    )
    table.update_statistics().set_statistics(
        StatisticsFile(snapshot.snapshot_id, f"{table.location}/metadata/none.stats", 10, 5, blobs)
    ).commit()
    table.update_schema().drop_column("gone").rename_column("a", "b").commit()
    with settings(spark, cbo__enabled="true"):
        plan = spark.table("lake.db.known")._jdf.queryExecution().optimizedPlan()
        attributes, known = plan.output(), plan.stats().attributeStats()
        found = {}
        for index in range(attributes.size()):
            one = known.get(attributes.apply(index))
            if one.isDefined():
                stat = one.get()
                members = (stat.distinctCount(), stat.min(), stat.max(), stat.nullCount())
                found[attributes.apply(index).name()] = tuple(
                    str(member.get()) if member.isDefined() else None for member in members
                )
        assert found["b"] == ("90", "0", "99", "1")
        assert found["s"] == ("101", None, None, "1")  # not more than there are rows
        assert found["d"] == (None, "18321", "18321", "100")
        assert found["z"] == (None, "1577836800123456", "1577836800123456", "100")
        assert found["f"] == (None, None, None, "0")
        assert found["o"] == (None, "False", "True", "1")
        # and it reckons with them
        for condition in (
            "b = 5",
            "b > 90",
            "d = date'2020-02-29'",
            "o",
            "f > 3",
            "s = 's7'",
            "z IS NULL",
            "b IN (1, 2)",
        ):
            spark.table("lake.db.known").filter(condition).count()
        rows = spark.table("lake.db.known").filter("b < 10")._jdf.queryExecution().optimizedPlan().stats().rowCount()
        assert int(str(rows.get())) < 30


def test_sketches_of_an_older_snapshot_still_say_something(lake: Lake) -> None:
    from frazil.spark.scan.statistics import distinct_values

    table = lake.create_table("db.sketched", "a BIGINT")
    table.append([{"a": 1}])
    old = table.current_snapshot
    assert old is not None
    blob = BlobMetadata("apache-datasketches-theta-v1", old.snapshot_id, 1, (1,), {"ndv": "7"})
    other = BlobMetadata("something-else", old.snapshot_id, 1, (1,), {"ndv": "8"})
    table.update_statistics().set_statistics(
        StatisticsFile(old.snapshot_id, f"{table.location}/metadata/none.stats", 10, 5, (other, blob))
    ).commit()
    table.append([{"a": 2}])
    assert distinct_values(table.metadata, table.current_snapshot) == {1: 7}
    assert distinct_values(table.metadata, None) == {}


# Files that joins rule out


def test_a_filter_inferred_through_a_join_prunes_files(facts: IcebergTable, spark: SparkSession) -> None:
    query = "SELECT count(*) FROM lake.db.facts f JOIN lake.db.facts g ON f.id = g.id WHERE g.id = 1234 AND f.k = g.k"
    frame = spark.sql(query)
    assert frame.collect()[0][0] == 1
    assert files_read(frame) == [1, 1]


def test_what_a_join_brings_prunes_files_while_the_query_runs(
    facts: IcebergTable, choices: IcebergTable, spark: SparkSession
) -> None:
    query = "SELECT f.id FROM lake.db.facts f JOIN lake.db.choices c ON f.p = c.p WHERE c.wanted = 'w4'"
    with settings(spark, adaptive__enabled="false"):
        frame = spark.sql(query)
        assert sorted(row.id for row in frame.collect()) == list(range(800, 1000))
        assert files_read(frame) == [1]  # of ten; what is broadcast is read inside the filter
        assert "dynamicpruning" in plan_of(frame).lower()


def test_partition_values_of_other_transforms_prune_by_inferred_filters(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("db.buckets", "id BIGINT, n BIGINT", partition_by=["bucket(8, id)"])
    table.append([{"id": number, "n": number} for number in range(100)])
    lake.create_table("db.one", "id BIGINT").append([{"id": 17}])
    frame = spark.sql("SELECT b.n FROM lake.db.buckets b JOIN lake.db.one o ON b.id = o.id WHERE o.id = 17")
    assert [tuple(row) for row in frame.collect()] == [(17,)]
    assert files_read(frame) == [1, 1]
