from __future__ import annotations

import datetime as dt
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types as pit
from pyiceberg.schema import Schema as PySchema
from pyiceberg.table.update.schema import UpdateSchema

from frazil.errors import ColumnNotFound, FrazilError, InvalidEvolution, InvalidSchema, InvalidValue
from frazil.model.fresh_ids import assign_fresh_ids, reassign_ids_by_name
from frazil.model.promotion import can_promote, check_promotion
from frazil.model.schema import Schema
from frazil.model.schema_evolution import Position, SchemaEvolution
from frazil.model.transforms import parse_transform
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeometryType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzType,
    Type,
    UnknownType,
    VariantType,
    list_of,
    map_of,
    walk,
)

INT, LONG, TEXT = IntegerType(), LongType(), StringType()


def optional(number: int, name: str, type_: Type) -> NestedField:
    return NestedField(number, name, type_)


def required(number: int, name: str, type_: Type) -> NestedField:
    return NestedField(number, name, type_, required=True)


POINT = StructType((required(10, "x", FloatType()), optional(11, "y", FloatType())))
SCHEMA = Schema(
    (
        required(1, "id", INT),
        optional(2, "name", TEXT),
        optional(3, "place", StructType((required(6, "lat", FloatType()), required(7, "long", FloatType())))),
        optional(4, "points", list_of(8, POINT)),
        optional(
            5, "tags", map_of(9, StructType((required(12, "k", TEXT),)), 13, StructType((optional(14, "v", INT),)))
        ),
    ),
    identifier_field_ids=(1,),
)


def evolve(schema: Schema = SCHEMA, version: int = 2, **options: object) -> SchemaEvolution:
    return SchemaEvolution(schema, max(20, schema.highest_field_id), version, **options)  # type: ignore[arg-type]


def named(evolution: SchemaEvolution, name: str) -> NestedField:
    return evolution.apply().schema.find(name)


# adding


def test_an_added_column_comes_last_with_the_next_id():
    after = evolve().add_column("age", INT, "in years").apply()
    assert after.schema.fields[-1] == NestedField(21, "age", INT, doc="in years")
    assert after.last_column_id == 21
    assert after.schema.fields[:-1] == SCHEMA.fields


def test_an_evolution_changes_nothing_but_its_copy():
    first = evolve()
    first.add_column("age", INT).drop_column("name")
    assert first.apply().schema == SCHEMA
    assert first.apply().last_column_id == 20


def test_ids_start_after_the_last_one_ever_used_and_not_after_the_highest_present():
    assert SchemaEvolution(SCHEMA, 1000, 2).add_column("age", INT).apply().last_column_id == 1001


def test_a_last_column_id_below_an_id_in_use_is_refused():
    with pytest.raises(InvalidSchema, match="last column id 3"):
        SchemaEvolution(SCHEMA, 3, 2)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("place.alt", "place.alt"),
        ("points.z", "points.element.z"),
        ("points.element.z", "points.element.z"),
        ("tags.w", "tags.value.w"),
        ("tags.value.w", "tags.value.w"),
        (("points", "z"), "points.element.z"),
    ],
)
def test_fields_are_added_to_structs_also_inside_lists_and_map_values(path, found):
    after = evolve().add_column(path, INT).apply().schema
    assert after.find(found).id == 21
    assert after.name_of(21) == found


def test_nested_types_are_numbered_level_by_level():
    inner = StructType(
        (optional(1, "a", list_of(1, INT)), optional(1, "b", map_of(1, TEXT, 1, POINT)), optional(1, "c", INT))
    )
    after = evolve().add_column("deep", inner).add_column("next", INT).apply()
    names = {name: after.schema.find(name).id for name in after.schema.names() if name.startswith("deep")}
    assert (names["deep"], names["deep.a"], names["deep.b"], names["deep.c"]) == (21, 22, 23, 24)
    assert (names["deep.a.element"], names["deep.b.key"], names["deep.b.value"]) == (25, 26, 27)
    assert (names["deep.b.value.x"], names["deep.b.value.y"]) == (28, 29)
    assert after.last_column_id == after.schema.find("next").id == 30


