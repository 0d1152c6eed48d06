"""Tasks that fail, workers that die, programs that are interrupted or killed: the table is whole, no file is left."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from pyspark import cloudpickle

import frazil
from frazil.errors import StoreError
from frazil.optimize.lance_tables import CompactionJob
from frazil.optimize.tasks import Job
from frazil.spark.optimize import native
from frazil.spark.optimize.executor import SparkExecutor
from tests.mixed.tables import row
from tests.spark.optimize.conftest import SCHEMA, rows_of
from tests.spark.programs import SMALL, start

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Wrapped(Job):
    """A job of which tasks with a certain row fail, in the worker."""

    def __init__(self, job, how):
        self.job, self.how = job, how

    def run(self, task):
        if self.is_meant(task):
            if self.how == "dies":
                self.job.run(task)  # what it wrote stays
                os._exit(9)
            raise ValueError("no room")
        return self.job.run(task)

    def is_meant(self, task):
        if hasattr(task, "rewrite"):
            return task.partition.path == "region=us"
        return any(one.rows == 3 for one in task.plan.fragments)

    place = property(lambda self: self.job.place)

    def size(self, task):
        return self.job.size(task)

    def take_back(self, written):
        self.job.take_back(written)

    def elsewhere(self):
        return Wrapped(self.job.elsewhere(), self.how)

    def light(self, task):
        return self.job.light(task)

    def clear(self, tasks, kept=()):
        self.job.clear(tasks, kept)


class Failing:
    """Spark, with tasks that fail."""

    def __init__(self, spark, how):
        self.executor, self.how = SparkExecutor(spark), how

    def execute(self, job, tasks):
        yield from self.executor.execute(Wrapped(job, self.how), tasks)


@pytest.fixture
def table_of(lake, name):
    def make(kind):
        told = {
            "v2": {"partition_by": ["region"]},
            "keyed": {"partition_by": ["region"], "format": "mixed", "primary_key": ["id"]},
            "unkeyed": {"partition_by": ["region"], "format": "mixed"},
        }[kind]
        table = lake.create_table(name.removeprefix("lake."), SCHEMA, **told)
        for number in range(4):
            table.append([row(10 * number + more, region=("eu", "us", "ap")[more % 3]) for more in range(6)])
        return table

    return make


def disk(table):
    return {path for path in Path(table.location).rglob("*") if path.suffix in (".parquet", ".lance")}


def live(table):
    stores = [table] if table.format == "iceberg" else [table.base_store, table.change_store]
    return {path for store in stores if store is not None for path in store.scan().plan().file_paths}


@pytest.mark.parametrize("how", ["raises", "dies"])
@pytest.mark.parametrize("kind", ["v2", "keyed", "unkeyed"])
def test_a_task_that_fails_fails_alone(spark, table_of, kind, how):
    table = table_of(kind)
    before, files = rows_of(table), disk(table)
    result = table.optimize("minor", executor=Failing(spark, how), upkeep=False)
    assert len(result.runs) == 1
    assert result.problems
    assert all(("no room" if how == "raises" else "gave no answer") in problem for problem in result.problems)
    assert rows_of(table) == before
    new = disk(table) - files
    assert {str(path) for path in new} <= live(table), "files of tasks that failed are gone"
    assert not any("region=us" in str(path) for path in new)
    assert table.optimize("minor", spark=spark).runs
    assert rows_of(table) == before
    assert not table.optimize("minor", spark=spark).runs


@pytest.mark.parametrize("how", ["raises", "dies"])
def test_a_group_of_fragments_that_fails_fails_alone(spark, lake, name, how):
    table = lake.create_table(name.removeprefix("lake."), SCHEMA, format="lance")
    for rows in (2, 2, 3, 3):
        table.append([row(number) for number in range(rows)])
    before = rows_of(table)
    groups = table.plan_compaction(target_rows=4).groups
    assert [[one.rows for one in group.plan.fragments] for group in groups] == [[2, 2], [3, 3]]
    job = CompactionJob(table.store, groups[0].target)
    done = list(SparkExecutor(spark).execute(Wrapped(job, how), groups))
    assert sorted((one.number, one.error is None) for one in done) == [(0, True), (1, False)]
    assert rows_of(table) == before
    job.take_back([one.written for one in done if one.written is not None])
    left = {path.name for path in disk(table)}
    assert left == {file.path for fragment in table.current_snapshot.manifest.fragments for file in fragment.files}


def test_spark_tasks_that_fail_in_the_writer_fail_alone(spark, table_of, monkeypatch):
    monkeypatch.setattr(native, "MANY_FILES", 1)
    write = native.write_files

    def failing(bridge, job, rows, transforms):
        files = write(bridge, job, rows, transforms)
        if any(file.partition == ("us",) for file in files):
            raise StoreError("no room", hint="make some")
        return files

    monkeypatch.setattr(native, "write_files", failing)
    table = table_of("v2")
    before, files = rows_of(table), disk(table)
    result = table.optimize("minor", spark=spark)
    assert "no room" in result.problems[0]
    assert rows_of(table) == before
    assert {str(path) for path in disk(table) - files} <= live(table)


def test_if_all_fail_it_is_an_error_and_nothing_is_left(spark, table_of, monkeypatch):
    table = table_of("v2")
    files = disk(table)
    monkeypatch.setattr(Wrapped, "is_meant", lambda self, task: True)
    with pytest.raises(StoreError, match="ValueError: no room"):
        table.optimize("minor", executor=Failing(spark, "raises"))
    assert disk(table) == files


_PROGRAM = f"""
import sys, threading, time
import frazil
from pyspark.sql import SparkSession
from frazil.spark.session import find_java
find_java()
builder = SparkSession.builder.master("local[2]")
for key, text in {SMALL}.items():
    builder = builder.config(key, text)
