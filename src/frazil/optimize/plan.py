"""Plans of optimizing: which files of which partitions one task rewrites, and which deletes it makes into positions."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from frazil.optimize.evaluate import Clock, Health, Kind, PartitionEvaluation, table_health
from frazil.optimize.inputs import DataInput, DeleteInput, DeleteKind, PartitionInput
from frazil.optimize.settings import Settings

UNLIMITED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Files that are read together: some are written anew, of others only the deletes."""

    partition: PartitionInput
    rewrite: tuple[DataInput, ...]
    convert: tuple[DataInput, ...]
    removable: tuple[DeleteInput, ...]
    """Position and equality delete files that no file needs any more after it."""

    @property
    def deletes(self) -> tuple[DeleteInput, ...]:
        """All deletes that apply to its files, each once."""
        found = {delete.key: delete for file in (*self.rewrite, *self.convert) for delete in file.deletes}
        return tuple(found.values())

    @property
    def transaction_id(self) -> int:
        """The transaction that rewritten rows count to: the last one of their files; deletes do not count."""
        return max((file.transaction_id for file in self.rewrite), default=0)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in (*self.rewrite, *self.convert))


@dataclass(frozen=True, slots=True)
class OptimizingPlan:
    """What one run of optimizing does to a table; nothing, if it has no kind."""

    kind: Kind | None
    tasks: tuple[RewriteTask, ...]
    from_sequence: dict[str, int]
    to_sequence: dict[str, int]
    """By partition path: the change commits that are in the base store afterwards."""
    health: Health
    reasons: tuple[str, ...] = ()
    """For each partition that is optimized why, or if there is none, for the others why not."""

    @property
    def input_bytes(self) -> int:
        """How large the files are that are read."""
        return sum(task.bytes for task in self.tasks)

    @property
    def input_files(self) -> int:
        """How many files are read."""
        files = {file.path for task in self.tasks for file in (*task.rewrite, *task.convert)}
        return len(files | {delete.path for task in self.tasks for delete in task.deletes})

    def __bool__(self) -> bool:
        return self.kind is not None

    def lost_with(self, failed: Collection[int]) -> set[int]:
        """The numbers of tasks that cannot be committed if some failed: changes of a partition are moved as a whole."""
        moved = {self.tasks[number].partition.path for number in failed} & set(self.to_sequence)
        return {number for number, task in enumerate(self.tasks) if number in failed or task.partition.path in moved}

    def without(self, lost: Collection[int]) -> OptimizingPlan:
        """What is left without tasks of these numbers; deletes that their files need stay."""
        gone = [self.tasks[number] for number in lost]
        needed = {delete.key for task in gone for delete in task.deletes}
        paths = {task.partition.path for task in gone}
        left = (
            replace(task, removable=tuple(one for one in task.removable if one.key not in needed))
            for number, task in enumerate(self.tasks)
            if number not in lost
        )
        return replace(
            self,
            tasks=tuple(left),
            from_sequence={path: number for path, number in self.from_sequence.items() if path not in paths},
            to_sequence={path: number for path, number in self.to_sequence.items() if path not in paths},
        )

    def __repr__(self) -> str:
        if self.kind is None:
            return f"OptimizingPlan(nothing to do, health {self.health.score})"
        return f"OptimizingPlan({self.kind.name.lower()}, {len(self.tasks)} tasks, health {self.health.score})"


def plan_optimizing(
    partitions: Iterable[PartitionInput],
    settings: Settings,
    clock: Clock,
    *,
    is_keyed: bool = False,
    most_bytes: int | None = None,
    among: Container[int] | None = None,
    vain: Container[int] = (),
) -> OptimizingPlan:
    """Plan the optimizing that partitions need: those that cost most first, up to `most_bytes` in all.

    All partitions of the table must be given, since they may have deletes in common; with `among` only those at these
    places are looked at. `vain` are the sequence numbers of commits of optimizing by which files did not become fewer.
    """
    evaluated = [PartitionEvaluation(one, settings, clock, is_keyed=is_keyed) for one in partitions]
    meant = [one for place, one in enumerate(evaluated) if among is None or place in among]
    chosen: list[tuple[PartitionEvaluation, list[_Part]]] = []
    taken = 0
    for one in sorted((one for one in meant if one.kind is not None), key=lambda one: one.cost, reverse=True):
        if most_bytes is not None and chosen and taken > most_bytes:
            break
        parts = split(one, is_keyed=is_keyed, vain=vain)
        if parts or one.only_sequence:
            chosen.append((one, parts))
            taken += one.cost
    reasons = [one.reason for one, _ in chosen] or [one.reason for one in meant]
    chosen += [(one, split(one, is_keyed=is_keyed)) for one in _sharing(chosen, evaluated)]
    planned = {file.path for _, parts in chosen for part in parts for file in part.files}
    needed = {
        delete.key
        for one in evaluated
        for file in one.partition.files
        if file.path not in planned
        for delete in file.deletes
    }
    kinds = [one.kind for one, _ in chosen if one.kind is not None]
    moved = [one.partition for one, _ in chosen if one.partition.sequences]
    return OptimizingPlan(
        max(kinds, default=None),
        tuple(_task(one.partition, part, needed) for one, parts in chosen for part in parts),
        {partition.path: min(partition.sequences) for partition in moved},
        {partition.path: max(partition.sequences) for partition in moved},
        table_health([one for one in evaluated if one.partition.files]),
        tuple(reasons),
    )


