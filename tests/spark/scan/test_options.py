"""Options of one read: incremental, split sizes, the reader's ways."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from frazil.errors import InvalidArgument
from frazil.iceberg.table import IcebergTable
from tests.interop.deletes import delete_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.lake import Lake

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def grown(lake: Lake) -> IcebergTable:
    """Appends 0 to 3 with an overwrite and a deletion between them; a column came late."""
    table = lake.create_table("db.grown", "a BIGINT", format_version=3)
    table.append([{"a": 0}, {"a": 10}])
    table.append([{"a": 1}, {"a": 11}])
    delete_rows(table, "a", {1})
    table.update_schema().add_column("b", "long").commit()
    table.append([{"a": 2, "b": 2}])
    table.overwrite([{"a": 99, "b": 99}], where="a = 10")
    table.append([{"a": 3, "b": 3}])
    return table


@pytest.fixture
def read(spark: SparkSession, grown: IcebergTable) -> Callable[..., DataFrame]:
    def frame(**options: Any) -> DataFrame:
        return spark.read.options(**dashed(options)).table("lake.db.grown")

    return frame


def dashed(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "-"): text for key, text in options.items()}


def values(frame: DataFrame) -> list[int]:
    return sorted(row.a for row in frame.collect())


def appends(table: IcebergTable) -> list[int]:
    return [snapshot.snapshot_id for snapshot in table.snapshots if snapshot.operation == "append"]


# Incremental


def test_appends_after_a_snapshot_are_read(grown: IcebergTable, read: Callable[..., DataFrame]) -> None:
    first, second, third, fourth = appends(grown)
    assert values(read(start_snapshot_id=first)) == [1, 2, 3, 11]  # also what was deleted since
    assert values(read(start_snapshot_id=first, end_snapshot_id=third)) == [1, 2, 11]
    assert values(read(start_snapshot_id=third, end_snapshot_id=fourth)) == [3]
    assert values(read(start_snapshot_id=second, end_snapshot_id=second)) == []


@pytest.mark.parametrize("mode", ["native", "arrow"])
def test_incremental_rows_are_filtered_counted_and_have_hidden_columns(
    grown: IcebergTable, read: Callable[..., DataFrame], mode: str
) -> None:
    first = appends(grown)[0]
    frame = read(start_snapshot_id=first, **{"frazil.scan": mode})
    assert values(frame.filter("a > 2")) == [3, 11]
    assert frame.count() == 4
    assert [tuple(row) for row in frame.groupBy().max("a").collect()] == [(11,)]
    assert sorted(tuple(row) for row in frame.select("a", "b", "_pos").filter("b IS NULL").collect()) == [
        (1, None, 0),
        (11, None, 1),
    ]


def test_two_incremental_reads_in_one_query_are_two(grown: IcebergTable, read: Callable[..., DataFrame]) -> None:
    first, second, *_ = appends(grown)
    one, other = read(start_snapshot_id=first, end_snapshot_id=second), read(start_snapshot_id=second)
    assert values(one.union(other)) == [1, 2, 3, 11]
    one.cache()
    try:
        assert one.count() == 2
        assert values(other) == [2, 3]
        assert values(read()) == [0, 2, 3, 11, 99]
    finally:
        one.unpersist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"end_snapshot_id": 1}, "end-snapshot-id"),
        ({"start_snapshot_id": "x"}, "start-snapshot-id is 'x'"),
        ({"start_snapshot_id": 12345}, "12345"),
        ({"start_snapshot_id": 1, "snapshot_id": "CURRENT"}, "snapshot-id"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(
    grown: IcebergTable, read: Callable[..., DataFrame], options: dict[str, Any], words: str
) -> None:
    current = grown.current_snapshot
    assert current is not None
    given = {key: current.snapshot_id if text == "CURRENT" else text for key, text in options.items()}
    with pytest.raises(InvalidArgument, match=words):
        read(**given).collect()


# How files are split and read


@pytest.fixture(scope="module")
def wide(lake: Lake) -> IcebergTable:
    table = lake.create_table("db.wide", "a BIGINT, s STRING")
    for start in range(0, 4000, 1000):
        table.append([{"a": start + number, "s": f"{number * 7919:030d}"} for number in range(1000)])
    return table


def test_split_size_and_file_open_cost_decide_how_many_tasks_there_are(wide: IcebergTable, spark: SparkSession) -> None:
    def tasks(**options: str) -> int:
        frame = spark.read.options(**dashed(options)).table("lake.db.wide").select("a")
        assert frame.selectExpr("sum(a)").collect()[0][0] == sum(range(4000))
        return frame.rdd.getNumPartitions()

    size = wide.scan().plan().total_bytes // 4
    usual = tasks()
    assert tasks(split_size=str(size // 2)) > usual
    assert tasks(file_open_cost="0") < tasks(file_open_cost=str(1 << 30)) == 4
    wide.update_properties().set("read.split.target-size", str(size // 2)).commit()
    assert tasks() > usual
    assert tasks(split_size=str(1 << 30)) == usual
    assert spark.conf.get("spark.sql.files.maxPartitionBytes") == "134217728b"


def test_batches_can_be_switched_off_and_sized(wide: IcebergTable, spark: SparkSession) -> None:
    def plan(**options: str) -> str:
        frame = spark.read.options(**dashed(options)).table("lake.db.wide").filter("a >= 0")
        assert len(frame.collect()) == 4000
        return str(frame._jdf.queryExecution().executedPlan().toString())

    assert "Batched: true" in plan()
    assert "Batched: false" in plan(vectorization_enabled="false")
    assert "Batched: true" in plan(batch_size="7")


@pytest.mark.parametrize(
    ("option", "text"), [("split-size", "big"), ("batch-size", "0"), ("vectorization-enabled", "2")]
)
def test_an_option_that_does_not_parse_is_named(
    spark: SparkSession, wide: IcebergTable, option: str, text: str
) -> None:
    with pytest.raises(InvalidArgument, match=option):
        spark.read.option(option, text).table("lake.db.wide").collect()
