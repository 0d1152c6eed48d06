"""The tables that the table's metadata answers alone: snapshots, history, refs, metadata_log_entries."""

from __future__ import annotations

from bisect import bisect_right

import pyarrow as pa

from frazil.iceberg.metadata import MetadataLogEntry
from frazil.iceberg.metadata_tables import schemas
from frazil.iceberg.metadata_tables.arrow_arrays import table_of_rows
from frazil.iceberg.metadata_tables.source import Source
from frazil.iceberg.snapshot import Snapshot

OPERATION = "operation"


def snapshots(source: Source) -> pa.Table:
    """The snapshots that have not expired."""
    rows = [
        (
            snapshot.timestamp_ms * 1000,
            snapshot.snapshot_id,
            snapshot.parent_snapshot_id,
            snapshot.operation,
            snapshot.manifest_list,
            _summary(snapshot),
        )
        for snapshot in source.metadata.snapshots
    ]
    return table_of_rows(schemas.SNAPSHOTS, rows)


def _summary(snapshot: Snapshot) -> list[tuple[str, str]] | None:
    if not snapshot.summary:
        return None
    return [(key, value) for key, value in snapshot.summary.items() if key != OPERATION]


def history(source: Source) -> pa.Table:
    """Which snapshot was made the current one when, and whether what it did is still part of the table."""
    metadata = source.metadata
    ancestors = {snapshot.snapshot_id for snapshot in metadata.ancestors_of(metadata.current_snapshot_id)}
    rows = []
    for entry in metadata.snapshot_log:
        snapshot = metadata.snapshot_or_none(entry.snapshot_id)
        parent = None if snapshot is None else snapshot.parent_snapshot_id
        rows.append((entry.timestamp_ms * 1000, entry.snapshot_id, parent, entry.snapshot_id in ancestors))
    return table_of_rows(schemas.HISTORY, rows)


def refs(source: Source) -> pa.Table:
    """Branches and tags."""
    rows = [
        (
            name,
            ref.kind.upper(),
            ref.snapshot_id,
            ref.max_ref_age_ms,
            ref.min_snapshots_to_keep,
            ref.max_snapshot_age_ms,
        )
        for name, ref in source.metadata.refs.items()
    ]
    return table_of_rows(schemas.REFS, rows)


def metadata_log_entries(source: Source) -> pa.Table:
    """The metadata files that are still known, the current one last, and the snapshot that was current in each."""
    metadata = source.metadata
    log = sorted(metadata.snapshot_log, key=lambda entry: entry.timestamp_ms)
    times = [entry.timestamp_ms for entry in log]
    rows = []
    for entry in (*metadata.metadata_log, MetadataLogEntry(metadata.last_updated_ms, source.metadata_location)):
        before = bisect_right(times, entry.timestamp_ms)
        snapshot_id = log[before - 1].snapshot_id if before else None
        snapshot = metadata.snapshot_or_none(snapshot_id)
        rows.append(
            (
                entry.timestamp_ms * 1000,
                entry.metadata_file,
                snapshot_id,
                None if snapshot is None else snapshot.schema_id,
                None if snapshot is None else snapshot.sequence_number,
            )
        )
    return table_of_rows(schemas.METADATA_LOG_ENTRIES, rows)
