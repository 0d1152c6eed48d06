"""The plan of a merge: for each partition and node, the files to read and the change deletes to apply to them.

A plan is data. Each file has constants that hold for all its rows: its transaction, its node and what it stands for.
Any engine can execute it: this process does in `frazil.mixed.merge`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import pyarrow as pa

from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import partition_key
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FileScanTask, Planner, ScanPlan
from frazil.iceberg.snapshot import Snapshot
from frazil.io.store import Store
from frazil.mixed.file_names import FilePlace, FileType, parse_base, parse_change
from frazil.mixed.optimized import Optimized
from frazil.mixed.tree import related
from frazil.mixed.visible import PartitionPaths, check_paths, is_visible
from frazil.model.binding import field_ids
from frazil.model.expressions import AlwaysTrue, And, Expression, and_
from frazil.model.schema import Schema

LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StoreState:
    """One store at one snapshot."""

    metadata: TableMetadata
    store: Store
    snapshot: Snapshot | None

    def plan(self, schema: Schema, where: Expression, *, case_sensitive: bool, metrics_tell: bool = True) -> ScanPlan:
        """The files that may hold matching rows."""
        context = Context(self.metadata, self.store)
        return Planner(self.metadata, context.reader).plan(
            self.snapshot,
            context.manifests(self.snapshot),
            schema,
            where,
            case_sensitive=case_sensitive,
            metrics_tell=metrics_tell,
        )


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file with what holds for all its rows."""

    task: FileScanTask
    place: FilePlace
    partition_path: str

    @property
    def path(self) -> str:
        return self.task.file.file_path

    @property
    def node(self) -> int:
        return self.place.node

    @property
    def transaction_id(self) -> int:
        return self.place.transaction_id


@dataclass(frozen=True, slots=True)
class NodeTask:
    """The rows of one node of one partition: base and inserted ones, less what the deletes say."""

    partition: tuple[Any, ...]
    partition_path: str
    node: int
    base: tuple[PlannedFile, ...]
    inserts: tuple[PlannedFile, ...]
    deletes: tuple[PlannedFile, ...]

    @property
    def bytes(self) -> int:
        """The bytes of all its files."""
        return sum(one.task.file.file_size_in_bytes for one in (*self.base, *self.inserts, *self.deletes))


@dataclass(frozen=True)
class MixedPlan:
    """What a scan of a keyed table reads, within one pair of snapshots."""

    base: StoreState
    change: StoreState
    schema: Schema
    filter: Expression
    tasks: tuple[NodeTask, ...]
    optimized: Optimized
    idle_deletes: tuple[PlannedFile, ...] = ()
    """Change deletes of no task: no file can hold a row of their keys."""

    def __len__(self) -> int:
        return len({one.path for one in self.files()})

    def files(self) -> Iterator[PlannedFile]:
        """All files, each once."""
        seen: set[str] = set()
        for task in self.tasks:
            for one in (*task.base, *task.inserts, *task.deletes):
                if one.path not in seen:
                    seen.add(one.path)
                    yield one

    @property
    def record_count(self) -> int:
        """Rows of base and insert files, deleted ones included."""
        return sum(one.task.file.record_count for task in self.tasks for one in (*task.base, *task.inserts))

    @property
    def total_bytes(self) -> int:
        """Bytes of all files."""
        return sum(one.task.file.file_size_in_bytes for one in self.files())

    @property
    def has_change_deletes(self) -> bool:
        return any(task.deletes for task in self.tasks)

    def to_arrow(self) -> pa.Table:
        """A row for each file of each task, with its constants: what an engine needs beside the files."""
        rows: dict[str, list[Any]] = {name: [] for name in _ARROW.names}
        for number, task in enumerate(self.tasks):
            for one in (*task.base, *task.inserts, *task.deletes):
                values = (
                    *(number, task.partition_path, task.node, one.path, one.place.type.value, one.node),
                    *(one.transaction_id, one.task.file.data_sequence_number, one.task.file.record_count),
                    *(one.task.file.file_size_in_bytes, [delete.file_path for delete in one.task.deletes]),
                )
                for name, value in zip(_ARROW.names, values, strict=True):
                    rows[name].append(value)
        return pa.table(rows, _ARROW)

    def __repr__(self) -> str:
        return (
            f"MixedPlan({len(self.tasks)} tasks, {len(self)} files, {self.record_count} rows, {self.total_bytes} bytes)"
        )

    def _repr_html_(self) -> str:
        return f"<b>{escape(repr(self))}</b>{self.to_arrow().slice(0, 20).to_pandas().to_html()}"


