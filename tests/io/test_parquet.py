"""Parquet: physical types, footers, row groups and files that others wrote."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.errors import InvalidArgument, MalformedData
from frazil.io.data_files import read_data_file, write_data_file
from frazil.io.parquet_stats import describe_parquet_file, metrics_from_parquet_footer
from frazil.model.arrow import schema_from_anything
from frazil.model.binding import bind
from frazil.model.expressions import Expression, col
from frazil.model.name_mapping import NameMapping
from frazil.model.schema import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID, Schema
from frazil.model.types import ListType, LongType, NestedField, StringType, TimestamptzType
from frazil.model.values import to_bytes
from tests.io.data_file_samples import EVERYTHING, ROWS, batch_of, memory, read, write

NUMBERS = schema_from_anything("id BIGINT NOT NULL, x DOUBLE, name STRING")


def footer(location: str) -> pq.ParquetFile:
    return pq.ParquetFile(memory().open_input(location))


def put(name: str, table: pa.Table, **options: Any) -> str:
    """A file of some other writer."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    location = f"memory://samples/data/{name}.parquet"
    memory().write(location, sink.getvalue().to_pybytes())
    return location


def test_physical_types_are_those_of_the_specification() -> None:
    file = footer(write("physical", batch_of(EVERYTHING, ROWS), EVERYTHING, "parquet").location)
    text = str(file.schema)
    for line in (
        "required int64 field_id=1 id;",
        "optional int32 field_id=6 dec9 (Decimal(precision=9, scale=2));",
        "optional int64 field_id=7 dec18 (Decimal(precision=18, scale=0));",
        "optional fixed_len_byte_array(16) field_id=8 dec38 (Decimal(precision=38, scale=10));",
        "optional int64 field_id=10 time (Time(isAdjustedToUTC=false, timeUnit=microseconds));",
        "optional fixed_len_byte_array(16) field_id=16 uuid (UUID);",
        "optional fixed_len_byte_array(3) field_id=17 fixed;",
        "optional group field_id=20 variant (Variant(1)) {\n    required binary field_id=-1 metadata;",
        "optional binary field_id=21 geometry (Geometry(crs=srid:3857));",
        "optional binary field_id=22 geography (Geography(crs=OGC:CRS84, algorithm=karney));",
        "optional group field_id=40 l (List) {\n    repeated group field_id=-1 list {\n      optional group",
        "repeated group field_id=-1 key_value {\n      required binary field_id=51 key (String);",
    ):
        assert line in text, line
    assert "isAdjustedToUTC=true, timeUnit=nanoseconds" in text
    assert "unknown" not in text
    assert b"iceberg.schema" in file.metadata.metadata


def test_column_sizes_and_split_offsets_come_from_the_footer() -> None:
    batch = batch_of(NUMBERS, [{1: n, 2: n / 7, 3: str(n)} for n in range(30_000)])
    location = "memory://samples/data/groups.parquet"
    memory().delete(location)
    written = write_data_file(
        memory(), location, "parquet", NUMBERS, [batch], {"write.parquet.row-group-size-bytes": "200000"}
    )
    metadata = footer(location).metadata
    assert metadata.num_row_groups > 1
    assert len(written.split_offsets) == metadata.num_row_groups
    assert written.split_offsets[0] == 4
    assert list(written.split_offsets) == sorted(written.split_offsets)
    sizes = [
        sum(metadata.row_group(group).column(index).total_compressed_size for group in range(metadata.num_row_groups))
        for index in range(3)
    ]
    assert written.metrics.column_sizes == {1: sizes[0], 2: sizes[1], 3: sizes[2]}


def test_small_batches_share_a_row_group() -> None:
    location = "memory://samples/data/small.parquet"
    memory().delete(location)
    batches = [batch_of(NUMBERS, [{1: n}]) for n in range(50)]
    write_data_file(memory(), location, "parquet", NUMBERS, batches, {})
    assert footer(location).metadata.num_row_groups == 1


