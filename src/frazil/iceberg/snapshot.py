"""Snapshots: the state of a table at some time.

>>> snapshot = Snapshot(7, timestamp_ms=1_000, manifest_list="m.avro", summary={"operation": "append"})
>>> snapshot.operation
'append'
>>> Snapshot.from_json(JsonObject(snapshot.to_json(), "snapshot")) == snapshot
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import MalformedMetadata
from frazil.iceberg.json_object import JsonObject, without_none

APPEND = "append"
REPLACE = "replace"
OVERWRITE = "overwrite"
DELETE = "delete"

_KNOWN = frozenset(
    {
        *("snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms", "manifest-list", "manifests"),
        *("summary", "schema-id", "first-row-id", "added-rows", "key-id"),
    }
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot. `manifests` is v1's inline list, used only where there is no `manifest_list`."""

    snapshot_id: int
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    timestamp_ms: int = 0
    manifest_list: str | None = None
    manifests: tuple[str, ...] = ()
    summary: Mapping[str, str] = field(default_factory=dict, hash=False)
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Members of the JSON object that this library does not know, kept when it is written again."""

    @property
    def operation(self) -> str | None:
        """What was done: append, replace, overwrite, delete or another writer's word; None for old v1 snapshots."""
        # a summary without its required operation may hide any change: overwrite promises the least
        return self.summary.get("operation", OVERWRITE) if self.summary else None

    def to_json(self) -> dict[str, Any]:
        """The specification's JSON object."""
        members = without_none(
            {
                "sequence-number": self.sequence_number if self.sequence_number > 0 else None,
                "snapshot-id": self.snapshot_id,
                "parent-snapshot-id": self.parent_snapshot_id,
                "timestamp-ms": self.timestamp_ms,
                "summary": dict(self.summary) if self.summary else None,
                "manifest-list": self.manifest_list,
                "manifests": list(self.manifests) if self.manifest_list is None else None,
                "schema-id": self.schema_id,
                "first-row-id": self.first_row_id,
                "added-rows": self.added_rows,
                "key-id": self.key_id,
            }
        )
        return {**members, **self.extra}

    @classmethod
    def from_json(cls, document: JsonObject) -> Snapshot:
        """Read the specification's JSON object, also as v1 wrote it (no sequence number, inline manifests)."""
        snapshot_id = document.integer("snapshot-id")
        manifest_list = document.text_or_none("manifest-list")
        if manifest_list is None and not isinstance(document.members.get("manifests"), list):
            raise MalformedMetadata(
                f"snapshot {snapshot_id} has neither 'manifest-list' nor 'manifests'",
                hint="the metadata file is damaged; restore an earlier one",
            )
        return cls(
            snapshot_id=snapshot_id,
            parent_snapshot_id=document.integer_or_none("parent-snapshot-id"),
            sequence_number=document.integer_or_none("sequence-number") or 0,
            timestamp_ms=document.integer("timestamp-ms"),
            manifest_list=manifest_list,
            manifests=document.texts("manifests") if manifest_list is None else (),
            summary=document.text_map("summary"),
            schema_id=document.integer_or_none("schema-id"),
            first_row_id=document.integer_or_none("first-row-id"),
            added_rows=document.integer_or_none("added-rows"),
            key_id=document.text_or_none("key-id"),
            extra=document.rest(_KNOWN),
        )
