"""Which snapshots and refs to keep when snapshots expire: the specification's retention policy."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.properties import MAX_REF_AGE_MS, MAX_SNAPSHOT_AGE_MS, MIN_SNAPSHOTS_TO_KEEP
from frazil.iceberg.refs import MAIN, SnapshotRef


@dataclass(frozen=True, slots=True)
class Retention:
    """The ids of the snapshots to keep, and the names of the refs that are too old."""

    kept_snapshot_ids: frozenset[int]
    expired_refs: tuple[str, ...]


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
    for ref in living.values():
        if ref.is_tag:
            continue
        oldest_ms = older_than_ms if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
        least = retain_last if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
        keeping = True
        for place, snapshot in enumerate(metadata.ancestors_of(ref.snapshot_id)):
            reached.add(snapshot.snapshot_id)
            keeping = keeping and (place < least or snapshot.timestamp_ms >= oldest_ms)
            if keeping:
                kept.add(snapshot.snapshot_id)
    kept.update(
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in reached and snapshot.timestamp_ms >= older_than_ms
    )
    return Retention(frozenset(kept), tuple(name for name in metadata.refs if name not in living))


def _age_ms(metadata: TableMetadata, ref: SnapshotRef, now_ms: int) -> int:
    return now_ms - metadata.snapshot(ref.snapshot_id).timestamp_ms
