"""Every golden table gives its rows through Spark's own reader and through Python workers, at every snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pyspark
import pytest

from frazil.errors import Unsupported
from frazil.iceberg.scan import Scan
from frazil.iceberg.snapshot import Snapshot
from frazil.model.schema import Schema
from frazil.spark.scan.options import AUTO, NATIVE
from frazil.spark.types import Dialect
from tests.iceberg.test_goldens import LINEAGE, TABLES, golden
from tests.spark.scan.golden_rows import columns_spark_lacks, rows_in_process, rows_of

EXTRA = ("_file", "_pos", "_spec_id")
READERS = 3
"""Snapshots are small: most of a read is planning, so some are read at once."""
MANY_ROWS = {"dv_many_positions"}
ONLY_BY_ARROW = {
    *("defaults_avro", "types_avro", "nested_avro", "schema_evolution_avro", "v1_history_avro", "ns_avro"),
    *("defaults_parquet", "geo", "ns_parquet", "ns_orc", "name_mapping", "name_mapping_orc"),
}
"""Tables of which Spark's reader cannot read a single file: other formats, or columns it cannot make."""
BY_ARROW_ON_40 = {case for case in TABLES if case.startswith("variant") and pyspark.__version__.startswith("4.0")}


def held(schema: Schema) -> Schema:
    """The columns that this Spark has types for."""
    lacking = columns_spark_lacks(pyspark.__version__, schema)
    return schema.select([column for column in schema.columns if column not in lacking])


def wanted(table: Any, schema: Schema) -> list[str]:
    """All of them, and hidden ones."""
    return [*schema.columns, *(LINEAGE if table.format_version >= 3 else ()), *EXTRA]


@cache
def rows_of_kernel(case: str) -> dict[int, Counter[str]]:
    """The rows of each snapshot, which other tests compare with what Java reads."""
    table, _ = golden(case)
    scans = {}
    for snapshot in table.snapshots:
        schema = held(table.metadata.schema_of(snapshot))
        scans[snapshot.snapshot_id] = Scan(table.metadata, table.store, snapshot, schema).select(*wanted(table, schema))
    return {number: rows_in_process(scan) for number, scan in scans.items()}


@pytest.mark.parametrize("mode", ["auto", "arrow"])
@pytest.mark.parametrize("case", [case for case in TABLES if case not in MANY_ROWS])
def test_rows_at_every_snapshot_are_those_of_the_kernel(case: str, mode: str, read: Callable[..., Any]) -> None:
    """Rows with their lineage, file and position. The current snapshot is one of them, if there is one."""
    table, told = golden(case)

    def rows(snapshot: Snapshot) -> Counter[str]:
        schema = held(table.metadata.schema_of(snapshot))
        return rows_of(read(table, snapshot, schema, wanted(table, schema), mode))

    with ThreadPoolExecutor(READERS) as pool:
        found = dict(zip((one.snapshot_id for one in table.snapshots), pool.map(rows, table.snapshots), strict=True))
    assert found == rows_of_kernel(case)
    assert {number: counted.total() for number, counted in found.items()} == {
        one["snapshot_id"]: one["row_count"] for one in told["snapshots"]
    }


@pytest.mark.parametrize("mode", ["auto", "arrow"])
@pytest.mark.parametrize("case", [case for case in TABLES if not golden(case)[0].snapshots])
def test_a_table_without_snapshots_has_its_columns_and_no_rows(case: str, mode: str, read: Callable[..., Any]) -> None:
    table, _ = golden(case)
    frame = read(table, mode=mode)
    assert frame.columns == table.schema.columns
    assert frame.collect() == []


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
    plan = read(table, schema=held(table.schema), mode=AUTO)._jdf.queryExecution().optimizedPlan().toString()
    formats = {entry["file_format"].lower() for entry in told["entries"] if entry["content"] == "data"}
    if formats == {"parquet"} and case not in BY_ARROW_ON_40 and case != "eq_deletes_nested":
        assert "Frazil by Arrow" not in plan


def test_a_table_that_spark_cannot_read_is_refused_when_its_reader_is_asked_for(read: Callable[..., Any]) -> None:
    table, _ = golden("types_avro")
    with pytest.raises(Unsupported, match="another format"):
        read(table, mode=NATIVE)


@pytest.mark.parametrize("case", ["partition_evolution_v2", "identity_all", "void_v1", "transform_temporal"])
def test_both_ways_give_the_same_partitions(case: str, read: Callable[..., Any]) -> None:
    table, _ = golden(case)
    if case == "identity_all" and not Dialect.of_version(pyspark.__version__).time:
        with pytest.raises(Unsupported, match="_partition"):
            read(table, columns=["_partition"])
        return
    columns = ["_partition", "_file", "_pos"]
    assert rows_of(read(table, columns=columns)) == rows_of(read(table, columns=columns, mode="arrow"))
