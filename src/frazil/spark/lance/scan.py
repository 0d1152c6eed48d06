"""Scans of Lance tables: fragments are tasks that Python workers read.

The plan is made when Spark asks, with its filters and columns. Filters are applied by the workers, before rows cross to
the JVM; fragments that cannot hold what is asked for, by addresses of rows, are not read.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.io.store import Store
from frazil.lance.field_ids import fields_to_read
from frazil.lance.plan import (
    CREATED_AT,
    LAST_UPDATED,
    METADATA_COLUMNS,
    ROW_ADDRESS,
    ROW_ID,
    ROW_OFFSET,
    FragmentTask,
    ScanPlan,
    schema_bytes,
)
from frazil.lance.proto.messages import Manifest
from frazil.lance.read import FragmentReader
from frazil.lance.scan import fragment_tasks
from frazil.lance.schema import model_schema, tree
from frazil.lance.values import to_model
from frazil.lance.version import LanceVersion
from frazil.model.binding import bound_predicates
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.model.schema import Schema
from frazil.model.stats_evaluator import ColumnStats, StatsTable, might_match
from frazil.model.types import LongType, NestedField, StringType
from frazil.spark.scan.arrow import BATCH_ROWS, CHUNK_BYTES, NO_COLUMNS, as_told, dealt, frame_of_chunks, held_struct
from frazil.spark.scan.filters import wider_row_filter
from frazil.spark.scan.native import output_struct
from frazil.spark.scan.scans import ScanRelation, arrow_document
from frazil.spark.scan.spark_arrow import for_spark
from frazil.spark.scan.statistics import Statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.spark.types import Dialect

FILE, POS, STABLE_ID = "_file", "_pos", "_row_id"
"""Columns by which the engine changes rows: the fragment's number as text, the row's offset in it, its stable id."""

_FIRST_ID = (1 << 29) + 101
HIDDEN = {
    FILE: NestedField(_FIRST_ID, FILE, StringType()),
    POS: NestedField(_FIRST_ID + 1, POS, LongType()),
    STABLE_ID: NestedField(_FIRST_ID + 2, STABLE_ID, LongType()),
    **METADATA_COLUMNS,
}
"""Columns that every table has, and gives when they are asked for."""

_READ_AS = {HIDDEN[POS].id: ROW_ADDRESS, HIDDEN[STABLE_ID].id: ROW_ID}
_LINEAGE = frozenset({ROW_ID, CREATED_AT, LAST_UPDATED})
_OFFSET = np.uint64(0xFFFFFFFF)
PART_ROWS = 65_536
"""Fragments are not cut into parts of fewer rows."""


def column_named(schema: Schema, name: str) -> NestedField:
    """A column of the table or a hidden one."""
    found = next((field for field in schema.fields if field.name == name), None)
    return HIDDEN[name] if found is None and name in HIDDEN else found or schema.find(name)


def scan_plan(
    version: LanceVersion, fields: Sequence[NestedField], where: Expression, shape: Manifest | None = None
) -> ScanPlan:
    """The fragments that may have rows which match a bound filter, and what is read of them.

    The columns are those of `shape`, if it is told: fields that files do not have are null.
    """
    wanted = tuple(dict.fromkeys(_READ_AS.get(field.id, field.name) for field in fields if field != HIDDEN[FILE]))
    looked_at = {*wanted, *(leaf.reference.path[0] for leaf in bound_predicates(where))}
    tasks = list(fragment_tasks(version, lineage=not looked_at.isdisjoint(_LINEAGE)))
    mask = np.ones(len(tasks), np.bool_) if isinstance(where, AlwaysTrue) else might_match(where, _known(tasks))
    kept = tuple(task for task, keep in zip(tasks, mask, strict=True) if keep)
    return ScanPlan(version.version, schema_bytes(shape or version.manifest), wanted, where, kept, BATCH_ROWS)


def _known(tasks: Sequence[FragmentTask]) -> StatsTable:
    """What is known of fragments: where their rows are. Lance keeps no bounds of columns."""
    first = np.array([task.fragment_id << 32 for task in tasks], np.int64)
    rows = np.array([task.physical_rows for task in tasks], np.int64)
    start = np.array([task.first_position for task in tasks], np.int64)
    left = np.array([task.rows for task in tasks], np.int64)
    address = _between(first, rows)
    known = {METADATA_COLUMNS[ROW_ADDRESS].id: address, METADATA_COLUMNS[ROW_OFFSET].id: _between(start, left)}
    if all(task.row_ids is None for task in tasks):  # a row's id is its address then, if ids were asked for at all
        known[METADATA_COLUMNS[ROW_ID].id] = address
    return StatsTable(len(tasks), known)


def _between(first: Any, count: Any) -> ColumnStats:
    unknown = count <= 0
    return ColumnStats(pa.array(first, mask=unknown), pa.array(first + count - 1, mask=unknown))


@dataclass(frozen=True)
class FragmentRows:
    """Reads fragments, wherever it is sent; `plan` has none of its own."""

    store: Store
    plan: ScanPlan
    wanted: tuple[NestedField, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of pickled tasks: what `mapInArrow` calls."""
        for batch in batches:
            for chunk in batch.column(0).to_pylist():
                yield from self.read(pickle.loads(chunk))  # noqa: S301 - pickled by the driver

    def read(self, tasks: Iterable[FragmentTask]) -> Iterator[pa.RecordBatch]:
        """The rows of tasks, as Spark takes them."""
        reader = FragmentReader(self.store, self.plan)
        for task in tasks:
            for batch in reader.read(task):
                yield self._for_spark(batch, task)

    def _for_spark(self, batch: pa.RecordBatch, task: FragmentTask) -> pa.RecordBatch:
        if not self.wanted:
            return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, pa.bool_())], names=[NO_COLUMNS])
        arrays = [self._column(batch, task, field) for field in self.wanted]
        return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in self.wanted])

    def _column(self, batch: pa.RecordBatch, task: FragmentTask, field: NestedField) -> pa.Array:
        if field == HIDDEN[FILE]:
            return pa.repeat(pa.scalar(str(task.fragment_id)), batch.num_rows)
        if field == HIDDEN[POS]:
            return pc.bit_wise_and(batch.column(ROW_ADDRESS), pa.scalar(_OFFSET, pa.uint64())).cast(pa.int64())
        array = batch.column(_READ_AS.get(field.id, field.name))
        return for_spark(to_model(array, field.type), field.type)


