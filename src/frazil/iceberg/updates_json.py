"""Updates in the JSON of the REST catalog protocol, both ways.

>>> update_to_json(SetLocation("s3://b/t"))
{'action': 'set-location', 'location': 's3://b/t'}
>>> update_from_json({"action": "set-current-schema", "schema-id": -1})
SetCurrentSchema(schema_id=-1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from frazil.errors import InvalidArgument, MalformedMetadata
from frazil.iceberg.encryption_keys import EncryptedKey
from frazil.iceberg.json_object import JsonObject
from frazil.iceberg.refs import SnapshotRef
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.statistics import PartitionStatisticsFile, StatisticsFile
from frazil.iceberg.updates import (
    AddEncryptionKey,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AddSpec,
    AssignUuid,
    RemoveEncryptionKey,
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    Update,
    UpgradeFormatVersion,
)
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import SortOrder


def update_to_json(update: Update) -> dict[str, Any]:
    """The REST catalog's JSON object."""
    members: dict[str, Any] = {"action": update.action}
    if isinstance(update, SetSnapshotRef):  # the only one that lays an object's members beside its own
        return {**members, "ref-name": update.ref_name, **update.ref.to_json()}
    for part in fields(update):  # type: ignore[arg-type]
        value = getattr(update, part.name)
        if hasattr(value, "to_json"):
            value = value.to_json()
        elif isinstance(value, tuple):
            value = list(value)
        if value is not None:
            members[part.name.replace("_", "-")] = value
    if isinstance(update, AddSpec) and any(part.field_id < 0 for part in update.spec.fields):
        members["spec"]["fields"] = [_without_id(part) for part in members["spec"]["fields"]]
    if isinstance(update, SetStatistics):
        members["snapshot-id"] = update.statistics.snapshot_id
    return members


def update_from_json(document: Any) -> Update:
    """Read the REST catalog's JSON object."""
    members = JsonObject(document, "update")
    action = members.text("action").lower()
    read = _READERS.get(action)
    if read is None:
        raise MalformedMetadata(f"unknown update {action!r}", hint=f"one of {', '.join(sorted(_READERS))}")
    members.where = f"update {action!r}"
    try:
        return read(members)
    except InvalidArgument as error:
        raise MalformedMetadata(f"{members.where}: {error.message}", hint=error.hint) from error


def _without_id(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "field-id"}


def _spec(members: JsonObject) -> PartitionSpec:
    document = members.object("spec")
    spec = PartitionSpec.from_json({"spec-id": 0, **document.members})
    if all(part.has("field-id") for part in document.objects("fields")):
        return spec
    # ids below 0: the table chooses
    return replace(spec, fields=tuple(replace(part, field_id=-1 - at) for at, part in enumerate(spec.fields)))


_READERS: dict[str, Callable[[JsonObject], Update]] = {
    AssignUuid.action: lambda members: AssignUuid(members.text("uuid")),
    UpgradeFormatVersion.action: lambda members: UpgradeFormatVersion(members.integer("format-version")),
    AddSchema.action: lambda members: AddSchema(
        Schema.from_json(members.object("schema").members), members.integer_or_none("last-column-id")
    ),
    SetCurrentSchema.action: lambda members: SetCurrentSchema(members.integer("schema-id")),
    AddSpec.action: lambda members: AddSpec(_spec(members)),
    SetDefaultSpec.action: lambda members: SetDefaultSpec(members.integer("spec-id")),
    AddSortOrder.action: lambda members: AddSortOrder(SortOrder.from_json(members.object("sort-order").members)),
    SetDefaultSortOrder.action: lambda members: SetDefaultSortOrder(members.integer("sort-order-id")),
    AddSnapshot.action: lambda members: AddSnapshot(Snapshot.from_json(members.object("snapshot"))),
    SetSnapshotRef.action: lambda members: SetSnapshotRef(members.text("ref-name"), SnapshotRef.from_json(members)),
    RemoveSnapshotRef.action: lambda members: RemoveSnapshotRef(members.text("ref-name")),
    RemoveSnapshots.action: lambda members: RemoveSnapshots(members.integers("snapshot-ids")),
    SetLocation.action: lambda members: SetLocation(members.text("location")),
    # Java first wrote `updated` and `removed`, and old clients still do
    SetProperties.action: lambda members: SetProperties(
        members.text_map("updates" if members.has("updates") else "updated")
    ),
    RemoveProperties.action: lambda members: RemoveProperties(
        members.texts("removals" if members.has("removals") else "removed")
    ),
    SetStatistics.action: lambda members: SetStatistics(StatisticsFile.from_json(members.object("statistics"))),
    RemoveStatistics.action: lambda members: RemoveStatistics(members.integer("snapshot-id")),
    SetPartitionStatistics.action: lambda members: SetPartitionStatistics(
        PartitionStatisticsFile.from_json(members.object("partition-statistics"))
    ),
    RemovePartitionStatistics.action: lambda members: RemovePartitionStatistics(members.integer("snapshot-id")),
    RemovePartitionSpecs.action: lambda members: RemovePartitionSpecs(members.integers("spec-ids")),
    RemoveSchemas.action: lambda members: RemoveSchemas(members.integers("schema-ids")),
    AddEncryptionKey.action: lambda members: AddEncryptionKey(EncryptedKey.from_json(members.object("encryption-key"))),
    RemoveEncryptionKey.action: lambda members: RemoveEncryptionKey(members.text("key-id")),
}
