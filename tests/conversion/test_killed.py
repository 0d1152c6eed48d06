"""A conversion that ends anywhere, or whose answer is lost: a table of one format or the other, with all rows."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog.formats import Placed
from frazil.catalog.memory import MemoryCatalog
from frazil.catalog.names import TableName, table_name
from frazil.conversion.convert import convert
from frazil.conversion.place import in_catalog
from frazil.conversion.work import InProcess, Work
from frazil.errors import CatalogError, CommitConflict, CommitFailed, CommitStateUnknown, FrazilError, StoreError
from frazil.lake import Lake
from tests.conversion.test_convert import by_pyiceberg, by_pylance, rows_of
from tests.faults import Fault, FaultyStore, Mortal

pytest.importorskip("lance")

ROWS = [{"id": n, "name": str(n)} for n in range(6)]
TO = {"iceberg": "lance", "lance": "iceberg"}
Connect = Callable[[Path], Lake]


def made(connect: Connect, folder: Path, kind: str) -> None:
    """A table with two states, one of them tagged."""
    lake = connect(folder)
    table = lake.create_table("db.t", "id BIGINT, name STRING", format=kind)
    table.append(ROWS[:3])
    if kind == "lance":
        table.create_tag("first")
    else:
        table.manage_refs().create_tag("first").commit()
    table.append(ROWS[3:])
    lake.close()


def check(lake: Lake) -> str:
    """All rows are there, in one format or the other; which."""
    table = lake.table("db.t")
    assert rows_of(table.scan().to_arrow()) == ROWS
    assert rows_of(table.scan(ref="first").to_arrow()) == ROWS[:3]
    assert rows_of((by_pylance if table.format == "lance" else by_pyiceberg)(lake, "db.t")) == ROWS
    return table.format


@pytest.mark.parametrize("kind", TO)
def test_a_process_that_dies_at_any_effect(connect: Connect, tmp_path: Path, kind: str) -> None:
    folder, kept = tmp_path / "lake", tmp_path / "kept"
    made(connect, folder, kind)
    shutil.copytree(folder, kept)
    found = set()
    for step in range(1, 200):
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        lake = connect(folder)
        store = lake.catalog.store = Mortal(lake.catalog.store)
        store.dies_at = step
        try:
            lake.convert_table("db.t", TO[kind])
        except KeyboardInterrupt:
            died = True
        else:
            died = False
        lake.close()
        after = connect(folder)
        found.add((died, check(after)))
        assert after.convert_table("db.t", TO[kind]).format == TO[kind]  # again, and then it works
        assert check(after) == TO[kind]
        after.table("db.t").append([{"id": 100, "name": "more"}])
        assert after.table("db.t").scan().count() == 7
        after.close()
        if not died:
            break
    else:
        raise AssertionError("it never ended")
    assert (True, kind) in found
    assert (False, TO[kind]) in found


@pytest.mark.parametrize("at", ["before", "after"])
@pytest.mark.parametrize("kind", TO)
def test_a_lost_answer_to_the_step(tmp_path: Path, kind: str, at: str) -> None:
    """In a filesystem catalog the step is a file; its answer is lost, whether it was written or not."""
    import frazil

    made(frazil.connect, tmp_path, kind)
    lake = frazil.connect(tmp_path)
    number = "v5." if kind == "iceberg" else "v1."
    lost = StoreError("time-out", applied="unknown")
    fault = Fault("put_if_absent", at, lost, match=number)  # type: ignore[arg-type]
    lake.catalog.store = FaultyStore(lake.catalog.store, [fault])
    try:
        done = lake.convert_table("db.t", TO[kind])
    except CommitStateUnknown:
        pass
    else:
        assert done.format == TO[kind]
    after = frazil.connect(tmp_path)
    check(after)
    after.convert_table("db.t", TO[kind])
    assert check(after) == TO[kind]


class Lossy(MemoryCatalog):
    """The answer to the step is lost, whether it was done or not; once, or for ever."""

    lost: tuple[str, int] = ("", 0)

    def _exchange(self, name: TableName, old: str | Placed, new: str | Placed) -> bool:
        at, times = self.lost
        if not times:
            return super()._exchange(name, old, new)
        self.lost = (at, times - 1)
        if at == "after":
            super()._exchange(name, old, new)
        raise CatalogError("the connection broke", hint="try again", applied="unknown")


@pytest.mark.parametrize("times", [1, 1000])
@pytest.mark.parametrize("at", ["before", "after"])
@pytest.mark.parametrize("kind", TO)
def test_a_lost_answer_of_a_catalog(tmp_path: Path, kind: str, at: str, times: int) -> None:
    at_once = {"commit.status-check.num-retries": "1", "commit.status-check.min-wait-ms": "1"}
    lake = Lake(Lossy(warehouse=str(tmp_path)))
    lake.create_table("db.t", "id BIGINT, name STRING", format=kind, properties=at_once).append(ROWS)
    assert isinstance(lake.catalog, Lossy)
    lake.catalog.lost = (at, times)
    try:
        assert lake.convert_table("db.t", TO[kind]).rows == 6
    except CommitStateUnknown:
        assert times > 1
    else:
        assert times == 1
    lake.catalog.lost = ("", 0)
    assert lake.table("db.t").format == (TO[kind] if at == "after" or times == 1 else kind)
    assert rows_of(lake.table("db.t").scan().to_arrow()) == ROWS
    lake.convert_table("db.t", TO[kind])
    assert rows_of(lake.table("db.t").scan().to_arrow()) == ROWS
    lake.table("db.t").append(ROWS)


class Meddling(InProcess):
    """Somebody commits whenever rows were moved, and the name is about to be the other table's."""

    def __init__(self, lake: Lake, times: int) -> None:
        self._lake = lake
        self._numbers = iter(range(1, times + 1))

    def run(self, work: Work, tasks: Sequence[Any], size: Callable[[Any], int]) -> list[bytes]:
        done = super().run(work, tasks, size)
        number = next(self._numbers, None)
        if number is not None:
            self._lake.table("db.t").append([{"id": number}])
        return done


