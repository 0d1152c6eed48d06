"""Partition specs: terms, names, types, paths, JSON, and the evolution of specs."""

from __future__ import annotations

import contextlib
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ColumnNotFound, FrazilError, InvalidArgument, InvalidEvolution, InvalidSchema, InvalidValue
from frazil.model.partition import (
    UNPARTITIONED,
    PartitionField,
    PartitionSpec,
    parse_partition_by,
    unified_partition_type,
)
from frazil.model.schema import Schema
from frazil.model.spec_evolution import evolve_spec
from frazil.model.terms import parse_term
from frazil.model.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from frazil.model.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeometryType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    list_of,
)

SCHEMA = Schema(
    (
        NestedField(1, "id", LongType(), True),
        NestedField(2, "ts", TimestampType()),
        NestedField(3, "s", StringType()),
        NestedField(4, "a", StructType((NestedField(5, "b", DateType()), NestedField(6, "odd name", StringType())))),
        NestedField(7, "tags", list_of(8, StringType())),
        NestedField(9, "shape", GeometryType()),
        NestedField(10, "ts_year", IntegerType()),
    )
)


def spec_of(*terms: str) -> PartitionSpec:
    return parse_partition_by(SCHEMA, terms)


@pytest.mark.parametrize(
    ("term", "source", "transform", "name"),
    [
        ("id", 1, IdentityTransform(), "id"),
        ("identity(id)", 1, IdentityTransform(), "id"),
        ("void(id)", 1, VoidTransform(), "id_null"),
        ("day(ts)", 2, DayTransform(), "ts_day"),
        (" Days( ts ) ", 2, DayTransform(), "ts_day"),
        ("hours(ts)", 2, HourTransform(), "ts_hour"),
        ("year(a.b)", 5, YearTransform(), "a.b_year"),
        ("bucket(16, id)", 1, BucketTransform(16), "id_bucket"),
        ("BUCKET(16,id)", 1, BucketTransform(16), "id_bucket"),
        ("truncate(4, s)", 3, TruncateTransform(4), "s_trunc"),
        ("truncate(s, 4)", 3, TruncateTransform(4), "s_trunc"),
        ("`s`", 3, IdentityTransform(), "s"),
        ("a.`odd name`", 6, IdentityTransform(), "a.odd name"),
        ("truncate(4, `a`.`odd name`)", 6, TruncateTransform(4), "a.odd name_trunc"),
        ("bucket(4, id) AS shard", 1, BucketTransform(4), "shard"),
        ("years(ts) as `the year`", 2, YearTransform(), "the year"),
    ],
)
def test_terms_name_a_column_a_transform_and_a_field(term: str, source: int, transform: Any, name: str) -> None:
    assert spec_of(term) == PartitionSpec(0, (PartitionField((source,), 1000, name, transform),))


