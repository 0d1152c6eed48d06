"""Encrypted keys that a v3 table keeps in its metadata.

>>> EncryptedKey("k1", b"iceberg").to_json()
{'key-id': 'k1', 'encrypted-key-metadata': 'aWNlYmVyZw=='}
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import MalformedMetadata
from frazil.iceberg.json_object import JsonObject, without_none


@dataclass(frozen=True, slots=True)
class EncryptedKey:
    """A wrapped key. What it wraps stays out of `repr`, so that logs never hold it."""

    key_id: str
    encrypted_key_metadata: bytes = field(repr=False)
    encrypted_by_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """The specification's JSON object."""
        return without_none(
            {
                "key-id": self.key_id,
                "encrypted-key-metadata": base64.b64encode(self.encrypted_key_metadata).decode("ascii"),
                "encrypted-by-id": self.encrypted_by_id,
                "properties": dict(self.properties) if self.properties else None,
            }
        )

    @classmethod
    def from_json(cls, document: JsonObject) -> EncryptedKey:
        """Read the JSON object; `key-metadata` is how drafts (and the specification's example) spell the key."""
        is_draft = document.has("key-metadata") and not document.has("encrypted-key-metadata")
        name = "key-metadata" if is_draft else "encrypted-key-metadata"
        try:
            wrapped = base64.b64decode(document.text(name), validate=True)
        except (binascii.Error, ValueError) as error:
            raise MalformedMetadata(
                f"{name!r} of {document.where} is not base64",
                hint="the metadata file is damaged; restore an earlier one",
            ) from error
        return cls(
            document.text("key-id"), wrapped, document.text_or_none("encrypted-by-id"), document.text_map("properties")
        )
