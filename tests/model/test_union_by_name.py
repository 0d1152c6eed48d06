"""Schemas that take in another one, or its ids; PyIceberg does the same."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyiceberg import types as pit
from pyiceberg.schema import Schema as PySchema
from pyiceberg.table.update.schema import UpdateSchema

from frazil.errors import InvalidEvolution
from frazil.model.fresh_ids import assign_fresh_ids, reassign_ids_by_name
from frazil.model.schema import Schema
from frazil.model.schema_evolution import SchemaEvolution
from frazil.model.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    NestedField,
    StructType,
    UnknownType,
    list_of,
    map_of,
)
from tests.model.evolved_schema import INT, LONG, POINT, SCHEMA, TEXT, evolve, optional, required

# union by name


def test_a_union_adds_widens_and_loosens_at_any_depth():
    other = Schema(
        (
            optional(1, "id", LONG),
            required(2, "extra", POINT),
            optional(5, "place", StructType((optional(6, "lat", DoubleType()), optional(7, "alt", INT)))),
            optional(8, "points", list_of(9, StructType((optional(16, "z", INT),)), required=True)),
            optional(
                17,
                "tags",
                map_of(12, StructType((required(13, "k", TEXT),)), 14, StructType((optional(15, "v", LONG),))),
            ),
        )
    )
    after = evolve().set_identifier_fields([]).union_by_name(other).apply().schema
    assert after.find("id") == NestedField(1, "id", LONG)
    assert after.find("extra").optional
    assert after.find("place.lat") == NestedField(6, "lat", DoubleType())
    assert after.find("place.long").required
    assert after.find("place.alt").optional
    assert after.find("points.z").type == INT
    assert after.find("points.element").optional
    assert after.find("tags.v").type == LONG
    assert SCHEMA.field_ids < after.field_ids


def test_a_union_never_narrows_or_drops():
    wide = Schema((required(1, "a", LONG), optional(2, "b", DecimalType(18, 2)), optional(3, "c", TEXT)))
    narrow = Schema((required(7, "b", DecimalType(9, 2)), required(8, "a", INT)))
    assert evolve(wide).union_by_name(narrow).apply().schema == wide
    assert evolve(wide).union_by_name(Schema((optional(1, "c", UnknownType()),))).apply().schema == wide


def test_a_union_with_itself_changes_nothing():
    after = evolve().union_by_name(SCHEMA).apply()
    assert after.schema == SCHEMA
    assert after.last_column_id == 20
    assert after.changes == ({}, {}, {}, ())


@pytest.mark.parametrize(
    "type_", [TEXT, POINT, list_of(4, INT), map_of(4, INT, 5, INT)], ids=["text", "struct", "list", "map"]
)
def test_a_union_refuses_types_that_do_not_fit(type_):
    with pytest.raises(InvalidEvolution, match="'id' cannot change from int"):
        evolve().union_by_name(Schema((required(1, "id", type_),)))
    with pytest.raises(InvalidEvolution, match="cannot change"):
        evolve(Schema((optional(1, "id", BooleanType()),))).union_by_name(Schema((optional(1, "id", type_),)))


def test_a_union_refuses_other_map_keys():
    other = Schema((optional(1, "tags", map_of(2, StructType((required(4, "new", TEXT),)), 3, POINT)),))
    with pytest.raises(InvalidEvolution, match="keys of a map"):
        evolve().union_by_name(other)


def test_a_union_takes_docs_and_defaults():
    other = Schema(
        (
            NestedField(1, "name", TEXT, doc="new", write_default=""),
            NestedField(2, "n", INT, initial_default=1, write_default=0),
        )
    )
    after = evolve(version=3).union_by_name(other).apply().schema
    assert after.find("name") == NestedField(2, "name", TEXT, doc="new", write_default="")
    assert after.find("n") == NestedField(21, "n", INT, initial_default=1, write_default=0)


def test_a_union_can_ignore_case():
    other = Schema((required(1, "ID", LONG), optional(2, "Name", TEXT)))
    assert evolve(case_sensitive=False).union_by_name(other).apply().schema.columns == SCHEMA.columns
    assert evolve().union_by_name(other).apply().schema.columns[-2:] == ["ID", "Name"]


# ids of new and replaced tables


def test_a_new_table_is_numbered_level_by_level_and_keeps_its_identifiers():
    fresh, mapping = assign_fresh_ids(SCHEMA.with_id(4), start=1)
    assert [fresh.name_of(number) for number in range(1, 9)] == [
        *("id", "name", "place", "points", "tags", "place.lat", "place.long", "points.element"),
    ]
    assert [fresh.name_of(number) for number in range(9, 15)] == [
        *("points.element.x", "points.element.y", "tags.key", "tags.value", "tags.key.k", "tags.value.v"),
    ]
    assert (fresh.identifier_field_ids, fresh.schema_id, mapping[14]) == ((1,), 4, 14)


def test_a_replaced_table_keeps_ids_by_full_name():
    new = Schema(
        (required(1, "b", INT), optional(2, "place", StructType((optional(3, "long", INT), optional(4, "alt", INT)))))
    )
    numbered, last = reassign_ids_by_name(new, SCHEMA, 30)
    assert [(field.name, field.id) for field in numbered.all_fields()] == [
        ("b", 31),
        ("place", 3),
        ("long", 7),
        ("alt", 32),
    ]
    assert last == 32
    same, unchanged = reassign_ids_by_name(SCHEMA, SCHEMA, 30)
    assert (same, unchanged) == (SCHEMA, 30)


# another implementation


PY_SCHEMA = PySchema(
    pit.NestedField(1, "id", pit.IntegerType(), required=True),
    pit.NestedField(2, "name", pit.StringType(), required=False),
    pit.NestedField(
        3,
        "place",
        pit.StructType(
            pit.NestedField(4, "lat", pit.FloatType(), required=True), pit.NestedField(5, "long", pit.FloatType())
        ),
        required=False,
    ),
)


def py_update() -> UpdateSchema:
    unpartitioned = SimpleNamespace(table_metadata=SimpleNamespace(partition_specs=[], schemas=[PY_SCHEMA]))
    return UpdateSchema(transaction=unpartitioned, schema=PY_SCHEMA)  # type: ignore[arg-type]


def from_pyiceberg(schema: PySchema) -> Schema:
    return Schema.from_json(schema.model_dump(mode="json", by_alias=True))


def test_pyiceberg_gives_the_same_schema_for_the_same_changes():
    py_nested = pit.StructType(
        pit.NestedField(1, "p", pit.ListType(2, pit.LongType(), element_required=False)),
        pit.NestedField(3, "q", pit.LongType()),
    )
    ours_nested = StructType((optional(1, "p", list_of(2, LONG)), optional(3, "q", LONG)))
    theirs = py_update()
    ours = SchemaEvolution(from_pyiceberg(PY_SCHEMA), 5, 2)
    theirs.add_column("deep", py_nested, doc="d").add_column(("place", "alt"), pit.DoubleType())
    ours = ours.add_column("deep", ours_nested, "d").add_column(("place", "alt"), DoubleType())
    theirs.rename_column("id", "number").update_column("id", pit.LongType()).move_first("deep").delete_column("name")
    ours = ours.rename_column("id", "number").update_column("id", LONG).move_first("deep").drop_column("name")
    theirs.move_before("place.long", "place.lat").make_column_optional("place.lat")
    ours = ours.move_before("place.long", "place.lat").make_optional("place.lat")
    assert ours.apply().schema == from_pyiceberg(theirs._apply())


def test_pyiceberg_gives_the_same_union_by_name():
    other = PySchema(
        pit.NestedField(1, "id", pit.LongType(), required=False),
        pit.NestedField(2, "new", pit.MapType(3, pit.StringType(), 4, pit.LongType()), required=False),
        pit.NestedField(5, "place", pit.StructType(pit.NestedField(6, "alt", pit.LongType())), required=False),
    )
    theirs = py_update().union_by_name(other)._apply()
    after = SchemaEvolution(from_pyiceberg(PY_SCHEMA), 5, 2).union_by_name(from_pyiceberg(other)).apply().schema
    expected = from_pyiceberg(theirs)
    assert set(after.names()) == set(expected.names())
    assert all(after.find(name).required == expected.find(name).required for name in after.names())
    assert all(str(after.find(name).type) == str(expected.find(name).type) for name in ("id", "name", "new"))
