"""Which snapshot is current: the methods of a table that say so, and what they give back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from frazil.errors import InvalidArgument, RefNotFound, SnapshotNotFound
from frazil.iceberg.table import IcebergTable
from tests.iceberg.small_tables import ids_of, new_table, rows, write_files


@pytest.fixture
def table() -> IcebergTable:
    """Three appends."""
    made = new_table()
    for number in (1, 2, 3):
        made.append(rows(number))
    return made


def stage(table: IcebergTable, wap_id: str, number: int) -> int:
    action = table.new_append().append_files(write_files(table, rows(number))).stage_only().set("wap.id", wap_id)
    return action.commit().snapshot_id


def test_rolling_back_by_id_and_by_time(table: IcebergTable):
    first, second, third = table.snapshots
    assert table.rollback_to_snapshot(second.snapshot_id) == second
    assert ids_of(table) == [1, 2]
    moment = datetime.fromtimestamp(second.timestamp_ms / 1000, UTC)
    assert table.rollback_to_timestamp(moment) == first
    assert ids_of(table) == [1]
    with pytest.raises(InvalidArgument, match="not an ancestor"):
        table.rollback_to_snapshot(third.snapshot_id)
    with pytest.raises(SnapshotNotFound):
        table.rollback_to_timestamp("2001-01-01")
    with pytest.raises(SnapshotNotFound):
        table.rollback_to_snapshot(7)


def test_any_snapshot_can_be_made_the_current_one(table: IcebergTable):
    first, _, third = table.snapshots
    table.manage_refs().create_tag("old", first.snapshot_id).commit()
    assert table.set_current_snapshot("old") == first
    assert table.set_current_snapshot(third.snapshot_id) == third
    with pytest.raises(RefNotFound):
        table.set_current_snapshot("young")


def test_a_snapshot_is_cherry_picked(table: IcebergTable):
    first, _, third = table.snapshots
    table.rollback_to_snapshot(first.snapshot_id)
    made = table.cherrypick_snapshot(third.snapshot_id)
    assert made == table.current_snapshot
    assert made.summary["source-snapshot-id"] == str(third.snapshot_id)
    assert ids_of(table) == [1, 3]


def test_staged_changes_are_published_by_their_wap_id(table: IcebergTable):
    staged = stage(table, "one", 4)
    stage(table, "two", 5)
    stage(table, "two", 6)
    assert table.publish_changes("one").snapshot_id == staged  # it began at the current one
    assert ids_of(table) == [1, 2, 3, 4]
    with pytest.raises(InvalidArgument, match="2 snapshots are staged as 'two'"):
        table.publish_changes("two")
    with pytest.raises(SnapshotNotFound, match="staged as 'three'") as raised:
        table.publish_changes("three")
    assert raised.value.hint == "there is 'one', 'two'"
    with pytest.raises(InvalidArgument, match="already"):
        table.publish_changes("one")
    with pytest.raises(SnapshotNotFound) as raised:
        new_table().publish_changes("one")
    assert "nothing is staged" in str(raised.value.hint)


def test_a_branch_is_fast_forwarded(table: IcebergTable):
    first, _, third = table.snapshots
    table.manage_refs().create_branch("side", first.snapshot_id).commit()
    assert table.fast_forward("side", "main") == third
    assert table.fast_forward("new", "main") == third


def test_ancestors_come_newest_first(table: IcebergTable):
    first, second, third = table.snapshots
    table.manage_refs().create_tag("old", second.snapshot_id).commit()
    assert table.ancestors_of() == [third, second, first]
    assert table.ancestors_of(second.snapshot_id) == table.ancestors_of("old") == [second, first]
    assert new_table().ancestors_of() == []
    with pytest.raises(SnapshotNotFound):
        table.ancestors_of(7)


def test_expiry_may_delete_by_several_threads(table: IcebergTable):
    table.overwrite(rows(9))
    result = table.expire_snapshots().older_than(2**62).delete_with(3).commit().result
    assert result.deleted_data_files_count == 3
    assert ids_of(table) == [9]
    with pytest.raises(InvalidArgument, match="max_concurrent_deletes"):
        table.expire_snapshots().delete_with(0)
