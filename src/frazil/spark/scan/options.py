"""What a reader may choose: options of one read, and the table's properties and the session's settings behind them.

`lookback` and `read.split.planning-lookback` have no meaning here: Spark packs splits in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from frazil.errors import InvalidArgument
from frazil.iceberg.incremental import appends_between
from frazil.iceberg.properties import KNOWN
from frazil.spark.options import folded

if TYPE_CHECKING:
    from frazil.iceberg.metadata import TableMetadata
    from frazil.iceberg.snapshot import Snapshot

NATIVE, ARROW, AUTO = "native", "arrow", "auto"
SCAN = "frazil.scan"

START, END = "start-snapshot-id", "end-snapshot-id"
_OTHER_SNAPSHOTS = ("snapshot-id", "as-of-timestamp", "branch", "tag", "versionasof", "timestampasof")

_SETTINGS = {
    "split-size": ("read.split.target-size", "spark.sql.files.maxPartitionBytes"),
    "file-open-cost": ("read.split.open-file-cost", "spark.sql.files.openCostInBytes"),
    "vectorization-enabled": ("read.parquet.vectorization.enabled", "spark.sql.parquet.enableVectorizedReader"),
    "batch-size": ("read.parquet.vectorization.batch-size", "spark.sql.parquet.columnarReaderBatchSize"),
}
"""Options by the table property they stand before, and the setting of Spark that they are."""


def scan_mode(options: Mapping[str, str], session: str | None) -> str:
    """How to read: by option, else by the session's setting."""
    mode = folded(options).get(SCAN, session or AUTO).lower()
    if mode not in (NATIVE, ARROW, AUTO):
        raise InvalidArgument(f"{SCAN} is {mode!r}", hint=f"use {NATIVE}, {ARROW} or {AUTO}")
    return mode


def reader_settings(options: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    """Settings of Spark for this read alone.

    >>> reader_settings({"Split-Size": "1024"}, {"read.split.target-size": "4096"})
    {'spark.sql.files.maxPartitionBytes': '1024'}
    """
    given, found = folded(options), {}
    for option, (prop, setting) in _SETTINGS.items():
        text = given.get(option, properties.get(prop))
        if text is not None:
            KNOWN[prop].parse(option if option in given else prop, text)
            found[setting] = text.lower()
    return found


def appends_asked_for(
    metadata: TableMetadata, snapshot: Snapshot | None, options: Mapping[str, str]
) -> tuple[Snapshot, ...] | None:
    """The snapshots of an incremental read, oldest first; None if all rows of a snapshot are asked for."""
    given = folded(options)
    if START not in given:
        if END in given:
            raise InvalidArgument(f"{END} alone does not say what to read", hint=f"give {START} too")
        return None
    other = next((option for option in _OTHER_SNAPSHOTS if option in given), None)
    if other is not None:
        raise InvalidArgument(f"{START} and {other} are different ways to choose rows", hint="give one of them")
    if snapshot is None and END not in given:
        raise InvalidArgument(f"there is no snapshot after {given[START]}", hint="the table is empty")
    end = _number(END, given[END]) if END in given else snapshot.snapshot_id  # type: ignore[union-attr]
    return appends_between(metadata, _number(START, given[START]), end)


def _number(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"{option} is {text!r}", hint="give the id of a snapshot") from None
