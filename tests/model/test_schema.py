"""Schemas: names and ids, selection, JSON of Appendix C, and what the specification forbids."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.errors import ColumnNotFound, FrazilError, InvalidSchema
from frazil.model.schema import FILE, ROW_ID, Schema
from frazil.model.types import (
    DoubleType,
    GeometryType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
    list_of,
    map_of,
)
from frazil.model.values import canonical

POINT = StructType((NestedField(8, "x", DoubleType(), True), NestedField(9, "y", DoubleType())))
SCHEMA = Schema(
    (
        NestedField(1, "id", LongType(), True),
        NestedField(2, "Name", StringType(), doc="what it is called"),
        NestedField(3, "places", list_of(4, POINT)),
        NestedField(5, "tags", map_of(6, StringType(), 7, StructType((NestedField(10, "weight", LongType()),)))),
        NestedField(11, "at", StructType((NestedField(12, "x", LongType(), True),)), True),
    ),
    schema_id=3,
    identifier_field_ids=(1, 12),
)


def test_fields_are_found_by_dotted_name_at_any_depth() -> None:
    assert SCHEMA.find("id").id == 1
    assert SCHEMA.find("places.element.x").id == 8
    assert SCHEMA.find("places.x").id == 8
    assert SCHEMA.find("tags.value.weight").id == 10
    assert SCHEMA.find("tags.weight").id == 10
    assert SCHEMA.find("tags.key").id == 6
    assert SCHEMA.find("at.x").id == 12
    assert SCHEMA.name_of(8) == "places.element.x"
    assert SCHEMA.path_ids(10) == (5, 7, 10)
    assert SCHEMA.parent_id(1) is None
    assert SCHEMA.highest_field_id == 12
    assert SCHEMA.field_ids == frozenset(range(1, 13))


def test_a_column_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(ColumnNotFound) as caught:
        SCHEMA.find("idd")
    assert "'id'" in str(caught.value)
    assert SCHEMA.find_or_none("nothing") is None


def test_case_matters_unless_asked_otherwise() -> None:
    assert SCHEMA.find_or_none("name") is None
    assert SCHEMA.find("name", case_sensitive=False).id == 2
    twins = Schema((NestedField(1, "a", LongType()), NestedField(2, "A", LongType())))
    assert twins.find("A", case_sensitive=False).id == 2
    ambiguous = Schema((NestedField(1, "aB", LongType()), NestedField(2, "Ab", LongType())))
    with pytest.raises(ColumnNotFound, match="several"):
        ambiguous.find("ab", case_sensitive=False)


def test_a_selection_keeps_only_the_parts_asked_for() -> None:
    selected = SCHEMA.select(["at.x", "id", "places.y"])
    assert [column.id for column in selected.fields] == [11, 1, 3]
    assert selected.find_or_none("places.element.x") is None
    assert selected.find("places.element.y").id == 9
    assert SCHEMA.select(["tags.weight"]).find("tags.key").id == 6
    assert SCHEMA.select(["at"]).fields[0] == SCHEMA.find("at")


def test_the_json_is_that_of_the_specification() -> None:
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA
    assert Schema.from_json(SCHEMA.to_json()).schema_id == 3
    document = SCHEMA.to_json()
    assert list(document) == ["type", "schema-id", "identifier-field-ids", "fields"]
    assert document["identifier-field-ids"] == [1, 12]
    assert document["fields"][1] == {
        "id": 2,
        "name": "Name",
        "required": False,
        "type": "string",
        "doc": "what it is called",
    }


def test_defaults_are_written_as_single_values() -> None:
    first, second = "0db3e2a8-9d1d-42b9-aa7b-74ebe558dceb", "ec5911be-b0a7-458c-8438-c9a3e53cffae"
    document = {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {
                "id": 1,
                "name": "id",
                "required": True,
                "type": "uuid",
                "initial-default": first,
                "write-default": second,
            }
        ],
    }
    schema = Schema.from_json(document)
    assert schema.fields[0].initial_default == canonical(UuidType(), first)
    assert schema.to_json() == document
    schema.check_version(3)
    with pytest.raises(InvalidSchema, match="version 3"):
        schema.check_version(2)


def test_a_default_that_is_not_of_the_type_is_refused() -> None:
    column = {"id": 1, "name": "a", "required": False, "type": "int", "initial-default": "x"}
    with pytest.raises(FrazilError):
        Schema.from_json({"type": "struct", "schema-id": 0, "fields": [column]})


def test_equal_schemas_may_have_other_ids() -> None:
    assert SCHEMA.with_id(9) == SCHEMA
    assert SCHEMA.with_id(9).schema_id == 9


@pytest.mark.parametrize(
    ("fields", "identifiers"),
    [
        ((NestedField(1, "a", LongType()), NestedField(1, "b", LongType())), ()),
        ((NestedField(1, "a", LongType()), NestedField(2, "a", LongType())), ()),
        ((NestedField(1, "", LongType()),), ()),
        ((NestedField(-1, "a", LongType()),), ()),
        ((NestedField(2147483448, "a", LongType()),), ()),
        ((NestedField(1, "a", UnknownType(), True),), ()),
        ((NestedField(1, "a", UnknownType(), initial_default=5),), ()),
        ((NestedField(1, "a", VariantType(), write_default=(b"", b"")),), ()),
        ((NestedField(1, "a", GeometryType(), write_default=b""),), ()),
        ((NestedField(1, "a", LongType(), True),), (2,)),
        ((NestedField(1, "a", LongType()),), (1,)),
        ((NestedField(1, "a", DoubleType(), True),), (1,)),
        ((NestedField(1, "a", POINT, True),), (1,)),
        ((NestedField(1, "a", list_of(2, LongType(), required=True), True),), (2,)),
        ((NestedField(1, "a", StructType((NestedField(2, "b", LongType(), True),))),), (2,)),
    ],
    ids=str,
)
def test_schemas_that_the_specification_forbids_are_refused(fields: Any, identifiers: tuple[int, ...]) -> None:
    with pytest.raises(InvalidSchema):
        Schema(fields, 0, identifiers)


@pytest.mark.parametrize("type_", [UnknownType(), VariantType(), TimestampNsType(), GeometryType()], ids=str)
def test_new_types_need_a_new_format_version(type_: Type) -> None:
    schema = Schema((NestedField(1, "s", StructType((NestedField(2, "a", type_),))),))
    schema.check_version(3)
    with pytest.raises(InvalidSchema, match=r"'s\.a'"):
        schema.check_version(2)


def test_metadata_columns_may_have_reserved_ids() -> None:
    assert Schema((NestedField(1, "a", IntegerType()), FILE, ROW_ID)).find("_file").id == 2147483646


@pytest.mark.parametrize(
    "document",
    [
        {"type": "struct"},
        {"type": "struct", "fields": [{"id": "x", "name": "a", "required": True, "type": "int"}]},
        {"type": "struct", "schema-id": "x", "fields": []},
        {"type": "struct", "identifier-field-ids": ["x"], "fields": []},
    ],
)
def test_malformed_json_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchema):
        Schema.from_json(document)


def test_a_schema_is_shown_in_notebooks_without_running_what_it_says() -> None:
    html = Schema((NestedField(1, "<script>", LongType(), doc="<b>"),))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
