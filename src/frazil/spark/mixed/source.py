"""What a query reads of a keyed table: both stores, within one pair of snapshots."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from frazil.iceberg.data_file import partition_key
from frazil.mixed.file_names import FileType
from frazil.mixed.keys import key_fields
from frazil.mixed.optimized import Optimized, read_optimized
from frazil.mixed.plan import MixedPlan, PlannedFile, StoreState, about, plan_merge, visible_changes
from frazil.mixed.tree import related
from frazil.mixed.visible import PartitionPaths
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.model.schema import Schema
from frazil.recent import Recent
from frazil.spark.scan.filters import numbered
from frazil.spark.scan.options import reader_settings, scan_mode

if TYPE_CHECKING:
    from frazil.spark.mixed.handle import MixedHandle

_REMEMBERED = 16


@dataclass(frozen=True)
class VisibleChanges:
    """The change files of a pair of snapshots that are not in the base store yet."""

    inserts: Mapping[str, PlannedFile]
    deletes: Mapping[str, PlannedFile]
    """By path. Rows of these say which keys are gone."""

    @property
    def delete_rows(self) -> int:
        return sum(one.task.file.record_count for one in self.deletes.values())


_known: Recent[tuple[str, int | None, int | None], VisibleChanges] = Recent(_REMEMBERED)


def forget() -> None:
    """Forget what is remembered, as if no pair had been looked at."""
    _known.clear()


@dataclass(frozen=True)
class MixedSource:
    """A pair of snapshots with a schema of the table; `key` tells it from all others."""

    base: StoreState
    change: StoreState
    schema: Schema
    keys: tuple[int, ...]
    """The field ids of the primary key, in its order."""
    key: str
    name: str
    mode: str
    options: Mapping[str, str] = field(default_factory=dict)
    filtered: Sequence[str] = ()

    @property
    def settings(self) -> dict[str, str]:
        """Settings of Spark for this read alone."""
        return reader_settings(self.options, self.base.metadata.properties)

    @cached_property
    def optimized(self) -> Optimized:
        """Up to which change each partition is in the base store."""
        return read_optimized(self.base.metadata, self.base.store, self.base.snapshot)

    @cached_property
    def changes(self) -> VisibleChanges:
        """All change files that are still to be merged. Snapshots never change: the answer is remembered."""
        metadata = self.base.metadata
        base, change = (None if one.snapshot is None else one.snapshot.snapshot_id for one in (self.base, self.change))
        key = (f"{metadata.table_uuid} {metadata.location}", base, change)
        found = _known.get(key)
        if found is None:
            found = self._find_changes()
            _known.put(key, found)
        return found

    def _find_changes(self) -> VisibleChanges:
        plan = self.change.plan(numbered(self.schema), AlwaysTrue(), case_sensitive=True)
        files = list(visible_changes(plan.tasks(), PartitionPaths(self.base.metadata), self.optimized))
        gone = {one.path: one for one in files if one.place.type is FileType.EQ_DELETE}
        return VisibleChanges({one.path: one for one in files if one.path not in gone}, gone)

    def deletes(self, schema: Schema, where: Expression) -> ChangeDeletes:
        """The deletes that may hit rows which match a filter, bound to a schema of the same ids.

        Partitions are pruned by all that the filter says; metrics only by what it says of the key, since only that
        holds for a delete as for the rows it deletes.
        """
        files = self.changes.deletes
        if files and not isinstance(where, AlwaysTrue):
            paths = set(self.change.plan(schema, where, case_sensitive=True, metrics_tell=False).file_paths)
            of_keys = about(where, self.keys)
            if not isinstance(of_keys, AlwaysTrue):
                paths &= set(self.change.plan(schema, of_keys, case_sensitive=True).file_paths)
            files = {path: one for path, one in files.items() if path in paths}
        return ChangeDeletes(files.values())

    def plan(self, where: Expression) -> MixedPlan:
        """The tasks of the kernel's own merge, with a filter that is bound to the numbered schema."""
        return plan_merge(self.base, self.change, self.optimized, numbered(self.schema), where, keys=self.keys)


@dataclass(frozen=True)
class DeleteGroup:
    """The files of deletes that may have keys of a node's rows, and their newest transaction, -1 if there are none."""

    files: tuple[PlannedFile, ...]
    newest: int

    @cached_property
    def paths(self) -> tuple[str, ...]:
        return tuple(one.path for one in self.files)


class ChangeDeletes:
    """Files of deletes, by the partition and the node that they can hit."""

    def __init__(self, files: Collection[PlannedFile]) -> None:
        self._by_partition: dict[tuple[Any, ...], list[PlannedFile]] = {}
        for one in files:
            self._by_partition.setdefault(partition_key(one.task.file.partition), []).append(one)
        self._found: dict[tuple[tuple[Any, ...], int], DeleteGroup] = {}

    def of(self, partition: tuple[Any, ...], node: int) -> DeleteGroup:
        """Those that may have keys of a file's rows; the same for all files of a node."""
        key = (partition_key(partition), node)
        found = self._found.get(key)
        if found is None:
            near = tuple(one for one in self._by_partition.get(key[0], ()) if related(one.node, node))
            newest = max((one.transaction_id for one in near), default=-1)
            found = self._found[key] = DeleteGroup(near, newest)
        return found


def source_of(handle: MixedHandle, mode: str | None, filtered: Sequence[str] = ()) -> MixedSource:
    """What a handle reads, with the options it was given; `mode` is the session's."""
    base, change = handle.base, handle.change
    return MixedSource(
        StoreState(base.metadata, base.store, handle.pair.base),
        StoreState(change.metadata, change.store, handle.pair.change),
        handle.schema,
        tuple(column.id for column in key_fields(handle.schema, handle.table.primary_key)),
        handle.rows,
        handle.name,
        scan_mode(handle.options, mode),
        handle.options,
        filtered,
    )
