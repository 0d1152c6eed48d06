"""Which snapshots and refs to keep when snapshots expire: the specification's retention policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.properties import MAX_REF_AGE_MS, MAX_SNAPSHOT_AGE_MS, MIN_SNAPSHOTS_TO_KEEP
from frazil.iceberg.refs import MAIN, SnapshotRef
from frazil.iceberg.snapshot import Snapshot

LOOKED_UP = ("optimized-sequence.exist", "base-optimized-time.exist")
"""Flags in summaries of the base store of a mixed table. What a flagged snapshot says holds for those after it, and is
found by walking back to it: without it, rows that were optimized would be read twice.
"""


@dataclass(frozen=True, slots=True)
class Retention:
    """The ids of the snapshots to keep, and the names of the refs that are too old."""

    kept_snapshot_ids: frozenset[int]
    expired_refs: tuple[str, ...]
    looked_up_ids: frozenset[int] = frozenset()
    """Those among the kept ones that others cannot be read without."""


def retained_snapshots(
    metadata: TableMetadata, now_ms: int, *, older_than_ms: int | None = None, retain_last: int | None = None
) -> Retention:
    """Apply the retention policy at a time.

    `older_than_ms` (a point in time) and `retain_last` take the place of the table's properties `history.expire.*`;
    what a ref says for itself stands above both. Snapshots on no branch, such as staged ones, are kept until they are
    old.
    """
    properties = metadata.property_reader
    if older_than_ms is None:
        older_than_ms = now_ms - properties.get(MAX_SNAPSHOT_AGE_MS)
    if retain_last is None:
        retain_last = properties.get(MIN_SNAPSHOTS_TO_KEEP)
    max_ref_age_ms = properties.get(MAX_REF_AGE_MS)
    living = {
        name: ref
        for name, ref in metadata.refs.items()
        if name == MAIN
        or _age_ms(metadata, ref, now_ms) <= (max_ref_age_ms if ref.max_ref_age_ms is None else ref.max_ref_age_ms)
    }
    kept: set[int] = {ref.snapshot_id for ref in living.values()}
    reached = set(kept)
    looked_up: set[int] = set()
    for ref in living.values():
        history = list(metadata.ancestors_of(ref.snapshot_id))
        count = 1
        if not ref.is_tag:
            reached.update(snapshot.snapshot_id for snapshot in history)
            oldest_ms = older_than_ms if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
            least = retain_last if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
            count = _newest(history, oldest_ms, least)
        ids = [snapshot.snapshot_id for snapshot in history]
        kept.update(ids[: _with_looked_up(history, count)])
        looked_up.update(ids[1 : _with_looked_up(history, 1)], ids[count : _with_looked_up(history, count)])
    kept.update(
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in reached and snapshot.timestamp_ms >= older_than_ms
    )
    expired = tuple(name for name in metadata.refs if name not in living)
    return Retention(frozenset(kept), expired, frozenset(looked_up))


def _newest(history: Sequence[Snapshot], oldest_ms: int, least: int) -> int:
    """How many of a branch, the newest first, are to be kept by number and age."""
    old = (place for place, one in enumerate(history) if place >= least and one.timestamp_ms < oldest_ms)
    return next(old, len(history))


def _with_looked_up(history: Sequence[Snapshot], count: int) -> int:
    """How many, for the oldest of the first `count` to be readable: up to those with the flags that it needs."""
    most = count
    for flag in LOOKED_UP:
        flagged = (place for place, one in enumerate(history) if place >= count - 1 and flag in one.summary)
        most = max(most, next(flagged, -1) + 1)
    return most


def _age_ms(metadata: TableMetadata, ref: SnapshotRef, now_ms: int) -> int:
    return now_ms - metadata.snapshot(ref.snapshot_id).timestamp_ms
