"""Files written by Python workers with the kernel's own writer: what Spark's cannot write, in stores it does not see.

A worker writes the rows of one task and answers with its files. Names are new for every attempt, and only the answers
of tasks that succeeded reach the driver: whatever other attempts left is not part of the table, and is removed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.write import RowWriter
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.model.conform import conform
from frazil.model.schema import Schema
from frazil.spark.scan.files import routed
from frazil.spark.write.from_spark import by_places, from_spark
from frazil.spark.write.job import Job
from frazil.spark.write.layout import distributed, sort_keys, sorted_within
from frazil.spark.write.partitions import Keyed, PartitionKey, Transforms
from frazil.spark.write.settings import ALL_AT_ONCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class WriteRows:
    """Writes the rows of a task, wherever it is sent."""

    store: Store
    metadata: TableMetadata
    schema: Schema
    target_bytes: int
    arranged: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The files of the rows, pickled: what `mapInArrow` calls."""
        made = [pickle.dumps(file) for file in self.write(batches)]
        yield pa.RecordBatch.from_arrays([pa.array(made, pa.binary())], names=["file"])

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
        """Write the rows of batches as Spark gives them."""
        writer = RowWriter(
            self.metadata, self.store, schema=self.schema, target_bytes=self.target_bytes, arranged=self.arranged
        )
        plain = (from_spark(batch, self.schema) for batch in batches)
        return writer.write(conform(plain, self.schema))


def write_arrow(
    job: Job, rows: DataFrame, partition: Sequence[PartitionKey | None], transforms: Transforms
) -> list[DataFile]:
    """Write the rows; the files are complete, and nothing refers to them yet."""
    known = [key for key in partition if key is not None]
    keys = sort_keys(job.schema, job.metadata.default_sort_order, transforms)
    arranged = (
        len(known) == len(partition) and keys is not None and not (job.settings.open_files == ALL_AT_ONCE and not keys)
    )
    writer = WriteRows(job.store, job.for_workers(), job.schema, job.settings.target_bytes, arranged)
    if locations.parse(routed(job.store, job.folder)).scheme == "memory":
        here = replace(writer, arranged=False)
        return here.write(rows.toArrow().to_batches())  # files in this process's memory are written in it
    laid_out = _laid_out(job, rows, known, keys or [], arranged)
    found = by_places(laid_out).mapInArrow(writer, "file binary").toArrow().column(0).to_pylist()
    files = [pickle.loads(data) for data in found]  # noqa: S301 - pickled by our own workers
    job.clear(keep=frozenset(file.file_path for file in files))
    return files


def _laid_out(
    job: Job, rows: DataFrame, partition: Sequence[PartitionKey], order: Sequence[Column], arranged: bool
) -> DataFrame:
    keyed = Keyed.of(rows, job.schema, partition)
    spread = distributed(keyed.rows, job.settings, keyed.keys, order)
    return keyed.without_keys(sorted_within(spread, keyed.keys, order) if arranged else spread)
