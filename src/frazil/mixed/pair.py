"""Pairs of snapshots: a keyed table is two tables, and a moment of it is a snapshot of each.

Every commit of this library says in its snapshot's summary which snapshot the other store was at. So any snapshot of
either store names a pair, and the past can be read. For snapshots of other writers the other one is found by the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from frazil import ambient
from frazil.errors import InvalidArgument, MalformedMetadata, SnapshotNotFound, StoreError
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.model.schema import Schema
from frazil.model.temporal import to_millis

BASE_SNAPSHOT = "frazil.base-snapshot-id"
"""In summaries of the change store."""
CHANGE_SNAPSHOT = "frazil.change-snapshot-id"
"""In summaries of the base store."""
NONE = "none"
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class SnapshotPair:
    """A moment of a keyed table. A store that has no snapshot yet has None."""

    base: Snapshot | None
    change: Snapshot | None

    @property
    def timestamp_ms(self) -> int | None:
        """When the later one of both was made."""
        return max((one.timestamp_ms for one in (self.base, self.change) if one is not None), default=None)

    def __repr__(self) -> str:
        numbers = [None if one is None else one.snapshot_id for one in (self.base, self.change)]
        return f"SnapshotPair(base={numbers[0]}, change={numbers[1]})"


def recorded(metadata: TableMetadata) -> str:
    """How a store's current snapshot is written into the other one's summary."""
    number = metadata.current_snapshot_id
    return NONE if number is None else str(number)


def refresh_pair(base: IcebergTable, change: IcebergTable) -> None:
    """Load the newest state of both stores, so that it is one of the table.

    The change store is loaded between two looks at the base store: were changes moved to the base store and removed
    from the change store between them, they would be in neither.
    """
    base.refresh()
    for attempt in range(_ATTEMPTS):
        before = base.metadata_location
        change.refresh()
        if base.refresh().metadata_location == before:
            return
        ambient.sleep(0.01 * attempt)
    raise StoreError(
        f"the base store of {base.location} changes faster than both stores can be loaded",
        hint="try again; too many jobs write to it",
    )


def choose_pair(
    base: TableMetadata,
    change: TableMetadata,
    version: int | None = None,
    ref: str | None = None,
    as_of: int | str | datetime | None = None,
) -> tuple[SnapshotPair, Schema]:
    """The pair that the id of a snapshot of either store, or a time, names; and the schema to read it with."""
    if version is not None and as_of is not None:
        raise InvalidArgument("version and as_of are different ways to say one thing", hint="give one of them")
    if ref is not None:
        raise InvalidArgument(
            f"a keyed table has no branch or tag {ref!r}: a moment of it is a pair of snapshots",
            hint="use version= with the id of a snapshot of either store, or as_of=",
        )
    if version is not None:
        return _by_id(base, change, version)
    if as_of is not None:
        moment = to_millis(as_of)
        pair = SnapshotPair(_at(base, moment), _at(change, moment))
        if pair.timestamp_ms is None:
            raise SnapshotNotFound(
                f"the table has no snapshot as of {moment} ms", hint="the time is before its first one"
            )
        return pair, _schema_of(base, change, pair)
    return SnapshotPair(base.current_snapshot, change.current_snapshot), base.current_schema


def _by_id(base: TableMetadata, change: TableMetadata, version: int) -> tuple[SnapshotPair, Schema]:
    if not isinstance(version, int):
        raise InvalidArgument(f"version {version!r} is not a snapshot id", hint="give the id as an integer")
    of_change, of_base = change.snapshot_or_none(version), base.snapshot_or_none(version)
    if of_change is not None:
        return SnapshotPair(_other(base, of_change, BASE_SNAPSHOT), of_change), change.schema_of(of_change)
    if of_base is not None:
        return SnapshotPair(of_base, _other(change, of_base, CHANGE_SNAPSHOT)), base.schema_of(of_base)
    raise SnapshotNotFound(
        f"neither store has a snapshot {version}", hint="it may have expired; table.snapshots lists those that are left"
    )


def _other(store: TableMetadata, snapshot: Snapshot, key: str) -> Snapshot | None:
    """The snapshot that the other store was at."""
    text = snapshot.summary.get(key)
    if text is None:
        return _at(store, snapshot.timestamp_ms)
    if text == NONE:
        return None
    if not text.isdecimal():
        raise MalformedMetadata(f"snapshot {snapshot.snapshot_id} has {key} {text!r}", hint="its summary is damaged")
    found = store.snapshot_or_none(int(text))
    if found is None:
        raise SnapshotNotFound(
            f"snapshot {snapshot.snapshot_id} goes with {text} of the other store, which is gone",
            hint="it has expired; choose a later snapshot",
        )
    return found


def _at(store: TableMetadata, moment: int) -> Snapshot | None:
    """The snapshot a store was at; None before the first one it ever had."""
    if any(entry.timestamp_ms <= moment for entry in store.snapshot_log):
        return store.snapshot_as_of(moment)
    oldest = min(store.snapshots, key=lambda one: one.sequence_number, default=None)
    if oldest is None or oldest.parent_snapshot_id is None:
        return None
    raise SnapshotNotFound(
        f"what a store was at {moment} ms is gone", hint="that part of the history has expired; choose a later time"
    )


def _schema_of(base: TableMetadata, change: TableMetadata, pair: SnapshotPair) -> Schema:
    if pair.change is not None and pair.timestamp_ms == pair.change.timestamp_ms:
        return change.schema_of(pair.change)
    assert pair.base is not None
    return base.schema_of(pair.base)
