"""Schemas to and from Arrow, DDL and Spark; arrays from canonical values."""

from __future__ import annotations

import contextlib
import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidSchema, InvalidValue
from frazil.model.arrow import (
    array_from_canonical,
    constant_array,
    schema_from_anything,
    schema_from_arrow,
    schema_from_spark,
    schema_to_arrow,
    type_to_arrow,
)
from frazil.model.ddl import parse_ddl
from frazil.model.schema import Schema
from frazil.model.types import (
    SIMPLE_TYPES,
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    GeographyType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
    list_of,
    map_of,
)

EVERY_TYPE: list[Type] = [
    *SIMPLE_TYPES.values(),
    DecimalType(20, 3),
    FixedType(5),
    GeographyType("srid:4326", "karney"),
]


def every_type_schema() -> Schema:
    flat = [NestedField(index + 1, f"c{index}", type_) for index, type_ in enumerate(EVERY_TYPE)]
    inner = StructType((NestedField(101, "x", UuidType(), required=True), NestedField(102, "v", VariantType())))
    nested = [
        NestedField(100, "s", inner, doc="a struct"),
        NestedField(103, "l", list_of(104, list_of(105, IntegerType(), required=True))),
        NestedField(106, "m", map_of(107, StringType(), 108, StructType((NestedField(109, "d", DateType()),)))),
    ]
    return Schema((*flat, *nested))


def test_every_type_survives_the_way_to_arrow_and_back() -> None:
    schema = every_type_schema()
    assert schema_from_arrow(schema_to_arrow(schema)) == schema


def test_arrow_types_are_those_the_specification_names() -> None:
    assert type_to_arrow(TimestamptzType()) == pa.timestamp("us", "UTC")
    assert type_to_arrow(TimestampNsType()) == pa.timestamp("ns")
    assert type_to_arrow(UuidType()) == pa.uuid()
    assert type_to_arrow(FixedType(3)) == pa.binary(3)
    assert type_to_arrow(UnknownType()) == pa.null()


def test_fresh_ids_number_a_struct_before_what_is_inside() -> None:
    arrow = pa.schema([("a", pa.struct([("x", pa.int32())])), ("b", pa.list_(pa.string())), ("c", pa.int64())])
    schema = schema_from_arrow(arrow)
    assert {name: schema.find(name).id for name in ("a", "b", "c", "a.x", "b.element")} == {
        "a": 1,
        "b": 2,
        "c": 3,
        "a.x": 4,
        "b.element": 5,
    }


def test_ids_are_all_kept_or_all_new() -> None:
    with_id = pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "7"})
    assert schema_from_arrow(pa.schema([with_id])).find("a").id == 7
    assert schema_from_arrow(pa.schema([with_id, pa.field("b", pa.int32())])).find("a").id == 1


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.int8(), IntegerType()),
        (pa.uint16(), IntegerType()),
        (pa.uint32(), LongType()),
        (pa.large_string(), StringType()),
        (pa.string_view(), StringType()),
        (pa.dictionary(pa.int8(), pa.string()), StringType()),
        (pa.large_binary(), BinaryType()),
        (pa.timestamp("ms"), TimestampType()),
        (pa.timestamp("s", "Europe/Berlin"), TimestamptzType()),
        (pa.date64(), DateType()),
        (pa.null(), UnknownType()),
    ],
)
def test_layouts_of_arrow_become_the_type_that_holds_their_values(arrow: pa.DataType, expected: Type) -> None:
    assert schema_from_arrow(pa.schema([("a", arrow)])).find("a").type == expected


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.duration("us"), pa.month_day_nano_interval()])
def test_arrow_types_without_a_counterpart_are_refused_by_name(arrow: pa.DataType) -> None:
    with pytest.raises(InvalidSchema, match="'odd'"):
        schema_from_arrow(pa.schema([("odd", arrow)]))


def test_ddl_text_has_sparks_meaning() -> None:
    schema = schema_from_anything(
        "id BIGINT NOT NULL, name STRING COMMENT 'it''s', tags ARRAY<STRING>, m MAP<STRING, INT>, "
        "s STRUCT<a: INT, b: DECIMAL(9,2) NOT NULL>, ts TIMESTAMP, n TIMESTAMP_NTZ, `odd name` fixed[16], "
        "g geography(srid:4326, karney), u uuid, v VARIANT, t timestamp_ns"
    )
    assert schema.find("id").required
    assert schema.find("name").doc == "it's"
    assert schema.find("ts").type == TimestamptzType()
    assert schema.find("n").type == TimestampType()
    assert schema.find("s.b").type == DecimalType(9, 2)
    assert schema.find("s.b").required
    assert schema.find("odd name").type == FixedType(16)
    assert schema.find("g").type == GeographyType("srid:4326", "karney")
    assert isinstance(schema.find("tags").type, ListType)
    assert isinstance(schema.find("m").type, MapType)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id",
        "id BIGINT,",
        "id BIGGISH",
        "a ARRAY<",
        "a DECIMAL(",
        "a INT b INT",
        "a #",
        "a DECIMAL(x,y)",
        "a fixed[x]",
        "a TIME(7)",
        "a TIMESTAMP(10)",
        "a TIMESTAMP_NTZ(-1)",
        "a TIME(3, 3)",
    ],
)
def test_ddl_that_does_not_parse_is_an_invalid_schema(text: str) -> None:
    with pytest.raises(InvalidSchema):
        schema_from_anything(text)


