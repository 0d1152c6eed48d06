"""Tables beside those of tests/interop/tables.py: schemas and specs that changed in ways Spark's reader stumbles over.

Each case tells a few filters that once gave wrong rows, or an error, with the number of rows that match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.iceberg.data_file import DataFile
from frazil.iceberg.table import IcebergTable
from tests.interop.deletes import delete_rows, equality_deletes, live_files

if TYPE_CHECKING:
    from frazil.lake import Lake

Build = Callable[["Lake", str], IcebergTable]


@dataclass(frozen=True)
class Case:
    """A table to build; filters with the number of rows each leaves; whether Spark's reader reads all of it."""

    build: Build
    rows: int
    filters: tuple[tuple[str, int], ...] = ()
    native: bool = True
    smoke: bool = False


CASES: dict[str, Case] = {}


def case(rows: int, *filters: tuple[str, int], native: bool = True, smoke: bool = False) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        CASES[build.__name__] = Case(build, rows, filters, native, smoke)
        return build

    return register


def _pairs(lake: Lake, name: str, count: int = 5) -> IcebergTable:
    table = lake.create_table(f"db.{name}", "a BIGINT, b BIGINT", format_version=3)
    table.append([{"a": n, "b": n * 10} for n in range(count)])
    return table


# Names


@case(7, ("a = 30", 1), ("b = 3", 1), ("b = 30", 0), ("a > 10 AND b < 4", 2), smoke=True)
def swapped_names(lake: Lake, name: str) -> IcebergTable:
    table = _pairs(lake, name)
    table.update_schema().rename_column("a", "t").rename_column("b", "a").commit()
    table.update_schema().rename_column("t", "b").commit()
    table.append([{"a": 50, "b": 5}, {"a": 60, "b": 6}])
    return table


@case(6, ("a = '30'", 1), ("b = 3", 1), ("b IS NULL", 1))
def swapped_names_of_other_types(lake: Lake, name: str) -> IcebergTable:
    table = lake.create_table(f"db.{name}", "a BIGINT, b STRING", format_version=2)
    table.append([{"a": n, "b": f"{n * 10}"} for n in range(5)])
    table.update_schema().rename_column("a", "t").rename_column("b", "a").commit()
    table.update_schema().rename_column("t", "b").commit()
    table.append([{"a": "50", "b": None}])
    return table


@case(6, ("s.x = '30'", 1), ("s.y = 3", 1), ("s.y = 9", 1))
def swapped_names_in_a_struct(lake: Lake, name: str) -> IcebergTable:
    kind = "STRUCT<x: BIGINT, y: STRING>"
    table = lake.create_table(f"db.{name}", f"s {kind}, l ARRAY<{kind}>, m MAP<STRING, {kind}>", format_version=2)
    for outer in ({"x": n, "y": f"{n * 10}"} for n in range(5)):
        table.append([{"s": outer, "l": [outer], "m": {"k": outer}}])
    for path in ("s", "l.element", "m.value"):
        table.update_schema().rename_column(f"{path}.x", "t").rename_column(f"{path}.y", "x").commit()
        table.update_schema().rename_column(f"{path}.t", "y").commit()
    table.append([{"s": {"x": "90", "y": 9}, "l": [{"x": "90", "y": 9}], "m": {}}])
    return table


@case(6, ("b IS NULL", 5), ("b = 10", 0), ("b = 99", 1), smoke=True)
def a_dropped_name_used_again(lake: Lake, name: str) -> IcebergTable:
    table = _pairs(lake, name)
    table.update_schema().drop_column("b").commit()
    table.update_schema().add_column("b", "long").commit()
    table.append([{"a": 5, "b": 99}])
    return table


