"""Optimizers on Spark beside writers and beside each other: nothing is lost, nothing comes twice."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from frazil.errors import CommitConflict, CommitFailed
from tests.mixed.tables import row
from tests.spark.optimize.conftest import SCHEMA, rows_of

PATIENT = {"commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "20"}
FORMATS = {
    "v2": {"properties": {**PATIENT, "write.delete.mode": "merge-on-read"}},
    "v3": {"properties": {**PATIENT, "write.delete.mode": "merge-on-read"}, "format_version": 3},
    "keyed": {"format": "mixed", "primary_key": ["id"], "properties": PATIENT},
    "lance": {"format": "lance"},
}


@pytest.mark.parametrize("kind", FORMATS)
def test_two_optimizers_and_a_writer(spark, lake, name, kind):
    place = name.removeprefix("lake.")
    table = lake.create_table(place, SCHEMA, **FORMATS[kind])
    table.append([row(number, "first") for number in range(40)])
    done = Event()
    with ThreadPoolExecutor(3) as pool:
        optimizers = [pool.submit(optimize, lake, place, spark, done) for _ in range(2)]
        try:
            wanted = write(table, kind)
        finally:
            done.set()
        assert sum(one.result() for one in optimizers) > 0
    rows = sorted(wanted.values(), key=repr)
    plain = [{key: one[key] for key in ("id", "name", "region")} for one in rows_of(table)]
    assert sorted(plain, key=repr) == rows
    while table.optimize("minor", spark=spark).runs:
        pass
    plain = [{key: one[key] for key in ("id", "name", "region")} for one in rows_of(table)]
    assert sorted(plain, key=repr) == rows


def write(table, kind):
    """Change rows; what they should be."""
    dice = random.Random(kind)
    rows = {number: row(number, "first") for number in range(40)}
    for step in range(12):
        keys = dice.sample(range(50), 4)
        new = [row(key, f"{step}") for key in keys]
        try:
            if step % 3 == 2:
                table.delete(f"id IN ({', '.join(map(str, keys))})")
                new = []
            elif kind == "keyed":
                table.upsert(new)
            elif kind == "lance":
                new = [row(1000 + 10 * step + number, f"{step}") for number in range(4)]
                table.append(new)
            else:
                table.upsert(new, ["id"])
        except (CommitConflict, CommitFailed):
            table.refresh()
            continue  # definitely not written
        if kind != "lance" or step % 3 == 2:
            for key in keys:
                rows.pop(key, None)
        rows.update({one["id"]: one for one in new})
    return rows


def optimize(lake, place, spark, done):
    table, runs = lake.table(place), 0
    while not done.is_set():
        runs += len(table.optimize("minor", spark=spark).runs)
    return runs


def test_the_optimizer_does_not_go_past_a_transaction_that_has_begun(spark, sql, lake, name):
    place = name.removeprefix("lake.")
    table = lake.create_table(place, SCHEMA, format="mixed", primary_key=["id"])
    table.append([row(number) for number in range(8)])
    begun = table.begin_transaction()
    table.upsert([row(1, "later")])
    before = rows_of(table)
    sql(f"CALL lake.system.optimize(table => '{place}', kind => 'minor')")
    table.refresh()
    (moved,) = table.optimized.sequence.values()
    assert moved < begun
    assert rows_of(table) == before
    assert not table.optimize("minor", spark=spark).runs


def test_rows_deleted_while_tasks_run_stay_deleted(spark, lake, name, monkeypatch):
    """Who comes second plans again."""
    from frazil.spark.optimize.executor import SparkExecutor

    place = name.removeprefix("lake.")
    table = lake.create_table(place, SCHEMA, properties={"write.delete.mode": "merge-on-read"})
    for number in range(4):
        table.append([row(number), row(10 + number)])
    execute = SparkExecutor.execute
    others = iter(["id = 2"])

    def late(self, job, tasks):
        yield from execute(self, job, tasks)
        for where in others:
            lake.table(place).delete(where)

    monkeypatch.setattr(SparkExecutor, "execute", late)
    result = table.optimize("minor", spark=spark)
    assert (len(result.runs), result.problems) == (1, ())
    assert {one["id"] for one in rows_of(table)} == {0, 1, 3, 10, 11, 12, 13}
    referenced = {path for one in table.snapshots for path in table.scan(version=one.snapshot_id).plan().file_paths}
    assert {str(path) for path in Path(table.location).rglob("*.parquet") if "-deletes" not in path.name} <= referenced
