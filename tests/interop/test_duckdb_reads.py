"""DuckDB's iceberg extension (1.5.5, from PyPI) reads the tables we write: all its own code, in C++.

What it cannot do is in `CANNOT`, with the reason; each entry is asserted to be still so. Beyond that it ignores the
partition of equality deletes, and cannot read snapshots of a v2 table that were written when it was v1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
import pytest

from frazil.iceberg.data_file import Content
from frazil.iceberg.table import IcebergTable
from frazil.model.expressions import col
from tests.interop.cases import FIXED_IN_PARTITIONS, Cannot, all_cases, parameters
from tests.interop.conftest import Built
from tests.interop.deletes import live_files
from tests.interop.rows import bag
from tests.interop.tables import COLUMN, PRIMITIVES, TRANSFORMS

pytestmark = pytest.mark.interop

ONLY_PARQUET = Cannot("it reads data files in Parquet only", duckdb.NotImplementedException)
CANNOT = {
    "types_orc": ONLY_PARQUET,
    "types_avro": ONLY_PARQUET,
    "names_that_differ_in_case": Cannot("names of columns are case-insensitive in SQL; it adds _1", AssertionError),
    "equality_deletes_by_partition": Cannot("it applies equality deletes to all partitions", AssertionError),
    "nanoseconds": Cannot("it does not know timestamptz_ns", duckdb.Error),
}
CASES = [case for case in all_cases(1, 2, 3) if case[0] not in FIXED_IN_PARTITIONS]


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        file = next(Path(package.__path__[0]).rglob("*.duckdb_extension"))
        connection.execute(f"LOAD '{file}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def read(duck: duckdb.DuckDBPyConnection, table: IcebergTable, rest: str = "", *values: Any, at: str = "") -> pa.Table:
    return duck.execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}'{at}) {rest}", values).to_arrow_table()


@pytest.mark.parametrize(("name", "version"), parameters(CASES, CANNOT))
def test_current_rows_and_counts(duck: duckdb.DuckDBPyConnection, built: Built, name: str, version: int):
    table, rows = built(name, version)
    assert bag(read(duck, table), table.schema) == bag(rows, table.schema)
    count = duck.execute(f"SELECT count(*) FROM iceberg_scan('{table.metadata_location}')").fetchone()
    assert count == (len(rows),)


MANY_SNAPSHOTS = [case for case in CASES if case[1] > 1 and case[0] not in {*TRANSFORMS, *CANNOT}]
NO_TRAVEL = {
    "upgraded_from_v1": Cannot("it wants sequence numbers in manifest lists that were written as v1", duckdb.Error),
}


@pytest.mark.parametrize(("name", "version"), parameters(MANY_SNAPSHOTS, NO_TRAVEL))
def test_rows_of_every_snapshot(duck: duckdb.DuckDBPyConnection, built: Built, name: str, version: int):
    table, _ = built(name, version)
    listed = duck.execute(
        f"SELECT snapshot_id, sequence_number, manifest_list FROM iceberg_snapshots('{table.metadata_location}')"
    ).fetchall()
    if name not in NO_TRAVEL:
        assert sorted(listed) == sorted(
            (one.snapshot_id, one.sequence_number, one.manifest_list) for one in table.snapshots
        )
    for snapshot in table.snapshots:
        at = table.scan(version=snapshot.snapshot_id)
        found = read(duck, table, at=f", snapshot_from_id = {snapshot.snapshot_id}")
        assert bag(found, at.schema) == bag(at.to_arrow(), at.schema)


@pytest.mark.parametrize(("name", "version"), MANY_SNAPSHOTS)
def test_live_files(duck: duckdb.DuckDBPyConnection, built: Built, name: str, version: int):
    table, _ = built(name, version)
    listed = duck.execute(
        f"SELECT file_path, record_count, status, content FROM iceberg_metadata('{table.metadata_location}')"
    ).fetchall()
    live = sorted((path, count, content) for path, count, status, content in listed if status != "DELETED")
    names = {
        Content.DATA: "EXISTING",
        Content.POSITION_DELETES: "POSITION_DELETES",
        Content.EQUALITY_DELETES: "EQUALITY_DELETES",
    }
    ours = [
        (file.file_path, file.record_count, names[file.content])  # it says EXISTING where it means DATA
        for file in live_files(table)
    ]
    assert live == sorted(ours)


@pytest.mark.parametrize("text", PRIMITIVES)
def test_filters_on_every_type(duck: duckdb.DuckDBPyConnection, built: Built, text: str):
    """It skips files by the bounds we wrote: rows would be missing if one were wrong."""
    table, _ = built("types_parquet", 2)
    name = COLUMN[text]
    for value in PRIMITIVES[text]:
        if value != value:  # NaN is equal to itself in DuckDB
            continue
        for sign, mine in (("=", col(name) == value), ("<", col(name) < value), (">=", col(name) >= value)):
            if text in ("float", "double") and sign == ">=":  # NaN is above all there
                continue
            ours = table.scan(mine).to_arrow()
            assert bag(read(duck, table, f'WHERE "{name}" {sign} ?', value), table.schema) == bag(ours, table.schema)


# An equality filter on a decimal that was truncated below zero ends in an INTERNAL error, which makes the connection
# useless, so it is not even tried.
BREAKS = {"truncate_decimal_9_2"}
FILTERED = [name for name in TRANSFORMS if not name.startswith("bucket") and name not in FIXED_IN_PARTITIONS | BREAKS]
TO_ZERO = Cannot("it rounds the month and day of a time before 1970 towards zero, and skips its file", AssertionError)
NO_FILTER = dict.fromkeys(("month_timestamp", "month_timestamptz", "day_timestamp", "day_timestamptz"), TO_ZERO)


@pytest.mark.parametrize("name", parameters(FILTERED, NO_FILTER))
def test_filters_on_partitions(duck: duckdb.DuckDBPyConnection, built: Built, name: str):
    table, _ = built(name, 2)
    for value in TRANSFORMS[name][2][:3]:
        if value != value:
            continue
        ours = table.scan(col("c") == value).to_arrow()
        assert bag(read(duck, table, "WHERE c = ?", value), table.schema) == bag(ours, table.schema)
