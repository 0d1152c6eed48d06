"""A process that dies between any two steps of a write or of optimizing leaves the table as it was, or as it should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from frazil import ambient
from frazil.catalog.definition import TableDefinition
from frazil.catalog.mixed_folder import as_mixed, create_mixed_table
from frazil.errors import FrazilError
from frazil.io.memory_store import MemoryStore
from frazil.mixed.table import MixedTable
from frazil.model.arrow import schema_from_anything
from frazil.opening import open_in
from frazil.optimize.keyed import optimize_keyed
from frazil.optimize.settings import Settings
from tests.faults import FaultyStore
from tests.mixed.tables import SCHEMA, row, rows_of

EFFECTS = {"write", "put_if_absent", "replace", "close", "delete"}
AT_ONCE = replace(Settings(), minor_interval_ms=0, target_size=1000)
LATER = 10**15


class Mortal(FaultyStore):
    """A store whose process dies before one of its effects; after that nothing more happens."""

    dies_at: int | None = None
    effects = 0

    def _strike(self, verb: str, location: str, at: str) -> None:
        if self.dies_at is None or verb not in EFFECTS or at != "before":
            return
        self.effects += 1
        if self.effects >= self.dies_at:
            raise KeyboardInterrupt


def new_state() -> tuple[Mortal, MixedTable]:
    name = f"mortal-{ambient.new_uuid()}"
    store = Mortal(MemoryStore(name))
    definition = TableDefinition(schema_from_anything(SCHEMA), ("region",))
    table = create_mixed_table(store, f"memory://{name}/db/t", definition, primary_key=["id"])
    table.append([row(n, region="eu" if n % 2 else "us") for n in range(6)])
    optimize_keyed(table, AT_ONCE)
    table.upsert([row(1, "b", "us")])
    return store, table


def reopened(store: Mortal, table: MixedTable) -> MixedTable:
    places = [f"{table.location}/{kind}" for kind in ("base", "change")]
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


@pytest.mark.parametrize("job", [upsert, ingest, overwrite, truncate, optimize])
def test_a_job_that_dies_anywhere_is_done_or_not_and_can_be_repeated(job: Callable[[MixedTable], object]) -> None:
    _, whole = new_state()
    before = rows_of(whole)
    job(whole)
    after = rows_of(whole)
    seen = set()
    for step in range(1, 200):
        store, table = new_state()
        store.dies_at = step
        died = False
        try:
            job(table)
        except KeyboardInterrupt:
            died = True
        except FrazilError:
            pytest.fail("a death is no error of the table")
        store.dies_at = None
        found: Any = reopened(store, table)
        rows = rows_of(found)
        assert rows in (before, after)
        seen.add(rows == after)
        job(found)
        assert rows_of(found) == after
        optimize(found)
        assert rows_of(reopened(store, table)) == after
        if not died:
            break
    else:
        raise AssertionError("the job has no end")
    assert True in seen
    assert step > 5
