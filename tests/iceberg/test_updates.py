import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.ambient import Ambient, replaced
from frazil.errors import (
    CommitFailed,
    FrazilError,
    InvalidArgument,
    InvalidEvolution,
    InvalidSchema,
    MalformedMetadata,
    NotFound,
    SnapshotNotFound,
)
from frazil.iceberg.encryption_keys import EncryptedKey
from frazil.iceberg.metadata import MetadataLogEntry, SnapshotLogEntry, TableMetadata
from frazil.iceberg.metadata_json import parse_metadata, serialize_metadata
from frazil.iceberg.refs import SnapshotRef
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.statistics import BlobMetadata, PartitionStatisticsFile, StatisticsFile
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
    apply_updates,
    updates_creating,
    with_metadata_log,
)
from frazil.iceberg.updates_json import update_from_json, update_to_json
from frazil.model.partition import PartitionField, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import UNSORTED, SortField, SortOrder
from frazil.model.transforms import parse_transform
from frazil.model.types import LongType, NestedField, TimestampNsType
from tests.iceberg.tables import ORDER, SCHEMA, SPEC, UUID, snapshot, table, table_with

WIDER = Schema((*SCHEMA.fields, NestedField(4, "more", LongType())), 7, (1,))
BY_BUCKET = PartitionSpec(4, (PartitionField((1,), 1001, "id_bucket", parse_transform("bucket[8]")),))
BY_NAME = SortOrder(9, (SortField(parse_transform("identity"), (3,), "desc", "nulls-last"),))
NOW = 100_000


@pytest.fixture(autouse=True)
def _fixed_clock() -> Iterator[None]:
    with replaced(Ambient(seed=5, start_ms=NOW)):
        yield


def entries(metadata: TableMetadata) -> list[tuple[int, int]]:
    return [(entry.timestamp_ms, entry.snapshot_id) for entry in metadata.snapshot_log]


def commit(number: int, parent: int | None = None, **members: Any) -> list[Update]:
    """Add a snapshot and move main to it."""
    return [AddSnapshot(snapshot(number, parent, **members)), SetSnapshotRef("main", SnapshotRef(number))]


# Lists of updates.


def test_nothing_changes_without_a_change() -> None:
    base = table_with(snapshot(1))
    same: list[Update] = [
        AssignUuid(UUID.upper()),
        UpgradeFormatVersion(2),
        AddSchema(SCHEMA),
        SetCurrentSchema(0),
        SetSnapshotRef("main", SnapshotRef(1)),
        RemoveSnapshotRef("nowhere"),
        RemoveProperties(("nothing",)),
    ]
    assert apply_updates(base, same) is base


def test_a_change_moves_the_time_and_leaves_the_base_alone() -> None:
    base = table()
    after = apply_updates(base, [SetProperties({"owner": "me"})])
    assert after.properties["owner"] == "me"
    assert after.last_updated_ms > NOW
    assert "owner" not in base.properties


def test_time_never_goes_back_even_if_the_clock_does() -> None:
    after = apply_updates(table(last_updated_ms=NOW * 9), [SetProperties({"a": "b"})])
    assert after.last_updated_ms == NOW * 9


def test_the_first_commit_gives_an_old_v1_table_its_uuid() -> None:
    after = apply_updates(table(1, table_uuid=None), [SetProperties({"a": "b"})])
    assert after.table_uuid is not None
    assert apply_updates(after, [SetProperties({"a": "c"})]).table_uuid == after.table_uuid


def test_a_failed_list_raises_and_changes_nothing() -> None:
    base = table()
    with pytest.raises(InvalidArgument):
        apply_updates(base, [SetProperties({"a": "b"}), SetProperties({"uuid": "x"})])
    assert base == table()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_can_be_created_by_updates(version: int) -> None:
    wanted = table(version)
    made = apply_updates(None, updates_creating(wanted))
    assert replace(made, last_updated_ms=1000) == wanted
    through_json = [update_from_json(json.loads(json.dumps(update_to_json(u)))) for u in updates_creating(wanted)]
    assert replace(apply_updates(None, through_json), last_updated_ms=1000) == wanted


