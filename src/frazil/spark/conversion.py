"""Conversion of tables by the workers of a Spark session: they read files of one format and write those of another."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.conversion.work import Work
from frazil.spark.scan.arrow import dealt, frame_of_chunks
from frazil.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_PARALLELISM = 16
"""A guess: a client cannot ask how many cores the server has."""


@dataclass(frozen=True)
class RunWork:
    """Runs what it is given for chunks of tasks, wherever it is sent."""

    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The answers: what `mapInArrow` calls."""
        for batch in batches:
            for chunk in batch.column(0).to_pylist():
                made = self.work(pickle.loads(chunk))  # noqa: S301 - pickled by the driver
                yield pa.RecordBatch.from_arrays([pa.array(made, pa.binary())], names=["written"])


@dataclass(frozen=True)
class OnSpark:
    """Runs tasks on the executors of a session."""

    spark: SparkSession

    def run(self, work: Work, tasks: Sequence[Any], size: Callable[[Any], int]) -> list[bytes]:
        """What all tasks answered."""
        spark = self.spark
        parallelism = _CONNECT_PARALLELISM if is_connect(spark) else spark.sparkContext.defaultParallelism
        chunks = dealt(tasks, size, parallelism)
        found = frame_of_chunks(RunWork(work), chunks, spark, "written binary").toArrow().column(0)
        answers: list[bytes] = found.to_pylist()
        return answers