_ARROW = pa.schema(
    {
        "task": pa.int64(),
        "partition": pa.string(),
        "task_node": pa.int64(),
        "file_path": pa.string(),
        "type": pa.string(),
        "node": pa.int64(),
        "transaction_id": pa.int64(),
        "data_sequence_number": pa.int64(),
        "record_count": pa.int64(),
        "file_size_in_bytes": pa.int64(),
        "position_deletes": pa.list_(pa.string()),
    }
)


def plan_merge(
    base: StoreState,
    change: StoreState,
    optimized: Optimized,
    schema: Schema,
    where: Expression,
    *,
    keys: Collection[int] = (),
    case_sensitive: bool = True,
    last_sequence: int = LAST,
) -> MixedPlan:
    """Plan a read of both stores, of changes up to a sequence number.

    Filters prune base files by all they tell. Of change files only the partitions are pruned: a delete must be seen
    whatever else its row says. What a filter says about the key alone, given the ids of its columns, holds for a delete
    as for the rows it deletes.
    """
    paths = PartitionPaths(base.metadata)
    of_base = base.plan(schema, where, case_sensitive=case_sensitive)
    of_change = change.plan(schema, where, case_sensitive=case_sensitive, metrics_tell=False)
    groups: dict[tuple[Any, ...], _Partition] = {}
    for task in of_base.tasks():
        _put(groups, PlannedFile(task, parse_base(task.file.file_path), paths.of(task.file)))
    of_keys = about(of_change.filter, keys)
    for one in visible_changes(of_change.tasks(), paths, optimized, last_sequence):
        deletes_rows = one.place.type is FileType.EQ_DELETE
        _put(groups, replace(one, task=replace(one.task, residual=of_keys)) if deletes_rows else one)
    tasks = tuple(task for group in groups.values() for task in group.tasks())
    applied = {one.path for task in tasks for one in task.deletes}
    deletes = (one for group in groups.values() for files in group.deletes.values() for one in files.values())
    idle = tuple(one for one in deletes if one.path not in applied)
    return MixedPlan(base, change, schema, of_base.filter, tasks, optimized, idle)


def visible_changes(
    tasks: Iterable[FileScanTask], paths: PartitionPaths, optimized: Optimized, last_sequence: int = LAST
) -> Iterator[PlannedFile]:
    """The change files that are still to be merged, of changes up to a sequence number."""
    listed = list(tasks)
    check_paths((task.file for task in listed), paths, optimized)
    for task in listed:
        path, sequence = paths.of(task.file), task.file.data_sequence_number
        assert sequence is not None
        if is_visible(task.file, path, optimized) and sequence <= last_sequence:
            yield PlannedFile(task, parse_change(task.file.file_path, sequence), path)


def about(bound: Expression, columns: Collection[int]) -> Expression:
    """The part of a filter that is about these columns alone."""
    parts = bound.operands if isinstance(bound, And) else (bound,)
    return and_(*(part for part in parts if field_ids(part) and field_ids(part) <= set(columns)), AlwaysTrue())


class _Partition:
    """The files of one partition, by node."""

    def __init__(self, values: tuple[Any, ...], path: str) -> None:
        self.values = values
        self.path = path
        self.base: dict[int, dict[str, PlannedFile]] = {}
        self.inserts: dict[int, dict[str, PlannedFile]] = {}
        self.deletes: dict[int, dict[str, PlannedFile]] = {}

    def tasks(self) -> Iterator[NodeTask]:
        for node in sorted({*self.base, *self.inserts}):
            deletes = (one for other, files in self.deletes.items() if related(node, other) for one in files.values())
            yield NodeTask(
                self.values,
                self.path,
                node,
                _of(self.base, node),
                _of(self.inserts, node),
                tuple(deletes),
            )


def _of(files: Mapping[int, Mapping[str, PlannedFile]], node: int) -> tuple[PlannedFile, ...]:
    return tuple(files.get(node, {}).values())


def _put(groups: dict[tuple[Any, ...], _Partition], one: PlannedFile) -> None:
    values = one.task.file.partition
    group = groups.setdefault(partition_key(values), _Partition(values, one.partition_path))
    kinds = {FileType.BASE: group.base, FileType.EQ_DELETE: group.deletes}
    files = kinds.get(one.place.type, group.inserts)
    files.setdefault(one.node, {})[one.path] = one
