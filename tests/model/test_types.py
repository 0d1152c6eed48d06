"""Types: their text in the specification, and what is refused."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidSchema
from frazil.model.schema import type_from_json, type_to_json
from frazil.model.types import (
    SIMPLE_TYPES,
    BinaryType,
    BooleanType,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    Type,
    UnknownType,
    VariantType,
    children,
    list_of,
    map_of,
    parse_type,
    walk,
)

NESTED = StructType(
    (
        NestedField(1, "a", list_of(3, map_of(4, StringType(), 5, LongType(), required=True), required=True), True),
        NestedField(2, "b", StructType((NestedField(6, "c", VariantType()),)), doc="inner"),
    )
)


@pytest.mark.parametrize("name", list(SIMPLE_TYPES))
def test_a_plain_type_is_its_name(name: str) -> None:
    assert str(parse_type(name)) == name
    assert parse_type(f" {name.upper()} ") == parse_type(name)


@pytest.mark.parametrize(
    ("text", "expected", "written"),
    [
        ("decimal(9,2)", DecimalType(9, 2), "decimal(9, 2)"),
        ("decimal( 9 , 2 )", DecimalType(9, 2), "decimal(9, 2)"),
        ("decimal(38,-3)", DecimalType(38, -3), "decimal(38, -3)"),
        ("fixed[16]", FixedType(16), "fixed[16]"),
        ("fixed[ 16 ]", FixedType(16), "fixed[16]"),
        ("geometry(srid:4326)", GeometryType("srid:4326"), "geometry(srid:4326)"),
        ("geometry(OGC:CRS84)", GeometryType(), "geometry"),
        ("geography(srid:4326)", GeographyType("srid:4326"), "geography(srid:4326)"),
        ("geography( srid:4326 , karney )", GeographyType("srid:4326", "karney"), "geography(srid:4326, karney)"),
    ],
)
def test_types_with_parameters_are_read_with_any_spaces(text: str, expected: Type, written: str) -> None:
    assert parse_type(text) == expected
    assert str(expected) == written


@pytest.mark.parametrize(
    "text",
    ["", "integer", "decimal", "decimal(39,2)", "decimal(0,0)", "fixed[-1]", "fixed", "geography(a, flat)", "struct"],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_type(text)


def test_types_are_values() -> None:
    assert IntegerType() == IntegerType()
    assert hash(DecimalType(9, 2)) == hash(DecimalType(9, 2))
    assert len({BinaryType(), BinaryType(), BooleanType()}) == 2
    assert list_of(1, LongType()) != list_of(2, LongType())


def test_kinds_of_types() -> None:
    assert UnknownType().is_primitive
    assert not VariantType().is_primitive
    assert not VariantType().is_nested
    assert NESTED.is_nested
    assert children(VariantType()) == ()


def test_walking_meets_outer_fields_first() -> None:
    assert [field.id for field in walk(NESTED)] == [1, 3, 4, 5, 2, 6]


def test_names_are_unique_in_a_struct() -> None:
    with pytest.raises(InvalidSchema, match="'x'"):
        StructType((NestedField(1, "x", LongType()), NestedField(2, "x", LongType())))


def test_nested_types_read_back_from_json() -> None:
    document = type_to_json(NESTED)
    assert type_from_json(document) == NESTED
    assert document == {
        "type": "struct",
        "fields": [
            {
                "id": 1,
                "name": "a",
                "required": True,
                "type": {
                    "type": "list",
                    "element-id": 3,
                    "element-required": True,
                    "element": {
                        "type": "map",
                        "key-id": 4,
                        "key": "string",
                        "value-id": 5,
                        "value-required": True,
                        "value": "long",
                    },
                },
            },
            {
                "id": 2,
                "name": "b",
                "required": False,
                "doc": "inner",
                "type": {"type": "struct", "fields": [{"id": 6, "name": "c", "required": False, "type": "variant"}]},
            },
        ],
    }


@pytest.mark.parametrize(
    "document",
    [
        5,
        None,
        [],
        {},
        {"type": "set"},
        {"type": "list"},
        {"type": "struct", "fields": 3},
        {"type": "struct", "fields": [{"id": 1}]},
        {"type": "map", "key-id": "x", "key": "int", "value-id": 2, "value": "int", "value-required": True},
    ],
)
def test_malformed_json_is_refused(document: object) -> None:
    with pytest.raises(InvalidSchema):
        type_from_json(document)


def test_types_that_nest_without_end_are_refused() -> None:
    document: object = "int"
    for number in range(300):
        document = {"type": "list", "element-id": number, "element-required": False, "element": document}
    with pytest.raises(InvalidSchema, match="deeper"):
        type_from_json(document)