@pytest.mark.parametrize(
    "term",
    ["", " ", "day()", "day(ts", "day(ts))", "bucket(id)", "bucket(x, id)", "bucket(1, 2, id)", "zorder(id)", "day ts"],
)
def test_what_is_no_term_is_refused(term: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_term(term)


@given(st.text("abc(),.`[]16 AS", max_size=16))
def test_no_text_ends_in_a_bare_python_error(text: str) -> None:
    with contextlib.suppress(FrazilError):
        spec_of(text)


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        (["day(id)"], "cannot transform"),
        (["tags"], "not primitive"),
        (["tags.element"], "list or map"),
        (["shape"], "cannot transform"),
        (["hour(a.b)"], "cannot transform"),
        (["bucket(0, id)"], "positive"),
        (["day(ts)", "hour(ts)"], "redundant"),
        (["id", "identity(id) AS other"], "redundant"),
        (["bucket(4, id)", "bucket(8, id)"], "'id_bucket'"),
        (["year(ts)"], "like a column"),
        (["day(ts) AS ts"], "like a column"),
        (["id AS s"], "like a column"),
    ],
)
def test_specs_that_java_refuses_are_refused(terms: list[str], reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        spec_of(*terms)


def test_a_source_that_is_not_there_is_named() -> None:
    with pytest.raises(ColumnNotFound, match="idd"):
        spec_of("bucket(4, idd)")


def test_the_json_is_that_of_the_specification() -> None:
    spec = PartitionSpec(
        3,
        (
            PartitionField((4,), 1000, "ts_day", DayTransform()),
            PartitionField((1,), 1001, "id_bucket", BucketTransform(16)),
        ),
    )
    document = {
        "spec-id": 3,
        "fields": [
            {"source-id": 4, "field-id": 1000, "name": "ts_day", "transform": "day"},
            {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[16]"},
        ],
    }
    assert spec.to_json() == document
    assert PartitionSpec.from_json(document) == spec
    assert PartitionSpec.from_json(document["fields"], 3) == spec  # type: ignore[arg-type]


def test_fields_of_v1_without_ids_count_from_1000() -> None:
    listed = [
        {"source-id": 4, "name": "a", "transform": "day"},
        {"source-id": 1, "name": "b", "transform": "identity"},
    ]
    assert [field.field_id for field in PartitionSpec.from_json(listed).fields] == [1000, 1001]
    with pytest.raises(InvalidSchema):
        PartitionSpec.from_json([listed[0], {**listed[1], "field-id": 1001}])


def test_several_sources_are_kept_and_their_transform_is_unknown() -> None:
    document = {"source-ids": [1, 2], "field-id": 1000, "name": "z", "transform": "bucket[4]"}
    spec = PartitionSpec.from_json([document])
    assert spec.fields[0].source_ids == (1, 2)
    assert spec.fields[0].transform == UnknownTransform("bucket[4]")
    assert spec.has_unknown_transform
    assert spec.to_json()["fields"] == [document]
    single = PartitionSpec.from_json([{**document, "source-ids": [1]}])
    assert single.to_json()["fields"] == [{"source-id": 1, "field-id": 1000, "name": "z", "transform": "bucket[4]"}]


@pytest.mark.parametrize(
    "document",
    [
        5,
        {},
        {"spec-id": 0},
        {"spec-id": "0", "fields": []},
        {"spec-id": 0, "fields": [5]},
        {"spec-id": 0, "fields": [{"field-id": 1000, "name": "a", "transform": "day"}]},
        {"spec-id": 0, "fields": [{"source-id": 1.5, "field-id": 1000, "name": "a", "transform": "day"}]},
        {"spec-id": 0, "fields": [{"source-ids": [], "field-id": 1000, "name": "a", "transform": "day"}]},
        {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "a", "transform": 5}]},
        {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "a", "transform": "bucket[0]"}]},
        {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "a", "transform": "day"}] * 2},
    ],
)
def test_malformed_json_is_refused(document: Any) -> None:
    with pytest.raises(InvalidSchema):
        PartitionSpec.from_json(document)


def test_a_spec_of_dropped_fields_is_unpartitioned() -> None:
    assert UNPARTITIONED.is_unpartitioned
    assert spec_of("void(id)").is_unpartitioned
    assert not spec_of("void(id)", "s").is_unpartitioned
    assert UNPARTITIONED.last_field_id == 999


def test_fields_are_found_by_source() -> None:
    spec = spec_of("id", "bucket(4, id)", "day(ts)")
    assert [field.name for field in spec.fields_by_source_id(1)] == ["id", "id_bucket"]
    assert spec.identity_source_ids() == {1}
    assert spec.fields_by_source_id(3) == ()


def test_specs_are_compatible_whatever_their_ids() -> None:
    one = spec_of("id", "day(ts)")
    other = PartitionSpec(
        7,
        (
            PartitionField((1,), 1005, "id", IdentityTransform()),
            PartitionField((2,), 1009, "ts_day", DayTransform()),
        ),
    )
    assert one.compatible_with(other)
    assert not one.compatible_with(spec_of("day(ts)", "id"))
    assert not one.compatible_with(spec_of("id"))
    assert not spec_of("bucket(4, id)").compatible_with(spec_of("bucket(8, id)"))
    assert not spec_of("bucket(4, id)").compatible_with(spec_of("bucket(4, id) AS shard"))


def test_partition_values_have_the_types_of_their_transforms() -> None:
    spec = spec_of("id", "day(ts)", "bucket(4, s)", "truncate(2, s)", "void(ts)")
    assert spec.partition_type(SCHEMA) == StructType(
        (
            NestedField(1000, "id", LongType()),
            NestedField(1001, "ts_day", DateType()),
            NestedField(1002, "s_bucket", IntegerType()),
            NestedField(1003, "s_trunc", StringType()),
            NestedField(1004, "ts_null", TimestampType()),
        )
    )


