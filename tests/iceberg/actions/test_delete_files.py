import pytest

from frazil.errors import CommitConflict, InvalidArgument
from frazil.model.expressions import col
from tests.iceberg.small_tables import ids_of, live_files, new_table, rows, vector


def test_a_file_is_removed_by_path_and_its_entry_says_so():
    table = new_table(2)
    table.append(rows(1))
    table.append(rows(2))
    victim = next(file for file in live_files(table) if file.data_sequence_number == 1)
    table.new_delete().delete_file(victim.file_path).commit()
    assert ids_of(table) == [2]
    assert table.current_snapshot.operation == "delete"
    assert table.current_snapshot.summary["deleted-data-files"] == "1"
    assert ids_of(table, version=table.history[1].snapshot_id) == [1, 2]


def test_a_path_that_is_not_in_the_table_is_refused():
    table = new_table(2)
    table.append(rows(1))
    with pytest.raises(CommitConflict, match="not in the table"):
        table.new_delete().delete_file("memory://nowhere/x.parquet").commit()


def test_whole_partitions_go_by_filter_without_reading_data():
    table = new_table(2, partition_by=("part",))
    table.append([*rows(1, part=1), *rows(2, part=2)])
    for file in live_files(table):
        table.store.delete(file.file_path)
    table.new_delete().delete_where(col("part") == 1).commit()
    assert table.scan().count() == 1


def test_files_whose_metrics_prove_that_all_rows_match_go_by_filter():
    table = new_table(2)
    table.append(rows(1, 2))
    table.append(rows(10, 11))
    table.new_delete().delete_where(col("id") < 5).commit()
    assert ids_of(table) == [10, 11]


def test_files_that_match_in_part_are_refused_and_nothing_changes():
    table = new_table(2)
    table.append(rows(1, 2))
    before = table.current_snapshot
    with pytest.raises(InvalidArgument, match="may match"):
        table.new_delete().delete_where(col("id") == 1).commit()
    assert table.refresh().current_snapshot == before


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_are_deleted_by_rewriting_what_is_left(version):
    table = new_table(version, partition_by=("part",))
    table.append([*rows(1, 2, part=1), *rows(3, part=2), {"id": 4, "name": None, "part": 2}])
    table.delete("name = 'n1' OR id = 3")
    assert ids_of(table) == [2, 4]


def test_deleting_nothing_makes_no_snapshot():
    table = new_table(2)
    table.append(rows(1, 2))
    before = table.current_snapshot
    assert table.delete("id = 77").snapshot is None
    assert table.refresh().current_snapshot == before


def test_a_vector_goes_with_its_data_file():
    table = new_table(3)
    table.append(rows(1, 2))
    file = live_files(table)[0]
    table.new_row_delta().add_deletes(vector(table, file, 0)).commit()
    table.append(rows(3))
    table.new_delete().delete_file(file).commit()
    assert ids_of(table) == [3]
    told = table.current_snapshot.summary
    assert (told["removed-dvs"], told["total-delete-files"], told["total-position-deletes"]) == ("1", "0", "0")


def test_rows_deleted_by_a_vector_stay_deleted_when_their_file_is_rewritten():
    table = new_table(3)
    table.append(rows(1, 2, 3))
    table.new_row_delta().add_deletes(vector(table, live_files(table)[0], 0)).commit()
    table.delete("id = 3")
    assert ids_of(table) == [2]
    assert not table.scan().plan().has_deletes
