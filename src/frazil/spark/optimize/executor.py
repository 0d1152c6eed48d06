"""Optimizing carried out on Spark: many small tasks by workers together, large ones of Iceberg tables one by one.

Files are written where Spark runs; planning and commits stay in this process, as for any executor. Who ends it before
it is done (Ctrl-C, an error) ends its Spark jobs, and what they wrote is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from frazil import ambient
from frazil.io import location as locations
from frazil.optimize.rewrites import TaskFiles
from frazil.optimize.tasks import Done, InProcess, Job, Task, Written
from frazil.optimize.unkeyed import UnkeyedJob
from frazil.spark.changes.builder import any_bridge
from frazil.spark.optimize.native import NativeRewrites, is_large
from frazil.spark.optimize.workers import Numbered, Workers, was_cancelled
from frazil.spark.progress import progress_of
from frazil.spark.scan.files import routed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.bridge import Bridge

_MOST_JOBS = 16
"""Spark jobs at a time."""
_JOB_BYTES = 512 << 20
_PAUSE = 0.1
_TASK_COST = 1 << 20
"""What a task counts for, besides its bytes."""

Unit = Callable[[], list[Done[Any]]]


class SparkExecutor:
    """Carries out tasks on a session of Spark."""

    def __init__(self, spark: SparkSession, bridge: Bridge | None = None) -> None:
        self._spark = spark
        self._bridge = any_bridge(spark) if bridge is None else bridge

    def execute(self, job: Job[Task, Written], tasks: Sequence[Task]) -> Generator[Done[Written], None, None]:
        store, place = job.place
        if locations.parse(routed(store, place)).scheme == "memory":  # which no other process has
            yield from InProcess().execute(job, tasks)
        elif tasks:
            yield from _Run(self._spark, self._bridge, job, tasks).ended()


class _Run:
    """The tasks of one job on their way."""

    def __init__(self, spark: SparkSession, bridge: Bridge, job: Job[Any, Any], tasks: Sequence[Any]) -> None:
        self._spark = spark
        self._tasks = tasks
        self._far = job.elsewhere()
        self._workers = Workers(spark, self._far)
        self._native = None
        if isinstance(job, UnkeyedJob) and not job.is_mixed:
            self._native = NativeRewrites(bridge, spark, job)

    def ended(self) -> Generator[Done[Any], None, None]:
        """Tasks as they end."""
        tag = f"frazil-optimize-{ambient.new_uuid()}"
        units = self._units()
        pool = ThreadPoolExecutor(min(len(units), _MOST_JOBS), "frazil-optimize")
        running = [pool.submit(self._tagged, unit, tag) for unit in units]
        told: list[Any] = []
        is_whole = False
        try:
            with progress_of(self._spark, "optimizing", len(self._tasks)) as progress:
                for outcome in as_completed(running):
                    for done in outcome.result():
                        told += [] if done.written is None else [done.written]
                        progress.step()
                        yield done
            is_whole = True
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(outcome.done() for outcome in running):  # a job may begin after others were cancelled
                self._cancel(tag)
                ambient.sleep(_PAUSE)
            if not is_whole or self._workers.lost:
                self._clear(told)

    def _units(self) -> list[Unit]:
        """What is done by one thread of this process each."""
        large: list[Numbered] = []
        small: list[Numbered] = []
        for one in enumerate(self._tasks):
            (large if self._native is not None and is_large(one[1]) else small).append(one)
        small.sort(key=self._cost, reverse=True)
        count = min(len(small), _MOST_JOBS, max(1, sum(map(self._cost, small)) // _JOB_BYTES))
        groups = [small[start::count] for start in range(count)]
        return [*(partial(self._rewrite, one) for one in large), *(partial(self._workers.run, one) for one in groups)]

    def _cost(self, one: Numbered) -> int:
        return self._far.size(one[1]) + _TASK_COST

    def _rewrite(self, one: Numbered) -> list[Done[Any]]:
        """A large task: its files by Spark, deletes to be converted by a worker."""
        number, task = one
        assert self._native is not None
        try:
            data = tuple(self._native.rewrite(task))
        except Exception as error:
            if was_cancelled(error):
                raise
            return [Done(number, error=error)]
        if not task.convert:
            return [Done(number, TaskFiles(data))]
        (rest,) = self._workers.run([(number, replace(task, rewrite=()))])
        if rest.written is None:
            self._far.take_back([TaskFiles(data)])
            return [rest]
        return [Done(number, TaskFiles(data, rest.written.deletes))]

    def _tagged(self, unit: Unit, tag: str) -> list[Done[Any]]:
        context = self._spark.sparkContext
        context.addJobTag(tag)
        try:
            return unit()
        finally:
            context.removeJobTag(tag)

    def _cancel(self, tag: str) -> None:
        from py4j.protocol import Py4JError

        with suppress(Py4JError, OSError):  # the JVM may be gone
            self._spark.sparkContext.cancelJobsWithTag(tag)

    def _clear(self, kept: Sequence[Any]) -> None:
        self._far.clear(self._tasks, kept)
        if self._native is not None:
            self._native.clear(kept)
