"""Tables that we write, each with the rows that are in it: what every other reader must find.

A case is one function of a lake and a format version. It makes the table with the public API and tells the current
rows as plain Python values, worked out beside the table, not read from it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import zip_longest
from typing import Any
from uuid import UUID

from frazil.iceberg.data_file import DataFile
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.write import RowWriter
from frazil.lake import Lake
from frazil.model.conform import conform
from frazil.model.types import parse_type
from tests.interop.cases import CASES, Build, Case, Row, case

# Values. Every list has the extremes of its type; a null is added to each by `typed_rows`. ORC writers of Arrow
# cannot hold fractions of seconds before 1970, so the timestamps here have none there (`TEMPORAL` does).

PRIMITIVES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [34, -(2**31), 2**31 - 1, 0],
    "long": [34, -(2**63), 2**63 - 1, 0],
    "float": [1.5, float("nan"), float("inf"), -0.0, 0.0, float("-inf")],
    "double": [1.1, float("nan"), float("-inf"), -0.0, 0.0, 5e-324],
    "decimal(9, 2)": [Decimal("14.20"), Decimal("-9999999.99"), Decimal("9999999.99")],
    "decimal(18, 3)": [Decimal("1.000"), Decimal("-999999999999999.999")],
    "decimal(38, 10)": [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10")],
    "date": [date(2017, 11, 16), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31)],
    "time": [time(22, 31, 8), time(0), time(23, 59, 59, 999999)],
    "timestamp": [datetime(2017, 11, 16, 22, 31, 8, 1), datetime(1969, 12, 31, 23, 59, 58)],
    "timestamptz": [datetime(2017, 11, 16, 22, 31, 8, 1, tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC)],
    "string": ["iceberg", "", "a/b=c d%é\U0001f9ca", "z" * 40],
    "uuid": [UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), UUID(int=0), UUID(int=2**128 - 1)],
    "fixed[4]": [b"\x00\x01\x02\x03", b"\xff\xff\xff\xff"],
    "binary": [b"\x00\x01\x02\x03", b"", b"\xff" * 20],
}
COLUMN = {text: text.replace("(", "_").replace(", ", "_").replace("[", "_").strip(")]") for text in PRIMITIVES}


def typed_rows() -> list[Row]:
    """Rows over all primitive types: the extremes side by side, then a row of nulls."""
    columns = [[*values, None] for values in PRIMITIVES.values()]
    return [
        {"id": number, **dict(zip(COLUMN.values(), values, strict=True))}
        for number, values in enumerate(zip_longest(*columns))
    ]


def typed_schema() -> str:
    return ", ".join(["id BIGINT NOT NULL", *(f"{COLUMN[text]} {text}" for text in PRIMITIVES)])


# Types.


def _types(lake: Lake, version: int, **properties: str) -> tuple[IcebergTable, list[Row]]:
    table = lake.create_table("db.types", typed_schema(), format_version=version, properties=properties)
    rows = typed_rows()
    table.append(rows)
    table.append([{"id": 100}])
    return table, [*rows, {"id": 100}]


@case(1, 2, 3)
def types_parquet(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    return _types(lake, version)


@case(1, 2, 3)
def types_orc(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    return _types(lake, version, **{"write.format.default": "orc"})


@case(1, 2, 3)
def types_avro(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    return _types(lake, version, **{"write.format.default": "avro"})


@case(1, 2, 3)
def required_types(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    columns = ", ".join(f"{COLUMN[text]} {text} NOT NULL" for text in PRIMITIVES)
    table = lake.create_table("db.required", columns, format_version=version)
    rows: list[Row] = [
        {COLUMN[text]: values[number % len(values)] for text, values in PRIMITIVES.items()} for number in range(6)
    ]
    table.append(rows)
    return table, rows


@case(1, 2, 3)
def nested(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table = lake.create_table(
        "db.nested",
        "id BIGINT, point STRUCT<x: DOUBLE, inner: STRUCT<label: STRING, on: DATE>>, tags ARRAY<STRING>, "
        "counts MAP<STRING, BIGINT>, deep MAP<STRING, STRUCT<xs: ARRAY<ARRAY<INT>>, m: MAP<INT, DECIMAL(9, 2)>>>, "
        "structs ARRAY<STRUCT<a: INT, b: STRING>>",
        format_version=version,
    )
    rows: list[Row] = [
        {
            "id": 1,
            "point": {"x": 1.5, "inner": {"label": "a", "on": date(2020, 1, 1)}},
            "tags": ["x", None, ""],
            "counts": {"a": 1, "b": None},
            "deep": {"k": {"xs": [[1, None], None, []], "m": {1: Decimal("1.50"), 2: None}}, "n": None},
            "structs": [{"a": 1, "b": "one"}, {"a": None, "b": None}],
        },
        {"id": 2, "point": {"x": None, "inner": None}, "tags": [], "counts": {}, "deep": {}, "structs": []},
        {"id": 3, "point": {"x": 2.5, "inner": {"label": None, "on": None}}, "deep": {"k": {"xs": None, "m": None}}},
        {"id": 4, "point": {"x": 0.0, "inner": {"label": "d", "on": None}}, "deep": {"k": {"xs": [], "m": {}}}},
    ]
    table.append(rows)
    return table, rows


@case(1, 2, 3)
def null_lists_of_structs(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table = lake.create_table(
        "db.nulls",
        "id BIGINT, l ARRAY<STRUCT<a: INT>>, m MAP<INT, STRUCT<a: INT>>, s STRUCT<a: INT>",
        format_version=version,
    )
    rows: list[Row] = [
        {"id": 1},
        {"id": 2, "l": [None, {"a": 1}], "m": {1: None}},
        {"id": 3, "l": [], "s": {"a": None}},
    ]
    table.append(rows)
    return table, rows


@case(1, 2, 3)
def no_snapshot(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    return lake.create_table("db.empty", "id BIGINT, s STRING", format_version=version), []


@case(1, 2, 3)
def odd_names(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Names that are none in Avro, which manifests must spell otherwise."""
    table = lake.create_table(
        "db.names",
        "`a b` STRING, `1st` INT, `größe` INT, `x-y` STRUCT<`in side`: INT>",
        partition_by=["`a b`", "bucket(2, `1st`)", "`größe`"],
        format_version=version,
    )
    rows: list[Row] = [
        {"a b": f"v {n % 2}/=%", "1st": n, "größe": None if n else 7, "x-y": {"in side": n}} for n in range(4)
    ]
    table.append(rows)
    return table, rows


