"""What a commit requires of the table it finds, so that nobody's change is lost: REST's table requirements.

>>> requirement_from_json({"type": "assert-default-spec-id", "default-spec-id": 3})
AssertDefaultSpecId(default_spec_id=3)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from frazil.errors import CommitFailed, MalformedMetadata
from frazil.iceberg.json_object import JsonObject
from frazil.iceberg.metadata import TableMetadata


class Requirement(ABC):
    """A condition on the table as it is when the commit is made; `check` raises CommitFailed where it does not hold."""

    __slots__ = ()
    type: ClassVar[str]

    @abstractmethod
    def check(self, metadata: TableMetadata | None) -> None:
        """Raise CommitFailed, naming what has changed, if the condition does not hold. None: no such table."""

    def to_json(self) -> dict[str, Any]:
        """The REST catalog's JSON object."""
        members = {_key(part.name): getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        return {"type": self.type, **members}


@dataclass(frozen=True, slots=True)
class AssertCreate(Requirement):
    """The table does not exist yet."""

    type = "assert-create"

    def check(self, metadata: TableMetadata | None) -> None:
        if metadata is not None:
            raise CommitFailed("the table exists already", hint="somebody else created it; open it instead")


@dataclass(frozen=True, slots=True)
class AssertTableUuid(Requirement):
    """The table is still the same one, not another of the same name."""

    uuid: str
    type = "assert-table-uuid"

    def check(self, metadata: TableMetadata | None) -> None:
        found = _existing(metadata).table_uuid
        if found is None or found.lower() != self.uuid.lower():
            raise CommitFailed(
                f"the table's uuid is {found}, not {self.uuid}",
                hint="the table was dropped and created anew; open it again",
            )


@dataclass(frozen=True, slots=True)
class AssertRefSnapshotId(Requirement):
    """A branch or tag is still where it was; None: it does not exist."""

    ref: str
    snapshot_id: int | None
    type = "assert-ref-snapshot-id"

    def check(self, metadata: TableMetadata | None) -> None:
        found = _existing(metadata).refs.get(self.ref)
        if found is None and self.snapshot_id is not None:
            raise CommitFailed(f"branch or tag {self.ref} is gone", hint="somebody else removed it; refresh the table")
        if found is not None and self.snapshot_id is None:
            raise CommitFailed(
                f"branch or tag {self.ref} was created meanwhile", hint="refresh the table and try again"
            )
        if found is not None and found.snapshot_id != self.snapshot_id:
            raise CommitFailed(
                f"{found.kind} {self.ref} has moved from snapshot {self.snapshot_id} to {found.snapshot_id}",
                hint="another commit came first; refresh the table and try again",
            )


@dataclass(frozen=True, slots=True)
class AssertLastAssignedFieldId(Requirement):
    """No column was added meanwhile."""

    last_assigned_field_id: int
    type = "assert-last-assigned-field-id"

    def check(self, metadata: TableMetadata | None) -> None:
        _same("last assigned field id", self.last_assigned_field_id, _existing(metadata).last_column_id)


@dataclass(frozen=True, slots=True)
class AssertCurrentSchemaId(Requirement):
    """The schema has not changed."""

    current_schema_id: int
    type = "assert-current-schema-id"

    def check(self, metadata: TableMetadata | None) -> None:
        _same("current schema", self.current_schema_id, _existing(metadata).current_schema_id)


@dataclass(frozen=True, slots=True)
class AssertLastAssignedPartitionId(Requirement):
    """No partition field was added meanwhile."""

    last_assigned_partition_id: int
    type = "assert-last-assigned-partition-id"

    def check(self, metadata: TableMetadata | None) -> None:
        _same("last assigned partition id", self.last_assigned_partition_id, _existing(metadata).last_partition_id)


@dataclass(frozen=True, slots=True)
class AssertDefaultSpecId(Requirement):
    """The default partition spec has not changed."""

    default_spec_id: int
    type = "assert-default-spec-id"

    def check(self, metadata: TableMetadata | None) -> None:
        _same("default partition spec", self.default_spec_id, _existing(metadata).default_spec_id)


@dataclass(frozen=True, slots=True)
class AssertDefaultSortOrderId(Requirement):
    """The default sort order has not changed."""

    default_sort_order_id: int
    type = "assert-default-sort-order-id"

    def check(self, metadata: TableMetadata | None) -> None:
        _same("default sort order", self.default_sort_order_id, _existing(metadata).default_sort_order_id)


def check_requirements(metadata: TableMetadata | None, requirements: Iterable[Requirement]) -> None:
    """Check them all; the first that does not hold raises CommitFailed."""
    for requirement in requirements:
        requirement.check(metadata)


def requirement_from_json(document: Any) -> Requirement:
    """Read the REST catalog's JSON object."""
    members = JsonObject(document, "requirement")
    kind = members.text("type")
    requirement = _BY_TYPE.get(kind)
    if requirement is None:
        raise MalformedMetadata(f"unknown requirement {kind!r}", hint=f"one of {', '.join(sorted(_BY_TYPE))}")
    if requirement is AssertTableUuid:
        return AssertTableUuid(members.text("uuid"))
    if requirement is AssertRefSnapshotId:
        return AssertRefSnapshotId(members.text("ref"), members.integer_or_none("snapshot-id"))
    return requirement(*(members.integer(_key(part.name)) for part in fields(requirement)))  # type: ignore[arg-type]


_BY_TYPE: dict[str, type[Requirement]] = {
    kind.type: kind
    for kind in (
        *(AssertCreate, AssertTableUuid, AssertRefSnapshotId, AssertLastAssignedFieldId, AssertCurrentSchemaId),
        *(AssertLastAssignedPartitionId, AssertDefaultSpecId, AssertDefaultSortOrderId),
    )
}


def _key(name: str) -> str:
    return name.replace("_", "-")


def _existing(metadata: TableMetadata | None) -> TableMetadata:
    if metadata is None:
        raise CommitFailed("the table does not exist", hint="it was dropped; create it again")
    return metadata


def _same(what: str, expected: int, found: int) -> None:
    if expected != found:
        raise CommitFailed(
            f"the {what} has changed from {expected} to {found}",
            hint="another commit came first; refresh the table and try again",
        )
