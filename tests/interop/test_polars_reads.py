"""polars reads the tables we write with its own Parquet reader; the planning is PyIceberg's.

What it cannot do is in `CANNOT`, with the reason; each entry is asserted to be still so.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from polars.exceptions import ComputeError

from frazil.iceberg.table import IcebergTable
from tests.interop.cases import FIXED_IN_PARTITIONS, Cannot, all_cases, parameters
from tests.interop.conftest import Built
from tests.interop.rows import bag

pytestmark = pytest.mark.interop

EQUALITY = Cannot("it plans with PyIceberg, which knows no equality deletes", ValueError)
ONLY_PARQUET = Cannot("it reads data files in Parquet only", ComputeError)
MANY_FILES = Cannot("it takes position delete files only if they are of one data file, and says so", ComputeError)
CANNOT = {
    "equality_deletes_of_a_table": EQUALITY,
    "equality_and_row_deletes": EQUALITY,
    "equality_deletes_by_partition": EQUALITY,
    "equality_deletes_of_nulls": EQUALITY,
    "types_orc": ONLY_PARQUET,
    "types_avro": ONLY_PARQUET,
}
CASES = [case for case in all_cases(1, 2, 3) if case[0] not in FIXED_IN_PARTITIONS]
CANNOT_IN_V2 = {"row_deletes_by_partition": MANY_FILES, "deletes_of_one_file": MANY_FILES}
STALE = Cannot("it takes a replaced vector for live if its Puffin file has live ones too", ComputeError)
CANNOT_IN_V3 = {"row_deletes": STALE, "upgraded_to_v3_by_partition": MANY_FILES}


def read(table: IcebergTable, snapshot_id: int | None = None) -> pa.Table:
    frame = pl.scan_iceberg(table.metadata_location, snapshot_id=snapshot_id, reader_override="native")
    return frame.collect().to_arrow()


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *parameters([case for case in CASES if case[1] == 1], CANNOT),
        *parameters([case for case in CASES if case[1] == 2], {**CANNOT, **CANNOT_IN_V2}),
        *parameters([case for case in CASES if case[1] == 3], {**CANNOT, **CANNOT_IN_V3}),
    ],
)
def test_current_rows(built: Built, monkeypatch: pytest.MonkeyPatch, name: str, version: int):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # else it warns that its own plugin is not there
    table, rows = built(name, version)
    assert bag(read(table), table.schema) == bag(rows, table.schema)


TRAVEL = ("schema_evolution", "partition_evolution", "copy_on_write", "row_deletes_after_evolution")


@pytest.mark.parametrize(("name", "version"), [case for case in all_cases(1, 2, 3) if case[0] in TRAVEL])
def test_rows_of_every_snapshot(built: Built, monkeypatch: pytest.MonkeyPatch, name: str, version: int):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    table, _ = built(name, version)
    for snapshot in table.snapshots:
        at = table.scan(version=snapshot.snapshot_id)
        assert bag(read(table, snapshot.snapshot_id), at.schema) == bag(at.to_arrow(), at.schema)


@pytest.mark.parametrize("version", [2, 3])
def test_filters_and_projections(built: Built, monkeypatch: pytest.MonkeyPatch, version: int):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    table, _ = built("row_deletes_after_evolution", version)
    frame = pl.scan_iceberg(table.metadata_location, reader_override="native")
    for where, mine in (
        (pl.col("part") == 1, "part = 1"),
        (pl.col("n").is_null(), "n is null"),
        (pl.col("id") > 21, "id > 21"),
    ):
        found = frame.filter(where).select("id", "text").collect().to_arrow()
        ours = table.scan(mine, ["id", "text"])
        assert bag(found, ours.output) == bag(ours.to_arrow(), ours.output)
