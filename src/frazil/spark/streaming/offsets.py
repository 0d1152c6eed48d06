"""Where a stream is in a table: how many files of which snapshot it has read. The JSON is Iceberg's.

>>> Offset(7, 2).to_json()
'{"version":1,"snapshot_id":7,"position":2,"scan_all_files":false}'
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from frazil.errors import Malformed


@dataclass(frozen=True, slots=True)
class Offset:
    """Everything before the file at `position` of a snapshot was read.

    Files are counted among those that the snapshot added, or with `scan_all_files` among all that it has.
    """

    snapshot_id: int
    position: int
    scan_all_files: bool = False

    def to_json(self) -> str:
        document = {
            "version": 1,
            "snapshot_id": self.snapshot_id,
            "position": self.position,
            "scan_all_files": self.scan_all_files,
        }
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Offset:
        try:
            found: dict[str, Any] = json.loads(text)
            if found["version"] != 1:
                raise ValueError(f"version {found['version']}")
            return cls(int(found["snapshot_id"]), int(found["position"]), bool(found["scan_all_files"]))
        except (ValueError, TypeError, KeyError) as error:
            raise Malformed(
                f"{text[:200]!r} is no offset of a stream: {error}", hint="start the query with another checkpoint"
            ) from error


NOWHERE = Offset(-1, -1)
"""Where a stream is while there is no snapshot to begin with."""
