"""A schema with everything in it, and rows with every edge, for the tests of data files."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from frazil.io.data_files import read_data_file, write_data_file
from frazil.io.store import Store, store_for
from frazil.io.written_file import WrittenFile
from frazil.model.arrow import array_from_canonical, schema_to_arrow
from frazil.model.schema import Schema
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UuidType,
    VariantType,
    list_of,
    map_of,
)
from frazil.model.variant import encode

POINT = b"\x01\x01\x00\x00\x00" + bytes(8) + b"\x00\x00\x00\x00\x00\x00\xf0\x3f"
INNER = StructType(
    (
        NestedField(31, "a", IntegerType(), required=True),
        NestedField(32, "u", UnknownType()),
        NestedField(33, "t", list_of(34, TimestamptzType())),
    )
)
EVERYTHING = Schema(
    (
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "bool", BooleanType()),
        NestedField(3, "int", IntegerType()),
        NestedField(4, "float", FloatType()),
        NestedField(5, "double", DoubleType()),
        NestedField(6, "dec9", DecimalType(9, 2)),
        NestedField(7, "dec18", DecimalType(18, 0)),
        NestedField(8, "dec38", DecimalType(38, 10)),
        NestedField(9, "date", DateType()),
        NestedField(10, "time", TimeType()),
        NestedField(11, "ts", TimestampType()),
        NestedField(12, "tstz", TimestamptzType()),
        NestedField(13, "ns", TimestampNsType()),
        NestedField(14, "nstz", TimestamptzNsType()),
        NestedField(15, "string", StringType()),
        NestedField(16, "uuid", UuidType()),
        NestedField(17, "fixed", FixedType(3)),
        NestedField(18, "binary", BinaryType()),
        NestedField(19, "unknown", UnknownType()),
        NestedField(20, "variant", VariantType()),
        NestedField(21, "geometry", GeometryType("srid:3857")),
        NestedField(22, "geography", GeographyType("OGC:CRS84", "karney")),
        NestedField(30, "s", INNER),
        NestedField(40, "l", list_of(41, list_of(42, IntegerType()))),
        NestedField(50, "m", map_of(51, StringType(), 52, DecimalType(5, 1))),
        NestedField(
            60, "k", map_of(61, DateType(), 62, StructType((NestedField(63, "x", UuidType()),)), required=True)
        ),
    )
)
# year 1, year 9999
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
ROWS: list[dict[int, Any]] = [
    {1: 0},
    {
        1: 1,
        2: False,
        3: 0,
        4: -0.0,
        5: 0.0,
        6: Decimal("0.00"),
        7: Decimal(0),
        8: Decimal("0E-10"),
        9: 0,
        10: 0,
        11: 0,
        12: 0,
        13: 0,
        14: 0,
        15: "",
        16: bytes(16),
        17: bytes(3),
        18: b"",
        20: encode(None),
        21: POINT,
        22: POINT,
        30: {31: 0, 33: []},
        40: [],
        50: [],
        60: [],
    },
    {
        1: 2**63 - 1,
        2: True,
        3: 2**31 - 1,
        4: math.inf,
        5: math.nan,
        6: Decimal("9999999.99"),
        7: Decimal(10**18 - 1),
        8: Decimal("9999999999999999999999999999.9999999999"),
        9: 2_932_896,
        10: 86_399_999_999,
        11: LAST,
        12: LAST,
        13: 2**63 - 1,
        14: 2**63 - 1,
        15: "\U0010ffff" * 20,
        16: b"\xff" * 16,
        17: b"\xff" * 3,
        18: b"\xff" * 20,
        20: encode({"a": [1, "x"], "b": None}),
        30: {31: -1, 33: [LAST, None, FIRST]},
        40: [None, [], [None, 1]],
        50: [("a", Decimal("1.5")), ("", None)],
        60: [(0, {63: bytes(16)}), (1, {63: None})],
    },
    {
        1: -(2**63),
        3: -(2**31),
        4: math.nan,
        5: -math.inf,
        6: Decimal("-9999999.99"),
        7: Decimal(-(10**18) + 1),
        8: Decimal("-9999999999999999999999999999.9999999999"),
        9: -719_162,
        11: FIRST,
        12: FIRST,
        13: -9_223_372_036_000_000_000,
        14: -1_000_000_000,
        15: "é" * 17,
        18: b"a" * 17,
        20: encode([True, 1.5, b"x"]),
        30: {31: 5, 33: None},
        40: [[1], None],
    },
]


def batch_of(schema: Schema, rows: list[dict[int, Any]]) -> pa.RecordBatch:
    arrays = [array_from_canonical(column.type, [row.get(column.id) for row in rows]) for column in schema.fields]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_to_arrow(schema))


def memory() -> Store:
    return store_for("memory://samples/data")


def write(name: str, batch: pa.RecordBatch, schema: Schema, file_format: str, **properties: str) -> WrittenFile:
    store, location = memory(), f"memory://samples/data/{name}.{file_format}"
    store.delete(location)
    return write_data_file(
        store, location, file_format, schema, [batch], {k.replace("_", "-"): v for k, v in properties.items()}
    )


def read(location: str, schema: Schema, file_format: str, **options: Any) -> pa.Table:
    """All batches as one table; every batch valid, of the schema, and at the position after the one before."""
    batches, position = [], 0
    for first, batch in read_data_file(memory(), location, file_format, schema, **options):
        batch.validate(full=True)
        assert batch.schema.equals(schema_to_arrow(schema), check_metadata=True)
        assert first == position
        position += batch.num_rows
        batches.append(batch)
    return pa.Table.from_batches(batches, schema_to_arrow(schema))


def assert_same(got: pa.Table, want: pa.RecordBatch) -> None:
    """Equal rows, with NaN equal to NaN and zeros equal only with the same sign."""
    for name in want.schema.names:
        assert repr(got.column(name).combine_chunks().to_pylist()) == repr(want.column(name).to_pylist()), name