spark = builder.getOrCreate()
lake = frazil.connect(sys.argv[1])
lake.attach(spark)
tracker = spark.sparkContext.statusTracker()

def tell(name):
    while not tracker.getActiveJobsIds():
        time.sleep(0.02)
    print("running", name, flush=True)

for name in sys.argv[2:]:
    for way in ("python", "sql"):
        teller = threading.Thread(target=tell, args=(name,), daemon=True)
        teller.start()
        try:
            if way == "python":
                lake.table(name).optimize("minor", spark=spark)
            else:
                spark.sql(f"CALL lake.system.optimize(table => '{{name}}', kind => 'minor')").collect()
            print("not interrupted", flush=True)
        except KeyboardInterrupt:
            print("interrupted", name, way, flush=True)
        teller.join()
    print("rows", name, spark.range(7).count(), flush=True)
print("done", flush=True)
spark.stop()
"""
KINDS = {"v2": {}, "keyed": {"format": "mixed", "primary_key": ["id"]}, "lance": {"format": "lance"}}


@pytest.fixture
def tables(tmp_path):
    """Tables in a folder, of many small files, and their rows."""
    lake = frazil.connect(tmp_path / "lake")
    for kind, told in KINDS.items():
        by = {} if kind == "lance" else {"partition_by": ["bucket(16, id)"]}
        table = lake.create_table(f"db.{kind}", SCHEMA, **by, **told)
        for start_ in range(0, 400, 100):
            table.append([row(start_ + number) for number in range(100)])
        if kind == "keyed":
            table.upsert([row(number, "new") for number in range(0, 400, 7)])
        else:
            table.delete("id IN (7, 14, 21)")
    return lake


def names(lake):
    return [f"db.{kind}" for kind in KINDS]


def test_ctrl_c_leaves_the_table_no_files_and_a_session_that_works(tables, tmp_path):
    before = {name: (rows_of(tables.table(name)), disk(tables.table(name))) for name in names(tables)}
    program = start(_PROGRAM, str(tmp_path / "lake"), *names(tables))
    watchdog = threading.Timer(240, program.kill)
    watchdog.start()
    told = []
    try:
        for line in program.stdout:
            told.append(line.strip())
            if line.startswith("running"):
                program.send_signal(signal.SIGINT)
        program.wait()
    finally:
        watchdog.cancel()
        program.kill()
        program.wait()
    assert program.returncode == 0, told
    for name, (rows, files) in before.items():
        assert f"interrupted {name} python" in told, told
        assert f"interrupted {name} sql" in told, told
        assert f"rows {name} 7" in told, told
        table = tables.table(name)
        assert rows_of(table) == rows
        assert disk(table) == files
        assert table.optimize("minor").runs


@pytest.mark.parametrize("seconds", [0.5, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.0, 1.0, 1.6, 3.0))])
def test_a_program_that_is_killed_leaves_the_table_whole(tables, tmp_path, seconds):
    before = {name: rows_of(tables.table(name)) for name in names(tables)}
    program = start(_PROGRAM, str(tmp_path / "lake"), *names(tables))
    watchdog = threading.Timer(240, program.kill)
    watchdog.start()
    try:
        for line in program.stdout:
            if line.startswith("running"):
                break
        threading.Event().wait(seconds)
        program.send_signal(signal.SIGKILL)
        program.wait()
    finally:
        watchdog.cancel()
        program.kill()
        program.wait()
    for name, rows in before.items():
        table = tables.table(name)
        assert rows_of(table) == rows
        table.optimize("minor")
        assert rows_of(table) == rows
        assert not table.optimize("minor").runs