@pytest.mark.parametrize("path", ["name", "place.lat", "points.x", "points.element.x", "tags.v"])
def test_a_column_that_exists_cannot_be_added(path):
    with pytest.raises(InvalidEvolution, match="exists already"):
        evolve().add_column(path, INT)


def test_a_column_cannot_be_added_twice():
    with pytest.raises(InvalidEvolution, match="exists already"):
        evolve().add_column("age", INT).add_column("age", LONG)


def test_a_dropped_name_can_be_added_again_and_gets_a_fresh_id():
    evolution = evolve().drop_column("name").add_column("name", LONG, position=Position.after("id"))
    after = evolution.update_column("name", doc="the new one").apply().schema
    assert after.columns == ["id", "name", "place", "points", "tags"]
    assert after.find("name") == NestedField(21, "name", LONG, doc="the new one")


def test_fields_cannot_be_added_to_what_is_not_a_struct():
    with pytest.raises(InvalidEvolution, match="cannot have fields"):
        evolve().add_column("name.first", TEXT)


def test_fields_cannot_be_added_to_a_missing_column():
    with pytest.raises(ColumnNotFound, match="no column 'plaec'") as caught:
        evolve().add_column("plaec.alt", INT)
    assert "tuple" in str(caught.value.hint)


def test_fields_cannot_be_added_to_a_dropped_or_new_column():
    with pytest.raises(InvalidEvolution, match="dropped in this very change"):
        evolve().drop_column("place").add_column("place.alt", INT)
    with pytest.raises(InvalidEvolution, match="added in this very change"):
        evolve().add_column("box", POINT).add_column("box.z", INT)


def test_a_required_column_needs_a_default_or_leave_to_break_old_rows():
    with pytest.raises(InvalidEvolution, match="without a default"):
        evolve().add_column("age", INT, required=True)
    assert named(evolve(allow_incompatible=True).add_column("age", INT, required=True), "age").required


def test_empty_names_are_refused():
    for path in ("", (), "place."):
        with pytest.raises(InvalidEvolution, match="empty name"):
            evolve().add_column(path, INT)
    with pytest.raises(InvalidEvolution, match="empty name"):
        evolve().rename_column("name", "")


def test_types_of_a_later_format_version_are_refused():
    for type_ in (VariantType(), TimestampNsType(), list_of(1, UnknownType())):
        with pytest.raises(InvalidEvolution, match="needs format version 3"):
            evolve().add_column("late", type_)
        evolve(version=3).add_column("late", type_).apply()


def test_types_may_be_given_as_text():
    assert named(evolve().add_column("price", "decimal(9,2)"), "price").type == DecimalType(9, 2)


def test_names_with_dots_are_tuples_and_may_not_look_like_a_nested_field():
    assert evolve().add_column(("a.b",), INT).apply().schema.columns[-1] == "a.b"
    dotted = Schema((optional(1, "a.b", POINT),))
    after = evolve(dotted).add_column(("a.b", "z"), INT).update_column("a.b.y", DoubleType()).apply().schema
    assert after.name_of(21) == "a.b.z"
    assert after.find("a.b.y").type == DoubleType()
    with pytest.raises(InvalidEvolution, match="same name"):
        evolve().add_column(("place.lat",), INT).apply()


# dropping


def test_a_dropped_column_is_gone_with_all_inside_it():
    after = evolve().drop_column("place").drop_column("points.y").drop_column("tags.value.v").apply()
    assert after.schema.field_ids == SCHEMA.field_ids - {3, 6, 7, 11, 14}
    assert after.last_column_id == 20
    assert after.changes.dropped_names == ("place", "place.lat", "place.long", "points.element.y", "tags.value.v")