@case(6, ("b IS NULL", 5), ("b = 'new'", 1), ("z = 30", 1), ("z IS NULL", 1))
def a_name_that_moved(lake: Lake, name: str) -> IcebergTable:
    table = _pairs(lake, name)
    table.update_schema().rename_column("b", "z").commit()
    table.update_schema().add_column("b", "string").commit()
    table.append([{"a": 5, "b": "new"}])
    return table


@case(6, ("b = 5", 5), ("b IS NULL", 1), ("b > 5", 0))
def a_name_used_again_with_a_default(lake: Lake, name: str) -> IcebergTable:
    table = _pairs(lake, name)
    table.update_schema().drop_column("b").commit()
    table.update_schema().add_column("b", "long", default=5).commit()
    table.append([{"a": 9, "b": None}])
    return table


@case(2, ("`a.b` = 1", 1), ("`it's` IS NULL", 1), ("`x y` = 'p'", 1))
def names_with_marks(lake: Lake, name: str) -> IcebergTable:
    table = lake.create_table(f"db.{name}", "`a.b` BIGINT, `it's` STRING, `x y` STRING", partition_by=["`x y`"])
    table.append([{"a.b": 1, "x y": "p"}, {"a.b": 2, "it's": "i", "x y": None}])
    return table


# Types


@case(3, ("i > 3", 1), ("i = 1", 1), ("f > 0.4", 2), ("d = 1.50", 1), ("s.i = 7", 1), ("s.i > 100", 1), smoke=True)
def promotions(lake: Lake, name: str) -> IcebergTable:
    table = lake.create_table(f"db.{name}", "i INT, f FLOAT, d DECIMAL(9,2), s STRUCT<i: INT>", format_version=2)
    table.append([{"i": 1, "f": 0.5, "d": Decimal("1.50"), "s": {"i": 7}}, {"i": None, "s": None}])
    change = table.update_schema().update_column("i", "long").update_column("f", "double")
    change.update_column("d", "decimal(20,2)").update_column("s.i", "long").commit()
    table.append([{"i": 2**40, "f": 1e300, "d": Decimal("1000000000000000.00"), "s": {"i": 2**40}}])
    return table


@case(3, ("d < TIMESTAMP_NTZ '2020-01-01 00:00:01'", 1), ("d IS NULL", 1), native=False)
def a_date_that_became_a_timestamp(lake: Lake, name: str) -> IcebergTable:
    table = lake.create_table(f"db.{name}", "d DATE", format_version=3)
    table.append([{"d": date(2020, 1, 1)}, {"d": None}])
    table.update_schema().update_column("d", "timestamp").commit()
    table.append([{"d": datetime(2020, 1, 1, 12)}])
    return table


@case(4, ("n = 7", 3), ("n IS NULL", 1), ("t = 'it\\'s'", 3), ("d < DATE '2021-01-01'", 3), ("a = 1 AND n = 7", 1))
def defaults(lake: Lake, name: str) -> IcebergTable:
    table = lake.create_table(f"db.{name}", "a BIGINT", format_version=3)
    table.append([{"a": n} for n in range(3)])
    change = table.update_schema().add_column("n", "long", default=7).add_column("t", "string", default="it's")
    change.add_column("d", "date", default="2020-02-29").add_column("x", "decimal(20,3)", default="1.125").commit()
    table.append([{"a": 3, "n": None, "t": None, "d": date(2024, 1, 1), "x": None}])
    return table


@case(3, ("s.b = 5", 2), ("x = X'01'", 2), ("s.b IS NULL", 1), native=False)
def defaults_that_spark_lacks(lake: Lake, name: str) -> IcebergTable:
    """Inside a struct, and of bytes."""
    table = lake.create_table(f"db.{name}", "s STRUCT<a: INT>", format_version=3)
    table.append([{"s": {"a": 1}}, {"s": {"a": 2}}])
    table.update_schema().add_column("s.b", "int", default=5).add_column("x", "binary", default=b"\x01").commit()
    table.append([{"s": {"a": 3, "b": None}, "x": None}])
    return table