def test_a_table_cannot_be_created_from_half_its_updates() -> None:
    for left_out in (AddSchema, AddSpec, SetDefaultSpec, SetCurrentSchema):
        updates = [update for update in updates_creating(table()) if not isinstance(update, left_out)]
        with pytest.raises(FrazilError):
            apply_updates(None, updates)


# Identity and version.


def test_a_uuid_never_changes() -> None:
    with pytest.raises(InvalidArgument, match=UUID):
        apply_updates(table(), [AssignUuid("1b671a64-40d5-491e-99b0-da01ff1f3341")])


def test_a_v1_table_is_upgraded_step_by_step_or_at_once() -> None:
    base = table_with(snapshot(1, sequence_number=0, manifest_list=None, manifests=("m.avro",)), format_version=1)
    two = apply_updates(base, [UpgradeFormatVersion(2)])
    three = apply_updates(base, [UpgradeFormatVersion(3)])
    assert (two.format_version, two.last_sequence_number, two.snapshots) == (2, 0, base.snapshots)
    assert (three.format_version, three.next_row_id) == (3, 0)
    for metadata in (two, three):
        assert parse_metadata(serialize_metadata(metadata)) == metadata


@pytest.mark.parametrize("version", [1, 0, 4])
def test_versions_do_not_go_down_or_into_the_unknown(version: int) -> None:
    with pytest.raises(InvalidEvolution, match=str(version)):
        apply_updates(table(2), [UpgradeFormatVersion(version)])


# Schemas, specs and orders.


def test_a_schema_is_added_under_the_next_id_and_made_current() -> None:
    after = apply_updates(table(), [AddSchema(WIDER), SetCurrentSchema(-1)])
    assert [schema.schema_id for schema in after.schemas] == [0, 1]
    assert after.current_schema == WIDER
    assert after.last_column_id == 4


def test_an_equal_schema_is_used_again() -> None:
    once = apply_updates(table(), [AddSchema(WIDER), SetCurrentSchema(-1)])
    back = apply_updates(once, [AddSchema(SCHEMA), SetCurrentSchema(-1)])
    assert back.current_schema_id == 0
    assert len(back.schemas) == 2


def test_the_last_column_id_never_falls() -> None:
    high = apply_updates(table(), [AddSchema(WIDER, last_column_id=90)])
    assert high.last_column_id == 90
    assert apply_updates(high, [AddSchema(SCHEMA, last_column_id=3), SetProperties({"a": "b"})]).last_column_id == 90


def test_a_schema_of_a_later_version_is_refused() -> None:
    nanos = Schema((*SCHEMA.fields, NestedField(4, "t", TimestampNsType())))
    with pytest.raises(InvalidSchema, match="format version 3"):
        apply_updates(table(2), [AddSchema(nanos)])
    assert apply_updates(table(2), [UpgradeFormatVersion(3), AddSchema(nanos)]).last_column_id == 4


def test_a_schema_that_lacks_a_partition_column_cannot_be_current() -> None:
    narrow = Schema((SCHEMA.fields[0],))
    with pytest.raises(InvalidSchema, match="2"):
        apply_updates(table(), [AddSchema(narrow), SetCurrentSchema(-1)])
    unpartitioned: list[Update] = [AddSpec(PartitionSpec(0)), SetDefaultSpec(-1)]
    after = apply_updates(table(), [AddSchema(narrow), SetCurrentSchema(-1), *unpartitioned])
    assert after.current_schema == narrow


@pytest.mark.parametrize("update", [SetCurrentSchema(-1), SetDefaultSpec(-1), SetDefaultSortOrder(-1)])
def test_last_added_needs_something_added(update: Update) -> None:
    with pytest.raises(InvalidArgument, match="was added"):
        apply_updates(table(), [update])


@pytest.mark.parametrize("update", [SetCurrentSchema(5), SetDefaultSpec(5), SetDefaultSortOrder(5)])
def test_what_does_not_exist_cannot_be_chosen(update: Update) -> None:
    with pytest.raises(NotFound, match="5"):
        apply_updates(table(), [update])


def test_a_spec_is_added_under_the_next_id_and_an_equivalent_one_used_again() -> None:
    after = apply_updates(table(), [AddSpec(BY_BUCKET), SetDefaultSpec(-1)])
    assert (after.default_spec_id, after.last_partition_id) == (1, 1001)
    back = apply_updates(after, [AddSpec(replace(SPEC, spec_id=8)), SetDefaultSpec(-1)])
    assert (back.default_spec_id, len(back.partition_specs)) == (0, 2)


