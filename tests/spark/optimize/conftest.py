"""Tables of every format with a history of all kinds of changes, made twice: for Spark, and for this process."""

from __future__ import annotations

import pytest

from frazil.optimize.tasks import InProcess
from frazil.spark.optimize import native
from frazil.spark.optimize.executor import SparkExecutor
from tests.mixed.tables import row

SCHEMA = "id BIGINT NOT NULL, name STRING, region STRING"
LARGE = {"self-optimizing.target-size": "1500"}
"""Files of forty rows count as large enough, so that their deletes are converted."""
ICEBERG = {
    "v1": {"format_version": 1},
    "v2": {"format_version": 2},
    "v2 by region": {"format_version": 2, "partition_by": ["region"], "granularity": "partition"},
    "v2 large": {"format_version": 2, "properties": LARGE},
    "v3": {"format_version": 3},
    "v3 large": {"format_version": 3, "properties": LARGE},
}
MIXED = {
    "keyed": {"primary_key": ["id"]},
    "keyed by region": {"primary_key": ["id"], "partition_by": ["region"]},
    "keyed large": {"primary_key": ["id"], "properties": LARGE},
    "unkeyed": {},
}
NAMES = [*ICEBERG, *MIXED, "lance"]


@pytest.fixture
def made(lake, name):
    """Make tables of a kind that are alike."""
    numbers = iter(range(100))

    def make(kind):
        place = f"{name.removeprefix('lake.')}_{next(numbers)}"
        if kind == "lance":
            return changed(lake.create_table(place, SCHEMA, format="lance"))
        if kind in MIXED:
            return changed(lake.create_table(place, SCHEMA, format="mixed", **MIXED[kind]))
        told = dict(ICEBERG[kind])
        properties = {
            "write.delete.mode": "merge-on-read" if told["format_version"] > 1 else "copy-on-write",
            "write.delete.granularity": told.pop("granularity", "file"),
            **told.pop("properties", {}),
        }
        return changed(lake.create_table(place, SCHEMA, properties=properties, **told))

    return make


def changed(table):
    """Appends, deletes by position and by key, and updates."""
    plain = table.base_store if table.format == "mixed" and not table.is_keyed else table
    table.append([row(n, region=("eu", "us")[n % 2]) for n in range(40)])
    for start in range(40, 56, 4):
        table.append([row(n, region=("eu", "us")[n % 2]) for n in range(start, start + 4)])
    table.delete("id IN (3, 41, 55)")
    if table.format == "lance":
        table.update({"name": "'new'"}, "id IN (5, 44)")
    elif table.format == "mixed" and table.is_keyed:
        table.upsert([row(5, "new", "us"), row(44, "new", "eu"), row(100, "new")])
        table.delete_keys([{"id": 7}])
    elif plain.metadata.format_version > 1:
        keys = ["id"] if plain.spec.is_unpartitioned else ["id", "region"]
        plain.upsert([row(5, "new", "us"), row(44, "new", "eu"), row(100, "new")], keys)
        table.delete("id = 9")
    return table.refresh()


class Recording:
    """An executor that keeps what it was told to do."""

    def __init__(self, executor):
        self.executor = executor
        self.plans = []

    def execute(self, job, tasks):
        self.plans.append(sorted((shape(task) for task in tasks), key=repr))
        yield from self.executor.execute(job, tasks)


def shape(task):
    """What a task is about, without the names of files."""
    if not hasattr(task, "rewrite"):
        return [(one.physical_rows, one.rows) for one in task.plan.fragments]
    files = [
        [(file.rows, len(file.deletes), file.node, file.is_change) for file in part]
        for part in (task.rewrite, task.convert)
    ]
    return (task.partition.path, *map(sorted, files), len(task.removable), task.transaction_id)


@pytest.fixture
def on_spark(spark):
    return Recording(SparkExecutor(spark))


@pytest.fixture
def here():
    return Recording(InProcess())


@pytest.fixture(params=["workers", "native"])
def way(request, monkeypatch):
    """Small tasks go to workers, large ones to Spark's writer: all of them by either."""
    monkeypatch.setattr(native, "MANY_FILES", 1 if request.param == "native" else 10**9)
    return request.param


def rows_of(table):
    """Rows, with their ids where they have any."""
    columns = None
    if table.format == "iceberg" and table.metadata.format_version >= 3:
        columns = ["id", "name", "region", "_row_id", "_last_updated_sequence_number"]
    return sorted(table.refresh().scan(columns=columns).to_arrow().to_pylist(), key=repr)