def test_a_missing_column_cannot_be_changed():
    for change in (
        lambda: evolve().drop_column("nmae"),
        lambda: evolve().rename_column("nmae", "x"),
        lambda: evolve().update_column("place.nmae", LONG),
        lambda: evolve().make_optional(("na.me",)),
        lambda: evolve().move_first("nmae"),
        lambda: evolve().move_after("name", "nmae"),
        lambda: evolve().add_column("x", INT, position=Position.before("lat")),
    ):
        with pytest.raises(ColumnNotFound):
            change()


def test_a_dropped_column_cannot_be_changed_nor_what_is_inside_it():
    dropped = evolve().drop_column("name").drop_column("place")
    for change in (
        lambda: dropped.drop_column("name"),
        lambda: dropped.rename_column("name", "x"),
        lambda: dropped.update_column("place.lat", DoubleType()),
        lambda: dropped.make_optional("place.lat"),
        lambda: dropped.move_after("id", "name"),
    ):
        with pytest.raises(InvalidEvolution, match="dropped in this very change"):
            change()


@pytest.mark.parametrize(
    "changed",
    [
        evolve().update_column("place.lat", DoubleType()),
        evolve().rename_column("place", "where"),
        evolve().add_column("place.alt", INT),
    ],
)
def test_a_column_with_other_changes_cannot_be_dropped(changed):
    with pytest.raises(InvalidEvolution, match="has other changes"):
        changed.drop_column("place")


def test_a_column_that_is_moved_and_dropped_is_refused():
    with pytest.raises(InvalidEvolution, match="'name' is dropped and part of a move"):
        evolve().move_first("name").drop_column("name").apply()
    with pytest.raises(InvalidEvolution, match="'name' is dropped and part of a move"):
        evolve().move_after("id", "name").drop_column("name").apply()


def test_a_new_column_cannot_be_dropped_again():
    with pytest.raises(InvalidEvolution, match="added in this very change"):
        evolve().add_column("age", INT).drop_column("age")


def test_an_identifier_column_is_kept_unless_others_are_named():
    with pytest.raises(InvalidEvolution, match="identifier column 'id'"):
        evolve().drop_column("id").apply()
    assert evolve().drop_column("id").set_identifier_fields([]).apply().schema.identifier_field_ids == ()


def test_what_holds_an_identifier_column_is_kept():
    schema = Schema((required(1, "key", StructType((required(2, "part", INT),))), optional(3, "v", INT)), 0, (2,))
    with pytest.raises(InvalidEvolution, match=r"identifier column 'key\.part'"):
        evolve(schema).drop_column("key").apply()


def test_protected_columns_and_their_holders_are_kept_for_the_reason_given():
    evolution = evolve(protected={7: "a source of partition field 'long_bucket'"})
    for path in ("place.long", "place"):
        with pytest.raises(InvalidEvolution, match=r"'place\.long' is a source of partition field 'long_bucket'"):
            evolution.drop_column(path)
    evolution.drop_column("place.lat").apply()


@pytest.mark.parametrize("path", ["points.element", "tags.value"])
def test_elements_and_values_cannot_be_dropped_renamed_moved_or_described(path):
    for change in (
        lambda: evolve().drop_column(path),
        lambda: evolve().rename_column(path, "x"),
        lambda: evolve().move_first(path),
        lambda: evolve().update_column(path, doc="x"),
    ):
        with pytest.raises(InvalidEvolution, match="element or value of a"):
            change()


def test_map_keys_cannot_change():
    for change in (
        lambda: evolve().drop_column("tags.key"),
        lambda: evolve().drop_column("tags.key.k"),
        lambda: evolve().add_column("tags.key.z", INT),
        lambda: evolve().rename_column("tags.key.k", "z"),
        lambda: evolve().make_optional("tags.key.k"),
        lambda: evolve().move_first("tags.key.k"),
    ):
        with pytest.raises(InvalidEvolution, match="keys of a map"):
            change()


# renaming


