"""Tasks of optimizing that Python workers carry out with the kernel's own readers and writers.

A worker answers with what a task wrote, or with the error that it failed by: others of the same Spark job go on. Only
answers of Spark tasks that succeeded reach the driver. A worker that dies takes its Spark job with it, whose tasks are
then tried in halves, until the one that kills is alone.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import FrazilError, StoreError
from frazil.optimize.tasks import Done, Job
from frazil.spark.scan.arrow import dealt, frame_of_chunks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CANCELLED = ("cancelled", "canceled")
_STOPPED = "SparkContext was shut down"
Numbered = tuple[int, Any]
"""A task with its number."""


@dataclass(frozen=True)
class RunTasks:
    """Carries out tasks, wherever it is sent."""

    job: Job[Any, Any]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What became of pickled tasks, pickled: what `mapInArrow` calls."""
        for batch in batches:
            for chunk in batch.column(0).to_pylist():
                for number, task in pickle.loads(chunk):  # noqa: S301 - pickled by the driver
                    yield _answer(self._done(number, task))

    def _done(self, number: int, task: Any) -> Done[Any]:
        try:
            return Done(number, self.job.run(task))
        except Exception as error:  # noqa: BLE001 - it is this task's own
            return Done(number, error=_portable(error))


def _answer(done: Done[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(done)], pa.binary())], names=["done"])


def _portable(error: Exception) -> Exception:
    """An error that any process can read: of other libraries only what they say."""
    if isinstance(error, FrazilError | MemoryError):
        return error
    return StoreError(f"{type(error).__name__}: {_first_line(error)}", hint="see the log of the worker")


def _no_answer(error: Exception) -> Exception:
    """What is said of a worker that died: Spark knows little of it."""
    if isinstance(error, FrazilError):
        return error
    return StoreError(
        f"the worker of the task gave no answer: {_first_line(error)}",
        hint="it may have had too little memory: see the log of the executor",
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


class Workers:
    """The workers of a session, for tasks of one job; threads may share it."""

    def __init__(self, spark: SparkSession, job: Job[Any, Any]) -> None:
        self._spark = spark
        self._job = job
        self.lost = spark.conf.get("spark.speculation", "false") == "true"
        """Whether files may have been written that nobody told of."""

    def run(self, tasks: Sequence[Numbered]) -> list[Done[Any]]:
        """Carry out tasks by one Spark job, or as many as it takes to find out which of them kill their workers."""
        try:
            return self._one_job(tasks)
        except Exception as error:
            self.lost = True
            if was_cancelled(error):
                raise
            if len(tasks) == 1:
                return [Done(tasks[0][0], error=_no_answer(error))]
        middle = len(tasks) // 2
        return [*self.run(tasks[:middle]), *self.run(tasks[middle:])]

    def _one_job(self, tasks: Sequence[Numbered]) -> list[Done[Any]]:
        job = self._job
        chunks = dealt(tasks, lambda one: job.size(one[1]), self._spark.sparkContext.defaultParallelism)
        light = [[(number, job.light(task)) for number, task in chunk] for chunk in chunks]
        found = frame_of_chunks(RunTasks(job), light, self._spark, "done binary").toArrow().column(0).to_pylist()
        return [pickle.loads(data) for data in found]  # noqa: S301 - pickled by our own workers


def was_cancelled(error: BaseException) -> bool:
    """Whether a Spark job failed because somebody ended it, or Spark itself."""
    told = str(error)
    return any(word in told.lower() for word in _CANCELLED) or _STOPPED in told