@pytest.mark.parametrize("kind", TO)
def test_a_commit_while_it_is_converted(lake: Lake, kind: str) -> None:
    """It is in the table that comes of it, since the conversion begins again; one that never gets a chance gives up."""
    lake.create_table("db.t", "id BIGINT", format=kind).append([{"id": 0}])
    place = in_catalog(lake.catalog, table_name("db.t"), lambda: lake.table("db.t"))
    files = set(_files(lake))
    with pytest.raises(CommitFailed):
        convert(place, TO[kind], Meddling(lake, 3))
    assert lake.table("db.t").format == kind
    assert all(file.suffix != (".lance" if kind == "iceberg" else ".parquet") for file in set(_files(lake)) - files)
    lake.drop_table("db.t")
    lake.create_table("db.t", "id BIGINT", format=kind).append([{"id": 0}])
    assert convert(place, TO[kind], Meddling(lake, 2)).rows == 3
    assert lake.table("db.t").format == TO[kind]
    assert [row["id"] for row in rows_of(lake.table("db.t").scan().to_arrow())] == [0, 1, 2]


class Together(InProcess):
    """Waits until another has moved its rows too."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self._barrier = barrier

    def run(self, work: Work, tasks: Sequence[Any], size: Callable[[Any], int]) -> list[bytes]:
        done = super().run(work, tasks, size)
        with suppress(threading.BrokenBarrierError):
            self._barrier.wait(10)
        return done


@pytest.mark.parametrize("kind", TO)
def test_two_who_convert_at_once(connect: Connect, tmp_path: Path, kind: str) -> None:
    """One of them does it. What the other made is gone, and the table can be written to."""
    connect(tmp_path).create_table("db.t", "id BIGINT", format=kind).append([{"id": 0}])
    barrier = threading.Barrier(2)
    outcomes: list[str] = []

    def one() -> None:
        lake = connect(tmp_path)
        place = in_catalog(lake.catalog, table_name("db.t"), lambda: lake.table("db.t"))
        try:
            outcomes.append(convert(place, TO[kind], Together(barrier)).format)
        except FrazilError as error:
            outcomes.append(type(error).__name__)
        finally:
            barrier.abort()

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert TO[kind] in outcomes
    assert set(outcomes) <= {TO[kind], "CommitFailed", "TableNotFound"}
    lake = connect(tmp_path)
    assert lake.table("db.t").format == TO[kind]
    lake.table("db.t").append([{"id": 1}])
    assert [row["id"] for row in rows_of(lake.table("db.t").scan().to_arrow())] == [0, 1]


def _files(lake: Lake) -> list[Path]:
    return [Path(file.location) for file in lake.catalog.store.list(lake.catalog.warehouse)]


@pytest.mark.parametrize("kind", TO)
def test_writers_beside_a_conversion_lose_nothing(connect: Connect, tmp_path: Path, kind: str) -> None:
    """Whatever was acknowledged is there afterwards."""
    lake = connect(tmp_path)
    lake.create_table("db.t", "id BIGINT", format=kind).append([{"id": -1}])
    acknowledged: list[int] = []
    stop = threading.Event()

    def write() -> None:
        table = connect(tmp_path).table("db.t")
        number = 0
        while not stop.is_set():
            try:
                table.append([{"id": number}])
            except FrazilError:
                table = connect(tmp_path).table("db.t")
            else:
                acknowledged.append(number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    converted = 0
    try:
        for to in (TO[kind], kind, TO[kind]):
            try:
                lake.convert_table("db.t", to)
                converted += 1
            except (FrazilError, CommitConflict):
                continue
    finally:
        stop.set()
        writer.join()
    rows = [row["id"] for row in rows_of(connect(tmp_path).table("db.t").scan().to_arrow())]
    assert set(acknowledged) <= set(rows)
    assert len(rows) == len(set(rows))
