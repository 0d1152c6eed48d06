"""We read what PyIceberg 0.12 writes, and the two take turns on one table in one SQL catalog.

It cannot write what is in `UNWRITABLE`; where its metrics differ from ours, the tests of metrics say how.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as TheirSchema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
    parse_transform,
)
from pyiceberg.types import DoubleType, IcebergType, IntegerType, LongType, StringType

import frazil
from frazil.iceberg.table import IcebergTable
from frazil.lake import Lake
from frazil.model.arrow import schema_from_anything, schema_to_arrow
from frazil.model.conform import conform
from frazil.model.expressions import col
from tests.interop.cases import Cannot, Row, parameters
from tests.interop.deletes import delete_rows, live_files
from tests.interop.rows import bag
from tests.interop.tables import TRANSFORMS, typed_rows, typed_schema

pytestmark = pytest.mark.interop
NAME = "db.t"


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}/warehouse")
    made.create_namespace("db")
    return made


@pytest.fixture
def lake(tmp_path: Path, catalog: SqlCatalog) -> Lake:
    """The same catalog, seen by us."""
    return frazil.connect(f"sqlite:///{tmp_path}/lake.db", warehouse=tmp_path / "warehouse", name="lake")


def arrow(rows: list[Row], ddl: str) -> pa.Table:
    return pa.Table.from_batches(conform(rows, schema_from_anything(ddl)))


def create(catalog: SqlCatalog, ddl: str, version: int = 2, **options: Any) -> Table:
    schema = TheirSchema.model_validate_json(json.dumps(schema_from_anything(ddl).to_json()))
    properties = {"format-version": str(version), **options.pop("properties", {})}
    return catalog.create_table(NAME, schema, properties=properties, **options)


def same(theirs: Table, ours: IcebergTable) -> None:
    """Rows, counts, snapshots and files are the same for both, at every snapshot."""
    assert [one.snapshot_id for one in theirs.snapshots()] == [one.snapshot_id for one in ours.snapshots]
    assert bag(ours.scan().to_arrow(), ours.schema) == bag(theirs.scan().to_arrow(), ours.schema)
    for snapshot in theirs.snapshots():
        at = ours.scan(version=snapshot.snapshot_id)
        found = theirs.scan(snapshot_id=snapshot.snapshot_id)
        assert bag(at.to_arrow(), at.schema) == bag(found.to_arrow(), at.schema)
        assert at.count() == found.count()
        assert sorted(at.plan().file_paths) == sorted(task.file.file_path for task in found.plan_files())


@pytest.mark.parametrize("version", [1, 2])
def test_every_type(catalog: SqlCatalog, version: int):
    rows = typed_rows()
    table = create(catalog, typed_schema(), version)
    table.append(arrow(rows, typed_schema()))
    ours = frazil.open(table.metadata_location)
    assert bag(ours.scan().to_arrow(), ours.schema) == bag(rows, ours.schema)
    same(table, ours)


NESTED = "id BIGINT, s STRUCT<a: INT, l: ARRAY<STRUCT<x: DOUBLE>>>, m MAP<STRING, ARRAY<INT>>"


@pytest.mark.parametrize("version", [1, 2])
def test_nested_types(catalog: SqlCatalog, version: int):
    rows = [
        {"id": 1, "s": {"a": 1, "l": [{"x": 0.5}, {"x": None}]}, "m": {"a": [1, None], "b": None}},
        {"id": 2, "s": {"a": None, "l": []}, "m": {}},
        {"id": 3, "s": None, "m": None},
    ]
    table = create(catalog, NESTED, version)
    table.append(arrow(rows, NESTED))
    ours = frazil.open(table.metadata_location)
    assert bag(ours.scan().to_arrow(), ours.schema) == bag(rows, ours.schema)


@pytest.fixture
def python_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg transforms Arrow arrays in Rust (pyiceberg-core). Without that, let it use its own Python code."""

    def transform_all(self: Transform[Any, Any], source: IcebergType) -> Callable[[pa.Array], pa.Array]:
        one, result = self.transform(source), schema_to_pyarrow(self.result_type(source))
        result = pa.int32() if pa.types.is_date(result) else result
        return lambda array: pa.array([one(value) for value in array.to_pylist()], result)

    for kind in (BucketTransform, TruncateTransform, YearTransform, MonthTransform, DayTransform, HourTransform):
        monkeypatch.setattr(kind, "pyarrow_transform", transform_all)


UNWRITABLE = {
    "identity_uuid": Cannot(
        "it groups rows by partition in Arrow, which cannot do so by uuid", pa.ArrowNotImplementedError
    ),
    "bucket_time": Cannot("it takes the bucket of a time for a time", AttributeError),
}


