"""Changes to table metadata, one class per update of the REST catalog protocol.

`apply_updates` makes the next metadata of a table; `updates_json` carries the same updates over the wire.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from frazil import ambient
from frazil.errors import CommitFailed, InvalidArgument, InvalidEvolution, SnapshotNotFound
from frazil.iceberg.compatibility import check_defaults, check_new_spec
from frazil.iceberg.encryption_keys import EncryptedKey
from frazil.iceberg.metadata import (
    SUPPORTED_FORMAT_VERSION,
    MetadataLogEntry,
    SnapshotLogEntry,
    TableMetadata,
    check_consistency,
)
from frazil.iceberg.properties import METADATA_PREVIOUS_VERSIONS_MAX, check_properties
from frazil.iceberg.refs import MAIN, SnapshotRef
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.statistics import PartitionStatisticsFile, StatisticsFile
from frazil.io import location as locations
from frazil.model.partition import PartitionField, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import UNSORTED, SortOrder

LAST_ADDED = -1
"""In place of a schema, spec or order id: the one that this same list of updates added last."""

CLOCK_TOLERANCE_MS = 60_000
"""How far a snapshot may lie before the one logged last. Java's readers refuse tables whose log steps back further."""


@dataclass(slots=True)
class _Building:
    """Metadata between two updates, and what the list did so far."""

    metadata: TableMetadata
    last_schema_id: int | None = None
    last_spec_id: int | None = None
    last_order_id: int | None = None
    added_snapshot_ids: set[int] = field(default_factory=set)

    def change(self, **changes: object) -> None:
        self.metadata = replace(self.metadata, **changes)  # type: ignore[arg-type]


class Update(ABC):
    """One change. `apply_updates` applies a list of them."""

    __slots__ = ()
    action: ClassVar[str]

    @abstractmethod
    def apply(self, building: _Building) -> None:
        """Make the change, or refuse it."""


def apply_updates(base: TableMetadata | None, updates: Iterable[Update]) -> TableMetadata:
    """The metadata after a list of updates; `base` itself if they change nothing. None as base: a table being created.

    The snapshot log gets one entry if the list moved `main`, however often it did: nobody ever saw what lay between.
    """
    listed = list(updates)
    start = _nothing(listed) if base is None else base
    building = _Building(start)
    for update in listed:
        update.apply(building)
    result = building.metadata
    if base is not None and result == base:
        return base
    newest_ms = max((result.snapshot(number).timestamp_ms for number in building.added_snapshot_ids), default=0)
    now_ms = max(ambient.now_ms(), newest_ms, start.last_updated_ms)
    result = replace(
        result,
        last_updated_ms=now_ms,
        table_uuid=str(ambient.new_uuid()) if result.table_uuid is None else result.table_uuid,
        snapshot_log=_next_log(start, result, building.added_snapshot_ids, now_ms),
    )
    check_consistency(result)
    check_defaults(result)
    return result


def _nothing(updates: list[Update]) -> TableMetadata:
    version = next((update.format_version for update in updates if isinstance(update, UpgradeFormatVersion)), 2)
    return TableMetadata(
        version, location="", schemas=(), current_schema_id=-1, default_spec_id=-1, default_sort_order_id=-1
    )


def _next_log(base: TableMetadata, result: TableMetadata, added: set[int], now_ms: int) -> tuple[SnapshotLogEntry, ...]:
    log = list(base.snapshot_log)
    current = result.current_snapshot
    if current is not None and current.snapshot_id != base.current_snapshot_id:
        is_new = current.snapshot_id in added
        log.append(SnapshotLogEntry(current.timestamp_ms if is_new else now_ms, current.snapshot_id))
    if all(result.snapshot_or_none(snapshot.snapshot_id) is not None for snapshot in base.snapshots):
        return tuple(log)
    # with an entry missing, the one before it would seem to have been current for longer than it was
    expired = [place for place, entry in enumerate(log) if result.snapshot_or_none(entry.snapshot_id) is None]
    return tuple(log[expired[-1] + 1 :] if expired else log)


