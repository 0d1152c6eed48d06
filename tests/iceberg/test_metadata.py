import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.ambient import Ambient, replaced
from frazil.errors import (
    InvalidArgument,
    InvalidSchema,
    MalformedMetadata,
    NotFound,
    RefNotFound,
    SnapshotNotFound,
    UnsupportedVersion,
)
from frazil.iceberg.encryption_keys import EncryptedKey
from frazil.iceberg.json_object import MAX_JSON_DEPTH, parse_json
from frazil.iceberg.metadata import MetadataLogEntry, SnapshotLogEntry, TableMetadata
from frazil.iceberg.metadata_files import hadoop_file_name, metadata_file_name, version_of
from frazil.iceberg.metadata_json import metadata_from_json, metadata_to_json, parse_metadata, serialize_metadata
from frazil.iceberg.new_table import new_table_metadata
from frazil.iceberg.refs import SnapshotRef
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.statistics import BlobMetadata, PartitionStatisticsFile, StatisticsFile
from frazil.model.partition import UNPARTITIONED, PartitionField, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import UNSORTED, SortField, SortOrder
from frazil.model.transforms import parse_transform
from frazil.model.types import LongType, NestedField, StructType, TimestampNsType, list_of
from tests.iceberg.tables import ORDER, SCHEMA, SPEC, UUID, snapshot, table, table_with

OLDEST_V1: dict[str, Any] = {
    "format-version": 1,
    "location": "s3://b/t/",
    "last-updated-ms": 1000,
    "last-column-id": 2,
    "schema": {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "id", "required": True, "type": "long"},
            {"id": 2, "name": "ts", "required": False, "type": "timestamp"},
        ],
    },
    "partition-spec": [
        {"source-id": 2, "name": "ts_day", "transform": "day"},
        {"source-id": 1, "name": "id_bucket", "transform": "bucket[4]"},
    ],
    "current-snapshot-id": 7,
    "snapshots": [{"snapshot-id": 7, "timestamp-ms": 900, "manifests": ["s3://b/t/m.avro"]}],
}


def changed(document: dict[str, Any], **members: Any) -> bytes:
    new = {**document, **{name.replace("_", "-"): value for name, value in members.items()}}
    return json.dumps({name: value for name, value in new.items() if value is not ...}).encode()


# Reading what others wrote.


def test_the_oldest_spelling_of_v1_is_read() -> None:
    metadata = parse_metadata(json.dumps(OLDEST_V1).encode())
    assert metadata.table_uuid is None
    assert metadata.location == "s3://b/t"
    assert metadata.current_schema.columns == ["id", "ts"]
    assert metadata.current_schema_id == 0
    assert [part.field_id for part in metadata.default_spec.fields] == [1000, 1001]
    assert metadata.last_partition_id == 1001
    assert metadata.default_sort_order == UNSORTED
    assert metadata.refs == {"main": SnapshotRef(7)}
    assert metadata.properties == {}
    assert metadata.snapshot(7).manifests == ("s3://b/t/m.avro",)


def test_v1_is_written_so_that_old_and_new_readers_find_everything() -> None:
    document = metadata_to_json(parse_metadata(json.dumps(OLDEST_V1).encode()))
    assert document["schema"] == document["schemas"][0]
    assert document["partition-spec"] == document["partition-specs"][0]["fields"]
    assert document["refs"] == {"main": {"snapshot-id": 7, "type": "branch"}}
    assert "last-sequence-number" not in document
    assert "next-row-id" not in document
    assert "table-uuid" not in document


@pytest.mark.parametrize("spelling", [-1, None])
def test_no_current_snapshot_is_spelled_minus_one_or_null(spelling: int | None) -> None:
    document = {**metadata_to_json(table(2)), "current-snapshot-id": spelling, "refs": None}
    metadata = metadata_from_json(document)
    assert metadata.current_snapshot is None
    assert metadata.refs == {}


@pytest.mark.parametrize(("version", "spelling"), [(1, -1), (2, -1), (3, None)])
def test_each_version_writes_its_own_spelling_of_an_empty_table(version: int, spelling: int | None) -> None:
    document = metadata_to_json(table(version))
    assert document["current-snapshot-id"] == spelling
    assert ("last-sequence-number" in document) == (version > 1)
    assert ("schema" in document) == (version == 1)
    assert ("next-row-id" in document) == (version == 3)


def test_main_is_implied_by_the_current_snapshot() -> None:
    document = metadata_to_json(table_with(snapshot(1)))
    for refs in ({"t": {"snapshot-id": 1, "type": "tag"}}, {}, None):
        assert metadata_from_json({**document, "refs": refs}).ref("main") == SnapshotRef(1)


