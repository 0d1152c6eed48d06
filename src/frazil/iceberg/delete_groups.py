"""Which position delete files are rewritten together: Iceberg's rules for sizes, within a partition.

In format version 3 all of them become vectors: whatever deletes rows of a data file must be in its vector, so a
partition is one group. In version 2 small files are joined. Where each data file has delete files of its own
(`write.delete.granularity`), only those are rewritten that are not so yet: a small one is as it should be.
Delete files that no data file has to do with any more go, whatever their size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.compaction import in_order
from frazil.iceberg.compaction_options import CompactionOptions
from frazil.iceberg.data_file import Content, DataFile, partition_key
from frazil.iceberg.file_filter import FileFilter
from frazil.iceberg.planning import FileScanTask, PlannedFiles, ScanPlan

Key = tuple[str, int | None]
_POSITION_BYTES = 8


@dataclass(frozen=True)
class DeleteGroup:
    """Delete files of one partition, and the data files that they apply to."""

    deletes: tuple[DataFile, ...]
    tasks: tuple[FileScanTask, ...] = field(repr=False)

    @property
    def input_bytes(self) -> int:
        """Their size together."""
        return sum(map(stored_bytes, self.deletes))

    def __len__(self) -> int:
        return len(self.deletes)


@dataclass(frozen=True)
class DeletePlan:
    """What there is to do."""

    dangling: tuple[DataFile, ...]
    """Delete files and vectors that apply to no data file."""
    groups: tuple[DeleteGroup, ...]


def stored_bytes(delete: DataFile) -> int:
    """How large a delete file is: of a vector, its part of the file."""
    return delete.content_size_in_bytes if delete.content_size_in_bytes is not None else delete.file_size_in_bytes


def plan_delete_rewrite(
    plan: ScanPlan, matching: FileFilter, options: CompactionOptions, *, vectors: bool, by_file: bool
) -> DeletePlan:
    """Choose among the delete files of a whole snapshot, in partitions that may hold matching rows."""
    positions = _numbers(plan, matching)
    used = plan.used_deletes
    dangling = [plan.delete_files[number] for number in positions if number not in used]
    chosen = {
        file.key: file
        for file in (plan.delete_files[number] for number in positions if number in used)
        if not file.is_deletion_vector
    }
    if not chosen:
        return DeletePlan(tuple(dangling), ())
    choice = _Choice(chosen, tuple(_tasks(plan, chosen)), options, vectors, by_file)
    groups = in_order(list(choice.groups()), options.rewrite_job_order)
    return DeletePlan(tuple(dangling), tuple(_limited(groups, options.max_files_to_rewrite)))


def _numbers(plan: ScanPlan, matching: FileFilter) -> list[int]:
    """Position delete files and vectors of the partitions that are meant, by their numbers."""
    index = plan.delete_index
    found: list[int] = []
    for part, start in zip(index.parts, index.starts, strict=False):
        mask = (part.numpy(ids.CONTENT) == Content.POSITION_DELETES) & matching.some_partitions(part)
        found += (np.flatnonzero(mask) + start).tolist()
    return found


def _tasks(plan: ScanPlan, chosen: dict[Key, DataFile]) -> Iterator[FileScanTask]:
    """The data files that some of the delete files apply to."""
    index = plan.delete_index
    wanted = np.array([file.key in chosen for file in plan.delete_files], dtype=bool)
    if not len(index):
        return
    for part in plan.parts:
        hits = np.concatenate([[0], np.cumsum(wanted[part.deletes.numbers])])
        mask = hits[part.deletes.offsets[1:]] > hits[part.deletes.offsets[:-1]]
        if mask.any():
            kept: PlannedFiles = part.filter(mask)
            yield from ScanPlan(plan.snapshot, plan.schema, plan.filter, (kept,), index).tasks()


@dataclass(frozen=True)
class _Choice:
    chosen: dict[Key, DataFile]
    tasks: Sequence[FileScanTask]
    options: CompactionOptions
    vectors: bool
    by_file: bool

    def groups(self) -> Iterator[DeleteGroup]:
        """Those that are worth it."""
        for deletes, tasks in self._partitions():
            if self.vectors:
                yield DeleteGroup(tuple(deletes), tuple(tasks))
                continue
            if not self.options.rewrite_all:
                deletes = self._scattered(deletes, tasks) if self.by_file else self._of_wrong_size(deletes)
            for members in self._packed(deletes):
                if self._is_worth_it(members):
                    yield _group(members, tasks)

    def _partitions(self) -> Iterator[tuple[list[DataFile], list[FileScanTask]]]:
        tasks: dict[Any, list[FileScanTask]] = {}
        for task in self.tasks:
            tasks.setdefault(_place(task.file), []).append(task)
        ordered = sorted(self.chosen.values(), key=lambda file: repr(_place(file)))
        for _, members in groupby(ordered, key=lambda file: repr(_place(file))):
            deletes = list(members)
            yield deletes, tasks.get(_place(deletes[0]), [])

    def _of_wrong_size(self, deletes: Iterable[DataFile]) -> list[DataFile]:
        least, most = self.options.min_file_size_bytes, self.options.max_file_size_bytes
        return [file for file in deletes if not least <= file.file_size_in_bytes <= most]

    def _scattered(self, deletes: Sequence[DataFile], tasks: Iterable[FileScanTask]) -> list[DataFile]:
        """All deletes of data files that have more than one delete file, or one that is of others too."""
        mine = {file.key for file in deletes}
        found: set[Key] = set()
        for task in tasks:
            applied = [file for file in task.deletes if file.key in mine]
            if len(applied) > 1 or any(file.target_path is None for file in applied):
                found.update(file.key for file in applied)
        return [file for file in deletes if file.key in found]

    def _packed(self, deletes: Iterable[DataFile]) -> Iterator[list[DataFile]]:
        members: list[DataFile] = []
        size = 0
        for file in sorted(deletes, key=lambda file: file.target_path or ""):
            too_large = size + file.file_size_in_bytes > self.options.max_file_group_size_bytes
            if members and (too_large or len(members) >= self.options.max_file_group_input_files):
                yield members
                members, size = [], 0
            members.append(file)
            size += file.file_size_in_bytes
        if members:
            yield members

    def _is_worth_it(self, members: Sequence[DataFile]) -> bool:
        options = self.options
        if options.rewrite_all:
            return True
        if self.by_file:  # what is small stays small: only the number of files can be mended
            return len(members) >= options.min_input_files
        total = sum(file.file_size_in_bytes for file in members)
        several = len(members) > 1 and self._becomes(members) < len(members)
        many = len(members) >= options.min_input_files or total > options.target_file_size_bytes
        return (several and many) or total > options.max_file_size_bytes

    def _becomes(self, members: Sequence[DataFile]) -> int:
        """About how many files they would be, before compression: a rewrite that mends nothing would never end."""
        return -(-_POSITION_BYTES * sum(file.record_count for file in members) // self.options.target_file_size_bytes)


def _group(members: Sequence[DataFile], tasks: Iterable[FileScanTask]) -> DeleteGroup:
    keys = {file.key for file in members}
    mine = tuple(task for task in tasks if any(file.key in keys for file in task.deletes))
    return DeleteGroup(tuple(members), mine)


def _place(file: DataFile) -> tuple[Any, ...]:
    return file.spec_id, partition_key(file.partition)


def _limited(groups: Sequence[DeleteGroup], most: int | None) -> Iterator[DeleteGroup]:
    """Groups with at most so many files together."""
    left = most
    for group in groups:
        if left is None or len(group) <= left:
            yield group
            left = None if left is None else left - len(group)