def test_partition_fields_without_ids_get_those_of_equivalent_fields_or_new_ones() -> None:
    fields = [
        {"source-id": 1, "name": "id_bucket", "transform": "bucket[8]"},
        {"source-id": 2, "name": "day", "transform": "day"},
        {"source-id": 3, "name": "name", "transform": "identity"},
    ]
    update = update_from_json({"action": "add-spec", "spec": {"fields": fields}})
    after = apply_updates(table(), [update])
    assert [part.field_id for part in after.spec(1).fields] == [1001, 1000, 1002]
    assert after.last_partition_id == 1002
    assert update_to_json(update)["spec"]["fields"] == fields


def test_v1_partition_fields_must_count_from_1000() -> None:
    with pytest.raises(InvalidSchema, match="1001"):
        apply_updates(table(1), [AddSpec(BY_BUCKET)])


@pytest.mark.parametrize(
    "part",
    [
        PartitionField((99,), 1001, "p", parse_transform("identity")),
        PartitionField((3,), 1001, "p", parse_transform("day")),
        PartitionField((1,), 1001, "name", parse_transform("bucket[4]")),
        PartitionField((1,), 1001, "p", parse_transform("zorder")),
    ],
)
def test_unfit_partition_fields_are_refused(part: PartitionField) -> None:
    with pytest.raises(InvalidSchema):
        apply_updates(table(), [AddSpec(PartitionSpec(0, (part,)))])


def test_sort_orders_are_added_and_used_again() -> None:
    after = apply_updates(table(), [AddSortOrder(BY_NAME), SetDefaultSortOrder(-1)])
    assert after.default_sort_order == replace(BY_NAME, order_id=2)
    unsorted = apply_updates(after, [AddSortOrder(UNSORTED), SetDefaultSortOrder(-1)])
    assert unsorted.default_sort_order == UNSORTED
    again = apply_updates(unsorted, [AddSortOrder(ORDER), SetDefaultSortOrder(-1)])
    assert (again.default_sort_order_id, len(again.sort_orders)) == (1, 3)


def test_specs_and_schemas_in_use_cannot_be_removed() -> None:
    base = apply_updates(
        table_with(snapshot(1)), [AddSchema(WIDER), SetCurrentSchema(-1), AddSpec(BY_BUCKET), SetDefaultSpec(-1)]
    )
    with pytest.raises(InvalidArgument, match="default partition spec"):
        apply_updates(base, [RemovePartitionSpecs((1,))])
    with pytest.raises(InvalidArgument, match=r"\[1\]"):
        apply_updates(base, [RemoveSchemas((1,))])
    with pytest.raises(InvalidArgument, match=r"\[0\]"):
        apply_updates(base, [RemoveSchemas((0,))])
    after = apply_updates(base, [RemoveSnapshots((1,)), RemoveSchemas((0,)), RemovePartitionSpecs((0,))])
    assert [schema.schema_id for schema in after.schemas] == [1]
    assert [spec.spec_id for spec in after.partition_specs] == [1]


# Snapshots, refs and the log.


def test_a_commit_adds_a_snapshot_and_logs_its_own_time() -> None:
    after = apply_updates(table_with(snapshot(1)), commit(2, 1))
    assert after.current_snapshot_id == 2
    assert after.last_sequence_number == 2
    assert entries(after) == [(1000, 1), (2000, 2)]


def test_a_rollback_is_logged_at_the_time_it_happens() -> None:
    after = apply_updates(table_with(snapshot(1), snapshot(2, 1)), [SetSnapshotRef("main", SnapshotRef(1))])
    assert entries(after)[-1] == (after.last_updated_ms, 1)
    assert after.last_updated_ms > NOW
    assert after.last_sequence_number == 2


def test_a_transaction_logs_only_the_last_snapshot() -> None:
    updates = [*commit(2, 1), *commit(3, 2), SetSnapshotRef("main", SnapshotRef(1)), *commit(4, 1)]
    after = apply_updates(table_with(snapshot(1)), updates)
    assert entries(after) == [(1000, 1), (4000, 4)]
    assert [one.snapshot_id for one in after.snapshots] == [1, 2, 3, 4]


