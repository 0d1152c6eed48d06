"""Whatever was done to a table, optimizing keeps its rows and comes to an end: a table at rest plans nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from frazil.iceberg.write import RowWriter
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

    def reorder(self) -> None:
        """From now on rows are to be in another order, or along a curve."""
        if self.table.format != "lance":
            order = self.dice.choice(["name", "name DESC, id", "zorder(id, name)"])
            self.table.update_properties().set("self-optimizing.sort-order", order).commit()

    def regrow(self) -> None:
        """From now on the base store has other buckets."""
        if self.table.format == "mixed":
            buckets = self.dice.choice(["1", "2", "8"])
            self.table.update_properties().set("base.file-index.hash-bucket", buckets).commit()

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
        rows = [self.append, self.append, self.append, self.delete, self.upsert]
        ways = [self.resize, self.respec, self.reorder, self.regrow]
        self.dice.choice([*rows, *ways, self.optimize, self.optimize])()


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


COMPRESSIBLE = "id BIGINT NOT NULL, a STRING, b BIGINT"


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("order", [None, "b, id", "zorder(a, id)"])
@pytest.mark.parametrize("key", [None, ["id"], []])
def test_rows_that_become_small_in_files_come_to_rest_at_any_target(
    key: list[str] | None, order: str | None, file_format: str, tmp_path: Path
) -> None:
    how: dict[str, Any] = {} if key is None else {"format": "mixed", "primary_key": key}
    formats = ("write.format.default", "base.write.format", "change.write.format")
    target = 100_000
    table: Any = new_lake(tmp_path).create_table(
        "db.t",
        COMPRESSIBLE,
        properties={
            "self-optimizing.target-size": target,
            **({} if order is None else {"self-optimizing.sort-order": order}),
            **dict.fromkeys(formats, file_format),
        },
        **how,
    )
    for part in range(6):
        ids = np.random.default_rng(part).permutation(20_000) * 6 + part
        rows = pa.table({"id": ids, "a": pa.array(["x" * 30] * len(ids)), "b": np.zeros(len(ids), np.int64)})
        table.append(rows)
    for kind in (None, "minor", "major", "full"):
        result = table.optimize(kind, upkeep=False)
        assert len(result.runs) <= 3, result
        for again in (kind, None):
            assert not table.optimize(again, upkeep=False).runs, (kind, again)
    store = table if key is None else table.base_store
    sizes = sorted(task.file.file_size_in_bytes for task in store.scan().plan().tasks())
    assert max(sizes) < 3 * target
    assert sum(sizes) / len(sizes) > 0.4 * target or len(sizes) == (4 if key else 1), sizes
    assert table.scan().count() == 120_000


def test_a_run_that_gains_nothing_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keeps files from becoming as large as they should be."""
    table = iceberg_table(properties={"self-optimizing.target-size": "1000000"})
    for number in range(6):
        table.append([row(number)])

    class Short(RowWriter):
        def _write(self, values: Any, rows: Any) -> None:
            super()._write(values, rows)
            self._close()

    monkeypatch.setattr("frazil.optimize.unkeyed.RowWriter", Short)
    result = table.optimize("minor", upkeep=False)
    assert [run.data_files_removed for run in result.runs] == [6]
    for kind in KINDS:
        assert not table.optimize(kind, upkeep=False).runs  # nor is it tried again later
    table.append([row(7)])
    assert table.optimize("minor", upkeep=False).runs  # but with more files it is
    table.update_properties().set("self-optimizing.target-size", "2000000").commit()
    assert table.optimize("minor", upkeep=False).runs  # and for another size
    assert table.scan().count() == 7


@pytest.mark.parametrize(("base", "change"), [(1, 4), (2, 8), (4, 4), (4, 1)])
def test_one_call_lays_rows_of_a_keyed_table_along_a_curve_whatever_its_buckets_are(base: int, change: int) -> None:
    properties = {"base.file-index.hash-bucket": str(base), "change.file-index.hash-bucket": str(change)}
    table = new_table(properties=properties)
    for part in range(3):
        table.append([row(number, f"{number % 7}") for number in range(part * 40, part * 40 + 40)])
    before = sorted_rows(table)
    assert len(table.optimize(sort_by="zorder(id, name)").runs) == 1
    assert len(list(table.base_store.scan().plan().tasks())) == base
    assert sorted_rows(table) == before
    assert not table.optimize("full").runs


@pytest.mark.parametrize("kind", ["minor", "full"])
def test_files_of_more_buckets_than_there_are_now_become_one(kind: str) -> None:
    table = new_table(properties={"base.file-index.hash-bucket": "8"})
    table.append([row(number) for number in range(100)])
    table.optimize("minor")
    assert len(list(table.base_store.scan().plan().tasks())) == 8
    table.update_properties().set("base.file-index.hash-bucket", "2").commit()
    before = sorted_rows(table)
    result = table.optimize(kind)
    assert [(run.data_files_removed, run.data_files_added) for run in result.runs] == [(8, 2)]
    assert sorted_rows(table) == before
    assert not table.optimize(kind).runs