@pytest.mark.usefixtures("python_transforms")
@pytest.mark.parametrize(
    ("name", "version"), parameters([(name, 1 + n % 2) for n, name in enumerate(TRANSFORMS)], UNWRITABLE)
)
def test_every_transform(catalog: SqlCatalog, name: str, version: int):
    text, _, values = TRANSFORMS[name]
    ddl = f"id BIGINT, c {text}"
    kind = name.partition("_")[0]
    transform = parse_transform({"bucket": "bucket[5]", "truncate": "truncate[3]"}.get(kind, kind))
    spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=transform, name="p"))
    # It finds the rows of a partition by equality: none of them for NaN, and those of 0.0 and -0.0 for each of the two.
    left_out = ("nan", "-0.0")
    rows: list[Row] = [{"id": n, "c": value} for n, value in enumerate([*values, None]) if repr(value) not in left_out]
    table = create(catalog, ddl, version, partition_spec=spec)
    table.append(arrow(rows, ddl))
    ours = frazil.open(table.metadata_location)
    assert bag(ours.scan().to_arrow(), ours.schema) == bag(rows, ours.schema)
    same(table, ours)
    for row in rows:  # the partitions it wrote are those that our filters look for
        where = col("c").is_null() if row["c"] is None else col("c") == row["c"]
        assert row["id"] in ours.scan(where, ["id"]).to_arrow().column(0).to_pylist()


DDL = "id BIGINT NOT NULL, part INT, s STRING"


def numbered(numbers: range, text: str = "row") -> pa.Table:
    rows = [{"id": n, "part": n % 3, "s": f"{text} {n}"} for n in numbers]
    return pa.Table.from_batches(conform(rows, schema_from_anything(DDL)), schema_to_arrow(schema_from_anything(DDL)))


BY_PART = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="part"))


@pytest.mark.parametrize("version", [1, 2])
def test_appends_overwrites_deletes_and_upserts(catalog: SqlCatalog, lake: Lake, version: int):
    properties = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    table = create(catalog, DDL, version, partition_spec=BY_PART, properties=properties)
    table.append(numbered(range(10)))
    table.append(numbered(range(10, 16)))
    table.delete("part = 1")
    table.delete("id = 3")
    table.overwrite(numbered(range(30, 33)), overwrite_filter=EqualTo("part", 2))
    table.dynamic_partition_overwrite(numbered(range(60, 61)))
    table.upsert(numbered(range(30, 36), "upserted"), join_cols=["id"])
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "v").commit()
    same(table, lake.table(NAME))
    same(table, frazil.open(table.metadata_location))
    assert set(lake.table(NAME).refs) == {"main", "v"}


@pytest.mark.usefixtures("python_transforms")
@pytest.mark.parametrize("version", [1, 2])
def test_evolved_tables(catalog: SqlCatalog, lake: Lake, version: int):
    ddl = "id INT, gone INT, s STRUCT<a: INT, b: STRING>, ts TIMESTAMP_NTZ, f FLOAT"
    table = create(catalog, ddl, version)
    moment = datetime(2020, 5, 17, 12)
    table.append(arrow([{"id": 1, "gone": 5, "s": {"a": 1, "b": "x"}, "ts": moment, "f": 0.5}, {"id": 2}], ddl))
    with table.update_schema() as update:
        update.update_column("id", LongType()).update_column("f", DoubleType()).update_column(("s", "a"), LongType())
        update.delete_column("gone").rename_column(("s", "b"), "bee").add_column("new", StringType())
        update.add_column(("s", "c"), IntegerType()).move_first("new")
    with table.update_spec() as update:
        update.add_field("ts", DayTransform(), "day").add_field("id", BucketTransform(4), "shard")
    evolved = lake.table(NAME).schema
    row = {"new": "n", "id": 2**40, "s": {"a": 2**40, "bee": "y", "c": 3}, "ts": moment, "f": 0.1}
    table.append(pa.Table.from_batches(conform([row, {"id": 4}], evolved)))
    with table.update_spec() as update:
        update.remove_field("day").rename_field("shard", "piece")
    table.append(pa.Table.from_batches(conform([{**row, "id": 5}], evolved)))
    ours = lake.table(NAME)
    assert len(ours.metadata.partition_specs) == 3
    same(table, ours)
    expected = [
        {"id": 1, "s": {"a": 1, "bee": "x"}, "ts": moment, "f": 0.5},
        {"id": 2},
        row,
        {"id": 4},
        {**row, "id": 5},
    ]
    assert bag(ours.scan().to_arrow(), ours.schema) == bag(expected, ours.schema)


def test_files_without_field_ids_that_it_took_in(catalog: SqlCatalog, lake: Lake, tmp_path: Path):
    table = create(catalog, DDL)
    path = f"{tmp_path}/plain.parquet"
    columns = numbered(range(5)).to_pydict()
    plain = pa.schema([pa.field("id", pa.int64(), nullable=False), ("part", pa.int32()), ("s", pa.string())])
    pq.write_table(pa.table(columns, schema=plain), path)
    table.add_files([f"file://{path}"])
    with table.update_schema() as update:
        update.rename_column("s", "text")
    same(table, lake.table(NAME))
    assert lake.table(NAME).scan().to_arrow().column("text").to_pylist() == [f"row {n}" for n in range(5)]


