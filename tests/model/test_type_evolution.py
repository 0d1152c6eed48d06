"""Types and defaults of columns as a schema evolves: promotions, and what a default may be."""

import datetime as dt
from decimal import Decimal

import pytest

from frazil.errors import InvalidEvolution, InvalidValue
from frazil.model.promotion import can_promote, check_promotion
from frazil.model.schema import Schema
from frazil.model.transforms import parse_transform
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeometryType,
    NestedField,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzType,
    UnknownType,
    VariantType,
    list_of,
    map_of,
)
from tests.model.evolved_schema import INT, LONG, POINT, TEXT, evolve, named, optional

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
