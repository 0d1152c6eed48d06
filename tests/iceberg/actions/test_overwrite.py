import pytest

from frazil.errors import CommitConflict, InvalidArgument
from frazil.model.expressions import col
from tests.iceberg.small_tables import ids_of, live_files, new_table, rows, write_files


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_that_match_are_replaced_in_one_snapshot(version):
    table = new_table(version, partition_by=("part",))
    table.append([*rows(1, 2, part=1), *rows(3, part=2)])
    snapshot = table.overwrite(rows(9, part=1), where="part = 1")
    assert ids_of(table) == [3, 9]
    assert snapshot.operation == "overwrite"
    assert snapshot.summary["deleted-records"] == "2"
    assert snapshot.parent_snapshot_id == table.history[1].snapshot_id


def test_without_a_filter_everything_is_replaced():
    table = new_table(2)
    table.append(rows(1, 2))
    table.overwrite(rows(3))
    assert ids_of(table) == [3]


def test_rows_of_a_file_that_do_not_match_are_kept_with_their_ids():
    table = new_table(3)
    table.append(rows(1, 2, 3))
    before = {row["id"]: row["_row_id"] for row in table.scan(columns=["id", "_row_id"]).to_arrow().to_pylist()}
    table.overwrite(rows(7), where="id = 2")
    after = table.scan("id < 7", columns=["id", "_row_id", "_last_updated_sequence_number"]).to_arrow().to_pylist()
    assert {row["id"]: row["_row_id"] for row in after} == {1: before[1], 3: before[3]}
    assert {row["_last_updated_sequence_number"] for row in after} == {1}


def test_overwriting_by_filter_alone_refuses_files_that_match_in_part():
    table = new_table(2)
    table.append(rows(1, 2, 3))
    with pytest.raises(InvalidArgument, match="some may not"):
        table.new_overwrite().overwrite_where(col("id") < 2).commit()
    assert ids_of(table.refresh()) == [1, 2, 3]


def test_rows_added_meanwhile_are_a_conflict_under_serializable_isolation():
    table = new_table(2)
    table.append(rows(1))
    start = table.current_snapshot.snapshot_id
    action = table.new_overwrite().add_files(write_files(table, rows(5))).delete_file(live_files(table)[0])
    action.validate_from(start).conflict_filter(col("id") < 10).validate_no_conflicting_data()
    table.refresh().append(rows(2))
    with pytest.raises(CommitConflict, match="added rows"):
        action.commit()
    assert ids_of(table.refresh()) == [1, 2]


def test_rows_added_elsewhere_are_no_conflict():
    table = new_table(2, partition_by=("part",))
    table.append([*rows(1, part=1), *rows(2, part=2)])
    start = table.current_snapshot.snapshot_id
    victim = next(file for file in live_files(table) if file.partition == (1,))
    action = table.new_overwrite().add_files(write_files(table, rows(5, part=1))).delete_file(victim)
    action.validate_from(start).conflict_filter(col("part") == 1).validate_no_conflicting_data()
    table.append(rows(3, part=2))
    action.commit()
    assert ids_of(table.refresh()) == [2, 3, 5]


def test_a_file_that_is_gone_cannot_be_replaced():
    table = new_table(2)
    table.append(rows(1))
    victim = live_files(table)[0]
    action = table.new_overwrite().add_files(write_files(table, rows(5))).delete_file(victim)
    table.overwrite(rows(2))
    with pytest.raises(CommitConflict, match="not in the table"):
        action.commit()
    assert ids_of(table.refresh()) == [2]


def test_an_overwrite_of_nothing_by_nothing_is_refused():
    with pytest.raises(InvalidArgument, match="nothing to overwrite"):
        new_table(2).new_overwrite().commit()
