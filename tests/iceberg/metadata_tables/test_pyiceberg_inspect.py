"""PyIceberg's `inspect` and ours say the same of tables that we write.

Where they differ PyIceberg has fewer columns, narrower or zoneless types, or only top-level columns in
`readable_metrics`: so what PyIceberg has is compared, as plain values.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import frazil
from frazil.iceberg.table import IcebergTable
from tests.iceberg.small_tables import live_files, position_deletes, rows

UNFIT = ("entries", "files", "data_files", "delete_files", "all_files", "all_data_files", "all_delete_files")
"""Their rows have maps and no order."""


@pytest.fixture(scope="module", params=["plain", "partitioned", "evolved"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> IcebergTable:
    warehouse: Path = tmp_path_factory.mktemp(request.param)
    partition_by = () if request.param == "plain" else ("part",)
    lake = frazil.connect(warehouse)
    made = lake.create_table("db.t", "id BIGINT NOT NULL, name STRING, part INT, d DATE", partition_by=partition_by)
    made.append([{**row, "d": "2024-02-29"} for row in rows(1, 2, 3, part=1) + rows(4, part=None)])
    file = next(one for one in live_files(made) if one.partition in ((), (1,)))
    deletes = position_deletes(made, (file.file_path, 1), partition=file.partition)
    made.new_row_delta().add_deletes(deletes).commit()
    made.manage_refs().create_tag("then").commit()
    if request.param == "evolved":
        made.update_spec().add_field("bucket(4, id)").commit()
    made.append(rows(5, 6, part=2))
    made.delete("id >= 5")
    return made


def plain(value: Any) -> Any:
    """A value without what PyIceberg leaves out: zones, the kind of sequence, nested columns."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def compared(ours: pa.Table, theirs: pa.Table) -> None:
    mine = [plain(row) for row in ours.to_pylist()]
    other = [plain(row) for row in theirs.to_pylist()]
    assert len(mine) == len(other) > 0
    for found, wanted in zip(ordered(mine), ordered(other), strict=True):
        same(found, wanted)


def ordered(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def key(row: dict[str, Any]) -> str:
        names = ("file_path", "path", "name", "file", "snapshot_id", "reference_snapshot_id", "partition")
        return str([row.get("data_file", {}).get("file_path"), *(row.get(name) for name in names), row.get("status")])

    return sorted(listed, key=key)


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            if name == "partition" and not value:
                assert name not in found  # we leave out structs without fields
            else:
                same(found[name], value)
    elif wanted == [] and found is None:
        pass  # PyIceberg takes a missing map or list for an empty one
    else:
        assert sorted_pairs(found) == sorted_pairs(wanted)


def sorted_pairs(value: Any) -> Any:
    is_map = isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
    return sorted(value, key=str) if is_map else value


@pytest.mark.parametrize("name", ["snapshots", "history", "refs", "metadata_log_entries", "manifests", "all_manifests"])
def test_tables_of_snapshots_and_manifests_agree(table: IcebergTable, name: str) -> None:
    theirs = StaticTable.from_metadata(table.metadata_location)
    compared(table.inspect(name), getattr(theirs.inspect, name)())


@pytest.mark.parametrize("name", [*UNFIT, "partitions"])
def test_tables_of_files_agree(table: IcebergTable, name: str) -> None:
    theirs = StaticTable.from_metadata(table.metadata_location)
    compared(table.inspect(name), getattr(theirs.inspect, name)())


@pytest.mark.parametrize("name", ["entries", "files", "data_files", "partitions"])
def test_tables_of_an_earlier_snapshot_agree(table: IcebergTable, name: str) -> None:
    theirs = StaticTable.from_metadata(table.metadata_location)
    for snapshot in table.snapshots:
        compared(table.inspect(name, version=snapshot.snapshot_id), getattr(theirs.inspect, name)(snapshot.snapshot_id))
