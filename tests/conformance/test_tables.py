"""Every table has the same rows through Spark's reader, through Python workers and in this process."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from frazil.errors import Unsupported
from frazil.spark.types import Dialect
from tests.conformance.tables import CASES as OWN
from tests.conformance.ways import ARROW, AUTO, NATIVE, frame, same_rows, sql_name, taken_in
from tests.interop.cases import registered
from tests.interop.conftest import Built
from tests.spark.scan.golden_rows import columns_spark_lacks, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.iceberg.table import IcebergTable
    from frazil.lake import Lake

INTEROP = registered()
BY_WORKERS = {"types_orc", "types_avro", "nanoseconds", "defaults"}
"""Tables with files or columns that Spark's reader cannot read."""
SMOKE = {"types_parquet", "types_orc", "types_avro", "nested", "schema_evolution", "partition_evolution"}
HIDDEN = ("_file", "_pos", "_spec_id")
LINEAGE = ("_row_id", "_last_updated_sequence_number")


def hidden(table: IcebergTable) -> tuple[str, ...]:
    return (*HIDDEN, *(LINEAGE if table.format_version >= 3 else ()))


def _marked(names: set[str], smoke: set[str]) -> list[object]:
    return [pytest.param(name, marks=[pytest.mark.smoke] if name in smoke else []) for name in sorted(names)]


@pytest.mark.parametrize("name", _marked(set(INTEROP), SMOKE))
def test_a_table_of_the_interoperability_tests(spark: SparkSession, lake: Lake, built: Built, name: str) -> None:
    """In the newest format version that it can have; other implementations read these too."""
    version = INTEROP[name].versions[-1]
    made, rows = built(name, version)
    sources = {made.schema.name_of(field.source_id) for field in made.spec.fields}
    lacking = set(columns_spark_lacks(spark.version, made.schema)) & sources
    if lacking and Dialect.of_version(spark.version).nanoseconds:
        taken = lake.register_table(f"db.{name}", made.metadata_location)
        assert _texts_of_spark(spark, taken, sorted(lacking)) == _texts_of_kernel(taken, sorted(lacking))
        return
    if lacking:  # nor can they be dropped
        refused = lake.register_table(f"db.{name}", made.metadata_location)
        with pytest.raises(Unsupported, match="cannot hold"):
            spark.table(sql_name(refused)).select(*lacking).collect()
        return
    table = taken_in(lake, spark, made, name)
    if not table.schema.fields:
        pytest.skip("this Spark has none of its types")
    columns = [*table.schema.columns, *hidden(table)]
    spark.conf.set("spark.sql.caseSensitive", "true")  # one of them has names that differ in nothing else
    try:
        assert same_rows(spark, table, columns, native=name not in BY_WORKERS).total() == len(rows)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def _texts_of_spark(spark: SparkSession, table: IcebergTable, columns: list[str]) -> Counter[tuple[str | None, ...]]:
    """Values that PySpark has no type for, as the JVM shows them."""
    found = frame(spark, table, AUTO).selectExpr(*(f"string({column}) AS {column}" for column in columns))
    return Counter(map(tuple, found.collect()))


def _texts_of_kernel(table: IcebergTable, columns: list[str]) -> Counter[tuple[str | None, ...]]:
    rows = table.scan(columns=columns).to_arrow()
    texts = [[_shortened(text) for text in rows[column].cast("string").to_pylist()] for column in columns]
    return Counter(zip(*texts, strict=True))


def _shortened(text: str | None) -> str | None:
    return None if text is None else text.rstrip("Z").rstrip("0").rstrip(".")


@pytest.fixture(scope="module")
def own(lake: Lake) -> dict[str, IcebergTable]:
    return {}


def _own(lake: Lake, made: dict[str, IcebergTable], name: str) -> IcebergTable:
    if name not in made:
        made[name] = OWN[name].build(lake, f"own_{name}")
    return made[name]


@pytest.mark.parametrize("name", _marked(set(OWN), {name for name, one in OWN.items() if one.smoke}))
def test_a_table_that_changed(spark: SparkSession, lake: Lake, own: dict[str, IcebergTable], name: str) -> None:
    case = OWN[name]
    table = _own(lake, own, name)
    columns = [*table.schema.columns, *hidden(table)]
    assert same_rows(spark, table, columns, native=case.native).total() == case.rows


@pytest.mark.parametrize(
    ("name", "where", "rows"),
    [
        pytest.param(name, where, rows, marks=[pytest.mark.smoke] if one.smoke else [])
        for name, one in OWN.items()
        for where, rows in one.filters
    ],
)
def test_a_filter_on_a_table_that_changed(
    spark: SparkSession, lake: Lake, own: dict[str, IcebergTable], name: str, where: str, rows: int
) -> None:
    """Filters are pushed down by the names that columns have in the files, which may be those of other columns."""
    from pyspark.sql.functions import lit

    table = _own(lake, own, name)
    native, arrow = (frame(spark, table, way).where(where) for way in (NATIVE if OWN[name].native else AUTO, ARROW))
    key = f"`{table.schema.columns[0]}`"
    found = native.select(lit("native"), key, "_pos").union(arrow.select(lit("arrow"), key, "_pos")).collect()
    assert Counter(row[0] for row in found) == Counter({"native": rows, "arrow": rows})
    assert native.count() == rows


HISTORIES = {
    "several_specs": [3, 6, 8],
    "position_deletes": [10, 20, 16],
    "deletion_vectors": [10, 20, 16],
    "three_formats": [4, 8, 12],
    "promotions": [2, 3],
}
"""How many rows there were after each snapshot."""


@pytest.mark.parametrize("name", HISTORIES)
def test_every_snapshot_of_a_table(spark: SparkSession, lake: Lake, own: dict[str, IcebergTable], name: str) -> None:
    table, native = _own(lake, own, name), OWN[name].native
    found = [same_rows(spark, table, native=native, version=one.snapshot_id).total() for one in table.snapshots]
    assert found == HISTORIES[name]


@pytest.mark.parametrize(
    "name", ["partition_evolution", "void_transform", "identity_date", "bucket_string", "hour_timestamp"]
)
def test_partitions_of_rows(spark: SparkSession, lake: Lake, built: Built, name: str) -> None:
    """`_partition` has the fields of all specs; in process it is read from the tasks."""
    made, _ = built(name, INTEROP[name].versions[-1])
    table = taken_in(lake, spark, made, name)
    native, arrow = (rows_of(frame(spark, table, way).select("_partition", "_pos", "_file")) for way in (NATIVE, ARROW))
    assert native == arrow
    assert native.total() == table.scan().count()