def test_a_renamed_column_keeps_id_place_and_identity():
    after = evolve().rename_column("id", "number").rename_column("points.x", "x1").rename_column("place", "at").apply()
    assert after.schema.columns == ["number", "name", "at", "points", "tags"]
    assert after.schema.identifier_field_ids == (1,)
    assert after.changes.renamed == {1: "number", 10: "x1", 3: "at"}
    assert after.changes.moved_names == {
        "id": "number",
        "place": "at",
        "place.lat": "at.lat",
        "place.long": "at.long",
        "points.element.x": "points.element.x1",
    }


def test_a_column_cannot_take_a_name_in_use():
    with pytest.raises(InvalidEvolution, match="'name'"):
        evolve().rename_column("id", "name").apply()
    with pytest.raises(InvalidEvolution, match="'age'"):
        evolve().add_column("age", INT).rename_column("name", "age").apply()


def test_a_column_can_take_a_name_that_becomes_free_in_the_same_change():
    assert evolve().drop_column("name").rename_column("place", "name").apply().schema.find("name").id == 3
    swapped = evolve().rename_column("name", "place").rename_column("place", "name").apply().schema
    assert (swapped.find("place").id, swapped.find("name").id) == (2, 3)


def test_a_renamed_column_can_be_updated_by_either_name():
    evolution = evolve().rename_column("id", "number").update_column("id", LONG).update_column("number", doc="unique")
    assert named(evolution, "number") == NestedField(1, "number", LONG, True, "unique")
    nested = evolve().rename_column("place", "at").update_column("at.lat", DoubleType())
    assert named(nested, "at.lat").type == DoubleType()


def test_an_added_column_can_be_renamed():
    evolution = evolve().add_column("age", INT).rename_column("age", "years").add_column("age", TEXT)
    assert evolution.apply().schema.columns[-2:] == ["years", "age"]


# case


def test_names_differ_by_case_only_where_case_matters():
    assert evolve().add_column("NAME", INT).apply().schema.columns[-1] == "NAME"
    folded = evolve(case_sensitive=False)
    with pytest.raises(InvalidEvolution, match="exists already"):
        folded.add_column("NAME", INT)
    with pytest.raises(InvalidEvolution, match="same name"):
        folded.rename_column("ID", "Name").apply()
    assert folded.rename_column("NAME", "Name").apply().schema.find("Name").id == 2


def test_columns_that_already_differ_by_case_alone_do_not_block_other_changes():
    schema = Schema((optional(1, "a", INT), optional(2, "A", INT)))
    assert (
        evolve(schema, case_sensitive=False).add_column("b", INT).update_column("A", LONG).apply().schema.find("A").type
        == LONG
    )


# types


PROMOTIONS = [
    (INT, LONG, 1),
    (FloatType(), DoubleType(), 1),
    (DecimalType(9, 2), DecimalType(18, 2), 1),
    (DateType(), TimestampType(), 3),
    (DateType(), TimestampNsType(), 3),
    (UnknownType(), BooleanType(), 3),
    (UnknownType(), POINT, 3),
    (UnknownType(), VariantType(), 3),
]
EVERY_TYPE = [
    *(INT, LONG, TEXT, FloatType(), DoubleType(), DecimalType(9, 2), DecimalType(18, 2), DecimalType(18, 3)),
    *(DateType(), TimestampType(), TimestampNsType(), TimestamptzType(), BinaryType(), BooleanType(), GeometryType()),
    *(POINT, list_of(1, INT), map_of(1, INT, 2, INT), VariantType()),
]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_only_the_promotions_of_the_specification_are_allowed(version):
    allowed = {(source, target) for source, target, since in PROMOTIONS if version >= since}
    for source in EVERY_TYPE:
        for target in EVERY_TYPE:
            assert can_promote(source, target, version) == (source == target or (source, target) in allowed)
    assert all(can_promote(UnknownType(), target, version) == (version == 3) for target in EVERY_TYPE)


