"""PyIceberg 0.12 reads the tables we write, and agrees with us about all that is in them.

Version 3 is asked for rows only: it cannot serialise v3 metadata, and reads v3 manifests as if they were v2 (no vector
offsets, no first row ids). Files are compared entry by entry, since `inspect.files()` fails where a column is a uuid.
What it cannot do is in `CANNOT`, with the reason; each entry is asserted to be still so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.exceptions import ResolveError
from pyiceberg.expressions import EqualTo, GreaterThan, IsNull, LessThanOrEqual
from pyiceberg.partitioning import _to_partition_representation
from pyiceberg.table import StaticTable
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.types import IcebergType

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.manifest import ALL_COLUMNS
from frazil.iceberg.manifest_list import FieldSummary, ManifestFile
from frazil.iceberg.metadata_json import parse_metadata
from frazil.iceberg.table import IcebergTable
from frazil.model.expressions import col
from tests.interop.cases import FIXED_IN_PARTITIONS, Cannot, all_cases, parameters
from tests.interop.conftest import Built
from tests.interop.rows import bag
from tests.interop.tables import TRANSFORMS

pytestmark = pytest.mark.interop

EQUALITY = Cannot("it reads no equality deletes, and says so", ValueError)
NULL_LISTS = Cannot("it gives an empty list or map for a null one whose elements are structs", AssertionError)
CANNOT = {
    "equality_deletes_of_a_table": EQUALITY,
    "equality_and_row_deletes": EQUALITY,
    "equality_deletes_by_partition": EQUALITY,
    "equality_deletes_of_nulls": EQUALITY,
    "nested": NULL_LISTS,
    "null_lists_of_structs": NULL_LISTS,
    "types_avro": Cannot("it reads no Avro data files", ValueError),
    "types_orc": Cannot("it does not know the ORC attributes for time, uuid and fixed", ResolveError),
}
CASES = [case for case in all_cases(1, 2, 3) if case[0] not in FIXED_IN_PARTITIONS]
WHOLE = [case for case in CASES if case[1] < 3]


def theirs(table: IcebergTable) -> StaticTable:
    return StaticTable.from_metadata(table.metadata_location)


@pytest.mark.parametrize(("name", "version"), parameters(CASES, CANNOT))
def test_rows_of_every_snapshot(built: Built, name: str, version: int):
    table, rows = built(name, version)
    other = theirs(table)
    assert bag(other.scan().to_arrow(), table.schema) == bag(rows, table.schema)
    assert other.scan().count() == len(rows)
    for snapshot in table.snapshots:
        at = table.scan(version=snapshot.snapshot_id)
        found = other.scan(snapshot_id=snapshot.snapshot_id)
        assert bag(found.to_arrow(), at.schema) == bag(at.to_arrow(), at.schema)
        assert found.count() == at.count()


@pytest.mark.parametrize("version", [1, 2])  # in v3 tables it takes all timestamps in ORC for nanoseconds
def test_orc_files_with_the_columns_it_understands(built: Built, version: int):
    table, rows = built("types_orc", version)
    names = [name for name in table.schema.columns if name not in ("time", "uuid", "fixed_4")]
    schema = table.schema.select(names)
    assert bag(theirs(table).scan(selected_fields=tuple(names)).to_arrow(), schema) == bag(rows, schema)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", ["nested", "null_lists_of_structs"])
def test_nested_values_but_for_null_lists_of_structs(built: Built, name: str, version: int):
    """The rows are as it reads them, with `None` where it has an empty list: nothing else differs."""
    table, rows = built(name, version)
    lists = {"nested": ("structs",), "null_lists_of_structs": ("l", "m")}[name]
    expected = [{**row, **{column: row.get(column) or [] for column in lists}} for row in rows]
    assert bag(theirs(table).scan().to_arrow(), table.schema) == bag(expected, table.schema)


@pytest.mark.parametrize(("name", "version"), WHOLE)
def test_it_reads_and_writes_the_metadata_as_we_do(built: Built, name: str, version: int):
    table, _ = built(name, version)
    again = parse_metadata(theirs(table).metadata.model_dump_json(exclude_none=True).encode())
    assert again == table.metadata


@pytest.mark.parametrize(("name", "version"), WHOLE)
def test_manifests_files_and_their_metrics(built: Built, name: str, version: int):
    table, _ = built(name, version)
    other = theirs(table)
    context = Context(table.metadata, table.store)
    for snapshot in table.snapshots:
        ours = context.manifests(snapshot)
        lists = other.snapshot_by_id(snapshot.snapshot_id).manifests(other.io)
        assert [as_ours(manifest) for manifest in lists] == [replace(manifest, first_row_id=None) for manifest in ours]
    if table.current_snapshot is None:
        return
    for mine, manifest in zip(ours_now(table), other.current_snapshot().manifests(other.io), strict=True):
        entries = manifest.fetch_manifest_entry(other.io, discard_deleted=False)
        for (status, snapshot_id, file), entry in zip(mine, entries, strict=True):
            assert (int(entry.status), entry.snapshot_id) == (status, snapshot_id)
            assert entry.sequence_number == file.data_sequence_number
            assert entry.file_sequence_number == file.file_sequence_number
            same_file(entry.data_file, file)


def as_ours(manifest: Any) -> ManifestFile:
    """Their entry of a manifest list in our class."""
    summaries = None
    if manifest.partitions is not None:
        summaries = tuple(
            FieldSummary(part.contains_null, part.contains_nan, part.lower_bound, part.upper_bound)
            for part in manifest.partitions
        )
    names = [column.name for column in fields(ManifestFile) if column.name not in ("partitions", "first_row_id")]
    values = {name: getattr(manifest, name) for name in names}
    return ManifestFile(**{**values, "content": int(values["content"])}, partitions=summaries)


def ours_now(table: IcebergTable) -> Iterator[list[tuple[int, int, DataFile]]]:
    """For each manifest of the current snapshot, status, snapshot and file of its entries."""
    context = Context(table.metadata, table.store)
    for manifest in context.manifests(table.current_snapshot):
        entries = context.reader.read_one(manifest, ALL_COLUMNS)
        status, snapshots = (entries.column(number).to_pylist() for number in (ids.STATUS, ids.SNAPSHOT_ID))
        yield list(zip(status, snapshots, entries.iter_files(), strict=True))


def same_file(theirs: Any, ours: DataFile) -> None:
    assert int(theirs.content) == ours.content
    assert theirs.file_format.value.lower() == ours.file_format.lower()
    for part in ("file_path", "spec_id", "record_count", "file_size_in_bytes", "sort_order_id", "key_metadata"):
        assert getattr(theirs, part) == getattr(ours, part), part
    for part in ("split_offsets", "equality_ids"):
        assert tuple(getattr(theirs, part) or ()) == tuple(getattr(ours, part) or ()), part
    counts = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
    for part in (*counts, "lower_bounds", "upper_bounds"):
        assert dict(getattr(theirs, part) or {}) == dict(getattr(ours, part) or {}), part


@pytest.mark.parametrize(("name", "version"), WHOLE)
def test_plans_and_the_totals_of_summaries(built: Built, name: str, version: int):
    table, _ = built(name, version)
    other = theirs(table)
    for snapshot in table.snapshots if name not in CANNOT else ():
        plan = table.scan(version=snapshot.snapshot_id).plan()
        tasks = list(other.scan(snapshot_id=snapshot.snapshot_id).plan_files())
        mine = {task.file.file_path: {delete.file_path for delete in task.deletes} for task in plan.tasks()}
        found = {task.file.file_path: {delete.file_path for delete in task.delete_files} for task in tasks}
        assert set(found) == set(mine)
        assert all(found[path] <= mine[path] for path in mine)  # it rules some out by the range of their paths
        summary = other.snapshot_by_id(snapshot.snapshot_id).summary
        data = [task.file for task in tasks]
        deletes = {delete.file_path: delete for task in tasks for delete in task.delete_files}.values()
        assert int(summary["total-data-files"]) == len(data)
        assert int(summary["total-records"]) == sum(file.record_count for file in data)
        assert int(summary["total-delete-files"]) == len(deletes)
        assert int(summary["total-position-deletes"]) == sum(file.record_count for file in deletes)
        assert int(summary["total-equality-deletes"]) == 0
        assert int(summary["total-files-size"]) == sum(file.file_size_in_bytes for file in (*data, *deletes))


PARTITIONED = [case for case in WHOLE if case[0] in TRANSFORMS]
FLOAT_FOR_DOUBLE = Cannot("it reads a double in a partition tuple as a float: 1.1 as 1.100000023841858", AssertionError)


@pytest.mark.parametrize(("name", "version"), parameters(PARTITIONED, {"identity_double": FLOAT_FOR_DOUBLE}))
def test_partition_values_are_those_of_its_own_transforms(built: Built, name: str, version: int):
    table, rows = built(name, version)
    other = theirs(table)
    source = other.schema().find_type("c")
    transform = other.spec().fields[0].transform
    result = transform.result_type(source)
    files = {task.file.file_path: task.file for task in other.scan().plan_files()}
    placed = table.scan(columns=["id", "_file"]).to_arrow().to_pylist()
    assert {row["_file"] for row in placed} == set(files)
    values = {row["id"]: row["c"] for row in rows}
    for row in placed:
        wanted = transform.transform(source)(values[row["id"]])
        found = files[row["_file"]].partition[0]
        assert stored(result, found) == stored(result, wanted)


def stored(type_: IcebergType, value: Any) -> str:
    """A partition value as their manifests have it; as text, so that NaN equals itself and -0.0 not 0.0."""
    if not isinstance(value, int):
        value = _to_partition_representation(type_, value)
    return repr(value.bytes if isinstance(value, UUID) else value)


FILTERED = sorted({name for name, _ in PARTITIONED if not name.startswith("bucket")})
NO_FILTER = {
    "identity_double": FLOAT_FOR_DOUBLE,
    "identity_uuid": Cannot("it compares the uuid of a partition with the bytes of the literal", AssertionError),
}


@pytest.mark.parametrize("name", parameters(FILTERED, NO_FILTER))
def test_filters_find_the_same_rows_and_files(built: Built, name: str):
    """Their plan may have files that ours rules out, never the other way round."""
    table, _ = built(name, 2)
    other = theirs(table)
    pairs = [(IsNull("c"), col("c").is_null())]
    for value in TRANSFORMS[name][2][:2]:
        if value != value:
            continue
        pairs.append((EqualTo("c", value), col("c") == value))
        if not isinstance(value, bool | bytes | UUID):
            pairs += [(GreaterThan("c", value), col("c") > value), (LessThanOrEqual("c", value), col("c") <= value)]
    for where, mine in pairs:
        found = other.scan(row_filter=where)
        ours = table.scan(mine)
        assert bag(ours.to_arrow(), table.schema) == bag(found.to_arrow(), table.schema), str(mine)
        assert set(ours.plan().file_paths) <= {task.file.file_path for task in found.plan_files()}


def test_branches_tags_and_history(built: Built):
    for version in (1, 2):
        table, _ = built("branches_and_tags", version)
        other = theirs(table)
        assert {name: ref.snapshot_id for name, ref in other.refs().items()} == {
            name: ref.snapshot_id for name, ref in table.refs.items()
        }
        assert other.refs()["side"].max_snapshot_age_ms == 10**11
        for ref in ("side", "start", "main"):
            at = table.scan(ref=ref)
            assert bag(other.scan().use_ref(ref).to_arrow(), at.schema) == bag(at.to_arrow(), at.schema)
        assert [entry.snapshot_id for entry in other.history()] == [
            entry.snapshot_id for entry in table.metadata.snapshot_log
        ]
        lineage = [entry.snapshot_id for entry in ancestors_of(other.current_snapshot(), other.metadata)]
        assert lineage == [snapshot.snapshot_id for snapshot in table.history]
