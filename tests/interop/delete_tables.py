"""Tables with deleted rows, and those that only version 3 has: the rest of `tables.py`."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from frazil.iceberg.table import IcebergTable
from frazil.lake import Lake
from tests.interop.cases import Row, case
from tests.interop.deletes import delete_keys, delete_rows, live_files, mark_all_rows, position_deletes
from tests.interop.tables import numbered

BY_PARTITION = {"write.delete.granularity": "partition"}

# Deletes.


@case(2, 3)
def row_deletes(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """A delete file (v2) or deletion vector (v3) for each data file, twice on the same files, rows added after."""
    return _deleted_twice(lake, version)


@case(2)
def row_deletes_by_partition(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """The same with delete files of whole partitions."""
    return _deleted_twice(lake, version, **BY_PARTITION)


def _deleted_twice(lake: Lake, version: int, **properties: str) -> tuple[IcebergTable, list[Row]]:
    table, rows = _thirds(lake, version, **properties)
    delete_rows(table, "id", {0, 1, 10, 12})
    table.append([{"id": 30, "part": 0, "s": "late"}, {"id": 33, "part": 0, "s": "later"}])
    delete_rows(table, "id", {3, 12, 13, 18, 30})
    left = [row for row in rows if row["id"] not in (0, 1, 10, 12, 3, 13, 18)]
    return table, [*left, {"id": 33, "part": 0, "s": "later"}]


def _thirds(lake: Lake, version: int, **properties: str) -> tuple[IcebergTable, list[Row]]:
    """Three files of three rows in each of three partitions."""
    table = lake.create_table(
        "db.thirds",
        "id BIGINT, part INT, s STRING",
        partition_by=["part"],
        format_version=version,
        properties=properties,
    )
    rows: list[Row] = [{"id": n, "part": n % 3, "s": f"row {n}"} for n in range(27)]
    for start in (0, 9, 18):
        table.append(rows[start : start + 9])
    return table, rows


@case(2, 3)
def whole_file_deleted_by_row(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table = lake.create_table("db.all_gone", "id BIGINT", format_version=version)
    table.append([{"id": n} for n in range(5)])
    table.append([{"id": n} for n in range(5, 8)])
    mark_all_rows(table, next(file.file_path for file in live_files(table) if file.record_count == 5))
    return table, [{"id": n} for n in range(5, 8)]


@case(2, 3)
def emptied_file(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """The last rows of a file are deleted, and it goes with its deletes."""
    table, rows = numbered(lake, version)
    delete_rows(table, "id", {0})
    delete_rows(table, "id", {0, 3, 4, 6, 7, 9, 10, 1})
    return table, [row for row in rows if row["id"] in (2, 5, 8, 11)]


@case(2, 3)
def many_row_deletes(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Positions over three roaring containers: most of the first, all of the second, one of the third."""
    table = lake.create_table("db.many", "id BIGINT", format_version=version)
    table.append(pa.table({"id": range(131_080)}))
    kept = {*range(0, 65_536, 997), *range(131_072, 131_080)} - {131_073}
    delete_rows(table, "id", set(range(131_080)) - kept)
    return table, [{"id": n} for n in kept]