def _chosen(what: str, number: int, last_added: int | None) -> int:
    if number != LAST_ADDED:
        return number
    if last_added is None:
        raise InvalidArgument(f"no {what} was added in this list of updates", hint="add one first, or name its id")
    return last_added


def _keep_refs(building: _Building, keep: Callable[[str, SnapshotRef], bool]) -> None:
    refs = {name: ref for name, ref in building.metadata.refs.items() if keep(name, ref)}
    building.change(refs=refs, current_snapshot_id=refs[MAIN].snapshot_id if MAIN in refs else None)


def with_metadata_log(metadata: TableMetadata, previous_location: str | None, previous_ms: int) -> TableMetadata:
    """The metadata with its former file logged; the oldest entries go, by `write.metadata.previous-versions-max`."""
    if previous_location is None:
        return metadata
    most = max(1, metadata.property_reader.get(METADATA_PREVIOUS_VERSIONS_MAX))
    log = (*metadata.metadata_log, MetadataLogEntry(previous_ms, previous_location))
    return replace(metadata, metadata_log=log[-most:])


def updates_creating(metadata: TableMetadata) -> list[Update]:
    """The updates that make this table from nothing, for a catalog that creates tables by commit."""
    created: list[Update] = [] if metadata.table_uuid is None else [AssignUuid(metadata.table_uuid)]
    created += [
        UpgradeFormatVersion(metadata.format_version),
        AddSchema(metadata.current_schema, metadata.last_column_id),
        SetCurrentSchema(LAST_ADDED),
        AddSpec(metadata.default_spec),
        SetDefaultSpec(LAST_ADDED),
        AddSortOrder(metadata.default_sort_order),
        SetDefaultSortOrder(LAST_ADDED),
        SetLocation(metadata.location),
    ]
    return [*created, SetProperties(metadata.properties)] if metadata.properties else created


@dataclass(frozen=True, slots=True)
class AssignUuid(Update):
    """Give the table its UUID; it never changes afterwards."""

    uuid: str
    action = "assign-uuid"

    def apply(self, building: _Building) -> None:
        found = building.metadata.table_uuid
        if found is not None and found.lower() != self.uuid.lower():
            raise InvalidArgument(f"the table has uuid {found} already", hint="a table's uuid cannot change")
        if found is None:
            building.change(table_uuid=self.uuid)


@dataclass(frozen=True, slots=True)
class UpgradeFormatVersion(Update):
    """Move the table to a newer format version; there is no way back."""

    format_version: int
    action = "upgrade-format-version"

    def apply(self, building: _Building) -> None:
        found = building.metadata.format_version
        if self.format_version > SUPPORTED_FORMAT_VERSION:
            raise InvalidEvolution(
                f"format version {self.format_version} is not supported",
                hint=f"the newest is {SUPPORTED_FORMAT_VERSION}",
            )
        if self.format_version < found:
            raise InvalidEvolution(
                f"cannot go back from format version {found} to {self.format_version}",
                hint="copy the data to a new table",
            )
        if self.format_version > found:
            building.metadata.current_schema.check_version(self.format_version)
        building.change(format_version=self.format_version)


@dataclass(frozen=True, slots=True)
class AddSchema(Update):
    """Add a schema, or find the equal one that is there."""

    schema: Schema
    last_column_id: int | None = None
    action = "add-schema"

    def apply(self, building: _Building) -> None:
        metadata = building.metadata
        self.schema.check_version(metadata.format_version)
        equal = next((schema for schema in metadata.schemas if schema == self.schema), None)
        if equal is None:
            schema_id = max((schema.schema_id for schema in metadata.schemas), default=-1) + 1
            building.change(schemas=(*metadata.schemas, self.schema.with_id(schema_id)))
        else:
            schema_id = equal.schema_id
        given = 0 if self.last_column_id is None else self.last_column_id
        building.change(last_column_id=max(metadata.last_column_id, given, self.schema.highest_field_id))
        building.last_schema_id = schema_id


@dataclass(frozen=True, slots=True)
class SetCurrentSchema(Update):
    """Make a schema the current one."""

    schema_id: int
    action = "set-current-schema"

    def apply(self, building: _Building) -> None:
        schema_id = _chosen("schema", self.schema_id, building.last_schema_id)
        building.metadata.schema(schema_id)
        building.change(current_schema_id=schema_id)


