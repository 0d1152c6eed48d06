"""Filters of every kind leave the same rows in every way of reading, and those that Spark leaves of its own rows."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from frazil.spark.scan.spark_arrow import for_spark
from tests.conformance.filters import FILTERS, ROWS, SAME, in_lance, in_two_stores, many_specs_and_formats, one_format
from tests.conformance.ways import ARROW, AUTO, CATALOG, NATIVE, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.iceberg.table import IcebergTable
    from frazil.lake import Lake
    from frazil.lance.table import LanceTable
    from frazil.mixed.table import MixedTable

SMOKE = 8
"""Every so manieth filter is part of the smoke set."""


@pytest.fixture(scope="module")
def parquet(lake: Lake) -> IcebergTable:
    return one_format(lake)


@pytest.fixture(scope="module")
def mixed(lake: Lake) -> IcebergTable:
    return many_specs_and_formats(lake)


@pytest.fixture(scope="module")
def lance(lake: Lake, parquet: IcebergTable) -> LanceTable:
    return in_lance(lake, parquet.scan().to_arrow())


@pytest.fixture(scope="module")
def keyed(lake: Lake, parquet: IcebergTable) -> MixedTable:
    return in_two_stores(lake, parquet.scan().to_arrow())


@pytest.fixture(scope="module")
def local(spark: SparkSession, parquet: IcebergTable) -> DataFrame:
    """The same rows in Spark's memory: what its own evaluation of a filter leaves of them is right."""
    rows = parquet.scan().to_arrow()
    arrays = [
        for_spark(rows.column(number).combine_chunks(), field.type)
        for number, field in enumerate(parquet.schema.fields)
    ]
    return spark.createDataFrame(pa.table(arrays, names=parquet.schema.columns))


def ids(found: DataFrame) -> list[int]:
    return sorted(row.id for row in found.select("id").collect())


def in_all_ways(
    spark: SparkSession,
    parquet: IcebergTable,
    mixed: IcebergTable,
    lance: LanceTable,
    keyed: MixedTable,
    local: DataFrame,
    where: str,
) -> dict[str, list[int]]:
    """The ids that a filter leaves, by the way of reading; all of them in one query, which is faster."""
    from pyspark.sql.functions import lit

    frames = {
        "in Spark's memory": local,
        "native": frame(spark, parquet, NATIVE),
        "arrow": frame(spark, parquet, ARROW),
        "mixed, auto": frame(spark, mixed, AUTO),
        "mixed, arrow": frame(spark, mixed, ARROW),
        "lance": spark.table(f"{CATALOG}.{lance.identifier}"),
        **{f"keyed, {way}": frame(spark, keyed, way) for way in (NATIVE, ARROW)},
        "keyed, joined": frame(spark, keyed, NATIVE, **{"frazil.merge": "shuffle"}),
    }
    parts = [one.where(where).select(lit(way).alias("way"), "id") for way, one in frames.items()]
    found: dict[str, list[int]] = {way: [] for way in frames}
    for row in reduce(lambda left, right: left.union(right), parts).collect():
        found[row.way].append(row.id)
    return {way: sorted(numbers) for way, numbers in found.items()}


@pytest.mark.parametrize(
    ("where", "kernel"),
    [pytest.param(*one, marks=[pytest.mark.smoke] if at % SMOKE == 0 else []) for at, one in enumerate(FILTERS)],
)
def test_a_filter_leaves_the_same_rows(
    spark: SparkSession,
    parquet: IcebergTable,
    mixed: IcebergTable,
    lance: LanceTable,
    keyed: MixedTable,
    local: DataFrame,
    where: str,
    kernel: str | None,
) -> None:
    found = in_all_ways(spark, parquet, mixed, lance, keyed, local, where)
    expected = found.pop("in Spark's memory")
    assert found == dict.fromkeys(found, expected)
    if kernel is not None:
        for table in (parquet, mixed, lance, keyed):
            rows = table.scan(where if kernel == SAME else kernel, ["id"]).to_arrow()
            assert sorted(rows["id"].to_pylist()) == expected, (table.identifier, "in process")


@pytest.mark.smoke
def test_without_a_filter_all_rows_are_there(
    spark: SparkSession,
    parquet: IcebergTable,
    mixed: IcebergTable,
    lance: LanceTable,
    keyed: MixedTable,
    local: DataFrame,
) -> None:
    found = in_all_ways(spark, parquet, mixed, lance, keyed, local, "true")
    everything = list(range(len(ROWS)))
    assert all(numbers == everything for numbers in found.values()), found


FILE_FILTERS: list[tuple[str, Any]] = [
    ("_pos = 0", None),
    ("_file LIKE '%.orc'", [6, 7]),
    ("_file LIKE '%.avro' AND _pos = 1", [9]),
    ("_spec_id = 0", [0, 1, 2]),
    ("_spec_id > 0 AND id < 5", [3, 4]),
    ("_partition.o", [0]),
    ("_partition.s IS NULL AND _spec_id = 0", [2]),
]


@pytest.mark.parametrize(("where", "expected"), FILE_FILTERS)
def test_a_filter_on_hidden_columns(
    spark: SparkSession, mixed: IcebergTable, where: str, expected: list[int] | None
) -> None:
    found = ids(frame(spark, mixed, AUTO).where(where))
    assert found == ids(frame(spark, mixed, ARROW).where(where))
    if expected is None:
        rows = mixed.scan(columns=["id", "_pos"]).to_arrow().to_pylist()
        expected = sorted(row["id"] for row in rows if row["_pos"] == 0)
    assert found == expected
