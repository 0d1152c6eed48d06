"""Which deletes apply to which rows, where others got it wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from frazil.errors import CommitConflict, InvalidArgument, MalformedMetadata
from frazil.iceberg.actions.file_changes import FileChanges
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.table import IcebergTable
from tests.incidents.lakes import (
    data_files,
    delete_files,
    equality_deletes,
    ids_in,
    new_table,
    position_deletes,
    rows_of,
    vector,
    write_rows,
)

PARTITIONED = "id BIGINT, name STRING, p INT"


# Two vectors for one data file.


def test_a_second_vector_replaces_the_first():
    """C4 #11 (iceberg-go#1372, #1868): delete twice; the new vector holds both and the old one goes with it."""
    table = new_table(version=3)
    table.append(rows_of(1, 2, 3))
    (file,) = data_files(table)
    first = vector(table, file, [0])
    table.new_row_delta().add_deletes(first).commit()
    (live,) = delete_files(table)
    table.new_row_delta().remove_deletes(live).add_deletes(vector(table, file, [0, 2])).commit()
    assert ids_in(table) == [2]
    assert len(delete_files(table)) == 1
    assert table.scan().count() == 1


def test_a_second_vector_beside_the_first_is_refused():
    """C4 #11: a RowDelta that does not remove the old vector; the table stays readable."""
    table = new_table(version=3)
    table.append(rows_of(1, 2, 3))
    (file,) = data_files(table)
    table.new_row_delta().add_deletes(vector(table, file, [0])).commit()
    with pytest.raises(CommitConflict, match="already has a deletion vector"):
        table.new_row_delta().add_deletes(vector(table, file, [0, 2])).commit()
    assert ids_in(table.refresh()) == [2, 3]


def test_two_vectors_in_one_commit_are_refused():
    """C4 #11: the same mistake within one change."""
    table = new_table(version=3)
    table.append(rows_of(1, 2, 3))
    (file,) = data_files(table)
    with pytest.raises(InvalidArgument, match="two vectors"):
        table.new_row_delta().add_deletes(vector(table, file, [0])).add_deletes(vector(table, file, [1])).commit()


def test_a_rewrite_cannot_add_a_second_vector_either():
    """C4 #11: nor can any other action that adds deletes."""
    table = new_table(version=3)
    table.append(rows_of(1, 2, 3))
    table.append(rows_of(4))
    file = next(one for one in data_files(table) if one.record_count == 3)
    table.new_row_delta().add_deletes(vector(table, file, [0])).commit()
    other = next(one for one in data_files(table) if one.record_count == 1)
    with pytest.raises(CommitConflict, match="already has a deletion vector"):
        table.new_rewrite().delete_file(other).add_file(vector(table, file, [0])).commit()


def test_vectors_are_looked_for_on_the_branch_that_is_written():
    """C4 #11 (presto#28182): vectors of main say nothing of a branch, and the other way round."""
    table = new_table(version=3)
    table.append(rows_of(1, 2, 3))
    (file,) = data_files(table)
    table.manage_refs().create_branch("dev").commit()
    table.new_row_delta().add_deletes(vector(table, file, [0])).commit()
    # the branch has none: adding one is no conflict with that of main
    table.new_row_delta().add_deletes(vector(table, file, [1])).to_branch("dev").commit()
    assert (ids_in(table), ids_in(table, ref="dev")) == ([2, 3], [1, 3])
    with pytest.raises(CommitConflict, match="already has a deletion vector"):
        table.new_row_delta().add_deletes(vector(table, file, [0, 1])).to_branch("dev").commit()
    (live,) = delete_files(table, ref="dev")
    table.new_row_delta().remove_deletes(live).add_deletes(vector(table, file, [1, 2])).to_branch("dev").commit()
    assert (ids_in(table.refresh()), ids_in(table, ref="dev")) == ([2, 3], [1])


def test_removing_the_vector_of_another_branch_is_refused():
    """C4 #11 (presto#28182): the vector that main has is not on the branch."""
    table = new_table(version=3)
    table.append(rows_of(1, 2, 3))
    (file,) = data_files(table)
    table.manage_refs().create_branch("dev").commit()
    table.new_row_delta().add_deletes(vector(table, file, [0])).commit()
    (of_main,) = delete_files(table)
    with pytest.raises(CommitConflict, match="not in the table"):
        table.new_row_delta().remove_deletes(of_main).add_deletes(vector(table, file, [1])).to_branch("dev").commit()


def two_live_vectors(monkeypatch: pytest.MonkeyPatch) -> IcebergTable:
    """A table as a careless writer leaves it."""
    table = new_table(version=3)
    table.append(rows_of(1, 2, 3))
    (file,) = data_files(table)
    table.new_row_delta().add_deletes(vector(table, file, [0])).commit()
    with monkeypatch.context() as careless:
        careless.setattr(FileChanges, "_check_vectors", lambda *_: None)
        table.new_row_delta().add_deletes(vector(table, file, [2])).commit()
    return table


