"""Plans of merges executed in this process: rows of both stores, less those whose key was deleted later."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.read import TaskReader
from frazil.iceberg.scan_columns import leaf, merge, prune
from frazil.mixed.change_keys import ChangeKeys, offsets_of
from frazil.mixed.columns import BASE_OFFSET, FILE_OFFSET
from frazil.mixed.deleted_keys import DeletedKeys, Ints
from frazil.mixed.plan import MixedPlan, NodeTask, PlannedFile, StoreState
from frazil.model.arrow import schema_to_arrow
from frazil.model.schema import Schema

LOOKUP_ROWS = 1 << 20
"""Rows looked up together where each lookup has a cost of its own."""


@dataclass
class MergeReader:
    """Executes the tasks of a plan. Safe to share between threads."""

    plan: MixedPlan
    output: Schema
    """The columns of the result."""
    keys: tuple[int, ...]
    """The field ids of the primary key, in its order."""
    batch_rows: int

    def __post_init__(self) -> None:
        self._change_keys = ChangeKeys(self.plan.change, self.plan.schema, self.keys, self.batch_rows)
        self._base = self._reader(self.plan.base, self.output)
        self._change = self._reader(self.plan.change, self.output)
        keyed = Schema(tuple(column for column in self.plan.schema.fields if column.id in self.keys))
        self._with_keys = merge(self.output, keyed)
        self._with_offset = Schema((*self._with_keys.fields, FILE_OFFSET))
        self._arrow = schema_to_arrow(self.output)

    def _reader(self, state: StoreState, output: Schema) -> TaskReader:
        deletes = DeleteReader(state.store, state.metadata)
        return TaskReader(state.store, state.metadata, output, self.plan.schema, deletes, self.batch_rows)

    def read(self, task: NodeTask) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        deleted = self._change_keys.deleted(task.deletes)
        for one in task.base:
            yield from self._rows(one, self._base, self._with_keys, deleted)
        for one in task.inserts:
            yield from self._rows(one, self._change, self._with_offset, deleted)

    def count(self, task: NodeTask) -> int:
        """How many rows a task gives, from metadata alone where that is exact."""
        if task.deletes:
            return sum(batch.num_rows for batch in self.read(task))
        counting = {id(reader): replace(reader, output=Schema(())) for reader in (self._base, self._change)}
        base = sum(counting[id(self._base)].count(one.task) for one in task.base)
        return base + sum(counting[id(self._change)].count(one.task) for one in task.inserts)

    def _rows(
        self, one: PlannedFile, reader: TaskReader, schema: Schema, deleted: DeletedKeys | None
    ) -> Iterator[pa.RecordBatch]:
        if deleted is None:
            yield from reader.read(one.task)
            return
        most = 1 if deleted.is_cheap else LOOKUP_ROWS
        for batches in _together(replace(reader, output=schema).read(one.task), most):
            columns = [pa.concat_arrays([leaf(rows, schema, key) for rows in batches]) for key in self.keys]
            offsets: Ints | int = BASE_OFFSET
            if schema.fields[-1].id == FILE_OFFSET.id:
                offsets = np.concatenate([offsets_of(rows.column(rows.num_columns - 1)) for rows in batches])
            kept = deleted.kept(columns, one.transaction_id, offsets)
            start = 0
            for rows in batches:
                mask = kept[start : start + rows.num_rows]
                start += rows.num_rows
                left = rows if mask.all() else rows.filter(pa.array(mask))
                if left.num_rows:
                    yield self._project(left, schema)

    def _project(self, rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
        places = {column.id: place for place, column in enumerate(schema.fields)}
        arrays = [
            prune(rows.column(places[column.id]), schema.fields[places[column.id]], column)
            for column in self.output.fields
        ]
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows.num_rows, [None]))
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)


def _together(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    """Batches in groups of so many rows, or more."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= most:
            yield held
            held, rows = [], 0
    if held:
        yield held


def read_merged(reader: MergeReader) -> pa.Table:
    """All rows of a plan; tasks are read in parallel."""
    tasks = reader.plan.tasks
    workers = min(len(tasks), os.cpu_count() or 1)
    schema = schema_to_arrow(reader.output)
    if workers <= 1:
        return pa.Table.from_batches([batch for task in tasks for batch in reader.read(task)], schema)
    with ThreadPoolExecutor(workers, thread_name_prefix="frazil-merge") as pool:
        batches = [batch for read in pool.map(lambda task: list(reader.read(task)), tasks) for batch in read]
    return pa.Table.from_batches(batches, schema)