@dataclass(frozen=True)
class LanceSource:
    """What is read: a version, with the columns of another one where those are asked for."""

    store: Store
    version: LanceVersion
    shape: LanceVersion
    schema: Schema

    def plan(self, fields: Sequence[NestedField], filters: str) -> ScanPlan:
        """What is to be read of the fields, with filters that Spark pushed down."""
        columns = fields_to_read(self.version, self.shape)
        own = model_schema(tree(columns.fields)).fields
        hidden = (column for name, column in METADATA_COLUMNS.items() if name not in self.schema.columns)
        known = Schema((*own, *hidden))
        return scan_plan(self.version, fields, wider_row_filter(filters, known), columns)

    def relation(self, columns: Sequence[str], name: str, key: str, dialect: Dialect) -> LanceRelation:
        """The relation of some columns."""
        fields = [column_named(self.schema, column) for column in columns]
        counted = sizes(tuple(fragment_tasks(self.version, lineage=False)))
        return LanceRelation(self, arrow_document(key, name, counted, output_struct(fields, dialect)))


@dataclass(frozen=True)
class LanceRelation(ScanRelation):
    """The rows of a version."""

    source: LanceSource
    document: dict[str, Any]

    def rows(self, columns: Sequence[str], filters: str, session: SparkSession) -> DataFrame:
        kinds = {field["name"]: field for field in self.document["data"]["fields"]}
        wanted = tuple(column_named(self.source.schema, name) for name in columns)
        plan = self.source.plan(wanted, filters)
        parallelism = session.sparkContext.defaultParallelism
        return fragments_frame(self.source.store, plan, wanted, [kinds[name] for name in columns], session, parallelism)

    def statistics(self, filters: str, *, columns: bool) -> Statistics:
        return sizes(self.source.plan([], filters).fragments)


def sizes(tasks: Sequence[FragmentTask]) -> Statistics:
    """How much fragments are: bytes of their files, and rows that are left."""
    return Statistics(sum(file.size for task in tasks for file in task.files), sum(task.rows for task in tasks))


def fragments_frame(
    store: Store,
    plan: ScanPlan,
    wanted: tuple[NestedField, ...],
    told: Sequence[Any],
    session: SparkSession,
    parallelism: int,
) -> DataFrame:
    """The rows of a plan, with columns of the types (Spark's JSON) that are told."""
    rows = FragmentRows(store, replace(plan, fragments=()), wanted)
    schema = held_struct(told or [{"name": NO_COLUMNS, "type": "boolean", "nullable": True, "metadata": {}}])
    chunks = dealt(in_parts(plan.fragments, parallelism), task_bytes, parallelism)
    return as_told(frame_of_chunks(rows, chunks, session, schema), told, session)


def in_parts(tasks: Sequence[FragmentTask], parallelism: int) -> list[FragmentTask]:
    """Large fragments as several tasks each, so that all cores have work where there are few of them."""
    share = max(min(sum(map(task_bytes, tasks)) // max(parallelism, 1), CHUNK_BYTES), 1)
    found: list[FragmentTask] = []
    for task in tasks:
        pieces = max(1, min(-(-task_bytes(task) // share), task.physical_rows // PART_ROWS))
        found += task.parts(-(-task.physical_rows // pieces))
    return found


def task_bytes(task: FragmentTask) -> int:
    """How much a task reads at most."""
    size = sum(file.size for file in task.files)
    return size if task.span is None else size * (task.span[1] - task.span[0]) // task.physical_rows