@dataclass(frozen=True, slots=True)
class AddSpec(Update):
    """Add a partition spec, or find the equivalent one that is there."""

    spec: PartitionSpec
    action = "add-spec"

    def apply(self, building: _Building) -> None:
        metadata = building.metadata
        spec = _with_field_ids(self.spec, metadata)
        equal = next((known for known in metadata.partition_specs if known.compatible_with(spec)), None)
        if equal is not None:
            building.last_spec_id = equal.spec_id
            return
        check_new_spec(spec, metadata.current_schema, metadata.format_version)
        spec_id = max((known.spec_id for known in metadata.partition_specs), default=-1) + 1
        building.change(
            partition_specs=(*metadata.partition_specs, replace(spec, spec_id=spec_id)),
            last_partition_id=max(metadata.last_partition_id, spec.last_field_id),
        )
        building.last_spec_id = spec_id


def _with_field_ids(spec: PartitionSpec, metadata: TableMetadata) -> PartitionSpec:
    """Ids for fields that came without one (below 0): that of an equivalent field of any spec, or the next."""
    known = {_meaning(part): part.field_id for old in metadata.partition_specs for part in old.fields}
    last = max(metadata.last_partition_id, spec.last_field_id)
    parts: list[PartitionField] = []
    for part in spec.fields:
        if part.field_id < 0:
            number = known.get(_meaning(part))
            if number is None or metadata.format_version == 1:
                last += 1
                number = last
            part = replace(part, field_id=number)
        parts.append(part)
    return replace(spec, fields=tuple(parts))


def _meaning(part: PartitionField) -> tuple[tuple[int, ...], str]:
    return part.source_ids, str(part.transform)


@dataclass(frozen=True, slots=True)
class SetDefaultSpec(Update):
    """Make a partition spec the one that writers use."""

    spec_id: int
    action = "set-default-spec"

    def apply(self, building: _Building) -> None:
        spec_id = _chosen("partition spec", self.spec_id, building.last_spec_id)
        building.metadata.spec(spec_id)
        building.change(default_spec_id=spec_id)


@dataclass(frozen=True, slots=True)
class AddSortOrder(Update):
    """Add a sort order, or find the equal one that is there."""

    sort_order: SortOrder
    action = "add-sort-order"

    def apply(self, building: _Building) -> None:
        metadata = building.metadata
        fields = self.sort_order.fields
        equal = next((known for known in metadata.sort_orders if known.fields == fields), None)
        if equal is not None:
            building.last_order_id = equal.order_id
            return
        self.sort_order.check(metadata.current_schema)
        order_id = (
            max((known.order_id for known in metadata.sort_orders), default=0) + 1 if fields else UNSORTED.order_id
        )
        building.change(sort_orders=(*metadata.sort_orders, SortOrder(order_id, fields)))
        building.last_order_id = order_id


@dataclass(frozen=True, slots=True)
class SetDefaultSortOrder(Update):
    """Make a sort order the one that writers use."""

    sort_order_id: int
    action = "set-default-sort-order"

    def apply(self, building: _Building) -> None:
        order_id = _chosen("sort order", self.sort_order_id, building.last_order_id)
        building.metadata.sort_order(order_id)
        building.change(default_sort_order_id=order_id)


