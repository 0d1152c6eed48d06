"""Which files compaction rewrites together: Iceberg's rules, worked out over columns.

A file is a candidate if it is too small, too large, or has many deletes. Candidates of one partition are packed, in the
order of the scan, into groups of a limited size; a group is rewritten if that mends sizes or gets rid of deletes.
Nothing is read or written here: who carries a plan out takes its groups one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.compaction_options import CompactionOptions
from frazil.iceberg.delete_index import partition_codes, target_paths
from frazil.iceberg.entries import Entries, Mask, concat
from frazil.iceberg.planning import FileScanTask, PlannedFiles, ScanPlan
from frazil.iceberg.snapshot import Snapshot
from frazil.model.expressions import AlwaysTrue

Ints = npt.NDArray[np.int64]
_ALL_ROWS = AlwaysTrue()
_ELSEWHERE = -1
"""The code of files that were not written by the output spec: what is in them may go to any partition."""


@dataclass(frozen=True)
class FileGroup:
    """Files to be rewritten together, by one job."""

    spec_id: int
    """The spec of the new files."""
    partition: tuple[Any, ...] | None
    """The partition that all of them are in; None if they were written by other specs."""
    input_bytes: int
    expected_output_files: int
    write_max_file_size: int
    input_split_size: int
    members: Ints = field(repr=False, compare=False)
    """The files, by their numbers in the plan."""
    _files: _Files = field(repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def tasks(self) -> tuple[FileScanTask, ...]:
        """The files, each with its deletes; they are read whole, whatever filter chose them."""
        return self._files.tasks(self.members)

    def __repr__(self) -> str:
        where = "files of other specs" if self.partition is None else f"partition {self.partition}"
        made = self.expected_output_files
        return f"FileGroup({where}: {len(self)} files, {self.input_bytes} bytes, to become {made})"


@dataclass(frozen=True)
class CompactionPlan:
    """The groups to rewrite, in order, and the snapshot that they were planned on: deletes added since conflict."""

    snapshot: Snapshot | None
    options: CompactionOptions
    groups: tuple[FileGroup, ...]

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[FileGroup]:
        return iter(self.groups)

    @property
    def file_count(self) -> int:
        """How many files would be rewritten."""
        return sum(map(len, self.groups))

    @property
    def input_bytes(self) -> int:
        """Their size together."""
        return sum(group.input_bytes for group in self.groups)

    def __repr__(self) -> str:
        made = sum(group.expected_output_files for group in self.groups)
        return (
            f"CompactionPlan({self.file_count} files in {len(self)} groups, {self.input_bytes} bytes, to become {made})"
        )

    def _repr_html_(self) -> str:
        rows = "".join(f"<li>{escape(repr(group))}</li>" for group in self.groups[:20])
        more = f"<p>and {len(self) - 20} more</p>" if len(self) > 20 else ""
        return f"<b>{escape(repr(self))}</b><ul>{rows}</ul>{more}"


def plan_compaction(plan: ScanPlan, options: CompactionOptions) -> CompactionPlan:
    """Choose among the files of a scan those to rewrite. Objects are made when a group's tasks are asked for."""
    files = _Files.of(plan, options.output_spec_id)
    bins = _bins(files, options)
    if options.max_files_to_rewrite is not None:
        bins = _limited(files, bins, options)
    partitions = files.partition_tuples(np.array([members[0] for members in bins], dtype=np.int64))
    groups = []
    for members, partition in zip(bins, partitions, strict=True):
        size = int(files.sizes[members].sum())
        expected, split = options.expected_output_files(size), options.input_split_size(size)
        spec_id, largest = options.output_spec_id, options.write_max_file_size
        groups.append(FileGroup(spec_id, partition, size, expected, largest, split, members, files))
    return CompactionPlan(plan.snapshot, options, tuple(in_order(groups, options.rewrite_job_order)))


