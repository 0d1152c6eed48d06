"""Evaluation of partitions: what kind of optimizing they need, if any, and how healthy they are.

Files are of three classes by size: *fragments*, *undersized* ones, and those that have the target size. All insert
files of a change store are fragments. The rules are Amoro's, with its loops taken out: a partition at rest needs
nothing, however often it is asked. And with one that Amoro has not: small files of a base store rest while they are
larger than all that would be merged with them, so that a stream of changes does not write them anew each time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from frazil.mixed.tree import MAX_BUCKETS
from frazil.optimize.inputs import DataInput, DeleteInput, DeleteKind, PartitionInput, by_node
from frazil.optimize.settings import Settings

_LARGER = 1.5
"""A small file rests if it is larger than all that it would be merged with, by this factor."""


class Kind(IntEnum):
    """Kinds of optimizing, in the order of their cost."""

    MINOR = 1
    MAJOR = 2
    FULL = 3


@dataclass(frozen=True, slots=True)
class Clock:
    """What time it is, and when a table was last optimized, in milliseconds."""

    now_ms: int
    last_minor_ms: int = 0
    last_full_ms: int = 0
    base_optimized_ms: Mapping[str, int] = field(default_factory=dict)
    """By partition path."""


@dataclass(slots=True)
class Tally:
    """How many files there are of a class, and how large they are."""

    files: int = 0
    bytes: int = 0
    rows: int = 0

    def add(self, size: int, rows: int) -> None:
        self.files += 1
        self.bytes += size
        self.rows += rows


@dataclass(frozen=True, slots=True)
class Health:
    """A score from 0 to 100: 40 for sizes of files, 40 for equality deletes, 20 for position deletes."""

    small_files: int = 40
    equality_deletes: int = 40
    position_deletes: int = 20
    reasons: tuple[str, ...] = ()

    @property
    def score(self) -> int:
        return self.small_files + self.equality_deletes + self.position_deletes


class PartitionEvaluation:
    """One partition, evaluated."""

    def __init__(self, partition: PartitionInput, settings: Settings, clock: Clock, *, is_keyed: bool) -> None:
        self.partition = partition
        self.settings = settings
        self._clock = clock
        self._is_keyed = is_keyed
        self.is_full = 0 <= settings.full_interval_ms < clock.now_ms - clock.last_full_ms
        self.fragments, self.undersized, self.reached = Tally(), Tally(), Tally()
        self.equality, self.position = Tally(), Tally()
        self.rewrite: list[DataInput] = []
        self.merge: list[DataInput] = []
        """Undersized files, to be merged with others."""
        self.convert: list[DataInput] = []
        """Files that stay, and whose deletes become one position delete file."""
        self._rewritten_segments = self._combined = 0
        self._resting = self._at_rest() if is_keyed and not self.is_full else frozenset()
        for file in partition.files:
            self._add(file)
        self._count_deletes()
        self._share_conversions()

    # Files.

    def is_fragment(self, file: DataInput) -> bool:
        """Whether a file is small, or waits in the change store."""
        return file.is_change or file.bytes <= self.settings.fragment_size

    def is_undersized(self, file: DataInput) -> bool:
        """Whether a file is worth merging with another one."""
        return not self.is_fragment(file) and file.bytes <= self.settings.min_target_size

    def is_unsorted(self, file: DataInput) -> bool:
        """Whether a file is of another order than the table's files should be."""
        return self.settings.order_id is not None and file.file.sort_order_id != self.settings.order_id

    def should_rewrite(self, file: DataInput) -> bool:
        """Whether a file is written anew."""
        small = self.is_fragment(file)
        if self.is_full:
            light = bool(file.deletes) or small or self.is_undersized(file) or self.is_unsorted(file)
            return self.settings.full_rewrites_all or light
        return (small and file.path not in self._resting) or self._lost_many(file)

    def _lost_many(self, file: DataInput) -> bool:
        deleted = sum(delete.file.record_count for delete in file.of_kind(DeleteKind.POSITION))
        return deleted > file.rows * self.settings.duplicate_ratio

    def should_convert(self, file: DataInput) -> bool:
        """Whether a file that stays needs its deletes made into one file of positions."""
        positions = file.of_kind(DeleteKind.POSITION)
        if len(positions) < len(file.deletes) or len(positions) > 1:
            return True
        # one delete file for several data files keeps all of them from being at rest
        return not self._is_keyed and any(delete.file.target_path != file.path for delete in positions)

    def by_node(self, files: Sequence[DataInput]) -> list[list[DataInput]]:
        """Files together that are rewritten together: of the same node of the base store. Changes of deeper nodes stay
        apart, as in Amoro, where the run after may join them, unless all is rewritten or rows get an order.
        """
        apart = self.has_changes and not self.is_full and not self.settings.is_arranged
        return by_node(files, MAX_BUCKETS if apart else self.settings.base_buckets)

    def _at_rest(self) -> frozenset[str]:
        """Small base files that are larger than the changes of their node and all files that are smaller, together."""
        found: set[str] = set()
        small = [file for file in self.partition.files if self.is_fragment(file)]
        for group in self.by_node(small):
            others = sum(file.bytes for file in group if file.is_change)
            alone: DataInput | None = None  # it has nothing to be merged with yet
            for file in sorted((file for file in group if not file.is_change), key=lambda file: file.bytes):
                if file.bytes <= _LARGER * others:
                    alone = None
                    others += file.bytes
                    continue
                if alone is not None:
                    found.add(alone.path)
                alone, others = file, file.bytes
            if alone is not None:
                found.add(alone.path)
        return frozenset(found)

    def _add(self, file: DataInput) -> None:
        if self.is_fragment(file):
            self.fragments.add(file.bytes, file.rows)
        elif self.is_undersized(file):
            self.undersized.add(file.bytes, file.rows)
        else:
            self.reached.add(file.bytes, file.rows)
        if self.should_rewrite(file):
            self.rewrite.append(file)
            self._rewritten_segments += 0 if self.is_fragment(file) else 1
        elif self.is_undersized(file):
            self.merge.append(file)
        elif self.should_convert(file):
            self.convert.append(file)
            self._combined += len(file.of_kind(DeleteKind.POSITION)) > 1

    def _count_deletes(self) -> None:
        for delete in _deletes_of([*self.rewrite, *self.merge, *self.convert]):
            tally = self.position if delete.kind is DeleteKind.POSITION else self.equality
            tally.add(delete.file.file_size_in_bytes, delete.file.record_count)

    def _share_conversions(self) -> None:
        """Files that share a delete file are converted together: else it stays, and they are never at rest."""
        planned = {file.path for file in (*self.rewrite, *self.merge, *self.convert)}
        shared = {delete.key for file in self.convert for delete in file.of_kind(DeleteKind.POSITION)}
        for file in self.partition.files:
            if file.path not in planned and any(delete.key in shared for delete in file.deletes):
                self.convert.append(file)

    # What is needed.

    @property
    def has_changes(self) -> bool:
        """Whether changes wait to be moved to the base store. Deletes alone count too, which in Amoro wait for ever."""
        return bool(self.partition.sequences)

    @property
    def only_sequence(self) -> bool:
        """Whether there is nothing but deletes of keys that no row has: nothing to write, but to be done with."""
        return not self.partition.files and bool(self.partition.sequences)

    @property
    def kind(self) -> Kind | None:
        """The optimizing that the partition needs."""
        if not self.settings.enabled:
            return None
        if self.is_full:
            return Kind.FULL if self._needs_full() else None
        if self._needs_major():
            return Kind.MAJOR
        return Kind.MINOR if self._needs_minor() else None

    def _buckets(self) -> int:
        return self.settings.base_buckets if self._is_keyed else 1

    def _needs_full(self) -> bool:
        deletes = any(file.deletes for file in self.partition.files)
        merges = self.undersized.files > 1 and not self._is_keyed
        unsorted = any(map(self.is_unsorted, self.partition.files))
        return deletes or self.fragments.files > self._buckets() or merges or unsorted or self.has_changes

    def _needs_major(self) -> bool:
        return self._merges() or self._rewritten_segments > 0

    def _merges(self) -> bool:
        """Whether there are files worth merging. Amoro looks at all nodes together, whose files can never be one."""
        return any(map(self._merge_well, self.by_node(self.merge) if self._is_keyed else [self.merge]))

    def _merge_well(self, files: Sequence[DataInput]) -> bool:
        sizes = sorted(file.bytes for file in files)
        fits = len(sizes) > 1 and sizes[0] + sizes[1] <= self.settings.target_size
        return fits and (self.settings.merges_early or sum(sizes) >= self.settings.target_size)

    def _needs_minor(self) -> bool:
        if self._is_keyed:
            return (
                self._small >= max(self._buckets() + 1, self.settings.minor_files)
                or ((self._small > self._buckets() or self.has_changes) and self._waited)
                or (self.has_changes and self._refresh_is_due())
            )
        return self._small >= self.settings.minor_files or (self._small > 1 and self._waited) or self._combined > 0

    @property
    def _small(self) -> int:
        return self.fragments.files - len(self._resting) + self.equality.files

    @property
    def _waited(self) -> bool:
        return 0 <= self.settings.minor_interval_ms < self._clock.now_ms - self._clock.last_minor_ms

    @property
    def reason(self) -> str:
        """Why it needs what it needs, or nothing, in words."""
        kind = self.kind
        if kind is None:
            return self._idle_reason()
        if kind is Kind.FULL:
            asked = self.settings.full_is_asked
            return f"{self.where}: {'a full one was asked for' if asked else 'the time for a full one has come'}"
        if kind is Kind.MAJOR:
            if self._rewritten_segments:
                return f"{self.where}: {counted(self._rewritten_segments, 'large file')} lost many rows to deletes"
            size = sum(file.bytes for file in self.merge)
            return (
                f"{self.where}: {counted(len(self.merge), 'file')} below the target size have {as_size(size)} together"
            )
        if self.has_changes:
            return f"{self.where}: {counted(len(self.partition.sequences), 'commit')} of changes to take in"
        if self._combined and self._small <= 1:
            return f"{self.where}: {counted(self._combined, 'file')} with several delete files"
        small, equality = counted(self.fragments.files, "small file"), counted(self.equality.files, "equality delete")
        return f"{self.where}: {small}, {equality}"

    def _idle_reason(self) -> str:
        if not self.settings.enabled:
            return f"{self.where}: self-optimizing.enabled is false"
        if not self.is_full and (self._small > self._buckets() or self.has_changes):
            return f"{self.where}: {counted(self._small, 'small file')}, which wait for more, or for their time"
        return f"{self.where}: nothing to gain"

    @property
    def where(self) -> str:
        """The partition, as people name it."""
        return f"partition {self.partition.path}" if self.partition.path else "the table"

    def _refresh_is_due(self) -> bool:
        interval = self.settings.base_refresh_ms
        last = self._clock.base_optimized_ms.get(self.partition.path, 0)
        return 0 <= interval < self._clock.now_ms - last

    @property
    def cost(self) -> int:
        """About how many bytes are read and written. To convert deletes, only keys of the rows are read."""
        whole = sum(file.bytes for file in (*self.rewrite, *self.merge))
        files = len(self.rewrite) + len(self.merge) + len(self.convert) + self.equality.files + self.position.files
        converted = sum(file.bytes for file in self.convert) // 10
        deletes = self.equality.bytes + self.position.bytes
        return whole * 2 + converted + deletes + files * self.settings.open_file_cost

    # How healthy it is.

    @property
    def health(self) -> Health:
        """The score of the partition: of its small files, also those at rest, and of large ones with deletes to be done
        with. It does not depend on what is asked for.
        """
        ill = [
            file
            for file in self.partition.files
            if file.bytes <= self.settings.small_size
            or file.is_change
            or self._lost_many(file)
            or self.should_convert(file)
        ]
        files, size = len(ill), sum(file.bytes for file in ill)
        if files <= 1:
            return Health()
        rows, deleted = sum(file.rows for file in ill), {True: 0, False: 0}
        for delete in _deletes_of(ill):
            deleted[delete.kind is DeleteKind.POSITION] += delete.file.record_count
        weight = _share(files, self.settings.minor_files) * _share(size, self.settings.min_target_size)
        small = 1 - _share(size // files, self.settings.min_target_size)
        equality = _share(_share(deleted[False], rows), self.settings.duplicate_ratio)
        position = _share(_share(deleted[True], rows), self.settings.duplicate_ratio * 2)
        parts = ((40, small), (40, equality), (20, position))
        scores = [math.ceil(most - weight * most * part) for most, part in parts]
        reasons = self._reasons(scores, size // files, rows, deleted[False], deleted[True])
        return Health(scores[0], scores[1], scores[2], tuple(reasons))

    def _reasons(self, scores: Sequence[int], average: int, rows: int, by_key: int, by_position: int) -> Iterable[str]:
        where = self.where
        files = self.fragments.files + self.undersized.files
        if scores[0] < 40:
            enough = as_size(self.settings.min_target_size)
            yield f"{where} has {files} small files: {as_size(average)} on average, and {enough} would be enough"
        if scores[1] < 40:
            yield f"{where} has {by_key} deletes by key for {rows} rows"
        if scores[2] < 20:
            yield f"{where} has {by_position} deletes by position for {rows} rows"


def _deletes_of(files: Iterable[DataInput]) -> Iterable[DeleteInput]:
    """The deletes of files, each once."""
    return {delete.key: delete for file in files for delete in file.deletes}.values()


def table_health(partitions: Sequence[PartitionEvaluation]) -> Health:
    """The mean of the partitions' scores, rounded up."""
    if not partitions:
        return Health()
    found = [partition.health for partition in partitions]

    def mean(values: Iterable[int]) -> int:
        return math.ceil(sum(values) / len(found))

    return Health(
        mean(one.small_files for one in found),
        mean(one.equality_deletes for one in found),
        mean(one.position_deletes for one in found),
        tuple(reason for one in found for reason in one.reasons),
    )


def _share(part: float, whole: float) -> float:
    return 0 if whole <= 0 else min(part, whole) / whole


def counted(count: int, what: str) -> str:
    """A number of things: `1 file`, `3 files`, `3 files of rows`."""
    thing, of, more = what.partition(" of ")
    return f"{count:,} {thing}{'' if count == 1 else 's'}{of}{more}"


def as_size(count: int) -> str:
    """Bytes, as people write them."""
    for unit in ("bytes", "KB", "MB"):
        if count < 1024:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GB"
