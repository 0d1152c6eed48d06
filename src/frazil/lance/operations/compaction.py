"""Compaction in three steps, so that the middle one can run elsewhere: plan groups, rewrite each, commit all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from frazil.errors import CommitFailed, InvalidArgument
from frazil.io.store import Store
from frazil.lance.commit import commit, new_transaction
from frazil.lance.feature_flags import check_writable, has_stable_row_ids
from frazil.lance.history import History
from frazil.lance.indices import covered
from frazil.lance.operations.update import Lineage
from frazil.lance.plan import CREATED_AT, LAST_UPDATED, ROW_ID, FragmentTask, ScanPlan
from frazil.lance.proto.messages import DataFragment, Rewrite, RewriteGroup
from frazil.lance.read import FragmentReader
from frazil.lance.rebase import Change
from frazil.lance.results import Compacted
from frazil.lance.row_ids import encode_row_versions
from frazil.lance.scan import LanceScan
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget, removing, write_fragments

TARGET_ROWS = 1 << 20
DELETED_SHARE = 0.1
CHUNK_BYTES = 256 << 20
"""Rows that get an order are put in it so many at a time."""

Arrange = Callable[[pa.Table], pa.Array]
"""Gives the places of rows in the order that they are to have."""


@dataclass(frozen=True, slots=True)
class CompactionGroup:
    """Neighbouring fragments that become as few as possible. It can be sent to workers."""

    plan: ScanPlan
    target: FileTarget
    old: tuple[bytes, ...]
    """The fragments as the planned version has them."""
    stable: bool

    @property
    def rows(self) -> int:
        return sum(task.rows for task in self.plan.tasks())


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What to rewrite of one version; committed, it must be told that version again."""

    version: LanceVersion
    groups: tuple[CompactionGroup, ...]


def plan_compaction(
    store: Store,
    version: LanceVersion,
    *,
    target_rows: int = TARGET_ROWS,
    deleted_share: float | None = DELETED_SHARE,
) -> CompactionPlan:
    """Group neighbours that are smaller than `target_rows`, and what has more than a share of its rows deleted; without
    a share, all fragments.
    """
    if target_rows < 1:
        raise InvalidArgument(f"{target_rows} rows are too few for a fragment", hint="use 1 or more")
    check_writable(version.manifest)
    stable = has_stable_row_ids(version.manifest)
    columns = [*version.arrow_schema.names, *([ROW_ID, CREATED_AT, LAST_UPDATED] if stable else [])]
    plan = LanceScan(store, version, columns=tuple(columns)).plan()
    target = FileTarget.of(version, rows_per_file=target_rows)
    groups = tuple(
        CompactionGroup(
            plan.only(*numbers),
            target,
            tuple(version.manifest.fragments[number].SerializeToString() for number in numbers),
            stable,
        )
        for numbers in _grouped(version, plan, target_rows, deleted_share)
    )
    return CompactionPlan(version, groups)


def _grouped(
    version: LanceVersion, plan: ScanPlan, target_rows: int, deleted_share: float | None
) -> Iterator[list[int]]:
    covers = [covered(index) or frozenset() for index in version.indices]
    group: list[int] = []
    rows = 0
    kind: tuple[bool, ...] = ()
    for number, task in enumerate(plan.fragments):
        mine = tuple(task.fragment_id in cover for cover in covers)
        wanted = lost_more(task, deleted_share) or task.rows < target_rows
        if group and (not wanted or mine != kind or rows >= target_rows):
            yield from _worth(plan, group, deleted_share)
            group, rows = [], 0
        if wanted:
            group.append(number)
            rows += task.rows
            kind = mine
    yield from _worth(plan, group, deleted_share)


def _worth(plan: ScanPlan, group: list[int], deleted_share: float | None) -> Iterator[list[int]]:
    """A group, unless it is one fragment that would stay as it is."""
    if len(group) > 1 or any(lost_more(plan.fragments[number], deleted_share) for number in group):
        yield group


def lost_more(task: FragmentTask, share: float | None) -> bool:
    """Whether a fragment lost more than a share of its rows; without a share, whatever it lost."""
    return share is None or task.physical_rows - task.rows > share * task.physical_rows


def compact_group(store: Store, group: CompactionGroup, arrange: Arrange | None = None) -> bytes:
    """Write a group's rows anew, as they are or in an order. The result is for `commit_compaction`."""
    lineage, updated = Lineage(), []
    reader = FragmentReader(store, group.plan)

    def batches() -> Iterator[pa.RecordBatch]:
        found = (batch for task in group.plan.tasks() for batch in reader.read(task))
        for batch in found if arrange is None else _arranged(found, arrange, group.plan.batch_rows):
            if group.stable:
                updated.append(batch.column(LAST_UPDATED))
                batch = lineage.take(batch.drop_columns([LAST_UPDATED]))
            yield batch

    fragments = write_fragments(store, group.target, batches())
    if group.stable and fragments:
        lineage.put(fragments)
        last = pa.chunked_array(updated).to_numpy()
        start = 0
        for fragment in fragments:
            end = start + int(fragment.physical_rows)
            fragment.inline_last_updated = encode_row_versions(last[start:end])
            start = end
    old = [DataFragment.FromString(data) for data in group.old]
    return bytes(RewriteGroup(old_fragments=old, new_fragments=fragments).SerializeToString())


def _arranged(batches: Iterable[pa.RecordBatch], arrange: Arrange, batch_rows: int) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= CHUNK_BYTES:
            yield from _in_order(held, arrange, batch_rows)
            held, size = [], 0
    yield from _in_order(held, arrange, batch_rows)


def _in_order(batches: list[pa.RecordBatch], arrange: Arrange, batch_rows: int) -> Iterator[pa.RecordBatch]:
    if batches:
        rows = pa.Table.from_batches(batches).unify_dictionaries()
        yield from rows.take(arrange(rows)).combine_chunks().to_batches(max_chunksize=batch_rows)


def commit_compaction(history: History, version: LanceVersion, results: Iterable[bytes]) -> Compacted:
    """Put the new fragments in the place of the old. `version` is the one that was planned, never a newer one.

    CommitFailed if rows of the old fragments were changed meanwhile: then plan again.
    """
    groups = [RewriteGroup.FromString(data) for data in results]
    if not groups:
        return Compacted()
    written = [fragment for group in groups for fragment in group.new_fragments]
    old = [fragment for group in groups for fragment in group.old_fragments]
    transaction = new_transaction(version.version, rewrite=Rewrite(groups=groups))
    with removing(history.store, history.folder, written):
        commit(history, Change(transaction, version))
    return Compacted(len(old), len(written), sum(len(one.files) for one in old), sum(len(one.files) for one in written))


def compact(
    history: History, version: LanceVersion, *, target_rows: int = TARGET_ROWS, deleted_share: float = DELETED_SHARE
) -> Compacted:
    """All three steps here; planned again while other writers get in the way."""
    for round_ in range(5):
        at = version if round_ == 0 else history.latest()
        plan = plan_compaction(history.store, at, target_rows=target_rows, deleted_share=deleted_share)
        results = [compact_group(history.store, group) for group in plan.groups]
        try:
            return commit_compaction(history, plan.version, results)
        except CommitFailed:
            if round_ == 4:
                raise
    raise AssertionError("the loop returns or raises")
