"""The last look at a change before it is published: what our own parser would refuse is refused here.

Only what changes is read back, so that it costs the same however long a table's history is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from frazil.errors import InvalidArgument, MalformedMetadata
from frazil.iceberg.json_object import parse_json
from frazil.iceberg.updates import Update
from frazil.iceberg.updates_json import update_from_json, update_to_json


def refuse_unreadable(updates: Iterable[Update]) -> None:
    """Refuse updates that make metadata which cannot be read."""
    for update in updates:
        try:
            update_from_json(parse_json(json.dumps(update_to_json(update), allow_nan=False).encode()))
        except (MalformedMetadata, TypeError, ValueError) as error:
            reason = error.message if isinstance(error, MalformedMetadata) else str(error)
            raise InvalidArgument(
                f"the change would make metadata that cannot be read: {reason}",
                hint="texts must be texts and numbers numbers; nothing was changed",
            ) from error
