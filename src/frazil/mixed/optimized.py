"""The optimized sequence: for each partition, up to which change commit its rows are in the base store.

Change files whose sequence number is not above it are hidden. The map lies in a Puffin file that belongs to the base
snapshot which moved it; that snapshot's summary has a flag. So the map of any snapshot is that of the first flagged one
on the way to its parents. Tables of old have it in a property.

Partitions are known by their paths as Iceberg writes them, and paths are never read back: Amoro does, and gets years
and some texts wrong (`frazil.mixed.visible`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil import ambient
from frazil.errors import CommitConflict, FileMissing, MalformedMetadata
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.statistics import BlobMetadata, StatisticsFile
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import SetStatistics
from frazil.io.puffin import PuffinWriter, read_blob, read_metadata
from frazil.io.store import Store
from frazil.mixed.properties import PARTITION_PROPERTIES

SEQUENCE = "optimized-sequence"
TIME = "base-optimized-time"
_LEGACY = {SEQUENCE: "max-txId", TIME: "base-op-time"}
_CREATED_BY = "created-by"
OURS = "frazil"
_MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Optimized:
    """Per partition path: the optimized sequence, and when the partition was optimized in milliseconds."""

    sequence: Mapping[str, int] = field(default_factory=dict)
    time: Mapping[str, int] = field(default_factory=dict)
    is_ours: bool = True
    """Whether this library wrote the map: its paths are right then."""


def flag(kind: str) -> str:
    """The summary's key that says that a snapshot has such a map."""
    return f"{kind}.exist"


def read_optimized(metadata: TableMetadata, store: Store, snapshot: Snapshot | None) -> Optimized:
    """What a base snapshot, or None before the first one, knows of optimized partitions."""
    sequence, ours = _read(metadata, store, snapshot, SEQUENCE)
    time, _ = _read(metadata, store, snapshot, TIME)
    return Optimized(sequence, time, ours)


def _read(
    metadata: TableMetadata, store: Store, snapshot: Snapshot | None, kind: str
) -> tuple[Mapping[str, int], bool]:
    start = None if snapshot is None else snapshot.snapshot_id
    for one in metadata.ancestors_of(start):
        if one.summary.get(flag(kind), "").lower() == "true":
            return _blob(metadata, store, one, kind)
    legacy = _legacy(metadata, kind)
    return legacy, not legacy


def _blob(metadata: TableMetadata, store: Store, snapshot: Snapshot, kind: str) -> tuple[Mapping[str, int], bool]:
    files = [
        file
        for file in metadata.statistics
        if file.snapshot_id == snapshot.snapshot_id and any(blob.type == kind for blob in file.blob_metadata)
    ]
    if len(files) != 1:
        raise MalformedMetadata(
            f"base snapshot {snapshot.snapshot_id} has {len(files)} statistics files with its {kind}, not one",
            hint="without it nobody can tell which changes are in the base store; roll back to a snapshot before",
        )
    place = files[0].statistics_path
    try:
        footer = read_metadata(store, place, size=files[0].file_size_in_bytes)
    except FileMissing as error:
        raise FileMissing(
            f"{place}, the {kind} of base snapshot {snapshot.snapshot_id}, is missing",
            hint="without it nobody can tell which changes are in the base store; restore the file",
        ) from error
    blobs = [blob for blob in footer.blobs if blob.type == kind]
    if not blobs:
        raise MalformedMetadata(f"{place} has no {kind}", hint="the file is not the one the metadata means")
    return _numbers(read_blob(store, place, blobs[0], max_bytes=_MOST_BYTES), place), _is_ours(footer.properties)


def _is_ours(properties: Mapping[str, str]) -> bool:
    return properties.get(_CREATED_BY, "").startswith(OURS)


def _numbers(data: bytes, where: str) -> dict[str, int]:
    try:
        found = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise _damaged(where) from error
    if not isinstance(found, dict) or not all(_is_long(value) for value in found.values()):
        raise _damaged(where)
    return found


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _damaged(where: str) -> MalformedMetadata:
    return MalformedMetadata(f"{where} has no map from partitions to numbers", hint="it is damaged")


def _legacy(metadata: TableMetadata, kind: str) -> dict[str, int]:
    """The map as tables of Amoro 0.5 and before have it, in a property."""
    text = metadata.properties.get(PARTITION_PROPERTIES)
    if text is None:
        return {}
    where = f"the property {PARTITION_PROPERTIES}"
    try:
        found = json.loads(text)
        told = {path: values[_LEGACY[kind]] for path, values in found.items() if _LEGACY[kind] in values}
        return {path: int(value) for path, value in told.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(where) from error


class MoveOptimized(Action):
    """Gives the snapshots that this transaction makes the map of their parent with some partitions changed.

    It comes after the actions that make the snapshots, which must have been flagged, and is worked out anew when
    another writer was first.
    """

    def __init__(
        self,
        transaction: Transaction,
        maps: Mapping[str, Mapping[str, int]],
        planned: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(transaction)
        self._maps = maps
        self._planned = planned
        """The sequences that the change was worked out from: with them, those must still be the table's."""

    def stage(self, context: Context) -> Staged:
        before = None if context.base is None else context.base.current_snapshot
        own = [one for one in context.metadata.snapshots if context.is_own(one) and _is_flagged(one)]
        if not own:
            return Staged(())
        known = read_optimized(context.metadata, context.store, before)
        told = {SEQUENCE: known.sequence, TIME: known.time}
        for path, value in self._maps.get(SEQUENCE, {}).items():
            now = known.sequence.get(path)
            is_other = self._planned is not None and now != self._planned.get(path)
            if is_other or (now is not None and now > value):
                raise CommitConflict(
                    f"partition {path} was optimized up to commit {now} meanwhile, and this was to go to {value}",
                    hint="repeat the change on the table as it is",
                )
        moved = {kind: {**told[kind], **changes} for kind, changes in self._maps.items()}
        # paths that Amoro wrote are as doubtful in a copy
        written = write_map(context, own[0], moved, is_ours=known.is_ours)
        # as Amoro does it: one file for all, whose blobs name the first of them
        return Staged(tuple(SetStatistics(StatisticsFile(snapshot.snapshot_id, *written)) for snapshot in own))


def _is_flagged(snapshot: Snapshot) -> bool:
    return flag(SEQUENCE) in snapshot.summary


def write_map(
    context: Context, snapshot: Snapshot, maps: Mapping[str, Mapping[str, int]], *, is_ours: bool = True
) -> tuple[str, int, int, tuple[BlobMetadata, ...]]:
    """Write maps as a Puffin file: its place, its size, that of its footer, and its blobs."""
    writer = PuffinWriter()
    for kind, numbers in maps.items():
        data = json.dumps(numbers, ensure_ascii=False, separators=(",", ":")).encode()
        writer.add(kind, data, fields=[], snapshot_id=snapshot.snapshot_id, sequence_number=snapshot.sequence_number)
    file = writer.finish({_CREATED_BY: OURS} if is_ours else {})
    folder = context.metadata.location.rstrip("/")
    place = f"{folder}/data/puffin/{snapshot.snapshot_id}-{ambient.new_uuid()}.puffin"
    context.written.append(place)
    context.store.write(place, file.data)
    blobs = tuple(BlobMetadata(kind, snapshot.snapshot_id, snapshot.sequence_number, ()) for kind in maps)
    return place, len(file.data), file.footer_size, blobs
