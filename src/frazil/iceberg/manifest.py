"""Manifests: Avro files of entries, read into columns and written from columns.

Reading fills in what entries inherit from the manifest list: snapshot id, sequence numbers and first row ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import MalformedMetadata
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.data_file import Status
from frazil.iceberg.entries import ARROW_TYPES, Entries, Mask, canonical_list, normalise
from frazil.iceberg.manifest_list import DELETES, FieldSummary, ManifestFile
from frazil.io import avro
from frazil.io.store import Store
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.types import DoubleType, FloatType, StructType
from frazil.model.values import to_bytes

UNASSIGNED = -1
"""A sequence number that the commit will assign."""

REQUIRED = (ids.STATUS, ids.FILE_PATH, ids.FILE_FORMAT, ids.RECORD_COUNT, ids.FILE_SIZE)
ALL_COLUMNS = frozenset({*ARROW_TYPES, ids.PARTITION}) - {ids.BLOCK_SIZE}
CORE_COLUMNS = ALL_COLUMNS - {*ids.METRICS, ids.COLUMN_SIZES}
"""All a plan without a filter on columns needs: everything but the metrics."""


def decode_manifests(
    containers: Sequence[avro.Container],
    manifests: Sequence[ManifestFile],
    spec: PartitionSpec,
    partition_type: StructType,
    columns: frozenset[int],
    metrics_of: frozenset[int] | None = None,
) -> tuple[Entries, list[int]]:
    """Entries of manifests with one Avro schema, decoded in one pass, and how many each manifest has.

    `metrics_of` names the table's columns whose metrics matter; None stands for all.
    """
    table = avro.decode(containers, columns, java_fixed=True, keys=metrics_of)
    counts = [container.num_rows for container in containers]
    arrays: dict[int, pa.Array] = {}
    for arrow_field, column in zip(table.schema, table.columns, strict=True):
        number = _field_id(arrow_field)
        array = _contiguous(column)
        if number == ids.DATA_FILE:
            for index, child in enumerate(array.flatten()):
                arrays[_field_id(array.type.field(index))] = child
        else:
            arrays[number] = array
    missing = [number for number in REQUIRED if number not in arrays]
    if missing:
        raise MalformedMetadata(
            f"manifest {manifests[0].manifest_path} lacks field ids {missing}", hint="the file is not a manifest"
        )
    arrays = {number: normalise(number, array, partition_type) for number, array in arrays.items() if number in columns}
    entries = Entries(spec, partition_type, arrays)
    _check(entries, manifests, counts)
    return inherit(entries, manifests, counts), counts


def _check(entries: Entries, manifests: Sequence[ManifestFile], counts: Sequence[int]) -> None:
    """Refuse entries that cannot be meant, before anything is worked out from them."""
    present = [number for number in REQUIRED if number in entries.columns]
    problem = next((f"no field {number}" for number in present if entries.columns[number].null_count), None)
    status = entries.numpy(ids.STATUS)
    if problem is None and len(status) and not 0 <= status.min() <= status.max() <= Status.DELETED:
        problem = "an unknown status"
    if problem is None and (entries.numpy(ids.RECORD_COUNT) < 0).any():
        problem = "a negative record count"
    if problem is None and ids.CONTENT in entries.columns:
        content = entries.numpy(ids.CONTENT)
        of_deletes = np.repeat([manifest.content == DELETES for manifest in manifests], counts)
        known = np.where(of_deletes, (content == 1) | (content == 2), content == 0)
        problem = None if known.all() else "content that does not belong in such a manifest"
    if problem is not None:
        raise MalformedMetadata(
            f"an entry of manifest {manifests[0].manifest_path} (or one read with it) has {problem}",
            hint="the manifest is damaged; roll back to an earlier snapshot",
        )


def _contiguous(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _field_id(column: pa.Field) -> int:
    return int((column.metadata or {}).get(b"PARQUET:field_id", -1))


def inherit(entries: Entries, manifests: Sequence[ManifestFile], counts: Sequence[int]) -> Entries:
    """Fill in what a null entry takes over from its manifest."""

    def spread(values: Iterable[int | None]) -> pa.Array:
        return pa.array(list(values), pa.int64()).take(owner)

    owner = pa.array(np.repeat(np.arange(len(manifests)), counts))
    added = pa.array(entries.numpy(ids.STATUS) == Status.ADDED)
    sequence = spread(manifest.sequence_number for manifest in manifests)
    # before v2 there are no sequence numbers: all files count as older than everything
    inherited = pc.if_else(added, sequence, pa.scalar(None, pa.int64()))
    old = pc.equal(sequence, 0)
    columns = {
        ids.SNAPSHOT_ID: pc.coalesce(
            entries.column(ids.SNAPSHOT_ID), spread(manifest.added_snapshot_id for manifest in manifests)
        ),
        ids.CONTENT: pc.coalesce(entries.column(ids.CONTENT), pa.scalar(0, pa.int32())),
    }
    for number in (ids.SEQUENCE_NUMBER, ids.FILE_SEQUENCE_NUMBER):
        value = pc.coalesce(entries.column(number), inherited)
        columns[number] = pc.if_else(pc.and_(old, pc.is_null(value)), pa.scalar(0, pa.int64()), value)
    columns[ids.FIRST_ROW_ID] = _first_row_ids(entries, manifests, counts)
    result = entries.with_columns(columns)
    if columns[ids.SEQUENCE_NUMBER].null_count:
        raise MalformedMetadata(
            "a manifest entry that is not new has no sequence number", hint="the manifest is damaged"
        )
    return result


def _first_row_ids(entries: Entries, manifests: Sequence[ManifestFile], counts: Sequence[int]) -> pa.Array:
    """First row ids: as stored, or counted on from the manifest's own.

    A manifest without one was committed before row lineage, whatever its entries say; one that is not committed yet
    keeps what its entries say.
    """
    stored = entries.column(ids.FIRST_ROW_ID)
    committed = np.array([manifest.sequence_number != UNASSIGNED for manifest in manifests])
    known = np.array([manifest.first_row_id is not None for manifest in manifests])
    if committed.all() and not known.any():
        return pa.nulls(len(entries), pa.int64())
    takes = stored.is_null().to_numpy(zero_copy_only=False) & entries.live
    rows = np.where(takes, entries.numpy(ids.RECORD_COUNT), 0)
    before = np.cumsum(rows) - rows
    starts = (np.cumsum(counts) - counts).astype(np.int64)
    at_start = np.append(before, 0)[np.minimum(starts, len(before))]
    base = np.array([manifest.first_row_id or 0 for manifest in manifests], dtype=np.int64)
    assigned = np.repeat(base - at_start, counts) + before
    takes &= np.repeat(known, counts)
    values = pc.if_else(pa.array(takes), pa.array(assigned), stored)
    forgotten = np.repeat(committed & ~known, counts)
    return pc.if_else(pa.array(forgotten), pa.scalar(None, pa.int64()), values)


def write_manifest(
    store: Store,
    location: str,
    entries: Entries,
    *,
    schema: Schema,
    format_version: int,
    content: int,
    snapshot_id: int,
    codec: str = "deflate",
) -> ManifestFile:
    """Write one manifest and describe it. Sequence numbers of added files stay null: the commit assigns them."""
    spec = entries.spec
    header = {
        "schema": json.dumps(schema.to_json()),
        "schema-id": str(schema.schema_id),
        "partition-spec": json.dumps([part.to_json() for part in spec.fields]),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(format_version),
    }
    if format_version > 1:
        header["content"] = "deletes" if content == DELETES else "data"
    table = _to_table(entries, format_version)
    avro_schema = ids.manifest_avro_schema(format_version, entries.partition_type)
    data = avro.encode(table, avro_schema, header, codec=codec, java_fixed=True)
    store.write(location, data)
    return replace(describe(entries, content, snapshot_id), manifest_path=location, manifest_length=len(data))


def describe(entries: Entries, content: int, snapshot_id: int) -> ManifestFile:
    """Counts, lowest sequence number and partition summaries of entries, as a manifest list wants them."""
    status = entries.numpy(ids.STATUS)
    rows = entries.numpy(ids.RECORD_COUNT)
    live = status != Status.DELETED
    # a number yet to be assigned is higher than all that are
    sequences = entries.column(ids.SEQUENCE_NUMBER).filter(pa.array(live)).drop_null()
    return ManifestFile(
        "",
        0,
        entries.spec.spec_id,
        content,
        sequence_number=UNASSIGNED,
        min_sequence_number=pc.min(sequences).as_py() if len(sequences) else UNASSIGNED,
        added_snapshot_id=snapshot_id,
        added_files_count=int((status == Status.ADDED).sum()),
        existing_files_count=int((status == Status.EXISTING).sum()),
        deleted_files_count=int((status == Status.DELETED).sum()),
        added_rows_count=int(rows[status == Status.ADDED].sum()),
        existing_rows_count=int(rows[status == Status.EXISTING].sum()),
        deleted_rows_count=int(rows[status == Status.DELETED].sum()),
        partitions=summarize_partitions(entries),
    )


def summarize_partitions(entries: Entries) -> tuple[FieldSummary, ...]:
    """Per partition field: are there nulls or NaNs, and the bounds of the rest."""
    summaries = []
    for column, values in zip(entries.partition_type.fields, entries.partition_columns(), strict=True):
        has_nan = False  # always told: Java's table of all manifests cannot do without
        contains_null = values.null_count > 0
        if isinstance(column.type, FloatType | DoubleType):
            nan = pc.fill_null(pc.is_nan(values), False)
            has_nan = bool(pc.any(nan).as_py())
            values = values.filter(pc.invert(nan))
        values = values.drop_null()
        if len(values) == 0 or pa.types.is_null(values.type):
            summaries.append(FieldSummary(contains_null, has_nan))
            continue
        lower, upper = canonical_list(_extremes(values))
        if isinstance(column.type, FloatType | DoubleType):
            # -0.0 and 0.0 compare equal: widen, so that neither is left out
            lower, upper = (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)
        summaries.append(
            FieldSummary(contains_null, has_nan, to_bytes(column.type, lower), to_bytes(column.type, upper))
        )
    return tuple(summaries)


def _extremes(values: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    if pa.types.is_binary(values.type):  # min_max does not do binary everywhere
        order = pc.sort_indices(values)
        return values.take(pa.array([order[0].as_py(), order[-1].as_py()]))
    extremes = pc.min_max(values)
    return pa.array([extremes["min"].as_py(), extremes["max"].as_py()], values.type)


def _to_table(entries: Entries, format_version: int) -> pa.Table:
    def column(number: int) -> pa.Array:
        if number == ids.BLOCK_SIZE:
            return pa.array(np.full(len(entries), ids.V1_BLOCK_SIZE))
        return entries.column(number)

    data_file = [spec for spec in ids.DATA_FILE_FIELDS if format_version in spec.versions]
    arrays = [column(spec.id) for spec in data_file]
    fields = [pa.field(spec.name, array.type) for spec, array in zip(data_file, arrays, strict=True)]
    columns = {
        spec.name: column(spec.id)
        for spec in ids.MANIFEST_ENTRY_FIELDS
        if format_version in spec.versions and spec.id != ids.DATA_FILE
    }
    columns["data_file"] = pa.StructArray.from_arrays(arrays, fields=fields)
    return pa.table(columns)


def as_added(entries: Entries, snapshot_id: int) -> Entries:
    """Entries of new files. An explicit data sequence number (of rewritten rows) stays, the file's own is assigned."""
    size = len(entries)
    return entries.with_columns(
        {
            ids.STATUS: pa.array(np.full(size, Status.ADDED, dtype=np.int32)),
            ids.SNAPSHOT_ID: pa.array(np.full(size, snapshot_id, dtype=np.int64)),
            ids.FILE_SEQUENCE_NUMBER: pa.nulls(size, pa.int64()),
        }
    )


def as_existing(entries: Entries) -> Entries:
    """Live entries carried over into a new manifest."""
    return entries.with_columns({ids.STATUS: pa.array(np.full(len(entries), Status.EXISTING, dtype=np.int32))})


def with_deleted(entries: Entries, deleted: Mask, snapshot_id: int) -> Entries:
    """Live entries of which some are deleted by a snapshot; the rest are carried over."""
    status = np.where(deleted, Status.DELETED, Status.EXISTING).astype(np.int32)
    stamped = pc.if_else(pa.array(deleted), pa.scalar(snapshot_id, pa.int64()), entries.column(ids.SNAPSHOT_ID))
    return entries.with_columns({ids.STATUS: pa.array(status), ids.SNAPSHOT_ID: stamped})
