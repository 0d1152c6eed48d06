"""Statistics files that metadata refers to: Puffin files per snapshot, and partition statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.iceberg.json_object import JsonObject, without_none


@dataclass(frozen=True, slots=True)
class BlobMetadata:
    """What one blob of a statistics file holds: enough to choose it without opening the file."""

    type: str
    snapshot_id: int
    sequence_number: int
    fields: tuple[int, ...]
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """The specification's JSON object."""
        return without_none(
            {
                "type": self.type,
                "snapshot-id": self.snapshot_id,
                "sequence-number": self.sequence_number,
                "fields": list(self.fields),
                "properties": dict(self.properties) if self.properties else None,
            }
        )

    @classmethod
    def from_json(cls, document: JsonObject) -> BlobMetadata:
        """Read the specification's JSON object."""
        return cls(
            document.text("type"),
            document.integer("snapshot-id"),
            document.integer("sequence-number"),
            document.integers("fields"),
            document.text_map("properties"),
        )


@dataclass(frozen=True, slots=True)
class StatisticsFile:
    """A Puffin file with statistics about a snapshot. `key_metadata` is base64 text, as the metadata has it."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    blob_metadata: tuple[BlobMetadata, ...] = ()
    key_metadata: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The specification's JSON object."""
        return without_none(
            {
                "snapshot-id": self.snapshot_id,
                "statistics-path": self.statistics_path,
                "file-size-in-bytes": self.file_size_in_bytes,
                "file-footer-size-in-bytes": self.file_footer_size_in_bytes,
                "key-metadata": self.key_metadata,
                "blob-metadata": [blob.to_json() for blob in self.blob_metadata],
            }
        )

    @classmethod
    def from_json(cls, document: JsonObject) -> StatisticsFile:
        """Read the specification's JSON object."""
        return cls(
            document.integer("snapshot-id"),
            document.text("statistics-path"),
            document.integer("file-size-in-bytes"),
            document.integer("file-footer-size-in-bytes"),
            tuple(map(BlobMetadata.from_json, document.objects("blob-metadata"))),
            document.text_or_none("key-metadata"),
        )


@dataclass(frozen=True, slots=True)
class PartitionStatisticsFile:
    """A data file with one row of statistics per partition of a snapshot."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int

    def to_json(self) -> dict[str, Any]:
        """The specification's JSON object."""
        return {
            "snapshot-id": self.snapshot_id,
            "statistics-path": self.statistics_path,
            "file-size-in-bytes": self.file_size_in_bytes,
        }

    @classmethod
    def from_json(cls, document: JsonObject) -> PartitionStatisticsFile:
        """Read the specification's JSON object."""
        return cls(
            document.integer("snapshot-id"), document.text("statistics-path"), document.integer("file-size-in-bytes")
        )
