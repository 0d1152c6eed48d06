"""Keys of equality deletes on their way to tasks: sent by a file if there are many, and once for several queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from frazil.iceberg.table import IcebergTable
    from frazil.lake import Lake

MANY = 40_000
KEYS: dict[str, Callable[[int], Any]] = {
    "BIGINT": lambda i: None if i == 0 else i * 7_919 - 2**40,
    "INT": lambda i: None if i == 0 else i - 20_000,
    "STRING": lambda i: None if i == 0 else f"key {i % 3} {i}",
    "DECIMAL(20, 2)": lambda i: None if i == 0 else i,
}


@pytest.fixture
def kept(spark: SparkSession, lake: Lake) -> Any:
    """The JVM's memory of sets, empty."""
    shared = spark._jvm.org.apache.spark.sql.connector.catalog.FrazilShared  # type: ignore[union-attr]
    shared.clear()
    return shared


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.usefixtures("kept")
def test_many_keys_of_any_type_take_their_rows(lake: Lake, spark: SparkSession, name: str, kind: str) -> None:
    table: IcebergTable = lake.create_table(name.removeprefix("lake."), f"k {kind}, i INT", format_version=2)
    values = [KEYS[kind](i) for i in range(MANY)]
    as_rows = spark.createDataFrame([(i,) for i in range(MANY)], "i INT")
    table.append(_table(table, values, range(MANY)))
    gone = [i for i in range(MANY) if i % 4 != 1]
    table.upsert(_table(table, [values[i] for i in gone[::2]], [-1] * len(gone[::2])), keys=["k"])
    table.upsert(_table(table, [values[i] for i in gone[1::2]], [-2] * len(gone[1::2])), keys=["k"])
    found = spark.table(name)
    assert found.where("i >= 0").count() == MANY // 4
    assert found.join(as_rows, "i").where("i % 4 <> 1").count() == 0
    assert found.where("k IS NULL").collect()[0].i == -1
    assert found.groupBy("i").count().where("i < 0").count() == 2
    assert _sent_files(spark) == []


def test_the_same_keys_are_sent_to_executors_once(lake: Lake, spark: SparkSession, name: str, kept: Any) -> None:
    table: IcebergTable = lake.create_table(name.removeprefix("lake."), "k BIGINT, i INT", format_version=2)
    table.append(_table(table, range(100), range(100)))
    table.upsert(_table(table, [5, 6], [-5, -6]), keys=["k"])
    found = [spark.sql(f"SELECT sum(i + {more}) FROM {name}").collect()[0][0] for more in (0, 1, 2)]
    assert found == [4_950 - 22, 4_950 - 22 + 100, 4_950 - 22 + 200]
    assert kept.kept().size() == 1
    table.upsert(_table(table, [7], [-7]), keys=["k"])
    assert spark.sql(f"SELECT sum(i) FROM {name}").collect()[0][0] == 4_950 - 22 - 14
    assert kept.kept().size() == 2


def _table(table: IcebergTable, keys: Any, numbers: Any) -> pa.Table:
    kind = table.scan().to_arrow().schema.field("k").type
    return pa.table({"k": pa.array(list(keys), kind), "i": pa.array(list(numbers), pa.int32())})


def _sent_files(spark: SparkSession) -> list[Path]:
    return list(Path(spark.sparkContext._temp_dir).glob("frazil-files-*"))
