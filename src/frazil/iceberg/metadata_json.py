"""Table metadata as JSON files: reads every spelling that v1 to v3 writers have used, writes each version's own."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from frazil.errors import InvalidArgument, MalformedMetadata, UnsupportedVersion
from frazil.iceberg.encryption_keys import EncryptedKey
from frazil.iceberg.json_object import JsonObject, parse_json
from frazil.iceberg.metadata import (
    SUPPORTED_FORMAT_VERSION,
    MetadataLogEntry,
    SnapshotLogEntry,
    TableMetadata,
    check_consistency,
)
from frazil.iceberg.refs import MAIN, SnapshotRef
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.statistics import PartitionStatisticsFile, StatisticsFile
from frazil.io import location
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import UNSORTED, SortOrder

MAX_COMPRESSED_BYTES = 64 * 1024 * 1024
MAX_METADATA_BYTES = 256 * 1024 * 1024
"""Of the JSON text. Tables with a hundred thousand snapshots stay below; nothing sane is above."""

_GZIP_MAGIC = b"\x1f\x8b"
_KNOWN = frozenset(
    {
        *("format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms", "last-column-id"),
        *("schema", "schemas", "current-schema-id", "partition-spec", "partition-specs", "default-spec-id"),
        *("last-partition-id", "sort-orders", "default-sort-order-id", "properties", "current-snapshot-id"),
        *("snapshots", "snapshot-log", "metadata-log", "refs", "statistics", "partition-statistics"),
        *("next-row-id", "encryption-keys"),
        "row-lineage",  # a flag of v3 drafts; v3 as adopted always has row lineage
    }
)
T = TypeVar("T")


def parse_metadata(data: bytes, *, max_bytes: int = MAX_METADATA_BYTES) -> TableMetadata:
    """Read a metadata file, compressed or not (told by its first bytes, not its name)."""
    if data[:2] == _GZIP_MAGIC:
        data = _inflate(data, max_bytes)
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return metadata_from_json(parse_json(data))


def serialize_metadata(metadata: TableMetadata, *, compress: bool = False) -> bytes:
    """The metadata file's bytes: what the table's format version wants, compressed by gzip if asked."""
    document = metadata_to_json(metadata)
    try:
        data = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can escape and UTF-8 cannot hold
        data = json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
    return gzip.compress(data, compresslevel=6, mtime=0) if compress else data


def _inflate(data: bytes, max_bytes: int) -> bytes:
    if len(data) > MAX_COMPRESSED_BYTES:
        raise _too_large(MAX_COMPRESSED_BYTES)
    parts: list[bytes] = []
    left = max_bytes
    try:
        while data:
            member = zlib.decompressobj(wbits=31)
            parts.append(member.decompress(data, left + 1))
            left -= len(parts[-1])
            if left < 0:
                raise _too_large(max_bytes)
            if not member.eof:
                raise MalformedMetadata("gzip data ends too early", hint="the metadata file was not written to its end")
            data = member.unused_data
    except zlib.error as error:
        raise MalformedMetadata(f"not gzip: {error}", hint="the metadata file is damaged") from error
    return b"".join(parts)


def _too_large(limit: int) -> MalformedMetadata:
    return MalformedMetadata(
        f"metadata file is larger than {limit} bytes", hint="expire snapshots with a tool that can hold it in memory"
    )


def metadata_from_json(document: Any) -> TableMetadata:
    """Read parsed JSON (from a file, or inside a REST catalog's answer)."""
    table = JsonObject(document, "table metadata")
    version = table.integer("format-version")
    if not 1 <= version <= SUPPORTED_FORMAT_VERSION:
        raise UnsupportedVersion(
            f"format version {version} is not supported",
            hint=f"this library knows versions 1 to {SUPPORTED_FORMAT_VERSION}; use a newer one",
        )
    schemas, current_schema_id = _schemas(table, version)
    specs, default_spec_id = _specs(table, version)
    orders, default_order_id = _orders(table, version)
    current_snapshot_id = table.integer_or_none("current-snapshot-id")
    if current_snapshot_id == -1:  # how v1 and v2 writers say that there is none
        current_snapshot_id = None
    metadata = TableMetadata(
        format_version=version,
        table_uuid=table.text_or_none("table-uuid") if version == 1 else table.text("table-uuid"),
        location=location.join(table.text("location")),
        last_sequence_number=0 if version == 1 else table.integer("last-sequence-number"),
        last_updated_ms=table.integer("last-updated-ms"),
        last_column_id=table.integer("last-column-id"),
        schemas=schemas,
        current_schema_id=current_schema_id,
        partition_specs=specs,
        default_spec_id=default_spec_id,
        last_partition_id=_last_partition_id(table, version, specs),
        sort_orders=orders,
        default_sort_order_id=default_order_id,
        properties=table.text_map("properties"),
        current_snapshot_id=current_snapshot_id,
        snapshots=tuple(map(Snapshot.from_json, table.objects("snapshots"))),
        snapshot_log=tuple(
            SnapshotLogEntry(entry.integer("timestamp-ms"), entry.integer("snapshot-id"))
            for entry in table.objects("snapshot-log")
        ),
        metadata_log=tuple(
            MetadataLogEntry(entry.integer("timestamp-ms"), entry.text("metadata-file"))
            for entry in table.objects("metadata-log")
        ),
        refs=_refs(table, current_snapshot_id),
        statistics=tuple(map(StatisticsFile.from_json, table.objects("statistics"))),
        partition_statistics=tuple(map(PartitionStatisticsFile.from_json, table.objects("partition-statistics"))),
        next_row_id=0 if version < 3 else table.integer("next-row-id"),
        encryption_keys=tuple(map(EncryptedKey.from_json, table.objects("encryption-keys"))),
        extra=table.rest(_KNOWN),
    )
    check_consistency(metadata)
    return metadata


def _part(what: str, parse: Callable[[Any], T], document: Any) -> T:
    """A part of the model, whose own errors are about wrong arguments, here about a wrong file."""
    try:
        return parse(document)
    except (InvalidArgument, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = error.message if isinstance(error, InvalidArgument) else repr(error)
        raise MalformedMetadata(
            f"{what} in table metadata: {reason}", hint="the file is damaged, or written by a newer library"
        ) from error


def _schemas(table: JsonObject, version: int) -> tuple[tuple[Schema, ...], int]:
    if version == 1 and not table.has("schemas"):
        schema = _part("schema", Schema.from_json, table.object("schema").members)
        return (schema,), schema.schema_id
    table.get("schemas")
    listed = tuple(_part("schema", Schema.from_json, item.members) for item in table.objects("schemas"))
    return listed, table.integer("current-schema-id")


def _specs(table: JsonObject, version: int) -> tuple[tuple[PartitionSpec, ...], int]:
    if version == 1 and not table.has("partition-specs"):
        table.get("partition-spec")
        return (_part("partition spec", PartitionSpec.from_json, table.array("partition-spec")),), 0
    table.get("partition-specs")
    listed = table.objects("partition-specs")
    specs = tuple(_part("partition spec", PartitionSpec.from_json, item.members) for item in listed)
    return specs, table.integer("default-spec-id")


def _last_partition_id(table: JsonObject, version: int, specs: tuple[PartitionSpec, ...]) -> int:
    if version == 1 and not table.has("last-partition-id"):
        return max(spec.last_field_id for spec in specs)
    return table.integer("last-partition-id")


def _orders(table: JsonObject, version: int) -> tuple[tuple[SortOrder, ...], int]:
    if version == 1 and not table.has("sort-orders"):
        return (UNSORTED,), UNSORTED.order_id
    table.get("sort-orders")
    orders = tuple(_part("sort order", SortOrder.from_json, item.members) for item in table.objects("sort-orders"))
    return orders, table.integer("default-sort-order-id")


def _refs(table: JsonObject, current_snapshot_id: int | None) -> dict[str, SnapshotRef]:
    listed = table.object("refs") if table.has("refs") else JsonObject({}, "refs")
    refs = {name: _part(f"ref {name!r}", SnapshotRef.from_json, listed.object(name)) for name in listed.members}
    if MAIN not in refs and current_snapshot_id is not None:
        refs[MAIN] = SnapshotRef(current_snapshot_id)
    return refs


def metadata_to_json(metadata: TableMetadata) -> dict[str, Any]:
    """The JSON object that the table's format version wants."""
    version = metadata.format_version
    document: dict[str, Any] = {"format-version": version}
    if metadata.table_uuid is not None:
        document["table-uuid"] = metadata.table_uuid
    document["location"] = metadata.location
    if version > 1:
        document["last-sequence-number"] = metadata.last_sequence_number
    document["last-updated-ms"] = metadata.last_updated_ms
    document["last-column-id"] = metadata.last_column_id
    if version == 1:  # what readers older than `schemas` and `partition-specs` look for
        document["schema"] = metadata.current_schema.to_json()
    document["current-schema-id"] = metadata.current_schema_id
    document["schemas"] = [schema.to_json() for schema in metadata.schemas]
    if version == 1:
        document["partition-spec"] = metadata.default_spec.to_json()["fields"]
    document["default-spec-id"] = metadata.default_spec_id
    document["partition-specs"] = [spec.to_json() for spec in metadata.partition_specs]
    document["last-partition-id"] = metadata.last_partition_id
    document["default-sort-order-id"] = metadata.default_sort_order_id
    document["sort-orders"] = [order.to_json() for order in metadata.sort_orders]
    document["properties"] = dict(metadata.properties)
    none = -1 if version < 3 else None
    document["current-snapshot-id"] = none if metadata.current_snapshot_id is None else metadata.current_snapshot_id
    if version >= 3:
        document["next-row-id"] = metadata.next_row_id
    if metadata.encryption_keys:
        document["encryption-keys"] = [key.to_json() for key in metadata.encryption_keys]
    document["refs"] = {name: ref.to_json() for name, ref in metadata.refs.items()}
    document["snapshots"] = [snapshot.to_json() for snapshot in metadata.snapshots]
    document["statistics"] = [file.to_json() for file in metadata.statistics]
    document["partition-statistics"] = [file.to_json() for file in metadata.partition_statistics]
    document["snapshot-log"] = [
        {"timestamp-ms": entry.timestamp_ms, "snapshot-id": entry.snapshot_id} for entry in metadata.snapshot_log
    ]
    document["metadata-log"] = [
        {"timestamp-ms": entry.timestamp_ms, "metadata-file": entry.metadata_file} for entry in metadata.metadata_log
    ]
    document.update(metadata.extra)
    return document
