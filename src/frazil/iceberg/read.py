"""Plans executed in-process with Arrow: rows of data files, less what is deleted, filtered and projected."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg.data_file import Content
from frazil.iceberg.delete_reader import DeleteReader, EqualityKeys, matches_keys
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FileScanTask, ScanPlan
from frazil.iceberg.properties import DEFAULT_NAME_MAPPING
from frazil.iceberg.scan_columns import leaf, merge, prune, schema_with
from frazil.io.data_files import read_data_file
from frazil.io.deletion_vector import DeletionVector
from frazil.io.store import Store
from frazil.model.arrow import schema_to_arrow
from frazil.model.arrow_evaluator import filter_mask
from frazil.model.binding import field_ids
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.model.name_mapping import NameMapping
from frazil.model.schema import FILE, LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID, SPEC_ID_ID, Schema
from frazil.model.transforms import IdentityTransform
from frazil.model.types import IntegerType, NestedField

SPEC_ID = NestedField(SPEC_ID_ID, "_spec_id", IntegerType(), required=True, doc="Spec of the file that holds the row")
METADATA_COLUMNS = {column.name: column for column in (FILE, POS, SPEC_ID, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)}
_COMPUTED = {FILE.id, POS.id, SPEC_ID.id}
_UNKNOWN = np.zeros(0, dtype=np.int64)
"""Positions of rows that nobody asked for."""


@dataclass(frozen=True)
class TaskReader:
    """Reads the files of one scan. `output` is what is returned: table columns and metadata columns."""

    store: Store
    metadata: TableMetadata
    output: Schema
    schema: Schema
    deletes: DeleteReader
    batch_rows: int

    @cached_property
    def _name_mapping(self) -> NameMapping | None:
        text = self.metadata.property_reader.get(DEFAULT_NAME_MAPPING)
        return None if text is None else NameMapping.from_json(text)

    @cached_property
    def _tells_positions(self) -> bool:
        return any(column.id in (POS.id, ROW_ID.id) for column in self.output.fields)

    @cached_property
    def _arrow_schema(self) -> pa.Schema:
        return schema_to_arrow(self.output)

    def read(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        """The rows of one task, in file order."""
        vector = self.deletes.positions(task.file, task.deletes)
        if task.gone is not None:
            vector = task.gone if vector is None else vector.union(task.gone)
        keys = self.deletes.keys(task.deletes)
        schema = self._read_schema(task, keys)
        batches = read_data_file(
            self.store,
            task.file.file_path,
            task.file.file_format,
            schema,
            name_mapping=self._name_mapping,
            constants=self._constants(task),
            batch_rows=self.batch_rows,
            filter=None if isinstance(task.residual, AlwaysTrue) else task.residual,
        )
        for start, batch in batches:
            kept = self._kept(batch, schema, start, vector, keys, task.residual)
            positions = np.arange(start, start + batch.num_rows) if self._tells_positions else _UNKNOWN
            if kept is not None and not kept.all():
                if not kept.any():
                    continue
                batch = batch.filter(pa.array(kept))
                positions = positions[kept] if self._tells_positions else _UNKNOWN
            yield self._project(batch, schema, positions, task)

    def count(self, task: FileScanTask) -> int:
        """How many rows a task gives: from its metadata where that is exact, else from positions that are deleted."""
        if isinstance(task.residual, AlwaysTrue) and task.gone is None:
            total = task.file.record_count
            if not task.deletes:
                return total
            if all(delete.is_deletion_vector for delete in task.deletes):
                left = total - sum(delete.record_count for delete in task.deletes)
                if left >= 0:  # else the metadata is wrong, which reading will tell
                    return left
            if all(delete.content == Content.POSITION_DELETES for delete in task.deletes):
                gone = self.deletes.positions(task.file, task.deletes)
                return total if gone is None else total - int(np.searchsorted(gone.positions, total))
        return sum(batch.num_rows for batch in self.read(task))

    def count_removed(self, task: FileScanTask) -> int | None:
        """How many rows go with a whole file, for which no data file is read: None, unknown, if equality deletes apply.

        Position deletes are read only if they may name other files, or the same rows, too.
        """
        if any(delete.content == Content.EQUALITY_DELETES for delete in task.deletes):
            return None
        if len(task.deletes) == 1 and task.deletes[0].target_path == task.file.file_path:
            left = task.file.record_count - task.deletes[0].record_count
            if left >= 0:  # else the metadata is wrong, which reading will tell
                return left
        return self.count(replace(task, residual=AlwaysTrue()))

    def _read_schema(self, task: FileScanTask, keys: Sequence[EqualityKeys]) -> Schema:
        wanted = [column for column in self.output.fields if column.id not in _COMPUTED]
        schema = Schema(tuple(wanted))
        names = [self.schema.name_of(number) for number in sorted(field_ids(task.residual))]
        filtered = self.schema.select([name for name in names if name is not None])
        schema = merge(schema, filtered)
        numbers = sorted({number for key in keys for number in key.field_ids})
        return merge(schema, schema_with(self.metadata, numbers))

    def _constants(self, task: FileScanTask) -> dict[int, Any]:
        spec = self.metadata.spec(task.file.spec_id)
        return {
            part.source_id: value
            for part, value in zip(spec.fields, task.file.partition, strict=True)
            if isinstance(part.transform, IdentityTransform)
        }

    def _kept(
        self,
        batch: pa.RecordBatch,
        schema: Schema,
        start: int,
        vector: DeletionVector | None,
        keys: Sequence[EqualityKeys],
        residual: Expression,
    ) -> npt.NDArray[np.bool_] | None:
        kept: npt.NDArray[np.bool_] | None = None
        if vector is not None:
            kept = vector.mask(start, batch.num_rows)
        for key in keys:
            columns = [leaf(batch, schema, number) for number in key.field_ids]
            alive = ~matches_keys(columns, key)
            kept = alive if kept is None else kept & alive
        if not isinstance(residual, AlwaysTrue):
            matching = filter_mask(residual, batch).to_numpy(zero_copy_only=False)
            kept = matching if kept is None else kept & matching
        return kept

    def _project(
        self, batch: pa.RecordBatch, schema: Schema, positions: npt.NDArray[np.int64], task: FileScanTask
    ) -> pa.RecordBatch:
        index = {column.id: number for number, column in enumerate(schema.fields)}
        arrays = []
        for column in self.output.fields:
            if column.id in _COMPUTED:
                arrays.append(_computed(column, positions, batch.num_rows, task))
            elif column.id == ROW_ID.id:
                arrays.append(_row_ids(batch.column(index[column.id]), positions, task))
            elif column.id == LAST_UPDATED_SEQUENCE_NUMBER.id:
                arrays.append(_last_updated(batch.column(index[column.id]), task))
            else:
                arrays.append(prune(batch.column(index[column.id]), schema.fields[index[column.id]], column))
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), batch.num_rows, [None]))
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)


def _computed(column: NestedField, positions: npt.NDArray[np.int64], rows: int, task: FileScanTask) -> pa.Array:
    if column.id == POS.id:
        return pa.array(positions)
    if column.id == SPEC_ID.id:
        return pa.array(np.full(rows, task.file.spec_id, dtype=np.int32))
    return pa.repeat(pa.scalar(task.file.file_path, pa.string()), rows)


def _row_ids(stored: pa.Array, positions: npt.NDArray[np.int64], task: FileScanTask) -> pa.Array:
    first = task.file.first_row_id
    if first is None:
        return pa.nulls(len(stored), pa.int64())
    return pc.coalesce(stored, pa.array(positions + first))


def _last_updated(stored: pa.Array, task: FileScanTask) -> pa.Array:
    if task.file.first_row_id is None:
        return pa.nulls(len(stored), pa.int64())
    return pc.coalesce(stored, pa.scalar(task.file.data_sequence_number, pa.int64()))


def read_batches(reader: TaskReader, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    """All rows of a plan, one batch in memory at a time."""
    for task in plan.tasks():
        yield from reader.read(task)


def read_table(reader: TaskReader, plan: ScanPlan, limit: int | None = None) -> pa.Table:
    """All rows of a plan as one table; files are read in parallel."""
    schema = schema_to_arrow(reader.output)
    if limit is not None:
        return pa.Table.from_batches(list(take_rows(read_batches(reader, plan), limit)), schema)
    tasks = list(plan.tasks())
    workers = min(len(tasks), os.cpu_count() or 1)
    if workers <= 1:
        batches = [batch for task in tasks for batch in reader.read(task)]
    else:
        with ThreadPoolExecutor(workers, thread_name_prefix="frazil-read") as pool:
            batches = [batch for read in pool.map(lambda task: list(reader.read(task)), tasks) for batch in read]
    return pa.Table.from_batches(batches, schema)


def take_rows(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """The first `limit` rows."""
    left = limit
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows
