"""Optimizing on Spark does what it does in one process: the same plans, the same rows, and then rest."""

from __future__ import annotations

import io
import sys

import pytest

from tests.optimize.test_rest import KINDS, History
from tests.spark.optimize.conftest import ICEBERG, NAMES, rows_of


def ways():
    """Every kind of table by workers, and those that can by Spark's own writer."""
    return [(name, way) for name in NAMES for way in ("workers", "native") if way == "workers" or name in ICEBERG]


@pytest.mark.parametrize(("name_of", "way"), ways(), indirect=["way"])
@pytest.mark.parametrize("kind", ["minor", "full"])
def test_rows_stay_as_they_are_and_plans_are_those_of_one_process(made, on_spark, here, name_of, way, kind):
    table, twin = made(name_of), made(name_of)
    before = rows_of(table)
    done = table.optimize(kind, executor=on_spark)
    wanted = twin.optimize(kind, executor=here)
    assert done.runs
    assert on_spark.plans == here.plans
    assert [one.kind for one in done.runs] == [one.kind for one in wanted.runs]
    if way == "workers" or "large" not in name_of:  # of tiny files Spark's writer cannot tell how large they become
        assert [one.counts() for one in done.runs] == [one.counts() for one in wanted.runs]
    assert rows_of(table) == before
    for again in (kind, "minor", "full"):
        if kind == "minor" and again == "full":
            continue  # a full one would get rid of deletes
        assert not table.optimize(again).runs, "a table at rest plans nothing"
    assert not table.optimize(dry_run=True).planned


@pytest.mark.smoke
@pytest.mark.parametrize("name_of", ["v3", "v2 large", "keyed large", "unkeyed", "lance"])
def test_the_session_does_it(spark, made, name_of):
    table = made(name_of)
    before = rows_of(table)
    assert table.optimize("minor", spark=spark).runs
    assert rows_of(table) == before
    assert not table.optimize("minor", spark=spark).runs


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_where_somebody_looks(spark, made, monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr("frazil.progress._AFTER", 0)
    tasks = made("keyed by region").optimize("minor", spark=spark).runs[0].plan.tasks
    assert len(tasks) > 1
    assert f"optimizing [{'=' * 30}] {len(tasks)}/{len(tasks)}" in shown.getvalue()


class OnSpark(History):
    """Random changes of a table, which is optimized on Spark."""

    def __init__(self, seed, table, spark):
        super().__init__(seed, table)
        self.spark = spark

    def optimize(self):
        before, kind = rows_of(self.table), self.dice.choice(KINDS)
        result = self.table.optimize(kind, spark=self.spark)
        assert len(result.runs) < 10, "optimizing does not come to an end"
        assert not result.problems
        assert rows_of(self.table) == before
        assert not self.table.optimize(kind).runs, "a table at rest plans nothing"


@pytest.mark.slow
@pytest.mark.parametrize("name_of", ["v1", "v2", "v2 by region", "v3", "keyed by region", "lance"])
@pytest.mark.parametrize("way", ["workers", "native"], indirect=True)
def test_random_histories_come_to_rest(spark, made, name_of, way):
    if way == "native" and name_of not in ICEBERG:
        pytest.skip("by workers only")
    for seed in (1, 2):
        history = OnSpark(seed, made(name_of), spark)
        if name_of == "v1":
            history.upsert = history.append
        history.next = 200
        for _ in range(10):
            history.step()
        history.optimize()