def test_a_snapshot_that_comes_and_goes_within_a_transaction_does_not_cut_the_history() -> None:
    after = apply_updates(table_with(snapshot(1)), [*commit(2, 1), *commit(3, 1), RemoveSnapshots((2,))])
    assert entries(after) == [(1000, 1), (3000, 3)]


def test_a_branch_does_not_move_the_current_snapshot() -> None:
    updates: list[Update] = [AddSnapshot(snapshot(2, 1)), SetSnapshotRef("audit", SnapshotRef(2, max_ref_age_ms=5))]
    after = apply_updates(table_with(snapshot(1)), updates)
    assert after.current_snapshot_id == 1
    assert after.ref("audit") == SnapshotRef(2, max_ref_age_ms=5)
    assert entries(after) == [(1000, 1)]


def test_without_main_the_table_is_empty() -> None:
    after = apply_updates(table_with(snapshot(1)), [RemoveSnapshotRef("main")])
    assert after.current_snapshot is None
    assert after.refs == {}
    assert parse_metadata(serialize_metadata(after)) == after


def test_refs_need_a_snapshot_and_main_is_no_tag() -> None:
    with pytest.raises(SnapshotNotFound, match="9"):
        apply_updates(table(), [SetSnapshotRef("b", SnapshotRef(9))])
    with pytest.raises(InvalidArgument, match="tag"):
        apply_updates(table_with(snapshot(1)), [SetSnapshotRef("main", SnapshotRef(1, "tag"))])


def test_a_snapshot_id_is_used_once() -> None:
    with pytest.raises(InvalidArgument, match="exists already"):
        apply_updates(table_with(snapshot(1)), [AddSnapshot(snapshot(1, sequence_number=9))])


@pytest.mark.parametrize("sequence_number", [0, 1, 2])
def test_a_sequence_number_must_rise_and_otherwise_the_commit_can_be_retried(sequence_number: int) -> None:
    base = table_with(snapshot(1), snapshot(2, 1))
    with pytest.raises(CommitFailed, match="sequence number"):
        apply_updates(base, [AddSnapshot(snapshot(3, 2, sequence_number=sequence_number))])


def test_v1_has_no_sequence_numbers() -> None:
    after = apply_updates(table(1), commit(5))
    assert (after.last_sequence_number, after.snapshot(5).sequence_number) == (0, 0)


def test_a_snapshot_from_a_clock_that_is_behind_is_refused() -> None:
    base = table_with(snapshot(1), snapshot_log=(SnapshotLogEntry(70_000, 1),))
    assert apply_updates(base, commit(2, 1, timestamp_ms=10_000)).current_snapshot_id == 2
    with pytest.raises(CommitFailed, match="9999 ms"):
        apply_updates(base, commit(2, 1, timestamp_ms=9_999))
    with replaced(Ambient(seed=5, start_ms=5)):
        after = apply_updates(
            base, commit(2, 1, timestamp_ms=replace(base, last_updated_ms=70_000).next_timestamp_ms())
        )
    assert entries(after)[-1] == (70_000, 2)


def test_v3_snapshots_take_their_row_ids() -> None:
    base = table(3, next_row_id=10)
    after = apply_updates(base, commit(1, first_row_id=10, added_rows=5))
    assert after.next_row_id == 15
    branch: list[Update] = [AddSnapshot(snapshot(2, 1, first_row_id=15, added_rows=0))]
    assert apply_updates(after, branch).next_row_id == 15
    with pytest.raises(CommitFailed, match="first-row-id 9"):
        apply_updates(base, commit(1, first_row_id=9, added_rows=5))
    for missing in ({"first_row_id": 10}, {"added_rows": 5}, {"first_row_id": 10, "added_rows": -1}):
        with pytest.raises(InvalidArgument, match="added-rows"):
            apply_updates(base, commit(1, **missing))


