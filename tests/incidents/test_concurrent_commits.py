"""Two writers at once: whoever is second must know what the first did, or fail."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from frazil import ambient
from frazil.catalog.filesystem import FilesystemCatalog
from frazil.errors import CommitConflict, CommitStateUnknown, FrazilError, StoreError, Unsupported
from frazil.iceberg import merge_on_read
from frazil.iceberg.actions.rewrite_files import RewriteFiles
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.refs import MAIN
from frazil.iceberg.table import IcebergTable
from frazil.io.memory_store import MemoryStore
from frazil.lake import Lake, connect
from frazil.model.expressions import col
from tests.faults import Fault, FaultyStore
from tests.incidents.lakes import (
    CATALOGS,
    Place,
    again,
    data_files,
    delete_files,
    equality_deletes,
    ids_in,
    new_table,
    place,
    position_deletes,
    rows_of,
    vector,
    write_rows,
)


def snapshot_id(table: IcebergTable) -> int:
    assert table.current_snapshot is not None
    return table.current_snapshot.snapshot_id


def compaction(table: IcebergTable, *, keep_sequence: bool = False) -> RewriteFiles:
    """Planned now, to be committed later: all rows of the table in one new file."""
    old = data_files(table)
    action = table.new_rewrite().rewrite(old, write_rows(table, table.scan().to_arrow()))
    if keep_sequence:
        action.data_sequence_number(table.current_snapshot.sequence_number)
    return action.validate_from(snapshot_id(table))


def delete_rows(table: IcebergTable, file: DataFile, *positions: int) -> Any:
    """Delete rows of a file by position, in the way of the table's format version."""
    make = vector if table.format_version >= 3 else position_deletes
    return table.new_row_delta().add_deletes(make(table, file, positions)).validate_from(snapshot_id(table))


# Lost updates.


class WithoutCondition(MemoryStore):
    """An object store that cannot create a file only if it is absent."""

    def put_if_absent(self, location: str, data: bytes) -> None:
        raise StoreError("the service knows no If-None-Match", hint="use another service", applied="no")


def test_a_store_without_conditional_put_is_refused():
    """C4 #9 (iceberg#970, #1014, #864, PR #1559; trino#9583): no atomic create, no table; nothing is written."""
    store = WithoutCondition("no-condition")
    lake = Lake(FilesystemCatalog(store, "memory://no-condition/w"))
    with pytest.raises(StoreError, match="If-None-Match"):
        lake.create_table("db.t", "id BIGINT")
    assert list(store.list("memory://no-condition")) == []


def test_a_commit_to_a_store_that_lost_its_conditional_put_changes_nothing():
    """C4 #9: a table that is there already stays as it is; there is no fall-back to a plain write."""
    at = place("folder")
    table = new_table(at)
    table.append(rows_of(1))
    refusing = WithoutCondition(at.store.inner.name)
    other = Lake(FilesystemCatalog(refusing, at.catalog.warehouse)).table("db.t")
    versions = {path for path in at.contents() if path.endswith(".metadata.json")}
    with pytest.raises(StoreError):
        other.append(rows_of(2))
    assert {path for path in at.contents() if path.endswith(".metadata.json")} == versions
    assert ids_in(at.table()) == [1]


@pytest.mark.parametrize("uri", ["hdfs://name/w", "gs://bucket/w", "abfss://c@a/w", "ftp://host/w"])
def test_stores_of_which_nothing_is_known_are_refused(uri: str):
    """C4 #9: what cannot promise an atomic create is not tried."""
    with pytest.raises(FrazilError) as error:
        connect(uri)
    assert isinstance(error.value, Unsupported) or error.value.code == "INVALID_NAME"
    assert error.value.hint


@pytest.mark.parametrize("kind", CATALOGS)
def test_no_append_is_lost_when_writers_meet_at_the_swap(kind: str):
    """C4 #9: four writers have prepared a commit on the same version; each gets in, and none over another."""
    at = place(kind)
    table = new_table(at)
    writers = [again(table) for _ in range(4)]
    for number, writer in enumerate(writers):
        writer.append(rows_of(number))
    final = at.table()
    assert ids_in(final) == [0, 1, 2, 3]
    assert [snapshot.sequence_number for snapshot in final.history] == [4, 3, 2, 1]