@case(2)
def deletes_of_one_file(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """A delete file that names its data file, and one of many files, in one partition."""
    table = lake.create_table("db.file_scoped", "id BIGINT", format_version=version)
    for start in (0, 10, 20):
        table.append([{"id": start + n} for n in range(5)])
    paths = sorted(table.scan().plan().file_paths)
    by_path = {path: sorted(row["id"] for row in _rows_of(table, path)) for path in paths}
    one = position_deletes(table, "one", {paths[0]: [0, 4]}, referenced_data_file=paths[0])
    table.new_row_delta().add_deletes(one).commit()
    table.new_row_delta().add_deletes(position_deletes(table, "two", {paths[0]: [4], paths[2]: [1]})).commit()
    gone = {by_path[paths[0]][0], by_path[paths[0]][4], by_path[paths[2]][1]}
    return table, [{"id": number} for ids in by_path.values() for number in ids if number not in gone]


def _rows_of(table: IcebergTable, path: str) -> list[Row]:
    rows: list[Row] = table.scan(columns=["id", "_file"]).to_arrow().to_pylist()
    return [row for row in rows if row["_file"] == path]


@case(2, 3)
def row_deletes_after_evolution(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Deletes in files of two schemas and two specs."""
    table, rows = numbered(lake, version)
    table.update_schema().rename_column("s", "text").add_column("n", "int").commit()
    table.update_spec().add_field("bucket(2, id)").commit()
    table.append([{"id": n, "part": n % 3, "text": f"new {n}", "n": n} for n in range(20, 26)])
    delete_rows(table, "id", {0, 5, 20, 25})
    left = [{"id": row["id"], "part": row["part"], "text": row["s"]} for row in rows if row["id"] not in (0, 5)]
    return table, left + [{"id": n, "part": n % 3, "text": f"new {n}", "n": n} for n in range(21, 25)]


@case(2, 3)
def equality_deletes_of_a_table(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Keys without nulls on an unpartitioned table; a deleted key written again after; a key of two columns."""
    table = lake.create_table("db.equal", "id BIGINT, k STRING, v INT", format_version=version)
    rows: list[Row] = [{"id": n, "k": f"k{n % 4}", "v": n} for n in range(12)]
    table.append(rows[:6])
    table.append(rows[6:])
    delete_keys(table, [{"id": 1}, {"id": 7}, {"id": 400}], ["id"])
    table.append([{"id": 1, "k": "again", "v": 1}])
    delete_keys(table, [{"k": "k2", "v": 2}, {"k": "k2", "v": 3}], ["k", "v"])
    return table, [*(row for row in rows if row["id"] not in (1, 7, 2)), {"id": 1, "k": "again", "v": 1}]


@case(2, 3)
def equality_and_row_deletes(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table = lake.create_table("db.both", "id BIGINT, k STRING", format_version=version)
    rows: list[Row] = [{"id": n, "k": f"k{n % 4}"} for n in range(12)]
    table.append(rows)
    delete_rows(table, "id", {0, 5})
    delete_keys(table, [{"k": "k3"}], ["k"])
    return table, [row for row in rows if row["id"] not in (0, 5) and row["k"] != "k3"]


@case(2, 3)
def equality_deletes_by_partition(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """A key deleted in one partition stays in the others."""
    table = lake.create_table("db.scoped", "id BIGINT, part INT", partition_by=["part"], format_version=version)
    rows: list[Row] = [{"id": n % 4, "part": n // 4} for n in range(8)]
    table.append(rows)
    delete_keys(table, [{"id": 2, "part": 1}], ["id"])
    return table, [row for row in rows if row != {"id": 2, "part": 1}]


@case(2, 3)
def equality_deletes_of_nulls(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """A null key deletes the rows that have null there."""
    table = lake.create_table("db.null_keys", "id BIGINT, k STRING", format_version=version)
    rows: list[Row] = [{"id": n, "k": None if n % 2 else "x"} for n in range(4)]
    table.append(rows)
    delete_keys(table, [{"k": None}], ["k"])
    return table, [row for row in rows if row["k"] is not None]


# Upkeep of deletes.


@case(2, 3)
def converted_equality_deletes(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Keys of every kind made into deletes by position: a reader that knows no equality deletes can read it again."""
    table = lake.create_table("db.converted", "id BIGINT, k STRING, part INT", format_version=version)
    rows: list[Row] = [{"id": n, "k": [None, "x", "y"][n % 3], "part": n % 2} for n in range(24)]
    table.append(rows[:12])
    table.append(rows[12:])
    delete_rows(table, "id", {1, 13})
    delete_keys(table, [{"k": None, "part": 0}, {"k": "x", "part": 1}], ["k", "part"])
    delete_keys(table, [{"id": 2}, {"id": 23}], ["id"])
    table.append([{"id": 2, "k": "again", "part": 0}])
    table.convert_equality_deletes()
    _forget_the_past(table)
    gone = {(None, 0), ("x", 1)}
    left = [row for row in rows if (row["k"], row["part"]) not in gone and row["id"] not in (1, 13, 2, 23)]
    return table, [*left, {"id": 2, "k": "again", "part": 0}]


@case(2, 3)
def converted_equality_deletes_by_partition(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table, rows = equality_deletes_by_partition(lake, version)
    table.convert_equality_deletes()
    _forget_the_past(table)
    return table, rows


@case(2)
def joined_row_deletes(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Delete files of whole partitions, made into one for each data file."""
    table, rows = _deleted_twice(lake, version, **BY_PARTITION)
    table.update_properties().set("write.delete.granularity", "file").commit()
    table.rewrite_position_delete_files(options={"min-input-files": "1"})
    return table, rows


@case(3)
def row_deletes_made_into_vectors(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Position delete files of v2 and vectors of v3, made into vectors alone."""
    table, rows = _upgraded(lake, version, **BY_PARTITION)
    table.rewrite_position_delete_files()
    return table, rows


def _forget_the_past(table: IcebergTable) -> None:
    newest = table.metadata.last_updated_ms
    table.expire_snapshots().older_than(newest + 1).retain_last(1).commit()


# Version 3.


@case(3)
def defaults(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table = lake.create_table("db.defaults", "id BIGINT", format_version=version)
    table.append([{"id": 1}])
    update = table.update_schema()
    update.add_column("n", "int", default=7).add_column("s", "string", default="dflt")
    update.add_column("d", "date", default=date(2020, 1, 1), required=True)
    update.add_column("x", "decimal(9, 2)", default=Decimal("1.50"))
    update.commit()
    table.append([{"id": 2, "n": 1, "s": None, "d": date(2021, 1, 1), "x": Decimal("2.00")}, {"id": 3}])
    given = {"n": 7, "s": "dflt", "d": date(2020, 1, 1), "x": Decimal("1.50")}
    return table, [
        {"id": 1, **given},
        {"id": 2, "n": 1, "s": None, "d": date(2021, 1, 1), "x": Decimal("2.00")},
        {"id": 3, **given},
    ]


@case(3)
def nanoseconds(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table = lake.create_table(
        "db.nanos", "id BIGINT, a timestamp_ns, b timestamptz_ns", partition_by=["days(a)"], format_version=version
    )
    rows: list[Row] = [
        {"id": 1, "a": datetime(2020, 1, 1, 0, 0, 0, 5), "b": datetime(1969, 12, 31, 23, 59, 59, 7, tzinfo=UTC)},
        {"id": 2},
    ]
    table.append(rows)
    return table, rows


@case(3)
def upgraded_to_v3(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Position delete files of v2 that vectors take the place of."""
    return _upgraded(lake, version)


@case(3)
def upgraded_to_v3_by_partition(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Position delete files of v2, each of many data files, stay beside new deletion vectors."""
    return _upgraded(lake, version, **BY_PARTITION)


def _upgraded(lake: Lake, version: int, **properties: str) -> tuple[IcebergTable, list[Row]]:
    table, rows = _thirds(lake, 2, **properties)
    delete_rows(table, "id", {0, 1, 9, 18})
    table.upgrade_format_version().to(version).commit()
    table.append([{"id": 30, "part": 0, "s": "v3"}, {"id": 33, "part": 0, "s": "more"}])
    delete_rows(table, "id", {3, 30, 5})
    left = [row for row in rows if row["id"] not in (0, 1, 9, 18, 3, 5)]
    return table, [*left, {"id": 33, "part": 0, "s": "more"}]
