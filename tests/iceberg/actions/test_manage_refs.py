"""Branches and tags."""

from __future__ import annotations

import pytest

from frazil.errors import AlreadyExists, CommitConflict, InvalidArgument, InvalidName, RefNotFound, SnapshotNotFound
from frazil.iceberg.actions.manage_refs import ManageRefs
from frazil.iceberg.refs import SnapshotRef
from tests.iceberg.memory_committer import Table


def refs(table: Table) -> ManageRefs:
    return ManageRefs(table.transaction())


def test_branches_and_tags_are_created_at_the_current_or_any_snapshot():
    table = Table()
    first, second = table.append("a"), table.append("b")
    refs(table).create_branch("dev", min_snapshots_to_keep=3, max_snapshot_age_ms=10).create_tag("v1", first).commit()
    assert table.metadata.refs == {
        "main": SnapshotRef(second),
        "dev": SnapshotRef(second, "branch", 3, 10),
        "v1": SnapshotRef(first, "tag"),
    }


def test_names_are_taken_once_and_must_be_names():
    table = Table()
    table.append("a")
    refs(table).create_tag("x").commit()
    with pytest.raises(AlreadyExists, match="tag 'x'"):
        refs(table).create_branch("x").commit()
    with pytest.raises(AlreadyExists, match="branch 'y'"):
        refs(table).create_branch("y").create_tag("y").commit()
    for name in ("", "  ", "a\0b", "a\nb", "x" * 2000):
        with pytest.raises(InvalidName):
            refs(table).create_branch(name)
    refs(table).create_tag("release/1.0 (final) ü").commit()


def test_refs_need_snapshots_that_exist():
    with pytest.raises(InvalidArgument, match="no snapshot yet"):
        refs(Table()).create_branch("dev").commit()
    table = Table()
    table.append("a")
    with pytest.raises(SnapshotNotFound):
        refs(table).create_tag("t", 42).commit()
    with pytest.raises(RefNotFound):
        refs(table).replace_branch("dev", "main").commit()


def test_a_moved_ref_keeps_its_retention():
    table = Table()
    first = table.append("a")
    refs(table).create_branch("dev", max_ref_age_ms=9).create_tag("t", max_ref_age_ms=8).commit()
    second = table.append("b")
    refs(table).replace_branch("dev", "main").replace_tag("t", second).commit()
    assert table.metadata.refs["dev"] == SnapshotRef(second, max_ref_age_ms=9)
    assert table.metadata.refs["t"] == SnapshotRef(second, "tag", max_ref_age_ms=8)
    refs(table).replace_branch("main", first).commit()
    assert table.metadata.current_snapshot_id == first


def test_branches_and_tags_are_not_mistaken_for_each_other():
    table = Table()
    first = table.append("a")
    refs(table).create_branch("b").create_tag("t").commit()
    for wrong in (
        refs(table).remove_tag("b"),
        refs(table).remove_branch("t"),
        refs(table).replace_branch("t", first),
        refs(table).replace_tag("b", first),
        refs(table).set_min_snapshots_to_keep("t", 1),
        refs(table).rename_branch("t", "u"),
    ):
        with pytest.raises(InvalidArgument, match="is a"):
            wrong.commit()


def test_refs_are_removed_and_renamed_but_never_main():
    table = Table()
    first = table.append("a")
    refs(table).create_branch("b", max_ref_age_ms=7).create_tag("t").commit()
    refs(table).remove_tag("t").rename_branch("b", "c").commit()
    assert table.metadata.refs == {"main": SnapshotRef(first), "c": SnapshotRef(first, max_ref_age_ms=7)}
    refs(table).remove_branch("c").commit()
    assert list(table.metadata.refs) == ["main"]
    with pytest.raises(InvalidArgument, match="main"):
        refs(table).remove_branch("main")
    with pytest.raises(InvalidArgument, match="main"):
        refs(table).rename_branch("main", "other")
    with pytest.raises(RefNotFound):
        refs(table).remove_tag("t").commit()
    refs(table).create_branch("x").commit()
    with pytest.raises(AlreadyExists):
        refs(table).rename_branch("x", "main").commit()


def test_retention_is_set_and_unset():
    table = Table()
    first = table.append("a")
    refs(table).set_min_snapshots_to_keep("main", 2).set_max_snapshot_age_ms("main", 3).set_max_ref_age_ms(
        "main", 4
    ).commit()
    assert table.metadata.refs["main"] == SnapshotRef(first, "branch", 2, 3, 4)
    refs(table).set_min_snapshots_to_keep("main", None).commit()
    assert table.metadata.refs["main"] == SnapshotRef(first, "branch", None, 3, 4)
    with pytest.raises(InvalidArgument):
        refs(table).create_tag("t", max_ref_age_ms=0)
    with pytest.raises(InvalidArgument):
        refs(table).set_max_snapshot_age_ms("main", -1).commit()


def test_a_branch_is_fast_forwarded_only_along_its_own_history():
    table = Table()
    table.append("a")
    refs(table).create_branch("dev").commit()
    ahead = table.append("b", branch="dev")
    refs(table).fast_forward("main", "dev").commit()
    assert table.metadata.current_snapshot_id == ahead
    commits = table.committer.commits
    refs(table).fast_forward("main", "dev").commit()
    assert table.committer.commits == commits
    table.append("c")
    table.append("d", branch="dev")
    with pytest.raises(InvalidArgument, match="fast-forward"):
        refs(table).fast_forward("main", "dev").commit()
    refs(table).fast_forward("new", "dev").commit()
    assert table.metadata.refs["new"] == table.metadata.refs["dev"]


def test_a_fast_forward_overtaken_by_a_commit_is_a_conflict():
    table = Table()
    table.append("a")
    refs(table).create_branch("dev").commit()
    table.append("b", branch="dev")
    change = refs(table).fast_forward("main", "dev")
    table.in_between(lambda: table.append("c"))
    with pytest.raises(CommitConflict, match="fast-forward"):
        change.commit()


def test_a_branch_created_meanwhile_is_not_overwritten():
    table = Table()
    first = table.append("a")
    change = refs(table).create_branch("dev")
    table.in_between(lambda: refs(table).create_tag("dev").commit())
    with pytest.raises(AlreadyExists):
        change.commit()
    assert table.metadata.refs["dev"] == SnapshotRef(first, "tag")


def test_a_branch_that_moved_meanwhile_is_replaced_where_it_is_now():
    table = Table()
    first = table.append("a")
    refs(table).create_branch("dev").commit()
    table.append("b")
    change = refs(table).replace_branch("dev", "main")
    table.in_between(lambda: table.append("c"))  # main moves, dev does not: nothing the change requires
    change.commit()
    assert table.metadata.is_ancestor(first, table.metadata.refs["dev"].snapshot_id)
    newest = table.append("d")
    change = refs(table).replace_branch("dev", "main")
    table.in_between(lambda: table.append("e", branch="dev"))
    change.commit()
    assert table.metadata.refs["dev"].snapshot_id == newest
