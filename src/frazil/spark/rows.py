"""What happens to rows: scans, inserts, and the row-level commands, as the JVM asks for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from frazil.spark.catalog import with_read_options
from frazil.spark.changes.command import Command
from frazil.spark.handles import Asked
from frazil.spark.plans import frame_of
from frazil.spark.scan.scans import Scans

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge
    from frazil.spark.handles import TableHandle


class Rows:
    """Answers what is asked about rows, from `scan` to `explain`."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        bridge.scans = Scans(bridge)
        bridge.on("scan", self.scan)
        bridge.on("aggregate", self.aggregate)
        bridge.on("insert", self.insert)
        bridge.on("truncate", self.truncate)
        bridge.on("dropPartitions", self.drop_partitions)
        bridge.on("overwriteDynamic", self.overwrite_dynamic)
        bridge.on("rowLevel", self.row_level)
        bridge.on("explain", self.explain)

    def scan(self, key: str, what: str, jsession: Any) -> Any:
        """The plan that stands for a table in a query, or the JSON to make it of."""
        asked = json.loads(what)
        handle = with_read_options(self._bridge.handle(key), asked["options"])
        return handle.scan(self._bridge, Asked(asked["columns"], asked["session"], asked["filtered"]), jsession)

    def aggregate(self, key: str, what: str, _c: None) -> bytes | None:
        """COUNT, MIN and MAX from metadata; None if the rows must be read."""
        asked = json.loads(what)
        handle = with_read_options(self._bridge.handle(key), asked["options"])
        return handle.aggregate(asked["aggregates"], asked["filters"])

    def insert(self, key: str, how: str, jdata: Any) -> None:
        """Rows that Spark hands over as a DataFrame; Spark refreshes its caches itself."""
        from pyspark.sql import DataFrame

        asked = json.loads(how)
        data = DataFrame(jdata, self._bridge.session(jdata.sparkSession()))
        handle = self._bridge.handle(key)
        handle.insert(self._bridge, asked["mode"], asked["where"], asked["options"], data)

    def truncate(self, key: str, _b: None, jsession: Any) -> None:
        """TRUNCATE TABLE."""
        self._bridge.handle(key).truncate(self._bridge.session(jsession))

    def drop_partitions(self, key: str, what: str, jsession: Any) -> str:
        """ALTER TABLE ... DROP PARTITION."""
        asked = json.loads(what)
        handle = self._bridge.handle(key)
        handle.drop_partitions(asked["partitions"], if_exists=asked["ifExists"])
        return self._changed(handle)

    def overwrite_dynamic(self, key: str, node: Any, jsession: Any) -> str:
        """INSERT OVERWRITE of the partitions that rows go to: Spark has no other way to hand these rows over."""
        rows = frame_of(self._bridge.session(jsession), node.query())
        handle = self._bridge.handle(key)
        handle.insert(self._bridge, "dynamic", "[]", _options(node), rows)
        return self._changed(handle)

    def row_level(self, key: str, node: Any, jsession: Any) -> str:
        """DELETE, UPDATE and MERGE; the counts of what changed."""
        command = self._command(key, node, jsession)
        try:
            command.handle.change_rows(command)
        finally:
            self._bridge.refresh(command.handle.name)
        return "[]"

    def explain(self, key: str, what: Any, jsession: Any) -> str:
        """EXPLAIN of DELETE, UPDATE and MERGE, in a mode of Spark's."""
        return self._command(key, what[0], jsession).explained(what[1])

    def _command(self, key: str, node: Any, jsession: Any) -> Command:
        return Command(self._bridge, self._bridge.handle(key), self._bridge.session(jsession), node)

    def _changed(self, handle: TableHandle) -> str:
        self._bridge.refresh(handle.name)
        return "[]"


def _options(node: Any) -> dict[str, str]:
    """The write options of a command (a Scala map of texts)."""
    pairs = node.writeOptions().toSeq()
    return {pairs.apply(at)._1(): pairs.apply(at)._2() for at in range(pairs.size())}
