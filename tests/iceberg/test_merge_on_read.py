"""`table.delete` with `write.delete.mode` merge-on-read: which files change, and what others may do meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from frazil.errors import CommitConflict, Unsupported
from frazil.iceberg.merge_on_read import MergeOnRead
from frazil.iceberg.rewrite import CopyOnWrite
from frazil.iceberg.table import IcebergTable
from frazil.model.expressions import col
from tests.iceberg.small_tables import (
    equality_deletes,
    ids_of,
    live_files,
    new_table,
    position_deletes,
    rows,
    vector,
    write_files,
)

MERGE = {"write.delete.mode": "merge-on-read"}
BOTH = pytest.mark.parametrize("version", [2, 3])


def again(table: IcebergTable) -> IcebergTable:
    """The same table in the hands of another writer, as it is now."""
    return IcebergTable(table.identifier, table.store, table._committer, table._committer.load())


def delete_files(table: IcebergTable, **at: Any) -> list[Any]:
    return list(table.scan(**at).plan().delete_files)


def data_paths(table: IcebergTable) -> set[str]:
    return {file.file_path for file in live_files(table)}


@BOTH
def test_rows_are_marked_and_their_files_stay(version: int):
    table = new_table(version, **MERGE)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5, 6))
    before = data_paths(table)
    snapshot = table.delete("id IN (2, 5)").snapshot
    assert snapshot is not None
    assert snapshot == table.current_snapshot
    assert (ids_of(table), data_paths(table)) == ([1, 3, 4, 6], before)
    assert snapshot.summary["operation"] == "delete"
    kind = "added-dvs" if version == 3 else "added-position-delete-files"
    assert (snapshot.summary[kind], snapshot.summary["added-position-deletes"]) == ("2", "2")
    table.delete("id < 4")
    assert (ids_of(table), len(data_paths(table)), len(delete_files(table))) == ([4, 6], 1, 1)


@BOTH
def test_rows_are_rewritten_unless_told(version: int):
    table = new_table(version)
    table.append(rows(1, 2, 3))
    before = data_paths(table)
    table.delete("id = 2")
    assert (ids_of(table), delete_files(table)) == ([1, 3], [])
    assert not before & data_paths(table)


@BOTH
def test_there_is_no_snapshot_if_no_row_matches(version: int):
    table = new_table(version, **MERGE)
    assert table.delete("id = 1").snapshot is None
    table.append(rows(1, 3))
    table.delete("id = 3")
    before = {file.location for file in table.store.list(table.location)}
    snapshot = table.current_snapshot
    assert table.delete("id = 2").snapshot is None  # within the bounds of the file
    assert table.delete("id = 3").snapshot is None
    assert table.refresh().current_snapshot == snapshot
    assert {file.location for file in table.store.list(table.location)} == before


@pytest.mark.parametrize("version", [1, 2, 3])
def test_whole_files_go_by_metadata_alone(version: int):
    table = new_table(version, partition_by=("part",), **MERGE)
    table.append(rows(1, 2, part=0))
    table.append(rows(3, 4, part=1))
    before = {file.location for file in table.store.list(f"{table.location}/data")}
    snapshot = table.delete("part = 0").snapshot
    assert snapshot is not None
    assert snapshot.summary["operation"] == "delete"
    assert (ids_of(table), delete_files(table)) == ([3, 4], [])
    assert {file.location for file in table.store.list(f"{table.location}/data")} == before


@BOTH
def test_whole_files_and_rows_in_one_step(version: int):
    table = new_table(version, partition_by=("part",), **MERGE)
    table.append(rows(1, 2, part=0))
    table.append(rows(3, 4, part=1))
    table.append(rows(5, 6, part=2))
    table.delete("id = 1")
    table.delete("part = 0 OR id = 4")
    assert ids_of(table) == [3, 5, 6]
    assert [file.partition for file in delete_files(table)] == [(1,)]  # that of part 0 went with its file
    assert len(table.history) == 5


def test_a_table_of_version_1_is_refused():
    table = new_table(1, **MERGE)
    table.append(rows(1, 2))
    with pytest.raises(Unsupported, match="version 1"):
        table.delete("id = 1")
    assert ids_of(table.refresh()) == [1, 2]


@BOTH
def test_a_branch_has_deletes_of_its_own(version: int):
    table = new_table(version, **MERGE)
    table.append(rows(1, 2, 3, 4))
    table.manage_refs().create_branch("dev").commit()
    table.delete("id = 1")
    table.delete("id = 2", branch="dev")
    table.delete("id = 3", branch="dev")
    assert ids_of(table) == [2, 3, 4]
    assert ids_of(table, ref="dev") == [1, 4]
    assert [len(delete_files(table, ref=ref)) for ref in ("main", "dev")] == [1, 1]


@BOTH
def test_in_a_transaction(version: int):
    table = new_table(version, **MERGE)
    table.append(rows(1, 2, 3))
    with table.transaction() as changes:
        changes.append(rows(4, 5))
        changes.delete("id IN (1, 4)")
        changes.delete("id = 2")
    assert ids_of(table) == [3, 5]
    assert len(delete_files(table)) == 2


@BOTH
def test_rows_that_equality_deletes_hide_are_not_deleted_again(version: int):
    table = new_table(version, **MERGE)
    table.append(rows(1, 2, 3))
    table.new_row_delta().add_deletes(equality_deletes(table, [{"id": 1}], "id")).commit()
    table.delete("id <= 2")
    assert ids_of(table) == [3]
    assert sorted((file.content, file.record_count) for file in delete_files(table)) == [(1, 1), (2, 1)]
    assert table.delete("id = 1").snapshot is None


def test_row_ids_stay():
    table = new_table(3, **MERGE)
    table.append(rows(1, 2, 3))
    table.delete("id = 2")
    found = table.scan(columns=["id", "_row_id", "_last_updated_sequence_number"]).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, 0, 1), (3, 2, 1)]


# Others at work.


def meanwhile(monkeypatch: pytest.MonkeyPatch, table: IcebergTable, change: Callable[[IcebergTable], Any]) -> None:
    """Let another writer change the table after the deletes were worked out, and before they are committed."""
    mine = MergeOnRead._isolated

    def isolated(*given: Any) -> Any:
        monkeypatch.setattr(MergeOnRead, "_isolated", mine)
        change(again(table))
        return mine(*given)

    monkeypatch.setattr(MergeOnRead, "_isolated", isolated)


def update(table: IcebergTable) -> None:
    """UPDATE of row 2 by another engine: a position deleted and the row written again, under snapshot isolation."""
    [file] = live_files(table)
    deletes = vector(table, file, 1) if table.format_version == 3 else position_deletes(table, (file.file_path, 1))
    action = table.new_row_delta().add_deletes(deletes)
    for new in write_files(table, [{"id": 2, "name": "updated", "part": 0}]):
        action.add_rows(new)
    action.commit()


@BOTH
@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_an_update_of_a_row_that_is_deleted_is_a_conflict(
    version: int, isolation: str, monkeypatch: pytest.MonkeyPatch
):
    """C2 I1: else the updated row would survive, though both orders say that it is gone."""
    table = new_table(version, **{**MERGE, "write.delete.isolation-level": isolation})
    table.append(rows(1, 2, 3))
    meanwhile(monkeypatch, table, update)
    with pytest.raises(CommitConflict):
        table.delete("id = 2")
    found = table.refresh().scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in found) == [(1, "n1"), (2, "updated"), (3, "n3")]
    # what was written for the commit that was refused is gone
    deletes = {file.location for file in table.store.list(f"{table.location}/data") if "deletes" in file.location}
    assert deletes == {file.file_path for file in delete_files(table)}


@BOTH
@pytest.mark.parametrize(("isolation", "refused"), [("serializable", True), ("snapshot", False)])
def test_rows_added_meanwhile(version: int, isolation: str, refused: bool, monkeypatch: pytest.MonkeyPatch):
    table = new_table(version, **{**MERGE, "write.delete.isolation-level": isolation})
    table.append(rows(1, 2, 3))
    meanwhile(monkeypatch, table, lambda other: other.append(rows(2, 4)))
    if refused:
        with pytest.raises(CommitConflict, match="added rows"):
            table.delete("id = 2")
    else:
        table.delete("id = 2")
    assert ids_of(table.refresh()) == ([1, 2, 2, 3, 4] if refused else [1, 2, 3, 4])


@BOTH
def test_rows_added_elsewhere_are_no_conflict(version: int, monkeypatch: pytest.MonkeyPatch):
    table = new_table(version, **MERGE)
    table.append(rows(1, 2, 3))
    meanwhile(monkeypatch, table, lambda other: other.append(rows(7, 8)))
    table.delete("id = 2")
    assert ids_of(table) == [1, 3, 7, 8]


@BOTH
@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("how", ["rewritten", "deleted"])
def test_a_file_that_goes_meanwhile_is_a_conflict(
    version: int, granularity: str, how: str, monkeypatch: pytest.MonkeyPatch
):
    """C2 NoDanglingDeleteFiles: rewritten rows live on where the deletes do not reach them."""
    table = new_table(version, **{**MERGE, "write.delete.granularity": granularity})
    table.append(rows(1, 2, 3))
    [file] = live_files(table)
    table.append(rows(4, 5, 6))  # a delete file of the partition then names no data file
    new = [] if how == "deleted" else write_files(table, rows(1, 2, 3))

    def change(other: IcebergTable) -> None:
        action = other.new_rewrite() if new else other.new_delete()
        action.delete_file(file)
        for one in new:
            action.add_file(one)
        action.commit()

    meanwhile(monkeypatch, table, change)
    with pytest.raises(CommitConflict):
        table.delete("id IN (2, 5)")
    assert ids_of(table.refresh()) == ([1, 2, 3, 4, 5, 6] if new else [4, 5, 6])
    assert delete_files(table) == []


@BOTH
def test_deletes_of_an_emptied_file_meanwhile_are_a_conflict(version: int, monkeypatch: pytest.MonkeyPatch):
    table = new_table(version, **MERGE)
    table.append(rows(1, 2, 3))
    table.delete("id = 1")
    [file] = live_files(table)
    before = delete_files(table)

    def change(other: IcebergTable) -> None:
        deletes = vector(other, file, 0, 1) if version == 3 else position_deletes(other, (file.file_path, 1))
        action = other.new_row_delta().add_deletes(deletes)
        for old in before if version == 3 else ():
            action.remove_deletes(old)
        action.commit()

    meanwhile(monkeypatch, table, change)
    with pytest.raises(CommitConflict):
        table.delete("id >= 2")
    assert ids_of(table.refresh()) == [3]


@BOTH
@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_deletes_of_other_files_of_the_partition_are_no_conflict(
    version: int, isolation: str, granularity: str, monkeypatch: pytest.MonkeyPatch
):
    levels = {"write.delete.isolation-level": isolation, "write.delete.granularity": granularity}
    table = new_table(version, **{**MERGE, **levels})
    table.append(rows(1, 2, 3))
    table.append(rows(2, 5, 6))
    first = _paths_by_id(table)[1]
    meanwhile(monkeypatch, table, lambda other: other.delete("id = 5"))
    table.delete("name = 'n1'")
    assert ids_of(table) == [2, 2, 3, 6]
    assert first in {file.target_path for file in delete_files(table)}


@BOTH
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_deletes_of_one_file_of_several_are_a_conflict(version: int, granularity: str, monkeypatch: pytest.MonkeyPatch):
    """Of the two files that are looked for, the others' deletes name one, or a range of files that has it."""
    table = new_table(version, **{**MERGE, "write.delete.granularity": granularity})
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    table.append(rows(5, 6))
    meanwhile(monkeypatch, table, lambda other: other.delete("id IN (3, 5)"))
    with pytest.raises(CommitConflict):
        table.delete("id IN (1, 6)")
    assert ids_of(table.refresh()) == [1, 2, 4, 6]


