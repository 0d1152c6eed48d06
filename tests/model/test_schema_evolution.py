from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ColumnNotFound, FrazilError, InvalidEvolution, InvalidSchema
from frazil.model.promotion import can_promote
from frazil.model.schema import Schema
from frazil.model.schema_evolution import Position, SchemaEvolution
from frazil.model.types import (
    DecimalType,
    DoubleType,
    FloatType,
    NestedField,
    StructType,
    TimestampNsType,
    UnknownType,
    VariantType,
    list_of,
    map_of,
    walk,
)
from tests.model.evolved_schema import INT, LONG, POINT, SCHEMA, TEXT, evolve, named, optional, required

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
