"""Plans executed: one fragment at a time becomes Arrow batches, less the rows that are deleted or do not match.

The filter's columns are read first; where few rows match, of the other columns only those rows are read.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.errors import MalformedData, Unsupported
from frazil.io.store import Store
from frazil.lance.data_files import DataFileReader, FileRef, known_as, open_reader
from frazil.lance.deletions import read_deletions
from frazil.lance.file_columns import FileColumns, file_columns
from frazil.lance.plan import (
    CREATED_AT,
    LAST_UPDATED,
    METADATA_COLUMNS,
    ROW_ADDRESS,
    ROW_ID,
    ROW_OFFSET,
    FragmentTask,
    ScanPlan,
)
from frazil.lance.row_ids import Numbers, decode_row_ids, decode_row_versions
from frazil.lance.schema import Node, model_schema, select
from frazil.model.arrow import rebuild_struct
from frazil.model.arrow_evaluator import filter_mask
from frazil.model.binding import bound_predicates
from frazil.model.expressions import AlwaysFalse, AlwaysTrue
from frazil.recent import Recent

Offsets = npt.NDArray[np.int64]

TAKE_BELOW = 1 / 16
"""Below this share of matching rows they are read one by one."""

FILTER_ROWS = 65_536
"""How many rows the filter looks at at a time."""

_schemas: Recent[tuple[Hashable, int], pa.Schema] = Recent(4096)


@dataclass(frozen=True)
class _Source:
    """A file of a fragment, with the columns of it that are read."""

    columns: FileColumns
    reader: DataFileReader
    is_whole: bool
    """Whether it has all columns, each under the name that the table has for it."""


@dataclass(frozen=True)
class FragmentReader:
    """Reads the tasks of one plan. Made from a store and a plan alone, so that a worker can make it."""

    store: Store
    plan: ScanPlan

    @cached_property
    def output(self) -> pa.Schema:
        """The schema of what is returned."""
        fields = [METADATA_FIELDS[one] if isinstance(one, str) else one.arrow for one in self._output]
        return pa.schema(fields, metadata=self.plan.arrow_schema.metadata)

    @cached_property
    def _output(self) -> list[Any]:
        """The columns of the result: nodes, or names of metadata columns."""
        schema = model_schema(self.plan.nodes)
        names = [name for name in self.plan.columns if not _is_metadata(name, schema.columns)]
        ids = {name: schema.find(name).id for name in names}
        nodes = {node.id: node for node in select(self.plan.nodes, frozenset(ids.values()))}
        found: dict[Any, Any] = {}
        for name in self.plan.columns:
            if name in ids:
                top = schema.path_ids(ids[name])[0]
                found[top] = nodes[top]
            else:
                found[name] = name
        return list(found.values())

    @cached_property
    def _nodes(self) -> list[Node]:
        return [column for column in self._output if isinstance(column, Node)]

    @cached_property
    def _filter_nodes(self) -> tuple[Node, ...]:
        ids = frozenset(leaf.reference.field_id for leaf in bound_predicates(self.plan.where))
        return select(self.plan.nodes, ids)

    @cached_property
    def _filter_metadata(self) -> list[str]:
        ids = {leaf.reference.field_id for leaf in bound_predicates(self.plan.where)}
        return [name for name, column in METADATA_COLUMNS.items() if column.id in ids]

    def read(self, task: FragmentTask) -> Iterator[pa.RecordBatch]:
        """The rows of a fragment, in order."""
        kept = self.matching(task)
        if kept is not None and not len(kept):
            return
        if kept is not None and len(kept) < TAKE_BELOW * max(len(self._offsets(task)), 1):
            for start in range(0, len(kept), self.plan.batch_rows):
                yield from self.rows(task, kept[start : start + self.plan.batch_rows]).to_batches()
            return
        nodes = self._nodes
        for start, count, arrays in self._scan(task, nodes):
            offsets = np.arange(start, start + count)
            if kept is not None:
                low, high = np.searchsorted(kept, (start, start + count))
                offsets = kept[low:high]
                if not len(offsets):
                    continue
                if len(offsets) < count:
                    positions = pa.array(offsets - start)
                    arrays = [array.take(positions) for array in arrays]
            yield self._batch(task, arrays, offsets)

    def physical(self, task: FragmentTask) -> Iterator[pa.RecordBatch]:
        """All rows of a fragment, deleted ones included, whatever the filter says."""
        nodes = self._nodes
        for start, count, arrays in self._scan(task, nodes):
            yield self._batch(task, arrays, np.arange(start, start + count))

    def rows(self, task: FragmentTask, offsets: Offsets) -> pa.Table:
        """The rows at strictly ascending offsets, whatever is deleted and whatever the filter says."""
        nodes = self._nodes
        sources = self._sources(task, nodes)
        listed = offsets.tolist()
        tables = [source.reader.take(listed) for source in sources]
        if len(sources) == 1 and sources[0].is_whole and tables[0].schema.equals(self.output, check_metadata=True):
            return tables[0]
        pieces = [table.combine_chunks().to_batches() for table in tables]
        batches = [piece[0] if piece else None for piece in pieces]
        arrays = [_build(node, sources, batches, len(offsets)) for node in nodes]
        return pa.Table.from_batches([self._batch(task, arrays, offsets)])

    def count(self, task: FragmentTask) -> int:
        """How many rows a fragment gives: without a filter, from the manifest alone."""
        if isinstance(self.plan.where, AlwaysTrue) and task.physical_rows and task.span is None:
            return task.rows
        kept = self.matching(task)
        return len(self._offsets(task)) if kept is None else len(kept)

    def matching(self, task: FragmentTask) -> Offsets | None:
        """The offsets of the rows of a task that are not deleted and match; None for all of them."""
        deleted = read_deletions(self.store, task.deletions)
        if len(deleted) and int(deleted[-1]) >= self._physical_rows(task):
            raise MalformedData(
                f"row {int(deleted[-1])} of fragment {task.fragment_id} is deleted, which has no such row",
                hint="the table is damaged; open an earlier version of it",
            )
        if isinstance(self.plan.where, AlwaysTrue):
            if not len(deleted):
                return None
            every = self._offsets(task)
            low, high = np.searchsorted(deleted, (every.start, every.stop))
            return np.delete(np.asarray(every), deleted[low:high] - every.start)
        if isinstance(self.plan.where, AlwaysFalse):
            return np.empty(0, np.int64)
        found = [np.empty(0, np.int64)]
        for start, count, arrays in self._scan(task, self._filter_nodes, FILTER_ROWS):
            names = [node.name for node in self._filter_nodes]
            columns = [*arrays, *self._metadata(task, self._filter_metadata, np.arange(start, start + count))]
            batch = pa.RecordBatch.from_arrays(columns, names=[*names, *self._filter_metadata])
            mask = filter_mask(self.plan.where, batch).to_numpy(zero_copy_only=False)
            found.append(np.flatnonzero(mask) + start)
        offsets = np.concatenate(found)
        return offsets[~np.isin(offsets, deleted, assume_unique=True)] if len(deleted) else offsets

    def offsets(self, task: FragmentTask) -> Offsets:
        """The offsets of the rows of a task that are not deleted and match."""
        found = self.matching(task)
        return np.asarray(self._offsets(task)) if found is None else found

    def _scan(
        self, task: FragmentTask, nodes: Sequence[Node], batch_rows: int | None = None
    ) -> Iterator[tuple[int, int, list[pa.Array]]]:
        """All physical rows of a task, of some columns: where a batch begins, its length, its arrays."""
        sources = self._sources(task, nodes)
        wanted = self._offsets(task) if task.span is not None or task.physical_rows else None
        start = 0 if wanted is None else wanted.start
        for count, batches in self._batches(task, sources, batch_rows or self.plan.batch_rows):
            yield start, count, [_build(node, sources, batches, count) for node in nodes]
            start += count
        if wanted is not None and start != wanted.stop:
            raise MalformedData(
                f"fragment {task.fragment_id} has {start} rows, and the manifest says {wanted.stop}",
                hint="the table is damaged; open an earlier version of it",
            )

    def _batches(
        self, task: FragmentTask, sources: Sequence[_Source], batch_rows: int
    ) -> Iterator[tuple[int, list[pa.RecordBatch | None]]]:
        if sources:
            yield from _aligned([one.reader.read(task.span, batch_rows) for one in sources])
            return
        rows = len(self._offsets(task))
        for start in range(0, rows, batch_rows):
            yield min(batch_rows, rows - start), []

    @cached_property
    def _known_sources(self) -> Recent[tuple[int, ...], list[_Source]]:
        return Recent(256)

    def _sources(self, task: FragmentTask, nodes: Sequence[Node]) -> list[_Source]:
        """The files of a fragment that hold something of the columns."""
        key = (task.fragment_id, *(node.id for node in nodes))
        found = self._known_sources.get(key)
        if found is None:
            found = self._opened(task, nodes)
            self._known_sources.put(key, found)
        return found

    def _opened(self, task: FragmentTask, nodes: Sequence[Node]) -> list[_Source]:
        found = []
        for ref in task.files:
            if len(task.files) > 1 and not _may_hold(ref, nodes):
                continue
            columns = file_columns(nodes, ref, self._file_schema(ref))
            if names := columns.requests(nodes):
                found.append(_Source(columns, open_reader(self.store, ref, names), columns.names_all(nodes)))
        return found

    def _file_schema(self, ref: FileRef) -> pa.Schema:
        key = (known_as(self.store, ref.location), ref.size)
        schema = _schemas.get(key)
        if schema is None:
            schema = open_reader(self.store, ref, None).schema
            _schemas.put(key, schema)
        return schema

    def _offsets(self, task: FragmentTask) -> range:
        """The offsets of a task's rows, deleted ones included."""
        return range(self._physical_rows(task)) if task.span is None else range(*task.span)

    def _physical_rows(self, task: FragmentTask) -> int:
        if task.physical_rows or not task.files:
            return task.physical_rows
        return open_reader(self.store, task.files[0], None).num_rows

    def _batch(self, task: FragmentTask, arrays: Sequence[pa.Array], offsets: Offsets) -> pa.RecordBatch:
        left = iter(arrays)
        names = [column for column in self._output if isinstance(column, str)]
        computed = dict(zip(names, self._metadata(task, names, offsets), strict=True))
        columns = [computed[one] if isinstance(one, str) else next(left) for one in self._output]
        if not columns:
            return _no_columns(len(offsets))
        return pa.RecordBatch.from_arrays(columns, schema=self.output)

    def _metadata(self, task: FragmentTask, names: Iterable[str], offsets: Offsets) -> list[pa.Array]:
        return [pa.array(self._metadata_column(task, name, offsets), pa.uint64()) for name in names]

    def _metadata_column(self, task: FragmentTask, name: str, offsets: Offsets) -> Numbers:
        address = offsets.astype(np.uint64) + np.uint64(task.fragment_id << 32)
        if name == ROW_ADDRESS:
            return address
        if name == ROW_ID:
            ids = self.row_ids(task)
            return address if ids is None else ids[offsets]
        if name == ROW_OFFSET:
            deleted = read_deletions(self.store, task.deletions)
            before = np.searchsorted(deleted, offsets)
            return (offsets - before + task.first_position).astype(np.uint64)
        return self.row_versions(task, name)[offsets]

    def row_ids(self, task: FragmentTask) -> Numbers | None:
        """The stable ids of a fragment's rows, deleted ones included; None if the table has none."""
        return None if task.row_ids is None else decode_row_ids(task.row_ids, self._physical_rows(task))

    def row_versions(self, task: FragmentTask, name: str) -> Numbers:
        """The versions that rows were made or last changed by; 1 where the table does not know."""
        data = {CREATED_AT: task.created_at, LAST_UPDATED: task.last_updated}[name]
        rows = self._physical_rows(task)
        return np.ones(rows, np.uint64) if data is None else decode_row_versions(data, rows)