def test_writer_options_are_table_properties() -> None:
    location = "memory://samples/data/options.parquet"
    memory().delete(location)
    properties = {
        "write.parquet.compression-codec": "GZIP",
        "write.parquet.compression-level": "1",
        "write.parquet.bloom-filter-enabled.column.name": "true",
        "write.parquet.bloom-filter-max-bytes": "4096",
    }
    write_data_file(memory(), location, "parquet", NUMBERS, [batch_of(NUMBERS, [{1: 1, 3: "a"}])], properties)
    column = footer(location).metadata.row_group(0).column(2)
    assert column.compression == "GZIP"
    assert 0 < column.bloom_filter_length <= 4096 + 64
    for bad in ({"write.parquet.page-size-bytes": "0"}, {"write.parquet.compression-level": "high"}):
        with pytest.raises(InvalidArgument):
            write_data_file(memory(), "memory://samples/data/o.parquet", "parquet", NUMBERS, [], bad)


def test_a_column_without_a_dictionary_has_none_in_its_pages() -> None:
    schema = Schema(
        (
            NestedField(1, "id", LongType()),
            NestedField(2, "word", StringType()),
            NestedField(3, "list", ListType(NestedField(4, "element", LongType()))),
        )
    )
    location = "memory://samples/data/plain.parquet"
    off = "write.parquet.dict-encoding-enabled.column."
    properties = {f"{off}id": "false", f"{off}list.element": "FALSE", f"{off}word": "true"}
    rows = batch_of(schema, [{1: n % 3, 2: "w", 3: [n % 3]} for n in range(100)])
    write_data_file(memory(), location, "parquet", schema, [rows], properties)
    group = footer(location).metadata.row_group(0)
    assert [group.column(n).has_dictionary_page for n in range(3)] == [False, True, False]
    assert [batch.num_rows for _, batch in read_data_file(memory(), location, "parquet", schema)] == [100]


@pytest.fixture(scope="module")
def grouped() -> str:
    table = pa.table({"id": range(100), "x": [math.nan if n < 20 else float(n) for n in range(100)]})
    fields = [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("x", pa.float64(), metadata={"PARQUET:field_id": "2"}),
    ]
    return put("grouped", table.cast(pa.schema(fields)), row_group_size=10)


def positions(location: str, expression: Expression | None, **options: Any) -> list[int]:
    bound = None if expression is None else bind(NUMBERS, expression)
    found = []
    for first, batch in read_data_file(
        memory(), location, "parquet", NUMBERS.select(["id"]), filter=bound, batch_rows=7, **options
    ):
        # the position is right whatever was skipped: ids were written in order
        assert batch.column("id").to_pylist() == list(range(first, first + batch.num_rows))
        found.append(first)
    return sorted({first // 10 for first in found})


def test_row_groups_that_cannot_match_are_skipped_and_positions_stay_right(grouped: str) -> None:
    assert positions(grouped, None) == list(range(10))
    assert positions(grouped, col("id") == 55) == [5]
    assert positions(grouped, (col("id") < 15) | (col("id") >= 95)) == [0, 1, 9]
    assert positions(grouped, col("id").is_null()) == []
    # no bounds where all values are NaN: nothing is known there, and nothing may be lost
    assert positions(grouped, col("x") > 85.0) == [0, 1, 8, 9]
    # a column the file does not have
    assert positions(grouped, col("name") == "a") == list(range(10))


def test_splits_partition_the_row_groups(grouped: str) -> None:
    size = memory().size(grouped)
    parts = [positions(grouped, None, split=(start, 300)) for start in range(0, size, 300)]
    assert sorted(group for part in parts for group in part) == list(range(10))
    assert sum(1 for part in parts if part) > 2


def test_metrics_of_a_footer_are_what_it_proves(grouped: str) -> None:
    metrics = metrics_from_parquet_footer(memory(), grouped, NUMBERS, {})
    assert metrics.record_count == 100
    assert metrics.value_counts == {1: 100, 2: 100}
    assert metrics.null_value_counts == {1: 0, 2: 0}
    assert metrics.nan_value_counts == {}
    assert metrics.lower_bounds == {1: to_bytes(LongType(), 0)}
    assert metrics.upper_bounds == {1: to_bytes(LongType(), 99)}


def test_metrics_of_a_footer_agree_with_those_of_the_writer() -> None:
    rows = [{**row, 4: None, 5: None} for row in ROWS]
    written = write("agree", batch_of(EVERYTHING, rows), EVERYTHING, "parquet")
    described = describe_parquet_file(memory(), written.location, EVERYTHING, {})
    assert described.record_count == written.record_count
    assert described.file_size_in_bytes == written.file_size_in_bytes
    assert described.split_offsets == written.split_offsets
    got, want = described.metrics, written.metrics
    assert got.column_sizes == want.column_sizes
    assert got.value_counts == want.value_counts
    # pyarrow leaves out the statistics of geometries, and those of a column without any value
    geo = {21, 22}
    assert {k: v for k, v in want.null_value_counts.items() if k not in geo} == {
        k: v for k, v in got.null_value_counts.items() if k not in geo
    }
    assert got.lower_bounds == {k: v for k, v in want.lower_bounds.items() if k not in geo}
    assert got.upper_bounds == {k: v for k, v in want.upper_bounds.items() if k not in geo}


def test_a_file_without_statistics_has_counts_only(grouped: str) -> None:
    table = pa.table({"id": [1, 2]}).cast(pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})]))
    metrics = metrics_from_parquet_footer(memory(), put("nostats", table, write_statistics=False), NUMBERS, {})
    assert metrics.value_counts == {1: 2}
    assert metrics.null_value_counts == {}
    assert metrics.lower_bounds == {}