def test_the_type_of_a_dropped_source_is_unknown_where_the_transform_keeps_it() -> None:
    rest = SCHEMA.select(["ts_year"])
    spec = spec_of("id", "day(ts)", "bucket(4, s)", "truncate(2, s)")
    assert [field.type for field in spec.partition_type(rest).fields] == [
        UnknownType(),
        DateType(),
        IntegerType(),
        UnknownType(),
    ]
    spec.check(rest, allow_missing=True)
    with pytest.raises(InvalidSchema, match="lacks"):
        spec.check(rest)
    spec_of("void(id)").check(rest)


PATH_SCHEMA = Schema(
    (
        NestedField(1, "p_float", FloatType()),
        NestedField(2, "p_double", DoubleType()),
        NestedField(3, "p_dec9", DecimalType(9, 2)),
        NestedField(4, "p_date", DateType()),
        NestedField(5, "p_time", TimeType()),
        NestedField(6, "p_tstz", TimestamptzType()),
        NestedField(7, "p_string", StringType()),
        NestedField(8, "p_fixed", FixedType(5)),
        NestedField(9, "p_binary", BinaryType()),
    )
)


@pytest.mark.parametrize(
    ("values", "path"),
    [
        (
            (
                math.nan,
                0.0,
                Decimal("-991698.36"),
                1517,
                36504062208,
                0,
                "a/b c=d%20é&?#",
                b"\x89\x04\xaf\xd6\xbd",
                b"",
            ),
            (
                "p_float=NaN/p_double=0.0/p_dec9=-991698.36/p_date=1974-02-26/p_time=10%3A08%3A24.062208/"
                "p_tstz=1970-01-01T00%3A00%3A00%2B00%3A00/p_string=a%2Fb+c%3Dd%2520%C3%A9%26%3F%23/p_fixed=iQSv1r0%3D/p_binary="
            ),
        ),
        (
            (-0.0, -1.7976931348623157e308, None, -719162, 0, None, "~*-_.", None, b"\xff\xff"),
            (
                "p_float=-0.0/p_double=-1.7976931348623157E308/p_dec9=null/p_date=0001-01-01/p_time=00%3A00/p_tstz=null/"
                "p_string=%7E*-_./p_fixed=null/p_binary=%2F%2F8%3D"
            ),
        ),
    ],
    ids=["ordinary", "extreme"],
)
def test_paths_are_those_of_java(values: tuple[Any, ...], path: str) -> None:
    spec = parse_partition_by(PATH_SCHEMA, PATH_SCHEMA.columns)
    assert spec.partition_path(PATH_SCHEMA, values) == path


def test_paths_show_parts_of_time_and_encode_names() -> None:
    spec = spec_of("hour(ts) AS `h/h`", "year(a.b)", "bucket(4, s)")
    assert spec.partition_path(SCHEMA, (-1, 47, 3)) == "h%2Fh=1969-12-31-23/a.b_year=2017/s_bucket=3"
    assert spec.partition_path(SCHEMA, (None, None, None)) == "h%2Fh=null/a.b_year=null/s_bucket=null"
    with pytest.raises(InvalidValue):
        spec.partition_path(SCHEMA, (1,))


def test_the_unified_type_has_every_field_with_its_newest_name() -> None:
    first = spec_of("id", "day(ts)")
    dropped = PartitionField((1,), 1000, "id_1000", VoidTransform())
    second = PartitionSpec(1, (dropped, PartitionField((2,), 1001, "d", DayTransform())))
    third = PartitionSpec(2, (*second.fields, PartitionField((3,), 1002, "s", IdentityTransform())))
    assert unified_partition_type(SCHEMA, [third, first, second]) == StructType(
        (
            NestedField(1000, "id_1000", LongType()),
            NestedField(1001, "d", DateType()),
            NestedField(1002, "s", StringType()),
        )
    )
    rest = SCHEMA.select(["id", "ts"])
    assert [field.id for field in unified_partition_type(rest, [first, third], active_only=True).fields] == [1000, 1001]