# Replaced tables.


@pytest.mark.parametrize("kind", CATALOGS)
def test_two_racing_replacements_both_stay_in_the_history(kind: str):
    """C4 #10 (iceberg#16942): the second replacement is based on what the first left, snapshots and all."""
    at = place(kind)
    table = new_table(at)
    first = table.append(rows_of(1)).snapshot_id
    staged = [at.lake.stage_table("db.t", "id BIGINT, name STRING", replace=True) for _ in range(2)]
    made = [one.append(rows_of(10 + number)).snapshot_id for number, one in enumerate(staged)]
    final = at.table()
    assert {snapshot.snapshot_id for snapshot in final.snapshots} == {first, *made}
    assert [entry.snapshot_id for entry in final.metadata.snapshot_log][-1] == made[1]
    assert final.metadata.last_sequence_number == 3
    assert ids_in(final) == [11]
    assert ids_in(final, version=made[0]) == [10]
    assert ids_in(final, version=first) == [1]


@pytest.mark.parametrize("kind", CATALOGS)
def test_a_replacement_that_races_with_an_append_keeps_the_append_in_the_history(kind: str):
    """C4 #10: the other writer appends while the replacement is being written."""
    at = place(kind)
    table = new_table(at)
    table.append(rows_of(1))
    staged = at.lake.stage_table("db.t", "id BIGINT, name STRING", replace=True)
    appended = table.append(rows_of(2)).snapshot_id
    staged.append(rows_of(3))
    assert ids_in(at.table()) == [3]
    assert ids_in(at.table(), version=appended) == [1, 2]


@pytest.mark.parametrize("kind", CATALOGS)
def test_of_two_racing_create_or_replace_of_a_new_table_the_second_replaces_the_first(kind: str):
    """C4 #10: neither saw a table when it began."""
    at = place(kind)
    at.lake.create_namespace("db")
    staged = [at.lake.stage_table("db.t", "id BIGINT, name STRING", replace=True) for _ in range(2)]
    made = [one.append(rows_of(10 + number)).snapshot_id for number, one in enumerate(staged)]
    assert ids_in(at.table()) == [11]
    assert ids_in(at.table(), version=made[0]) == [10]


# Compaction.


def test_an_equality_delete_during_a_compaction_still_applies():
    """C4 #12 (iceberg#10312): t1 plan, t2 equality delete, t3 commit with the sequence number of t1, t4 read."""
    table = new_table()
    table.append(rows_of(1, 2))
    table.append(rows_of(3))
    planned = compaction(table, keep_sequence=True)
    other = again(table)
    other.new_row_delta().add_deletes(equality_deletes(other, "id", 2)).validate_from(snapshot_id(other)).commit()
    planned.commit()
    assert ids_in(again(table)) == [1, 3]
    (file,) = data_files(again(table))
    assert file.data_sequence_number == 2


def test_an_equality_delete_during_a_compaction_with_new_sequence_numbers_is_a_conflict():
    """C4 #12: without the old sequence number the rewritten row would be newer than its delete."""
    table = new_table()
    table.append(rows_of(1, 2))
    planned = compaction(table)
    other = again(table)
    other.new_row_delta().add_deletes(equality_deletes(other, "id", 2)).validate_from(snapshot_id(other)).commit()
    with pytest.raises(CommitConflict, match="deleted rows of a file that is replaced"):
        planned.commit()
    assert ids_in(again(table)) == [1]


def test_rows_added_with_the_delete_outlive_it_after_a_compaction():
    """C4 #12: an upsert during the compaction, a delete of the old row and the new row in one commit."""
    table = new_table()
    table.append(rows_of(1, 2))
    planned = compaction(table, keep_sequence=True)
    other = again(table)
    upsert = other.new_row_delta().add_deletes(equality_deletes(other, "id", 2))
    for file in write_rows(other, [{"id": 2, "name": "new"}]):
        upsert.add_rows(file)
    upsert.validate_from(snapshot_id(other)).commit()
    planned.commit()
    found = again(table).scan().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 1, "name": "n1"}, {"id": 2, "name": "new"}]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("keep_sequence", [False, True])
