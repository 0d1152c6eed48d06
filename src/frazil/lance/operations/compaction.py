"""Compaction in three steps, so that the middle one can run elsewhere: plan groups, rewrite each, commit all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from frazil.errors import CommitFailed, InvalidArgument
from frazil.io.store import Store
from frazil.lance.commit import commit, new_transaction
from frazil.lance.feature_flags import check_writable, has_stable_row_ids
from frazil.lance.history import History
from frazil.lance.indices import covered
from frazil.lance.operations.update import Lineage
from frazil.lance.plan import CREATED_AT, LAST_UPDATED, ROW_ID, ScanPlan
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
    deleted_share: float = DELETED_SHARE,
) -> CompactionPlan:
    """Group neighbours that are smaller than `target_rows`, and what has more than a share of its rows deleted."""
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


def _grouped(version: LanceVersion, plan: ScanPlan, target_rows: int, deleted_share: float) -> Iterator[list[int]]:
    covers = [covered(index) or frozenset() for index in version.indices]
    group: list[int] = []
    rows = 0
    kind: tuple[bool, ...] = ()
    for number, task in enumerate(plan.fragments):
        deleted = task.physical_rows - task.rows
        heavy = deleted > deleted_share * task.physical_rows
        mine = tuple(task.fragment_id in cover for cover in covers)
        wanted = heavy or task.rows < target_rows
        if group and (not wanted or mine != kind or rows >= target_rows):
            yield from _worth(plan, group, deleted_share)
            group, rows = [], 0
        if wanted:
            group.append(number)
            rows += task.rows
            kind = mine
    yield from _worth(plan, group, deleted_share)


def _worth(plan: ScanPlan, group: list[int], deleted_share: float) -> Iterator[list[int]]:
    """A group, unless it is one fragment that would stay as it is."""
    tasks = [plan.fragments[number] for number in group]
    if len(group) > 1 or any(task.physical_rows - task.rows > deleted_share * task.physical_rows for task in tasks):
        yield group


def compact_group(store: Store, group: CompactionGroup) -> bytes:
    """Write a group's rows anew. The result is for `commit_compaction`."""
    lineage, updated = Lineage(), []
    reader = FragmentReader(store, group.plan)

    def batches() -> Iterator[pa.RecordBatch]:
        for task in group.plan.tasks():
            for batch in reader.read(task):
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