@case(4, ("s.c IS NULL", 3), ("l[0].y IS NULL", 3), ("m['k'].q = 4", 1), ("s.a = 1", 1))
def nested_fields_added_and_dropped(lake: Lake, name: str) -> IcebergTable:
    table = lake.create_table(
        f"db.{name}", "s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<p: INT>>"
    )
    table.append([{"s": {"a": n, "b": "b"}, "l": [{"x": n}], "m": {"k": {"p": n}}} for n in (1, 2)])
    table.append([{"s": None, "l": None, "m": None}])
    change = table.update_schema().drop_column("s.b").add_column("s.c", "string").add_column("l.element.y", "int")
    change.add_column("m.value.q", "int").commit()
    table.append([{"s": {"a": 4, "c": "c"}, "l": [{"x": 4, "y": 4}], "m": {"k": {"p": 4, "q": 4}}}])
    return table


@case(
    5, ("s.d > 1", 1), ("s.d = double('NaN')", 1), ("s.d = 0.0", 2), ("d >= 1", 2), ("d = 0", 2), ("NOT (s.d = 1)", 4)
)
def floating_numbers(lake: Lake, name: str) -> IcebergTable:
    """NaN beside one number only, which statistics then tell of alone; zeros of both signs, each in its own file."""
    table = lake.create_table(f"db.{name}", "d DOUBLE, s STRUCT<d: DOUBLE, f: FLOAT>", format_version=2)
    for values in ([1.0, float("nan")], [-0.0], [0.0], [float("-inf")]):
        table.append([{"d": value, "s": {"d": value, "f": value}} for value in values])
    return table


# Partitions


@case(8, ("p = 'x'", 3), ("p IS NULL", 2), ("p IN ('x', 'y') AND id > 2", 4), ("upper(p) = 'X'", 3), smoke=True)
def several_specs(lake: Lake, name: str) -> IcebergTable:
    """Files where p is a column only, an identity partition, and gone from the spec again."""
    table = lake.create_table(f"db.{name}", "id BIGINT, p STRING", format_version=2)
    table.append([{"id": 1, "p": "x"}, {"id": 2, "p": "y"}, {"id": 3, "p": None}])
    table.update_spec().add_field("p").commit()
    table.append([{"id": 4, "p": "x"}, {"id": 5, "p": "y"}, {"id": 6, "p": None}])
    table.update_spec().remove_field("p").add_field("bucket(4, id)").commit()
    table.append([{"id": 7, "p": "x"}, {"id": 8, "p": "y"}])
    return table


@case(4, ("p = 'x'", 2), ("p IS NULL", 1), ("id = 1", 1))
def files_without_their_partition_column(lake: Lake, name: str) -> IcebergTable:
    """As a migrated Hive table has them: values of identity partitions are in the metadata only."""
    table = lake.create_table(f"db.{name}", "id BIGINT, p STRING", partition_by=["p"], format_version=2)
    folder = Path(table.location)
    for number, (value, ids) in enumerate({"x": [1, 2], "y": [3], None: [4]}.items()):
        rows = pa.table({"id": pa.array(ids)}, pa.schema([_numbered(1, "id", pa.int64())]))
        table.new_append().append_file(_parquet(folder / "data" / f"part{number}.parquet", rows, (value,))).commit()
    return table


@case(4, ("id = 1", 1), ("said = 'hi'", 1), ("said IS NULL", 2), native=False)
def name_mapping(lake: Lake, name: str) -> IcebergTable:
    """Files that have no ids, beside some that have: Spark's reader would fail, or take their columns for null."""
    table = lake.create_table(f"db.{name}", "id BIGINT, said STRING", format_version=2)
    mapping = '[{"field-id": 1, "names": ["id", "number"]}, {"field-id": 2, "names": ["said", "text"]}]'
    table.update_properties().set("schema.name-mapping.default", mapping).commit()
    rows = pa.table({"number": [1, 2], "text": ["hi", None], "unknown": [0, 0]})
    table.new_append().append_file(_parquet(Path(table.location) / "data" / "imported.parquet", rows)).commit()
    table.append([{"id": 3, "said": "own"}, {"id": 4}])
    return table


