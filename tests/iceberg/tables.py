"""Small tables, as metadata only, for the tests of this folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from frazil.iceberg.metadata import SnapshotLogEntry, TableMetadata
from frazil.iceberg.new_table import new_table_metadata
from frazil.iceberg.refs import SnapshotRef
from frazil.iceberg.snapshot import Snapshot
from frazil.model.partition import PartitionField, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import SortField, SortOrder
from frazil.model.transforms import parse_transform
from frazil.model.types import LongType, NestedField, StringType, TimestampType

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
SCHEMA = Schema(
    (
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "ts", TimestampType()),
        NestedField(3, "name", StringType()),
    ),
    identifier_field_ids=(1,),
)
SPEC = PartitionSpec(0, (PartitionField((2,), 1000, "ts_day", parse_transform("day")),))
ORDER = SortOrder(1, (SortField(parse_transform("identity"), (1,), "asc", "nulls-first"),))


def table(format_version: int = 2, **changes: Any) -> TableMetadata:
    """A table without snapshots, last changed at time 1000."""
    made = new_table_metadata(SCHEMA, SPEC, ORDER, location="s3://b/t", format_version=format_version, uuid=UUID)
    return replace(made, **{"last_updated_ms": 1000, **changes})


def snapshot(number: int, parent: int | None = None, **members: Any) -> Snapshot:
    """Snapshot `number`, with that sequence number, made at `number * 1000`."""
    values: dict[str, Any] = {
        "sequence_number": number,
        "timestamp_ms": number * 1000,
        "manifest_list": f"s3://b/t/metadata/{number}.avro",
        "summary": {"operation": "append"},
        "schema_id": 0,
    }
    return Snapshot(number, parent, **{**values, **members})


def table_with(*snapshots: Snapshot, format_version: int = 2, **changes: Any) -> TableMetadata:
    """A table with those snapshots; main and the log went through them in order."""
    last = snapshots[-1]
    made = replace(
        table(format_version),
        last_updated_ms=last.timestamp_ms,
        last_sequence_number=0 if format_version == 1 else max(one.sequence_number for one in snapshots),
        snapshots=snapshots,
        current_snapshot_id=last.snapshot_id,
        refs={"main": SnapshotRef(last.snapshot_id)},
        snapshot_log=tuple(SnapshotLogEntry(one.timestamp_ms, one.snapshot_id) for one in snapshots),
    )
    return replace(made, **changes)
