"""Losses that reviewers of this project showed to be possible; none of them happened to anybody."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.errors import CommitConflict, SnapshotNotFound
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.upsert import key_writer
from frazil.iceberg.write import RowWriter
from frazil.model.conform import conform

OLD = 1_000_000_000
VERSIONS = pytest.mark.parametrize("version", [2, 3])


def aged(folder: Path) -> None:
    for file in folder.rglob("*"):
        os.utime(file, (OLD, OLD))


def pairs(table: IcebergTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.refresh().scan().to_arrow().to_pylist())


def test_orphan_removal_through_a_link_keeps_the_last_commit(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    frazil.connect(tmp_path / "link/wh").create_table("db.t", "id BIGINT").append([{"id": 1}])
    table = frazil.connect(tmp_path / "real/wh").table("db.t")
    table.append([{"id": 2}])
    table.append([{"id": 3}])
    stray = tmp_path / "real/wh/db/t/data/stray.parquet"
    stray.write_bytes(b"nobody's")
    aged(tmp_path / "real")
    found = table.remove_orphan_files().orphan_file_locations
    assert [Path(one).name for one in found] == ["stray.parquet"]
    for name in ("link", "real"):
        assert frazil.connect(tmp_path / name / "wh").table("db.t").scan().count() == 3


def test_orphan_removal_of_a_moved_table_keeps_the_last_commit(tmp_path: Path) -> None:
    table = frazil.connect(tmp_path / "wh").create_table("db.t", "id BIGINT")
    table.append([{"id": 1}])
    shutil.copytree(tmp_path / "wh/db/t", tmp_path / "copy")
    moved = frazil.open(str(tmp_path / "copy"), relocate=True)
    assert isinstance(moved, IcebergTable)
    moved.append([{"id": 2}])
    aged(tmp_path / "copy")
    moved.remove_orphan_files()
    assert frazil.open(str(tmp_path / "copy"), relocate=True).scan().count() == 2


def test_orphan_removal_leaves_a_lance_table_alone_that_is_inside_the_folder(tmp_path: Path) -> None:
    lake = frazil.connect(f"sqlite:///{tmp_path}/lake.db", warehouse=tmp_path)
    table = lake.create_table("db.t", "id BIGINT", location=str(tmp_path / "t"))
    table.append([{"id": 1}])
    inside = lake.create_table("db.v", "id BIGINT", format="lance", location=str(tmp_path / "t/vectors"))
    inside.append([{"id": 7}])
    aged(tmp_path)
    found = table.remove_orphan_files()
    assert not found.orphan_file_locations
    assert "another table" in found.problems[0]
    assert lake.table("db.v").scan().count() == 1


def test_a_commit_that_is_in_keeps_its_files_though_its_snapshot_is_not_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = frazil.connect(tmp_path).create_table("db.t", "id BIGINT")
    table.append([{"id": 1}])

    def lost(_table: IcebergTable, number: int) -> Any:
        raise SnapshotNotFound(f"no snapshot {number}", hint="another thread loaded an older state")

    with monkeypatch.context() as patched:
        patched.setattr(IcebergTable, "snapshot", lost)
        with pytest.raises(SnapshotNotFound):
            table.append([{"id": 2}])
        with pytest.raises(SnapshotNotFound):
            table.upsert([{"id": 1}], ["id"])
    assert pairs(table) == [(1,), (2,)]


@VERSIONS
@pytest.mark.parametrize("how", ["another spec", "a key that is gone"])
def test_a_compaction_is_refused_if_a_younger_delete_would_not_reach_its_files(
    version: int, how: str, tmp_path: Path
) -> None:
    lake = frazil.connect(tmp_path)
    table = lake.create_table("db.t", "id BIGINT, v INT", partition_by=["bucket(4, id)"], format_version=version)
    if how == "a key that is gone":
        table = lake.create_table("db.u", "id BIGINT, v INT", format_version=version)
    table.append([{"id": n, "v": 0} for n in range(4)])
    stale = lake.table(table.identifier)
    if how == "another spec":
        table.update_spec().remove_field("id_bucket").add_field("bucket(8, id)").commit()
    base = table.current_snapshot
    assert base is not None
    old = [task.file for task in table.scan().plan().tasks()]
    rows = table.scan().to_arrow()
    if how == "a key that is gone":
        table.update_schema().drop_column("id").commit()
        rows = rows.drop_columns(["id"])
    new = RowWriter(table.metadata, table.store).write(conform(rows, table.schema))
    deletes = key_writer(stale.metadata, stale.store, ["id"]).write([stale.scan("id = 1").to_arrow().to_batches()[0]])
    delta = table.new_row_delta()
    for file in deletes:
        delta.add_deletes(file)
    delta.commit()
    action = table.new_rewrite().rewrite(old, new).data_sequence_number(base.sequence_number)
    with pytest.raises(CommitConflict):
        action.validate_from(base.snapshot_id).commit()
    assert table.refresh().scan().count() == 3


@VERSIONS
def test_keys_for_another_partitioning_than_the_tables_are_not_committed(version: int, tmp_path: Path) -> None:
    lake = frazil.connect(tmp_path)
    table = lake.create_table("db.t", "id BIGINT, v INT", partition_by=["bucket(4, id)"], format_version=version)
    table.append([{"id": 1, "v": 0}])
    stale = lake.table("db.t")
    table.update_spec().add_field("bucket(8, id)").commit()
    table.append([{"id": 100, "v": 0}])
    with pytest.raises(CommitConflict, match="partitioned in another way"):
        stale.upsert([{"id": 100, "v": 1}], ["id"])
    assert pairs(table) == [(1, 0), (100, 0)]


@VERSIONS
def test_an_upsert_to_what_was_empty_does_not_pass_over_expired_snapshots(version: int, tmp_path: Path) -> None:
    lake = frazil.connect(tmp_path)
    table = lake.create_table("db.t", "id BIGINT, v INT", format_version=version)
    stale = lake.table("db.t")
    expired = [table.append([{"id": number, "v": 0}]).snapshot_id for number in (1, 2)]
    table.delete("id = 2")
    table.expire_snapshots().expire_ids(expired).commit()
    assert len(table.refresh().snapshots) == 1
    with pytest.raises(CommitConflict, match="expired"):
        stale.upsert([{"id": 1, "v": 9}], ["id"])
    assert pairs(table) == [(1, 0)]