@dataclass(frozen=True, slots=True)
class AddSnapshot(Update):
    """Add a snapshot; no branch moves."""

    snapshot: Snapshot
    action = "add-snapshot"

    def apply(self, building: _Building) -> None:
        metadata, snapshot = building.metadata, self.snapshot
        if metadata.snapshot_or_none(snapshot.snapshot_id) is not None:
            raise InvalidArgument(f"snapshot {snapshot.snapshot_id} exists already", hint="draw another snapshot id")
        last_ms = metadata.snapshot_log[-1].timestamp_ms if metadata.snapshot_log else 0
        if snapshot.timestamp_ms < last_ms - CLOCK_TOLERANCE_MS:
            raise CommitFailed(
                f"snapshot {snapshot.snapshot_id} at {snapshot.timestamp_ms} ms lies before the last, at {last_ms} ms",
                hint="try again with TableMetadata.next_timestamp_ms(), and check the clocks of all writers",
            )
        if metadata.format_version == 1:
            sequence_number, snapshot = 0, replace(snapshot, sequence_number=0)
        else:
            sequence_number = snapshot.sequence_number
            if sequence_number <= metadata.last_sequence_number:
                raise CommitFailed(
                    f"sequence number {sequence_number} is not above the table's {metadata.last_sequence_number}",
                    hint="another commit came first; refresh the table and try again",
                )
        building.change(
            snapshots=(*metadata.snapshots, snapshot),
            last_sequence_number=sequence_number,
            next_row_id=_next_row_id(metadata, snapshot) if metadata.format_version >= 3 else metadata.next_row_id,
        )
        building.added_snapshot_ids.add(snapshot.snapshot_id)


def _next_row_id(metadata: TableMetadata, snapshot: Snapshot) -> int:
    if snapshot.first_row_id is None or snapshot.added_rows is None or snapshot.added_rows < 0:
        raise InvalidArgument(
            f"snapshot {snapshot.snapshot_id} has no first-row-id or added-rows", hint="format version 3 needs both"
        )
    if snapshot.first_row_id < metadata.next_row_id:
        raise CommitFailed(
            f"first-row-id {snapshot.first_row_id} is below the table's next-row-id {metadata.next_row_id}",
            hint="another commit came first; refresh the table and try again",
        )
    # a first id above the table's next one leaves a gap, never an overlap
    return snapshot.first_row_id + snapshot.added_rows


@dataclass(frozen=True, slots=True)
class SetSnapshotRef(Update):
    """Create or move a branch or tag, or change how long it is kept."""

    ref_name: str
    ref: SnapshotRef
    action = "set-snapshot-ref"

    def apply(self, building: _Building) -> None:
        metadata = building.metadata
        if metadata.snapshot_or_none(self.ref.snapshot_id) is None:
            raise SnapshotNotFound(
                f"cannot set {self.ref_name!r} to snapshot {self.ref.snapshot_id}, which the table does not have",
                hint="add the snapshot first, or choose one of the table's history",
            )
        if self.ref_name == MAIN and self.ref.is_tag:
            raise InvalidArgument("main is a branch, not a tag", hint="give the tag another name")
        building.change(refs={**metadata.refs, self.ref_name: self.ref})
        if self.ref_name == MAIN:
            building.change(current_snapshot_id=self.ref.snapshot_id)


@dataclass(frozen=True, slots=True)
class RemoveSnapshotRef(Update):
    """Remove a branch or tag, if it is there. Without `main` the table is empty."""

    ref_name: str
    action = "remove-snapshot-ref"

    def apply(self, building: _Building) -> None:
        _keep_refs(building, lambda name, _ref: name != self.ref_name)


@dataclass(frozen=True, slots=True)
class RemoveSnapshots(Update):
    """Remove snapshots, the refs to them and the statistics about them."""

    snapshot_ids: tuple[int, ...]
    action = "remove-snapshots"

    def apply(self, building: _Building) -> None:
        metadata, gone = building.metadata, set(self.snapshot_ids)
        building.change(
            snapshots=tuple(snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in gone),
            statistics=tuple(file for file in metadata.statistics if file.snapshot_id not in gone),
            partition_statistics=tuple(file for file in metadata.partition_statistics if file.snapshot_id not in gone),
        )
        building.added_snapshot_ids -= gone
        _keep_refs(building, lambda _name, ref: ref.snapshot_id not in gone)


@dataclass(frozen=True, slots=True)
class SetLocation(Update):
    """Change where new files go."""

    location: str
    action = "set-location"

    def apply(self, building: _Building) -> None:
        building.change(location=locations.join(self.location))


@dataclass(frozen=True, slots=True)
class SetProperties(Update):
    """Set table properties. Reserved names, and values that do not parse, are refused."""

    updates: Mapping[str, str]
    action = "set-properties"

    def apply(self, building: _Building) -> None:
        check_properties(self.updates)
        building.change(properties={**building.metadata.properties, **self.updates})


