"""Merged rows that Python workers read, node by node: files, formats and stores that Spark's reader cannot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.iceberg.portable import without_history
from frazil.io import location as locations
from frazil.mixed.merge import MergeReader
from frazil.mixed.plan import MixedPlan, NodeTask, PlannedFile, StoreState
from frazil.model.schema import PARTITION_ID, Schema
from frazil.model.types import NestedField
from frazil.spark.scan.arrow import (
    BATCH_ROWS,
    CHUNK_BYTES,
    NO_COLUMNS,
    Rows,
    as_told,
    dealt,
    frame_of_chunks,
    held_struct,
    local_frame,
    without_metrics,
)
from frazil.spark.scan.files import routed
from frazil.spark.scan.filters import numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOTHING = {"name": NO_COLUMNS, "type": "boolean", "nullable": True, "metadata": {}}


@dataclass(frozen=True)
class MergedRows(Rows):
    """Reads the tasks of a plan, wherever it is sent. The plan comes without its tasks."""

    _: KW_ONLY
    plan: MixedPlan
    keys: tuple[int, ...]

    def read(self, tasks: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        stored = [field for field in self.wanted if field.id != PARTITION_ID]
        output = Schema(tuple(stored))
        reader = MergeReader(self.plan, numbered(output) if self.by_number else output, self.keys, BATCH_ROWS)
        for task in tasks:
            some_file = (task.base or task.inserts)[0].task  # all are of one partition
            for batch in reader.read(task):
                yield self._for_spark(batch, stored, some_file)


def merged_frame(
    plan: MixedPlan,
    keys: tuple[int, ...],
    wanted: tuple[NestedField, ...],
    told: Sequence[Any],
    session: SparkSession,
    parallelism: int,
    *,
    by_number: bool = True,
) -> DataFrame:
    """The rows of a plan, with columns of the types (Spark's JSON) that are told."""
    state = plan.base
    empty = replace(plan, base=small(state), change=small(plan.change), tasks=(), idle_deletes=())
    rows = MergedRows(state.store, empty.base.metadata, plan.schema, wanted, by_number, plan=empty, keys=keys)
    schema = held_struct(told or [NOTHING])
    tasks = [part for task in plan.tasks for part in _split(task)]
    if locations.parse(routed(state.store, state.metadata.location)).scheme == "memory":
        return as_told(local_frame(list(rows.read(tasks)), session, schema), told, session)
    chunks = [[_bare(task) for task in chunk] for chunk in dealt(tasks, lambda task: task.bytes, parallelism)]
    return as_told(frame_of_chunks(rows, chunks, session, schema), told, session)


def small(state: StoreState) -> StoreState:
    """A store as workers need it."""
    return replace(state, metadata=without_history(state.metadata), snapshot=None)


def _split(task: NodeTask) -> Iterator[NodeTask]:
    """A task in pieces of about so many bytes, each with all the deletes."""
    pieces: list[list[PlannedFile]] = [[]]
    size = 0
    for one in (*task.base, *task.inserts):
        bytes_ = one.task.file.file_size_in_bytes
        if pieces[-1] and size + bytes_ > CHUNK_BYTES:
            pieces.append([])
            size = 0
        pieces[-1].append(one)
        size += bytes_
    of_base = {one.path for one in task.base}
    for piece in pieces:
        base = tuple(one for one in piece if one.path in of_base)
        yield replace(task, base=base, inserts=tuple(one for one in piece if one.path not in of_base))


def _bare(task: NodeTask) -> NodeTask:
    def bare(files: tuple[PlannedFile, ...]) -> tuple[PlannedFile, ...]:
        return tuple(replace(one, task=without_metrics(one.task)) for one in files)

    return replace(task, base=bare(task.base), inserts=bare(task.inserts), deletes=bare(task.deletes))
