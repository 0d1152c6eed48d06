"""What Spark is told about a mixed table's properties."""

from __future__ import annotations

from frazil.catalog.formats import MIXED
from frazil.mixed.definition import LAYOUT, PRIMARY_KEY
from frazil.mixed.layout import LAYOUTS, NESTED
from frazil.mixed.properties import BASE_FORMAT, STORE_PROPERTIES, WATERMARK_BASE, WATERMARK_TABLE
from frazil.mixed.table import MixedTable
from frazil.spark.describe import SHOWN

STATE = frozenset({*SHOWN, *STORE_PROPERTIES, PRIMARY_KEY, LAYOUT, WATERMARK_TABLE, WATERMARK_BASE})
"""What a table is, and not how it is written: nobody sets it."""


def shown_properties(table: MixedTable) -> dict[str, str]:
    """The properties that CREATE TABLE would make the table with, its watermarks, and its state."""
    stored = {key: text for key, text in table.properties.items() if key not in STATE}
    marks = {key: text for key, text in table.properties.items() if key in (WATERMARK_TABLE, WATERMARK_BASE)}
    pair = table.current_snapshot
    newest = max((one for one in (pair.base, pair.change) if one is not None), key=_moment, default=None)
    return {
        **stored,
        **marks,
        "format": f"{MIXED}/{table.base_store.metadata.property_reader.get(BASE_FORMAT)}",
        "provider": MIXED,
        "location": table.location,
        "current-snapshot-id": "none" if newest is None else str(newest.snapshot_id),
        "format-version": str(table.format_version),
        **({PRIMARY_KEY: ",".join(table.primary_key)} if table.is_keyed else {}),
        **({LAYOUT: table.layout} if table.layout in LAYOUTS and table.layout != NESTED else {}),
    }


def _moment(snapshot: object) -> int:
    found: int = snapshot.timestamp_ms  # type: ignore[attr-defined]
    return found