def test_a_refused_promotion_names_column_and_types():
    with pytest.raises(InvalidEvolution, match=r"column 'place\.lat' cannot change from float to int"):
        evolve().update_column("place.lat", INT)
    with pytest.raises(InvalidEvolution, match="in format version 2"):
        check_promotion("d", DateType(), TimestampType(), 2)


def test_types_are_promoted_at_any_depth():
    schema = Schema((optional(1, "l", list_of(2, INT)), optional(3, "m", map_of(4, INT, 5, FloatType()))))
    after = evolve(schema).update_column("l.element", LONG).update_column("m.value", DoubleType()).apply().schema
    assert (after.find("l.element").type, after.find("m.value").type) == (LONG, DoubleType())
    with pytest.raises(InvalidEvolution, match="keys of a map"):
        evolve(schema).update_column("m.key", LONG)


def test_an_unknown_column_becomes_a_struct_with_fresh_ids():
    after = evolve(Schema((optional(1, "u", UnknownType()),)), 3).update_column("u", POINT).apply()
    assert after.schema.find("u.y").id == after.last_column_id == 22
    assert [field.name for field in after.changes.added[1]] == ["x", "y"]


@pytest.mark.parametrize("text", ["identity", "bucket[4]", "later[2]"])
def test_a_date_does_not_become_a_timestamp_if_its_partition_values_would_change(text):
    evolution = evolve(Schema((optional(1, "d", DateType()),)), 3, partition_sources={1: [parse_transform(text)]})
    with pytest.raises(InvalidEvolution, match="partitioned by"):
        evolution.update_column("d", TimestampType())


@pytest.mark.parametrize("text", ["year", "month", "day", "void"])
def test_a_date_becomes_a_timestamp_if_its_partition_values_stay(text):
    evolution = evolve(Schema((optional(1, "d", DateType()),)), 3, partition_sources={1: [parse_transform(text)]})
    assert named(evolution.update_column("d", TimestampType()), "d").type == TimestampType()


def test_a_bucketed_integer_may_become_long():
    evolution = evolve(partition_sources={1: [parse_transform("bucket[4]"), parse_transform("truncate[10]")]})
    assert named(evolution.update_column("id", LONG), "id").type == LONG


def test_defaults_are_promoted_with_their_type():
    schema = Schema((NestedField(1, "d", DateType(), initial_default=1, write_default=-2),))
    column = named(evolve(schema, 3).update_column("d", TimestampType()), "d")
    assert (column.initial_default, column.write_default) == (86_400_000_000, -172_800_000_000)
    far = Schema((NestedField(1, "d", DateType(), initial_default=200_000, write_default=None),))
    with pytest.raises(InvalidEvolution, match="outside the range"):
        evolve(far, 3).update_column("d", TimestampNsType())


# required and optional


def test_required_becomes_optional_and_only_by_force_the_other_way():
    assert named(evolve().make_optional("place.lat"), "place.lat").optional
    assert named(evolve().require_column("place.lat"), "place.lat").required
    with pytest.raises(InvalidEvolution, match="old rows may hold nulls"):
        evolve().require_column("name")
    assert named(evolve(allow_incompatible=True).require_column("name"), "name").required
    assert named(evolve(allow_incompatible=True).require_column("points.element"), "points.element").required


def test_a_new_column_with_a_default_may_become_required():
    assert named(evolve(version=3).add_column("n", INT, default=0).require_column("n"), "n").required
    with pytest.raises(InvalidEvolution, match="old rows may hold nulls"):
        evolve(version=3).add_column("n", INT).require_column("n")


def test_an_identifier_column_stays_required():
    with pytest.raises(InvalidEvolution, match="is optional"):
        evolve().make_optional("id").apply()


# defaults


@pytest.mark.parametrize("version", [1, 2])
def test_defaults_need_version_three(version):
    with pytest.raises(InvalidEvolution, match="defaults need format version 3"):
        evolve(version=version).add_column("n", INT, default=0)
    with pytest.raises(InvalidEvolution, match="defaults need format version 3"):
        evolve(version=version).update_column("name", default="")
    with pytest.raises(InvalidEvolution, match="defaults need format version 3"):
        evolve(version=version).add_column("s", StructType((NestedField(1, "x", INT, initial_default=0),)))


