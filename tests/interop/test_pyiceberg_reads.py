"""PyIceberg 0.12 reads the tables we write, of every format version, and agrees with us about all that is in them.

What it cannot do is in `CANNOT`, with the reason; each entry is asserted to be still so.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan, IsNaN, IsNull, LessThanOrEqual
from pyiceberg.partitioning import PartitionSpec as TheirSpec
from pyiceberg.table import StaticTable
from pyiceberg.typedef import Record

from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.manifest import ALL_COLUMNS
from frazil.iceberg.manifest_list import ManifestFile
from frazil.iceberg.metadata_json import parse_metadata
from frazil.iceberg.table import IcebergTable
from frazil.model.expressions import col
from tests.interop.conftest import Built
from tests.interop.rows import bag, plain
from tests.interop.tables import TRANSFORMS, all_cases

pytestmark = pytest.mark.interop

_EQUALITY = "it reads no equality deletes, and says so"
_NULL_LISTS = "it gives an empty list or map for a null one whose elements are structs"
_FIXED = (
    "values of type fixed in a partition tuple: Java writes and expects their length in front of them, against Avro, "
    "and so do we; PyIceberg keeps to Avro and loses its way in the manifests of both"
)
CANNOT = {
    "equality_deletes_of_a_table": _EQUALITY,
    "equality_and_row_deletes": _EQUALITY,
    "equality_deletes_by_partition": _EQUALITY,
    "equality_deletes_of_nulls": _EQUALITY,
    "nested": _NULL_LISTS,
    "null_lists_of_structs": _NULL_LISTS,
    "identity_fixed_4": _FIXED,
    "types_avro": "it reads no Avro data files",
    "types_orc": "it does not know the ORC attributes for time, uuid and fixed",
}
BROKEN_MANIFESTS = {"identity_fixed_4"}
CASES = all_cases(1, 2, 3)
WHOLE = [case for case in CASES if case[0] not in BROKEN_MANIFESTS]


def theirs(table: IcebergTable) -> StaticTable:
    return StaticTable.from_metadata(table.metadata_location)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        pytest.param(*case, marks=pytest.mark.xfail(reason=CANNOT[case[0]], strict=True) if case[0] in CANNOT else ())
        for case in CASES
    ],
)
def test_rows_of_every_snapshot(built: Built, name: str, version: int):
    table, rows = built(name, version)
    other = theirs(table)
    assert bag(other.scan().to_arrow(), table.schema) == bag(rows, table.schema)
    assert other.scan().count() == len(rows)
    for snapshot in table.snapshots:
        at = table.scan(version=snapshot.snapshot_id)
        found = other.scan(snapshot_id=snapshot.snapshot_id)
        assert bag(found.to_arrow(), at.schema) == bag(at.to_arrow(), at.schema)
        assert found.count() == at.count()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_orc_files_with_the_columns_it_understands(built: Built, version: int):
    table, rows = built("types_orc", version)
    names = [name for name in table.schema.columns if name not in ("time", "uuid", "fixed_4")]
    schema = table.schema.select(names)
    assert bag(theirs(table).scan(selected_fields=tuple(names)).to_arrow(), schema) == bag(rows, schema)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", ["nested", "null_lists_of_structs"])
def test_nested_values_but_for_null_lists_of_structs(built: Built, name: str, version: int):
    """The rows are as it reads them, with `None` where it has an empty list: nothing else differs."""
    table, rows = built(name, version)
    lists = {"nested": ("structs",), "null_lists_of_structs": ("l", "m")}[name]
    expected = [{**row, **{column: row.get(column) or [] for column in lists}} for row in rows]
    assert bag(theirs(table).scan().to_arrow(), table.schema) == bag(expected, table.schema)


@pytest.mark.parametrize(("name", "version"), WHOLE)
def test_it_reads_and_writes_the_metadata_as_we_do(built: Built, name: str, version: int):
    table, _ = built(name, version)
    written = theirs(table).metadata.model_dump_json(exclude_none=True)
    again = parse_metadata(written.encode())
    mine = table.metadata
    for part in (
        "format_version table_uuid location last_sequence_number last_updated_ms last_column_id current_schema_id schemas "
        "default_spec_id last_partition_id default_sort_order_id sort_orders properties current_snapshot_id "
        "snapshots snapshot_log metadata_log refs next_row_id partition_specs"
    ).split():
        assert getattr(again, part) == getattr(mine, part), part


def live_files(table: IcebergTable) -> dict[str, DataFile]:
    context = Context(table.metadata, table.store)
    return {
        f"{file.file_path} {file.content_offset}": file
        for entries in context.reader.read(context.manifests(table.current_snapshot), ALL_COLUMNS)
        for file in entries.filter(entries.live).iter_files()
    }


@pytest.mark.parametrize(("name", "version"), WHOLE)
def test_files_and_their_metrics(built: Built, name: str, version: int):
    table, _ = built(name, version)
    other = theirs(table)
    found = {}
    if other.current_snapshot() is not None:
        for manifest in other.current_snapshot().manifests(other.io):
            for entry in manifest.fetch_manifest_entry(other.io):
                file = entry.data_file
                found[f"{file.file_path} {getattr(file, 'content_offset', None)}"] = (entry, file)
    mine = live_files(table)
    assert set(found) == set(mine)
    for key, (entry, file) in found.items():
        ours = mine[key]
        assert entry.sequence_number == ours.data_sequence_number
        assert entry.file_sequence_number == ours.file_sequence_number
        assert file.content.value == ours.content
        assert file.file_format.value.lower() == ours.file_format.lower()
        assert file.spec_id == ours.spec_id
        for part in ("record_count", "file_size_in_bytes", "sort_order_id", "key_metadata"):
            assert getattr(file, part) == getattr(ours, part), part
        for part in ("split_offsets", "equality_ids"):
            assert tuple(getattr(file, part) or ()) == tuple(getattr(ours, part) or ()), part
        for part in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
            assert dict(getattr(file, part) or {}) == dict(getattr(ours, part) or {}), part
