"""Cherry-picks: staged and branched changes made again elsewhere."""

from __future__ import annotations

import pytest

from frazil.errors import CommitConflict, InvalidArgument, SnapshotNotFound
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.cherry_pick import CherryPick
from frazil.iceberg.actions.delete_files import DeleteFiles
from frazil.iceberg.actions.expire_snapshots import ExpireSnapshots
from frazil.iceberg.actions.manage_refs import ManageRefs
from frazil.iceberg.actions.replace_partitions import ReplacePartitions
from frazil.iceberg.actions.rollback import Rollback
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.manifest import ALL_COLUMNS
from tests.iceberg.memory_committer import Table


def pick(table: Table, snapshot_id: int) -> CherryPick:
    return CherryPick(table.transaction(), snapshot_id)


def live(table: Table, ref: str = "main") -> dict[str, DataFile]:
    context = Context(table.metadata, table.store)
    snapshot = table.metadata.snapshot(table.metadata.refs[ref].snapshot_id)
    files = {}
    for entries in context.reader.read(context.manifests(snapshot), ALL_COLUMNS):
        for file in entries.filter(entries.live).iter_files():
            assert file.file_path not in files
            files[file.file_path] = file
    return {path.rpartition("/")[2]: file for path, file in files.items()}


def replace_partition(table: Table, *files: DataFile, staged: bool = True) -> int:
    action = ReplacePartitions(table.transaction()).add_files(files)
    return (action.stage_only() if staged else action).commit().snapshot_id


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_staged_append_is_made_again_on_top_of_what_came_since(version: int):
    table = Table(version)
    table.append("a")
    staged = table.append("w", staged=True, wap_id="w-1")
    later = table.append("b")
    picked = pick(table, staged).commit()
    current = table.metadata.current_snapshot
    assert current is not None
    assert current.snapshot_id == picked.snapshot_id != staged
    assert current.parent_snapshot_id == later
    assert current.operation == "append"
    assert current.summary["source-snapshot-id"] == str(staged)
    assert current.summary["published-wap-id"] == "w-1"
    assert "wap.id" not in current.summary
    assert current.summary["total-data-files"] == "3"
    files = live(table)
    assert set(files) == {"a", "b", "w"}
    if version > 1:
        assert files["w"].data_sequence_number == current.sequence_number
    if version == 3:
        starts = [file.first_row_id for file in files.values()]
        assert None not in starts
        assert len(set(starts)) == 3
        assert files["w"].first_row_id == current.first_row_id


def test_a_staged_snapshot_on_the_head_becomes_current_itself():
    table = Table()
    table.append("a")
    staged = table.append("w", staged=True)
    commits = table.committer.commits
    assert pick(table, staged).commit().snapshot_id == staged
    assert table.metadata.current_snapshot_id == staged
    assert (table.committer.commits, len(table.metadata.snapshots)) == (commits + 1, 2)


def test_the_first_snapshot_of_an_empty_table_can_be_picked():
    table = Table()
    staged = table.append("w", staged=True)
    pick(table, staged).commit()
    assert table.metadata.current_snapshot_id == staged


def test_any_change_can_be_picked_where_it_was_made():
    table = Table()
    table.append("a", "b")
    deleted = DeleteFiles(table.transaction()).delete_file(f"{table.location}/data/a").stage_only().commit().snapshot_id
    pick(table, deleted).commit()
    assert set(live(table)) == {"b"}


def test_a_fast_forward_that_was_overtaken_becomes_an_append():
    table = Table()
    table.append("a")
    staged = table.append("w", staged=True)
    change = pick(table, staged)
    table.in_between(lambda: table.append("b"))
    assert change.commit().snapshot_id != staged
    assert set(live(table)) == {"a", "b", "w"}


def test_a_change_that_needs_the_rows_it_was_made_from_is_refused_elsewhere():
    table = Table()
    table.append("a", "b")
    deleted = DeleteFiles(table.transaction()).delete_file(f"{table.location}/data/a").stage_only().commit().snapshot_id
    table.append("c")
    with pytest.raises(InvalidArgument, match="neither an append, nor a dynamic overwrite"):
        pick(table, deleted).commit()
    assert set(live(table)) == {"a", "b", "c"}