def test_a_position_delete_during_a_compaction_is_a_conflict(version: int, keep_sequence: bool):
    """C4 #12 and #14: positions name the replaced file; no sequence number can save them."""
    table = new_table(version=version)
    table.append(rows_of(1, 2))
    planned = compaction(table, keep_sequence=keep_sequence)
    other = again(table)
    delete_rows(other, data_files(other)[0], 1).commit()
    with pytest.raises(CommitConflict, match="deleted rows of a file that is replaced"):
        planned.commit()
    assert ids_in(again(table)) == [1]


def test_equality_deletes_are_not_rewritten_across_sequence_numbers():
    """C4 #12 (iceberg#7452): a younger copy of an equality delete would also delete rows that came in between."""
    table = new_table()
    table.append(rows_of(1, 2))
    table.new_row_delta().add_deletes(equality_deletes(table, "id", 2)).commit()
    table.append(rows_of(2))
    (old,) = delete_files(table)
    assert ids_in(table) == [1, 2]
    for number in (None, 3):
        new = equality_deletes(table, "id", 2, data_sequence_number=number)
        with pytest.raises(FrazilError, match="sequence number"):
            table.new_rewrite().rewrite([old], [new]).validate_from(snapshot_id(table)).commit()
    new = equality_deletes(table, "id", 2, data_sequence_number=old.data_sequence_number)
    table.new_rewrite().rewrite([old], [new]).validate_from(snapshot_id(table)).commit()
    assert ids_in(table) == [1, 2]
    assert [file.file_path for file in delete_files(table)] == [new.file_path]


def test_a_compaction_planned_before_a_delete_conflicts_with_it():
    """C4 #14 (lance#6653): plan at V, delete at V+1, commit: validated from the plan's version, not the commit's."""
    table = new_table()
    table.append(rows_of(1, 2, 3))
    planned = compaction(table)
    again(table).delete("id = 2")
    with pytest.raises(CommitConflict):
        planned.commit()
    assert ids_in(again(table)) == [1, 3]


def test_a_compaction_begun_on_an_old_version_and_committed_on_a_refreshed_table_conflicts():
    """C4 #14: the handle has moved on; only what the plan says of its version counts."""
    table = new_table(version=3)
    table.append(rows_of(1, 2, 3))
    old, start = data_files(table), snapshot_id(table)
    new = write_rows(table, table.scan().to_arrow())
    delete_rows(table, old[0], 1).commit()
    assert ids_in(table.refresh()) == [1, 3]
    with pytest.raises(CommitConflict):
        table.new_rewrite().rewrite(old, new).validate_from(start).commit()
    assert ids_in(again(table)) == [1, 3]


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_a_copy_on_write_delete_that_races_with_a_compaction(isolation: str):
    """C2 I2 (iceberg#10720): either may be first; the second finds its files gone and must not go on."""
    table = new_table(write__delete__isolation_level=isolation)
    table.append(rows_of(1, 2))
    table.append(rows_of(3))
    compacting, deleting = again(table), again(table)
    planned = compaction(compacting)
    deleting.delete("id = 1")
    with pytest.raises(CommitConflict):
        planned.commit()
    assert ids_in(again(table)) == [2, 3]
    compacting, deleting = again(table), again(table)
    compaction(compacting).commit()
    with pytest.raises(CommitConflict):
        merge_on_read.delete_rows(deleting, col("id") == 2, MAIN)  # worked out on what it was loaded as
    assert ids_in(again(table)) == [2, 3]
    deleting.delete("id = 2")  # which looks at the table as it is
    assert ids_in(again(table)) == [3]


# Merge-on-read.


def update(table: IcebergTable, file: DataFile, position: int, row: dict[str, Any]) -> Any:
    """UPDATE of one row, merge-on-read: a position deleted, a row added, and all that snapshot isolation asks."""
    action = delete_rows(table, file, position)
    for added in write_rows(table, [row]):
        action.add_rows(added)
    action.validate_data_files_exist([file.file_path]).validate_deleted_files()
    return action.conflict_filter(col("id") == row["id"]).validate_no_conflicting_deletes()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("first", ["update", "delete"])