@dataclass(frozen=True, slots=True)
class RemoveProperties(Update):
    """Remove table properties, if they are there."""

    removals: tuple[str, ...]
    action = "remove-properties"

    def apply(self, building: _Building) -> None:
        kept = {name: text for name, text in building.metadata.properties.items() if name not in self.removals}
        building.change(properties=kept)


@dataclass(frozen=True, slots=True)
class SetStatistics(Update):
    """Set the statistics file of a snapshot."""

    statistics: StatisticsFile
    action = "set-statistics"

    def apply(self, building: _Building) -> None:
        others = [file for file in building.metadata.statistics if file.snapshot_id != self.statistics.snapshot_id]
        building.change(statistics=(*others, self.statistics))


@dataclass(frozen=True, slots=True)
class RemoveStatistics(Update):
    """Remove the statistics file of a snapshot, if there is one."""

    snapshot_id: int
    action = "remove-statistics"

    def apply(self, building: _Building) -> None:
        kept = tuple(file for file in building.metadata.statistics if file.snapshot_id != self.snapshot_id)
        building.change(statistics=kept)


@dataclass(frozen=True, slots=True)
class SetPartitionStatistics(Update):
    """Set the partition statistics file of a snapshot."""

    partition_statistics: PartitionStatisticsFile
    action = "set-partition-statistics"

    def apply(self, building: _Building) -> None:
        new = self.partition_statistics
        others = [file for file in building.metadata.partition_statistics if file.snapshot_id != new.snapshot_id]
        building.change(partition_statistics=(*others, new))


@dataclass(frozen=True, slots=True)
class RemovePartitionStatistics(Update):
    """Remove the partition statistics file of a snapshot, if there is one."""

    snapshot_id: int
    action = "remove-partition-statistics"

    def apply(self, building: _Building) -> None:
        kept = tuple(file for file in building.metadata.partition_statistics if file.snapshot_id != self.snapshot_id)
        building.change(partition_statistics=kept)


@dataclass(frozen=True, slots=True)
class RemovePartitionSpecs(Update):
    """Remove partition specs that no manifest uses any more; that is for the caller to know."""

    spec_ids: tuple[int, ...]
    action = "remove-partition-specs"

    def apply(self, building: _Building) -> None:
        metadata = building.metadata
        if metadata.default_spec_id in self.spec_ids:
            raise InvalidArgument(
                "cannot remove the default partition spec", hint="make another spec the default first"
            )
        kept = tuple(spec for spec in metadata.partition_specs if spec.spec_id not in self.spec_ids)
        building.change(partition_specs=kept)


@dataclass(frozen=True, slots=True)
class RemoveSchemas(Update):
    """Remove schemas that no snapshot uses any more."""

    schema_ids: tuple[int, ...]
    action = "remove-schemas"

    def apply(self, building: _Building) -> None:
        metadata = building.metadata
        used = {metadata.current_schema_id, *(snapshot.schema_id for snapshot in metadata.snapshots)}
        if not used.isdisjoint(self.schema_ids):
            raise InvalidArgument(
                f"schemas {sorted(used.intersection(self.schema_ids))} are in use",  # type: ignore[type-var]
                hint="expire the snapshots that were written with them first",
            )
        kept = tuple(schema for schema in metadata.schemas if schema.schema_id not in self.schema_ids)
        building.change(schemas=kept)


@dataclass(frozen=True, slots=True)
class AddEncryptionKey(Update):
    """Add an encrypted key, unless one of its id is there."""

    encryption_key: EncryptedKey
    action = "add-encryption-key"

    def apply(self, building: _Building) -> None:
        keys = building.metadata.encryption_keys
        if all(key.key_id != self.encryption_key.key_id for key in keys):
            building.change(encryption_keys=(*keys, self.encryption_key))


@dataclass(frozen=True, slots=True)
class RemoveEncryptionKey(Update):
    """Remove an encrypted key, if it is there."""

    key_id: str
    action = "remove-encryption-key"

    def apply(self, building: _Building) -> None:
        kept = tuple(key for key in building.metadata.encryption_keys if key.key_id != self.key_id)
        building.change(encryption_keys=kept)