def test_removed_snapshots_take_refs_statistics_and_earlier_history_with_them() -> None:
    base = table_with(
        *(snapshot(number, number - 1) for number in (1, 2, 3, 4)),
        refs={"main": SnapshotRef(4), "old": SnapshotRef(2, "tag"), "first": SnapshotRef(1, "tag")},
        statistics=(StatisticsFile(2, "two", 1, 1), StatisticsFile(3, "three", 1, 1)),
        partition_statistics=(PartitionStatisticsFile(2, "two", 1), PartitionStatisticsFile(1, "one", 1)),
    )
    after = apply_updates(base, [RemoveSnapshots((2,))])
    assert [one.snapshot_id for one in after.snapshots] == [1, 3, 4]
    assert sorted(after.refs) == ["first", "main"]
    assert entries(after) == [(3000, 3), (4000, 4)]
    assert [file.statistics_path for file in after.statistics] == ["three"]
    assert [file.statistics_path for file in after.partition_statistics] == ["one"]


def test_removing_the_current_snapshot_leaves_an_empty_table() -> None:
    after = apply_updates(table_with(snapshot(1), snapshot(2, 1)), [RemoveSnapshots((2,))])
    assert after.current_snapshot_id is None
    assert entries(after) == []


# The rest.


def test_properties_are_set_and_removed() -> None:
    after = apply_updates(table(), [SetProperties({"a": "", "b": "2"}), RemoveProperties(("b", "c"))])
    assert after.properties == {"write.parquet.compression-codec": "zstd", "a": ""}
    with pytest.raises(InvalidArgument, match=r"gc\.enabled"):
        apply_updates(table(), [SetProperties({"gc.enabled": "perhaps"})])


def test_a_location_loses_its_last_slash() -> None:
    assert apply_updates(table(), [SetLocation("s3://other/t/")]).location == "s3://other/t"


def test_statistics_and_keys_are_set_replaced_and_removed() -> None:
    first, second = StatisticsFile(1, "a", 1, 1), StatisticsFile(1, "b", 1, 1)
    parts = PartitionStatisticsFile(1, "p", 1)
    base = table_with(snapshot(1))
    after = apply_updates(
        base,
        [
            SetStatistics(first),
            SetStatistics(second),
            SetPartitionStatistics(parts),
            AddEncryptionKey(EncryptedKey("k", b"1")),
            AddEncryptionKey(EncryptedKey("k", b"2")),
        ],
    )
    assert (after.statistics, after.partition_statistics) == ((second,), (parts,))
    assert after.encryption_keys == (EncryptedKey("k", b"1"),)
    bare = apply_updates(after, [RemoveStatistics(1), RemovePartitionStatistics(1), RemoveEncryptionKey("k")])
    assert (bare.statistics, bare.partition_statistics, bare.encryption_keys) == ((), (), ())


def test_the_metadata_log_keeps_the_newest_files() -> None:
    metadata = table(properties={"write.metadata.previous-versions-max": "2"})
    for number in (1, 2, 3):
        metadata = with_metadata_log(metadata, f"{number}.json", number)
    assert metadata.metadata_log == (MetadataLogEntry(2, "2.json"), MetadataLogEntry(3, "3.json"))
    assert with_metadata_log(metadata, None, 4) is metadata
    one = replace(metadata, properties={"write.metadata.previous-versions-max": "0"})
    assert len(with_metadata_log(one, "4.json", 4).metadata_log) == 1


@given(st.lists(st.tuples(st.sampled_from(["commit", "stage", "back", "expire"]), st.integers(1, 9)), max_size=12))
def test_any_history_of_commits_leaves_sound_metadata(steps: list[tuple[str, int]]) -> None:
    metadata = table()
    for number, (what, pick) in enumerate(steps, 1):
        ids = [one.snapshot_id for one in metadata.snapshots]
        chosen = ids[pick % len(ids)] if ids else None
        new = replace(snapshot(number, metadata.current_snapshot_id), timestamp_ms=metadata.next_timestamp_ms())
        updates: list[Update] = [AddSnapshot(new)]
        if what == "commit":
            updates.append(SetSnapshotRef("main", SnapshotRef(number)))
        elif what == "back" and chosen is not None:
            updates = [SetSnapshotRef("main", SnapshotRef(chosen))]
        elif what == "expire" and chosen is not None and chosen != metadata.current_snapshot_id:
            updates = [RemoveSnapshots((chosen,))]
        before, metadata = metadata, apply_updates(metadata, updates)
        assert parse_metadata(serialize_metadata(metadata)) == metadata
        assert metadata.last_sequence_number >= before.last_sequence_number
        assert metadata.last_updated_ms >= before.last_updated_ms
        assert all(metadata.snapshot_or_none(entry.snapshot_id) for entry in metadata.snapshot_log)
        if metadata.current_snapshot is not None:
            assert metadata.snapshot_log[-1].snapshot_id == metadata.current_snapshot_id
            assert metadata.snapshot_as_of(2**62) == metadata.current_snapshot


