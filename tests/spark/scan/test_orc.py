"""ORC files: read by Spark where names tell the columns, by Python workers elsewhere; the same rows."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from frazil.iceberg.table import IcebergTable
from tests.interop.deletes import delete_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake

_NUMBERS = itertools.count(1)
COLUMNS = """o BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(38,10), s STRING, b BINARY, dt DATE,
    st STRUCT<x: BIGINT, y: ARRAY<STRUCT<z: DATE>>>, m MAP<STRING, DECIMAL(9,2)>, p STRING"""


def row(number: int) -> dict[str, Any]:
    days = [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(1970, 1, 1), dt.date(9999, 12, 31), None]
    day = days[number % len(days)]
    if number % 7 == 6:
        return {"l": number, "p": "nulls"}
    return {
        "o": number % 2 == 0,
        "i": -number,
        "l": number,
        "f": number / 2,
        "d": float("nan"),
        "n": Decimal(number) / 7,
        "s": f"s{number}" * (number % 3),
        "b": bytes([number]),
        "dt": day,
        "st": {"x": number, "y": [{"z": day}]},
        "m": {f"k{number}": Decimal(number)},
        "p": f"p{number % 2}",
    }


@pytest.fixture(scope="module")
def make(lake: Lake) -> Callable[..., IcebergTable]:
    def create(schema: str, rows: list[dict[str, Any]], **options: Any) -> IcebergTable:
        properties = {"write.format.default": "orc", **options.pop("properties", {})}
        table = lake.create_table(f"db.orc{next(_NUMBERS)}", schema, properties=properties, **options)
        table.append(rows)
        return table

    return create


@pytest.fixture(scope="module")
def many(make: Callable[..., IcebergTable]) -> IcebergTable:
    table = make(COLUMNS, [row(number) for number in range(40)], partition_by=["p"])
    table.update_schema().add_column("late", "long").add_column("st.w", "string").commit()
    table.append([{**row(number), "late": number} for number in range(40, 60)])
    return table


def replace_b(table: IcebergTable) -> None:
    table.update_schema().drop_column("b").commit()
    table.update_schema().add_column("b", "long").commit()


def by_spark(spark: SparkSession, table: IcebergTable) -> bool:
    plan = str(spark.table(f"lake.{table.identifier}")._jdf.queryExecution().optimizedPlan().toString())
    return "orc" in plan and "Arrow" not in plan


@pytest.mark.parametrize("vectorised", ["true", "false"])
@pytest.mark.parametrize(
    "where", ["TRUE", "l > 50", "dt = date'0001-01-01'", "late IS NULL AND i < -20", "s = 's4s4'", "p = 'p1'", "n > 3"]
)
def test_spark_reads_what_the_workers_read(
    many: IcebergTable, spark: SparkSession, where: str, vectorised: str
) -> None:
    assert by_spark(spark, many)
    spark.conf.set("spark.sql.orc.enableVectorizedReader", vectorised)
    try:
        native, arrow = (
            spark.read.option("frazil.scan", mode).table(f"lake.{many.identifier}").filter(where)
            for mode in ("native", "arrow")
        )
        assert sorted(map(str, native.collect())) == sorted(map(str, arrow.collect()))
        columns = ["_file", "_spec_id", "_partition", "l"]
        assert sorted(map(str, native.select(columns).collect())) == sorted(map(str, arrow.select(columns).collect()))
    finally:
        spark.conf.unset("spark.sql.orc.enableVectorizedReader")


def test_positions_are_told_by_the_workers(many: IcebergTable, spark: SparkSession) -> None:
    found = spark.sql(f"SELECT l, _pos FROM lake.{many.identifier} WHERE p = 'p1' ORDER BY _file, _pos").collect()
    assert len(found) == len({(one.l, one._pos) for one in found}) > 20


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.update_schema().rename_column("a", "c").commit(),
        lambda table: (
            table.update_schema().drop_column("b").commit() or table.update_schema().add_column("b", "long").commit()
        ),
        lambda table: table.update_schema().update_column("i", "long").commit(),
        lambda table: table.update_schema().add_column("u", "uuid").commit(),
        lambda table: delete_rows(table, "gone", "a", {1}),
    ],
    ids=["renamed", "name used again", "widened", "a type of another meaning", "deleted rows"],
)
def test_tables_where_names_do_not_tell_are_read_by_workers(
    make: Callable[..., IcebergTable], spark: SparkSession, change: Callable[[IcebergTable], Any]
) -> None:
    table = make(
        "a BIGINT, b BIGINT, i INT", [{"a": number, "b": 5, "i": number} for number in range(3)], format_version=2
    )
    assert by_spark(spark, table)
    change(table)
    assert not by_spark(spark, table)
    rows = table.scan().to_arrow().to_pylist()
    found = [one.asDict() for one in spark.table(f"lake.{table.identifier}").collect()]
    assert sorted(map(str, found)) == sorted(map(str, rows))


def test_parquet_and_orc_files_of_one_table_are_read_by_spark(
    make: Callable[..., IcebergTable], spark: SparkSession
) -> None:
    table = make("a BIGINT, p STRING", [{"a": 1, "p": "x"}], partition_by=["p"])
    table.update_properties().set("write.format.default", "parquet").commit()
    table.append([{"a": 2, "p": "x"}])
    table.update_properties().set("write.format.default", "avro").commit()
    table.append([{"a": 3, "p": "y"}])
    frame = spark.table(f"lake.{table.identifier}").filter("p = 'x'")
    assert sorted(one.a for one in frame.collect()) == [1, 2]
    assert sorted(one.a for one in spark.table(f"lake.{table.identifier}").collect()) == [1, 2, 3]
