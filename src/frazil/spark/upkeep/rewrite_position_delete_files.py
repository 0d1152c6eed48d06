"""Position delete files written anew on Spark: workers read and write groups of them, the driver commits."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.iceberg import delete_rewrite
from frazil.iceberg.delete_groups import DeleteGroup
from frazil.iceberg.delete_rewrite import GroupWriter, Written, in_process
from frazil.iceberg.portable import without_history
from frazil.iceberg.rewritten import RewrittenDeleteFiles
from frazil.io import location as locations
from frazil.model.expression_parser import as_expression
from frazil.model.expressions import Expression
from frazil.spark.scan.arrow import dealt, frame_of_chunks, without_metrics
from frazil.spark.scan.files import routed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.iceberg.table import IcebergTable


def rewrite_position_delete_files(
    spark: SparkSession,
    table: IcebergTable,
    where: str | Expression | None,
    options: Mapping[str, str],
    branch: str,
) -> RewrittenDeleteFiles:
    """As the method of the table, with the writing done by the workers of a session where there is enough of it."""

    def execute(writer: GroupWriter, groups: Sequence[DeleteGroup]) -> Sequence[Written]:
        in_memory = locations.parse(routed(table.store, table.metadata.location)).scheme == "memory"
        if in_memory or len(groups) == 1:
            return in_process(writer, groups)
        return _by_workers(spark, writer, groups)

    return delete_rewrite.rewrite_position_delete_files(table, as_expression(where), options, branch, execute)


def _by_workers(spark: SparkSession, writer: GroupWriter, groups: Sequence[DeleteGroup]) -> list[Written]:
    work = WriteGroups(replace(writer, metadata=without_history(writer.metadata)))
    light = [replace(group, tasks=tuple(map(without_metrics, group.tasks))) for group in groups]
    chunks = dealt(light, lambda group: group.input_bytes, spark.sparkContext.defaultParallelism)
    found = frame_of_chunks(work, chunks, spark, "written binary").toArrow().column(0).to_pylist()
    return [pickle.loads(data) for data in found]  # noqa: S301 - pickled by our own workers


@dataclass(frozen=True)
class WriteGroups:
    """Writes pickled groups, wherever it is sent: names are new for every attempt, and told by those that succeeded."""

    writer: GroupWriter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `mapInArrow` calls."""
        for batch in batches:
            for chunk in batch.column(0).to_pylist():
                written = self.writer.write(pickle.loads(chunk))  # noqa: S301 - pickled by the driver
                yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(written)], pa.binary())], names=["written"])
