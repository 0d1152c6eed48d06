"""Transactions of several actions, with another writer before the commit: what others did is a conflict, no more."""

import pytest

from frazil.errors import CommitConflict
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


def another(table):
    """The same table in other hands, at the same state."""
    return type(table)(table.identifier, table.store, table._committer, table._state)


CONFLICTS = {
    "an overwrite, and rows that match": (
        lambda tx, table: (
            tx.new_overwrite()
            .delete_file(live_files(table)[0])
            .conflict_filter(col("id") < 10)
            .validate_no_conflicting_data()
        ),
        lambda other: other.append(rows(3)),
    ),
    "a rewrite, and an equality delete": (
        lambda tx, table: tx.new_rewrite().rewrite(live_files(table), write_files(table, rows(1, 2))),
        lambda other: other.new_row_delta().add_deletes(equality_deletes(other, [{"id": 1}], "id")).commit(),
    ),
    "a rewrite, and deleted positions": (
        lambda tx, table: tx.new_rewrite().rewrite(live_files(table), write_files(table, rows(1, 2))),
        lambda other: (
            other.new_row_delta()
            .add_deletes(
                vector(other, live_files(other)[0], 0)
                if other.format_version == 3
                else position_deletes(other, (live_files(other)[0].file_path, 0))
            )
            .commit()
        ),
    ),
    "deletes, and their file compacted away": (
        lambda tx, table: (
            tx.new_row_delta()
            .add_deletes(
                vector(table, live_files(table)[0], 0)
                if table.format_version == 3
                else position_deletes(table, (live_files(table)[0].file_path, 0))
            )
            .validate_data_files_exist([live_files(table)[0].file_path])
        ),
        lambda other: other.new_rewrite().rewrite(live_files(other), write_files(other, rows(1, 2))).commit(),
    ),
    "a dynamic overwrite, and rows in its partition": (
        lambda tx, table: (
            tx.new_replace_partitions().add_files(write_files(table, rows(7))).validate_no_conflicting_data()
        ),
        lambda other: other.append(rows(3)),
    ),
    "deleted rows, and rows that match": (
        lambda tx, table: tx.delete("id < 10"),
        lambda other: other.append(rows(3)),
    ),
    "replaced rows, and rows that match": (
        lambda tx, table: tx.overwrite(rows(8), "id < 10"),
        lambda other: other.append(rows(3)),
    ),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("case", CONFLICTS)
def test_what_others_commit_below_a_snapshot_of_the_transaction_is_a_conflict(case, version):
    change, others = CONFLICTS[case]
    table = new_table(version)
    table.append(rows(1, 2))
    other = another(table)
    tx = table.transaction()
    tx.append(rows(50, part=9))
    action = change(tx, table)
    if action is not None:
        action.commit()
    others(other)
    expected = ids_of(other)
    with pytest.raises(CommitConflict):
        tx.commit()
    assert ids_of(table.refresh()) == expected


@pytest.mark.parametrize("version", [2, 3])
def test_what_the_transaction_did_itself_is_none(version):
    table = new_table(version)
    table.append(rows(1, 2))
    other, old = another(table), live_files(table)
    tx = table.transaction()
    tx.append(rows(3))
    action = tx.new_overwrite().delete_file(old[0]).conflict_filter(col("id") < 10)
    action.validate_no_conflicting_data().validate_no_conflicting_deletes().commit()
    tx.append(rows(4))
    other.append(rows(70))
    tx.commit()
    assert ids_of(table) == [3, 4, 70]


def test_a_start_told_before_a_snapshot_of_the_transaction_makes_that_count():
    table = new_table(2)
    table.append(rows(1, 2))
    start = table.current_snapshot.snapshot_id
    tx = table.transaction()
    tx.append(rows(3))
    action = tx.new_overwrite().delete_file(live_files(table)[0]).validate_from(start)
    with pytest.raises(CommitConflict, match="added rows"):
        action.conflict_filter(col("id") < 10).validate_no_conflicting_data().commit()


def test_a_start_told_as_a_snapshot_of_the_transaction_does_not_hide_what_others_do():
    table = new_table(2)
    table.append(rows(1, 2))
    other, old = another(table), live_files(table)
    tx = table.transaction()
    tx.append(rows(50))
    action = tx.new_overwrite().delete_file(old[0]).validate_from(tx.metadata.current_snapshot_id)
    action.conflict_filter(col("id") < 10).validate_no_conflicting_data().commit()
    other.append(rows(3))
    with pytest.raises(CommitConflict, match="added rows"):
        tx.commit()


def test_expiring_in_the_transaction_does_not_hide_what_others_do():
    table = new_table(2)
    table.append(rows(1, 2))
    other, old = another(table), live_files(table)
    tx = table.transaction()
    tx.append(rows(50))
    tx.expire_snapshots().older_than(1 << 60).retain_last(1).commit()
    action = tx.new_overwrite().delete_file(old[0]).conflict_filter(col("id") < 10)
    action.validate_no_conflicting_data().commit()
    other.append(rows(3))
    with pytest.raises(CommitConflict, match="added rows"):
        tx.commit()
    assert ids_of(table.refresh()) == [1, 2, 3]


def test_a_change_after_a_rollback_in_the_transaction_is_worked_out_from_where_it_went():
    table = new_table(2)
    table.append(rows(1))
    first, old = table.current_snapshot.snapshot_id, live_files(table)
    table.append(rows(2))
    with table.transaction() as tx:
        tx.rollback().to_snapshot(first).commit()
        tx.new_overwrite().delete_file(old[0]).add_files(
            write_files(table, rows(9))
        ).validate_no_conflicting_data().commit()
    assert ids_of(table) == [9]


def test_a_sequence_number_of_the_transaction_does_not_hide_equality_deletes_that_others_add():
    table = new_table(2)
    table.append(rows(1, 2))
    other, old = another(table), live_files(table)
    tx = table.transaction()
    tx.append(rows(50))
    number = tx.metadata.last_sequence_number
    tx.new_rewrite().rewrite(old, write_files(table, rows(1, 2))).data_sequence_number(number).commit()
    other.new_row_delta().add_deletes(equality_deletes(other, [{"id": 1}], "id")).commit()
    with pytest.raises(CommitConflict, match="deleted rows"):
        tx.commit()
    assert ids_of(table.refresh()) == [2]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_are_deleted_and_replaced_inside_a_transaction(version):
    table = new_table(version)
    table.append(rows(1, 2, 3))
    with table.transaction() as tx:
        tx.append(rows(4, 5))
        tx.delete("id IN (1, 4)")
        tx.overwrite(rows(6), "id = 5")
        tx.delete("id = 99")
        assert len(tx.metadata.snapshots) == 4
    assert ids_of(table) == [2, 3, 6]


@pytest.mark.parametrize("version", [2, 3])
def test_rows_deleted_inside_a_transaction_stay_so_when_it_is_staged_again(version):
    table = new_table(version)
    table.append(rows(1, 2, 3))
    other = another(table)
    tx = table.transaction()
    tx.append(rows(4, 5))
    tx.delete("id <= 1")
    other.append(rows(70))
    tx.commit()
    assert ids_of(table) == [2, 3, 4, 5, 70]
    if version == 3:
        found = {row["id"]: row["_row_id"] for row in table.scan(columns=["id", "_row_id"]).to_arrow().to_pylist()}
        assert (found[2], found[3]) == (1, 2)
        assert len(set(found.values())) == 5


def test_rows_that_a_transaction_wrote_and_rewrote_do_not_share_row_ids_with_those_of_others():
    table = new_table(3)
    table.append(rows(1))
    other = another(table)
    tx = table.transaction()
    tx.append(rows(4, 5))
    tx.delete("id = 4")  # row 5 is copied with the id it would have had
    other.append(rows(70, 71))
    with pytest.raises(CommitConflict, match="other ids"):
        tx.commit()
    assert ids_of(table.refresh()) == [1, 70, 71]


def test_ids_that_an_upgrade_in_the_transaction_gave_do_not_outlive_a_commit_below_it():
    table = new_table(2)
    table.append(rows(1, 2))
    other = another(table)
    tx = table.transaction()
    tx.upgrade_format_version().to(3).commit()
    tx.append(rows(4))
    tx.delete("id = 1")
    other.append(rows(70, 71))
    with pytest.raises(CommitConflict, match="other ids"):
        tx.commit()


@pytest.mark.parametrize("way", ["overwrite", "delete"])
def test_a_file_added_meanwhile_that_matches_in_part_is_a_conflict(way):
    """When the change was planned, all files matched whole or not at all."""
    table = new_table(2)
    table.append(rows(1, 2))
    table.append(rows(10, 11))
    other = another(table)
    if way == "overwrite":
        action = table.new_overwrite().overwrite_where(col("id") >= 10)
    else:
        action = table.new_delete().delete_where(col("id") >= 10)
    other.append(rows(5, 15))
    with pytest.raises(CommitConflict, match="some may not"):
        action.commit()
    assert ids_of(table.refresh()) == [1, 2, 5, 10, 11, 15]
