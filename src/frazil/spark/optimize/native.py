"""Tasks of optimizing that Spark carries out with its own reader and writer: large ones of Iceberg tables.

Files are read, arranged and written as compaction does it; what is only converted is left to workers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from frazil.iceberg.compaction_options import CompactionOptions
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.model.schema import Schema
from frazil.optimize.plan import RewriteTask
from frazil.optimize.rewrites import TaskFiles
from frazil.optimize.unkeyed import UnkeyedJob
from frazil.spark.changes.delta import with_lineage
from frazil.spark.iceberg.handle import IcebergHandle, current
from frazil.spark.scan.some_files import rows_of_files
from frazil.spark.upkeep.arrangement import Arrangement
from frazil.spark.write.insert import write_files
from frazil.spark.write.job import Job
from frazil.spark.write.native import remove_folder
from frazil.spark.write.partitions import Transforms
from frazil.spark.write.rows import by_position
from frazil.spark.write.settings import ALL_AT_ONCE, NONE, WriteSettings, settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.bridge import Bridge

LARGE_BYTES = 32 << 20
MANY_FILES = 64
"""From so many on, several cores read the files of a task, and Spark's writer pays."""

_OPEN_COST = 4 << 20
"""What a file counts for in Spark's splits, besides its bytes."""
_TASKS_PER_CORE = 4
_MOST_OF_TARGET = 3
"""A part is about as large as a file should be; only if that was estimated badly it becomes several."""


def is_large(task: RewriteTask) -> bool:
    """Whether a task is worth a Spark job of its own."""
    return len(task.rewrite) >= MANY_FILES or sum(file.bytes for file in task.rewrite) >= LARGE_BYTES


@dataclass
class NativeRewrites:
    """Rewrites of one table, as it was planned."""

    bridge: Bridge
    spark: SparkSession
    job: UnkeyedJob
    _jobs: list[Job] = field(default_factory=list)

    def rewrite(self, task: RewriteTask) -> list[DataFile]:
        """Write the rows of a task's files to others; nothing is left if it fails."""
        paths = [file.path for file in task.rewrite]
        size = sum(file.bytes for file in task.rewrite)
        options, transforms = self._options, Transforms(self.bridge.name)
        parts = max(1, size // self.job.target_bytes)
        split = max(options.input_split_size(size), (size + len(paths) * _OPEN_COST) // max(parts, self._tasks))
        rows = rows_of_files(self.bridge, self.spark, self._handle, self._schema.columns, paths, split_bytes=split)
        arranged = self._arrangement.arranged(rows, parts, self._schema, transforms, options, len(paths))
        fitted = by_position(arranged, self._schema, self.bridge.classes)
        job = Job.start(self.spark, self.job.store, self._metadata, self._schema, self._settings_for(task))
        self._jobs.append(job)
        try:
            files = write_files(self.bridge, job, fitted, transforms)
        except BaseException:
            remove_folder(job)
            raise
        return [replace(file, sort_order_id=self.job.arrangement.order.order_id) for file in files]

    def clear(self, kept: Iterable[TaskFiles]) -> None:
        """Remove what was written, but for what is kept: none of it was committed."""
        stay = frozenset(file.file_path for one in kept for file in one.all)
        for job in self._jobs:
            if any(place.startswith(f"{job.folder}/") for place in stay):
                job.clear(keep=stay)
            else:
                remove_folder(job)

    @cached_property
    def _tasks(self) -> int:
        """How many tasks read at most: to begin one takes longer than to read a small file."""
        return _TASKS_PER_CORE * self.spark.sparkContext.defaultParallelism

    @cached_property
    def _handle(self) -> IcebergHandle:
        assert self.job.table is not None, "a job of this process"
        return current(self.job.table)

    @cached_property
    def _schema(self) -> Schema:
        schema = self.job.metadata.current_schema
        return with_lineage(schema) if self.job.metadata.format_version >= 3 else schema

    @cached_property
    def _arrangement(self) -> Arrangement:
        return Arrangement(self.job.arrangement.order, self.job.arrangement.curve)

    @cached_property
    def _options(self) -> CompactionOptions:
        target = max(self.job.target_bytes, 2)
        told = {"target-file-size-bytes": str(target), "max-file-size-bytes": str(2 * target)}
        return CompactionOptions.parse(told, self.job.metadata, self._arrangement.strategy)

    @cached_property
    def _settings(self) -> WriteSettings:
        told = settings_of(self._handle, {}, self.spark)
        return replace(told, distribution=NONE, target_bytes=_MOST_OF_TARGET * self.job.target_bytes)

    def _settings_for(self, task: RewriteTask) -> WriteSettings:
        """Rows come in the order in which they are to stand; those of one partition need not be put together."""
        one_partition = task.partition.spec_id == self.job.metadata.default_spec_id
        fanout = one_partition and self.job.arrangement.order.is_unsorted
        return replace(self._settings, open_files=ALL_AT_ONCE) if fanout else self._settings

    @cached_property
    def _metadata(self) -> TableMetadata:
        metadata, order = self.job.metadata, self.job.arrangement.order
        orders = {one.order_id: one for one in (*metadata.sort_orders, order)}
        return replace(metadata, sort_orders=tuple(orders.values()), default_sort_order_id=order.order_id)
