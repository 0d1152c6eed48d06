"""CREATE and REPLACE TABLE [AS SELECT], all or nothing: nobody sees the table before its rows are in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from frazil import ambient
from frazil.spark.definition import Definition, parse_definition
from frazil.spark.describe import describe
from frazil.spark.exceptions import table_errors
from frazil.spark.formats import format_named
from frazil.spark.paths import is_path

if TYPE_CHECKING:
    from frazil.lake import Lake
    from frazil.spark.bridge import Bridge


class Staging:
    """Answers what StagingTableCatalog and its staged tables ask."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        bridge.on("stageTable", self.stage)
        bridge.on("commitStaged", self.commit)
        bridge.on("abortStaged", self.abort)

    def stage(self, name: str, definition: str, _c: None) -> str:
        """A table to write to, that is not there yet."""
        parts = json.loads(name)
        new = parse_definition(self._bridge, definition)
        lake = self._bridge.lake
        with table_errors(self._bridge, parts):
            if not is_path(parts[0]):
                lake.catalog._require_namespace(tuple(parts[:-1]))
            new = _as_present(lake, parts, new)
            staged = format_named(new.format).stage(lake, parts, new, str(ambient.new_uuid()))
        return describe(self._bridge, staged)

    def commit(self, key: str, _b: None, _c: None) -> None:
        """Make the table visible, if the commit of its rows has not done so already."""
        handle = self._bridge.tables.forget(key)
        if handle is not None:
            with table_errors(self._bridge, handle.parts):
                handle.publish(json.loads(key))

    def abort(self, key: str, _b: None, _c: None) -> None:
        """Forget the table: it was never there, and its folder is not if it holds no file."""
        handle = self._bridge.tables.forget(key)
        if handle is not None:
            handle.abandon()


def _as_present(lake: Lake, parts: Sequence[str], new: Definition) -> Definition:
    """What replaces a table is of the table's format, unless another one is named."""
    if new.names_format or new.how == "create" or is_path(parts[0]) or not lake.table_exists(parts):
        return new
    table = lake.table(parts)
    return new if table.format == new.format else format_named(table.format).like(table, new)