@given(st.text(max_size=40))
def test_no_text_breaks_the_ddl_parser(text: str) -> None:
    with contextlib.suppress(InvalidSchema):
        parse_ddl(text)


def test_ddl_nested_too_deep_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="deeper"):
        parse_ddl("a " + "ARRAY<" * 200 + "INT" + ">" * 200)


def test_a_spark_struct_type_is_understood_by_its_json() -> None:
    class StructTypeLike:
        def jsonValue(self) -> dict[str, object]:
            array = {"type": "array", "elementType": "decimal(5,1)", "containsNull": False}
            mapping = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
            return {
                "type": "struct",
                "fields": [
                    {"name": "a", "type": array, "nullable": True, "metadata": {"comment": "c"}},
                    {"name": "m", "type": mapping, "nullable": False, "metadata": {}},
                    {"name": "t", "type": "timestamp", "nullable": True, "metadata": {}},
                ],
            }

    schema = schema_from_anything(StructTypeLike())
    assert schema.find("a").doc == "c"
    assert schema.find("a.element").required
    assert schema.find("m").required
    assert schema.find("m.value").type == LongType()
    assert schema.find("t").type == TimestamptzType()
    with pytest.raises(InvalidSchema):
        schema_from_spark({"fields": [{"name": "x"}]})


def test_something_that_is_no_schema_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="int is not a schema"):
        schema_from_anything(5)


def test_canonical_values_become_arrow_values_at_every_depth() -> None:
    struct = StructType((NestedField(1, "d", DateType()), NestedField(2, "l", list_of(3, DecimalType(5, 2)))))
    values = [None, {1: 0, 2: [Decimal("1.50"), None]}, {1: None, 2: None}, {2: []}]
    array = array_from_canonical(struct, values)
    array.validate(full=True)
    assert array.to_pylist() == [
        None,
        {"d": dt.date(1970, 1, 1), "l": [Decimal("1.50"), None]},
        {"d": None, "l": None},
        {"d": None, "l": []},
    ]
    pairs = array_from_canonical(map_of(1, StringType(), 2, UuidType()), [[("a", bytes(16))], None, []])
    assert [None if item is None else len(item) for item in pairs.to_pylist()] == [1, None, 0]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (LongType(), 0),
        (StringType(), ""),
        (UuidType(), bytes(16)),
        (VariantType(), (b"\x01\x00\x00", b"\x00")),
        (list_of(1, IntegerType()), [1, 2]),
        (LongType(), None),
        (UuidType(), None),
        (VariantType(), None),
        (list_of(1, VariantType()), None),
    ],
)
def test_constants_fill_a_column(type_: Type, value: object) -> None:
    array = constant_array(type_, value, 3)
    array.validate(full=True)
    assert len(array) == 3
    assert array.type == type_to_arrow(type_)
    assert array.null_count == (3 if value is None else 0)


def test_required_fields_have_values_below_nulls() -> None:
    """The Parquet writer refuses nulls in them, also where a struct above is null."""
    inner = StructType((NestedField(3, "x", UuidType(), required=True), NestedField(4, "v", VariantType())))
    outer = StructType((NestedField(1, "s", inner), NestedField(2, "l", list_of(5, LongType()), required=True)))
    array = constant_array(outer, None, 2)
    array.validate(full=True)
    assert array.to_pylist() == [None, None]
    below = array.field("s")
    assert (below.null_count, below.field("x").null_count, array.field("l").null_count) == (2, 0, 0)
    assert below.field("v").field("metadata").to_pylist() == [b"", b""]
    pq.write_table(pa.table({"c": array}), pa.BufferOutputStream())
    assert len(constant_array(outer, None, 0)) == 0


def test_a_value_that_does_not_fit_is_an_invalid_value() -> None:
    with pytest.raises(InvalidValue):
        array_from_canonical(IntegerType(), [2**31])
