"""Rollbacks and other moves of the current snapshot."""

from __future__ import annotations

import pytest

from frazil import ambient
from frazil.errors import InvalidArgument, RefNotFound, SnapshotNotFound
from frazil.iceberg.actions.manage_refs import ManageRefs
from frazil.iceberg.actions.rollback import Rollback
from tests.iceberg.memory_committer import Table


def rollback(table: Table) -> Rollback:
    return Rollback(table.transaction())


def test_a_table_goes_back_to_an_ancestor_and_loses_no_snapshot():
    table = Table()
    first, second, third = table.append("a"), table.append("b"), table.append("c")
    rollback(table).to_snapshot(first).commit()
    assert table.metadata.current_snapshot_id == first
    assert [entry.snapshot_id for entry in table.metadata.snapshot_log] == [first, second, third, first]
    assert len(table.metadata.snapshots) == 3
    rollback(table).set_current(third).commit()
    assert table.metadata.current_snapshot_id == third


def test_what_is_not_an_ancestor_is_no_rollback():
    table = Table()
    first, second = table.append("a"), table.append("b")
    rollback(table).to_snapshot(first).commit()
    with pytest.raises(InvalidArgument, match="not an ancestor"):
        rollback(table).to_snapshot(second).commit()
    with pytest.raises(SnapshotNotFound):
        rollback(table).to_snapshot(12345).commit()


def test_a_time_means_the_newest_ancestor_before_it():
    with ambient.replaced(ambient.Ambient(seed=1, start_ms=1_000_000)):
        table = Table()
        first, second, third = (table.append(name) for name in "abc")
        times = {number: table.metadata.snapshot(number).timestamp_ms for number in (first, second, third)}
        rollback(table).to_timestamp(times[third]).commit()
        assert table.metadata.current_snapshot_id == second
        rollback(table).set_current(third).commit()
        rollback(table).to_timestamp(times[second]).commit()
        assert table.metadata.current_snapshot_id == first
        with pytest.raises(SnapshotNotFound, match="no snapshot before"):
            rollback(table).to_timestamp(times[first]).commit()


def test_the_current_snapshot_can_be_that_of_a_ref():
    table = Table()
    first = table.append("a")
    ManageRefs(table.transaction()).create_tag("good").set_max_ref_age_ms("main", 5000).commit()
    table.append("b")
    rollback(table).set_current("good").commit()
    assert table.metadata.current_snapshot_id == first
    assert table.metadata.refs["main"].max_ref_age_ms == 5000
    with pytest.raises(RefNotFound):
        rollback(table).set_current("bad").commit()


def test_going_nowhere_commits_nothing_and_a_target_must_be_given():
    table = Table()
    first = table.append("a")
    rollback(table).to_snapshot(first).commit()
    assert table.committer.commits == 1
    with pytest.raises(InvalidArgument, match="no target"):
        rollback(table).commit()


def test_the_target_is_checked_again_after_a_conflict():
    table = Table()
    first, second = table.append("a"), table.append("b")
    change = rollback(table).to_snapshot(second)
    rollback(table).set_current(first).commit()
    table.append("c")  # now second is on another line of history
    with pytest.raises(InvalidArgument, match="not an ancestor"):
        Rollback(table.transaction()).to_snapshot(second).commit()
    newest = table.append("d")
    change = rollback(table).to_snapshot(first)
    table.in_between(lambda: table.append("e"))
    change.commit()
    assert table.metadata.current_snapshot_id == first
    assert table.metadata.snapshot_or_none(newest) is not None


def test_a_staged_snapshot_can_become_the_first_current_one():
    table = Table()
    staged = table.append("a", staged=True)
    assert table.metadata.current_snapshot is None
    rollback(table).set_current(staged).commit()
    assert table.metadata.current_snapshot_id == staged
