"""What optimizing looks at: the files of a table by partition, each with the deletes that apply to it.

Tables of any format come down to this. Everything after works on it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from frazil.iceberg.data_file import Content, DataFile, partition_key
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import partition_type
from frazil.iceberg.planning import FileScanTask, ScanPlan
from frazil.mixed.file_names import FileType
from frazil.mixed.plan import MixedPlan, PlannedFile
from frazil.mixed.tree import ROOT, ancestor, node_of
from frazil.model.arrow import array_from_canonical
from frazil.model.binding import bind
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, Expression
from frazil.model.residuals import residuals


class DeleteKind(Enum):
    """What a delete file names rows by."""

    POSITION = "position"
    EQUALITY = "equality"
    CHANGE = "change"
    """A delete file of a change store: by primary key."""


@dataclass(frozen=True, slots=True)
class DeleteInput:
    """A delete file."""

    file: DataFile
    kind: DeleteKind
    transaction_id: int = 0

    @property
    def path(self) -> str:
        return self.file.file_path

    @property
    def key(self) -> tuple[str, int | None]:
        return self.file.key


@dataclass(frozen=True, slots=True)
class DataInput:
    """A data file, and the deletes that apply to it."""

    file: DataFile
    deletes: tuple[DeleteInput, ...] = ()
    is_change: bool = False
    """Whether it is an insert file of a change store."""
    node: int = ROOT
    transaction_id: int = 0

    @property
    def path(self) -> str:
        return self.file.file_path

    @property
    def bytes(self) -> int:
        return self.file.file_size_in_bytes

    @property
    def rows(self) -> int:
        return self.file.record_count

    def of_kind(self, kind: DeleteKind) -> list[DeleteInput]:
        """Its deletes of one kind."""
        return [delete for delete in self.deletes if delete.kind is kind]


@dataclass(slots=True)
class PartitionInput:
    """The files of one partition."""

    path: str
    spec_id: int
    values: tuple[Any, ...]
    files: list[DataInput] = field(default_factory=list)
    sequences: set[int] = field(default_factory=set)
    """The sequence numbers of its change files that are not in the base store yet."""


def by_node(files: Sequence[DataInput], buckets: int) -> list[list[DataInput]]:
    """Files together whose rows may have the same keys, or come into one file of a store with so many buckets: those of
    a node and of all below it.
    """
    found: dict[int, list[DataInput]] = {}
    for file in files:
        found.setdefault(ancestor(file.node, buckets), []).append(file)
    tops = [node for node in found if not any(_is_below(node, other) for other in found if other != node)]
    return [
        [file for node, members in found.items() if node == top or _is_below(node, top) for file in members]
        for top in sorted(tops)
    ]


def _is_below(node: int, above: int) -> bool:
    (mask, index), (outer, place) = node_of(node), node_of(above)
    return mask > outer and index & outer == place


def iceberg_inputs(plan: ScanPlan, metadata: TableMetadata) -> list[PartitionInput]:
    """The partitions of an Iceberg table."""
    found: dict[tuple[Any, ...], PartitionInput] = {}
    types: dict[int, list[Any]] = {}
    for task in plan.tasks():
        file = task.file
        key = (file.spec_id, partition_key(file.partition))
        if key not in found:
            spec = metadata.spec(file.spec_id)
            kinds = types.setdefault(file.spec_id, [column.type for column in partition_type(metadata, spec).fields])
            found[key] = PartitionInput(spec.path_of(kinds, file.partition), file.spec_id, file.partition)
        found[key].files.append(DataInput(file, _deletes(task)))
    return list(found.values())


def mixed_inputs(plan: MixedPlan) -> list[PartitionInput]:
    """The partitions of a keyed table. Change files above the plan's sequences are not in it."""
    found: dict[tuple[Any, ...], PartitionInput] = {}

    def partition(one: PlannedFile) -> PartitionInput:
        file = one.task.file
        key = partition_key(file.partition)
        if key not in found:
            found[key] = PartitionInput(one.partition_path, file.spec_id, file.partition)
        return found[key]

    for task in plan.tasks:
        changes = tuple(DeleteInput(one.task.file, DeleteKind.CHANGE, one.transaction_id) for one in task.deletes)
        for one in (*task.base, *task.inserts):
            is_change = one.place.type is not FileType.BASE
            partition(one).files.append(
                DataInput(one.task.file, (*_deletes(one.task), *changes), is_change, one.node, one.transaction_id)
            )
    for one in _change_files(plan):
        sequence = one.task.file.data_sequence_number
        assert sequence is not None
        partition(one).sequences.add(sequence)
    return list(found.values())


def matching_partitions(
    partitions: Sequence[PartitionInput], metadata: TableMetadata, where: Expression
) -> set[int] | None:
    """The places of the partitions that may have rows that match; None if all may."""
    if isinstance(where, AlwaysTrue):
        return None
    bind(metadata.current_schema, where)  # refuses what is no filter, also where there are no partitions
    found: set[int] = set()
    for spec_id in {one.spec_id for one in partitions}:
        spec = metadata.spec(spec_id)
        places = [place for place, one in enumerate(partitions) if one.spec_id == spec_id]
        kinds = [column.type for column in partition_type(metadata, spec).fields]
        columns = [
            array_from_canonical(kind, [partitions[place].values[number] for place in places])
            for number, kind in enumerate(kinds)
        ]
        which, filters = residuals(metadata.current_schema, spec, where, columns, len(places))
        found.update(
            place for place, number in zip(places, which, strict=True) if not isinstance(filters[number], AlwaysFalse)
        )
    return found


def _change_files(plan: MixedPlan) -> Iterable[PlannedFile]:
    yield from (one for task in plan.tasks for one in (*task.inserts, *task.deletes))
    yield from plan.idle_deletes


def _deletes(task: FileScanTask) -> tuple[DeleteInput, ...]:
    kinds = {Content.POSITION_DELETES: DeleteKind.POSITION, Content.EQUALITY_DELETES: DeleteKind.EQUALITY}
    return tuple(DeleteInput(delete, kinds[delete.content]) for delete in task.deletes)
