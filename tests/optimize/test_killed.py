"""A process that dies between any two steps of a write or of optimizing leaves the table as it was, or as it should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from frazil import ambient
from frazil.catalog.definition import TableDefinition
from frazil.catalog.filesystem import FilesystemCatalog
from frazil.catalog.mixed_folder import as_mixed, create_mixed_table
from frazil.errors import FrazilError
from frazil.iceberg.table import IcebergTable
from frazil.io.memory_store import MemoryStore
from frazil.lake import Lake
from frazil.mixed.table import MixedTable
from frazil.model.arrow import schema_from_anything
from frazil.opening import open_in
from frazil.optimize.keyed import optimize_keyed
from frazil.optimize.run import Request, optimize_table
from frazil.optimize.settings import Settings
from tests.faults import Mortal
from tests.mixed.tables import SCHEMA, row, rows_of
from tests.optimize.tables import sorted_rows

AT_ONCE = replace(Settings(), minor_interval_ms=0, target_size=1000)
LATER = 10**15


class State:
    """A table that is made once, and is again as it was whenever it is asked for."""

    def __init__(self, make: Callable[[Mortal, str], None]) -> None:
        self.name = f"mortal-{ambient.new_uuid()}"
        self.store = Mortal(MemoryStore(self.name))
        make(self.store, f"memory://{self.name}")
        self._files = dict(self._space.files)

    @property
    def _space(self) -> Any:
        return MemoryStore(self.name)._space

    def again(self) -> Mortal:
        self._space.files = dict(self._files)
        self.store.effects, self.store.dies_at = 0, None
        return self.store


def keyed_table(store: Mortal, place: str) -> None:
    definition = TableDefinition(schema_from_anything(SCHEMA), ("region",))
    table = create_mixed_table(store, f"{place}/db/t", definition, primary_key=["id"])
    table.append([row(n, region="eu" if n % 2 else "us") for n in range(6)])
    optimize_keyed(table, AT_ONCE)
    table.upsert([row(1, "b", "us")])


@pytest.fixture(scope="module")
def keyed() -> State:
    return State(keyed_table)


def reopened(state: State) -> MixedTable:
    store = state.store
    places = [f"memory://{state.name}/db/t/{kind}" for kind in ("base", "change")]
    stores = [open_in(store, place, alone=True) for place in places]
    return as_mixed("t", stores[0], stores[1], None)


def upsert(table: MixedTable) -> object:
    return table.upsert([row(2, "c", "eu"), row(9, "c", "ap")], batch_id="once")


def ingest(table: MixedTable) -> object:
    return table.ingest([{"op": "insert", **row(7)}, {"op": "delete", **row(0, region="us")}], batch_id="once")


def overwrite(table: MixedTable) -> object:
    return table.overwrite_partitions([row(20, "c", "eu")])


def truncate(table: MixedTable) -> object:
    return table.truncate()


def optimize(table: MixedTable) -> object:
    return optimize_keyed(table, AT_ONCE, now_ms=LATER)


def optimize_and_keep_up(table: MixedTable | IcebergTable) -> object:
    request = Request("minor", now_ms=ambient.now_ms() + 30 * 86_400_000)
    return optimize_table(table, request)


def stepping(*cases: Any) -> list[Any]:
    """Cases of few effects die before each of them; those of many before every fourth, and in slow tests before all."""
    often = [pytest.param(*case, 4) for case in cases]
    return [*often, *(pytest.param(*case, 1, marks=pytest.mark.slow) for case in cases)]


@pytest.mark.parametrize(
    ("job", "stride"),
    [*((job, 1) for job in (upsert, ingest, overwrite, truncate, optimize)), *stepping((optimize_and_keep_up,))],
)
def test_a_job_that_dies_anywhere_is_done_or_not_and_can_be_repeated(
    job: Callable[[MixedTable], object], stride: int, keyed: State
) -> None:
    keyed.again()
    whole = reopened(keyed)
    before = rows_of(whole)
    job(whole)
    after = rows_of(whole)
    seen = set()
    for step in range(1, 200, stride):
        store = keyed.again()
        table = reopened(keyed)
        store.dies_at = step
        died = False
        try:
            job(table)
        except KeyboardInterrupt:
            died = True
        except FrazilError:
            pytest.fail("a death is no error of the table")
        store.dies_at = None
        found = reopened(keyed)
        rows = rows_of(found)
        assert rows in (before, after)
        seen.add(rows == after)
        job(found)
        assert rows_of(found) == after
        optimize(found)
        assert rows_of(reopened(keyed)) == after
        if not died:
            break
    else:
        raise AssertionError("the job has no end")
    assert True in seen
    assert step > 5


@pytest.mark.parametrize(("version", "stride"), stepping((2,), (3,)))
def test_optimizing_of_an_iceberg_table_that_dies_anywhere_is_done_or_not(version: int, stride: int) -> None:
    state = State(lambda store, place: iceberg_table(store, place, version))

    def opened() -> IcebergTable:
        return Lake(FilesystemCatalog(state.store, f"memory://{state.name}")).table("db.t")

    before = sorted_rows(opened())
    for step in range(1, 200, stride):
        store = state.again()
        table = opened()
        store.dies_at = step
        died = False
        try:
            optimize_and_keep_up(table)
        except KeyboardInterrupt:
            died = True
        store.dies_at = None
        assert sorted_rows(opened()) == before
        optimize_and_keep_up(opened())
        assert sorted_rows(opened()) == before
        assert not optimize_table(opened(), Request("minor", dry_run=True)).planned
        if not died:
            break
    else:
        raise AssertionError("it has no end")
    assert step > 5


def iceberg_table(store: Mortal, place: str, version: int) -> None:
    properties = {"write.delete.mode": "merge-on-read", "self-optimizing.target-size": "1000"}
    lake = Lake(FilesystemCatalog(store, place))
    table = lake.create_table("db.t", SCHEMA, format_version=version, properties=properties)
    table.append([row(n) for n in range(40)])
    table.upsert([row(1, "b"), row(2, "b")], ["id"])
    table.upsert([row(2, "c")], ["id"])