def test_unknown_members_are_kept_and_the_draft_flag_is_dropped() -> None:
    document = {**metadata_to_json(table(3)), "row-lineage": True, "from-the-future": {"a": [1.5]}}
    written = metadata_to_json(metadata_from_json(document))
    assert written["from-the-future"] == {"a": [1.5]}
    assert "row-lineage" not in written


@pytest.mark.parametrize("name", ["encrypted-key-metadata", "key-metadata"])
def test_both_spellings_of_an_encrypted_key_are_read(name: str) -> None:
    keys = [{"key-id": "k", name: "aWNlYmVyZw==", "encrypted-by-id": "m"}]
    metadata = metadata_from_json({**metadata_to_json(table(3)), "encryption-keys": keys})
    assert metadata.encryption_keys == (EncryptedKey("k", b"iceberg", "m"),)
    assert "iceberg" not in repr(metadata)


def test_gzip_is_told_by_the_bytes_also_in_several_members() -> None:
    plain = serialize_metadata(table())
    assert parse_metadata(serialize_metadata(table(), compress=True)) == table()
    assert parse_metadata(gzip.compress(plain[:100]) + gzip.compress(plain[100:])) == table()


# Refusing what is damaged.


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"format_version": ...}, "has no 'format-version'"),
        ({"format_version": "2"}, "'format-version' of table metadata is not an integer"),
        ({"table_uuid": ...}, "has no 'table-uuid'"),
        ({"location": ...}, "has no 'location'"),
        ({"last_sequence_number": ...}, "has no 'last-sequence-number'"),
        ({"last_updated_ms": ...}, "has no 'last-updated-ms'"),
        ({"last_column_id": ...}, "has no 'last-column-id'"),
        ({"schemas": ...}, "has no 'schemas'"),
        ({"schemas": 5}, "'schemas' of table metadata is not a list"),
        ({"schemas": [5]}, r"schemas\[0\] is not a JSON object"),
        ({"schemas": [{"type": "struct"}]}, "schema in table metadata"),
        ({"partition_specs": ...}, "has no 'partition-specs'"),
        ({"partition_specs": [{"spec-id": 0}]}, "partition spec in table metadata"),
        ({"last_partition_id": ...}, "has no 'last-partition-id'"),
        ({"sort_orders": ...}, "has no 'sort-orders'"),
        ({"sort_orders": [{"order-id": 4, "fields": 3}]}, "sort order in table metadata"),
        ({"current_schema_id": 9}, "current-schema-id is 9"),
        ({"default_spec_id": 9}, "default-spec-id is 9"),
        ({"default_sort_order_id": 9}, "default-sort-order-id is 9"),
        ({"current_snapshot_id": 9}, "current-snapshot-id is 9"),
        ({"refs": {"main": {"snapshot-id": 1, "type": "branch"}}}, "branch main is at 1"),
        ({"refs": {"t": {"snapshot-id": 8, "type": "tag"}}}, "ref 't' is 8"),
        ({"refs": {"t": {"snapshot-id": 1, "type": "bookmark"}}}, "unknown kind of ref 'bookmark'"),
        ({"refs": {"main": {"snapshot-id": 2, "type": "tag"}}}, "main is a tag"),
        ({"properties": {"a": 1}}, "'a' in 'properties'"),
        ({"last_sequence_number": 1}, "sequence number 2"),
        ({"statistics": [{"snapshot-id": 1}]}, r"statistics\[0\] has no 'statistics-path'"),
        ({"encryption_keys": [{"key-id": "k", "key-metadata": "!"}]}, "not base64"),
        ({"snapshot_log": [[1, 2]]}, r"snapshot-log\[0\] is not a JSON object"),
    ],
)
def test_damage_is_named(members: dict[str, Any], message: str) -> None:
    document = metadata_to_json(table_with(snapshot(1), snapshot(2, 1)))
    with pytest.raises(MalformedMetadata, match=message) as caught:
        parse_metadata(changed(document, **members))
    assert caught.value.hint


def test_v3_needs_its_next_row_id() -> None:
    with pytest.raises(MalformedMetadata, match="has no 'next-row-id'"):
        parse_metadata(changed(metadata_to_json(table(3)), next_row_id=...))


def test_the_same_id_twice_is_refused() -> None:
    document = metadata_to_json(table_with(snapshot(1)))
    for name in ("schemas", "partition-specs", "sort-orders", "snapshots"):
        with pytest.raises(MalformedMetadata, match="two have the"):
            metadata_from_json({**document, name: document[name] * 2})


