"""Incremental reads: what appends added, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import frazil
from frazil.errors import InvalidArgument, SnapshotNotFound
from frazil.iceberg.incremental import appends_between
from frazil.iceberg.table import IcebergTable


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """Appends of 0, 1 and 2, an overwrite of 1 by 9 after the second, and manifests rewritten at the end."""
    lake = frazil.connect(tmp_path)
    lake.create_namespace("db")
    made = lake.create_table("db.t", "a BIGINT", properties={"commit.manifest-merge.enabled": "false"})
    made.append([{"a": 0}])
    made.append([{"a": 1}])
    made.overwrite([{"a": 9}], where="a = 1")
    made.append([{"a": 2}])
    made.rewrite_manifests().commit()
    return made


def rows_between(table: IcebergTable, start: int, end: int) -> list[int]:
    appends = appends_between(table.metadata, start, end)
    found = replace(table.scan(), appends=appends).to_arrow().column("a").to_pylist()
    return sorted(found)


def test_rows_of_appends_are_read_also_those_gone_since(table: IcebergTable) -> None:
    first, second, overwrite, third, rewrite = (snapshot.snapshot_id for snapshot in table.snapshots)
    assert rows_between(table, first, rewrite) == [1, 2]
    assert rows_between(table, first, second) == [1]
    assert rows_between(table, second, overwrite) == []
    assert rows_between(table, overwrite, third) == [2]
    assert rows_between(table, third, third) == []


def test_filters_prune_and_apply(table: IcebergTable) -> None:
    first, *_, last = table.snapshots
    appends = appends_between(table.metadata, first.snapshot_id, last.snapshot_id)
    scan = replace(table.scan("a > 1"), appends=appends)
    assert len(scan.plan()) == 1
    assert scan.to_arrow().column("a").to_pylist() == [2]


def test_a_start_that_expired_still_marks_the_beginning(table: IcebergTable) -> None:
    first, second, *_, last = table.snapshots
    left = replace(table.metadata, snapshots=tuple(one for one in table.snapshots if one is not first))
    found = appends_between(left, first.snapshot_id, last.snapshot_id)
    assert found[0].snapshot_id == second.snapshot_id


def test_a_range_that_is_none_is_refused(table: IcebergTable) -> None:
    first, *_, last = (snapshot.snapshot_id for snapshot in table.snapshots)
    with pytest.raises(InvalidArgument, match="not one of those before"):
        appends_between(table.metadata, last, first)
    with pytest.raises(SnapshotNotFound):
        appends_between(table.metadata, first, 12345)
