"""Bounds and counts that are zero, empty or false are values, and pruning by them loses no row."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil import ambient
from frazil.iceberg.actions.action import Context
from frazil.iceberg.manifest import ALL_COLUMNS
from frazil.iceberg.table import IcebergTable
from frazil.model.expressions import col
from frazil.model.transforms import parse_transform
from frazil.model.types import TimestampNsType, TimestamptzNsType
from tests.incidents.lakes import again, data_files, delete_files, equality_deletes, ids_in, new_table, rows_of

FALSY = {
    "i": ("INT", 0, "i > 0", "i < 0"),
    "l": ("BIGINT", 0, "l > 0", "l < 0"),
    "f": ("FLOAT", 0.0, "f > 0", "f < 0"),
    "d": ("DOUBLE", 0.0, "d > 0", "d < 0"),
    "s": ("STRING", "", "s > ''", "s = 'a'"),
    "b": ("BINARY", b"", "b > X'00'", "b = X'01'"),
    "t": ("BOOLEAN", False, "t = true", "t <> false"),
    "day": ("DATE", datetime(1970, 1, 1).date(), "day > DATE '1970-01-01'", "day < DATE '1970-01-01'"),
    "m": ("DECIMAL(9, 2)", 0, "m > 0", "m < 0"),
}


def falsy_table(file_format: str, version: int = 2) -> IcebergTable:
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in FALSY.items())
    table = new_table(schema=columns, version=version, write__format__default=file_format)
    table.append([{name: value for name, (_, value, *_) in FALSY.items()}])
    return table


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_bounds_that_are_zero_empty_or_false_are_kept(file_format: str):
    """C4 #20 (pyiceberg#3412): `if bound` drops 0, "", False and b""."""
    table = falsy_table(file_format)
    context = Context(table.metadata, table.store)
    (manifest,) = context.manifests(table.current_snapshot)
    (file,) = context.reader.read_one(manifest, ALL_COLUMNS).files()
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    names = {field.name: field.id for field in table.schema.fields}
    assert lower[names["i"]] == upper[names["i"]] == bytes(4)
    assert lower[names["l"]] == upper[names["l"]] == bytes(8)
    assert lower[names["s"]] == upper[names["s"]] == b""
    assert lower[names["b"]] == upper[names["b"]] == b""
    assert lower[names["t"]] == upper[names["t"]] == b"\x00"
    assert set(lower) == set(upper) == set(names.values())
    assert {(file.null_value_counts or {})[number] for number in names.values()} == {0}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("name", FALSY)
def test_bounds_that_are_zero_empty_or_false_prune(file_format: str, name: str):
    """C4 #20: kept is not enough, they must be used, and only where they may be."""
    table = falsy_table(file_format)
    _, value, above, below = FALSY[name]
    for where in (above, below):
        assert len(table.scan(where).plan()) == 0, where
        assert table.scan(where).count() == 0
    assert len(table.scan(col(name) == value).plan()) == 1
    assert table.scan(col(name) == value).count() == 1
    assert table.scan(f"{name} IS NULL").plan().file_paths == []


def test_partitions_that_are_zero_empty_or_false_are_values():
    """C4 #20: the same for partition values and the summaries of manifests."""
    table = new_table(schema="i INT, s STRING, t BOOLEAN", partition_by=["i", "s", "t"])
    table.append([{"i": 0, "s": "", "t": False}])
    table.append([{"i": None, "s": None, "t": None}])
    parts = {file.partition for file in data_files(table)}
    assert parts == {(0, "", False), (None, None, None)}
    manifests = Context(table.metadata, table.store).manifests(table.current_snapshot)
    bounds = {tuple(part.lower_bound for part in manifest.partitions or ()) for manifest in manifests}
    assert bounds == {(bytes(4), b"", b"\x00"), (None, None, None)}
    for where in ("i = 0", "s = ''", "t = false", "NOT t", "i < 1", "s < 'a'"):
        assert table.scan(where).count() == len(table.scan(where).plan()) == 1, where
    for where in ("i > 0", "s > ''", "t"):
        assert table.scan(where).count() == len(table.scan(where).plan()) == 0, where
    for where in ("i IS NULL", "s IS NULL", "t IS NULL"):
        assert table.scan(where).count() == len(table.scan(where).plan()) == 1, where