@pytest.mark.parametrize(
    ("type_", "given_default", "stored"),
    [
        (INT, 0, 0),
        (TEXT, "", ""),
        (BooleanType(), False, False),
        (BinaryType(), b"", b""),
        (DateType(), dt.date(1970, 1, 2), 1),
        (DecimalType(9, 2), "1.50", Decimal("1.50")),
    ],
)
def test_a_default_is_stored_canonically_as_both_defaults(type_, given_default, stored):
    column = named(evolve(version=3).add_column("n", type_, default=given_default, required=True), "n")
    assert (column.initial_default, column.write_default, column.required) == (stored, stored, True)


def test_a_default_must_fit_its_type():
    with pytest.raises(InvalidValue, match="default of column 'n'"):
        evolve(version=3).add_column("n", INT, default=2**31)
    with pytest.raises(InvalidValue, match="default of column 'id'"):
        evolve(version=3).update_column("id", default="many")


def test_a_later_default_leaves_the_initial_one_alone():
    schema = evolve(version=3).add_column("n", INT, default=1).apply().schema
    changed = named(evolve(schema, 3).update_column("n", default=0), "n")
    assert (changed.initial_default, changed.write_default) == (1, 0)
    unset = named(evolve(schema, 3).unset_default("n"), "n")
    assert (unset.initial_default, unset.write_default) == (1, None)


def test_a_new_required_column_keeps_its_default():
    with pytest.raises(InvalidEvolution, match="must keep a default"):
        evolve(version=3).add_column("n", INT, default=1, required=True).unset_default("n")


def test_a_struct_defaults_to_null_or_to_its_fields_defaults():
    filled = StructType((NestedField(1, "x", INT, True, initial_default=1, write_default=2),))
    column = named(evolve(version=3).add_column("s", filled, default={}, required=True), "s")
    assert (column.initial_default, column.write_default) == ({}, {})
    assert isinstance(column.type, StructType)
    assert (column.type.fields[0].initial_default, column.type.fields[0].write_default) == (1, 2)
    with pytest.raises(InvalidEvolution, match=r"null or \{\}"):
        evolve(version=3).add_column("s", filled, default={"x": 1})
    with pytest.raises(InvalidEvolution, match="required field 'x' has no default"):
        evolve(version=3).add_column("s", POINT, default={})


@pytest.mark.parametrize("type_", [UnknownType(), VariantType(), GeometryType()])
def test_some_types_only_default_to_null(type_):
    with pytest.raises(InvalidEvolution, match="can only default to null"):
        evolve(version=3).add_column("n", type_, default=b"\0")
    assert named(evolve(version=3).add_column("n", type_), "n").initial_default is None


# moving


def test_columns_move_within_their_struct():
    evolution = evolve().move_first("tags").move_before("name", "id").move_after("place", "points")
    assert evolution.apply().schema.columns == ["tags", "name", "id", "points", "place"]
    nested = evolve().move_first("place.long").move_after("points.x", "points.y").apply().schema
    assert [nested.name_of(number) for number in (7, 6)] == ["place.long", "place.lat"]
    assert [field.id for field in walk(nested.find("place").type)] == [7, 6]
    assert [field.id for field in walk(nested.find("points.element").type)] == [11, 10]


def test_new_columns_are_placed_and_moved():
    evolution = (
        evolve().add_column("a", INT, position=Position.first()).add_column("b", INT, position=Position.after("a"))
    )
    evolution = (
        evolution.add_column("place.alt", INT, position=Position.before("long"))
        .add_column("c", INT)
        .move_before("c", "b")
    )
    after = evolution.apply().schema
    assert after.columns[:4] == ["a", "c", "b", "id"]
    assert [field.name for field in walk(after.find("place").type)] == ["lat", "alt", "long"]


