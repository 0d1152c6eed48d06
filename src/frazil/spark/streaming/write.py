"""`df.writeStream`: each batch is one commit, and a batch that comes a second time is left alone.

Spark repeats a batch if it was stopped before it could note that the batch was done. So the commit says of which query
and which batch it is, in the snapshot's summary under Iceberg's names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from frazil.errors import TableNotFound, Unsupported
from frazil.iceberg.refs import MAIN
from frazil.spark.options import folded
from frazil.spark.source import existing, save, target

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge
    from frazil.spark.handles import TableHandle
    from frazil.spark.iceberg.handle import IcebergHandle

QUERY_ID = "spark.sql.streaming.queryId"
EPOCH_ID = "spark.sql.streaming.epochId"
_MODES = {"append": "append", "complete": "overwrite", "update": "append"}
_PROPERTY = "snapshot-property."
_OPERATION = "operation"
"""The option that makes rows change data: the column that says what happened to each."""


class StreamWrites:
    """Answers `sink` (of a table), `sinkOf` (of `format("frazil")`) and `addBatch`."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        bridge.on("sink", self.sink)
        bridge.on("sinkOf", self.sink_of)
        bridge.on("addBatch", self.add_batch)

    def sink(self, key: str, mode: str, _c: None) -> str:
        """The name of a table's sink, as JSON."""
        handle = self._bridge.handle(key)
        parts = handle.parts
        if handle.branch not in (None, MAIN):
            parts = [*parts, f"branch_{handle.branch}"]
        _check(mode, handle)
        return json.dumps(parts)

    def sink_of(self, options: str, mode: str, jsession: Any) -> str:
        """The lake and the name of a sink by path or name."""
        bridge, parts = target(self._bridge.session(jsession), json.loads(options))
        _check(mode, existing(bridge, parts))
        return json.dumps([bridge.key, json.dumps(parts)])

    def add_batch(self, what: str, jrows: Any, _c: None) -> None:
        """One batch, unless it was committed before."""
        from pyspark.sql import DataFrame

        asked = json.loads(what)
        parts, options = json.loads(asked["table"]), asked["options"]
        query, batch = asked["query"], asked["batch"]
        handle = existing(self._bridge, parts)
        if handle is not None and batch <= handle.last_batch(options, query):
            return
        noted = {f"{_PROPERTY}{QUERY_ID}": query, f"{_PROPERTY}{EPOCH_ID}": str(batch)}
        rows = DataFrame(jrows, self._bridge.session(jrows.sparkSession()))
        if _OPERATION in folded(options):
            if handle is None:
                raise TableNotFound(f"no table {'.'.join(parts)} to apply changes to", hint="create it, with its key")
            handle.ingest(self._bridge, {**options, **noted}, rows)
            self._bridge.refresh(handle.name)
            return
        save(self._bridge, parts, rows, _MODES[asked["mode"].lower()], {**options, **noted}, asked["partitions"])


def last_batch(handle: IcebergHandle, options: Mapping[str, str], query: str) -> int:
    """The newest batch of a query that is in the table, -1 if there is none."""
    ref = handle.table.refs.get(_branch(handle.branch, options))
    for snapshot in handle.table.metadata.ancestors_of(None if ref is None else ref.snapshot_id):
        if snapshot.summary.get(QUERY_ID) == query:
            return int(snapshot.summary.get(EPOCH_ID, "-1"))
    return -1


def _branch(of_handle: str | None, options: Mapping[str, str]) -> str:
    return folded(options).get("branch") or of_handle or MAIN


def _check(mode: str, handle: TableHandle | None) -> None:
    wanted = mode.lower()
    if wanted not in _MODES or (wanted == "update" and not (handle is not None and handle.replaces_by_key)):
        raise Unsupported(
            f"streams cannot write in output mode {wanted}",
            hint="use append, or complete to replace all rows; update is for mixed tables with write.upsert.enabled",
        )
