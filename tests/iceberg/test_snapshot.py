import pytest

from frazil.errors import MalformedMetadata
from frazil.iceberg.json_object import JsonObject
from frazil.iceberg.snapshot import Snapshot


def read(**members: object) -> Snapshot:
    return Snapshot.from_json(JsonObject({"snapshot-id": 7, "timestamp-ms": 5, **members}, "snapshot"))


def test_every_member_survives_a_round_trip() -> None:
    snapshot = Snapshot(
        snapshot_id=2**63 - 1,
        parent_snapshot_id=0,
        sequence_number=3,
        timestamp_ms=9,
        manifest_list="s3://b/list.avro",
        summary={"operation": "append", "added-records": "0"},
        schema_id=0,
        first_row_id=0,
        added_rows=0,
        key_id="k",
        extra={"from-the-future": [1]},
    )
    document = snapshot.to_json()
    assert Snapshot.from_json(JsonObject(document, "snapshot")) == snapshot
    assert document["parent-snapshot-id"] == 0
    assert document["first-row-id"] == 0
    assert document["from-the-future"] == [1]


def test_v1_snapshot_without_sequence_number_or_summary_is_read() -> None:
    snapshot = read(manifests=["a.avro", "b.avro"])
    assert snapshot.sequence_number == 0
    assert snapshot.operation is None
    assert snapshot.manifests == ("a.avro", "b.avro")
    assert snapshot.to_json() == {"snapshot-id": 7, "timestamp-ms": 5, "manifests": ["a.avro", "b.avro"]}


def test_a_manifest_list_hides_inline_manifests() -> None:
    snapshot = read(**{"manifest-list": "l.avro", "manifests": ["a.avro"]})
    assert snapshot.manifests == ()
    assert "manifests" not in snapshot.to_json()


def test_an_unknown_operation_is_kept_as_text() -> None:
    assert read(**{"manifest-list": "l", "summary": {"operation": "vacuum"}}).operation == "vacuum"


def test_a_summary_without_operation_counts_as_overwrite() -> None:
    assert read(**{"manifest-list": "l", "summary": {"added-records": "3"}}).operation == "overwrite"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "neither 'manifest-list' nor 'manifests'"),
        ({"manifest-list": 3}, "'manifest-list' of snapshot is not text"),
        ({"manifest-list": "l", "schema-id": "x"}, "'schema-id' of snapshot is not an integer"),
        ({"manifest-list": "l", "timestamp-ms": True}, "'timestamp-ms' of snapshot is not an integer"),
        ({"manifest-list": "l", "timestamp-ms": None}, "snapshot has no 'timestamp-ms'"),
        ({"manifest-list": "l", "summary": {"operation": 1}}, "'operation' in 'summary' of snapshot is not text"),
        ({"manifests": [1]}, "'manifests' of snapshot is not a list of texts"),
    ],
)
def test_damage_is_named(members: dict[str, object], message: str) -> None:
    with pytest.raises(MalformedMetadata, match=message):
        read(**members)


def test_snapshots_can_be_put_in_sets() -> None:
    assert len({read(manifests=[]), read(manifests=[])}) == 1
