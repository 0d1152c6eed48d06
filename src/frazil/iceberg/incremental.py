"""Incremental reads: the files that appends added between two snapshots, whatever became of them since."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.errors import InvalidArgument
from frazil.iceberg.manifest_list import DATA, ManifestFile, read_manifest_list
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.snapshot import APPEND, Snapshot
from frazil.io.store import Store


def appends_between(metadata: TableMetadata, start: int, end: int) -> tuple[Snapshot, ...]:
    """The appends after snapshot `start` up to and with `end`, oldest first; other changes are passed over."""
    found: list[Snapshot] = []
    for snapshot in metadata.ancestors_of(metadata.snapshot(end).snapshot_id):
        if snapshot.snapshot_id == start:
            return tuple(reversed(found))
        if snapshot.operation == APPEND:
            found.append(snapshot)
        if snapshot.parent_snapshot_id == start:  # which may have expired
            return tuple(reversed(found))
    raise InvalidArgument(
        f"snapshot {start} is not one of those before snapshot {end}",
        hint="start with an ancestor; what happened before the oldest snapshot left is not known",
    )


def appended_manifests(metadata: TableMetadata, store: Store, appends: Sequence[Snapshot]) -> list[ManifestFile]:
    """The manifests in which these snapshots list what they added."""
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}
    numbers = {snapshot.snapshot_id for snapshot in appends}
    found = {
        manifest.manifest_path: manifest
        for snapshot in appends
        for manifest in read_manifest_list(store, snapshot, specs)
        if manifest.content == DATA and manifest.added_snapshot_id in numbers
    }
    return list(found.values())
