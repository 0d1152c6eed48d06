"""Small jobs on a table, and arguments that cannot be meant."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.errors import ColumnNotFound, FrazilError, InvalidArgument, InvalidName, MalformedMetadata
from frazil.iceberg.manifest_reader import SHARED_CACHE
from frazil.iceberg.table import IcebergTable


def table(schema: str = "id INT, p STRING", **options: Any) -> IcebergTable:
    return frazil.connect("memory:").create_table("db.t", schema, **options)


def ids(found: IcebergTable, **options: Any) -> list[int]:
    return sorted(found.scan(**options).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_rows_left_of_a_file_whose_partition_column_is_gone_move_to_the_current_spec(format_version: int) -> None:
    found = table(partition_by="p", format_version=format_version)
    found.append([{"id": 1, "p": "a"}, {"id": 2, "p": "a"}, {"id": 3, "p": "b"}])
    found.update_spec().remove_field("p").commit()
    found.update_schema().drop_column("p").commit()
    found.delete("id = 1")
    assert ids(found) == [2, 3]
    files = {task.file.record_count: task.file for task in found.scan(where="id = 2").plan().tasks()}
    assert files[1].spec_id == found.spec.spec_id
    assert [task.file.partition for task in found.scan(where="id = 3").plan().tasks()] == [("b",)]


def test_overwriting_nothing_by_nothing_is_no_error() -> None:
    found = table()
    assert found.overwrite([]).summary["total-records"] == "0"
    found.append([{"id": 1}])
    found.overwrite([], where="id = 5")
    assert ids(found) == [1]
    found.overwrite([])
    assert ids(found) == []


@pytest.mark.parametrize(
    "options",
    [
        {"as_of": dt.date(2026, 1, 1)},
        {"as_of": 1.5},
        {"limit": "a"},
        {"limit": -1},
        {"version": "123"},
        {"ref": 5},
        {"columns": [1]},
        {"columns": 5},
        {"where": 5},
    ],
    ids=str,
)
def test_a_scan_refuses_arguments_of_the_wrong_kind(options: dict[str, Any]) -> None:
    found = table()
    found.append([{"id": 1}])
    with pytest.raises(FrazilError) as refused:
        found.scan(**options).to_arrow()
    assert refused.value.hint


@pytest.mark.parametrize("name", ["", "  ", "a\nb", 5], ids=repr)
def test_a_branch_needs_a_name(name: Any) -> None:
    found = table()
    with pytest.raises(InvalidName):
        found.append([{"id": 1}], branch=name)
    assert not found.refs


def test_the_format_version_is_an_integer() -> None:
    with pytest.raises(InvalidArgument):
        table(format_version="2")
    with pytest.raises(InvalidArgument):
        table().upgrade_format_version().to("3")  # type: ignore[arg-type]


def test_only_near_names_are_suggested() -> None:
    with pytest.raises(ColumnNotFound, match=r"the columns are 'id', 'p'"):
        table().scan(where="quantity = 1").to_arrow()
    with pytest.raises(ColumnNotFound, match=r"did you mean 'id'\?"):
        table().scan(where="idd = 1").to_arrow()


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    lake = frazil.connect(tmp_path)
    found = lake.create_table("db.t", "id INT")
    for number in range(3):
        found.append([{"id": number}])
    for pattern in ("*-m0.avro", "snap-*.avro"):
        damaged = min((tmp_path / "db/t/metadata").glob(pattern))
        content = damaged.read_bytes()
        damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 255]))
        SHARED_CACHE.clear()
        with pytest.raises(MalformedMetadata, match=damaged.name):
            [lake.table("db.t").scan(version=snapshot.snapshot_id).count() for snapshot in found.snapshots]
        damaged.write_bytes(content)
