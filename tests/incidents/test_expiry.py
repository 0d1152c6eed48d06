"""Expiry removes what only expired snapshots need, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil import ambient
from frazil.errors import CommitConflict, CommitStateUnknown, InvalidArgument
from frazil.iceberg.table import IcebergTable
from tests.faults import Fault, StoreError
from tests.incidents.lakes import Place, again, data_files, ids_in, new_table, place, rows_of, vector


def everything(table: IcebergTable) -> dict[int, list[int]]:
    """The rows of every snapshot that is left."""
    return {one.snapshot_id: ids_in(table, version=one.snapshot_id) for one in table.snapshots}


def check_unharmed(table: IcebergTable, before: dict[int, list[int]]) -> None:
    after = everything(again(table))
    assert after == {number: before[number] for number in after}


def busy_table(at: Place, version: int = 3) -> IcebergTable:
    """A history with a branch, a tag, a rollback, vectors, rewritten files, and a file that left and came back."""
    table = new_table(at, version=version, commit__manifest__min_count_to_merge="3")
    table.append(rows_of(1, 2, 3))
    (file,) = data_files(table)
    table.append(rows_of(4))
    table.manage_refs().create_tag("tagged").commit()
    table.manage_refs().create_branch("dev").commit()
    if version >= 3:
        table.new_row_delta().add_deletes(vector(table, file, [0])).commit()
    table.append(rows_of(10), branch="dev")
    table.delete("id = 3")
    table.delete("id = 10", branch="dev")
    before = table.append(rows_of(5)).snapshot_id
    table.append(rows_of(6))
    table.rollback().to_snapshot(before).commit()
    table.append(rows_of(7))
    table.new_fast_append().append_file(file).commit()  # it was removed above, and is back
    table.rewrite_manifests().commit()
    table.append(rows_of(11), branch="dev")
    return table


def test_files_of_a_tag_and_a_branch_outlive_an_expiry_that_leaves_one_ref():
    """C4 #6 (iceberg#13568): several refs before the expiry, one after, and by that one files were deleted."""
    table = new_table()
    first = table.append(rows_of(1)).snapshot_id
    table.manage_refs().create_branch("dev").create_tag("old", max_ref_age_ms=1).commit()
    table.append(rows_of(2), branch="dev")
    table.overwrite(rows_of(3))
    before = everything(table)
    table.manage_refs().remove_branch("dev").commit()
    ambient.sleep(60)
    result = table.expire_snapshots().older_than(ambient.now_ms()).commit().result
    assert result.removed_refs == ("old",)
    assert first in result.expired_snapshot_ids
    check_unharmed(table, before)
    assert ids_in(again(table)) == [3]


def test_files_of_every_ref_that_is_left_stay():
    """C4 #6: tag and branch keep theirs while main moves on without them."""
    table = new_table()
    table.append(rows_of(1))
    table.manage_refs().create_tag("old").create_branch("dev").commit()
    table.append(rows_of(2), branch="dev")
    for number in range(3):
        table.overwrite(rows_of(30 + number))
    before = everything(table)
    table.expire_snapshots().older_than(2**62).commit()
    check_unharmed(table, before)
    assert (ids_in(again(table), ref="old"), ids_in(again(table), ref="dev")) == ([1], [1, 2])
    assert ids_in(again(table)) == [32]


def test_expiring_a_middle_snapshot_leaves_those_before_it_readable():
    """C4 #7 (iceberg#10982): the middle one deleted a file that the first still has."""
    table = new_table()
    table.append(rows_of(1))
    middle = table.overwrite(rows_of(2)).snapshot_id
    table.overwrite(rows_of(3))
    before = everything(table)
    table.expire_snapshots().expire_ids([middle]).commit()
    check_unharmed(table, before)
    assert len(again(table).snapshots) == 2