def _sharing(
    chosen: Iterable[tuple[PartitionEvaluation, list[_Part]]], evaluated: Iterable[PartitionEvaluation]
) -> list[PartitionEvaluation]:
    """Further partitions that the equality deletes of converted files apply to: unless all are converted, the deletes
    stay, and those files are never at rest.
    """
    known = {id(one) for one, _ in chosen}
    keys = {key for _, parts in chosen for part in parts for file in part.convert for key in _equality(file)}
    left = [one for one in evaluated if id(one) not in known]
    found: list[PartitionEvaluation] = []
    while keys:
        more = [one for one in left if any(_equality(file) & keys for file in one.partition.files)]
        if not more:
            break
        found += more
        left = [one for one in left if one not in more]
        keys |= {key for one in more for file in one.partition.files for key in _equality(file)}
    return found


def _equality(file: DataInput) -> set[tuple[str, int | None]]:
    return {delete.key for delete in file.of_kind(DeleteKind.EQUALITY)}


@dataclass(frozen=True, slots=True)
class _Part:
    """The files of one task."""

    rewrite: Sequence[DataInput]
    convert: Sequence[DataInput]

    @property
    def files(self) -> Sequence[DataInput]:
        return (*self.rewrite, *self.convert)

    def is_worthwhile(self, settings: Settings, vain: Container[int]) -> bool:
        """Whether a task does more than write files as they were: fewer small ones come of it, changes or deletes go.

        What a commit of these sequence numbers wrote did not become fewer, and would not if it were tried again.
        """
        if not self.rewrite or self.convert or any(file.is_change or file.deletes for file in self.rewrite):
            return True
        small = [file for file in self.rewrite if file.bytes <= settings.small_size]
        if math.ceil(sum(file.bytes for file in small) / settings.target_size) >= len(small):
            return False
        wrote = {file.file.file_sequence_number for file in small}
        return len(wrote) > 1 or not all(number in vain for number in wrote)


def split(one: PartitionEvaluation, *, is_keyed: bool, vain: Container[int] = ()) -> list[_Part]:
    """The tasks of a partition: by the tree of a keyed table, else by size."""
    settings = one.settings
    groups = one.by_node if is_keyed else partial(_by_size, settings=settings)
    # to merge files that are no small ones is for major: a minor one moves as many bytes as there are changes
    found = groups(one.merge) if one.kind in (Kind.MAJOR, Kind.FULL) else [[file] for file in one.merge]
    alone = [group[0] for group in found if len(group) == 1]
    convert = [*one.convert, *(file for file in alone if one.should_convert(file))]
    rewritten = {file.path for file in one.rewrite}
    parts = [_Part(group, ()) for group in found if len(group) > 1]
    for group in groups([*one.rewrite, *convert]):
        whole = [file for file in group if file.path in rewritten]
        parts.append(_Part(whole, [file for file in group if file.path not in rewritten]))
    gaining = [
        part
        for part in parts
        if part.is_worthwhile(settings, vain) or (one.is_full and any(map(one.is_unsorted, part.rewrite)))
    ]
    return parts if gaining and one.is_full and is_keyed else gaining  # a full one, as Amoro does it


def _task(partition: PartitionInput, part: _Part, needed: set[tuple[str, int | None]]) -> RewriteTask:
    deletes = {delete.key: delete for file in part.files for delete in file.deletes}
    removable = [one for one in deletes.values() if one.kind is not DeleteKind.CHANGE and one.key not in needed]
    return RewriteTask(partition, tuple(part.rewrite), tuple(part.convert), tuple(removable))


def _by_size(files: Sequence[DataInput], settings: Settings) -> list[list[DataInput]]:
    """Files together that make a task of the largest size or less: each goes to the first one with room.

    Small ones come first: those of one task become fewer, and beside large ones each would only be written again.
    """
    bins: list[tuple[int, list[DataInput]]] = []
    most = max(settings.target_size, settings.max_task_size)
    for file in sorted(files, key=lambda file: (file.bytes > settings.small_size, -file.bytes)):
        for place, (size, members) in enumerate(bins):
            if size + file.bytes <= most:
                members.append(file)
                bins[place] = (size + file.bytes, members)
                break
        else:
            bins.append((file.bytes, [file]))
    return [members for _, members in bins]


def last_sequence_in_order(
    changes: Iterable[tuple[int, int]], most_files: int, open_transactions: Iterable[int] = ()
) -> int:
    """Up to which commit change files may be optimized, given their sequence numbers and transactions.

    What is left must not have begun before what is taken: its changes would come too late. So the commits taken hold
    only transactions older than all that are left, and than all that have begun and are not committed. Of such commits
    as many as have at most `most_files` files, but at least the first ones.
    """
    ordered = sorted(changes)
    oldest_open = min(open_transactions, default=UNLIMITED)
    found = 0
    newest_taken = 0
    younger = [UNLIMITED] * (len(ordered) + 1)
    for place in range(len(ordered) - 1, -1, -1):
        younger[place] = min(younger[place + 1], ordered[place][1])
    for place, (sequence, transaction) in enumerate(ordered):
        newest_taken = max(newest_taken, transaction)
        ends = place + 1 == len(ordered) or ordered[place + 1][0] > sequence
        if newest_taken >= oldest_open:
            break
        if ends and newest_taken < younger[place + 1]:
            if place + 1 > most_files and found:
                break
            found = sequence
    return UNLIMITED if ordered and found == ordered[-1][0] else found
