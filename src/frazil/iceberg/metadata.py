"""Table metadata: everything a table is, as one immutable value.

`metadata_json` reads and writes it, `updates` makes the next one from it, `new_table` the first.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from frazil import ambient
from frazil.errors import MalformedMetadata, NotFound, RefNotFound, SnapshotNotFound, UnsupportedVersion
from frazil.iceberg.encryption_keys import EncryptedKey
from frazil.iceberg.properties import PropertyReader
from frazil.iceberg.refs import MAIN, SnapshotRef
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.statistics import PartitionStatisticsFile, StatisticsFile
from frazil.model.partition import UNPARTITIONED, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import UNSORTED, SortOrder

SUPPORTED_FORMAT_VERSION = 3


@dataclass(frozen=True, slots=True)
class SnapshotLogEntry:
    """From `timestamp_ms` on, this snapshot was the current one."""

    timestamp_ms: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class MetadataLogEntry:
    """A former metadata file of the table, and when it was written."""

    timestamp_ms: int
    metadata_file: str


@dataclass(frozen=True)
class TableMetadata:
    """The fields of the specification, with the spelling differences between versions already resolved.

    `current_snapshot_id` is None for an empty table, `refs` always has `main` for any other, `table_uuid` is None only
    for a v1 table whose writer did not give it one.
    """

    format_version: int
    location: str
    schemas: tuple[Schema, ...]
    table_uuid: str | None = None
    last_sequence_number: int = 0
    last_updated_ms: int = 0
    last_column_id: int = 0
    current_schema_id: int = 0
    partition_specs: tuple[PartitionSpec, ...] = ()
    default_spec_id: int = 0
    last_partition_id: int = UNPARTITIONED.last_field_id
    sort_orders: tuple[SortOrder, ...] = ()
    default_sort_order_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    current_snapshot_id: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    refs: Mapping[str, SnapshotRef] = field(default_factory=dict)
    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[PartitionStatisticsFile, ...] = ()
    next_row_id: int = 0
    encryption_keys: tuple[EncryptedKey, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Top-level members that this library does not know, kept when the metadata is written again."""

    @cached_property
    def _schemas_by_id(self) -> dict[int, Schema]:
        return {schema.schema_id: schema for schema in self.schemas}

    @cached_property
    def _snapshots_by_id(self) -> dict[int, Snapshot]:
        return {snapshot.snapshot_id: snapshot for snapshot in self.snapshots}

    @property
    def property_reader(self) -> PropertyReader:
        """Typed access to the properties."""
        return PropertyReader(self.properties)

    def schema(self, schema_id: int) -> Schema:
        """The schema of that id."""
        found = self._schemas_by_id.get(schema_id)
        if found is None:
            raise NotFound(f"no schema with id {schema_id}", hint=f"the table has {sorted(self._schemas_by_id)}")
        return found

    @property
    def current_schema(self) -> Schema:
        return self.schema(self.current_schema_id)

    def schema_of(self, snapshot: Snapshot) -> Schema:
        """The schema a snapshot was written with; the current one if its writer did not say, or it was dropped."""
        schema_id = self.current_schema_id if snapshot.schema_id is None else snapshot.schema_id
        return self._schemas_by_id.get(schema_id, self.current_schema)

    def spec(self, spec_id: int) -> PartitionSpec:
        """The partition spec of that id."""
        found = next((spec for spec in self.partition_specs if spec.spec_id == spec_id), None)
        if found is None:
            listed = sorted(spec.spec_id for spec in self.partition_specs)
            raise NotFound(f"no partition spec with id {spec_id}", hint=f"the table has {listed}")
        return found

    @property
    def default_spec(self) -> PartitionSpec:
        return self.spec(self.default_spec_id)

    def sort_order(self, order_id: int) -> SortOrder:
        """The sort order of that id; 0 is unsorted, listed or not."""
        if order_id == UNSORTED.order_id:
            return UNSORTED
        found = next((order for order in self.sort_orders if order.order_id == order_id), None)
        if found is None:
            listed = sorted(order.order_id for order in self.sort_orders)
            raise NotFound(f"no sort order with id {order_id}", hint=f"the table has {listed}")
        return found

    @property
    def default_sort_order(self) -> SortOrder:
        return self.sort_order(self.default_sort_order_id)

    def snapshot_or_none(self, snapshot_id: int | None) -> Snapshot | None:
        """The snapshot of that id, or None."""
        return None if snapshot_id is None else self._snapshots_by_id.get(snapshot_id)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id."""
        found = self._snapshots_by_id.get(snapshot_id)
        if found is None:
            raise SnapshotNotFound(
                f"no snapshot {snapshot_id}", hint="it may have expired; the table's history lists those that are left"
            )
        return found

    @property
    def current_snapshot(self) -> Snapshot | None:
        return self.snapshot_or_none(self.current_snapshot_id)

    def ref(self, name: str) -> SnapshotRef:
        """The branch or tag of that name."""
        found = self.refs.get(name)
        if found is None:
            near = difflib.get_close_matches(str(name), self.refs, n=3) or sorted(self.refs)[:12]
            hint = f"the table has {', '.join(near)}" if near else "the table has no snapshot yet"
            raise RefNotFound(f"no branch or tag {name!r}", hint=hint)
        return found

    def snapshot_as_of(self, timestamp_ms: int) -> Snapshot:
        """The snapshot that was current at that time, by the snapshot log.

        Clocks of different writers differ and tables are rolled back, so the log is not taken to be in order: the entry
        with the latest time that is not after `timestamp_ms` counts, and of equal ones the last.
        """
        before = [entry for entry in self.snapshot_log if entry.timestamp_ms <= timestamp_ms]
        if not before:
            raise SnapshotNotFound(
                f"the table has no snapshot as of {timestamp_ms} ms",
                hint="the time is before the first snapshot, or that part of the history has expired",
            )
        latest = max(entry.timestamp_ms for entry in before)
        return self.snapshot([entry for entry in before if entry.timestamp_ms == latest][-1].snapshot_id)

    def ancestors_of(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """The snapshot itself, its parent and so on, as far as they have not expired."""
        seen: set[int] = set()
        while (snapshot := self.snapshot_or_none(snapshot_id)) is not None and snapshot.snapshot_id not in seen:
            seen.add(snapshot.snapshot_id)
            yield snapshot
            snapshot_id = snapshot.parent_snapshot_id

    def is_ancestor(self, ancestor_id: int, snapshot_id: int | None) -> bool:
        """Whether `ancestor_id` is `snapshot_id` or one of the snapshots before it."""
        return any(snapshot.snapshot_id == ancestor_id for snapshot in self.ancestors_of(snapshot_id))

    def next_timestamp_ms(self) -> int:
        """The time to give the next snapshot: now, or the last change's time where this machine's clock is behind."""
        return max(ambient.now_ms(), self.last_updated_ms)


def check_consistency(metadata: TableMetadata) -> None:
    """Refuse metadata whose parts contradict each other."""
    if not 1 <= metadata.format_version <= SUPPORTED_FORMAT_VERSION:
        raise UnsupportedVersion(
            f"format version {metadata.format_version} is not supported",
            hint=f"this library knows versions 1 to {SUPPORTED_FORMAT_VERSION}; use a newer one",
        )
    if metadata.table_uuid is None and metadata.format_version > 1:
        raise _contradiction("there is no 'table-uuid'")
    snapshot_ids = _unique_ids("snapshot", (snapshot.snapshot_id for snapshot in metadata.snapshots))
    _require(
        "current-schema-id",
        metadata.current_schema_id,
        _unique_ids("schema", (schema.schema_id for schema in metadata.schemas)),
    )
    _require(
        "default-spec-id",
        metadata.default_spec_id,
        _unique_ids("partition spec", (spec.spec_id for spec in metadata.partition_specs)),
    )
    order_ids = _unique_ids("sort order", (order.order_id for order in metadata.sort_orders))
    if metadata.default_sort_order_id != UNSORTED.order_id:
        _require("default-sort-order-id", metadata.default_sort_order_id, order_ids)
    if metadata.current_snapshot_id is not None:
        _require("current-snapshot-id", metadata.current_snapshot_id, snapshot_ids)
    for name, ref in metadata.refs.items():
        _require(f"ref {name!r}", ref.snapshot_id, snapshot_ids)
    main = metadata.refs.get(MAIN)
    if (None if main is None else main.snapshot_id) != metadata.current_snapshot_id:
        raise _contradiction(
            f"'current-snapshot-id' is {metadata.current_snapshot_id}, "
            f"but branch main is at {None if main is None else main.snapshot_id}"
        )
    if main is not None and main.is_tag:
        raise _contradiction("main is a tag, not a branch")
    newest = max((snapshot.sequence_number for snapshot in metadata.snapshots), default=0)
    if metadata.format_version > 1 and newest > metadata.last_sequence_number:
        raise _contradiction(
            f"a snapshot has sequence number {newest}, 'last-sequence-number' is {metadata.last_sequence_number}"
        )


def _unique_ids(what: str, numbers: Iterable[int]) -> set[int]:
    counts = Counter(numbers)
    twice = next((number for number, count in counts.items() if count > 1), None)
    if twice is not None:
        raise _contradiction(f"two have the {what} id {twice}")
    return set(counts)


def _require(what: str, number: int, known: set[int]) -> None:
    if number not in known:
        raise _contradiction(f"{what} is {number}, which the metadata does not list")


def _contradiction(what: str) -> MalformedMetadata:
    return MalformedMetadata(
        f"table metadata contradicts itself: {what}", hint="the file is damaged; restore an earlier metadata file"
    )