def test_a_table_with_two_live_vectors_for_a_file_is_not_read(monkeypatch: pytest.MonkeyPatch):
    """C4 #11: which rows are deleted cannot be known; the error says what to do, and earlier snapshots still read."""
    table = two_live_vectors(monkeypatch)
    for read in (lambda: table.scan().to_arrow(), lambda: table.scan().count(), lambda: table.scan().plan()):
        with pytest.raises(MalformedMetadata, match="two live deletion vectors") as error:
            read()
        assert "roll back" in str(error.value.hint)
    before = table.history[1].snapshot_id
    assert ids_in(table, version=before) == [2, 3]
    table.rollback().to_snapshot(before).commit()
    assert ids_in(table) == [2, 3]


# Boundaries of sequence numbers.


def delete_of(kind: str, table: IcebergTable, file: DataFile) -> DataFile:
    if kind == "equality":
        return equality_deletes(table, "id", 1)
    return (vector if kind == "vector" else position_deletes)(table, file, [0])


APPLIES = {
    # data sequence number less the delete's: a position or vector applies up to its own, an equality delete before it
    ("position", -1): True,
    ("position", 0): True,
    ("position", 1): False,
    ("vector", -1): True,
    ("vector", 0): True,
    ("vector", 1): False,
    ("equality", -1): True,
    ("equality", 0): False,
    ("equality", 1): False,
}


@pytest.mark.parametrize(("kind", "offset"), APPLIES, ids=str)
def test_the_boundary_of_sequence_numbers(kind: str, offset: int):
    """C4 #13 (pgcolumnar#643): `<` for equality deletes, `<=` for positions; all of -1, 0, +1."""
    table = new_table(version=3 if kind == "vector" else 2)
    (file,) = write_rows(table, rows_of(1, 2))
    delete = delete_of(kind, table, file)
    if offset == 1:
        table.append(rows_of(9))
        delete = replace(delete, data_sequence_number=1)
    if offset == -1:
        table.new_append().append_file(file).commit()
        table.new_row_delta().add_deletes(delete).commit()
    else:
        table.new_row_delta().add_rows(file).add_deletes(delete).commit()
    (live,) = [one for one in data_files(table) if one.record_count == 2]
    (live_delete,) = delete_files(table)
    assert live.data_sequence_number - live_delete.data_sequence_number == offset
    found = [number for number in ids_in(table) if number != 9]
    assert found == ([2] if APPLIES[kind, offset] else [1, 2])
    assert table.scan("id = 1").count() == (0 if APPLIES[kind, offset] else 1)


@pytest.mark.parametrize("kind", ["position", "equality"])
def test_boundaries_hold_for_deletes_of_whole_partitions(kind: str):
    """C4 #13: the same where the delete names no file but a partition."""
    table = new_table(schema=PARTITIONED, partition_by=["p"])
    rows = [{"id": 1, "name": "a", "p": 0}, {"id": 2, "name": "b", "p": 0}]
    (file,) = write_rows(table, rows)
    delete = delete_of(kind, table, file)
    unnamed = replace(delete, spec_id=file.spec_id, partition=file.partition, lower_bounds=None, upper_bounds=None)
    table.new_row_delta().add_rows(file).add_deletes(unnamed).commit()
    assert ids_in(table) == ([2] if kind == "position" else [1, 2])
    table.append([{"id": 1, "name": "later", "p": 0}])
    assert ids_in(table) == ([1, 2] if kind == "position" else [1, 1, 2])


# Deletes under a wrong partition.


def misplaced(kind: str, **members: Any) -> tuple[IcebergTable, DataFile]:
    table = new_table(schema=PARTITIONED, partition_by=["p"], version=3 if kind == "vector" else 2)
    table.append([{"id": 1, "name": "a", "p": 0}, {"id": 2, "name": "b", "p": 1}])
    file = next(one for one in data_files(table) if one.partition == (0,))
    make = vector if kind == "vector" else position_deletes
    return table, make(table, file, [0], **members)


@pytest.mark.parametrize("kind", ["position", "vector"])
@pytest.mark.parametrize("wrong", [(1,), (None,), (77,)], ids=str)
def test_a_delete_under_a_wrong_partition_is_an_error_and_not_rows(kind: str, wrong: tuple[Any, ...]):
    """C4 #16 (iceberg#16957): by the letter it would not apply, and the deleted row would be back.

    A filter on the partition itself leaves out manifests by their summaries, and with them what is misplaced in them.
    """
    table, delete = misplaced(kind, partition=wrong)
    table.new_row_delta().add_deletes(delete).commit()
    for scan in (table.scan(), table.scan("id = 1"), table.scan("name LIKE 'a%'")):
        with pytest.raises(MalformedMetadata, match="another partition"):
            scan.to_arrow()
        with pytest.raises(MalformedMetadata, match="another partition"):
            scan.count()


@pytest.mark.parametrize("kind", ["position", "vector"])
def test_a_delete_under_a_wrong_spec_is_an_error_and_not_rows(kind: str):
    """C4 #16: the same under another partition spec."""
    table, delete = misplaced(kind)
    table.update_spec().remove_field("p").commit()
    moved = replace(delete, spec_id=table.spec.spec_id, partition=())
    table.new_row_delta().add_deletes(moved).commit()
    for scan in (table.scan(), table.scan("p = 0")):
        with pytest.raises(MalformedMetadata, match="another partition"):
            scan.to_arrow()