def test_a_file_that_was_deleted_and_added_again_stays():
    """C4 #7 (iceberg#2131): the snapshot that deleted it expires, the one that has it again does not."""
    table = new_table()
    table.append(rows_of(1))
    (file,) = data_files(table)
    removed = table.new_delete().delete_file(file).commit().snapshot_id
    table.new_fast_append().append_file(file).commit()
    before = everything(table)
    table.expire_snapshots().expire_ids([table.history[-1].snapshot_id, removed]).commit()
    check_unharmed(table, before)
    assert ids_in(again(table)) == [1]


@settings(max_examples=12)
@given(st.data())
def test_any_snapshots_can_expire_without_harm_to_the_others(data: st.DataObject):
    """C4 #6 and #7, as a property: after expiring any set, every snapshot that is left reads as before."""
    with ambient.replaced(ambient.Ambient(seed=8, start_ms=1_700_000_000_000)):
        at = place()
        table = busy_table(at, data.draw(st.sampled_from([2, 3])))
        before = everything(table)
        for _ in range(2):
            heads = {ref.snapshot_id for ref in table.refs.values()}
            free = sorted(number for number in everything(table) if number not in heads)
            chosen = data.draw(st.sets(st.sampled_from(free))) if free else set()
            result = table.expire_snapshots().older_than(0).expire_ids(chosen).commit().result
            assert set(result.expired_snapshot_ids) == chosen
            assert (result.failed_files, result.problems) == ((), ())
            check_unharmed(table, before)
            table.refresh()


def test_after_the_last_expiry_only_what_the_refs_need_is_left():
    """C4 #6: and it does delete what nobody needs."""
    at = place()
    table = busy_table(at)
    before = everything(table)
    table.expire_snapshots().older_than(2**62).commit()
    check_unharmed(table, before)
    kept = {path for one in again(table).snapshots for path in table.scan(version=one.snapshot_id).plan().file_paths}
    stored = {path for path in at.contents() if path.endswith(".parquet")}
    assert stored == kept


def test_a_ref_created_while_snapshots_expire_keeps_its_snapshot():
    """C4 #6: the expiry is worked out again on what the other writer left."""
    table = new_table()
    first = table.append(rows_of(1)).snapshot_id
    table.overwrite(rows_of(2))
    expiry = again(table).expire_snapshots().older_than(2**62)
    table.manage_refs().create_tag("late", first).commit()
    assert expiry.commit().result.expired_snapshot_ids == ()
    assert ids_in(again(table), ref="late") == [1]
    by_id = again(table).expire_snapshots().expire_ids([first])
    with pytest.raises((InvalidArgument, CommitConflict)):
        by_id.commit()
    assert ids_in(again(table), ref="late") == [1]


def test_an_expiry_whose_answer_is_lost_deletes_nothing():
    """C4 #1 for expiry: which snapshots are left is not known, so no file goes."""
    at = place("folder")
    table = new_table(at)
    table.append(rows_of(1))
    table.overwrite(rows_of(2))
    at.plan(
        Fault("put_if_absent", "after", StoreError("time-out", hint="-")),
        Fault("read", "before", StoreError("no route", hint="-"), match="/v", times=99),
    )
    with pytest.raises(CommitStateUnknown):
        table.expire_snapshots().older_than(2**62).commit()
    at.plan()
    assert at.deleted() == []
    assert ids_in(at.table()) == [2]


def test_a_manifest_that_cannot_be_read_keeps_every_file():
    """C4 #7: what a snapshot that stays needs cannot be told, so nothing is deleted."""
    at = place()
    table = new_table(at)
    table.append(rows_of(1))
    table.overwrite(rows_of(2))
    files = {path for path in at.contents() if path.endswith(".parquet")}
    at.plan(Fault("read", "before", StoreError("no"), match=str(table.current_snapshot.snapshot_id), times=99))
    action = again(table).expire_snapshots().older_than(2**62).commit()
    at.plan()
    assert action.result.problems
    assert {path for path in at.contents() if path.endswith(".parquet")} == files
    assert ids_in(again(table)) == [2]