def test_the_unified_type_tells_fields_of_one_name_apart() -> None:
    first = spec_of("bucket(4, id)")
    second = PartitionSpec(1, (PartitionField((1,), 1001, "id_bucket", BucketTransform(8)),))
    names = [field.name for field in unified_partition_type(SCHEMA, [first, second]).fields]
    assert names == ["id_bucket_1000", "id_bucket"]


def test_specs_of_v1_that_used_one_id_for_two_things_conflict() -> None:
    with pytest.raises(InvalidSchema, match="conflict"):
        unified_partition_type(SCHEMA, [spec_of("id"), PartitionSpec(1, spec_of("s").fields)])


# Evolution


def evolve(
    version: int, specs: list[PartitionSpec], adds: list[str], removes: list[str], renames: dict[str, str] | None = None
) -> tuple[PartitionSpec, int]:
    last = max(spec.last_field_id for spec in specs)
    return evolve_spec(SCHEMA, specs, specs[-1], last, version, adds, removes, renames)


def test_added_fields_get_new_ids_and_sized_names() -> None:
    spec, last = evolve(2, [spec_of("day(ts)")], ["bucket(16, id)", "truncate(4, s)", "a.b AS d"], [])
    assert spec.spec_id == 1
    assert last == 1003
    assert [(field.field_id, field.name) for field in spec.fields] == [
        (1000, "ts_day"),
        (1001, "id_bucket_16"),
        (1002, "s_trunc_4"),
        (1003, "d"),
    ]


def test_removed_fields_are_gone_in_v2_and_void_in_v1() -> None:
    first = spec_of("id", "day(ts)")
    spec, last = evolve(2, [first], [], ["id"])
    assert [str(field) for field in spec.fields] == ["1001: ts_day: day(2)"]
    assert last == 1001
    spec, last = evolve(1, [first], [], ["id"])
    assert [str(field) for field in spec.fields] == ["1000: id: void(1)", "1001: ts_day: day(2)"]
    assert last == 1001


def test_fields_are_removed_by_term_too() -> None:
    spec, _ = evolve(2, [spec_of("bucket(4, id) AS shard", "day(ts)")], [], ["bucket(4, id)", "days(ts)"])
    assert spec.fields == ()


def test_a_field_added_back_has_its_old_id_and_name_in_v2() -> None:
    first = spec_of("bucket(4, id) AS shard", "day(ts)")
    second, _ = evolve(2, [first], [], ["shard"])
    third, last = evolve(2, [first, second], ["bucket(4, id)"], [])
    assert [(field.field_id, field.name) for field in third.fields] == [(1001, "ts_day"), (1000, "shard")]
    assert last == 1001
    named, last = evolve(2, [first, second], ["bucket(4, id) AS other"], [])
    assert named.fields[-1].field_id == 1002
    assert last == 1002


def test_a_field_added_back_in_v1_goes_to_the_end() -> None:
    first = spec_of("id", "day(ts)")
    second, _ = evolve(1, [first], [], ["id"])
    third, last = evolve(1, [first, second], ["id"], [])
    assert [str(field) for field in third.fields] == [
        "1000: id_1000: void(1)",
        "1001: ts_day: day(2)",
        "1002: id: identity(1)",
    ]
    assert last == 1002


def test_removing_and_adding_the_same_changes_nothing() -> None:
    first = spec_of("id", "day(ts)")
    assert evolve(2, [first], ["id"], ["id"]) == (first, 1001)
    renamed, _ = evolve(2, [first], ["id AS `key`"], ["id"])
    assert [(field.field_id, field.name) for field in renamed.fields] == [(1000, "key"), (1001, "ts_day")]


def test_an_equivalent_spec_is_used_again() -> None:
    first = spec_of("id", "day(ts)")
    second, last = evolve(2, [first], [], ["ts_day"])
    specs = [first, second]
    assert evolve(2, specs, ["day(ts)"], []) == (first, last)
    assert evolve_spec(SCHEMA, [UNPARTITIONED], UNPARTITIONED, 999, 2, [], []) == (UNPARTITIONED, 999)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_finer_part_of_time_replaces_a_coarser(version: int) -> None:
    spec, _ = evolve(version, [spec_of("day(ts)")], ["hour(ts)"], ["ts_day"])
    assert [str(field.transform) for field in spec.fields] == (["void", "hour"] if version == 1 else ["hour"])


