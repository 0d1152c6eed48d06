"""Manifest lists: which manifests make up a snapshot, what each holds, and where its row ids start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import MalformedMetadata
from frazil.iceberg.manifest_schema import MANIFEST_LIST_FIELDS, manifest_list_avro_schema
from frazil.iceberg.snapshot import Snapshot
from frazil.io import avro
from frazil.io.damage import naming
from frazil.io.store import Store
from frazil.model.partition import PartitionSpec
from frazil.recent import Recent

DATA, DELETES = 0, 1


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """What one partition field holds across a manifest."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One manifest as its list tells of it. A count of None is unknown, hence taken as not zero."""

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: int = DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = field(default=None, repr=False)
    key_metadata: bytes | None = field(default=None, repr=False)
    first_row_id: int | None = None

    @property
    def has_live_files(self) -> bool:
        return self.added_files_count != 0 or self.existing_files_count != 0

    @property
    def has_added_files(self) -> bool:
        return self.added_files_count != 0

    @property
    def has_deleted_files(self) -> bool:
        return self.deleted_files_count != 0

    @property
    def live_rows(self) -> int:
        return (self.added_rows_count or 0) + (self.existing_rows_count or 0)

    @property
    def live_files(self) -> int:
        return (self.added_files_count or 0) + (self.existing_files_count or 0)


def live_spec_ids(manifests: Iterable[ManifestFile]) -> set[int]:
    """The specs that there are data files of."""
    return {one.partition_spec_id for one in manifests if one.content == DATA and one.has_live_files}


_SHORT = 1024
_known: Recent[tuple[Store, str], tuple[ManifestFile, ...]] = Recent(64)
"""Short lists by file: they never change, and a small query takes longer to decode its list than to plan."""

_DEFAULTS = {"content": DATA, "sequence_number": 0, "min_sequence_number": 0}
_REQUIRED = frozenset({"manifest_path", "manifest_length", "partition_spec_id"})
_NAMES = {spec.id: spec.name for spec in MANIFEST_LIST_FIELDS}