def test_an_update_and_a_delete_of_the_same_row_do_not_both_commit(version: int, first: str):
    """C2 I1: under snapshot isolation the updated copy must not survive a delete of the row it was made from.

    Java's DELETE does not look for concurrent deletes in v2, and the copy stays. Both look here.
    """
    table = new_table(version=version)
    table.append(rows_of(1, 2))
    (file,) = data_files(table)
    one, two = again(table), again(table)
    updating = update(one, file, 1, {"id": 2, "name": "new"})
    deleting = delete_rows(two, file, 1).conflict_filter(col("id") == 2).validate_no_conflicting_deletes()
    winner, loser = (updating, deleting) if first == "update" else (deleting, updating)
    winner.commit()
    with pytest.raises(CommitConflict):
        loser.commit()
    expected = ["n1", "new"] if first == "update" else ["n1"]
    assert sorted(again(table).scan().to_arrow()["name"].to_pylist()) == expected


def test_two_vectors_for_one_file_conflict_without_being_asked_to():
    """C2 I1 in v3: the check per data file does not depend on what an engine remembers to validate."""
    table = new_table(version=3)
    table.append(rows_of(1, 2, 3))
    (file,) = data_files(table)
    one, two = delete_rows(again(table), file, 0), delete_rows(again(table), file, 1)
    one.commit()
    with pytest.raises(CommitConflict, match="the same data file"):
        two.commit()
    assert ids_in(again(table)) == [2, 3]


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_of_a_file_that_was_compacted_away_conflict(version: int):
    """C2 NoDanglingDeleteFiles: the rows live on in the new file, where the delete would not find them."""
    table = new_table(version=version)
    table.append(rows_of(1, 2))
    (file,) = data_files(table)
    deleting = delete_rows(again(table), file, 0).validate_data_files_exist([file.file_path])
    compaction(again(table)).commit()
    with pytest.raises(CommitConflict, match="removed a data file"):
        deleting.commit()
    assert ids_in(again(table)) == [1, 2]


# Rollback and clean-up between plan and commit.


def test_dangling_deletes_planned_before_a_rollback_are_not_removed():
    """C4 #15 (iceberg PR #18061): after the rollback the delete that seemed to dangle is needed again."""
    table = new_table()
    table.append(rows_of(1, 2))
    (file,) = data_files(table)
    # of its partition, not of one file, so that it does not go when the file does
    unnamed = replace(position_deletes(table, file, [0]), lower_bounds=None, upper_bounds=None)
    table.new_row_delta().add_deletes(unnamed).commit()
    needed = snapshot_id(table)
    (delete,) = delete_files(table)
    table.new_overwrite().delete_file(file).add_files(write_rows(table, rows_of(2))).commit()
    assert [one.file_path for one in delete_files(table)] == [delete.file_path]  # dangling now
    planned = again(table)
    action = planned.new_rewrite().delete_file(delete).validate_from(snapshot_id(planned))
    again(table).rollback().to_snapshot(needed).commit()
    with pytest.raises(CommitConflict, match="no longer in the history"):
        action.commit()
    assert ids_in(again(table)) == [2]
    assert len(delete_files(again(table))) == 1


@pytest.mark.parametrize("version", [2, 3])
def test_a_compaction_planned_before_a_rollback_conflicts(version: int):
    """C4 #15: the snapshot the plan was made on is no longer in the history of the table."""
    table = new_table(version=version)
    first = table.append(rows_of(1, 2)).snapshot_id
    table.append(rows_of(3))
    planned = compaction(table)
    again(table).rollback().to_snapshot(first).commit()
    with pytest.raises(CommitConflict):
        planned.commit()
    assert ids_in(again(table)) == [1, 2]


def test_a_plan_whose_snapshot_expired_conflicts():
    """C4 #15: what happened since can no longer be told."""
    table = new_table()
    table.append(rows_of(1, 2))
    start = snapshot_id(table)
    planned = compaction(table)
    other = again(table)
    other.append(rows_of(3))
    other.expire_snapshots().expire_ids([start]).commit()
    with pytest.raises(CommitConflict, match="no longer in the history"):
        planned.commit()
    assert ids_in(again(table)) == [1, 2, 3]