@case(1, 2, 3)
def names_that_differ_in_case(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table = lake.create_table("db.case", "`Ab` INT, `aB` INT", format_version=version)
    rows: list[Row] = [{"Ab": 1, "aB": 2}, {"Ab": 3}]
    table.append(rows)
    return table, rows


# Partitions.


def _partitioned(lake: Lake, version: int, text: str, term: str, values: list[Any]) -> tuple[IcebergTable, list[Row]]:
    table = lake.create_table("db.parts", f"id BIGINT, c {text}", partition_by=[term], format_version=version)
    rows: list[Row] = [{"id": number, "c": value} for number, value in enumerate([*values, None, values[0]])]
    table.append(rows)
    return table, rows


_MOMENTS = [datetime(2017, 11, 16, 22, 31, 8, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1)]
TEMPORAL = {
    "date": [date(2017, 11, 16), date(1969, 12, 31), date(1970, 1, 1), date(1968, 2, 29)],
    "timestamp": _MOMENTS,
    "timestamptz": [moment.replace(tzinfo=UTC) for moment in _MOMENTS],
}
TRANSFORMS: dict[str, tuple[str, str, list[Any]]] = {
    **{f"identity_{COLUMN[text]}": (text, "c", values) for text, values in PRIMITIVES.items()},
    **{
        f"bucket_{COLUMN[text]}": (text, "bucket(5, c)", values)
        for text, values in PRIMITIVES.items()
        if text not in ("boolean", "float", "double")
    },
    **{
        f"truncate_{COLUMN[text]}": (text, "truncate(3, c)", values)
        for text, values in {
            **{text: [10, -1, 2, -4] for text in ("int", "long")},
            "decimal(9, 2)": [Decimal("10.65"), Decimal("-0.05"), Decimal("0.00")],
            "string": ["iceberg", "ic", "\U0001f9ca\U0001f9caéx", ""],
            "binary": [b"\x00\x01\x02\x03", b"\xff", b""],
        }.items()
    },
    **{
        f"{unit}_{text}": (text, f"{unit}s(c)", values)
        for text, values in TEMPORAL.items()
        for unit in ("year", "month", "day", "hour")
        if not (text == "date" and unit == "hour")
    },
}
"""Every transform on every type it takes: type, term of the spec, values."""


def _transform_case(text: str, term: str, values: list[Any]) -> Build:
    return lambda lake, version: _partitioned(lake, version, text, term, values)


for _name, (_text, _term, _values) in TRANSFORMS.items():
    CASES[_name] = Case(_transform_case(_text, _term, _values), (1, 2, 3) if _name.startswith("bucket") else (1, 2))


@case(1, 2, 3)
def partition_evolution(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Added, removed (void in v1) and renamed partition fields; files of every spec are live."""
    table = lake.create_table(
        "db.evolved",
        "id BIGINT, s STRING, ts TIMESTAMP_NTZ",
        partition_by=["days(ts)", "s"],
        format_version=version,
    )
    rows: list[Row] = []

    def more(start: int) -> None:
        new = [{"id": start + n, "s": f"s{n % 2}", "ts": datetime(2020, 1, 1 + n % 2, n)} for n in range(4)]
        rows.extend(new)
        table.append(new)

    more(0)
    table.update_spec().remove_field("s").add_field("bucket(3, id)").commit()
    more(10)
    table.update_spec().rename_field("id_bucket_3", "shard").add_field("truncate(1, s)").commit()
    more(20)
    for part in list(table.spec.fields):
        if str(part.transform) != "void":
            table.update_spec().remove_field(part.name).commit()
    more(30)
    return table, rows


@case(1, 2, 3)
def void_transform(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table = lake.create_table("db.void", "id BIGINT, s STRING", partition_by=["s", "void(id)"], format_version=version)
    rows: list[Row] = [{"id": n, "s": "ab"[n % 2]} for n in range(4)]
    table.append(rows)
    return table, rows


# Schemas that change.


@case(1, 2, 3)
def schema_evolution(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Add, drop, rename, reorder, promote, at the top and inside struct, list and map; a dropped name used again."""
    table = lake.create_table(
        "db.schemas",
        "id INT, f FLOAT, d DECIMAL(9, 2), gone STRING, old STRING, s STRUCT<a: INT, b: STRING>, "
        "l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<y: FLOAT>>",
        format_version=version,
    )
    first = {
        "id": 1,
        "f": 1.5,
        "d": Decimal("1.25"),
        "gone": "g",
        "old": "o",
        "s": {"a": 1, "b": "b"},
        "l": [{"x": 1}],
        "m": {"k": {"y": 0.5}},
    }
    table.append([first, {"id": 2, "f": -0.0, "s": {"a": None, "b": None}, "l": [], "m": {}}])
    update = table.update_schema()
    update.update_column("id", parse_type("long"))
    update.update_column("f", parse_type("double"))
    update.update_column("d", parse_type("decimal(12, 2)"))
    update.update_column("s.a", parse_type("long"))
    update.update_column("m.value.y", parse_type("double"))
    update.drop_column("gone").rename_column("old", "new")
    update.add_column("extra", "string").add_column("s.c", "date").add_column("l.element.z", "string")
    update.commit()
    table.update_schema().add_column("gone", "int").rename_column("s.b", "bee").commit()
    table.update_schema().move_first("new").move_after("extra", "id").commit()
    last = {
        "new": "n",
        "id": 2**40,
        "extra": "e",
        "f": 0.1,
        "d": Decimal("9999999999.99"),
        "gone": 7,
        "s": {"a": 2**40, "bee": "x", "c": date(2020, 1, 1)},
        "l": [{"x": 2, "z": "z"}],
        "m": {"k": {"y": 0.1}},
    }
    table.append([last])
    rows = [
        {
            "id": 1,
            "f": 1.5,
            "d": Decimal("1.25"),
            "new": "o",
            "s": {"a": 1, "bee": "b"},
            "l": [{"x": 1}],
            "m": {"k": {"y": 0.5}},
        },
        {"id": 2, "f": -0.0, "s": {}, "l": [], "m": {}},
        last,
    ]
    return table, rows


# Snapshots: overwrites, deletes, manifests, refs.


def numbered(lake: Lake, version: int, count: int = 12, **properties: str) -> tuple[IcebergTable, list[Row]]:
    table = lake.create_table(
        "db.numbered",
        "id BIGINT, part INT, s STRING",
        partition_by=["part"],
        format_version=version,
        properties=properties,
    )
    rows: list[Row] = [{"id": n, "part": n % 3, "s": f"row {n}"} for n in range(count)]
    for start in range(0, count, 4):
        table.append(rows[start : start + 4])
    return table, rows


@case(1, 2, 3)
def copy_on_write(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """Deletes of whole files and of rows in them, overwrites by filter and of all, an append after them."""
    table, rows = numbered(lake, version)
    table.delete("part = 1")
    table.delete("id = 3")
    new = [{"id": 50, "part": 2, "s": "over"}]
    table.overwrite(new, "part = 2")
    rows = [row for row in rows if row["part"] == 0 and row["id"] != 3] + new
    table.append([{"id": 60, "part": None, "s": None}])
    return table, [*rows, {"id": 60, "part": None, "s": None}]


@case(1, 2, 3)
def deleted_and_refilled(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table, _ = numbered(lake, version)
    table.overwrite([], "true")
    table.append([{"id": 1, "part": 1, "s": "again"}])
    return table, [{"id": 1, "part": 1, "s": "again"}]


@case(1, 2, 3)
def merged_manifests(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    return numbered(lake, version, 16, **{"commit.manifest.min-count-to-merge": "2"})


@case(1, 2, 3)
def rewritten_manifests(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table, rows = numbered(lake, version, 16)
    table.delete("id = 5")
    table.rewrite_manifests().commit()
    table.append([{"id": 99, "part": 0, "s": "after"}])
    return table, [*(row for row in rows if row["id"] != 5), {"id": 99, "part": 0, "s": "after"}]


@case(1, 2, 3)
def gzip_metadata(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    return numbered(lake, version, **{"write.metadata.compression-codec": "gzip"})


@case(1, 2, 3)
def object_storage_layout(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    return numbered(lake, version, **{"write.object-storage.enabled": "true"})


@case(1, 2, 3)
def sorted_rows(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table, rows = numbered(lake, version)
    table.update_sort_order().desc("s").asc("bucket(4, id)").commit()
    new = [{"id": n, "part": 1, "s": f"{n}"} for n in range(100, 110)]
    table.append(new)
    return table, [*rows, *new]


@case(1, 2, 3)
def branches_and_tags(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table, rows = numbered(lake, version)
    first = table.history[-1].snapshot_id
    table.manage_refs().create_tag("start", first).create_branch("side", first, max_snapshot_age_ms=10**11).commit()
    table.append([{"id": 70, "part": 0, "s": "side"}], branch="side")
    table.append([{"id": 80, "part": 0, "s": "gone"}])
    table.rollback().to_snapshot(table.history[1].snapshot_id).commit()
    return table, rows


def _written(table: IcebergTable, rows: list[Row]) -> list[DataFile]:
    """Files of the table that are not in it yet."""
    return RowWriter(table.metadata, table.store).write(conform(rows, table.schema))


@case(1, 2, 3)
def cherry_picked(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    """A staged append, published after another one."""
    table, rows = numbered(lake, version)
    staged = {"id": 70, "part": 0, "s": "staged"}
    action = table.new_append().append_files(_written(table, [staged])).set("wap.id", "w").stage_only().commit()
    table.append([{"id": 71, "part": 1, "s": "before"}])
    table.cherry_pick(action.snapshot_id).commit()
    return table, [*rows, staged, {"id": 71, "part": 1, "s": "before"}]


@case(1, 2, 3)
def compacted(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table, rows = numbered(lake, version)
    old = [task.file for task in table.scan().plan().tasks()]
    number = table.current_snapshot.sequence_number if table.current_snapshot else 0
    table.new_rewrite().rewrite(old, _written(table, rows)).data_sequence_number(number).commit()
    assert len(table.scan().plan()) == 3
    return table, rows


@case(1, 2, 3)
def expired_snapshots(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table, rows = numbered(lake, version)
    table.delete("id = 3")
    newest = table.history[0]
    table.expire_snapshots().retain_last(2).older_than(newest.timestamp_ms + 1).commit()
    assert len(table.snapshots) == 2
    return table, [row for row in rows if row["id"] != 3]


@case(2)
def upgraded_from_v1(lake: Lake, version: int) -> tuple[IcebergTable, list[Row]]:
    table, rows = numbered(lake, 1)
    table.update_spec().remove_field("part").add_field("bucket(2, id)").commit()
    table.append([{"id": 40, "part": 4, "s": "v1"}])
    table.upgrade_format_version().to(version).commit()
    table.append([{"id": 41, "part": 4, "s": "new"}])
    return table, [*rows, {"id": 40, "part": 4, "s": "v1"}, {"id": 41, "part": 4, "s": "new"}]
