"""ALTER TABLE, as Spark's own grammar has it: columns and properties."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from frazil.spark.catalog import held_table
from frazil.spark.describe import describe
from frazil.spark.exceptions import table_errors
from frazil.spark.formats import handle_of

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge


class AlterTable:
    """Answers `alterTable`: all changes of one statement are one commit."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        bridge.on("alterTable", self.alter)

    def alter(self, name: str, changes: str, _c: None) -> str:
        """Carry out the changes; the table as it is then."""
        parts = json.loads(name)
        handle = held_table(self._bridge, parts)
        if handle is None:
            with table_errors(self._bridge, parts):
                handle = handle_of(self._bridge.lake.table(parts))
        altered = handle.alter(self._bridge, json.loads(changes))
        return describe(self._bridge, held_table(self._bridge, parts) or altered)