# JSON.

EXAMPLES: list[Update] = [
    AssignUuid(UUID),
    UpgradeFormatVersion(3),
    AddSchema(WIDER, 4),
    SetCurrentSchema(-1),
    AddSpec(BY_BUCKET),
    SetDefaultSpec(-1),
    AddSortOrder(BY_NAME),
    SetDefaultSortOrder(0),
    AddSnapshot(snapshot(1, 0, first_row_id=0, added_rows=0)),
    SetSnapshotRef("main", SnapshotRef(1, "branch", 1, 2, 3)),
    SetSnapshotRef("v1", SnapshotRef(1, "tag")),
    RemoveSnapshotRef("v1"),
    RemoveSnapshots((1, 2)),
    SetLocation("s3://b/t"),
    SetProperties({"a": "b"}),
    RemoveProperties(("a",)),
    SetStatistics(StatisticsFile(1, "p", 10, 5, (BlobMetadata("ndv", 1, 1, (1,), {"ndv": "3"}),), "a2V5")),
    RemoveStatistics(1),
    SetPartitionStatistics(PartitionStatisticsFile(1, "p", 10)),
    RemovePartitionStatistics(1),
    RemovePartitionSpecs((1,)),
    RemoveSchemas((1,)),
    AddEncryptionKey(EncryptedKey("k", b"\x00", "m", {"a": "b"})),
    RemoveEncryptionKey("k"),
]


@pytest.mark.parametrize("update", EXAMPLES, ids=lambda update: update.action)
def test_updates_survive_a_round_trip(update: Update) -> None:
    document = json.loads(json.dumps(update_to_json(update)))
    assert document["action"] == update.action
    assert update_from_json(document) == update


def test_the_json_is_that_of_the_rest_catalog() -> None:
    assert update_to_json(SetSnapshotRef("main", SnapshotRef(1))) == {
        "action": "set-snapshot-ref",
        "ref-name": "main",
        "snapshot-id": 1,
        "type": "branch",
    }
    assert update_to_json(RemoveProperties(("a",))) == {"action": "remove-properties", "removals": ["a"]}
    assert update_to_json(SetStatistics(StatisticsFile(4, "p", 1, 1)))["snapshot-id"] == 4


def test_the_first_spelling_of_property_updates_is_read() -> None:
    assert update_from_json({"action": "set-properties", "updated": {"a": "b"}}) == SetProperties({"a": "b"})
    assert update_from_json({"action": "remove-properties", "removed": ["a"]}) == RemoveProperties(("a",))


@pytest.mark.parametrize(
    "document",
    [
        3,
        {},
        {"action": "set-moon"},
        {"action": "set-location"},
        {"action": "add-schema", "schema": {"fields": 3}},
        {"action": "add-spec", "spec": {"fields": [{"name": "x"}]}},
        {"action": "add-sort-order", "sort-order": {}},
        {"action": "set-snapshot-ref", "ref-name": "b", "snapshot-id": 1, "type": "x"},
        {"action": "add-snapshot", "snapshot": {"snapshot-id": 1}},
    ],
)
def test_malformed_updates_are_refused(document: object) -> None:
    with pytest.raises(MalformedMetadata):
        update_from_json(document)


def test_log_entries_are_of_this_table_only() -> None:
    base = table_with(snapshot(2), snapshot_log=(SnapshotLogEntry(1, 77), SnapshotLogEntry(2000, 2)))
    assert entries(apply_updates(base, [SetProperties({"a": "b"})])) == [(1, 77), (2000, 2)]
    assert entries(apply_updates(base, [AddSnapshot(Snapshot(9, None, 9, 2000, "m")), SetProperties({"a": "b"})])) == [
        (1, 77),
        (2000, 2),
    ]
