"""The behaviours of `tables.py` that Lance has too, as Lance tables: names, types, fragments, deletes, versions.

Each case tells a few filters, with the number of rows that match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.conformance.tables import AFTER_DELETES

if TYPE_CHECKING:
    from frazil.lake import Lake
    from frazil.lance.table import LanceTable

Build = Callable[["Lake", str], "LanceTable"]


@dataclass(frozen=True)
class Case:
    """A table to build; how many rows it has; filters with the number of rows each leaves."""

    build: Build
    rows: int
    filters: tuple[tuple[str, int], ...] = ()
    smoke: bool = False


CASES: dict[str, Case] = {}


def case(rows: int, *filters: tuple[str, int], smoke: bool = False) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        CASES[build.__name__] = Case(build, rows, filters, smoke)
        return build

    return register


def made(lake: Lake, name: str, schema: pa.Schema | str, *batches: list[dict[str, Any]], **options: Any) -> LanceTable:
    """A table with a fragment for each batch of rows."""
    table = lake.create_table(f"db.{name}", schema, format="lance", **options)
    for batch in batches:
        table.append(batch)
    return table


def _pairs(lake: Lake, name: str, count: int = 5) -> LanceTable:
    return made(lake, name, "a BIGINT, b BIGINT", [{"a": n, "b": n * 10} for n in range(count)])


# Names


@case(7, ("a = 30", 1), ("b = 3", 1), ("b = 30", 0), ("a > 10 AND b < 4", 2), smoke=True)
def swapped_names(lake: Lake, name: str) -> LanceTable:
    table = _pairs(lake, name)
    table.rename_column("a", "t")
    table.rename_column("b", "a")
    table.rename_column("t", "b")
    table.append([{"a": 50, "b": 5}, {"a": 60, "b": 6}])
    return table


@case(6, ("a = '30'", 1), ("b = 3", 1), ("b IS NULL", 1))
def swapped_names_of_other_types(lake: Lake, name: str) -> LanceTable:
    table = made(lake, name, "a BIGINT, b STRING", [{"a": n, "b": f"{n * 10}"} for n in range(5)])
    table.rename_column("a", "t")
    table.rename_column("b", "a")
    table.rename_column("t", "b")
    table.append([{"a": "50", "b": None}])
    return table


@case(6, ("s.x = '30'", 1), ("s.y = 3", 1), ("s.y = 9", 1))
def swapped_names_in_a_struct(lake: Lake, name: str) -> LanceTable:
    table = made(lake, name, "s STRUCT<x: BIGINT, y: STRING>", *([{"s": {"x": n, "y": f"{n * 10}"}}] for n in range(5)))
    table.rename_column("s.x", "t")
    table.rename_column("s.y", "x")
    table.rename_column("s.t", "y")
    table.append([{"s": {"x": "90", "y": 9}}])
    return table


@case(6, ("b IS NULL", 5), ("b = 10", 0), ("b = 99", 1))
def a_dropped_name_used_again(lake: Lake, name: str) -> LanceTable:
    table = _pairs(lake, name)
    table.drop_columns("b")
    table.add_columns(pa.schema([("b", pa.int64())]))
    table.append([{"a": 5, "b": 99}])
    return table


@case(6, ("b IS NULL", 5), ("b = 'new'", 1), ("z = 30", 1), ("z IS NULL", 1))
def a_name_that_moved(lake: Lake, name: str) -> LanceTable:
    table = _pairs(lake, name)
    table.rename_column("b", "z")
    table.add_columns(pa.schema([("b", pa.string())]))
    table.append([{"a": 5, "b": "new"}])
    return table


@case(2, ("`it's` IS NULL", 1), ("`x y` = 'p'", 1))
def names_with_marks(lake: Lake, name: str) -> LanceTable:
    return made(lake, name, "id BIGINT, `it's` STRING, `x y` STRING", [{"x y": "p"}, {"id": 2, "it's": "i"}])


# Types


@case(3, ("i > 3", 1), ("i = 1", 1), ("f > 0.4", 2), ("d = 1.50", 1), ("s.i = 7", 1))
def promotions(lake: Lake, name: str) -> LanceTable:
    rows = [{"i": 1, "f": 0.5, "d": Decimal("1.50"), "s": {"i": 7}}, {"i": None, "s": None}]
    table = made(lake, name, "i INT, f FLOAT, d DECIMAL(9,2), s STRUCT<i: INT>", rows)
    table.change_column_type("i", pa.int64())
    table.change_column_type("f", pa.float64())
    table.change_column_type("d", pa.decimal128(20, 2))
    table.append([{"i": 2**40, "f": 1e300, "d": Decimal("1000000000000000.00"), "s": {"i": 8}}])
    return table


@case(3, ("d < TIMESTAMP_NTZ '2020-01-01 00:00:01'", 1), ("d IS NULL", 1))
def a_date_that_became_a_timestamp(lake: Lake, name: str) -> LanceTable:
    table = made(lake, name, "d DATE", [{"d": datetime(2020, 1, 1).date()}, {"d": None}])
    table.change_column_type("d", pa.timestamp("us"))
    table.append([{"d": datetime(2020, 1, 1, 12)}])
    return table


@case(4, ("n = 0", 1), ("n = 4", 1), ("n IS NULL", 1), ("a = 1 AND n = 2", 1))
def a_column_that_was_computed(lake: Lake, name: str) -> LanceTable:
    """In a file of its own for the first fragment; where Iceberg has defaults, Lance has values."""
    table = made(lake, name, "a BIGINT", [{"a": n} for n in range(3)])
    table.add_columns({"n": "a * 2"})
    table.append([{"a": 3, "n": None}])
    return table


@case(3, ("s.a = 1", 1), ("s IS NULL", 1), ("l[0].x = 2", 1), ("m['k'].p = 1", 1))
def nested_fields_dropped(lake: Lake, name: str) -> LanceTable:
    schema = "s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<p: INT>>"
    rows = [{"s": {"a": n, "b": "b"}, "l": [{"x": n}], "m": {"k": {"p": n}}} for n in (1, 2)]
    table = made(lake, name, schema, rows, [{"s": None, "l": None, "m": None}])
    table.drop_columns("s.b")
    return table


@case(
    5, ("s.d > 1", 1), ("s.d = double('NaN')", 1), ("s.d = 0.0", 2), ("d >= 1", 2), ("d = 0", 2), ("NOT (s.d = 1)", 4)
)
def floating_numbers(lake: Lake, name: str) -> LanceTable:
    batches = ([1.0, float("nan")], [-0.0], [0.0], [float("-inf")])
    schema = "d DOUBLE, s STRUCT<d: DOUBLE, f: FLOAT>"
    return made(lake, name, schema, *([{"d": x, "s": {"d": x, "f": x}} for x in values] for values in batches))


@case(4, ("v[1] = 2.5", 1), ("v IS NULL", 1), ("id = 3", 1), ("word = 'b'", 2), smoke=True)
def vectors_and_dictionaries(lake: Lake, name: str) -> LanceTable:
    words = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("id", pa.uint32()), ("v", pa.list_(pa.float32(), 2)), ("word", words)])
    table = made(lake, name, schema)
    for start in (0, 2):
        rows = {"id": [start, start + 1], "v": [[1.0, start + 0.5], None if start else [0, 0]], "word": ["a", "b"]}
        table.append(pa.table(rows, schema=pa.schema([("id", pa.uint32()), schema.field("v"), ("word", pa.string())])))
    return table


# Files and deletes


@case(12, ("id = 5", 1), ("s LIKE 'o%'", 4), ("st.x > 3", 8), smoke=True)
def fragments_of_several_files(lake: Lake, name: str) -> LanceTable:
    """Columns that were added, dropped and changed lie in files of their own."""
    table = made(lake, name, "id BIGINT, st STRUCT<x: BIGINT>", [{"id": n, "st": {"x": n}} for n in range(8)])
    table.add_columns({"s": "CASE WHEN id < 4 THEN 'old' ELSE 'more' END"})
    table.change_column_type("id", pa.int32())
    table.append([{"id": n, "s": f"new{n}", "st": {"x": n}} for n in range(8, 12)])
    return table


def _with_deletes(lake: Lake, name: str, **options: Any) -> LanceTable:
    batches = ([{"id": n, "p": n % 2, "s": f"s{n}"} for n in range(start, start + 10)] for start in (0, 10))
    table = made(lake, name, "id BIGINT, p INT, s STRING", *batches, **options)
    table.delete("id IN (0, 3, 4, 15)")
    return table


@case(16, *AFTER_DELETES, smoke=True)
def deletion_files(lake: Lake, name: str) -> LanceTable:
    return _with_deletes(lake, name)


@case(16, *AFTER_DELETES)
def deletion_files_of_old_data_files(lake: Lake, name: str) -> LanceTable:
    return _with_deletes(lake, name, format_version="2.0")


@case(15, ("id < 5", 2), ("s = 'again'", 3), ("p = 1 AND s = 'again'", 2), smoke=True)
def updated_rows_with_stable_ids(lake: Lake, name: str) -> LanceTable:
    table = _with_deletes(lake, name, properties={"enable_stable_row_ids": "true"})
    table.update({"s": "'again'"}, "id IN (1, 2, 11)")
    table.delete("id = 12")
    return table


@case(16, *AFTER_DELETES)
def compacted(lake: Lake, name: str) -> LanceTable:
    table = _with_deletes(lake, name)
    table.compact(deleted_share=0.0)
    return table


@case(20, ("id = 3", 1), ("s = 's19'", 1))
def restored(lake: Lake, name: str) -> LanceTable:
    table = _with_deletes(lake, name)
    table.restore(3)
    return table


HISTORIES = {
    "deletion_files": [0, 10, 20, 16],
    "promotions": [0, 2, 2, 2, 2, 3],
    "restored": [0, 10, 20, 16, 20],
    "compacted": [0, 10, 20, 16, 16],
}
"""How many rows there were after each version."""