def parse_manifest_list(data: bytes) -> list[ManifestFile]:
    """The manifests of a list file, read by field id whatever names its writer used."""
    table = avro.decode(avro.read_container(data))
    columns: dict[str, list[Any]] = {}
    for arrow_field, column in zip(table.schema, table.columns, strict=True):
        name = _NAMES.get(_field_id(arrow_field))
        if name is not None:
            columns[name] = _summaries(column) if name == "partitions" else _typed(name, column).to_pylist()
    missing = _REQUIRED - set(columns)
    if missing:
        raise MalformedMetadata(f"manifest list lacks {', '.join(sorted(missing))}", hint="the file is damaged")
    for name, default in _DEFAULTS.items():
        if name in columns:
            columns[name] = [default if value is None else value for value in columns[name]]
    unknown = set(columns.get("content", ())) - {DATA, DELETES}
    if unknown:
        raise MalformedMetadata(f"a manifest has content {min(unknown)}", hint="it is 0 (data) or 1 (deletes)")
    return [ManifestFile(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def _typed(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in the type it is meant to have; integers may be wider or narrower in the file."""
    wanted = _ARROW[name]
    if name in _REQUIRED and column.null_count:
        raise MalformedMetadata(f"manifest list has a null as {name}", hint="the file is damaged")
    try:
        if column.type != wanted and not (pa.types.is_integer(column.type) and pa.types.is_integer(wanted)):
            raise pa.ArrowInvalid("another type")
        return column.cast(wanted)
    except pa.ArrowInvalid as error:
        raise MalformedMetadata(
            f"manifest list has {name} of type {column.type}, not {wanted}", hint="the file is damaged"
        ) from error


def _summaries(column: pa.ChunkedArray) -> list[tuple[FieldSummary, ...] | None]:
    kind = column.type
    if not (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)):
        raise MalformedMetadata(f"manifest list has partition summaries of type {kind}", hint="the file is damaged")
    rows = column.combine_chunks().flatten()
    parts = {name: rows.field(name).to_pylist() for name in rows.type.names}
    names = ("contains_null", "contains_nan", "lower_bound", "upper_bound")
    if any(rows.type.field(name).type != _SUMMARY.field(name).type for name in names if name in parts):
        raise MalformedMetadata(f"manifest list has partition summaries of type {kind}", hint="the file is damaged")
    # what is not said may be so
    parts["contains_null"] = [value is not False for value in parts.get("contains_null", [None] * len(rows))]
    every = map(FieldSummary, *(parts.get(name, [None] * len(rows)) for name in names))
    return [
        None if length is None else tuple(islice(every, length)) for length in pc.list_value_length(column).to_pylist()
    ]


def _field_id(column: pa.Field) -> int:
    return int((column.metadata or {}).get(b"PARQUET:field_id", -1))


def read_manifest_list(
    store: Store, snapshot: Snapshot, specs: Mapping[int, PartitionSpec], *, remember: bool = True
) -> list[ManifestFile]:
    """The manifests of a snapshot; a v1 snapshot may name them inline, without a list.

    Who decides about deleting files does not `remember`: only what can be read now counts.
    """
    if snapshot.manifest_list is not None:
        path = snapshot.manifest_list
        manifests = list(_remembered(store, path) if remember else _parsed(store, path))
    else:
        manifests = [_inline(store, path, snapshot) for path in snapshot.manifests]
    for manifest in manifests:
        if manifest.partition_spec_id not in specs:
            raise MalformedMetadata(
                f"manifest {manifest.manifest_path} names unknown partition spec {manifest.partition_spec_id}",
                hint="the metadata is damaged",
            )
    return manifests


def _remembered(store: Store, path: str) -> Sequence[ManifestFile]:
    found = _known.get((store, path))
    if found is None:
        found = tuple(_parsed(store, path))
        if len(found) <= _SHORT:
            _known.put((store, path), found)
    return found


def _parsed(store: Store, path: str) -> list[ManifestFile]:
    with naming(path):
        return parse_manifest_list(store.read(path))


def forget_lists() -> None:
    """Forget the lists that are remembered, as if none had been read."""
    _known.clear()


def _inline(store: Store, path: str, snapshot: Snapshot) -> ManifestFile:
    data = store.read(path)
    with naming(path):
        text = avro.read_header(data).metadata.get("partition-spec-id", b"0")
    if not (text.isdigit() and len(text) <= 10):
        raise MalformedMetadata(f"manifest {path} names partition spec {text[:40]!r}", hint="the manifest is damaged")
    return ManifestFile(path, len(data), int(text), added_snapshot_id=snapshot.snapshot_id)


def assign_first_row_ids(manifests: Iterable[ManifestFile], first_row_id: int) -> tuple[list[ManifestFile], int]:
    """Give every data manifest without row ids its range, in order; also the first id that is still free.

    A manifest that has one keeps it: ids of rows never change. Delete manifests have none.
    """
    assigned = []
    for manifest in manifests:
        if manifest.content == DATA and manifest.first_row_id is None:
            manifest = replace(manifest, first_row_id=first_row_id)
            first_row_id += manifest.live_rows
        assigned.append(manifest)
    return assigned, first_row_id


def serialize_manifest_list(
    manifests: Sequence[ManifestFile], snapshot: Mapping[str, Any], format_version: int, codec: str = "deflate"
) -> bytes:
    """A list file. `snapshot` is what its header tells: snapshot-id, parent-snapshot-id, sequence-number."""
    columns = {}
    for spec in MANIFEST_LIST_FIELDS:
        if format_version in spec.versions:
            columns[spec.name] = [getattr(manifest, spec.name) for manifest in manifests]
    columns["partitions"] = [
        None
        if summaries is None
        else [
            {
                "contains_null": summary.contains_null,
                "contains_nan": summary.contains_nan,
                "lower_bound": summary.lower_bound,
                "upper_bound": summary.upper_bound,
            }
            for summary in summaries
        ]
        for summaries in columns["partitions"]
    ]
    table = pa.table({name: pa.array(values, _ARROW[name]) for name, values in columns.items()})
    header = {**{key: str(value) for key, value in snapshot.items() if value is not None}}
    header["format-version"] = str(format_version)
    return avro.encode(table, manifest_list_avro_schema(format_version), header, codec=codec)


_SUMMARY = pa.struct(
    [
        pa.field("contains_null", pa.bool_(), nullable=False),
        pa.field("contains_nan", pa.bool_()),
        pa.field("lower_bound", pa.binary()),
        pa.field("upper_bound", pa.binary()),
    ]
)
_BY_AVRO = {"string": pa.string(), "long": pa.int64(), "int": pa.int32(), "bytes": pa.binary()}
_ARROW = {
    spec.name: pa.list_(_SUMMARY) if spec.name == "partitions" else _BY_AVRO[spec.avro] for spec in MANIFEST_LIST_FIELDS
}
