"""Rows that Python workers read, with the kernel's own reader: files, formats and stores that Spark's cannot.

The plan is made when Spark asks, with its filters and columns, as for files. Its tasks are rows of a small local
DataFrame, and `mapInArrow` reads them where the executors are.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.entries import partition_array
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import partition_type
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.read import TaskReader
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.model.arrow import type_to_arrow
from frazil.model.schema import PARTITION_ID, Schema
from frazil.model.types import NestedField, StructType
from frazil.spark.scan.files import Relation, routed
from frazil.spark.scan.filters import numbered
from frazil.spark.scan.relations import quoted_name
from frazil.spark.scan.spark_arrow import for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType as SparkStruct

_Task = TypeVar("_Task")
BATCH_ROWS = 32_768
_CHUNKS_PER_CORE = 4
CHUNK_BYTES = 64 << 20
NO_COLUMNS = "_frazil_nothing"
_NANOSECONDS = ("timestamp_ntz(9)", "timestamp_ltz(9)")


@dataclass(frozen=True)
class Rows:
    """Reads the tasks of a relation, wherever it is sent."""

    store: Store
    metadata: TableMetadata
    schema: Schema
    wanted: tuple[NestedField, ...]
    by_number: bool = True
    """Whether the filters of tasks name columns by their ids, or by their names."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of pickled tasks: what `mapInArrow` calls."""
        for batch in batches:
            for chunk in batch.column(0).to_pylist():
                yield from self.read(pickle.loads(chunk))  # noqa: S301 - pickled by the driver

    def read(self, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        """The rows of tasks, as Spark takes them."""
        stored = [field for field in self.wanted if field.id != PARTITION_ID]
        output, schema = Schema(tuple(stored)), self.schema
        if self.by_number:
            output, schema = numbered(output), numbered(schema)
        deletes = DeleteReader(self.store, self.metadata)
        reader = TaskReader(self.store, self.metadata, output, schema, deletes, BATCH_ROWS)
        for task in tasks:
            for batch in reader.read(task):
                yield self._for_spark(batch, stored, task)

    def _for_spark(self, batch: pa.RecordBatch, stored: Sequence[NestedField], task: FileScanTask) -> pa.RecordBatch:
        index = {field.id: number for number, field in enumerate(stored)}
        arrays, names = [], []
        for field in self.wanted:
            if field.id == PARTITION_ID:
                values = self._partition(field, task.file, batch.num_rows)
            else:
                values = batch.column(index[field.id])
            arrays.append(for_spark(values, field.type))
            names.append(field.name)
        if not arrays:
            arrays, names = [pa.nulls(batch.num_rows, pa.bool_())], [NO_COLUMNS]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _partition(self, field: NestedField, file: DataFile, rows: int) -> pa.Array:
        type_ = field.type
        assert isinstance(type_, StructType)
        kind = partition_type(self.metadata, self.metadata.spec(file.spec_id))
        values = partition_array(kind, [file.partition]).flatten()
        known = dict(zip((part.id for part in kind.fields), values, strict=True))
        if not type_.fields:
            return pa.Array.from_buffers(pa.struct([]), rows, [None])
        parts = [known.get(part.id, pa.nulls(1)) for part in type_.fields]
        parts = [
            pa.nulls(1, type_to_arrow(kind.type)) if part.null_count else part
            for part, kind in zip(parts, type_.fields, strict=True)
        ]
        one = pa.StructArray.from_arrays(parts, names=[part.name for part in type_.fields])
        return pa.concat_arrays([one] * rows) if rows < 2 else one.take(pa.array([0] * rows, pa.int32()))


def rows_frame(
    relation: Relation, columns: Sequence[str], filters: str, session: SparkSession, struct: Any
) -> DataFrame:
    """The rows with these columns. `struct` is the Spark schema (JSON) of all the relation's."""
    from pyspark.sql.types import BooleanType, StructField
    from pyspark.sql.types import StructType as SparkStruct

    fields = {field.name: field for field in relation.wanted.fields}
    wanted = tuple(fields[name] for name in columns)
    plan, parts = relation.plan(relation.filter(filters))
    gone = {} if relation.only is None else relation.only.without
    tasks = [replace(task, gone=gone.get(task.file.file_path)) for task in replace(plan, parts=tuple(parts)).tasks()]
    rows = Rows(relation.store, without_history(relation.metadata), relation.schema, wanted)
    kinds = {field["name"]: field for field in struct["fields"]}
    told = [kinds[name] for name in columns]
    schema = held_struct(told) if columns else SparkStruct([StructField(NO_COLUMNS, BooleanType())])
    if locations.parse(routed(relation.store, relation.metadata.location)).scheme == "memory":
        frame = local_frame(list(rows.read(tasks)), session, schema)
    else:
        frame = frame_of_tasks(rows, tasks, session, schema, session.sparkContext.defaultParallelism)
    return as_told(frame, told, session)


def held_struct(fields: Sequence[Any]) -> SparkStruct:
    """The schema in which PySpark has columns of these types (JSON)."""
    from pyspark.sql.types import StructType as SparkStruct

    return SparkStruct.fromJson({"type": "struct", "fields": _held(fields)})


def _held(kind: Any) -> Any:
    """A type as PySpark has it: times with nanoseconds, which only the JVM has, are texts."""
    if isinstance(kind, list):
        return [_held(part) for part in kind]
    if isinstance(kind, dict):
        return {key: part if key in ("name", "metadata") else _held(part) for key, part in kind.items()}
    return "string" if kind in _NANOSECONDS else kind


def as_told(frame: DataFrame, fields: Sequence[Any], session: SparkSession) -> DataFrame:
    """Columns that are held in other types, cast by the JVM."""
    if _held(fields) == fields:
        return frame
    types = session._jvm.org.apache.spark.sql.types.DataType  # type: ignore[union-attr]
    shown = []
    for field in fields:
        name = quoted_name(field["name"])
        told = types.fromJson(json.dumps(field["type"])).sql()
        shown.append(name if _held(field["type"]) == field["type"] else f"CAST({name} AS {told}) AS {name}")
    return frame.selectExpr(*shown)


def frame_of_tasks(
    rows: Rows, tasks: Sequence[FileScanTask], session: SparkSession, schema: Any, parallelism: int
) -> DataFrame:
    """A DataFrame whose rows the workers of a session read. It may be one of Spark Connect."""
    chunks = dealt(tasks, lambda task: task.file.file_size_in_bytes, parallelism)
    return frame_of_chunks(rows, [[without_metrics(task) for task in chunk] for chunk in chunks], session, schema)


def frame_of_chunks(rows: Any, chunks: Iterable[Sequence[Any]], session: SparkSession, schema: Any) -> DataFrame:
    """What a function for `mapInArrow` makes of chunks of tasks, which it gets pickled; a chunk is read by one task."""
    pickled = [pickle.dumps(list(chunk)) for chunk in chunks]
    if not pickled:  # of which Spark Connect makes no DataFrame
        return session.createDataFrame([], schema)
    source = session.createDataFrame(pa.table({"tasks": pa.array(pickled, pa.binary())}))
    return source.mapInArrow(rows, schema)


def local_frame(batches: Sequence[pa.RecordBatch], session: SparkSession, schema: Any) -> DataFrame:
    """A DataFrame of rows that were read in this process, as Spark takes them."""
    if not any(batch.num_rows for batch in batches):
        return session.createDataFrame([], schema)
    return session.createDataFrame(pa.Table.from_batches(batches), schema)


def dealt(tasks: Sequence[_Task], size: Callable[[_Task], int], parallelism: int) -> list[list[_Task]]:
    """Tasks dealt out so that all cores have work of like size: largest first, each to the least loaded."""
    import heapq

    if not tasks:
        return []
    count = max(parallelism * _CHUNKS_PER_CORE, sum(map(size, tasks)) // CHUNK_BYTES)
    chunks: list[list[_Task]] = [[] for _ in range(min(len(tasks), count))]
    heap = [(0, number) for number in range(len(chunks))]
    for task in sorted(tasks, key=lambda item: -size(item)):
        load, number = heapq.heappop(heap)
        chunks[number].append(task)
        heapq.heappush(heap, (load + size(task), number))
    return chunks


def without_history(metadata: TableMetadata) -> TableMetadata:
    """Metadata that is small to send: readers need schemas, specs and properties."""
    return replace(
        metadata,
        snapshots=(),
        snapshot_log=(),
        metadata_log=(),
        refs={},
        statistics=(),
        partition_statistics=(),
        current_snapshot_id=None,
    )


def without_metrics(task: FileScanTask) -> FileScanTask:
    """A task that is small to send."""

    def bare(file: DataFile) -> DataFile:
        return replace(
            file,
            column_sizes=None,
            value_counts=None,
            null_value_counts=None,
            nan_value_counts=None,
            lower_bounds=None,
            upper_bounds=None,
        )

    return replace(task, file=bare(task.file), deletes=tuple(bare(delete) for delete in task.deletes))