def test_a_sequence_number_of_zero_is_not_lost():
    """C4 #20 (pyiceberg#3660): files of a v1 table have 0 after the upgrade, in every manifest list that follows."""
    table = new_table(version=1, commit__manifest__min_count_to_merge="2")
    table.append(rows_of(1, 2))
    table.upgrade_format_version().to(2).commit()
    for number in (3, 4):
        table.append(rows_of(number))
        manifests = Context(table.metadata, table.store).manifests(table.current_snapshot)
        assert min(manifest.min_sequence_number for manifest in manifests) == 0
    table.update_properties().set("commit.manifest-merge.enabled", "false").commit()
    table.append(rows_of(5))
    found = {file.data_sequence_number for file in data_files(again(table))}
    assert found == {0, 1, 2, 3}
    assert table.rewrite_manifests().commit().result.rewritten_manifests_count == 2
    assert {file.data_sequence_number for file in data_files(again(table))} == found
    table.new_row_delta().add_deletes(equality_deletes(table, "id", 1, 3)).commit()
    assert ids_in(again(table)) == [2, 4, 5]
    assert [file.data_sequence_number for file in delete_files(again(table))] == [5]


# Transforms.


def test_not_starts_with_through_truncate_loses_no_row():
    """C4 #21 (pyiceberg#3528): a prefix longer than the width says nothing of a whole partition."""
    table = new_table(schema="s STRING", partition_by=["truncate(2, s)"])
    values = ["", "a", "ab", "abc", "abd", "ac", "b"]
    table.append([{"s": value} for value in values])
    for prefix in ("a", "ab", "abc", "abcd", "b", "x"):
        found = sorted(table.scan(~col("s").startswith(prefix)).to_arrow()["s"].to_pylist())
        assert found == sorted(value for value in values if not value.startswith(prefix)), prefix
        files = len(table.scan(~col("s").startswith(prefix)).plan())
        assert files == (5 if len(prefix) > 2 or prefix == "x" else {"a": 2, "ab": 4, "b": 4}[prefix]), prefix


@settings(max_examples=40)
@given(
    st.lists(st.text("ab\0\U0010ffff", max_size=4), min_size=1, max_size=6),
    st.text("ab\0\U0010ffff", min_size=1, max_size=4),
    st.integers(1, 3),
    st.booleans(),
)
def test_prefixes_prune_no_matching_row(values: list[str], prefix: str, width: int, negated: bool):
    """C4 #21: pruned scan == full scan + filter, for STARTS WITH and its negation through truncate."""
    with ambient.replaced(ambient.Ambient(seed=6, start_ms=1_700_000_000_000)):
        table = new_table(schema="s STRING", partition_by=[f"truncate({width}, s)"])
        table.append([{"s": value} for value in [*values, None]])
        where = col("s").startswith(prefix)
        found = table.scan(~where if negated else where).to_arrow()["s"].to_pylist()
    # SQL: null is neither; Java's notStartsWith takes null along, as projections must allow for
    expected = [value for value in values if value.startswith(prefix) is not negated]
    assert sorted(value for value in found if value is not None) == sorted(expected)


HOUR_NS = 3_600_000_000_000
LEAP_DAY_NS = int(datetime(2024, 2, 29, 23, 59, tzinfo=UTC).timestamp()) * 10**9


@pytest.mark.parametrize("type_", [TimestampNsType(), TimestamptzNsType()], ids=str)
@pytest.mark.parametrize("ns", [0, 1, -1, HOUR_NS - 1, HOUR_NS, -HOUR_NS, -HOUR_NS - 1, 2**63 - 1, -(2**63)])
def test_hours_of_nanoseconds(type_: Any, ns: int):
    """C4 #21 (pyiceberg#2920): hours since 1970, rounded down, also before 1970 and at the ends of the range."""
    hour = parse_transform("hour")
    assert hour.apply(type_, ns) == ns // HOUR_NS
    zone = "UTC" if isinstance(type_, TimestamptzNsType) else None
    array = pa.array([ns, None], pa.int64()).cast(pa.timestamp("ns", zone))
    assert hour.apply_array(type_, array).to_pylist() == [ns // HOUR_NS, None]


def test_rows_partitioned_by_hours_of_nanoseconds_are_found():
    """C4 #21: a wrong hour puts rows where no filter looks for them."""
    table = new_table(schema="id BIGINT, ts TIMESTAMP_NS", version=3, partition_by=["hours(ts)"])
    moments = [
        -HOUR_NS - 1,
        -1,
        0,
        HOUR_NS - 1,
        HOUR_NS,
        LEAP_DAY_NS,
    ]
    rows = pa.table({"id": range(len(moments)), "ts": pa.array(moments, pa.int64()).cast(pa.timestamp("ns"))})
    table.append(rows)
    assert {file.partition[0] for file in data_files(table)} == {moment // HOUR_NS for moment in moments}
    for number, moment in enumerate(moments):
        assert ids_in(table, where=col("ts") == str(np.datetime64(moment, "ns"))) == [number], moment
        assert ids_in(table, where="ts >= '1970-01-01T01:00:00'") == [4, 5]
