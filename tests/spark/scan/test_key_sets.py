"""Keys of equality deletes on their way to tasks: sent by a file if there are many, and once for several queries."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from frazil.iceberg.table import IcebergTable
from frazil.model.arrow import schema_to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from frazil.lake import Lake

MANY = 40_000
KEYS: dict[str, Callable[[int], Any]] = {
    "BIGINT": lambda i: None if i == 0 else i * 7_919 - 2**40,
    "INT": lambda i: None if i == 0 else i - 20_000,
    "DATE": lambda i: None if i == 0 else i,
    "STRING": lambda i: None if i == 0 else f"key {i % 3} {i}" + "." * (i % 20),
    "BINARY": lambda i: None if i == 0 else i.to_bytes(2 + i % 12, "big"),
    "UUID": lambda i: None if i == 0 else i.to_bytes(16, "big"),
    "DECIMAL(9, 2)": lambda i: None if i == 0 else i,
    "DECIMAL(18, 2)": lambda i: None if i == 0 else -i,
    "DECIMAL(20, 2)": lambda i: None if i == 0 else i,
    "TIMESTAMP": lambda i: None if i == 0 else i * 1_000_003,
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


@pytest.fixture
def found(spark: SparkSession, lake: Lake) -> Any:
    """The JVM's memory of rows that keys took, empty."""
    memory = spark._jvm.org.apache.spark.sql.connector.catalog.FrazilFound  # type: ignore[union-attr]
    memory.clear()
    return memory


def test_keys_are_looked_at_once(lake: Lake, spark: SparkSession, name: str, found: Any) -> None:
    """What they take of a file is remembered, by file, keys and sequence number; vectors and filters come beside."""
    table: IcebergTable = lake.create_table(name.removeprefix("lake."), "k STRING, i INT", format_version=3)
    table.append(_table(table, [f"k{i}" for i in range(10_000)], range(10_000)))
    table.upsert(_table(table, ["k5", "k9999"], [-5, -9_999]), keys=["k"])
    left = set(range(10_000)) - {5, 9_999} | {-5, -9_999}

    def rows(condition: str = "true") -> list[int]:
        return [row.i for row in spark.sql(f"SELECT i FROM {name} WHERE {condition}").collect()]

    assert sorted(rows()) == sorted(left)
    assert found.kept().size() == 1
    assert [bitmap.getCardinality() for bitmap in found.kept().values()] == [2]
    assert sorted(rows()) == sorted(left)
    assert sorted(rows("i < 7")) == sorted(i for i in left if i < 7)
    assert found.kept().size() == 1  # a filter may leave rows out: nothing is told by what is left
    spark.sql(f"DELETE FROM {name} WHERE i = 77")
    assert sorted(rows()) == sorted(left - {77})
    table.refresh().upsert(_table(table, ["k6"], [-6]), keys=["k"])
    assert sorted(rows()) == sorted(left - {77, 6} | {-6})
    assert found.kept().size() > 1


def test_rows_that_a_limit_left_unread_are_not_taken_for_rows_without_keys(
    lake: Lake, spark: SparkSession, name: str, found: Any
) -> None:
    table: IcebergTable = lake.create_table(name.removeprefix("lake."), "k BIGINT, i INT", format_version=2)
    table.append(_table(table, range(50_000), range(50_000)))
    table.upsert(_table(table, [49_999], [-1]), keys=["k"])
    assert len(spark.sql(f"SELECT i FROM {name} LIMIT 3").collect()) == 3
    assert all(bitmap.getCardinality() == 1 for bitmap in found.kept().values())
    assert spark.sql(f"SELECT i FROM {name} WHERE i < 0 OR i = 49999").count() == 1
    assert spark.sql(f"SELECT count(i), min(i), max(i) FROM {name}").collect()[0] == (50_000, -1, 49_998)


DEFAULTS: dict[str, tuple[str, Any, str]] = {
    "INT": ("7", 7, "CAST(i AS INT)"),
    "BIGINT": ("7", 7, "CAST(i AS BIGINT)"),
    "STRING": ("'x'", "x", "CAST(i AS STRING)"),
    "DATE": ("DATE'2026-01-02'", date(2026, 1, 2), "DATE_ADD(DATE'2000-01-01', i)"),
    "BOOLEAN": ("true", True, "false"),
    "DECIMAL(20, 2)": ("1.50", Decimal("1.50"), "CAST(i AS DECIMAL(20, 2))"),
    "BINARY": ("X'0102'", b"\1\2", "CAST(CAST(i AS STRING) AS BINARY)"),
}
CHANGES = ("", "ALTER TABLE {} RENAME COLUMN k TO other", "ALTER TABLE {} DROP COLUMN k")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("taken", ["default", "null"])
@pytest.mark.parametrize("kind", DEFAULTS)
def test_a_key_is_its_default_in_files_that_are_older_than_its_column(
    lake: Lake, spark: SparkSession, name: str, found: Any, kind: str, taken: str, change: str
) -> None:
    """Also if nobody selects it, and whoever asks first; compaction and conversion are as right as queries."""
    literal, value, other = DEFAULTS[kind]
    spark.sql(f"CREATE TABLE {name} (i INT) TBLPROPERTIES ('format-version' = '3')")
    spark.sql(f"INSERT INTO {name} VALUES (1), (2)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN k {kind} DEFAULT {literal}")
    spark.sql(f"INSERT INTO {name} SELECT i, {other} FROM VALUES (3) AS (i)")
    spark.sql(f"INSERT INTO {name} VALUES (4, {literal}), (5, NULL)")
    table = lake.table(name.removeprefix("lake."))
    assert isinstance(table, IcebergTable)
    kept = pa.schema([("k", schema_to_arrow(table.schema).field("k").type), ("i", pa.int32())])
    row = {"k": value if taken == "default" else None, "i": 99}
    table.upsert(pa.Table.from_pylist([row], kept), keys=["k"])
    left = [3, 5, 99] if taken == "default" else [1, 2, 3, 4, 99]
    if change:
        spark.sql(change.format(name))

    def numbers() -> list[int]:
        return sorted(row.i for row in spark.sql(f"SELECT i FROM {name}").collect())

    assert numbers() == left == sorted(table.refresh().scan(columns=["i"]).to_arrow()["i"].to_pylist())
    assert sorted(row.i for row in spark.sql(f"SELECT * FROM {name}").collect()) == left
    found.clear()
    assert spark.sql(f"SELECT sum(i), count(*) FROM {name}").collect()[0] == (sum(left), len(left))
    spark.sql(f"CALL lake.system.convert_equality_deletes('{name}')")
    assert numbers() == left
    spark.sql(f"CALL lake.system.rewrite_data_files('{name}', options => map('rewrite-all', 'true'))")
    assert numbers() == left


def _table(table: IcebergTable, keys: Any, numbers: Any) -> pa.Table:
    kind = table.scan().to_arrow().schema.field("k").type
    return pa.table({"k": pa.array(list(keys), kind), "i": pa.array(list(numbers), pa.int32())})


def _sent_files(spark: SparkSession) -> list[Path]:
    return list(Path(spark.sparkContext._temp_dir).glob("frazil-files-*"))
