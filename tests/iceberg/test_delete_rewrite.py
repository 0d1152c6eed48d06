"""`table.rewrite_position_delete_files`: which delete files it rewrites, and what others may do meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from frazil.errors import CommitConflict, InvalidArgument
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.merge_on_read import MergeOnRead
from frazil.iceberg.rewritten import RewrittenDeleteFiles
from frazil.iceberg.table import IcebergTable
from frazil.model.expressions import col
from tests.iceberg.delete_kinds import again, deletes_of, files_in_store, kinds_of, rows_at, rows_at_all, same_rows
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
from tests.properties.modelled_table import Inside

MERGE = {"write.delete.mode": "merge-on-read"}
SHARED = {**MERGE, "write.delete.granularity": "partition"}
ALL = {"rewrite-all": "true"}
TWO = {"min-input-files": "2"}


def rewrite(table: IcebergTable, *, twice: bool = True, **arguments: Any) -> RewrittenDeleteFiles:
    """Rewrite, twice: no row may come or go, and the second time there is nothing to do."""
    before, now, old = rows_at_all(table), rows_at(table), deletes_of(table)
    result = table.rewrite_position_delete_files(**arguments)
    same_rows(table, before, now)
    left = deletes_of(table)
    gone = [file for file in old if file.key not in {one.key for one in left}]
    new = [file for file in left if file.key not in {one.key for one in old}]
    assert result == RewrittenDeleteFiles(len(gone), len(new), _bytes(gone), _bytes(new))
    if result != RewrittenDeleteFiles():
        newest = table.current_snapshot
        assert newest is not None
        assert newest.summary["operation"] == "replace"
    snapshot = table.current_snapshot
    if twice:
        assert table.rewrite_position_delete_files(**arguments) == RewrittenDeleteFiles()
        assert table.current_snapshot == snapshot
    return result


def _bytes(files: list[DataFile]) -> int:
    return sum(
        file.file_size_in_bytes if file.content_size_in_bytes is None else file.content_size_in_bytes for file in files
    )


def counts(result: RewrittenDeleteFiles) -> tuple[int, int]:
    return result.rewritten_delete_files_count, result.added_delete_files_count


def deleted_often(times: int, partitions: int = 1, **properties: str) -> IcebergTable:
    """A table of version 2 with two data files in each partition, and deletes of `times` commits in both."""
    table = new_table(2, partition_by=("part",), **properties)
    for start in (0, 100):
        table.append([row for part in range(partitions) for row in rows(*range(start, start + 20), part=part)])
    for number in range(times):
        table.delete(f"id IN ({number}, {100 + number})")
    return table


def upgraded(table: IcebergTable) -> IcebergTable:
    """The table in version 3, whose rows have ids."""
    table.upgrade_format_version().to(3).commit()
    table.new_append().commit()
    return table


# Format version 3.


@pytest.mark.parametrize("properties", [MERGE, SHARED], ids=["file", "partition"])
def test_positions_become_vectors(properties: dict[str, str]):
    table = upgraded(deleted_often(3, partitions=2, **properties))
    table.append(rows(500, part=0))
    before = len(deletes_of(table))
    assert counts(rewrite(table)) == (before, 4)
    assert kinds_of(table) == ["vector"] * 4
    assert len({file.file_path for file in deletes_of(table)}) == 1
    snapshot = table.current_snapshot
    assert snapshot is not None
    assert (snapshot.summary["added-dvs"], snapshot.summary["total-position-deletes"]) == ("4", "12")


def test_what_a_vector_holds_already_just_goes():
    table = upgraded(deleted_often(2, **SHARED))
    table.delete("id IN (9, 109)")  # vectors that take in what the files of the partition hold
    assert kinds_of(table) == ["positions", "positions", "vector", "vector"]
    assert counts(rewrite(table)) == (2, 0)
    assert kinds_of(table) == ["vector", "vector"]


def test_vectors_beside_files_of_the_partition():
    table = upgraded(deleted_often(2, **SHARED))
    table.delete("id = 9")
    assert counts(rewrite(table)) == (2, 1)
    assert kinds_of(table) == ["vector", "vector"]


def test_equality_deletes_stay():
    table = upgraded(deleted_often(1, **MERGE))
    table.new_row_delta().add_deletes(equality_deletes(table, [{"id": 10}], "id", partition=(0,))).commit()
    rewrite(table)
    assert kinds_of(table) == ["keys", "vector", "vector"]


def test_positions_that_are_in_no_file_are_left_out():
    """A vector that counts them would make counts wrong that come from metadata."""
    table = new_table(2)
    table.append(rows(1, 2, 3))
    [file] = live_files(table)
    table.new_row_delta().add_deletes(position_deletes(table, (file.file_path, 1), (file.file_path, 7))).commit()
    rewrite(upgraded(table))
    [found] = deletes_of(table)
    assert (found.record_count, again(table).scan().count()) == (1, 2)


def test_vectors_are_as_old_as_what_they_replace():
    table = upgraded(deleted_often(2, **MERGE))
    newest = max(file.data_sequence_number or 0 for file in deletes_of(table))
    table.append(rows(500))
    rewrite(table)
    assert {file.data_sequence_number for file in deletes_of(table)} == {newest}


# Format version 2.


def test_files_of_a_partition_are_joined():
    table = deleted_often(5, partitions=2, **SHARED)
    assert len(deletes_of(table)) == 10
    assert counts(rewrite(table)) == (10, 2)
    assert kinds_of(table) == ["positions"] * 2


def test_few_files_are_left_alone():
    table = deleted_often(4, **SHARED)
    assert counts(rewrite(table)) == (0, 0)
    assert counts(rewrite(table, options={"min-input-files": "4"})) == (4, 1)
    assert counts(rewrite(table, options=ALL, twice=False)) == (1, 1)


def test_files_of_the_right_size_are_left_alone():
    table = deleted_often(5, **SHARED)
    least = min(file.file_size_in_bytes for file in deletes_of(table))
    sizes = {"target-file-size-bytes": str(10 * least), "min-file-size-bytes": str(least)}
    assert counts(rewrite(table, options=sizes)) == (0, 0)
    assert counts(rewrite(table, options={**sizes, "min-file-size-bytes": str(2 * least)})) == (5, 1)


def test_a_rewrite_that_makes_no_fewer_files_is_not_tried_again():
    """Files come out smaller than meant, since they are compressed: they must not be joined for ever."""
    table = new_table(2, **SHARED)
    table.append(rows(*range(1000)))
    table.append(rows(*range(1000, 2000)))
    for start in range(0, 600, 100):
        table.delete(f"id >= {start} AND id < {start + 100} OR id >= {1000 + start} AND id < {1100 + start}")
    sizes = {"target-file-size-bytes": "4000", "min-file-size-bytes": "3999", "min-input-files": "2"}
    assert counts(rewrite(table, options=sizes)) == (6, 2)
    assert max(file.file_size_in_bytes for file in deletes_of(table)) < 3999


def test_each_data_file_gets_a_file_of_its_own():
    table = deleted_often(5, **SHARED)
    table.update_properties().set("write.delete.granularity", "file").commit()
    assert counts(rewrite(table)) == (5, 2)
    assert {file.referenced_data_file for file in deletes_of(table)} == {file.file_path for file in live_files(table)}
    table.delete("id IN (7, 107)")
    assert len(deletes_of(table)) == 2


def test_files_of_their_own_and_shared_ones_are_joined():
    table = deleted_often(1, **MERGE)
    [first, second] = sorted(file.file_path for file in live_files(table))
    table.new_row_delta().add_deletes(position_deletes(table, (first, 5), partition=(0,))).commit()
    table.new_row_delta().add_deletes(position_deletes(table, (first, 6), (second, 6), partition=(0,))).commit()
    assert counts(rewrite(table)) == (0, 0)  # fewer than five
    assert counts(rewrite(table, options=TWO)) == (4, 2)
    assert sum(file.record_count for file in deletes_of(table)) == 5


def test_groups_of_a_limited_size():
    table = deleted_often(6, **SHARED)
    assert counts(rewrite(table, options={**ALL, "max-file-group-input-files": "3"}, twice=False)) == (6, 1)
    table = deleted_often(6, partitions=2, **SHARED)
    assert counts(rewrite(table, options={"max-files-to-rewrite": "7"}, twice=False)) == (6, 1)


# Either.


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_of_files_that_are_no_more_are_dropped(version: int):
    table = new_table(version, **MERGE)
    files = write_files(table, rows(1, 2), rows(3, 4))
    table.new_append().append_files(files).commit()
    other = files[0].file_path.replace(".parquet", "-gone.parquet")
    dangling = vector(table, files[0], 0) if version == 3 else position_deletes(table, (other, 0))
    table.new_row_delta().add_deletes(replace(dangling, referenced_data_file=other)).commit()
    table.delete("id = 3")
    assert len(deletes_of(table)) == 2
    assert counts(rewrite(table)) == (1, 0)
    assert len(deletes_of(table)) == 1


def test_positions_of_files_that_are_no_more_are_dropped():
    table = deleted_often(5, **SHARED)
    file = live_files(table)[0]
    table.new_overwrite().delete_file(file).commit()
    assert sum(one.record_count for one in deletes_of(table)) == 10
    rewrite(table)
    assert [one.record_count for one in deletes_of(table)] == [5]


@pytest.mark.parametrize("version", [2, 3])
def test_only_some_partitions(version: int):
    table = deleted_often(5, partitions=3, **SHARED)
    table = upgraded(table) if version == 3 else table
    assert counts(rewrite(table, where="part = 1")) == (5, 2 if version == 3 else 1)
    assert len([file for file in deletes_of(table) if file.partition != (1,)]) == 10
    assert counts(rewrite(table, where="part > 5")) == (0, 0)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_nothing_to_do(version: int):
    table = new_table(version)
    assert rewrite(table) == RewrittenDeleteFiles()
    table.append(rows(1, 2))
    assert rewrite(table, options=ALL) == RewrittenDeleteFiles()


def test_a_branch_of_its_own():
    table = upgraded(deleted_often(2, **MERGE))
    table.manage_refs().create_branch("dev").commit()
    table.rewrite_position_delete_files(branch="dev")
    assert (kinds_of(table), kinds_of(table, ref="dev")) == (["positions"] * 2, ["vector"] * 2)
    assert ids_of(table) == ids_of(table, ref="dev")


def test_unknown_options_are_refused():
    table = deleted_often(1, **MERGE)
    with pytest.raises(InvalidArgument, match="delete-file-threshold"):
        table.rewrite_position_delete_files(options={"delete-file-threshold": "1"})


def test_several_commits():
    table = upgraded(deleted_often(1, partitions=4, **MERGE))
    before = len(table.history)
    options = {"partial-progress.enabled": "true", "partial-progress.max-commits": "2"}
    rewrite(table, options=options, twice=False)
    assert (len(table.history), kinds_of(table)) == (before + 2, ["vector"] * 8)


def test_several_commits_of_which_the_first_gives_ids_to_rows():
    table = deleted_often(1, partitions=4, **MERGE)
    table.upgrade_format_version().to(3).commit()
    ids = ids_of(table)
    assert counts(table.rewrite_position_delete_files(options={"partial-progress.enabled": "true"})) == (8, 8)
    assert (ids_of(table), kinds_of(table)) == (ids, ["vector"] * 8)
    assert None not in [row["_row_id"] for row in rows_at(table)]


# Others, meanwhile.


def between(table: IcebergTable, monkeypatch: pytest.MonkeyPatch, change: Callable[[IcebergTable], Any]) -> None:
    """Let another writer change the table after the new deletes were written, before they are committed."""
    from frazil.iceberg.delete_rewrite import _Rewrite

    write = _Rewrite._write

    def written(self: Any, groups: Any) -> Any:
        made = write(self, groups)
        monkeypatch.setattr(_Rewrite, "_write", write)
        change(again(table))
        return made

    monkeypatch.setattr(_Rewrite, "_write", written)


def refused(table: IcebergTable, monkeypatch: pytest.MonkeyPatch, change: Callable[[IcebergTable], Any]) -> None:
    between(table, monkeypatch, change)
    expected = again(table)
    with pytest.raises(CommitConflict):
        table.rewrite_position_delete_files(options=ALL)
    left = again(table)
    assert len(left.history) == len(expected.history) + 1
    used = {file.file_path for file in deletes_of(left)} | {file.file_path for file in live_files(left)}
    assert not [path for path in files_in_store(table) - used if path.endswith(".puffin")]


def test_a_new_vector_is_a_conflict(monkeypatch: pytest.MonkeyPatch):
    table = upgraded(deleted_often(1, **MERGE))
    refused(table, monkeypatch, lambda other: other.delete("id = 5"))
    assert 5 not in ids_of(again(table))
    rewrite(again(table))


def test_new_deletes_of_the_same_file_are_a_conflict(monkeypatch: pytest.MonkeyPatch):
    table = deleted_often(1, **MERGE)
    refused(table, monkeypatch, lambda other: MergeOnRead(other).delete(col("id") == 5))
    assert 5 not in ids_of(again(table))


def test_new_deletes_beside_shared_ones_are_a_conflict(monkeypatch: pytest.MonkeyPatch):
    table = deleted_often(1, **SHARED)
    table.update_properties().set("write.delete.granularity", "file").commit()
    refused(table, monkeypatch, lambda other: other.delete("id = 5"))
    assert 5 not in ids_of(again(table))
    rewrite(again(table), options=TWO)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("properties", [MERGE, SHARED], ids=["file", "partition"])
def test_a_removed_data_file_is_a_conflict(version: int, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    table = deleted_often(1, **properties)
    table = upgraded(table) if version == 3 else table
    refused(table, monkeypatch, lambda other: other.new_overwrite().delete_file(live_files(other)[0]).commit())


def test_the_same_rewrite_is_a_conflict(monkeypatch: pytest.MonkeyPatch):
    table = upgraded(deleted_often(1, **MERGE))
    refused(table, monkeypatch, lambda other: other.rewrite_position_delete_files())


@pytest.mark.parametrize("version", [2, 3])
def test_appends_and_keys_do_not_matter(version: int, monkeypatch: pytest.MonkeyPatch):
    table = deleted_often(5, **SHARED)
    table = upgraded(table) if version == 3 else table

    def change(other: IcebergTable) -> None:
        other.append(rows(1000))
        key = equality_deletes(other, [{"id": 15}], "id", partition=(0,))
        other.new_row_delta().add_deletes(key).commit()

    between(table, monkeypatch, change)
    table.rewrite_position_delete_files()
    left = [number for number in (*range(20), *range(100, 120)) if number % 100 >= 5 and number != 15]
    assert ids_of(again(table)) == [*left, 1000]


def test_new_deletes_of_a_partition_stay_beside(monkeypatch: pytest.MonkeyPatch):
    table = deleted_often(5, **SHARED)
    between(table, monkeypatch, lambda other: other.delete("id IN (7, 107)"))
    table.rewrite_position_delete_files()
    assert 7 not in ids_of(again(table))
    assert len(deletes_of(table)) == 2


def test_partial_progress_goes_on_after_a_conflict(monkeypatch: pytest.MonkeyPatch):
    table = upgraded(deleted_often(1, partitions=2, **MERGE))
    between(table, monkeypatch, lambda other: other.delete("part = 0 AND id = 5"))
    options = {"partial-progress.enabled": "true", "rewrite-job-order": "none"}
    assert counts(table.rewrite_position_delete_files(options=options)) == (2, 2)
    assert len(ids_of(again(table))) == 75


def test_in_a_transaction_that_others_came_before():
    """The rows that are deleted are of the same transaction: they are younger then than the new delete file."""
    table = new_table(2, **SHARED)
    changes = table.transaction()
    inside = Inside(table, changes)
    inside.append(rows(1, 2, 3))
    inside.delete("id = 2")
    assert counts(inside.rewrite_position_delete_files(options=ALL)) == (1, 1)
    for number in (10, 11):
        again(table).append(rows(number))
    with pytest.raises(CommitConflict):
        changes.commit()
    assert ids_of(again(table)) == [10, 11]