def test_metrics_of_files_without_ids_go_by_the_name_mapping() -> None:
    location = put("plain", pa.table({"id": [3, 1], "other": ["a", "b"]}))
    metrics = metrics_from_parquet_footer(memory(), location, NUMBERS, {}, name_mapping=NameMapping.of_schema(NUMBERS))
    assert metrics.lower_bounds == {1: to_bytes(LongType(), 1)}
    with pytest.raises(MalformedData, match="no field ids"):
        metrics_from_parquet_footer(memory(), location, NUMBERS, {})


def test_old_int96_timestamps_far_from_today_are_read() -> None:
    times = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)]
    location = put("int96", pa.table({"ts": pa.array(times, pa.timestamp("us"))}), use_deprecated_int96_timestamps=True)
    schema = Schema((NestedField(1, "ts", TimestamptzType()),))
    got = read(location, schema, "parquet", name_mapping=NameMapping.of_schema(schema)).column("ts").to_pylist()
    assert [value.replace(tzinfo=None) for value in got] == times


def test_lineage_columns_are_read_where_the_file_has_them() -> None:
    schema = Schema((NestedField(1, "id", LongType()), ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER))
    rows = [{1: 1, ROW_ID.id: 40, LAST_UPDATED_SEQUENCE_NUMBER.id: None}]
    written = write("lineage", batch_of(schema, rows), schema, "parquet")
    assert read(written.location, schema, "parquet").to_pylist() == [
        {"id": 1, "_row_id": 40, "_last_updated_sequence_number": None}
    ]
    plain = Schema(schema.fields[:1])
    without = write("nolineage", batch_of(plain, rows), plain, "parquet")
    assert read(without.location, schema, "parquet").column("_row_id").to_pylist() == [None]


@pytest.mark.interop
def test_pyiceberg_reads_the_schema_we_write() -> None:
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    plain = schema_from_anything(
        "id BIGINT NOT NULL, s STRUCT<a: INT, u: uuid>, l ARRAY<STRING>, m MAP<STRING, DOUBLE>"
    )
    written = write("pyiceberg", batch_of(plain, [{1: 1}]), plain, "parquet")
    theirs = pyarrow_to_schema(footer(written.location).schema_arrow)
    assert {field.field_id: field.name for field in theirs.fields} == {c.id: c.name for c in plain.fields}
    assert theirs.highest_field_id == plain.highest_field_id
