"""We read what PyIceberg 0.12 writes, and the two take turns on one table in one SQL catalog.

It cannot write what is in `UNWRITABLE`. Where its metrics differ from ours for the same rows, `metrics_of` says how.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as TheirSchema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, parse_transform
from pyiceberg.types import DoubleType, IntegerType, LongType, StringType

import frazil
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.table import IcebergTable
from frazil.lake import Lake
from frazil.model.arrow import schema_from_anything
from frazil.model.conform import conform
from tests.interop.rows import bag
from tests.interop.tables import PRIMITIVES, TRANSFORMS, Row, parameters, typed_rows, typed_schema

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


UNWRITABLE: dict[str, Any] = {}


@pytest.mark.parametrize(("name", "version"), parameters([(name, 1 + n % 2) for n, name in enumerate(TRANSFORMS)], UNWRITABLE))
def test_every_transform(catalog: SqlCatalog, name: str, version: int):
    text, term, values = TRANSFORMS[name]
    ddl = f"id BIGINT, c {text}"
    unit = {"c": "identity"}.get(term, term.replace("(c)", "").replace("s", "", 0))
    unit = {"bucket(5, c)": "bucket[5]", "truncate(3, c)": "truncate[3]"}.get(term, unit.rstrip("s"))
    spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=parse_transform(unit), name="p"))
    rows: list[Row] = [{"id": number, "c": value} for number, value in enumerate([*values, None])]
    table = create(catalog, ddl, version, partition_spec=spec)
    table.append(arrow(rows, ddl))
    ours = frazil.open(table.metadata_location)
    assert bag(ours.scan().to_arrow(), ours.schema) == bag(rows, ours.schema)
    for row in rows:  # the partitions they wrote are those our filters look for
        if row["c"] == row["c"] and row["c"] is not None:
            found = ours.scan(frazil.col("c") == row["c"]).to_arrow()
            assert row["id"] in found.column("id").to_pylist()
