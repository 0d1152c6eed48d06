"""Handles that stay while their table is dropped and made again: what they commit is refused, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.errors import CommitConflict, FrazilError
from frazil.io.store import Stores
from frazil.lake import Lake
from frazil.lance.history import History
from frazil.lance.table import LanceTable
from tests.lance.test_table import made, numbers, opened

SCHEMA = numbers(1).schema
Step = Callable[[LanceTable], object]
STEPS: dict[str, Step] = {
    "append": lambda table: table.append(numbers(1, 900)),
    "overwrite": lambda table: table.overwrite(numbers(1, 900)),
    "delete": lambda table: table.delete("a >= 0"),
    "update": lambda table: table.update({"a": "a + 1000"}),
    "add": lambda table: table.add_columns({"c": "a"}),
    "drop": lambda table: table.drop_columns("b"),
    "config": lambda table: table.update_properties({"a": "b"}),
    "restore": lambda table: table.restore(1),
}


def lake_of(kind: str, folder: Path) -> Lake:
    if kind == "folder":
        return frazil.connect(str(folder))
    return frazil.connect(f"sqlite:///{folder}/c.db", warehouse=str(folder / "w"))


@pytest.mark.parametrize("kind", ["folder", "sql"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("newer", [1, 2, 4])
def test_a_table_made_again_is_not_changed_by_a_handle_of_the_former(
    tmp_path: Path, kind: str, step: str, newer: int
) -> None:
    lake = lake_of(kind, tmp_path)
    late = lake.create_table("db.t", SCHEMA, format="lance")
    late.append(numbers(3))
    lake.drop_table("db.t", purge=step in ("append", "delete"))
    again = lake.create_table("db.t", SCHEMA, format="lance")
    for number in range(newer):
        again.append(numbers(10, 100 * (number + 1)))
    before = again.scan().to_arrow()
    with pytest.raises(FrazilError) as refused:
        STEPS[step](late)
    assert refused.value.code in ("COMMIT_CONFLICT", "TABLE_NOT_FOUND")
    found = lake.table("db.t", format="lance")
    assert (found.version, found.scan().to_arrow()) == (again.version, before)


def test_a_table_made_again_with_other_columns_is_not_appended_to(tmp_path: Path) -> None:
    lake = frazil.connect(str(tmp_path))
    late = lake.create_table("db.t", SCHEMA, format="lance")
    late.append(numbers(3))
    lake.drop_table("db.t")
    again = lake.create_table("db.t", pa.schema({"a": pa.string()}), format="lance")
    for _ in range(4):
        again.append([{"a": "x"}])
    with pytest.raises(CommitConflict):
        late.append(numbers(1))
    assert lake.table("db.t").scan().to_arrow().to_pydict() == {"a": ["x"] * 4}


def test_a_branch_made_again_is_not_changed_by_a_handle_of_the_former(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(2))
    late = table.create_branch("dev")
    late.append(numbers(1, 10))
    table.drop_branch("dev")
    again = table.create_branch("dev")
    again.append(numbers(3, 50))
    with pytest.raises(CommitConflict):
        late.append(numbers(1, 90))
    assert sorted(table.branch("dev").scan().to_arrow()["a"].to_pylist()) == [0, 1, 50, 51, 52]


def test_a_table_that_was_dropped_from_a_database_is_not_appended_to(tmp_path: Path) -> None:
    lake = lake_of("sql", tmp_path)
    late = lake.create_table("db.t", SCHEMA, format="lance")
    line = late.create_branch("dev")
    lake.drop_table("db.t")
    for table in (late, line):
        with pytest.raises(CommitConflict):
            table.append(numbers(1))
    assert opened(Path(late.location)).append(numbers(1)).version == 2  # by its path it is a table still


def test_an_append_looks_at_the_version_before_it_with_one_small_read(tmp_path: Path) -> None:
    made(tmp_path, numbers(2))
    read: list[int] = []

    class Counting(Stores):
        def read(self, location: str) -> bytes:
            read.append(len(found := super().read(location)))
            return found

        def read_range(self, location: str, offset: int, length: int) -> bytes:
            read.append(len(found := super().read_range(location, offset, length)))
            return found

    table = LanceTable(str(tmp_path), Counting(), str(tmp_path), History(Stores(), str(tmp_path)).latest())
    for _ in range(3):
        table.append(numbers(1))
    assert len(read) == 3
    assert max(read) <= 100
