"""A dictionary is the model: whatever is done to a keyed table, every way of reading agrees with it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from frazil.mixed.transactions import abandon_transaction
from frazil.optimize.change_expiry import expire_changes
from frazil.optimize.keyed import optimize_keyed
from frazil.optimize.settings import Settings
from tests.mixed.tables import new_table, row, rows_of
from tests.mixed.test_write import new_view

KEYS = range(14)
REGIONS = ["eu", "us", None]
FAR = 10**15


class Modelled:
    """A table, and what it should hold."""

    def __init__(self, seed: int, partition_by: tuple[str, ...]) -> None:
        self.random = random.Random(seed)
        self.table = new_table(partition_by=partition_by)
        self.rows: dict[int, dict[str, Any]] = {}
        self.past: list[tuple[int, list[dict[str, Any]]]] = []

    def some_row(self, key: int) -> dict[str, Any]:
        return row(key, self.random.choice("abcdef"), self.random.choice(REGIONS))

    def some_keys(self, most: int = 5) -> list[int]:
        return self.random.sample(KEYS, self.random.randint(1, most))

    def upsert(self) -> None:
        given = [self.some_row(key) for key in self.some_keys()]
        self.table.upsert(given)
        self.rows.update({one["id"]: one for one in given})

    def append(self) -> None:
        new = [self.some_row(key) for key in self.some_keys() if key not in self.rows]
        if new:
            self.table.append(new)
            self.rows.update({one["id"]: one for one in new})

    def delete(self) -> None:
        name = self.random.choice("abcdef")
        self.table.delete(f"name = '{name}' AND id > 3")
        self.rows = {key: one for key, one in self.rows.items() if not (one["name"] == name and key > 3)}

    def delete_keys(self) -> None:
        keys = self.some_keys(3)
        self.table.delete_keys([{"id": key} for key in keys])
        self.rows = {key: one for key, one in self.rows.items() if key not in keys}

    def as_told(self, gone: dict[str, Any]) -> dict[str, Any]:
        """A row that goes: as it was, or its key alone, as most tools tell it."""
        return gone if self.random.random() < 0.5 else {"id": gone["id"], "name": None, "region": None}

    def ingest(self) -> None:
        told: list[dict[str, Any]] = []
        for _ in range(self.random.randint(1, 8)):
            key = self.random.choice(KEYS)
            old, new = self.rows.get(key), self.some_row(key)
            if old is None:
                told.append({"op": "insert", **new})
                self.rows[key] = new
            elif self.random.random() < 0.4:
                told.append({"op": "delete", **self.as_told(old)})
                del self.rows[key]
            elif self.random.random() < 0.3:
                told.append({"op": "update", **new})
                self.rows[key] = new
            else:
                told += [{"op": "update_before", **old}, {"op": "update_after", **new}]
                self.rows[key] = new
        self.table.ingest(told)

    def overwrite_partitions(self) -> None:
        new = {key: self.some_row(key) for key in self.some_keys(3)}
        partitions = {self.partition_of(one) for one in new.values()}
        stays = {key: one for key, one in self.rows.items() if self.partition_of(one) not in partitions}
        if not stays.keys() & new.keys():  # else there would be two rows of a key
            self.table.overwrite_partitions(list(new.values()))
            self.rows = {**stays, **new}

    def partition_of(self, one: dict[str, Any]) -> tuple[Any, ...]:
        schema = self.table.schema
        sources = [(part.transform, schema.field_by_id(part.source_id)) for part in self.table.spec.fields]
        return tuple(transform.apply(column.type, one[column.name]) for transform, column in sources if column)

    def overwrite(self) -> None:
        region = self.random.choice(["eu", "us"])
        new = {key: row(key, "z", region) for key in self.some_keys(2)}
        stays = {key: one for key, one in self.rows.items() if one["region"] != region and key not in new}
        gone = [key for key in new if key in self.rows and self.rows[key]["region"] != region]
        if gone:
            self.table.delete_keys([{"id": key} for key in gone])
        self.table.overwrite(list(new.values()), f"region = '{region}'")
        self.rows = {**stays, **new}

    def truncate(self) -> None:
        self.table.truncate()
        self.rows = {}

    def restart(self) -> None:
        self.table = new_view(self.table)

    def optimize(self) -> None:
        """Of any kind, with files that count as small or large; then nothing is left to do."""
        small = Settings.of(self.table.base_store.properties)
        settings = replace(
            small,
            minor_interval_ms=0,
            target_size=self.random.choice([small.target_size, 1000]),
            full_interval_ms=self.random.choice([-1, -1, 0]),
        )
        for _ in range(6):
            if not optimize_keyed(self.table, settings):
                break
        else:
            raise AssertionError("optimizing does not come to an end")

    def expire_changes(self) -> None:
        expire_changes(self.table, older_than_ms=FAR)

    def sort(self) -> None:
        """Lay the rows in an order, or along a curve."""
        self.table.optimize("full", sort_by=self.random.choice(["name DESC, id", "zorder(id, name)"]), upkeep=False)

    def expire_snapshots(self) -> None:
        """What was is forgotten, in one store or in both; what is stays."""
        stores = [self.table.base_store, self.table._change_store]
        for store in self.random.sample(stores, self.random.randint(1, 2)):
            store.refresh().expire_snapshots().older_than(FAR).retain_last(self.random.randint(1, 2)).commit()
        self.table.refresh()
        self.past = []

    def rebucket(self) -> None:
        count = self.random.choice([1, 2, 4, 8])
        self.table.update_properties().set("change.file-index.hash-bucket", count).commit()

    def half_a_transaction(self) -> None:
        """A writer begins and never comes back."""
        lost = self.table.begin_transaction("lost")
        self.table.refresh()
        if self.random.random() < 0.7:  # else nothing later is optimized until its time is up
            abandon_transaction(self.table.base_store, self.table._change_store, lost)
            self.table.refresh()

    def step(self) -> None:
        steps = [self.upsert, self.append, self.delete, self.delete_keys, self.ingest, self.ingest, self.overwrite]
        steps += [self.overwrite_partitions, self.restart, self.rebucket, self.half_a_transaction]
        steps += [self.optimize, self.optimize, self.sort, self.expire_changes, self.expire_snapshots]
        self.random.choice([*steps, self.truncate] if self.random.random() < 0.2 else steps)()

    def check(self) -> None:
        wanted = sorted(self.rows.values(), key=repr)
        assert rows_of(self.table) == wanted
        assert rows_of(new_view(self.table)) == wanted
        key, name = self.random.choice(KEYS), self.random.choice("abc")
        for where, test in (
            (f"id = {key}", lambda one: one["id"] == key),
            (f"name > '{name}'", lambda one: one["name"] > name),
            ("region = 'eu'", lambda one: one["region"] == "eu"),
            ("region IS NULL", lambda one: one["region"] is None),
        ):
            found = sorted(self.table.scan(where).to_arrow().to_pylist(), key=repr)
            assert found == [one for one in wanted if test(one)]
        pair = self.table.current_snapshot
        newest = max((one for one in (pair.base, pair.change) if one), key=lambda one: one.timestamp_ms, default=None)
        if newest is not None and pair.timestamp_ms == newest.timestamp_ms:
            self.past.append((newest.snapshot_id, wanted))

    def check_past(self) -> None:
        for snapshot, rows in self.random.sample(self.past, min(5, len(self.past))):
            assert rows_of(self.table, version=snapshot) == rows


PARTITIONINGS = [(), ("bucket(3, id)",), ("region",), ("region", "bucket(2, id)")]


def agrees(seed: int, partition_by: tuple[str, ...], steps: int) -> None:
    modelled = Modelled(seed, partition_by)
    for _ in range(steps):
        modelled.step()
        modelled.check()
    modelled.check_past()


@pytest.mark.parametrize("partition_by", PARTITIONINGS)
def test_a_table_agrees_with_a_dictionary(partition_by: tuple[str, ...]) -> None:
    agrees(1, partition_by, 12)


@pytest.mark.slow
@pytest.mark.parametrize("partition_by", PARTITIONINGS)
@pytest.mark.parametrize("seed", range(2, 8))
def test_a_table_agrees_with_a_dictionary_for_long(seed: int, partition_by: tuple[str, ...]) -> None:
    agrees(seed, partition_by, 40)
