"""The tables of manifests: those of a snapshot, and those of every snapshot with the snapshot that lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from frazil.iceberg.entries import canonical_list
from frazil.iceberg.manifest import CORE_COLUMNS, describe
from frazil.iceberg.manifest_list import DATA, DELETES, ManifestFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.metadata_tables import schemas
from frazil.iceberg.metadata_tables.arrow_arrays import batch_of
from frazil.iceberg.metadata_tables.readable_metrics import readable_bounds
from frazil.iceberg.metadata_tables.source import Source
from frazil.iceberg.partition_types import partition_type
from frazil.model.arrow import schema_to_arrow

_COUNTS = ("added_files_count", "existing_files_count", "deleted_files_count")


def manifests(source: Source) -> pa.Table:
    """The manifests of the snapshot, in the order of its list."""
    arrow = schema_to_arrow(schemas.MANIFESTS)
    listed = [_complete(source, manifest) for manifest in source.manifests]
    return pa.Table.from_batches([batch_of(_columns(source.metadata, listed), arrow)], arrow)


def all_manifests(source: Source) -> pa.Table:
    """The manifests of every snapshot: one row for each snapshot that lists a manifest."""
    arrow = schema_to_arrow(schemas.ALL_MANIFESTS)
    distinct = [_complete(source, manifest) for manifest in source.all_manifests]
    numbers = {manifest.manifest_path: number for number, manifest in enumerate(distinct)}
    rows = [numbers[manifest.manifest_path] for _, listed in source.manifests_by_snapshot for manifest in listed]
    snapshot_ids = np.array([snapshot.snapshot_id for snapshot, _ in source.manifests_by_snapshot], dtype=np.int64)
    lengths = [len(listed) for _, listed in source.manifests_by_snapshot]
    where = pa.array(rows, pa.int64())
    columns = {name: array.take(where) for name, array in _columns(source.metadata, distinct).items()}
    columns["reference_snapshot_id"] = pa.array(np.repeat(snapshot_ids, lengths))
    return pa.Table.from_batches([batch_of(columns, arrow)], arrow)


def _complete(source: Source, manifest: ManifestFile) -> ManifestFile:
    """A manifest with its counts and summaries; old lists leave them out, the manifest itself has them."""
    if manifest.partitions is not None and all(getattr(manifest, name) is not None for name in _COUNTS):
        return manifest
    entries = source.context.reader.read_one(manifest, CORE_COLUMNS)
    told = describe(entries, manifest.content, manifest.added_snapshot_id or 0)
    return replace(manifest, partitions=told.partitions, **{name: getattr(told, name) for name in _COUNTS})


def _columns(metadata: TableMetadata, listed: Sequence[ManifestFile]) -> dict[str, pa.Array]:
    columns = {
        "content": pa.array([manifest.content for manifest in listed], pa.int32()),
        "path": pa.array([manifest.manifest_path for manifest in listed], pa.string()),
        "length": pa.array([manifest.manifest_length for manifest in listed], pa.int64()),
        "partition_spec_id": pa.array([manifest.partition_spec_id for manifest in listed], pa.int32()),
        "added_snapshot_id": pa.array([manifest.added_snapshot_id for manifest in listed], pa.int64()),
        "partition_summaries": _summaries(metadata, listed),
        "key_metadata": pa.array([manifest.key_metadata for manifest in listed], pa.binary()),
    }
    for content, kind in ((DATA, "data"), (DELETES, "delete")):
        for name in _COUNTS:
            values = [getattr(manifest, name) if manifest.content == content else 0 for manifest in listed]
            columns[name.replace("files", f"{kind}_files")] = pa.array(values, pa.int32())
    return columns


def _summaries(metadata: TableMetadata, listed: Sequence[ManifestFile]) -> pa.Array:
    summaries = [summary for manifest in listed for summary in manifest.partitions or ()]
    lengths = [len(manifest.partitions or ()) for manifest in listed]
    # which summaries are of which partition field: bounds are decoded one field at a time
    members: dict[tuple[int, int], list[int]] = {}
    at = 0
    for manifest, length in zip(listed, lengths, strict=True):
        for position in range(length):
            members.setdefault((manifest.partition_spec_id, position), []).append(at + position)
        at += length
    lower: list[str | None] = [None] * len(summaries)
    upper: list[str | None] = [None] * len(summaries)
    for (spec_id, position), numbers in members.items():
        for texts, bounds in (
            (lower, [summaries[number].lower_bound for number in numbers]),
            (upper, [summaries[number].upper_bound for number in numbers]),
        ):
            for number, text in zip(numbers, _texts(metadata, spec_id, position, bounds), strict=True):
                texts[number] = text
    struct = pa.StructArray.from_arrays(
        [
            pa.array([summary.contains_null for summary in summaries], pa.bool_()),
            pa.array([summary.contains_nan for summary in summaries], pa.bool_()),
            pa.array(lower, pa.string()),
            pa.array(upper, pa.string()),
        ],
        names=["contains_null", "contains_nan", "lower_bound", "upper_bound"],
    )
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), struct)


def _texts(metadata: TableMetadata, spec_id: int, position: int, bounds: list[bytes | None]) -> list[str | None]:
    """Bounds of a partition field as partition paths show its values."""
    spec = metadata.spec(spec_id)
    if position >= len(spec.fields):
        return [None] * len(bounds)
    type_, transform = partition_type(metadata, spec).fields[position].type, spec.fields[position].transform
    values = canonical_list(readable_bounds(type_, pa.array(bounds, pa.binary())))
    return [None if value is None else transform.to_human_string(type_, value) for value in values]
