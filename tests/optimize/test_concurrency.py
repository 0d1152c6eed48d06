"""Writers and optimizers on one table at the same time: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import frazil
from frazil.errors import CommitConflict, CommitFailed
from frazil.optimize.change_expiry import expire_changes
from frazil.optimize.keyed import optimize_keyed
from frazil.optimize.settings import Settings
from tests.mixed.tables import new_table, row, rows_of

PATIENT = {"commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "20"}
SETTINGS = replace(Settings(), minor_interval_ms=0, minor_files=2)
KEYS = range(12)


def write(folder: str, keys: list[int], seed: int, rounds: int) -> dict[int, dict[str, Any]]:
    """One writer, of keys of its own: what they should be at the end."""
    table: Any = frazil.open(folder)
    dice = random.Random(seed)
    rows: dict[int, dict[str, Any]] = {}
    for number in range(rounds):
        chosen = dice.sample(keys, 2)
        try:
            if dice.random() < 0.25:
                table.delete_keys([{"id": key} for key in chosen])
                rows = {key: one for key, one in rows.items() if key not in chosen}
            else:
                new = {key: row(key, f"{seed}/{number}", dice.choice(["eu", "us"])) for key in chosen}
                table.upsert(list(new.values()), batch_id=f"{seed}/{number}")
                rows.update(new)
        except (CommitConflict, CommitFailed):
            continue  # definitely not written: the model does not have it either
    return rows


def optimize(folder: str, done: Event, *, expires: bool) -> int:
    table: Any = frazil.open(folder)
    runs = 0
    while not done.is_set():
        try:
            runs += bool(optimize_keyed(table, SETTINGS))
            if expires:
                expire_changes(table, older_than_ms=10**15)
        except (CommitConflict, CommitFailed):
            continue
    return runs


def read(folder: str, done: Event) -> None:
    """Every look at the table is one of a state it had: no key is there twice."""
    table: Any = frazil.open(folder)
    while not done.is_set():
        ids = [one["id"] for one in table.refresh().scan().to_arrow().to_pylist()]
        assert len(ids) == len(set(ids)), ids


def soak(folder: str, rounds: int, partition_by: tuple[str, ...] = ()) -> None:
    new_table(folder=folder, properties=PATIENT, partition_by=partition_by)
    done = Event()
    with ThreadPoolExecutor(5) as pool:
        upkeep = [pool.submit(optimize, folder, done, expires=expires) for expires in (False, True)]
        reader = pool.submit(read, folder, done)
        writers = [pool.submit(write, folder, list(KEYS)[start::2], start, rounds) for start in (0, 1)]
        try:
            wanted = {key: one for writer in writers for key, one in writer.result().items()}
        finally:
            done.set()
        assert sum(one.result() for one in upkeep) > 0
        reader.result()
    table: Any = frazil.open(folder)
    assert rows_of(table) == sorted(wanted.values(), key=repr)
    while optimize_keyed(table, SETTINGS):
        pass
    assert rows_of(table) == sorted(wanted.values(), key=repr)


def test_two_optimizers_two_writers_and_a_reader(tmp_path: Path) -> None:
    soak(str(tmp_path / "db/t"), 8)


@pytest.mark.slow
@pytest.mark.parametrize("partition_by", [(), ("bucket(2, id)",)])
def test_two_optimizers_two_writers_and_a_reader_for_long(tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    soak(str(tmp_path / "db/t"), 60, partition_by)


@pytest.mark.slow
@pytest.mark.parametrize("partition_by", [(), ("region",)])
def test_processes_that_are_killed_lose_nothing(tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    from tests.optimize.soak import soak as soak_processes

    assert "commits" in soak_processes(str(tmp_path / "db/t"), 20, partition_by)
