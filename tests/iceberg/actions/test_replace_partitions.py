import pytest

from frazil.errors import CommitConflict
from tests.iceberg.small_tables import ids_of, new_table, position_deletes, rows, write_files


def test_partitions_that_get_files_lose_their_old_ones():
    table = new_table(2, partition_by=("part",))
    table.append([*rows(1, part=1), *rows(2, part=2), *rows(3, part=None)])
    table.new_replace_partitions().add_files(write_files(table, rows(9, part=1), rows(8, part=None))).commit()
    assert ids_of(table) == [2, 8, 9]
    assert table.current_snapshot.summary["replace-partitions"] == "true"


def test_an_unpartitioned_table_is_replaced_whole():
    table = new_table(2)
    table.append(rows(1, 2))
    table.new_replace_partitions().add_files(write_files(table, rows(3))).commit()
    assert ids_of(table) == [3]


def test_delete_files_of_the_partition_go_too():
    table = new_table(2, partition_by=("part",))
    table.append(rows(1, 2, part=1))
    path = table.scan().plan().file_paths[0]
    table.new_row_delta().add_deletes(position_deletes(table, (path, 0), partition=(1,))).commit()
    table.new_replace_partitions().add_files(write_files(table, rows(9, part=1))).commit()
    assert ids_of(table) == [9]
    assert table.current_snapshot.summary["total-delete-files"] == "0"


def test_files_added_to_the_partition_meanwhile_are_a_conflict():
    table = new_table(2, partition_by=("part",))
    table.append(rows(1, part=1))
    action = table.new_replace_partitions().add_files(write_files(table, rows(9, part=1)))
    action.validate_from(table.current_snapshot.snapshot_id).validate_no_conflicting_data()
    table.append(rows(2, part=1))
    with pytest.raises(CommitConflict, match="partition"):
        action.commit()
    assert ids_of(table.refresh()) == [1, 2]
