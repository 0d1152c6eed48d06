"""`spark.readStream`: the rows that were appended to a table, batch by batch.

Spark asks for offsets; the rows between two of them are read by the same relations as any scan, of some files only.
The stream has the columns that the table had when it began: columns added since are seen after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import InvalidArgument
from frazil.iceberg.refs import MAIN
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.spark.handles import Asked
from frazil.spark.options import folded
from frazil.spark.scan.contents import OnlyFiles
from frazil.spark.streaming.history import History, Step, StreamOptions
from frazil.spark.streaming.offsets import Offset

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge

_CHOICES = ("snapshot-id", "as-of-timestamp", "tag", "versionasof", "timestampasof")


class StreamReads:
    """Answers what FrazilStream asks; offsets are JSON."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        bridge.on("streamStart", self.start)
        bridge.on("streamEnd", self.end)
        bridge.on("streamNext", self.next)
        bridge.on("streamBatch", self.batch)

    def start(self, key: str, asked: str, _c: None) -> str:
        """Where a new stream begins."""
        return self._history(key, json.loads(asked)["options"]).start().to_json()

    def end(self, key: str, asked: str, _c: None) -> str:
        """Where the table ends now."""
        return self._history(key, json.loads(asked)["options"]).end().to_json()

    def next(self, key: str, asked: str, _c: None) -> str | None:
        """The end of the next batch."""
        what = json.loads(asked)
        until = None if what["until"] is None else Offset.from_json(what["until"])
        history = self._history(key, what["options"])
        found = history.next(Offset.from_json(what["start"]), until, limited=what["limited"])
        return None if found is None else found.to_json()

    def batch(self, key: str, asked: str, jsession: Any) -> Any:
        """The description of the plan that has the rows of a batch."""
        what = json.loads(asked)
        history = self._history(key, what["options"])
        begin, end = Offset.from_json(what["start"]), Offset.from_json(what["end"])
        base = self._bridge.handle(key)
        runs = [_run(history, steps) for steps in history.runs(begin, end) or [[]]]
        parts = [base.stream_part(history.table, snapshot, files, what["options"]) for snapshot, files in runs]
        return base.describe_parts(self._bridge, parts, Asked(what["columns"], what["session"]), jsession)

    def _history(self, key: str, options: Mapping[str, str]) -> History:
        handle = self._bridge.handle(key)
        store, skipped = handle.stream_store()
        given = folded(options)
        refused = next((name for name in _CHOICES if name in given), None)
        if refused is not None:
            raise InvalidArgument(f"option {refused} chooses one snapshot", hint="a stream goes through many of them")
        branch = given.get("branch") or handle.branch or MAIN
        asked = StreamOptions.of(options)
        return History(fresh(store), branch, replace(asked, skipped=asked.skipped | skipped))


def fresh(table: IcebergTable) -> IcebergTable:
    """The table as it is now; the one given stays as it is."""
    return IcebergTable(table.identifier, table.store, table._committer, table._committer.load())


def _run(history: History, steps: Sequence[Step]) -> tuple[Snapshot | None, OnlyFiles | None]:
    """The last snapshot of a run, and its files: they are all there, and nothing has hit them yet."""
    if not steps:
        return None, None
    chunks, names = [], []
    for step in steps:
        paths = history.files(step.snapshot, step.scan_all_files).paths
        end = len(paths) if step.end is None else step.end
        chunks.append(paths.slice(step.first, max(end - step.first, 0)))
        names.append(f"{step.snapshot.snapshot_id}:{step.first}-{end}{'*' if step.scan_all_files else ''}")
    return steps[-1].snapshot, OnlyFiles(",".join(names), pa.concat_arrays(chunks))