def test_nothing_is_applied_twice():
    table = Table()
    first = table.append("a")
    staged = table.append("w", staged=True)
    again = table.append("v", staged=True, wap_id="id")
    same_id = table.append("u", staged=True, wap_id="id")
    table.append("b")
    with pytest.raises(InvalidArgument, match="ancestor of main"):
        pick(table, first).commit()
    picked = pick(table, staged).commit().snapshot_id
    with pytest.raises(InvalidArgument, match=str(picked)):
        pick(table, staged).commit()
    pick(table, again).commit()
    with pytest.raises(InvalidArgument, match=r"wap\.id 'id' was published"):
        pick(table, same_id).commit()
    assert set(live(table)) == {"a", "b", "v", "w"}
    with pytest.raises(SnapshotNotFound):
        pick(table, 42).commit()


def test_two_writers_that_publish_the_same_snapshot_publish_it_once():
    table = Table()
    table.append("a")
    staged = table.append("w", staged=True)
    table.append("b")
    change = pick(table, staged)
    table.in_between(lambda: pick(table, staged).commit())
    with pytest.raises(InvalidArgument, match="cannot be cherry-picked"):
        change.commit()
    assert set(live(table)) == {"a", "b", "w"}


def test_a_dynamic_overwrite_is_made_again_if_its_partitions_are_as_they_were():
    table = Table()
    table.append("a0")
    staged = replace_partition(table, table.file("n0", bucket=0))
    replace_partition(table, table.file("x1", bucket=1), staged=False)
    picked = pick(table, staged).commit().snapshot_id
    assert set(live(table)) == {"n0", "x1"}
    snapshot = table.metadata.snapshot(picked)
    assert snapshot.operation == "overwrite"
    assert snapshot.summary["source-snapshot-id"] == str(staged)
    assert (snapshot.summary["added-data-files"], snapshot.summary["deleted-data-files"]) == ("1", "1")


def test_a_dynamic_overwrite_of_partitions_that_changed_is_a_conflict():
    table = Table()
    table.append("a0")
    staged = replace_partition(table, table.file("n0", bucket=0))
    table.append("b0")
    with pytest.raises(CommitConflict, match="id_bucket=0"):
        pick(table, staged).commit()
    assert set(live(table)) == {"a0", "b0"}


def test_a_dynamic_overwrite_whose_files_are_gone_is_a_conflict():
    table = Table()
    table.append("a0")
    staged = replace_partition(table, table.file("n0", bucket=0))
    DeleteFiles(table.transaction()).delete_file(f"{table.location}/data/a0").commit()
    with pytest.raises(CommitConflict, match="not in the table"):
        pick(table, staged).commit()


def test_a_dynamic_overwrite_from_another_line_of_history_is_refused():
    table = Table()
    first = table.append("a0")
    table.append("b0")
    staged = replace_partition(table, table.file("n0", bucket=0))
    Rollback(table.transaction()).to_snapshot(first).commit()
    with pytest.raises(InvalidArgument, match="not in the branch's history"):
        pick(table, staged).commit()


def test_a_snapshot_is_picked_onto_another_branch():
    table = Table()
    table.append("a")
    ManageRefs(table.transaction()).create_branch("old").commit()
    table.append("b")
    third = table.append("c")
    pick(table, third).to_branch("old").commit()
    assert set(live(table, "old")) == {"a", "c"}
    assert set(live(table)) == {"a", "b", "c"}


def test_the_published_files_outlive_the_staged_snapshot():
    table = Table()
    table.append("a")
    staged = table.append("w", staged=True)
    table.append("b")
    pick(table, staged).commit()
    result = ExpireSnapshots(table.transaction()).expire_ids([staged]).commit().result
    assert (result.deleted_data_files_count, result.deleted_manifest_files_count) == (0, 1)
    assert table.data_names() == {"a", "b", "w"}