@pytest.mark.parametrize("version", [0, 4, 99, -1])
def test_unknown_format_versions_are_refused_before_anything_else_is_read(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match=str(version)):
        parse_metadata(json.dumps({"format-version": version}).encode())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"5", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b'{"format-version": 2, "format-version": 2}', "'format-version' appears twice"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "1e999 is not a JSON number"),
        (b'{"a": 9223372036854775808}', "does not fit 64 bits"),
        (b'{"a": -9223372036854775809}', "does not fit 64 bits"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "does not fit 64 bits"),
        (b'{"a": "\xff"}', "not JSON"),
        (b"[" * 300 + b"]" * 300, "nests deeper"),
        (b"[" * 500_000, "nests deeper"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "nests deeper"),
        (b"\x1f\x8b\x08garbage", "gzip|metadata file"),
        (gzip.compress(b"{}" * 1000, mtime=0)[:-10], "ends too early"),
    ],
)
def test_hostile_or_truncated_files_are_malformed(data: bytes, message: str) -> None:
    with pytest.raises(MalformedMetadata, match=message):
        parse_metadata(data)


def test_json_just_below_the_limits_is_read() -> None:
    depth = MAX_JSON_DEPTH
    assert parse_json(b"[" * depth + b"]" * depth)
    assert parse_json(b"[9223372036854775807, -9223372036854775808]") == [2**63 - 1, -(2**63)]