@dataclass(frozen=True)
class _Files:
    """What is asked of each file of a plan, as columns over all its parts."""

    sizes: Ints
    records: Ints
    delete_counts: Ints
    deleted: Ints
    """Rows known to be deleted: by deletes of that file alone."""
    partitions: Ints
    """A number for each partition of the output spec."""
    starts: Ints
    """Where each part begins."""
    plan: ScanPlan

    @classmethod
    def of(cls, plan: ScanPlan, spec_id: int) -> _Files:
        parts = plan.parts
        weights = _deleted_by_each(plan)
        return cls(
            _joined([part.entries.numpy(ids.FILE_SIZE) for part in parts]),
            _joined([part.entries.numpy(ids.RECORD_COUNT) for part in parts]),
            _joined([np.diff(part.deletes.offsets) for part in parts]),
            _joined([_sums(weights, part) for part in parts]),
            _partitions(parts, spec_id),
            np.cumsum([0, *(len(part.entries) for part in parts)], dtype=np.int64),
            plan,
        )

    def __len__(self) -> int:
        return len(self.sizes)

    def has_many_deletes(self, options: CompactionOptions) -> Mask:
        """True where the deletes alone are reason enough; a file without any has none however low the threshold."""
        counted = (self.delete_counts >= options.delete_file_threshold) & (self.delete_counts > 0)
        rows = np.maximum(self.records, 1)
        share = np.minimum(self.deleted, self.records) / rows
        mask: Mask = counted | ((self.delete_counts > 0) & (share >= options.delete_ratio_threshold))
        return mask

    def partition_tuples(self, numbers: Ints) -> list[tuple[Any, ...] | None]:
        """The partition of each of these files, None where the output spec did not make it."""
        found: list[tuple[Any, ...] | None] = [None] * len(numbers)
        for part, rows, places in self._by_part(numbers):
            mine = self.partitions[numbers[places]] != _ELSEWHERE
            tuples = part.entries.take(pa.array(rows[mine])).partition_tuples()
            for place, values in zip(places[mine].tolist(), tuples, strict=True):
                found[place] = values
        return found

    def tasks(self, numbers: Ints) -> tuple[FileScanTask, ...]:
        """These files as objects."""
        found: dict[int, FileScanTask] = {}
        for part, rows, places in self._by_part(numbers):
            files = part.entries.take(pa.array(rows)).iter_files()
            for place, row, file in zip(places.tolist(), rows.tolist(), files, strict=True):
                deletes = tuple(self.plan.delete_files[number] for number in part.deletes.of(row))
                found[place] = FileScanTask(file, deletes, _ALL_ROWS)
        return tuple(found[place] for place in range(len(numbers)))

    def _by_part(self, numbers: Ints) -> Iterator[tuple[PlannedFiles, Ints, Ints]]:
        """Each part that has some of these files, their rows in it, and their places among `numbers`."""
        owners = np.searchsorted(self.starts, numbers, "right") - 1
        for owner in np.unique(owners).tolist():
            places = np.flatnonzero(owners == owner)
            yield self.plan.parts[owner], numbers[places] - self.starts[owner], places


