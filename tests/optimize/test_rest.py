"""Whatever was done to a table, optimizing keeps its rows and comes to an end: a table at rest plans nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mixed.tables import new_table, row
from tests.optimize.tables import SCHEMA, iceberg_table, new_lake, sorted_rows

REGIONS = ["eu", "us", None]
KINDS = ["minor", "major", "full"]


class History:
    """Random changes of a table."""

    def __init__(self, seed: int, table: Any) -> None:
        self.dice = random.Random(seed)
        self.table = table
        self.next = 0

    def rows(self, most: int = 30) -> list[dict[str, Any]]:
        count = self.dice.randint(1, most)
        self.next += count
        return [row(self.next - n, self.dice.choice("abc"), self.dice.choice(REGIONS)) for n in range(count)]

    def some(self) -> list[int]:
        return self.dice.sample(range(1, self.next + 2), min(5, self.next + 1))

    def append(self) -> None:
        self.table.append(self.rows())

    def delete(self) -> None:
        self.table.delete(f"id IN ({', '.join(map(str, self.some()))})")

    def upsert(self) -> None:
        given = [row(key, "new", self.dice.choice(REGIONS)) for key in self.some()]
        if self.table.format == "iceberg":
            by_region = any(part.name == "region" for part in self.table.spec.fields)
            self.table.upsert(given, ["id", "region"] if by_region else ["id"])
        elif self.table.format == "mixed":
            self.table.upsert(given)
        else:
            self.table.update({"name": "'new'"}, f"id < {self.next // 2}")

    def resize(self) -> None:
        """From now on other files count as small."""
        size = self.dice.choice(["1000", "3000", "134217728"])
        if self.table.format == "lance":
            self.table.update_properties({"self-optimizing.minor.trigger.file-count": self.dice.choice(["2", "5"])})
        else:
            self.table.update_properties().set("self-optimizing.target-size", size).commit()

    def respec(self) -> None:
        if self.table.format == "iceberg" and self.table.spec.is_unpartitioned:
            self.table.update_spec().add_field("region").commit()

    def optimize(self) -> None:
        before = sorted_rows(self.table)
        kind = self.dice.choice(KINDS)
        result = self.table.optimize(kind)
        assert len(result.runs) < 10, "optimizing does not come to an end"
        assert sorted_rows(self.table) == before
        again = self.table.optimize(kind)
        assert not again.runs, again
        later = self.table.optimize(dry_run=True)
        assert later.kind is None or kind == "minor", later

    def step(self) -> None:
        steps = [self.append, self.append, self.delete, self.upsert, self.resize, self.optimize, self.respec]
        self.dice.choice(steps)()


def at_rest(seed: int, table: Any, steps: int) -> None:
    history = History(seed, table)
    history.append()
    for _ in range(steps):
        history.step()
    history.optimize()


TABLES: dict[str, Callable[[], Any]] = {
    "v2": iceberg_table,
    "v2 by partition": lambda: iceberg_table(
        partition_by=("region",), properties={"write.delete.granularity": "partition"}
    ),
    "v3": lambda: iceberg_table(format_version=3, partition_by=("bucket(2, id)",)),
    "keyed": lambda: new_table(partition_by=("region",)),
    "unkeyed": lambda: new_table(primary_key=()),
}
NAMES = [*TABLES, "lance"]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_at_rest_plans_nothing(name: str, tmp_path: Path) -> None:
    for seed in (1, 2):
        at_rest(seed, changed(name, tmp_path / str(seed)), 12)


def changed(name: str, folder: Path) -> Any:
    if name == "lance":  # not in memory
        return new_lake(folder).create_table("db.t", SCHEMA, format="lance")
    table = TABLES[name]()
    if name == "unkeyed":
        table.upsert = lambda rows: table.base_store.upsert(rows, ["id"])
    return table


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(10, 30))
def test_a_table_at_rest_plans_nothing_for_long(name: str, seed: int, tmp_path: Path) -> None:
    at_rest(seed, changed(name, tmp_path), 40)
