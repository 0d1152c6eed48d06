"""Compaction, indices that cover less, and clean-up that keeps what is needed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lance
import pytest

from frazil.errors import CommitFailed, InvalidArgument, SnapshotNotFound
from frazil.io.store import Stores
from frazil.lance.indices import covered
from frazil.lance.operations.compaction import commit_compaction, compact_group, plan_compaction
from frazil.lance.table import LanceTable
from tests.lance.test_table import check, made, numbers, opened

FUTURE = 1 << 50


def indexed(folder: Path) -> Any:
    return lance.dataset(folder).list_indices()[0]


@pytest.mark.parametrize("stable", [False, True])
def test_indices_are_carried_and_still_right(tmp_path: Path, stable: bool) -> None:
    table = made(tmp_path, numbers(100), stable_row_ids=stable)
    table.append(numbers(100, 100))
    lance.dataset(tmp_path).create_scalar_index("a", "BTREE")
    lance.dataset(tmp_path).create_scalar_index("b", "BTREE")
    table.refresh()

    def found(where: str) -> list[int]:
        dataset = lance.dataset(tmp_path)
        assert "ScalarIndexQuery" in dataset.scanner(filter=where).explain_plan()
        expected = sorted(table.refresh().scan(where, ["a"]).to_arrow().column("a").to_pylist())
        assert sorted(dataset.to_table(filter=where).column("a").to_pylist()) == expected
        return expected

    assert found("a >= 95 AND a < 105") == list(range(95, 105))
    table.append(numbers(50, 200))
    assert [covered(index) for index in table.current_snapshot.indices] == [frozenset({0, 1})] * 2
    assert found("a >= 195 AND a < 205") == list(range(195, 205))
    table.delete("a = 199")
    table.update({"a": "a + 1000"}, "a >= 190 AND a < 195")
    assert found("a >= 188 AND a < 205") == [188, 189, *range(195, 199), *range(200, 205)]
    assert found("a >= 1000") == list(range(1190, 1195))
    assert found("b = '190'") == [1190]
    table.delete("a < 100")
    table.compact()
    assert len(table.current_snapshot.manifest.fragments) < 4
    assert found("a >= 1000") == list(range(1190, 1195))
    assert found("a >= 188 AND a < 205") == [188, 189, *range(195, 199), *range(200, 205)]
    assert found("b = '120'") == [120]
    lance.dataset(tmp_path).optimize.optimize_indices()
    assert found("a >= 1000") == list(range(1190, 1195))
    table.refresh().drop_columns("b")
    assert [index.name for index in table.current_snapshot.indices] == ["a_idx"]
    check(tmp_path)


def test_compaction_in_three_steps(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(10))
    for start in range(10, 100, 10):
        table.append(numbers(10, start))
    table.delete("a = 5")
    plan = table.plan_compaction(target_rows=30)
    assert [len(group.plan) for group in plan.groups] == [4, 3, 3]
    results = [compact_group(Stores(), pickle.loads(pickle.dumps(group))) for group in plan.groups]
    opened(tmp_path).append(numbers(5, 200))  # does not mind
    done = commit_compaction(table._history(), plan.version, results)
    assert (done.fragments_removed, done.fragments_added) == (10, 4)
    found = check(tmp_path)
    assert sorted(found.column("a").to_pylist()) == sorted([*(n for n in range(100) if n != 5), *range(200, 205)])
    assert table.refresh().plan_compaction(target_rows=1).groups == ()
    with pytest.raises(InvalidArgument):
        table.plan_compaction(target_rows=0)


def test_rows_deleted_after_the_plan_do_not_return(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(10))
    table.append(numbers(10, 10))
    plan = plan_compaction(Stores(), table.current_snapshot)
    results = [compact_group(Stores(), group) for group in plan.groups]
    lance.dataset(tmp_path).delete("a = 5")
    with pytest.raises(CommitFailed):
        commit_compaction(table._history(), plan.version, results)
    assert 5 not in check(tmp_path).column("a").to_pylist()
    assert len(list((tmp_path / "data").iterdir())) == 2  # what was written for it is gone again
    table.compact()
    assert check(tmp_path).num_rows == 19


def files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_clean_up_keeps_what_tags_and_branches_need(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(10))
    table.delete("a = 1")
    table.create_tag("two")
    table.overwrite(numbers(5, 100))
    table.append(numbers(5, 200))
    branch = table.create_branch("b")
    branch.append(numbers(1, 300))
    table.refresh().delete("a = 200")
    table.compact()
    table.clean_up(older_than=0)  # nothing is that old
    assert len(table.snapshots) == 6
    told = table.clean_up(older_than=FUTURE, dry_run=True)
    before = files(tmp_path)
    assert (told.versions, len(table.snapshots)) == (4, 6)
    done = table.clean_up(older_than=FUTURE)
    assert done == told
    assert len(before - files(tmp_path)) == done.files + done.versions
    assert [version.version for version in table.snapshots] == [2, 6]
    assert table.scan(ref="two").count() == 9
    assert table.scan(ref="b").to_arrow().num_rows == 11
    assert check(tmp_path).num_rows == 9
    assert lance.dataset(tmp_path).checkout_version("two").to_table().num_rows == 9
    assert lance.dataset(tmp_path).checkout_version(("b", None)).to_table().num_rows == 11
    with pytest.raises(SnapshotNotFound):
        table.scan(version=3)


def test_files_of_no_version_are_left_for_a_week(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(10))
    orphan = tmp_path / "data" / "orphan.lance"
    orphan.write_bytes(b"x")
    table.append(numbers(1))
    assert table.clean_up(older_than=FUTURE).files == 1  # the first version's transaction
    assert orphan.exists()
    assert table.clean_up(older_than=FUTURE, delete_unverified=True).files == 1
    assert not orphan.exists()
    check(tmp_path)


def test_clean_up_beside_pylances(tmp_path: Path) -> None:
    """The same versions and files are left, whoever cleans up."""
    import datetime

    for who in ("ours", "theirs"):
        table = made(tmp_path / who, numbers(10))
        table.delete("a = 1")
        table.update({"b": "'x'"}, "a = 2")
        table.overwrite(numbers(5))
        table.append(numbers(5))
    LanceTable.open(Stores(), str(tmp_path / "ours")).clean_up(older_than=FUTURE)
    lance.dataset(tmp_path / "theirs").cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True)

    def shape(folder: Path) -> dict[str, int]:
        found: dict[str, int] = {}
        for name in files(folder):
            part = name.split("/")[0]
            found[part] = found.get(part, 0) + 1
        return found

    assert shape(tmp_path / "ours") == shape(tmp_path / "theirs")
    check(tmp_path / "ours")


@pytest.mark.parametrize("kind", ["data", "deletions", "index"])
def test_clean_up_by_another_path_keeps_what_a_branch_needs(tmp_path: Path, kind: str) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    table = made(real, numbers(300))
    if kind == "deletions":
        table.delete("a = 1")
    if kind == "index":
        lance.dataset(real).create_scalar_index("a", "BTREE")
        table.refresh()
    branch = table.create_branch("dev")
    link.symlink_to(real)
    other = opened(link)
    other.overwrite(numbers(1, 1000))
    other.clean_up(older_than=FUTURE, delete_unverified=True)
    expected = 299 if kind == "deletions" else 300
    assert opened(real).branch("dev").scan().to_arrow().num_rows == expected
    if kind == "index":
        found = lance.dataset(real).checkout_version(("dev", branch.version)).to_table(filter="a = 7")
        assert found.num_rows == 1
