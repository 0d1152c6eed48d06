import pytest

from frazil.errors import CommitFailed, MalformedMetadata
from frazil.iceberg.refs import SnapshotRef
from frazil.iceberg.requirements import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUuid,
    Requirement,
    check_requirements,
    requirement_from_json,
)
from tests.iceberg.tables import UUID, snapshot, table_with

TABLE = table_with(snapshot(1), snapshot(2, 1), refs={"main": SnapshotRef(2), "v1": SnapshotRef(1, "tag")})
HOLDING: list[Requirement] = [
    AssertTableUuid(UUID),
    AssertTableUuid(UUID.upper()),
    AssertRefSnapshotId("main", 2),
    AssertRefSnapshotId("other", None),
    AssertLastAssignedFieldId(3),
    AssertCurrentSchemaId(0),
    AssertLastAssignedPartitionId(1000),
    AssertDefaultSpecId(0),
    AssertDefaultSortOrderId(1),
]
FAILING: list[tuple[Requirement, str]] = [
    (AssertCreate(), "exists already"),
    (AssertTableUuid("other"), f"uuid is {UUID}, not other"),
    (AssertRefSnapshotId("main", 1), "branch main has moved from snapshot 1 to 2"),
    (AssertRefSnapshotId("v1", 2), "tag v1 has moved from snapshot 2 to 1"),
    (AssertRefSnapshotId("main", None), "main was created meanwhile"),
    (AssertRefSnapshotId("other", 1), "other is gone"),
    (AssertLastAssignedFieldId(2), "last assigned field id has changed from 2 to 3"),
    (AssertCurrentSchemaId(4), "current schema has changed from 4 to 0"),
    (AssertLastAssignedPartitionId(999), "last assigned partition id has changed from 999 to 1000"),
    (AssertDefaultSpecId(1), "default partition spec has changed from 1 to 0"),
    (AssertDefaultSortOrderId(0), "default sort order has changed from 0 to 1"),
]


def test_requirements_that_hold_pass() -> None:
    check_requirements(TABLE, HOLDING)
    check_requirements(None, [AssertCreate()])


@pytest.mark.parametrize(("requirement", "message"), FAILING)
def test_a_requirement_that_does_not_hold_names_what_changed(requirement: Requirement, message: str) -> None:
    with pytest.raises(CommitFailed, match=message):
        check_requirements(TABLE, [requirement])


@pytest.mark.parametrize("requirement", HOLDING)
def test_a_dropped_table_meets_no_requirement(requirement: Requirement) -> None:
    with pytest.raises(CommitFailed, match="does not exist"):
        requirement.check(None)


@pytest.mark.parametrize("requirement", [*HOLDING, *(one for one, _ in FAILING)])
def test_requirements_survive_a_round_trip(requirement: Requirement) -> None:
    assert requirement_from_json(requirement.to_json()) == requirement


def test_the_json_is_that_of_the_rest_catalog() -> None:
    assert AssertCreate().to_json() == {"type": "assert-create"}
    assert AssertRefSnapshotId("main", None).to_json() == {
        "type": "assert-ref-snapshot-id",
        "ref": "main",
        "snapshot-id": None,
    }
    assert requirement_from_json({"type": "assert-ref-snapshot-id", "ref": "b"}) == AssertRefSnapshotId("b", None)


@pytest.mark.parametrize("document", [3, {}, {"type": "assert-moon"}, {"type": "assert-default-spec-id"}])
def test_malformed_requirements_are_refused(document: object) -> None:
    with pytest.raises(MalformedMetadata):
        requirement_from_json(document)
