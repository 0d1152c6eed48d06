"""What the metadata tables say of tables that are made here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil import ambient
from frazil.errors import InvalidArgument, MalformedMetadata, RefNotFound, SnapshotNotFound
from frazil.iceberg.data_file import Content
from frazil.iceberg.entries import COUNTS, Entries
from frazil.iceberg.manifest_list import ManifestFile
from frazil.iceberg.metadata import MetadataLogEntry, SnapshotLogEntry
from frazil.iceberg.metadata_tables import METADATA_TABLES, Source, metadata_table_schema, read
from frazil.iceberg.metadata_tables.readable_metrics import MapIndex, readable_bounds
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.write import as_data_file
from frazil.io.data_files import write_data_file
from frazil.model.arrow import schema_to_arrow
from frazil.model.geo import geo_bound_to_bytes, wkb_to_wkt
from frazil.model.schema import Schema
from frazil.model.types import FixedType, GeometryType, LongType, StructType, UuidType
from tests.iceberg.small_tables import (
    equality_deletes,
    live_files,
    new_table,
    position_deletes,
    rows,
    vector,
    with_content,
)
from tests.iceberg.tables import snapshot, table_with

PER_SNAPSHOT = ("entries", "files", "data_files", "delete_files", "manifests", "partitions", "position_deletes")


def struct_of(table: IcebergTable, name: str, column: str) -> StructType:
    found = metadata_table_schema(table.metadata, name).find(column).type
    assert isinstance(found, StructType)
    return found


def test_there_are_sixteen() -> None:
    assert len(METADATA_TABLES) == 16


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InvalidArgument) as refused:
        new_table().inspect("snapshot")
    assert "did you mean 'snapshots'?" in str(refused.value)
    assert all(name in str(refused.value) for name in METADATA_TABLES)
    with pytest.raises(InvalidArgument):
        metadata_table_schema(new_table().metadata, "")


def test_names_are_found_in_any_case() -> None:
    assert new_table().inspect("SNAPSHOTS").num_rows == 0


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("partition_by", [(), ("part",)])
def test_a_table_without_data_has_all_tables_and_they_are_empty(version: int, partition_by: tuple[str, ...]) -> None:
    table = new_table(version, partition_by=partition_by)
    for name in METADATA_TABLES:
        found = table.inspect(name)
        assert found.schema.equals(schema_to_arrow(metadata_table_schema(table.metadata, name)), check_metadata=True)
        assert found.num_rows == (1 if name == "metadata_log_entries" else 0)


def test_a_source_is_enough_to_read_one() -> None:
    table = new_table()
    table.append(rows(1, 2))
    source = Source(table.metadata, table.store, table.metadata_location, table.current_snapshot)
    assert read(source, "files").equals(table.inspect("files"))


@pytest.mark.parametrize("name", PER_SNAPSHOT)
def test_tables_of_a_snapshot_can_show_an_earlier_one(name: str) -> None:
    table = new_table(partition_by=("part",))
    first = table.append(rows(1, 2))
    [file] = live_files(table)
    table.new_row_delta().add_deletes(position_deletes(table, (file.file_path, 0), partition=(0,))).commit()
    before = table.inspect(name)
    table.manage_refs().create_tag("then").commit()
    table.append(rows(3, part=1))
    table.new_row_delta().add_deletes(position_deletes(table, (file.file_path, 1), partition=(0,))).commit()
    tagged = table.refs["then"].snapshot_id
    for at in ({"ref": "then"}, {"version": tagged}):
        assert table.inspect(name, **at).equals(before)
    assert table.inspect(name).num_rows > before.num_rows or name == "partitions"
    assert table.inspect("files", version=first.snapshot_id).num_rows == 1
    with pytest.raises(SnapshotNotFound):
        table.inspect(name, version=1)
    with pytest.raises(RefNotFound):
        table.inspect(name, ref="nowhere")
    with pytest.raises(InvalidArgument):
        table.inspect(name, ref="then", version=tagged)


@pytest.mark.parametrize("name", sorted(set(METADATA_TABLES) - set(PER_SNAPSHOT)))
def test_tables_of_all_snapshots_cannot_show_one(name: str) -> None:
    table = new_table()
    made = table.append(rows(1))
    for at in ({"version": made.snapshot_id}, {"ref": "main"}, {"as_of": "2999-01-01"}):
        with pytest.raises(InvalidArgument, match="all snapshots"):
            table.inspect(name, **at)


def test_an_earlier_snapshot_is_shown_with_the_columns_of_now() -> None:
    table = new_table()
    first = table.append(rows(1))
    table.update_schema().rename_column("name", "title").commit()
    found = table.inspect("files", version=first.snapshot_id)
    assert set(found["readable_metrics"].type.names) == {"id", "title", "part"}
    assert found["readable_metrics"][0]["title"]["lower_bound"].as_py() == "n1"


def test_readable_metrics_are_of_primitive_columns_at_any_depth_by_name() -> None:
    table = new_table(3, "z INT, a STRUCT<c: STRING, b: DOUBLE>, l ARRAY<INT>, m MAP<STRING, DATE>, v VARIANT")
    columns = struct_of(table, "files", "readable_metrics")
    assert [column.name for column in columns.fields] == ["a.b", "a.c", "l.element", "m.key", "m.value", "z"]
    table.append([{"z": 3, "a": {"c": "x", "b": float("nan")}, "l": [1], "m": {"k": None}, "v": None}])
    found = table.inspect("files")["readable_metrics"][0].as_py()
    assert (found["z"]["lower_bound"], found["z"]["upper_bound"], found["z"]["value_count"]) == (3, 3, 1)
    assert found["a.b"]["nan_value_count"] == 1
    assert found["a.c"]["upper_bound"] == "x"


def test_bounds_of_fixed_that_were_cut_are_filled_up_and_damaged_ones_are_null() -> None:
    bounds = pa.array([b"\x01", b"\x01\x02\x03", b"", b"12345", None], pa.binary())
    assert readable_bounds(FixedType(3), bounds).to_pylist() == [b"\x01\0\0", b"\x01\x02\x03", b"\0\0\0", None, None]
    assert readable_bounds(UuidType(), pa.array([b"short"], pa.binary())).to_pylist() == [None]
    assert readable_bounds(LongType(), pa.array([b"\x01"], pa.binary())).to_pylist() == [None]


def test_bounds_of_geometries_are_points() -> None:
    corners = [(1.0, 2.0), (1.0, 2.0, 3.0), (1.0, 2.0, None, 4.0), (1.0, 2.0, 3.0, 4.0)]
    bounds = pa.array([geo_bound_to_bytes(*corner) for corner in corners] + [b"?", None], pa.binary())
    found = readable_bounds(GeometryType(), bounds).to_pylist()
    assert [wkb_to_wkt(point) for point in found[:4]] == [
        "POINT (1 2)",
        "POINT Z (1 2 3)",
        "POINT M (1 2 4)",
        "POINT ZM (1 2 3 4)",
    ]
    assert found[4:] == [None, None]


@given(st.lists(st.none() | st.dictionaries(st.integers(0, 6), st.integers(-5, 5), max_size=5), max_size=12), st.data())
def test_a_map_index_finds_what_each_map_has_under_a_key(
    maps: list[dict[int, int] | None], data: st.DataObject
) -> None:
    array = pa.array([None if one is None else list(one.items()) for one in maps], COUNTS)
    start = data.draw(st.integers(0, len(maps)))
    index = MapIndex(array.slice(start))
    for key in range(7):
        assert index.values(key).to_pylist() == [None if one is None else one.get(key) for one in maps[start:]]


def test_the_partition_has_the_fields_of_all_specs_under_their_newest_names() -> None:
    table = new_table(partition_by=("part",))
    table.append(rows(1, part=7))
    table.update_spec().add_field("bucket(4, id)", name="shard").commit()
    table.append(rows(2, part=8))
    table.update_spec().remove_field("part").rename_field("shard", "slot").commit()
    table.append(rows(3))
    found = {row["spec_id"]: row["partition"] for row in table.inspect("files").to_pylist()}
    assert set(found[0]) == {"part", "slot"}
    assert found[0] == {"part": 7, "slot": None}
    assert found[1]["part"] == 8
    assert found[1]["slot"] is not None
    assert found[2]["part"] is None


def test_a_partition_field_dropped_from_a_v1_spec_keeps_the_type_of_its_values() -> None:
    table = new_table(1, partition_by=("bucket(4, name)",))
    table.append(rows(1))
    table.update_spec().remove_field("name_bucket").commit()
    table.append(rows(2))
    assert str(struct_of(table, "files", "partition").fields[0].type) == "int"
    found = {row["spec_id"]: row["partition"] for row in table.inspect("files").to_pylist()}
    assert len(found) == 2
    assert list(found[max(found)].values()) == [None]
    assert table.inspect("partitions").num_rows == 2


def test_a_partition_field_whose_column_is_gone_is_not_shown() -> None:
    table = new_table(partition_by=("part",))
    table.append(rows(1, part=7))
    table.update_spec().remove_field("part").commit()
    table.update_schema().drop_column("part").commit()
    assert "partition" not in table.inspect("files").column_names
    assert "partition" not in table.inspect("entries").schema.field("data_file").type.names
    assert table.inspect("partitions").column_names[0] == "record_count"
    assert table.inspect("partitions")["file_count"].to_pylist() == [1]


def test_partitions_count_data_and_both_kinds_of_deletes() -> None:
    table = new_table(partition_by=("part",))
    table.append(rows(1, 2, 3, part=1) + rows(4, part=None))
    by_part = {file.partition: file for file in live_files(table)}
    deletes = position_deletes(table, (by_part[1,].file_path, 0), (by_part[1,].file_path, 2), partition=(1,))
    keys = equality_deletes(table, [{"id": 4}], "id", partition=(None,))
    last = table.new_row_delta().add_deletes(deletes).add_deletes(keys).commit()
    table.append(rows(5, part=2))
    found = {row["partition"]["part"]: row for row in table.inspect("partitions").to_pylist()}
    assert set(found) == {1, None, 2}
    names = ("record_count", "file_count", "position_delete_record_count", "position_delete_file_count")
    more = ("equality_delete_record_count", "equality_delete_file_count")
    assert [found[1][name] for name in (*names, *more)] == [3, 1, 2, 1, 0, 0]
    assert [found[None][name] for name in (*names, *more)] == [1, 1, 0, 0, 1, 1]
    assert [found[2][name] for name in (*names, *more)] == [1, 1, 0, 0, 0, 0]
    assert found[1]["total_data_file_size_in_bytes"] == by_part[1,].file_size_in_bytes
    assert found[1]["last_updated_snapshot_id"] == found[None]["last_updated_snapshot_id"] == last.snapshot_id
    assert found[2]["last_updated_snapshot_id"] == table.metadata.current_snapshot_id


def test_a_partition_without_a_field_is_another_than_one_with_a_null_in_it() -> None:
    table = new_table()
    table.append(rows(1))
    table.update_spec().add_field("part").commit()
    table.append(rows(2, part=None))
    found = table.inspect("partitions").select(["partition", "spec_id", "file_count"]).to_pylist()
    assert sorted(row["spec_id"] for row in found) == [0, 1]
    assert [row["partition"] for row in found] == [{"part": None}] * 2


def test_partitions_of_unusual_values_are_told_apart_by_bits() -> None:
    table = new_table(schema="d DOUBLE, u UUID", partition_by=("d", "u"))
    values = [0.0, -0.0, float("nan"), None]
    table.append([{"d": value, "u": None} for value in values] * 2)
    table.append([{"d": float("nan"), "u": b"\x01" * 16}])
    table.append([{"d": float("nan"), "u": b"\x01" * 16}])
    found = table.inspect("partitions").to_pylist()
    assert len(found) == 5
    assert sum(row["record_count"] for row in found) == 10
    assert str(table.inspect("partitions").schema.field("partition").type.field("u").type) == "extension<arrow.uuid>"


def test_of_a_partition_of_expired_snapshots_nobody_knows_when_it_changed() -> None:
    table = new_table(partition_by=("part",))
    table.append(rows(1, part=1))
    table.update_spec().add_field("bucket(2, id)").commit()
    table.append(rows(2, part=2))
    table.append(rows(3, part=3))
    kept = replace(
        table.metadata, snapshots=table.metadata.snapshots[-1:], snapshot_log=table.metadata.snapshot_log[-1:]
    )
    source = Source(kept, table.store, table.metadata_location, kept.current_snapshot)
    found = {row["partition"]["part"]: row for row in read(source, "partitions").to_pylist()}
    assert found[2]["last_updated_at"] is None
    assert found[2]["last_updated_snapshot_id"] is None
    assert (found[1]["spec_id"], found[2]["spec_id"]) == (0, 1)
    assert found[3]["last_updated_snapshot_id"] == kept.current_snapshot_id


def test_manifest_bounds_are_shown_as_partition_paths_show_them() -> None:
    table = new_table(schema="ts TIMESTAMP_NTZ, b BINARY, f DOUBLE", partition_by=("months(ts)", "b", "f"))
    table.append([{"ts": "2017-11-16T22:31:08", "b": b"\x01", "f": None}])
    table.append([{"ts": "2018-01-02T00:00:00", "b": b"\x02", "f": float("nan")}])
    [*parts] = table.inspect("manifests")["partition_summaries"].to_pylist()
    months = [(part[0]["lower_bound"], part[0]["upper_bound"]) for part in parts]
    assert sorted(months) == [("2017-11", "2017-11"), ("2018-01", "2018-01")]
    assert {part[1]["lower_bound"] for part in parts} == {"AQ==", "Ag=="}
    assert {(part[2]["contains_null"], part[2]["contains_nan"], part[2]["lower_bound"]) for part in parts} == {
        (True, False, None),
        (False, True, None),
    }


def test_what_an_old_manifest_list_does_not_say_is_found_in_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(1, partition_by=("part",))
    table.append(rows(1, part=1) + rows(2, part=2))
    told = table.inspect("manifests")
    bare = [
        ManifestFile(
            one.manifest_path, one.manifest_length, one.partition_spec_id, added_snapshot_id=one.added_snapshot_id
        )
        for one in Source(table.metadata, table.store, "", table.current_snapshot).manifests
    ]
    monkeypatch.setattr("frazil.iceberg.actions.action.read_manifest_list", lambda *_: bare)
    assert table.inspect("manifests").equals(told)
    assert table.inspect("all_manifests").num_rows == told.num_rows


def test_snapshots_tell_their_summary_without_the_operation() -> None:
    made = table_with(snapshot(1, summary={}), snapshot(2, 1, summary={"operation": "append", "added-records": "5"}))
    source = Source(made, new_table().store, "m", made.current_snapshot)
    found = read(source, "snapshots").to_pylist()
    assert [row["operation"] for row in found] == [None, "append"]
    assert [row["summary"] for row in found] == [None, [("added-records", "5")]]
    assert [row["committed_at"].timestamp() for row in found] == [1.0, 2.0]


def test_history_marks_what_was_rolled_back() -> None:
    table = new_table()
    first = table.append(rows(1))
    second = table.append(rows(2))
    table.rollback().to_snapshot(first.snapshot_id).commit()
    found = table.inspect("history").to_pylist()
    assert [row["snapshot_id"] for row in found] == [first.snapshot_id, second.snapshot_id, first.snapshot_id]
    assert [row["is_current_ancestor"] for row in found] == [True, False, True]
    assert [row["parent_id"] for row in found] == [None, first.snapshot_id, None]


def test_the_metadata_log_names_the_snapshot_that_was_current_even_if_it_has_expired() -> None:
    made = replace(
        table_with(snapshot(1), snapshot(2, 1), snapshot(3, 2)),
        snapshots=(snapshot(2, 1), snapshot(3, 2)),
        snapshot_log=(SnapshotLogEntry(1000, 1), SnapshotLogEntry(2000, 2), SnapshotLogEntry(3000, 3)),
        metadata_log=(MetadataLogEntry(500, "a"), MetadataLogEntry(1500, "b"), MetadataLogEntry(2000, "c")),
    )
    found = read(Source(made, new_table().store, "d", made.current_snapshot), "metadata_log_entries")
    names = ("file", "latest_snapshot_id", "latest_schema_id", "latest_sequence_number")
    assert [tuple(row[name] for name in names) for row in found.to_pylist()] == [
        ("a", None, None, None),
        ("b", 1, None, None),
        ("c", 2, 0, 2),
        ("d", 3, 0, 3),
    ]


@pytest.mark.parametrize("version", [2, 3])
def test_position_deletes_come_from_files_and_from_vectors(version: int) -> None:
    table = new_table(version, partition_by=("part",))
    table.append(rows(1, 2, 3, part=1) + rows(4, 5, part=None))
    by_part = {file.partition: file for file in live_files(table)}
    one, none = by_part[1,], by_part[None,]
    if version == 2:
        deletes = [
            position_deletes(table, (one.file_path, 0), (one.file_path, 2), partition=(1,)),
            position_deletes(table, (none.file_path, 1), partition=(None,)),
        ]
    else:
        deletes = [vector(table, one, 0, 2), vector(table, none, 1)]
    action = table.new_row_delta()
    for file in deletes:
        action.add_deletes(file)
    action.commit()
    found = table.inspect("position_deletes").to_pylist()
    assert {(row["file_path"], row["pos"], row["partition"]["part"]) for row in found} == {
        (one.file_path, 0, 1),
        (one.file_path, 2, 1),
        (none.file_path, 1, None),
    }
    assert {row["delete_file_path"] for row in found} == {file.file_path for file in deletes}
    assert {row["row"] for row in found} == {None}
    vectors = {(row.get("content_offset"), row.get("content_size_in_bytes")) for row in found}
    assert vectors == {(file.content_offset, file.content_size_in_bytes) for file in deletes}
    assert ("content_offset" in found[0]) == (version == 3)


def test_position_deletes_show_the_rows_that_a_delete_file_holds() -> None:
    table = new_table()
    table.append(rows(1, 2))
    [file] = live_files(table)
    schema = Schema(metadata_table_schema(table.metadata, "position_deletes").fields[:3])
    deleted: dict[str, Any] = {"file_path": file.file_path, "pos": 1, "row": rows(2)[0]}
    batch = pa.RecordBatch.from_pylist([deleted], schema=schema_to_arrow(schema))
    location = f"{table.location}/data/{ambient.new_uuid()}-deletes.parquet"
    written = write_data_file(table.store, location, "parquet", schema, [batch], {})
    table.new_row_delta().add_deletes(
        with_content(as_data_file(written, 0, ()), Content.POSITION_DELETES, lower_bounds=None, upper_bounds=None)
    ).commit()
    [row] = table.inspect("position_deletes").to_pylist()
    assert {name: row[name] for name in deleted} == deleted


def test_a_long_vector_is_given_in_several_batches() -> None:
    table = new_table(3)
    table.append([{"id": number, "name": None, "part": None} for number in range(70_000)])
    [file] = live_files(table)
    table.new_row_delta().add_deletes(vector(table, file, *range(70_000))).commit()
    found = table.inspect("position_deletes")
    assert found["pos"].to_pylist() == list(range(70_000))
    assert found["pos"].num_chunks == 2


def test_a_vector_without_a_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(3)
    table.append(rows(1))
    [file] = live_files(table)
    table.new_row_delta().add_deletes(vector(table, file, 0)).commit()
    damaged = [replace(vector(table, file, 0), content_offset=None)]
    monkeypatch.setattr(Entries, "iter_files", lambda _: iter(damaged))
    with pytest.raises(MalformedMetadata, match="no offset"):
        table.inspect("position_deletes")


def test_partition_fields_of_position_deletes_have_ids_of_their_own() -> None:
    table = new_table(3, partition_by=("part", "bucket(4, id)"))
    schema = metadata_table_schema(table.metadata, "position_deletes")
    inside = {field.id for field in struct_of(table, "position_deletes", "partition").fields}
    assert not inside & table.schema.field_ids
    assert not inside & {field.field_id for field in table.spec.fields}
    assert schema.find("row.id").id == table.schema.find("id").id


def test_a_manifest_that_several_snapshots_list_is_counted_once() -> None:
    table = new_table()
    table.append(rows(1))
    table.new_fast_append().append_files([]).commit()
    table.append(rows(2))
    source = Source(table.metadata, table.store, "", table.current_snapshot)
    assert len(source.all_manifests) == 2
    assert table.inspect("all_data_files").num_rows == 2
    assert table.inspect("all_manifests").num_rows == sum(len(listed) for _, listed in source.manifests_by_snapshot)
