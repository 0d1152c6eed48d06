import pytest

from frazil.errors import CommitConflict, InvalidArgument, Unsupported
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


def test_positions_delete_rows_of_earlier_and_of_the_same_commit():
    table = new_table(2)
    table.append(rows(1, 2))
    old = live_files(table)[0]
    new = write_files(table, rows(3, 4))[0]
    deletes = position_deletes(table, (old.file_path, 0), (new.file_path, 1))
    table.new_row_delta().add_rows(new).add_deletes(deletes).commit()
    assert ids_of(table) == [2, 3]
    told = table.current_snapshot.summary
    assert (told["operation"], told["added-position-deletes"], told["total-delete-files"]) == ("overwrite", "2", "1")


def test_equality_deletes_hit_older_rows_only():
    table = new_table(2)
    table.append(rows(1, 2))
    delta = table.new_row_delta().add_deletes(equality_deletes(table, [{"id": 1}], "id"))
    delta.add_rows(write_files(table, rows(1))[0]).commit()
    assert ids_of(table) == [1, 2]
    table.append(rows(1))
    assert ids_of(table) == [1, 1, 2]


def test_a_null_key_deletes_rows_with_null():
    table = new_table(2)
    table.append([*rows(1), {"id": 2, "name": None, "part": 0}])
    table.new_row_delta().add_deletes(equality_deletes(table, [{"name": None}], "name")).commit()
    assert ids_of(table) == [1]


def test_a_second_vector_must_take_the_place_of_the_first():
    table = new_table(3)
    table.append(rows(1, 2, 3))
    file = live_files(table)[0]
    first = vector(table, file, 0)
    table.new_row_delta().add_deletes(first).commit()
    with pytest.raises(CommitConflict, match="already has a deletion vector"):
        table.new_row_delta().add_deletes(vector(table, file, 0, 1)).commit()
    assert ids_of(table.refresh()) == [2, 3]
    table.new_row_delta().remove_deletes(first).add_deletes(vector(table, file, 0, 1)).commit()
    assert ids_of(table) == [3]
    told = table.current_snapshot.summary
    assert (told["added-dvs"], told["removed-dvs"], told["total-position-deletes"]) == ("1", "1", "2")


def test_a_vector_added_by_another_writer_meanwhile_is_a_conflict():
    table = new_table(3)
    table.append(rows(1, 2, 3))
    file = live_files(table)[0]
    mine = table.new_row_delta().add_deletes(vector(table, file, 0))
    mine.validate_from(table.current_snapshot.snapshot_id)
    table.new_row_delta().add_deletes(vector(table, file, 1)).commit()
    with pytest.raises(CommitConflict, match="same data file"):
        mine.commit()
    assert ids_of(table.refresh()) == [1, 3]


def test_deletes_for_a_file_that_was_replaced_meanwhile_are_a_conflict():
    table = new_table(2)
    table.append(rows(1, 2))
    file = live_files(table)[0]
    delta = table.new_row_delta().add_deletes(position_deletes(table, (file.file_path, 0)))
    delta.validate_from(table.current_snapshot.snapshot_id).validate_data_files_exist([file.file_path])
    table.overwrite(rows(1, 2))
    with pytest.raises(CommitConflict, match="removed a data file"):
        delta.commit()


def test_serializable_isolation_refuses_matching_rows_added_meanwhile():
    table = new_table(2)
    table.append(rows(1, 2))
    file = live_files(table)[0]
    delta = table.new_row_delta().add_deletes(position_deletes(table, (file.file_path, 0)))
    delta.validate_from(table.current_snapshot.snapshot_id).conflict_filter(col("id") < 5)
    delta.validate_no_conflicting_data()
    table.append(rows(3))
    with pytest.raises(CommitConflict, match="added rows"):
        delta.commit()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_version_takes_only_its_own_kinds_of_deletes(version):
    table = new_table(version)
    table.append(rows(1, 2))
    file = live_files(table)[0]
    refused = {1: position_deletes(table, (file.file_path, 0)), 2: vector(table, file, 0)}
    refused[3] = refused[1]
    with pytest.raises(Unsupported):
        table.new_row_delta().add_deletes(refused[version]).commit()
    assert ids_of(table.refresh()) == [1, 2]


def test_two_vectors_for_one_file_in_one_commit_are_refused():
    table = new_table(3)
    table.append(rows(1, 2))
    file = live_files(table)[0]
    delta = table.new_row_delta().add_deletes(vector(table, file, 0)).add_deletes(vector(table, file, 1))
    with pytest.raises(InvalidArgument, match="one data file"):
        delta.commit()
