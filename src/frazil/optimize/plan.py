"""Plans of optimizing: which files of which partitions one task rewrites, and which deletes it makes into positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from frazil.mixed.tree import node_of
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

    @property
    def input_files(self) -> int:
        """How many files are read."""
        files = {file.path for task in self.tasks for file in (*task.rewrite, *task.convert)}
        return len(files | {delete.path for task in self.tasks for delete in task.deletes})

    def __bool__(self) -> bool:
        return self.kind is not None

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
) -> OptimizingPlan:
    """Plan the optimizing that partitions need: those that cost most first, up to `most_bytes` in all."""
    evaluated = [PartitionEvaluation(one, settings, clock, is_keyed=is_keyed) for one in partitions]
    health = table_health([one for one in evaluated if one.partition.files])
    needed = sorted((one for one in evaluated if one.kind is not None), key=lambda one: one.cost, reverse=True)
    chosen: list[tuple[PartitionEvaluation, list[RewriteTask]]] = []
    taken = 0
    for one in needed:
        if most_bytes is not None and chosen and taken > most_bytes:
            break
        tasks = split(one, is_keyed=is_keyed)
        if tasks or one.only_sequence:
            chosen.append((one, tasks))
            taken += one.cost
    kinds = [one.kind for one, _ in chosen if one.kind is not None]
    moved = [one.partition for one, _ in chosen if one.partition.sequences]
    return OptimizingPlan(
        max(kinds, default=None),
        tuple(task for _, tasks in chosen for task in tasks),
        {partition.path: min(partition.sequences) for partition in moved},
        {partition.path: max(partition.sequences) for partition in moved},
        health,
    )


def split(one: PartitionEvaluation, *, is_keyed: bool) -> list[RewriteTask]:
    """The tasks of a partition: by the tree of a keyed table, else by size."""
    groups = _by_node if is_keyed else _by_size
    found = groups(one.merge, one.settings)
    alone = [group[0] for group in found if len(group) == 1]
    convert = [*one.convert, *(file for file in alone if one.should_convert(file))]
    rewritten = {file.path for file in one.rewrite}
    rest = groups([*one.rewrite, *convert], one.settings)
    parts: list[tuple[list[DataInput], list[DataInput]]] = [(group, []) for group in found if len(group) > 1]
    parts += [
        ([file for file in group if file.path in rewritten], [file for file in group if file.path not in rewritten])
        for group in rest
    ]
    planned = {file.path for rewrite, converted in parts for file in (*rewrite, *converted)}
    needed = {delete.key for file in one.partition.files if file.path not in planned for delete in file.deletes}
    tasks = [_task(one.partition, rewrite, converted, needed) for rewrite, converted in parts]
    return [task for task in tasks if is_keyed or _is_worthwhile(task)]


def _task(
    partition: PartitionInput,
    rewrite: Sequence[DataInput],
    convert: Sequence[DataInput],
    needed: set[tuple[str, int | None]],
) -> RewriteTask:
    deletes = {delete.key: delete for file in (*rewrite, *convert) for delete in file.deletes}
    removable = [one for one in deletes.values() if one.kind is not DeleteKind.CHANGE and one.key not in needed]
    return RewriteTask(partition, tuple(rewrite), tuple(convert), tuple(removable))


def _is_worthwhile(task: RewriteTask) -> bool:
    """Whether a task does more than to write one file as it was."""
    return len(task.rewrite) != 1 or bool(task.convert) or bool(task.deletes)


def _by_size(files: Sequence[DataInput], settings: Settings) -> list[list[DataInput]]:
    """Files together that make a task of the largest size or less: each goes to the first one with room."""
    bins: list[tuple[int, list[DataInput]]] = []
    most = max(settings.target_size, settings.max_task_size)
    for file in sorted(files, key=lambda file: file.bytes, reverse=True):
        for place, (size, members) in enumerate(bins):
            if size + file.bytes <= most:
                members.append(file)
                bins[place] = (size + file.bytes, members)
                break
        else:
            bins.append((file.bytes, [file]))
    return [members for _, members in bins]


def _by_node(files: Sequence[DataInput], settings: Settings) -> list[list[DataInput]]:
    """Files together whose rows may have the same keys: those of a node and of all below it."""
    by_node: dict[int, list[DataInput]] = {}
    for file in files:
        by_node.setdefault(file.node, []).append(file)
    tops = [node for node in by_node if not any(_is_below(node, other) for other in by_node if other != node)]
    return [
        [file for node, members in by_node.items() if node == top or _is_below(node, top) for file in members]
        for top in sorted(tops)
    ]


def _is_below(node: int, above: int) -> bool:
    (mask, index), (outer, place) = node_of(node), node_of(above)
    return mask > outer and index & outer == place


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