def _numbered(number: int, name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def _parquet(path: Path, rows: pa.Table, partition: tuple[Any, ...] = ()) -> DataFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    return DataFile(str(path), "parquet", rows.num_rows, path.stat().st_size, partition=partition)


# Formats


@case(12, ("id = 5", 1), ("s LIKE 'o%'", 4), ("p = 1", 6), ("st.x > 3", 8), native=False, smoke=True)
def three_formats(lake: Lake, name: str) -> IcebergTable:
    table = lake.create_table(
        f"db.{name}", "id BIGINT, s STRING, p INT, st STRUCT<x: BIGINT>", partition_by=["p"], format_version=2
    )
    for number, format_ in enumerate(("parquet", "orc", "avro")):
        table.update_properties().set("write.format.default", format_).commit()
        table.append(
            [{"id": n, "s": f"{format_}{n}", "p": n % 2, "st": {"x": n}} for n in range(number * 4, number * 4 + 4)]
        )
    return table


# Deletes


def _with_deletes(lake: Lake, name: str, version: int) -> IcebergTable:
    table = lake.create_table(
        f"db.{name}",
        "id BIGINT, p INT, s STRING",
        partition_by=["p"],
        format_version=version,
        properties={"write.delete.granularity": "partition"},
    )
    for start in (0, 10):
        table.append([{"id": n, "p": n % 2, "s": f"s{n}"} for n in range(start, start + 10)])
    delete_rows(table, "id", {0, 3, 4, 15})
    return table


AFTER_DELETES = (("id < 5", 2), ("id >= 14 AND p = 1", 2), ("s = 's3'", 0), ("p = 0 AND s LIKE 's1%'", 5))


@case(16, *AFTER_DELETES, smoke=True)
def position_deletes(lake: Lake, name: str) -> IcebergTable:
    return _with_deletes(lake, name, 2)


@case(16, *AFTER_DELETES, smoke=True)
def deletion_vectors(lake: Lake, name: str) -> IcebergTable:
    return _with_deletes(lake, name, 3)


@case(16, ("id = 2", 0), ("id = 12", 1), ("id > 100", 1), ("s IS NULL", 0), smoke=True)
def equality_deletes_and_others(lake: Lake, name: str) -> IcebergTable:
    """By one column and by two with a null, in one partition each; beside positions; a row written again after it."""
    table = _with_deletes(lake, name, 2)
    table.append([{"id": 100, "p": 0, "s": None}, {"id": 101, "p": 1, "s": "kept"}])
    even = next(file for file in live_files(table) if file.partition == (0,))
    members = {"spec_id": even.spec_id, "partition": even.partition}
    delta = table.new_row_delta()
    delta.add_deletes(equality_deletes(table, "one", [{"id": 2}, {"id": 12}, {"id": 5}], ["id"], **members))
    delta.add_deletes(equality_deletes(table, "two", [{"id": 100, "s": None}], ["id", "s"], **members))
    delta.commit()
    table.append([{"id": 12, "p": 0, "s": "again"}])
    return table


@case(2, ("id = 2", 1), native=False)
def equality_deletes_by_a_nested_column(lake: Lake, name: str) -> IcebergTable:
    table = lake.create_table(f"db.{name}", "id BIGINT, s STRUCT<k: BIGINT>", format_version=2)
    table.append([{"id": n, "s": {"k": n}} for n in (1, 2)])
    delta = table.new_row_delta()
    delta.add_deletes(equality_deletes(table, "nested", [{"s": {"k": 1}}], ["s.k"])).commit()
    table.append([{"id": 3, "s": {"k": 1}}])
    return table