def test_a_decompression_bomb_is_stopped_at_the_limit() -> None:
    bomb = gzip.compress(b" " * 5_000_000)
    with pytest.raises(MalformedMetadata, match="larger than 1000000 bytes"):
        parse_metadata(bomb, max_bytes=1_000_000)
    with pytest.raises(MalformedMetadata, match="larger than 10 bytes"):
        parse_metadata(b" " * 11, max_bytes=10)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_with_our_own_errors(data: bytes) -> None:
    with pytest.raises((MalformedMetadata, UnsupportedVersion)):
        parse_metadata(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
DOCUMENT = metadata_to_json(
    table_with(
        snapshot(1),
        format_version=3,
        statistics=(StatisticsFile(1, "s", 2, 1, (BlobMetadata("ndv", 1, 1, (1,)),)),),
        encryption_keys=(EncryptedKey("k", b"x"),),
    )
)


@given(st.sampled_from(sorted(DOCUMENT)), JSON)
def test_a_member_replaced_by_anything_is_read_or_refused_with_our_own_errors(name: str, value: Any) -> None:
    try:
        metadata_from_json({**DOCUMENT, name: value})
    except (MalformedMetadata, UnsupportedVersion):
        return


# Writing, and reading it again.

TEXT = st.text(max_size=8)
LONG = st.integers(0, 2**63 - 1)
SNAPSHOTS = st.builds(
    Snapshot,
    LONG,
    st.none() | LONG,
    LONG,
    LONG,
    st.none() | TEXT,
    st.just(()),
    st.dictionaries(TEXT, TEXT, max_size=2),
    st.none() | st.just(0),
    st.none() | LONG,
    st.none() | LONG,
    st.none() | TEXT,
    st.dictionaries(st.sampled_from(["x", "y"]), JSON.filter(lambda value: value is not None), max_size=1),
)
REFS = st.builds(SnapshotRef, st.just(0), st.just("branch"), *[st.none() | st.integers(1, 9)] * 3) | st.builds(
    SnapshotRef, st.just(0), st.just("tag"), st.none(), st.none(), st.none() | st.integers(1, 9)
)


@st.composite
def tables(draw: st.DrawFn) -> TableMetadata:
    snapshots = tuple(draw(st.lists(SNAPSHOTS, max_size=3, unique_by=lambda one: one.snapshot_id)))
    version = draw(st.integers(1, 3))
    refs: dict[str, SnapshotRef] = {}
    current = None
    if snapshots:
        pick = st.sampled_from(snapshots)
        names = draw(st.dictionaries(TEXT.filter(lambda name: name != "main"), REFS, max_size=2))
        refs = {name: replace(ref, snapshot_id=draw(pick).snapshot_id) for name, ref in names.items()}
        if draw(st.booleans()):
            current = draw(pick).snapshot_id
            refs["main"] = SnapshotRef(current)
    return replace(
        table(version),
        table_uuid=draw(st.none() | st.just(UUID)) if version == 1 else UUID,
        last_sequence_number=0 if version == 1 else max((one.sequence_number for one in snapshots), default=0),
        last_updated_ms=draw(LONG),
        properties=draw(st.dictionaries(TEXT, TEXT, max_size=3)),
        snapshots=snapshots,
        current_snapshot_id=current,
        refs=refs,
        snapshot_log=tuple(draw(st.lists(st.builds(SnapshotLogEntry, LONG, LONG), max_size=3))),
        metadata_log=tuple(draw(st.lists(st.builds(MetadataLogEntry, LONG, TEXT), max_size=3))),
        statistics=tuple(
            draw(st.lists(st.builds(StatisticsFile, LONG, TEXT, LONG, LONG, st.just(()), st.none() | TEXT), max_size=2))
        ),
        partition_statistics=tuple(draw(st.lists(st.builds(PartitionStatisticsFile, LONG, TEXT, LONG), max_size=2))),
        next_row_id=draw(LONG) if version == 3 else 0,
        encryption_keys=tuple(
            draw(st.lists(st.builds(EncryptedKey, TEXT, st.binary(max_size=5), st.none() | TEXT), max_size=2))
        ),
        extra=draw(st.dictionaries(st.sampled_from(["future", "more"]), JSON, max_size=2)),
    )


@given(tables(), st.booleans())
def test_what_is_written_is_read_again(metadata: TableMetadata, compress: bool) -> None:
    data = serialize_metadata(metadata, compress=compress)
    assert parse_metadata(data) == metadata
    assert serialize_metadata(parse_metadata(data), compress=compress) == data


def test_names_that_utf8_cannot_hold_are_escaped() -> None:
    metadata = table(2, properties={"a": "\ud800é"})
    assert parse_metadata(serialize_metadata(metadata)) == metadata
    assert "é".encode() in serialize_metadata(table(2, properties={"a": "é"}))


# Asking.


def test_things_are_found_by_id_and_missing_ones_named() -> None:
    metadata = table_with(snapshot(1), snapshot(2, 1))
    assert metadata.schema(0) == metadata.current_schema
    assert metadata.spec(0) == metadata.default_spec
    assert metadata.sort_order(1) == metadata.default_sort_order == ORDER
    assert metadata.sort_order(0) == UNSORTED
    assert metadata.current_snapshot == snapshot(2, 1)
    for ask in (metadata.schema, metadata.spec, metadata.sort_order, metadata.snapshot):
        with pytest.raises(NotFound, match="77"):
            ask(77)
    with pytest.raises(RefNotFound, match="mian") as caught:
        metadata.ref("mian")
    assert "main" in str(caught.value.hint)


def test_a_snapshot_without_schema_id_has_the_current_schema() -> None:
    metadata = table_with(snapshot(1, schema_id=None))
    assert metadata.schema_of(metadata.snapshot(1)) is metadata.current_schema


def test_time_travel_does_not_expect_an_ordered_log() -> None:
    log = [(1000, 1), (5000, 2), (3000, 3), (3000, 4), (9000, 1)]  # a clock ran ahead, and then main was rolled back
    metadata = table_with(
        *(snapshot(number) for number in (1, 2, 3, 4)), snapshot_log=tuple(SnapshotLogEntry(*entry) for entry in log)
    )
    asked = {time: metadata.snapshot_as_of(time).snapshot_id for time in (1000, 2999, 3000, 4999, 5000, 8999, 9000)}
    assert asked == {1000: 1, 2999: 1, 3000: 4, 4999: 4, 5000: 2, 8999: 2, 9000: 1}
    with pytest.raises(SnapshotNotFound, match="999"):
        metadata.snapshot_as_of(999)


def test_time_travel_to_an_expired_snapshot_is_an_error_not_another_snapshot() -> None:
    metadata = table_with(snapshot(1), snapshot_log=(SnapshotLogEntry(1000, 1), SnapshotLogEntry(2000, 8)))
    with pytest.raises(SnapshotNotFound, match="8"):
        metadata.snapshot_as_of(2500)


def test_ancestors_end_at_expired_parents_and_never_loop() -> None:
    metadata = table_with(snapshot(2, 1), snapshot(3, 2), snapshot(4, 5), snapshot(5, 4))
    assert [one.snapshot_id for one in metadata.ancestors_of(3)] == [3, 2]
    assert [one.snapshot_id for one in metadata.ancestors_of(4)] == [4, 5]
    assert list(metadata.ancestors_of(None)) == []
    assert metadata.is_ancestor(2, 3)
    assert not metadata.is_ancestor(3, 2)


def test_the_next_snapshot_is_never_before_the_last_change() -> None:
    with replaced(Ambient(seed=1, start_ms=50)):
        assert table().next_timestamp_ms() == 1000
    with replaced(Ambient(seed=1, start_ms=5000)):
        assert table().next_timestamp_ms() > 5000


# New tables.


def test_a_new_table_numbers_its_columns_from_one() -> None:
    schema = Schema(
        (
            NestedField(70, "a", StructType((NestedField(3, "x", LongType(), required=True),)), required=True),
            NestedField(9, "l", list_of(4, LongType())),
            NestedField(50, "b", LongType()),
        ),
        schema_id=8,
        identifier_field_ids=(3,),
    )
    spec = PartitionSpec(5, (PartitionField((3,), 1700, "x_bucket", parse_transform("bucket[8]")),))
    order = SortOrder(9, (SortField(parse_transform("identity"), (50,), "desc", "nulls-last"),))
    metadata = new_table_metadata(schema, spec, order, location="s3://b/t/", uuid=UUID)
    assert {metadata.current_schema.name_of(number): number for number in range(1, 6)} == {
        "a": 1,
        "l": 2,
        "b": 3,
        "a.x": 4,
        "l.element": 5,
    }
    assert metadata.current_schema.identifier_field_ids == (4,)
    assert (metadata.current_schema_id, metadata.last_column_id) == (0, 5)
    assert metadata.default_spec == PartitionSpec(0, (replace(spec.fields[0], source_ids=(4,), field_id=1000),))
    assert metadata.default_sort_order == SortOrder(1, (replace(order.fields[0], source_ids=(3,)),))
    assert (metadata.last_partition_id, metadata.format_version, metadata.location) == (1000, 2, "s3://b/t")
    assert metadata.properties == {"write.parquet.compression-codec": "zstd"}
    assert parse_metadata(serialize_metadata(metadata)) == metadata


def test_an_unpartitioned_table_says_so() -> None:
    metadata = new_table_metadata(SCHEMA, location="/t")
    assert metadata.default_spec == UNPARTITIONED
    assert metadata.last_partition_id == 999
    assert metadata.default_sort_order_id == 0


def test_the_format_version_may_come_as_a_property_which_is_not_kept() -> None:
    metadata = new_table_metadata(SCHEMA, location="/t", properties={"format-version": "3", "owner": "me"})
    assert metadata.format_version == 3
    assert "format-version" not in metadata.properties
    assert metadata.properties["owner"] == "me"
    for wrong in ("4", "0", "two", ""):
        with pytest.raises(InvalidArgument, match="format version"):
            new_table_metadata(SCHEMA, location="/t", properties={"format-version": wrong})


def test_a_new_table_refuses_what_its_version_or_schema_cannot_hold() -> None:
    nanos = Schema((NestedField(1, "t", TimestampNsType()),))
    with pytest.raises(InvalidSchema, match="format version 3"):
        new_table_metadata(nanos, location="/t", format_version=2)
    assert new_table_metadata(nanos, location="/t", format_version=3).format_version == 3
    for part in (
        PartitionField((99,), 1000, "p", parse_transform("identity")),
        PartitionField((3,), 1000, "p", parse_transform("day")),
        PartitionField((1,), 1000, "name", parse_transform("identity")),
        PartitionField((1,), 1000, "p", parse_transform("zorder")),
    ):
        with pytest.raises(InvalidSchema):
            new_table_metadata(SCHEMA, PartitionSpec(0, (part,)), location="/t")
    with pytest.raises(InvalidArgument, match="uuid"):
        new_table_metadata(SCHEMA, SPEC, location="/t", properties={"uuid": "x"})


# File names.


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("v1.metadata.json", 1),
        ("v12.gz.metadata.json", 12),
        ("v12.metadata.json.gz", 12),
        ("s3://b/t/metadata/00000-9c12d441.metadata.json", 0),
        ("00041-9c12d441-03fe.gz.metadata.json", 41),
        ("00041-9c12d441.metadata.json.gz", 41),
        ("123456-x.metadata.json", 123456),
        ("metadata.json", None),
        ("v.metadata.json", None),
        ("v1.metadata.json.crc", None),
        (".v1.metadata.json", None),
        ("00041.metadata.json", None),
        ("snap-1-1-x.avro", None),
        ("v" + "9" * 5000 + ".metadata.json", None),
    ],
)
def test_versions_are_found_in_file_names(name: str, version: int | None) -> None:
    assert version_of(name) == version


@given(st.integers(0, 10**9), st.sampled_from(["none", "gzip"]))
def test_names_we_give_tell_their_version(version: int, codec: str) -> None:
    assert version_of(metadata_file_name(version, UUID, codec)) == version
    assert version_of(hadoop_file_name(version, codec)) == version


def test_an_unknown_codec_has_no_name() -> None:
    with pytest.raises(InvalidArgument, match="lz4"):
        metadata_file_name(1, UUID, "lz4")