METADATA_FIELDS = {name: pa.field(name, pa.uint64()) for name in METADATA_COLUMNS}


def _is_metadata(name: str, columns: Sequence[str]) -> bool:
    return name in METADATA_COLUMNS and name not in columns


def _may_hold(ref: FileRef, nodes: Iterable[Node]) -> bool:
    listed = set(ref.fields)
    return any(node.id in listed for top in nodes for node in top.walk())


def _build(node: Node, sources: Sequence[_Source], batches: Sequence[pa.RecordBatch | None], rows: int) -> pa.Array:
    """A column from the files that have it; nulls if none has."""
    holders = [
        (source, batch)
        for source, batch in zip(sources, batches, strict=True)
        if batch is not None and source.columns.holds(node)
    ]
    if not holders:
        return pa.nulls(rows, node.arrow.type)
    source, batch = holders[0]
    if len(holders) == 1:
        return source.columns.array(batch, node)
    if node.field.logical_type != "struct":
        raise Unsupported(
            f"column {node.name!r} is spread over several files inside a list", hint="compact the table with pylance"
        )
    children = [_build(child, sources, batches, rows) for child in node.children]
    return rebuild_struct(source.columns.array(batch, node), children, node.arrow.type)


def _aligned(readers: list[Iterator[pa.RecordBatch]]) -> Iterator[tuple[int, list[pa.RecordBatch | None]]]:
    """Batches of several files of a fragment, cut to the same rows."""
    left: list[pa.RecordBatch] = [next(reader, None) for reader in readers]
    while all(batch is not None for batch in left):
        count = min(batch.num_rows for batch in left)
        yield count, [batch if batch.num_rows == count else batch.slice(0, count) for batch in left]
        left = [
            next(reader, None) if batch.num_rows == count else batch.slice(count)
            for reader, batch in zip(readers, left, strict=True)
        ]
    if any(batch is not None and batch.num_rows for batch in left):
        raise MalformedData(
            "the data files of a Lance fragment have different numbers of rows", hint="the table is damaged"
        )


def _no_columns(rows: int) -> pa.RecordBatch:
    """A batch of so many rows and nothing in them."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


@cache
def threads() -> ThreadPoolExecutor:
    """Fragments are read side by side: pylance works outside of Python's lock."""
    return ThreadPoolExecutor(min(16, (os.cpu_count() or 1) * 2), thread_name_prefix="frazil-lance")


def read_task(store: Store, plan: ScanPlan, number: int) -> Iterator[pa.RecordBatch]:
    """The rows of one task of a plan: what a worker runs."""
    return FragmentReader(store, plan).read(plan.fragments[number])
