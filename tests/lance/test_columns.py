"""Columns that are added, dropped and changed: values come to the rows that they are for, or nothing is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from frazil.errors import CommitConflict, FrazilError, InvalidArgument
from frazil.io.store import Stores
from frazil.lance.field_ids import fields_to_read
from frazil.lance.table import LanceTable
from tests.lance.test_table import check, made, numbers, opened


def addresses(table: LanceTable, column: str = "_rowaddr") -> pa.Table:
    return table.scan(columns=[column, "a"]).to_arrow()


@pytest.mark.parametrize("by", [None, "_rowaddr", "_rowid"])
@pytest.mark.parametrize("other", ["update", "delete", "append", "compact", "overwrite", "add"])
@pytest.mark.parametrize("stable", [False, True])
def test_values_of_a_version_do_not_go_to_rows_of_a_later_one(
    tmp_path: Path, by: str | None, other: str, stable: bool
) -> None:
    table = made(tmp_path, numbers(3), stable_row_ids=stable)
    table.append(numbers(3, 3))
    values: dict[str, Any] = {} if by is None else {by: addresses(table, by)[by]}
    late, now = opened(tmp_path), opened(tmp_path)
    steps = {
        "update": lambda: now.update({"b": "'new'"}, "a = 0"),
        "delete": lambda: now.delete("a = 1"),
        "append": lambda: now.append(numbers(1, 9)),
        "compact": now.compact,
        "overwrite": lambda: now.overwrite(numbers(6, 10)),
        "add": lambda: now.add_columns({"z": "a"}),
    }
    steps[other]()
    before = check(tmp_path)
    with pytest.raises(CommitConflict):
        late.add_columns(pa.table({**values, "c": [n * 10 for n in range(6)]}))
    assert check(tmp_path) == before
    known = {file.path for one in now.refresh().snapshots for fragment in one.fragments for file in fragment.files}
    assert {file.name for file in (tmp_path / "data").iterdir()} == known


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("by", [None, "_rowaddr", "_rowid"])
@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_values_come_to_their_rows(tmp_path: Path, by: str | None, kind: str, stable: bool) -> None:
    table = made(tmp_path, numbers(5), stable_row_ids=stable)
    table.append(numbers(5, 5))
    table.update({"b": "'moved'"}, "a = 2")
    table.delete("a IN (0, 7)")
    rows = addresses(table, by or "_rowaddr")
    order = np.arange(rows.num_rows) if by is None else np.random.default_rng(1).permutation(rows.num_rows)[:5]
    rows = rows.take(pa.array(order))
    values: Any = pa.table({"c": [n * 10 for n in rows["a"].to_pylist()]})
    if by is not None:
        values = values.append_column(by, rows[by])
    table.add_columns(values.to_pandas() if kind == "pandas" else values)
    given = set(rows["a"].to_pylist())
    for row in check(tmp_path).to_pylist():
        assert row["c"] == (row["a"] * 10 if row["a"] in given else None)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("_rowaddr", pa.array([99 << 32], pa.uint64())),
        ("_rowaddr", pa.array([77], pa.uint64())),
        ("_rowaddr", pa.array([None], pa.uint64())),
        ("_rowaddr", pa.array([-1], pa.int64())),
        ("_rowaddr", pa.array([0.0])),
        ("_rowaddr", pa.array([1], pa.uint64())),  # deleted
        ("_rowid", pa.array([55], pa.uint64())),
        ("_rowid", pa.array([1], pa.uint64())),
    ],
)
@pytest.mark.parametrize("stable", [False, True])
def test_values_for_rows_that_are_not_there_are_refused(
    tmp_path: Path, column: str, values: pa.Array, stable: bool
) -> None:
    table = made(tmp_path, numbers(3), stable_row_ids=stable)
    table.delete("a = 1")
    with pytest.raises(InvalidArgument):
        table.add_columns(pa.table({column: values, "c": [7]}))
    assert opened(tmp_path).version == 2


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"c": 5},
        {"c": None},
        {5: "a"},
        None,
        7,
        [{"c": 1}],
        pa.table({}),
        pa.schema([]),
        pd.DataFrame(),
        pa.table({"_rowaddr": pa.array([0, 1, 2], pa.uint64())}),
        pa.table({"_rowaddr": pa.array([0], pa.uint64()), "_rowid": pa.array([0], pa.uint64()), "c": [1]}),
        pa.table({"c": [1]}),
    ],
)
def test_what_are_no_columns_is_refused(tmp_path: Path, columns: Any) -> None:
    table = made(tmp_path, numbers(3))
    with pytest.raises(InvalidArgument):
        table.add_columns(columns)
    assert opened(tmp_path).version == 1


@pytest.mark.parametrize("kind", ["int", None, int])
def test_what_is_no_type_is_refused(tmp_path: Path, kind: Any) -> None:
    with pytest.raises(InvalidArgument):
        made(tmp_path, numbers(3)).change_column_type("a", kind)


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("gone", ["a > 5", "a < 2 OR a > 5", "b <> '3'"])
def test_values_of_deleted_rows_are_not_computed_with(tmp_path: Path, gone: str, required: bool) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), not required), pa.field("b", pa.string(), not required)])
    rows = pa.table({"a": [0, 1, 2, 3, 1 << 40], "b": ["0", "1", "2", "3", "bad"]}, schema)
    table = made(tmp_path, rows)
    table.delete(gone)
    left = table.scan(columns=["a"]).to_arrow()["a"].to_pylist()
    table.add_columns({"c": "CAST(b AS BIGINT)"})
    table.change_column_type("a", pa.int32())
    found = check(tmp_path)
    assert found["a"].to_pylist() == found["c"].to_pylist() == left
    assert found.schema.field("a") == pa.field("a", pa.int32(), not required)


def test_batches_of_deleted_rows_alone_are_filled(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string(), nullable=False)])
    table = LanceTable.create(Stores(), str(tmp_path), schema, numbers(20_000).cast(schema))
    table.delete("a < 9000")
    table.change_column_type("a", pa.int32())
    table.change_column_type("b", pa.large_string())
    assert check(tmp_path)["a"].to_pylist() == list(range(9000, 20_000))


@pytest.mark.parametrize("columns", [{"a": "a"}, {"c": "CAST(b AS BIGINT)"}, pa.table({"a": range(6)})])
def test_columns_that_are_refused_leave_no_files(tmp_path: Path, columns: Any) -> None:
    table = made(tmp_path, numbers(3))
    table.append(pa.table({"a": [3, 4, 5], "b": ["3", "4", "no number"]}))
    with pytest.raises(FrazilError):
        table.add_columns(columns)
    assert len(list((tmp_path / "data").iterdir())) == 2
    assert opened(tmp_path).version == 2


def test_a_column_that_is_added_after_another_was_dropped_has_a_number_of_its_own(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(3))
    table.add_columns({"c": "a * 10"})
    then = table.current_snapshot
    table.drop_columns("c")
    table.add_columns({"c": "a * 100"})
    assert table.current_snapshot.schema.find("c").id != then.schema.find("c").id
    assert check(tmp_path)["c"].to_pylist() == [0, 100, 200]
    table.restore(1)
    table.compact()
    table.add_columns({"d": "a"})
    assert table.schema.find("d").id == 4
    assert table.metadata == {}
    lance.dataset(tmp_path).add_columns({"e": "a + 1"})
    check(tmp_path)


def test_an_earlier_version_shows_no_values_of_another_column_under_a_later_ones_name(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(3))
    dataset = lance.dataset(tmp_path)
    dataset.add_columns({"c": "a * 10"})  # pylance uses numbers again
    dataset.drop_columns(["c"])
    dataset.add_columns({"d": "a * 100"})
    dataset.alter_columns({"path": "b", "name": "renamed"})
    table.refresh()
    then, now = table.at(version=2), table.current_snapshot
    assert then.schema.find("c").id == now.schema.find("d").id
    read = {field.name: field.id for field in fields_to_read(then, now).fields}
    assert (read["a"], read["renamed"]) == (0, 1)
    assert read["d"] not in {field.id for field in then.manifest.fields}


def test_an_overwrite_does_not_take_back_a_column_that_another_writer_added(tmp_path: Path) -> None:
    late = made(tmp_path, numbers(3))
    opened(tmp_path).add_columns({"c": "a"})
    with pytest.raises(CommitConflict):
        late.overwrite(numbers(1, 9))
    assert check(tmp_path)["c"].to_pylist() == [0, 1, 2]
    opened(tmp_path).append([{"a": 3}])
    now = opened(tmp_path)
    opened(tmp_path).append([{"a": 4}])
    now.overwrite(pa.table({"a": [9], "b": ["x"], "c": [1]}))  # over rows that came meanwhile
    assert check(tmp_path)["a"].to_pylist() == [9]
    late.refresh()
    opened(tmp_path).add_columns({"d": "a"})
    late.overwrite(numbers(1, 5), schema=numbers(1).schema)  # whose columns were told
    assert check(tmp_path).column_names == ["a", "b"]


def test_handles_that_stay_add_columns_or_change_nothing(tmp_path: Path) -> None:
    """Several handles in turn, each as stale as it happens to be."""
    made(tmp_path, numbers(4), stable_row_ids=True)
    handles = [opened(tmp_path) for _ in range(3)]
    chance = np.random.default_rng(6)
    accepted = 0
    for step in range(40):
        handle = handles[chance.integers(3)]
        before = opened(tmp_path)
        kind = chance.integers(5)
        try:
            if kind == 0:
                rows = addresses(handle)
                handle.add_columns(pa.table({"_rowaddr": rows["_rowaddr"], f"c{step}": rows["a"]}))
                accepted += 1
            elif kind == 1:
                handle.append(pa.table({"a": [100 + step], "b": ["x"]}))
            elif kind == 2:
                handle.update({"b": "'u'"}, f"a = {step % 4}")
            elif kind == 3:
                handle.refresh()
            else:
                handle.compact()
        except FrazilError:
            assert opened(tmp_path).version == before.version
            handle.refresh()
        for row in opened(tmp_path).scan().to_arrow().to_pylist():
            assert all(row[name] in (row["a"], None) for name in row if name.startswith("c"))
    check(tmp_path)
    assert accepted > 3


def test_a_filter_means_a_column_that_is_called_like_a_metadata_column(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"_rowid": pa.array([7, 8], pa.int64()), "a": [1, 2]}))
    assert table.scan("_rowid = 8").to_arrow()["a"].to_pylist() == [2]