def test_a_name_of_a_removed_field_can_be_given_again() -> None:
    first = spec_of("bucket(4, id) AS shard")
    spec, _ = evolve(2, [first], ["bucket(8, id) AS shard"], ["shard"])
    assert [str(field) for field in spec.fields] == ["1001: shard: bucket[8](1)"]
    spec, _ = evolve(1, [first], ["bucket(8, id) AS shard"], ["shard"])
    assert [str(field) for field in spec.fields] == ["1000: shard_1000: void(1)", "1001: shard: bucket[8](1)"]


def test_fields_are_renamed() -> None:
    first = spec_of("bucket(4, id)", "day(ts)")
    spec, last = evolve(2, [first], [], [], {"id_bucket": "shard"})
    assert [(field.field_id, field.name) for field in spec.fields] == [(1000, "shard"), (1001, "ts_day")]
    assert last == 1001
    swapped, _ = evolve(2, [first], [], [], {"id_bucket": "ts_day", "ts_day": "id_bucket"})
    assert [field.name for field in swapped.fields] == ["ts_day", "id_bucket"]


def test_a_name_of_a_void_field_can_be_given_to_another() -> None:
    void = PartitionField((1,), 1000, "shard", VoidTransform())
    spec = PartitionSpec(0, (void, PartitionField((2,), 1001, "ts_day", DayTransform())))
    spec, _ = evolve(1, [spec], [], [], {"ts_day": "shard"})
    assert [field.name for field in spec.fields] == ["shard_1000", "shard"]


@pytest.mark.parametrize(
    ("adds", "removes", "renames", "reason"),
    [
        (["bucket(4, id)"], [], {}, "already"),
        (["s", "s AS t"], [], {}, "already"),
        (["day(a.b)", "month(a.b)"], [], {}, "redundant"),
        (["bucket(8, id) AS id_bucket"], [], {}, "'id_bucket'"),
        ([], ["nothing"], {}, "remove"),
        ([], [], {"nothing": "x"}, "rename"),
        ([], ["id_bucket"], {"id_bucket": "x"}, "both"),
        ([], [], {"id_bucket": "ts_day"}, "'ts_day'"),
        (["s AS id"], [], {}, "like another column"),
        ([], [], {"id_bucket": "s"}, "like another column"),
        ([], [], {"id_bucket": ""}, "like another column"),
    ],
)
def test_changes_that_java_refuses_are_refused(
    adds: list[str], removes: list[str], renames: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidEvolution, match=reason):
        evolve(2, [spec_of("bucket(4, id)", "day(ts)")], adds, removes, renames)


def test_a_spec_with_an_unknown_transform_does_not_evolve() -> None:
    unknown = PartitionSpec(0, (PartitionField((1,), 1000, "z", UnknownTransform("zorder")),))
    with pytest.raises(InvalidEvolution, match="does not know"):
        evolve(3, [unknown], ["s"], [])


def test_ids_of_v1_stay_in_sequence() -> None:
    odd = PartitionSpec(0, (PartitionField((1,), 1005, "id", IdentityTransform()),))
    with pytest.raises(InvalidEvolution, match="v1"):
        evolve(1, [odd], ["s"], [])


TERMS = [
    "id",
    "bucket(4, id)",
    "bucket(8, id)",
    "day(ts)",
    "hour(ts)",
    "s",
    "truncate(2, s)",
    "year(a.b)",
    "month(a.b)",
]


@given(st.sampled_from([1, 2, 3]), st.lists(st.tuples(st.booleans(), st.sampled_from(TERMS)), max_size=10))
def test_ids_mean_one_thing_however_a_spec_evolves(version: int, changes: list[tuple[bool, str]]) -> None:
    specs, current, last = [UNPARTITIONED], UNPARTITIONED, 999
    for adding, term in changes:
        try:
            current, last = evolve_spec(
                SCHEMA, specs, current, last, version, [term] if adding else [], [] if adding else [term]
            )
        except InvalidEvolution:
            continue
        if current not in specs:
            assert not any(current.compatible_with(spec) for spec in specs)
            specs.append(current)
        assert last >= current.last_field_id
    unified_partition_type(SCHEMA, specs)
    if version > 1:
        meanings = {(f.field_id, f.source_id, str(f.transform)) for spec in specs for f in spec.fields}
        assert len({meaning[0] for meaning in meanings}) == len(meanings) == len({m[1:] for m in meanings})
