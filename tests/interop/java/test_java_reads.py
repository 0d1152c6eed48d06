"""Iceberg's Spark runtime reads the tables that the kernel writes: rows, snapshots, metrics, lineage."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil.iceberg.table import IcebergTable
from tests.interop.cases import Cannot, Row, all_cases, parameters
from tests.interop.conftest import Built
from tests.interop.rows import bag
from tests.interop.tables import COLUMN, PRIMITIVES, TRANSFORMS, typed_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HELD = {text: values for text, values in PRIMITIVES.items() if text != "time"}
"""Iceberg's Spark has no type for a time of day."""

NO_TIME = Cannot("its Spark side has no time of day", Exception)
CANNOT = {
    **dict.fromkeys(("types_parquet", "types_orc", "types_avro", "required_types"), NO_TIME),
    **{name: NO_TIME for name in TRANSFORMS if name.endswith("_time")},
    "names_that_differ_in_case": Cannot("names of columns are case-insensitive in Spark's SQL", Exception),
    "nanoseconds": Cannot("its Spark side has no nanoseconds", Exception),
}
CASES = all_cases(1, 2, 3)


def read(spark: SparkSession, table: IcebergTable, part: str = "", **options: Any) -> DataFrame:
    """A table, or one of its metadata tables, as Iceberg's runtime reads it."""
    reader = spark.read.format("iceberg")
    for key, value in options.items():
        reader = reader.option(key, value)
    return reader.load(f"{table.location}{part}")


@pytest.mark.parametrize(("name", "version"), parameters(CASES, CANNOT))
def test_rows_and_counts(spark: SparkSession, built: Built, name: str, version: int) -> None:
    table, rows = built(name, version)
    found = read(spark, table)
    assert bag(found.toArrow(), table.schema) == bag(rows, table.schema)
    assert found.count() == len(rows)


ABLE = [case for case in CASES if case[0] not in CANNOT]


@pytest.mark.parametrize(("name", "version"), [case for case in ABLE if case[0] not in TRANSFORMS])
def test_rows_of_every_snapshot(spark: SparkSession, built: Built, name: str, version: int) -> None:
    table, _ = built(name, version)
    listed = read(spark, table, "#snapshots").select("snapshot_id", "operation", "manifest_list").collect()
    ours = [(one.snapshot_id, one.operation, one.manifest_list) for one in table.snapshots]
    assert sorted(map(tuple, listed)) == sorted(ours)
    for snapshot in table.snapshots:
        at = table.scan(version=snapshot.snapshot_id)
        found = read(spark, table, versionAsOf=snapshot.snapshot_id).toArrow()
        assert bag(found, at.schema) == bag(at.to_arrow(), at.schema)


@pytest.mark.parametrize(("name", "version"), ABLE)
def test_files_and_their_metrics(spark: SparkSession, built: Built, name: str, version: int) -> None:
    table, _ = built(name, version)
    columns = ["content", "file_path", "file_format", "record_count", "file_size_in_bytes", "value_counts"]
    columns += ["null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds", "sort_order_id", "spec_id"]
    theirs = read(spark, table, "#files").select(*columns).toArrow().to_pylist()
    ours = table.inspect("files").select(columns).to_pylist()
    assert Counter(map(_plain, theirs)) == Counter(map(_plain, ours))


def _plain(row: Row) -> str:
    return repr({key: sorted(value) if isinstance(value, list) else value for key, value in row.items()})


@pytest.mark.parametrize("name", [name for name, version in ABLE if version == 3])
def test_row_lineage(spark: SparkSession, built: Built, name: str) -> None:
    table, _ = built(name, 3)
    columns = ["_row_id", "_last_updated_sequence_number"]
    theirs = read(spark, table).select(*columns).collect()
    ours = table.scan(columns=columns).to_arrow().to_pylist()
    assert Counter(map(tuple, theirs)) == Counter(tuple(row.values()) for row in ours)


@pytest.fixture(scope="module", params=[(1, "parquet"), (2, "parquet"), (2, "orc"), (2, "avro"), (3, "parquet")])
def typed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[IcebergTable, list[Row]]:
    """Every type that both have, each row a file of its own, so that bounds decide."""
    version, file_format = request.param
    lake = frazil.connect(tmp_path_factory.mktemp("typed"))
    schema = ", ".join(["id BIGINT NOT NULL", *(f"{COLUMN[text]} {text}" for text in HELD)])
    properties = {"write.format.default": file_format}
    table = lake.create_table("db.typed", schema, format_version=version, properties=properties)
    rows = [{key: value for key, value in row.items() if key != COLUMN["time"]} for row in typed_rows()]
    for row in rows:
        table.append([row])
    return table, rows


def test_rows_of_every_type(spark: SparkSession, typed: tuple[IcebergTable, list[Row]]) -> None:
    table, rows = typed
    assert bag(read(spark, table).toArrow(), table.schema) == bag(rows, table.schema)


@pytest.mark.parametrize("text", HELD)
def test_filters_on_every_type(spark: SparkSession, typed: tuple[IcebergTable, list[Row]], text: str) -> None:
    """It skips files by the bounds we wrote: rows would be missing if one were wrong."""
    from pyspark.sql import functions

    table, rows = typed
    column = functions.col(COLUMN[text])
    for value in HELD[text]:
        if text in ("float", "double") and value == 0:
            continue  # it takes zeros of different signs for different, and skips files of the other one
        if text == "date" and value.year < 1583 and table.properties["write.format.default"] == "orc":
            continue  # it misses them in ORC: pyarrow does not write which calendar is meant, and that seems to be why
        literal = functions.lit(str(value) if text in ("uuid", "date") else value)
        if text == "timestamp":
            literal = functions.lit(value.isoformat(" ")).cast("timestamp_ntz")
        elif text == "date":
            literal = literal.cast("date")
        elif text == "float":
            literal = literal.cast("float")
        found = read(spark, table).where(column == literal).toArrow()
        wanted = [row for row in rows if _same(row.get(COLUMN[text]), value)]
        assert bag(found, table.schema) == bag(wanted, table.schema), value
    nulls = read(spark, table).where(column.isNull()).toArrow()
    assert bag(nulls, table.schema) == bag([row for row in rows if row.get(COLUMN[text]) is None], table.schema)


def _same(left: Any, right: Any) -> bool:
    """Equality as Spark has it: NaN is equal to itself, zeros are equal."""
    return bool(left == right or (left is not None and left != left and right != right))
