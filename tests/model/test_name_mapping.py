"""Name mappings: the JSON of Appendix C, lookup, and what happens when a schema evolves."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FrazilError, MalformedMetadata
from frazil.model.name_mapping import MappedField, NameMapping
from frazil.model.schema import Schema
from frazil.model.types import IntegerType, LongType, NestedField, StringType, StructType, list_of, map_of

EXAMPLE = """[ { "field-id": 1, "names": ["id", "record_id"] },
   { "field-id": 2, "names": ["data"] },
   { "field-id": 3, "names": ["location"], "fields": [
       { "field-id": 4, "names": ["latitude", "lat"] },
       { "field-id": 5, "names": ["longitude", "long"] }
     ] } ]"""
SCHEMA = Schema(
    (
        NestedField(1, "id", LongType()),
        NestedField(2, "data", StringType()),
        NestedField(3, "place", StructType((NestedField(4, "lat", LongType()), NestedField(5, "long", LongType())))),
        NestedField(6, "tags", list_of(7, StructType((NestedField(8, "k", StringType()),)))),
        NestedField(9, "props", map_of(10, StringType(), 11, LongType())),
    )
)


def mapping_of(*fields: tuple[int | None, list[str]]) -> NameMapping:
    return NameMapping(tuple(MappedField(tuple(names), number, NameMapping()) for number, names in fields))


def test_the_example_of_the_specification_is_read() -> None:
    mapping = NameMapping.from_json(EXAMPLE)
    assert [field.field_id for field in mapping.fields] == [1, 2, 3]
    record, place = mapping.find("record_id"), mapping.find("location")
    assert record is not None
    assert record.field_id == 1
    assert place is not None
    latitude = place.fields.find("lat")
    assert latitude is not None
    assert latitude.field_id == 4
    assert mapping.find("latitude") is None
    assert json.loads(mapping.to_json()) == json.loads(EXAMPLE)
    assert NameMapping.from_json(json.loads(EXAMPLE)) == mapping


def test_a_name_with_a_dot_is_literal() -> None:
    mapping = NameMapping.from_json('[{"field-id": 1, "names": ["a.b"]}]')
    assert mapping.find("a.b") is not None
    assert mapping.find("a") is None


def test_fields_may_lack_an_id_or_names() -> None:
    text = '[{"names": ["only in files"]}, {"field-id": 2, "names": []}]'
    mapping = NameMapping.from_json(text)
    found = mapping.find("only in files")
    assert found is not None
    assert found.field_id is None
    assert mapping.fields[1].names == ()
    assert json.loads(mapping.to_json()) == json.loads(text)


def test_a_schema_gives_a_mapping_with_element_key_and_value() -> None:
    mapping = NameMapping.of_schema(SCHEMA)
    assert json.loads(mapping.to_json()) == [
        {"field-id": 1, "names": ["id"]},
        {"field-id": 2, "names": ["data"]},
        {
            "field-id": 3,
            "names": ["place"],
            "fields": [{"field-id": 4, "names": ["lat"]}, {"field-id": 5, "names": ["long"]}],
        },
        {
            "field-id": 6,
            "names": ["tags"],
            "fields": [{"field-id": 7, "names": ["element"], "fields": [{"field-id": 8, "names": ["k"]}]}],
        },
        {
            "field-id": 9,
            "names": ["props"],
            "fields": [{"field-id": 10, "names": ["key"]}, {"field-id": 11, "names": ["value"]}],
        },
    ]
    assert NameMapping.from_json(mapping.to_json()) == mapping


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "5",
        "[5]",
        '[{"field-id": 1}]',
        '[{"field-id": "x", "names": []}]',
        '[{"field-id": 1, "names": ["a"], "fields": 5}]',
        '[{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["a"]}]',
    ],
)
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(MalformedMetadata):
        NameMapping.from_json(text)


def test_a_mapping_that_nests_without_end_is_refused() -> None:
    with pytest.raises(MalformedMetadata):
        NameMapping.from_json('[{"names": ["a"], "fields": ' * 200 + "[]" + "}]" * 200)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3)))
def test_no_document_ends_in_a_bare_python_error(document: object) -> None:
    with contextlib.suppress(FrazilError):
        NameMapping.from_json(json.dumps(document))


# Evolution


def test_a_renamed_field_keeps_its_old_name() -> None:
    old = Schema((NestedField(1, "a", LongType()),))
    new = Schema((NestedField(1, "b", LongType()),))
    assert mapping_of((1, ["a"])).updated(old, new) == mapping_of((1, ["a", "b"]))


def test_a_new_field_is_mapped_with_all_inside_it() -> None:
    old = Schema(SCHEMA.fields[:1])
    assert NameMapping.of_schema(old).updated(old, SCHEMA) == NameMapping.of_schema(SCHEMA)


def test_a_new_field_inside_a_struct_or_list_is_mapped() -> None:
    place = replace(
        SCHEMA.fields[2],
        type=StructType((*SCHEMA.fields[2].type.fields, NestedField(12, "alt", LongType()))),  # type: ignore[attr-defined]
    )
    tags = replace(
        SCHEMA.fields[3],
        type=list_of(7, StructType((NestedField(8, "key", StringType()), NestedField(13, "n", IntegerType())))),
    )
    new = Schema((*SCHEMA.fields[:2], place, tags, SCHEMA.fields[4]))
    updated = NameMapping.of_schema(SCHEMA).updated(SCHEMA, new)
    assert updated.fields[2].fields == mapping_of((4, ["lat"]), (5, ["long"]), (12, ["alt"]))
    assert updated.fields[3].fields.fields[0].fields == mapping_of((8, ["k", "key"]), (13, ["n"]))


def test_a_name_given_to_another_field_is_taken_from_the_first() -> None:
    old = Schema((NestedField(1, "a", LongType()), NestedField(2, "b", LongType())))
    swapped = Schema((NestedField(1, "b", LongType()), NestedField(2, "a", LongType())))
    assert mapping_of((1, ["a"]), (2, ["b"])).updated(old, swapped) == mapping_of((1, ["b"]), (2, ["a"]))
    renamed = Schema((NestedField(1, "c", LongType()), NestedField(2, "b", LongType())))
    reused = Schema((*renamed.fields, NestedField(3, "a", LongType())))
    step = mapping_of((1, ["a"]), (2, ["b"])).updated(old, renamed)
    assert step.updated(renamed, reused) == mapping_of((1, ["c"]), (2, ["b"]), (3, ["a"]))


def test_a_dropped_field_stays_mapped_until_its_name_is_used_again() -> None:
    old = Schema((NestedField(1, "a", LongType()), NestedField(2, "b", LongType())))
    dropped = Schema((NestedField(2, "b", LongType()),))
    mapping = mapping_of((1, ["a"]), (2, ["b"]))
    assert mapping.updated(old, dropped) == mapping
    again = Schema((NestedField(2, "b", LongType()), NestedField(3, "a", LongType())))
    assert mapping.updated(dropped, again) == mapping_of((1, []), (2, ["b"]), (3, ["a"]))


def test_a_schema_that_did_not_change_leaves_the_mapping_alone() -> None:
    mapping = NameMapping.from_json(EXAMPLE)
    assert mapping.updated(SCHEMA, SCHEMA) == mapping