def stalled_scene() -> Place:
    at = place("folder")
    table = new_table(
        at, write__metadata__delete_after_commit__enabled="true", write__metadata__previous_versions_max="1"
    )
    table.append(rows_of(1))
    return at


@pytest.mark.parametrize("others", [1, 2, 3, 8])
def test_a_stalled_writer_does_not_take_the_name_of_a_deleted_version(others: int):
    """C4 #23 (slatedb RFC 0026, lance#3718): N is committed and cleaned up by others, then the staller creates N."""
    at = stalled_scene()
    slow = FaultyStore(at.store.inner)
    stalled = Lake(FilesystemCatalog(slow, at.catalog.warehouse)).table("db.t")

    def meanwhile(_: str) -> None:
        for number in range(others):
            at.table().append(rows_of(100 + number))
        ambient.sleep(600)

    slow.plan = [Fault("put_if_absent", "before", match="/metadata/v", hook=meanwhile)]
    stalled.append(rows_of(2))
    final = at.table()
    assert ids_in(final) == [1, 2, *range(100, 100 + others)]
    assert len(final.history) == others + 2
    assert ids_in(stalled.refresh()) == ids_in(final)
    numbers = sorted(snapshot.sequence_number for snapshot in final.snapshots)
    assert numbers == list(range(1, others + 3))


def test_a_reader_that_was_stalled_over_a_clean_up_reads_a_newer_version():
    """C4 #23: the version that the hint named is gone by the time it is opened."""
    at = stalled_scene()
    slow = FaultyStore(at.store.inner)

    def meanwhile(_: str) -> None:
        for number in range(5):
            at.table().append(rows_of(100 + number))

    slow.plan = [Fault("read", "before", match=".metadata.json", hook=meanwhile)]
    assert ids_in(Lake(FilesystemCatalog(slow, at.catalog.warehouse)).table("db.t")) == [1, *range(100, 105)]


def test_a_writer_stalled_for_a_moment_over_many_versions_is_told_the_truth_or_nothing():
    """C4 #23: clocks cannot tell who was first and no log does; acknowledged and yet not there it must not be."""
    at = stalled_scene()
    slow = FaultyStore(at.store.inner)
    stalled = Lake(FilesystemCatalog(slow, at.catalog.warehouse)).table("db.t")

    def meanwhile(_: str) -> None:
        for number in range(8):
            at.table().append(rows_of(100 + number))

    slow.plan = [Fault("put_if_absent", "before", match="/metadata/v", hook=meanwhile)]
    expected = [1, *range(100, 108)]
    with suppress(CommitStateUnknown):
        stalled.append(rows_of(2))
        expected.insert(1, 2)
    assert ids_in(at.table()) == expected
    at.table().append(rows_of(200))
    assert ids_in(at.table()) == [*expected, 200]


@pytest.mark.parametrize("appended", [False, True])
@pytest.mark.parametrize("kind", CATALOGS)
def test_a_writer_stalled_over_drop_and_create_does_not_commit_to_the_new_table(kind: str, appended: bool):
    """C4 #23: the same name, another table. The retry must not take the one for the other."""
    at = place(kind)
    new_table(at).append(rows_of(1))
    stalled = at.table()

    def meanwhile(_: str) -> None:
        at.plan()
        at.lake.drop_table("db.t", purge=True)
        table = new_table(at)
        if appended:
            table.append(rows_of(7))

    at.plan(Fault("put_if_absent", "before", match=".metadata.json", hook=meanwhile))
    with pytest.raises(CommitConflict, match="another one of its name"):
        stalled.append(rows_of(2))
    assert ids_in(at.table()) == ([7] if appended else [])
    at.table().append(rows_of(8))
    assert ids_in(at.table()) == ([7, 8] if appended else [8])


@pytest.mark.parametrize("kind", CATALOGS)
def test_a_handle_whose_snapshot_has_expired_can_still_append(kind: str):
    """C4 #15: what an old handle was based on is gone from the store; an append does not need it."""
    at = place(kind)
    table = new_table(at)
    table.append(rows_of(1))
    other = at.table()
    other.append(rows_of(2))
    other.expire_snapshots().expire_ids([snapshot_id(table)]).commit()
    table.append(rows_of(3))
    assert ids_in(at.table()) == [1, 2, 3]
