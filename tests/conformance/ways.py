"""The three ways to read a table, and rows in one form: by Spark's reader, by Python workers, and in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from frazil.iceberg.table import IcebergTable
from tests.spark.scan.golden_rows import columns_spark_lacks, rows_in_process, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.lake import Lake

ARROW, NATIVE, AUTO = "arrow", "native", "auto"
CATALOG = "conformance"


def sql_name(table: Any) -> str:
    """The table's name in SQL."""
    return f"{CATALOG}.{table.identifier}"


def frame(spark: SparkSession, table: Any, way: str, **options: Any) -> DataFrame:
    """The table as a DataFrame that is read in one of Spark's ways."""
    return spark.read.options(**{"frazil.scan": way, **options}).table(sql_name(table))


def same_rows(
    spark: SparkSession,
    table: IcebergTable,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    kernel_where: str | None = None,
    native: bool = True,
    version: int | None = None,
) -> Counter[str]:
    """The rows, after all ways gave the same ones.

    With `native` Spark's reader must read all files itself; else what it cannot read is left to workers.
    """
    scan = table.scan(where if kernel_where is None else kernel_where, columns, version=version)
    expected = rows_in_process(scan)
    for way in (NATIVE if native else AUTO, ARROW):
        found = frame(spark, table, way, **({} if version is None else {"versionAsOf": str(version)}))
        if where is not None:
            found = found.where(where)
        if columns is not None:
            found = found.select(*(f"`{column}`" for column in columns))
        assert rows_of(found) == expected, way
    return expected


def taken_in(lake: Lake, spark: SparkSession, table: IcebergTable, name: str) -> IcebergTable:
    """A table made elsewhere, in the lake; without columns that this Spark has no type for."""
    if lake.table_exists(f"db.{name}"):
        return lake.table(f"db.{name}")
    found = lake.register_table(f"db.{name}", table.metadata_location)
    for column in columns_spark_lacks(spark.version, found.schema):
        found.update_schema().drop_column(column).commit()
    return found
