"""CREATE and REPLACE TABLE [AS SELECT], all or nothing: nobody sees the table before its rows are in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from frazil import ambient
from frazil.catalog.folders import remove_empty_folder
from frazil.errors import CommitFailed, TableNotFound
from frazil.iceberg.table import IcebergTable
from frazil.spark.definition import parse_definition
from frazil.spark.describe import describe
from frazil.spark.exceptions import table_errors
from frazil.spark.handles import TableHandle
from frazil.spark.paths import is_path, stage_at

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge

_ATTEMPTS = 5


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
            if is_path(parts[0]):
                return self._described(stage_at(lake.catalog.store, parts[0], new))
            lake.catalog._require_namespace(tuple(parts[:-1]))
            if new.how == "replace" and not lake.table_exists(parts):
                raise TableNotFound(f"no table {'.'.join(parts)}", hint="create it")
            table = lake.stage_table(
                parts,
                new.schema,
                location=new.location,
                create=new.how != "replace",
                replace=new.how != "create",
                **new.layout,
            )
        return self._described(table)

    def _described(self, table: IcebergTable) -> str:
        token = str(ambient.new_uuid())
        return describe(self._bridge, TableHandle(table, None, table.schema, "staged", token=token))

    def commit(self, key: str, _b: None, _c: None) -> None:
        """Make the table visible, if the commit of its rows has not done so already."""
        handle = self._bridge.tables.forget(key)
        if handle is None:
            return
        if handle.table.metadata_location == json.loads(key)["metadata"]:
            with table_errors(self._bridge, handle.parts):
                _publish(handle.table)

    def abort(self, key: str, _b: None, _c: None) -> None:
        """Forget the table: it was never there, and its folder is not if it holds no file."""
        handle = self._bridge.tables.forget(key)
        if handle is not None:
            remove_empty_folder(handle.table.store, handle.table.location)


def _publish(table: IcebergTable) -> None:
    """Create or replace the table without any rows, on what other writers left meanwhile."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            table._committer.commit(table._committer.load(), [], [])
        except CommitFailed:
            if attempt == _ATTEMPTS:
                raise
        else:
            return