@BOTH
def test_keys_deleted_meanwhile_are_a_conflict_wherever_they_are(version: int, monkeypatch: pytest.MonkeyPatch):
    table = new_table(version, **{**MERGE, "write.delete.isolation-level": "snapshot"})
    table.append(rows(1, 2))

    def change(other: IcebergTable) -> None:
        other.new_row_delta().add_deletes(equality_deletes(other, [{"id": 1}], "id")).commit()

    meanwhile(monkeypatch, table, change)
    with pytest.raises(CommitConflict):
        table.delete("id = 2")
    assert ids_of(table.refresh()) == [2]


def _paths_by_id(table: IcebergTable) -> dict[int, str]:
    found = table.scan(columns=["id", "_file"]).to_arrow().to_pylist()
    return {row["id"]: row["_file"] for row in found}


def test_deletes_are_committed_on_top_of_changes_elsewhere(monkeypatch: pytest.MonkeyPatch):
    table = new_table(3, partition_by=("part",), **MERGE)
    table.append(rows(1, 2, part=0))
    table.append(rows(3, 4, part=1))
    elsewhere = (col("part") == 1) & (col("id") == 3)
    meanwhile(monkeypatch, table, lambda other: CopyOnWrite(other).delete(elsewhere))
    table.delete("id = 1 AND part = 0")
    assert ids_of(table) == [2, 4]
