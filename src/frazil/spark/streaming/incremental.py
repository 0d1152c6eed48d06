"""Incremental reads: the rows appended after one snapshot up to another, by Iceberg's read options."""

from __future__ import annotations

import re
from collections.abc import Mapping

from frazil.errors import InvalidArgument, SnapshotNotFound
from frazil.iceberg.refs import MAIN
from frazil.spark.handles import TableHandle
from frazil.spark.streaming.history import History, StreamOptions
from frazil.spark.streaming.offsets import Offset
from frazil.spark.streaming.read import of_run

START, END = "start-snapshot-id", "end-snapshot-id"
_PASSED_OVER = StreamOptions(skipped=frozenset({"delete", "overwrite"}))
_INTEGER = re.compile(r"-?\d{1,19}")


def appended_between(handle: TableHandle, options: Mapping[str, str]) -> list[TableHandle] | None:
    """What to read instead of the table, None if the options do not ask for an incremental read.

    Snapshots that did not append are passed over, as by Iceberg.
    """
    folded = {key.lower(): text for key, text in options.items()}
    if START not in folded and END not in folded:
        return None
    if START not in folded:
        raise InvalidArgument(f"{END} is given, and no {START}", hint=f"use snapshot-id, or give {START} too")
    if handle.pinned or handle.kind != "table":
        raise InvalidArgument(f"{START} is given for {handle.name} at a snapshot", hint="name the table alone")
    history = History(handle.table, handle.branch or MAIN, _PASSED_OVER)
    start = _known(history, START, folded[START])
    end = _known(history, END, folded[END]) if END in folded else history.end().snapshot_id
    if not handle.table.metadata.is_ancestor(start, end):
        raise InvalidArgument(
            f"snapshot {start} is not before {end} in the history of {handle.name}", hint=f"give an older {START}"
        )
    runs = history.runs(_after(history, start), _after(history, end))
    return [of_run(history, handle, steps) for steps in runs] or [of_run(history, handle, ())]


def _known(history: History, option: str, text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise InvalidArgument(f"option {option} is {text!r}", hint="give a snapshot id")
    number = int(text)
    if history.metadata.snapshot_or_none(number) is None:
        raise SnapshotNotFound(f"{history.name} has no snapshot {number}", hint=f"see {history.name}.snapshots")
    return number


def _after(history: History, snapshot_id: int) -> Offset:
    snapshot = history.metadata.snapshot(snapshot_id)
    return Offset(snapshot_id, len(history.files(snapshot, False)))
