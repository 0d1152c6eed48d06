"""Every golden table gives its rows through Spark's own reader and through Python workers, at every snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from frazil.errors import Unsupported
from frazil.iceberg.scan import Scan
from frazil.model.schema import Schema
from frazil.model.types import GeographyType, GeometryType, TimestampNsType, TimestamptzNsType, walk
from frazil.spark.scan.options import AUTO, NATIVE
from tests.iceberg.test_goldens import LINEAGE, TABLES, golden
from tests.spark.scan.golden_rows import rows_in_process, rows_of

EXTRA = ("_file", "_pos", "_spec_id")
MANY_ROWS = {"dv_many_positions"}
ONLY_BY_ARROW = {
    *("defaults_avro", "types_avro", "nested_avro", "schema_evolution_avro", "v1_history_avro", "ns_avro"),
    *("defaults_parquet", "geo", "ns_parquet", "ns_orc", "name_mapping", "name_mapping_orc"),
}
"""Tables of which Spark's reader cannot read a single file: other formats, or columns it cannot make."""


def held_by_spark(schema: Schema) -> list[str]:
    """The columns whose types every Spark can hold."""
    strange = (GeometryType, GeographyType, TimestampNsType, TimestamptzNsType)
    return [
        column.name
        for column in schema.fields
        if not any(isinstance(field.type, strange) for field in (column, *walk(column.type)))
    ]


def wanted(table: Any, schema: Schema) -> list[str]:
    lineage = LINEAGE if table.format_version >= 3 else ()
    return [*held_by_spark(schema), *lineage, *EXTRA]


@pytest.mark.parametrize("mode", ["auto", "arrow"])
@pytest.mark.parametrize("case", [case for case in TABLES if case not in MANY_ROWS])
def test_current_rows_are_those_of_the_kernel(case: str, mode: str, read: Callable[..., Any]) -> None:
    table, told = golden(case)
    columns = wanted(table, table.schema)
    found = rows_of(read(table, columns=columns, mode=mode))
    assert found == rows_in_process(table.scan(columns=columns))
    assert found.total() == told["row_count"]


@pytest.mark.parametrize("case", [case for case in TABLES if case not in MANY_ROWS])
def test_rows_at_every_snapshot_are_those_of_the_kernel(case: str, read: Callable[..., Any]) -> None:
    table, _ = golden(case)
    for snapshot in table.snapshots:
        schema = table.metadata.schema_of(snapshot)
        columns = wanted(table, schema)
        scan = Scan(table.metadata, table.store, snapshot, schema).select(*columns)
        assert rows_of(read(table, snapshot, schema, columns)) == rows_in_process(scan)


@pytest.mark.parametrize("mode", ["auto", "arrow"])
def test_vectors_of_many_positions_leave_the_right_rows(mode: str, read: Callable[..., Any]) -> None:
    table, told = golden("dv_many_positions")
    number = next(column.name for column in table.schema.fields if str(column.type) in ("long", "int"))
    found = read(table, columns=[number, "_pos"], mode=mode).selectExpr(f"sum({number})", "sum(_pos)", "count(*)")
    rows = table.scan(columns=[number, "_pos"]).to_arrow()
    expected = [sum(rows.column(index).to_pylist()) for index in (0, 1)]
    assert list(found.first()) == [*expected, told["row_count"]]


@pytest.mark.parametrize("case", [case for case in TABLES if case not in ONLY_BY_ARROW])
def test_what_spark_reads_itself_is_planned_so(case: str, read: Callable[..., Any]) -> None:
    table, told = golden(case)
    plan = read(table, mode=AUTO)._jdf.queryExecution().optimizedPlan().toString()
    formats = {entry["file_format"].lower() for entry in told["entries"] if entry["content"] == "data"}
    if formats == {"parquet"} and case != "eq_deletes_nested":
        assert "Frazil by Arrow" not in plan


def test_a_table_that_spark_cannot_read_is_refused_when_its_reader_is_asked_for(read: Callable[..., Any]) -> None:
    table, _ = golden("types_avro")
    with pytest.raises(Unsupported, match="another format"):
        read(table, mode=NATIVE)


@pytest.mark.parametrize("case", ["partition_evolution_v2", "identity_all", "void_v1", "transform_temporal"])
def test_both_ways_give_the_same_partitions(case: str, read: Callable[..., Any]) -> None:
    table, _ = golden(case)
    columns = ["_partition", "_file", "_pos"]
    assert rows_of(read(table, columns=columns)) == rows_of(read(table, columns=columns, mode="arrow"))
