"""Which rows match a filter, found by workers: only their offsets come back."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.io.roaring import deserialize32, serialize32
from frazil.io.store import Store
from frazil.lance.plan import ScanPlan
from frazil.lance.read import FragmentReader
from frazil.lance.version import LanceVersion
from frazil.model.expressions import Expression
from frazil.spark.lance.scan import in_parts, scan_plan, task_bytes
from frazil.spark.scan.arrow import dealt, frame_of_chunks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MatchingRows:
    """Looks for rows, wherever it is sent."""

    store: Store
    plan: ScanPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For pickled tasks, the fragments that have such rows, and which: what `mapInArrow` calls."""
        reader = FragmentReader(self.store, self.plan)
        for batch in batches:
            for chunk in batch.column(0).to_pylist():
                for task in pickle.loads(chunk):  # noqa: S301 - pickled by the driver
                    offsets = reader.offsets(task)
                    if len(offsets):
                        arrays = [pa.array([task.fragment_id], pa.int64()), pa.array([serialize32(offsets)])]
                        yield pa.RecordBatch.from_arrays(arrays, names=["fragment", "offsets"])


def matching_rows(spark: SparkSession, store: Store, version: LanceVersion, where: Expression) -> dict[int, Offsets]:
    """The offsets of rows that a bound filter is true for, by fragment."""
    plan = scan_plan(version, (), where)
    parallelism = spark.sparkContext.defaultParallelism
    chunks = dealt(in_parts(plan.fragments, parallelism), task_bytes, parallelism)
    if not chunks:
        return {}
    rows = MatchingRows(store, replace(plan, fragments=()))
    found = frame_of_chunks(rows, chunks, spark, "fragment bigint, offsets binary").toArrow()
    pairs = zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True)
    parts: dict[int, list[Offsets]] = {}
    for fragment, data in pairs:
        parts.setdefault(fragment, []).append(deserialize32(data))
    return {fragment: np.sort(np.concatenate(found)) for fragment, found in parts.items()}
