import pytest

from frazil.errors import CommitConflict, InvalidArgument
from tests.iceberg.small_tables import equality_deletes, ids_of, live_files, new_table, rows, vector, write_files


def test_the_same_rows_in_fewer_files_change_nothing_for_readers():
    table = new_table(2)
    table.append(rows(1))
    table.append(rows(2))
    old = live_files(table)
    new = write_files(table, rows(1, 2))
    table.new_rewrite().rewrite(old, new).validate_from(table.current_snapshot.snapshot_id).commit()
    assert ids_of(table) == [1, 2]
    assert table.current_snapshot.operation == "replace"
    assert len(live_files(table)) == 1


def test_a_kept_sequence_number_lets_later_equality_deletes_find_the_rows():
    table = new_table(2)
    table.append(rows(1, 2))
    start = table.current_snapshot
    action = table.new_rewrite().rewrite(live_files(table), write_files(table, rows(1, 2)))
    action.data_sequence_number(start.sequence_number).validate_from(start.snapshot_id)
    table.new_row_delta().add_deletes(equality_deletes(table, [{"id": 1}], "id")).commit()
    action.commit()
    assert ids_of(table.refresh()) == [2]


def test_without_it_a_concurrent_equality_delete_is_a_conflict():
    table = new_table(2)
    table.append(rows(1, 2))
    action = table.new_rewrite().rewrite(live_files(table), write_files(table, rows(1, 2)))
    action.validate_from(table.current_snapshot.snapshot_id)
    table.new_row_delta().add_deletes(equality_deletes(table, [{"id": 1}], "id")).commit()
    with pytest.raises(CommitConflict, match="deleted rows"):
        action.commit()
    assert ids_of(table.refresh()) == [2]


def test_a_vector_added_meanwhile_is_a_conflict_whatever_the_sequence_number():
    table = new_table(3)
    table.append(rows(1, 2))
    start = table.current_snapshot
    file = live_files(table)[0]
    action = table.new_rewrite().rewrite([file], write_files(table, rows(1, 2)))
    action.data_sequence_number(start.sequence_number).validate_from(start.snapshot_id)
    table.new_row_delta().add_deletes(vector(table, file, 0)).commit()
    with pytest.raises(CommitConflict, match="deleted rows"):
        action.commit()
    assert ids_of(table.refresh()) == [2]


def test_vectors_that_replace_each_other_meanwhile_are_a_conflict_too():
    table = new_table(3)
    table.update_properties().set("write.delete.mode", "merge-on-read").commit()
    table.append(rows(1, 2, 3))
    start = table.current_snapshot
    action = table.new_rewrite().rewrite(live_files(table), write_files(table, rows(1, 2, 3)))
    action.data_sequence_number(start.sequence_number).validate_from(start.snapshot_id)
    for number in (1, 2):
        table.delete(f"id = {number}")
    with pytest.raises(CommitConflict, match="deleted rows"):
        action.commit()
    assert ids_of(table.refresh()) == [3]


def test_a_file_removed_meanwhile_is_a_conflict():
    table = new_table(2)
    table.append(rows(1, 2))
    action = table.new_rewrite().rewrite(live_files(table), write_files(table, rows(1, 2)))
    action.validate_from(table.current_snapshot.snapshot_id)
    table.delete("id = 1")
    with pytest.raises(CommitConflict):
        action.commit()
    assert ids_of(table.refresh()) == [2]


def test_nothing_to_replace_is_refused():
    table = new_table(2)
    with pytest.raises(InvalidArgument, match="nothing to replace"):
        table.new_rewrite().add_file(write_files(table, rows(1))[0]).commit()
