"""Manifests and manifest lists say after a round trip what they said before; what is not stored follows the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.data_file import Content, DataFile, Status
from frazil.iceberg.entries import Entries, from_files
from frazil.iceberg.manifest import ALL_COLUMNS, as_added, write_manifest
from frazil.iceberg.manifest_list import (
    DATA,
    DELETES,
    FieldSummary,
    ManifestFile,
    assign_first_row_ids,
    parse_manifest_list,
    serialize_manifest_list,
)
from frazil.iceberg.manifest_reader import ManifestCache, ManifestReader
from frazil.io.memory_store import MemoryStore
from frazil.model.partition import PartitionField, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.transforms import parse_transform
from frazil.model.types import NestedField
from tests.properties.random_tables import POOLS, POOLS_V3, TEXTS, key

VERSIONS = st.sampled_from([1, 2, 3])
INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**63 - 1)
SNAPSHOT = 77
V2_MEMBERS = ("content", "equality_ids", "referenced_data_file")
V3_MEMBERS = ("first_row_id", "content_offset", "content_size_in_bytes")


@st.composite
def tables(draw: st.DrawFn, version: int) -> tuple[Schema, PartitionSpec]:
    """A column of every type, and a spec of some of them; names may be anything."""
    types = [*POOLS, *(POOLS_V3 if version >= 3 else ())]
    schema = Schema(tuple(NestedField(at, f"c{at}", type_) for at, type_ in enumerate(types, 1)))
    picked = draw(st.lists(st.sampled_from(schema.fields), max_size=3, unique_by=lambda column: column.id))
    names = draw(st.permutations(["a", "with blank", "ünder/score", "1st"]))
    fields = [
        PartitionField((column.id,), 1000 + at, names[at], parse_transform("identity"))
        for at, column in enumerate(picked)
    ]
    return schema, PartitionSpec(3, tuple(fields))


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[int, Any] | None]:
    return st.none() | st.dictionaries(st.integers(1, 2**31 - 1), values, max_size=3)


@st.composite
def data_files(draw: st.DrawFn, version: int, schema: Schema, spec: PartitionSpec, deletes: bool) -> DataFile:
    pools = {column.id: (POOLS | POOLS_V3)[column.type] for column in schema.fields}
    partition = tuple(draw(st.none() | st.sampled_from(pools[part.source_id])) for part in spec.fields)
    texts = st.none() | st.sampled_from(TEXTS)
    made = DataFile(
        file_path=draw(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)),
        file_format=draw(st.sampled_from(["parquet", "orc", "avro", "puffin"])),
        record_count=draw(COUNTS),
        file_size_in_bytes=draw(COUNTS),
        spec_id=spec.spec_id,
        partition=partition,
        content=draw(st.sampled_from(list(Content)[1:])) if deletes else Content.DATA,
        column_sizes=draw(maps(COUNTS)),
        value_counts=draw(maps(COUNTS)),
        null_value_counts=draw(maps(COUNTS)),
        nan_value_counts=draw(maps(COUNTS)),
        lower_bounds=draw(maps(st.binary(max_size=20))),
        upper_bounds=draw(maps(st.binary(max_size=20))),
        key_metadata=draw(st.none() | st.binary(max_size=5)),
        split_offsets=draw(st.none() | st.lists(LONGS, max_size=3).map(tuple)),
        equality_ids=draw(st.none() | st.lists(INTS, max_size=3).map(tuple)),
        sort_order_id=draw(st.none() | INTS),
        first_row_id=None,
        referenced_data_file=draw(texts),
        content_offset=draw(st.none() | LONGS),
        content_size_in_bytes=draw(st.none() | LONGS),
    )
    lacking = [*(V2_MEMBERS if version < 2 else ()), *(V3_MEMBERS if version < 3 else ())]
    return replace(made, **{name: Content.DATA if name == "content" else None for name in lacking})


def round_trip(entries: Entries, schema: Schema, version: int, **listed: Any) -> tuple[ManifestFile, Entries]:
    store = MemoryStore("round-trip")
    written = write_manifest(
        store,
        "memory://round-trip/m",
        entries,
        schema=schema,
        format_version=version,
        content=listed.get("content", DATA),
        snapshot_id=SNAPSHOT,
    )
    manifest = replace(written, **listed)
    reader = ManifestReader(store, lambda _: (entries.spec, entries.partition_type), ManifestCache(0))
    return manifest, reader.read_one(manifest, ALL_COLUMNS)


def parts(file: DataFile) -> Any:
    """Everything of a file, comparable: NaN is NaN, 0.0 is not -0.0."""
    members = {name: getattr(file, name) for name in DataFile.__slots__}
    return {name: key(list(value.items()) if isinstance(value, dict) else value) for name, value in members.items()}


@given(VERSIONS, st.data())
def test_data_files_survive_a_manifest(version: int, data: st.DataObject) -> None:
    schema, spec = data.draw(tables(version))
    deletes = version > 1 and data.draw(st.booleans())
    files = data.draw(st.lists(data_files(version, schema, spec, deletes), min_size=1, max_size=4))
    added = as_added(from_files(spec, spec.partition_type(schema), files), SNAPSHOT)
    sequence = 0 if version == 1 else data.draw(st.integers(1, 2**40))
    content = DELETES if deletes else DATA
    manifest, found = round_trip(added, schema, version, sequence_number=sequence, content=content)
    expected = [replace(file, data_sequence_number=sequence, file_sequence_number=sequence) for file in files]
    assert [parts(file) for file in found.iter_files()] == [parts(file) for file in expected]
    assert found.numpy(ids.SNAPSHOT_ID).tolist() == [SNAPSHOT] * len(files)
    assert found.numpy(ids.STATUS).tolist() == [Status.ADDED] * len(files)
    assert manifest.added_files_count == len(files)


@given(VERSIONS, st.data())
def test_entries_inherit_only_what_they_do_not_say(version: int, data: st.DataObject) -> None:
    schema = Schema(())
    size = data.draw(st.integers(1, 5))
    files = [DataFile(f"f{at}", "parquet", data.draw(st.integers(0, 9)), 1) for at in range(size)]
    statuses = data.draw(st.lists(st.sampled_from(Status), min_size=size, max_size=size))
    own = [
        None if status == Status.ADDED and data.draw(st.booleans()) else at + 1 for at, status in enumerate(statuses)
    ]
    row_ids = [data.draw(st.none() | st.integers(0, 99)) for _ in files]
    spec = PartitionSpec(0, ())
    entries = from_files(spec, spec.partition_type(schema), files).with_columns(
        {
            ids.STATUS: pa.array([int(status) for status in statuses], pa.int32()),
            ids.SNAPSHOT_ID: pa.array([SNAPSHOT] * size, pa.int64()),
            ids.SEQUENCE_NUMBER: pa.array(own, pa.int64()),
            ids.FILE_SEQUENCE_NUMBER: pa.array(own, pa.int64()),
            ids.FIRST_ROW_ID: pa.array(row_ids, pa.int64()),
        }
    )
    sequence = 0 if version == 1 else 50
    first = data.draw(st.none() | st.integers(100, 200)) if version >= 3 else None
    _, found = round_trip(entries, schema, version, sequence_number=sequence, first_row_id=first)
    stored = [0] * size if version == 1 else [sequence if number is None else number for number in own]
    assert found.column(ids.SEQUENCE_NUMBER).to_pylist() == stored
    assert found.column(ids.FILE_SEQUENCE_NUMBER).to_pylist() == stored
    if first is None:
        assert found.column(ids.FIRST_ROW_ID).to_pylist() == [None] * size
        return
    expected, following = [], first
    for file, status, number in zip(files, statuses, row_ids, strict=True):
        takes = number is None and status != Status.DELETED
        expected.append(following if takes else number)
        following += file.record_count if takes else 0
    assert found.column(ids.FIRST_ROW_ID).to_pylist() == expected


SUMMARIES = st.builds(
    FieldSummary,
    st.booleans(),
    st.none() | st.booleans(),
    st.none() | st.binary(max_size=9),
    st.none() | st.binary(max_size=9),
)


@st.composite
def manifest_files(draw: st.DrawFn, version: int) -> ManifestFile:
    counts = COUNTS if version > 1 else st.none() | COUNTS
    files = st.integers(0, 2**31 - 1) if version > 1 else st.none() | st.integers(0, 2**31 - 1)
    made = ManifestFile(
        manifest_path=draw(st.text(st.characters(exclude_categories=("Cs",)), max_size=20)),
        manifest_length=draw(COUNTS),
        partition_spec_id=draw(st.integers(0, 2**31 - 1)),
        content=draw(st.sampled_from([DATA, DELETES])) if version > 1 else DATA,
        sequence_number=draw(COUNTS) if version > 1 else 0,
        min_sequence_number=draw(COUNTS) if version > 1 else 0,
        added_snapshot_id=draw(LONGS),
        added_files_count=draw(files),
        existing_files_count=draw(files),
        deleted_files_count=draw(files),
        added_rows_count=draw(counts),
        existing_rows_count=draw(counts),
        deleted_rows_count=draw(counts),
        partitions=draw(st.none() | st.lists(SUMMARIES, max_size=3).map(tuple)),
        key_metadata=draw(st.none() | st.binary(max_size=5)),
    )
    return replace(made, first_row_id=draw(st.none() | COUNTS)) if version >= 3 else made


@given(VERSIONS.flatmap(lambda version: st.tuples(st.just(version), st.lists(manifest_files(version), max_size=5))))
def test_manifests_survive_a_manifest_list(given: tuple[int, list[ManifestFile]]) -> None:
    version, manifests = given
    assert parse_manifest_list(serialize_manifest_list(manifests, {"snapshot-id": 1}, version)) == manifests


@given(st.data(), st.integers(0, 1000))
def test_first_row_ids_are_given_out_once(data: st.DataObject, next_row_id: int) -> None:
    """Over manifests that have ids already and others that do not, each with files that do and do not."""
    store, listed, stored_ids = MemoryStore("row-ids"), [], []
    spec, free = PartitionSpec(0, ()), 0
    for at in range(data.draw(st.integers(1, 4))):
        counts = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
        statuses = [data.draw(st.sampled_from(Status)) for _ in counts]
        own: list[int | None] = []
        for count in counts:  # ids that earlier commits gave out lie below the table's next one
            own.append(data.draw(st.sampled_from([None, free])))
            free += count
        files = [
            DataFile(f"{at}-{n}", "parquet", count, 1, first_row_id=number)
            for n, (count, number) in enumerate(zip(counts, own, strict=True))
        ]
        entries = as_added(from_files(spec, spec.partition_type(Schema(())), files), SNAPSHOT).with_columns(
            {
                ids.STATUS: pa.array([int(status) for status in statuses], pa.int32()),
                ids.SEQUENCE_NUMBER: pa.array(np.ones(len(files), np.int64)),
                ids.FILE_SEQUENCE_NUMBER: pa.array(np.ones(len(files), np.int64)),
            }
        )
        written = write_manifest(
            store,
            f"memory://row-ids/{at}",
            entries,
            schema=Schema(()),
            format_version=3,
            content=DATA,
            snapshot_id=SNAPSHOT,
        )
        listed.append(replace(written, sequence_number=1))
        stored_ids.append(own)
    start = free + next_row_id
    assigned, after = assign_first_row_ids(listed, start)
    again, still = assign_first_row_ids(assigned, after)
    assert (again, still) == (assigned, after)
    reader = ManifestReader(store, lambda _: (spec, spec.partition_type(Schema(()))), ManifestCache(0))
    given_out: list[int] = []
    for manifest, own in zip(assigned, stored_ids, strict=True):
        found = reader.read_one(manifest, ALL_COLUMNS)
        for file, live, number in zip(found.iter_files(), found.live, own, strict=True):
            assert file.first_row_id == number or number is None
            if live:
                assert file.first_row_id is not None
                given_out.extend(range(file.first_row_id, file.first_row_id + file.record_count))
    assert len(set(given_out)) == len(given_out)
    assert all(number < after for number in given_out)
