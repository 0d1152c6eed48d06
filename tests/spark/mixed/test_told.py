"""What workers make of the rows that Spark gives them, in this process: no session is needed for it."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from frazil.errors import InvalidValue
from frazil.mixed.commit import commit_changes
from frazil.mixed.file_names import FileType, parse_change
from frazil.mixed.operations import Operation
from frazil.mixed.transactions import begin_transaction
from frazil.spark.mixed.target import Target
from frazil.spark.mixed.told import ChangeData, GoingAndComing, NewRows, OldAndNew, Replacements
from frazil.spark.mixed.write import WriteChanges, remove_rest
from tests.mixed.tables import new_table, row, rows_of

ROW = pa.struct([("id", pa.int64()), ("name", pa.string()), ("region", pa.string())])


def batch(*columns):
    return pa.RecordBatch.from_arrays(list(columns), names=[f"c{place}" for place in range(len(columns))])


def texts(*values):
    return pa.array(values, pa.string())


def applied(table, kind, *tasks, more=()):
    """Let each task's batches be written by a writer of its own, and commit all of them; rows by operation."""
    target = Target.of(table, table.schema)
    transaction = begin_transaction(target.base, target.change)
    told = kind(target.schema, target.keys, *more)
    work = WriteChanges(target.change.store, target.change.metadata, transaction, told)
    written = [work.write(batches) for batches in tasks]
    commit_changes(target.base, target.change, [file for one in written for file in one.files], transaction)
    table.refresh()
    return {Operation(place).name: sum(one.rows[place] for one in written) for place in range(4)}


@pytest.mark.parametrize("partition_by", [(), ("region",)])
def test_rows_of_a_statement_go_and_come_whichever_task_has_them(partition_by):
    table = new_table(partition_by=partition_by)
    table.append([row(number) for number in range(5)])
    applied(table, NewRows, [batch(pa.array([10]), texts("x"), texts(None))])
    first = batch(
        pa.array([1, 2], pa.int32()),
        pa.array([None, 1]),
        texts(None, "u"),
        texts(None, "us"),
        pa.array([row(4), row(0)], ROW),
    )
    second = batch(
        pa.array([2, 3], pa.int32()),
        pa.array([0, 77]),
        texts("u", "i"),
        texts("eu", "eu"),
        pa.array([row(1), None], ROW),
    )
    counts = applied(table, OldAndNew, [first], [second])
    assert counts == {"INSERT": 1, "DELETE": 1, "UPDATE_BEFORE": 2, "UPDATE_AFTER": 2}
    left = [row(0, "u"), row(1, "u", "us"), row(10, "x", None), row(2), row(3), row(77, "i")]
    assert rows_of(table) == left
    both = batch(pa.array([3, 1], pa.int32()), pa.array([2, 2]), texts("new", "a"), texts("eu", "eu"))
    applied(table, GoingAndComing, [both])
    assert [one for one in rows_of(table) if one["id"] == 2] == [row(2, "new")]


def test_replacements_and_changes_by_uuids():
    table = new_table("id UUID NOT NULL, v INT")
    one, two = (str(uuid.UUID(int=number)) for number in (1, 2))
    applied(table, Replacements, [batch(texts(one, two), pa.array([1, 2], pa.int32()))])
    applied(table, Replacements, [batch(texts(two), pa.array([5], pa.int32()))])
    applied(table, ChangeData, [batch(texts("u"), texts(one), pa.array([9], pa.int32()))], more=((), False, True))
    assert sorted(found["v"] for found in table.scan().to_arrow().to_pylist()) == [5, 9]
    with pytest.raises(InvalidValue, match="several rows have the key"):
        applied(table, Replacements, [batch(texts(two, two), pa.array([5, 6], pa.int32()))])


def test_an_update_in_two_batches_is_one_update():
    table = new_table()
    batches = [
        batch(texts("c", "-U"), pa.array([1, 2]), pa.array([1, 1]), texts("x", "x"), texts("eu", "eu")),
        batch(texts("+U", "d"), pa.array([2, 9]), pa.array([1, 10]), texts("z", None), texts(None, None)),
    ]
    counts = applied(table, ChangeData, batches, more=(("ts",), False, True))
    assert counts == {"INSERT": 1, "DELETE": 1, "UPDATE_BEFORE": 1, "UPDATE_AFTER": 1}
    assert rows_of(table) == [row(1, "z", None)]


def test_what_is_left_of_a_transaction_is_found_by_its_names():
    table = new_table(partition_by=("region",))
    table.append([row(1), row(2, region="us")])
    target = Target.of(table, table.schema)
    transaction = begin_transaction(target.base, target.change)
    work = WriteChanges(target.change.store, target.change.metadata, transaction, NewRows(target.schema, target.keys))
    rows = batch(pa.array([7, 8]), texts("a", "a"), texts("eu", "us"))
    kept, lost = (work.write([rows]).files for _ in range(2))
    store, place = target.change.store, target.change.location

    def files():
        return {file.location for file in store.list(f"{place}/data")}

    before = files()
    assert {file.file_path for file in (*kept, *lost)} < before
    remove_rest(store, place, transaction, [file.file_path for file in kept])
    assert files() == before - {file.file_path for file in lost}
    remove_rest(store, place, transaction)
    assert {parse_change(one, 0).type for one in files()} == {FileType.INSERT}
    assert files() == before - {file.file_path for file in (*kept, *lost)}