@pytest.mark.parametrize("version", [1, 2])
def test_taking_turns(catalog: SqlCatalog, lake: Lake, version: int):
    """Each appends to, deletes from and evolves what the other one left; both see the same table after every step."""
    theirs = create(catalog, DDL, version, partition_spec=BY_PART)
    ours = lake.table(NAME)

    def both() -> None:
        same(theirs.refresh(), ours.refresh())

    theirs.append(numbered(range(6)))
    both()
    ours.append(numbered(range(6, 12)))
    both()
    theirs.delete("id = 7")
    both()
    ours.delete("part = 0 and id > 5")
    both()
    with theirs.update_schema() as update:
        update.add_column("n", IntegerType())
    ours.refresh().append([{"id": 40, "part": 9, "s": "ours", "n": 1}])
    both()
    ours.update_spec().add_field("truncate(1, s)").commit()
    ours.append([{"id": 41, "part": 9, "s": "more", "n": 2}])
    both()
    ours.update_schema().rename_column("s", "text").commit()
    ours.rewrite_manifests().commit()
    both()
    theirs.delete("part = 9")
    both()
    if version == 2:
        ours.append([{"id": 50, "part": 1, "text": "z"}])
        delete_rows(ours, "id", {1, 50})
        both()
        theirs.delete("id = 4")  # rewrites a file that has position deletes
        both()
    assert ours.scan("id = 1").count() == (1 if version == 1 else 0)


def test_a_table_that_we_created_in_the_shared_catalog(catalog: SqlCatalog, lake: Lake):
    ours = lake.create_table("db.ours", DDL, partition_by=["part"], sort_by=["id"], format_version=2)
    ours.append(numbered(range(4)))
    theirs = catalog.load_table("db.ours")
    theirs.append(numbered(range(4, 8)))
    same(theirs, ours.refresh())
    assert catalog.list_tables("db") == [("db", "ours")]
    lake.rename_table("db.ours", "db.renamed")
    assert catalog.load_table("db.renamed").scan().count() == 8
    catalog.drop_table("db.renamed")
    assert lake.tables() == []


# Metrics of the same rows, written by both. PyIceberg counts no NaN, has no bounds inside structs, and counts inside
# lists and maps, where Java does not.

METRICS = ("record_count", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
NOTES = "id BIGINT, f FLOAT, s STRUCT<a: INT, t: STRUCT<b: STRING>>, l ARRAY<INT>, m MAP<STRING, DOUBLE>"


def files_of_both(
    catalog: SqlCatalog, lake: Lake, ddl: str, rows: list[Row], properties: dict[str, str]
) -> tuple[Any, Any]:
    theirs = create(catalog, ddl, properties=properties)
    ours = lake.create_table("db.ours", ddl, format_version=2, properties=properties)
    theirs.append(arrow(rows, ddl))
    ours.append(rows)
    return next(iter(theirs.scan().plan_files())).file, live_files(ours)[0]


@pytest.mark.parametrize("mode", ["truncate(16)", "truncate(3)", "full", "counts", "none"])
def test_metrics_of_every_type_in_every_mode(catalog: SqlCatalog, lake: Lake, mode: str):
    properties = {"write.metadata.metrics.default": mode, "write.metadata.metrics.column.id": "full"}
    theirs, ours = files_of_both(catalog, lake, typed_schema(), typed_rows(), properties)
    for part in METRICS:
        assert (getattr(theirs, part) or {}) == (getattr(ours, part) or {}), part
    assert set(theirs.column_sizes) == set(ours.column_sizes)


def test_metrics_inside_nested_types(catalog: SqlCatalog, lake: Lake):
    rows: list[Row] = [
        {"id": 1, "f": float("nan"), "s": {"a": 1, "t": {"b": "x"}}, "l": [1, 2], "m": {"k": 1.0}},
        {"id": 2, "f": float("nan"), "s": {"a": None, "t": None}, "l": [], "m": {}},
        {"id": 3, "f": None, "s": None, "l": None, "m": None},
    ]
    theirs, ours = files_of_both(catalog, lake, NOTES, rows, {})
    for part in ("value_counts", "null_value_counts"):
        counts = dict(getattr(theirs, part))
        assert {number: counts[number] for number in getattr(ours, part)} == getattr(ours, part), part
        assert set(counts) - set(getattr(ours, part)) == {9, 10, 11}  # elements, keys and values, which Java leaves out
    for part in ("lower_bounds", "upper_bounds"):
        bounds = dict(getattr(ours, part))
        assert set(bounds) == {1, 6, 8}
        assert {1: bounds[1]} == getattr(theirs, part)  # it keeps none inside structs
    assert ours.nan_value_counts == {2: 2}
    assert not theirs.nan_value_counts