def test_columns_do_not_move_to_another_struct_or_beside_themselves():
    with pytest.raises(InvalidEvolution, match="another struct"):
        evolve().move_after("name", "place.lat")
    with pytest.raises(InvalidEvolution, match="another struct"):
        evolve().move_before("place.lat", "name")
    with pytest.raises(InvalidEvolution, match="itself"):
        evolve().move_after("name", "name")


# identifiers


def test_identifier_fields_may_be_new_renamed_or_nested():
    base = Schema((required(1, "a", INT), required(2, "s", StructType((required(3, "b", INT),)))))
    evolution = evolve(base, 3).set_identifier_fields(["a", "s.c", "n"]).rename_column("s.b", "c")
    assert evolution.add_column("n", INT, default=0, required=True).apply().schema.identifier_field_ids == (1, 3, 21)


def test_identifier_fields_must_exist_be_required_and_not_floating():
    with pytest.raises(ColumnNotFound, match="'nothing'"):
        evolve().set_identifier_fields(["nothing"]).apply()
    with pytest.raises(InvalidEvolution, match="optional"):
        evolve().set_identifier_fields(["name"]).apply()
    floating = Schema((required(1, "f", FloatType()),))
    with pytest.raises(InvalidEvolution, match="cannot identify rows"):
        evolve(floating).set_identifier_fields(["f"]).apply()


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


# properties


NAMES = st.sampled_from(
    ["id", "name", "place", "a", "b", "place.lat", "place.a", "points.x", "points.a", "tags.v", "tags.b"]
)
TYPES = st.sampled_from([INT, LONG, TEXT, POINT, list_of(1, POINT), map_of(1, INT, 2, LONG)])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("add_column"), NAMES, TYPES),
        st.tuples(st.just("drop_column"), NAMES),
        st.tuples(st.just("rename_column"), NAMES, st.sampled_from(["a", "b", "c", "name"])),
        st.tuples(st.just("update_column"), NAMES, TYPES),
        st.tuples(st.just("make_optional"), NAMES),
        st.tuples(st.just("move_first"), NAMES),
        st.tuples(st.just("move_after"), NAMES, NAMES),
        st.tuples(st.just("commit")),
    ),
    max_size=25,
)


@given(CHANGES)
def test_any_series_of_changes_keeps_ids_unique_stable_and_never_used_again(changes):
    schema, last = Schema(SCHEMA.fields), 20
    seen = {number: schema.name_of(number) for number in schema.field_ids}
    dropped: set[int] = set()
    evolution = SchemaEvolution(schema, last, 2)
    for name, *arguments in [*changes, ("commit",)]:
        if name != "commit":
            try:
                evolution = getattr(evolution, name)(*arguments)
            except FrazilError:
                continue
            continue
        try:
            after = evolution.apply()
        except FrazilError:
            evolution = SchemaEvolution(schema, last, 2)
            continue
        fresh = after.schema.field_ids - schema.field_ids
        assert not fresh & seen.keys()
        assert all(last < number <= after.last_column_id for number in fresh)
        dropped |= schema.field_ids - after.schema.field_ids
        assert not dropped & after.schema.field_ids
        for number in schema.field_ids & after.schema.field_ids:
            before_field, after_field = schema.field_by_id(number), after.schema.field_by_id(number)
            assert before_field is not None
            assert after_field is not None
            assert schema.parent_id(number) == after.schema.parent_id(number)
            old_name, new_name = schema.name_of(number), after.schema.name_of(number)
            assert new_name == after.changes.moved_names.get(str(old_name), old_name)
            if not before_field.type.is_nested:
                assert can_promote(before_field.type, after_field.type, 2)
        assert Schema.from_json(after.schema.to_json()) == after.schema
        schema, last = after.schema, after.last_column_id
        seen |= {number: schema.name_of(number) for number in schema.field_ids}
        evolution = SchemaEvolution(schema, last, 2)


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