def _joined(arrays: list[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)


def _deleted_by_each(plan: ScanPlan) -> Ints:
    """For each delete file, how many rows it deletes, if it names one data file; else 0."""
    found = []
    for part in plan.delete_index.parts:
        named = target_paths(part).is_valid().to_numpy(zero_copy_only=False)
        found.append(np.where(named, part.numpy(ids.RECORD_COUNT), 0))
    return _joined(found)


def _sums(weights: Ints, part: PlannedFiles) -> Ints:
    totals = np.concatenate([[0], np.cumsum(weights[part.deletes.numbers])]).astype(np.int64)
    sums: Ints = totals[part.deletes.offsets[1:]] - totals[part.deletes.offsets[:-1]]
    return sums


def _partitions(parts: tuple[PlannedFiles, ...], spec_id: int) -> Ints:
    """Equal numbers for files of one partition of the output spec."""
    codes = [np.full(len(part.entries), _ELSEWHERE, dtype=np.int64) for part in parts]
    mine = [index for index, part in enumerate(parts) if part.entries.spec.spec_id == spec_id]
    if mine:
        entries = concat([_places(parts[index].entries) for index in mine])
        numbers, _ = partition_codes(entries, entries.slice(0, 0))
        ends = np.cumsum([len(parts[index].entries) for index in mine])[:-1]
        for index, found in zip(mine, np.split(numbers, ends), strict=True):
            codes[index] = found
    return _joined(codes)


def _places(entries: Entries) -> Entries:
    columns = {number: entries.column(number) for number in (ids.FILE_PATH, ids.PARTITION)}
    return Entries(entries.spec, entries.partition_type, columns)


def _bins(files: _Files, options: CompactionOptions) -> list[Ints]:
    """The numbers of the files of each group that is worth it."""
    many_deletes = files.has_many_deletes(options)
    wrong_size = (files.sizes < options.min_file_size_bytes) | (files.sizes > options.max_file_size_bytes)
    chosen = np.flatnonzero(np.ones(len(files), dtype=bool) if options.rewrite_all else wrong_size | many_deletes)
    chosen = chosen[np.argsort(files.partitions[chosen], kind="stable")]
    starts = _starts(files.partitions[chosen], files.sizes[chosen], options)
    if not len(starts):
        return []
    counts = np.diff(np.append(starts, len(chosen)))
    totals = np.add.reduceat(files.sizes[chosen], starts)
    several = counts > 1
    worth = (several & (counts >= options.min_input_files)) | (several & (totals > options.target_file_size_bytes))
    worth |= totals > options.max_file_size_bytes
    worth |= np.logical_or.reduceat(many_deletes[chosen], starts)
    bins = np.split(chosen, starts[1:])
    return [members for members, kept in zip(bins, worth | options.rewrite_all, strict=True) if kept]


def _starts(partitions: Ints, sizes: Ints, options: CompactionOptions) -> Ints:
    """Where a new group begins: at each partition, and where the next file would make the group too large."""
    if not len(sizes):
        return np.zeros(0, dtype=np.int64)
    firsts = np.flatnonzero(np.append(True, partitions[1:] != partitions[:-1]))
    ends = np.append(firsts[1:], len(sizes))
    before = np.concatenate([[0], np.cumsum(sizes)])
    most_files = min(options.max_file_group_input_files, len(sizes))
    found = list(firsts)
    whole = (before[ends] - before[firsts] <= options.max_file_group_size_bytes) & (ends - firsts <= most_files)
    for first, end in zip(firsts[~whole].tolist(), ends[~whole].tolist(), strict=True):
        start = first
        while True:
            full = int(np.searchsorted(before, before[start] + options.max_file_group_size_bytes, "right")) - 1
            start = min(max(full, start + 1), start + most_files)
            if start >= end:
                break
            found.append(start)
    return np.sort(np.array(found, dtype=np.int64))


def _limited(files: _Files, bins: list[Ints], options: CompactionOptions) -> list[Ints]:
    """The first groups, with at most so many files together; a small file that is left over alone is of no use."""
    useful = files.has_many_deletes(options) | (files.sizes > options.max_file_size_bytes) | options.rewrite_all
    left = options.max_files_to_rewrite or 0
    result = []
    for members in bins:
        taken = members[:left]
        if len(taken) > 1 or useful[taken].any():
            result.append(taken)
            left -= len(taken)
    return result


class Group(Protocol):
    """Some files that are rewritten together."""

    @property
    def input_bytes(self) -> int: ...

    def __len__(self) -> int: ...


G = TypeVar("G", bound=Group)


def in_order(groups: list[G], order: str) -> list[G]:
    """Groups as `rewrite-job-order` says."""
    what, _, direction = order.partition("-")
    if what == "bytes":
        return sorted(groups, key=lambda group: group.input_bytes, reverse=direction == "desc")
    if what == "files":
        return sorted(groups, key=len, reverse=direction == "desc")
    return groups
