"""Columns by field id: renames, order, promotion, defaults, partitions and name mappings, in every format."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.errors import MalformedData, MalformedMetadata
from frazil.io.resolve import Resolver, file_fields
from frazil.model.name_mapping import NameMapping
from frazil.model.schema import Schema
from frazil.model.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
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
)
from tests.io.data_file_samples import batch_of, memory, read, write

FORMATS = ("parquet", "orc", "avro")
DAY = 86_400_000_000


def struct(*fields: NestedField) -> StructType:
    return StructType(fields)


WRITTEN = Schema(
    (
        NestedField(1, "a", IntegerType()),
        NestedField(2, "b", StringType()),
        NestedField(3, "s", struct(NestedField(4, "x", IntegerType()), NestedField(5, "y", StringType()))),
        NestedField(6, "l", list_of(7, struct(NestedField(8, "p", FloatType()), NestedField(9, "q", LongType())))),
        NestedField(10, "m", map_of(11, StringType(), 12, struct(NestedField(13, "v", IntegerType())))),
    )
)
ROWS: list[dict[int, Any]] = [
    {1: 1, 2: "one", 3: {4: 10, 5: "y"}, 6: [{8: 0.5, 9: 1}, None], 10: [("k", {13: 5}), ("n", None)]},
    {1: None, 2: None, 3: None, 6: None, 10: None},
    {1: 3, 2: "", 3: {4: None, 5: None}, 6: [], 10: []},
]


@pytest.fixture(params=FORMATS)
def file_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def location(file_format: str) -> str:
    return write("resolve", batch_of(WRITTEN, ROWS), WRITTEN, file_format).location


def test_names_and_order_mean_nothing_at_any_level(location: str, file_format: str) -> None:
    wanted = Schema(
        (
            NestedField(10, "renamed", map_of(11, StringType(), 12, struct(NestedField(13, "w", LongType())))),
            NestedField(6, "m", list_of(7, struct(NestedField(9, "p", LongType()), NestedField(8, "q", DoubleType())))),
            NestedField(3, "b", struct(NestedField(5, "x", StringType()), NestedField(4, "y", LongType()))),
            NestedField(1, "s", LongType()),
        )
    )
    assert read(location, wanted, file_format).to_pylist() == [
        {
            "renamed": [("k", {"w": 5}), ("n", None)],
            "m": [{"p": 1, "q": 0.5}, None],
            "b": {"x": "y", "y": 10},
            "s": 1,
        },
        {"renamed": None, "m": None, "b": None, "s": None},
        {"renamed": [], "m": [], "b": {"x": None, "y": None}, "s": 3},
    ]


def test_a_name_used_again_is_another_column(location: str, file_format: str) -> None:
    again = Schema((NestedField(99, "a", IntegerType()), NestedField(1, "old_a", IntegerType())))
    assert read(location, again, file_format).to_pylist()[0] == {"a": None, "old_a": 1}


def test_parts_of_nested_columns_are_projected_alone(location: str, file_format: str) -> None:
    wanted = WRITTEN.select(["s.y", "l.element.q", "m.value.v"])
    assert read(location, wanted, file_format).to_pylist() == [
        {"s": {"y": "y"}, "l": [{"q": 1}, None], "m": [("k", {"v": 5}), ("n", None)]},
        {"s": None, "l": None, "m": None},
        {"s": {"y": None}, "l": [], "m": []},
    ]


def test_a_struct_of_new_fields_only_is_null_where_it_was(location: str, file_format: str) -> None:
    wanted = Schema(
        (
            NestedField(3, "s", struct(NestedField(50, "n", IntegerType(), initial_default=0))),
            NestedField(6, "l", list_of(7, struct(NestedField(51, "n", StringType(), initial_default="")))),
            NestedField(10, "m", map_of(11, StringType(), 12, struct(NestedField(52, "n", LongType())))),
        )
    )
    assert read(location, wanted, file_format).to_pylist() == [
        {"s": {"n": 0}, "l": [{"n": ""}, None], "m": [("k", {"n": None}), ("n", None)]},
        {"s": None, "l": None, "m": None},
        {"s": {"n": 0}, "l": [], "m": []},
    ]


@pytest.mark.parametrize(
    ("default", "stored", "expected"),
    [
        (None, None, None),
        (None, "x", {"x": 3, "y": 0}),
        ({}, None, {"x": 0, "y": 0}),
        ({}, "y", {"x": 0, "y": -1}),
    ],
)
def test_struct_defaults_follow_the_table_in_the_specification(
    file_format: str, default: Any, stored: str | None, expected: Any
) -> None:
    x = NestedField(3, "x", IntegerType(), initial_default=0)
    y = NestedField(4, "y", IntegerType(), initial_default=0)
    fields = [NestedField(1, "id", IntegerType())]
    row: dict[int, Any] = {1: 1}
    if stored is not None:
        fields.append(NestedField(2, "point", struct(x if stored == "x" else y)))
        row[2] = {3: 3} if stored == "x" else {4: -1}
    file_schema = Schema(tuple(fields))
    place = write("point", batch_of(file_schema, [row]), file_schema, file_format).location
    wanted = Schema((NestedField(2, "point", struct(x, y), initial_default=default),))
    assert read(place, wanted, file_format).to_pylist() == [{"point": expected}]


def test_a_required_column_that_is_missing_is_an_error_unless_it_has_a_default(location: str, file_format: str) -> None:
    with pytest.raises(MalformedData, match="'new'"):
        read(location, Schema((NestedField(77, "new", LongType(), required=True),)), file_format)
    default = Schema((NestedField(77, "new", LongType(), required=True, initial_default=0),))
    assert read(location, default, file_format).column("new").to_pylist() == [0, 0, 0]


def test_partition_values_stand_in_only_for_what_the_file_lacks(location: str, file_format: str) -> None:
    wanted = Schema((NestedField(1, "a", LongType()), NestedField(60, "p", StringType(), initial_default="d")))
    got = read(location, wanted, file_format, constants={1: 999, 60: ""})
    assert got.to_pylist()[0] == {"a": 1, "p": ""}
    assert read(location, wanted, file_format, constants={60: None}).column("p").to_pylist() == [None] * 3


@pytest.mark.parametrize(
    ("source", "target", "value", "expected"),
    [
        (IntegerType(), LongType(), -(2**31), -(2**31)),
        (FloatType(), DoubleType(), 0.5, 0.5),
        (DecimalType(5, 2), DecimalType(20, 2), Decimal("-1.25"), Decimal("-1.25")),
        (DateType(), TimestampType(), -1, -DAY),
        (DateType(), TimestampNsType(), 2, 2 * DAY * 1000),
    ],
)
def test_promoted_columns_are_read_as_their_new_type(
    file_format: str, source: Type, target: Type, value: Any, expected: Any
) -> None:
    before, after = Schema((NestedField(1, "c", source),)), Schema((NestedField(1, "c", target),))
    place = write("promoted", batch_of(before, [{1: value}, {1: None}]), before, file_format).location
    want = batch_of(after, [{1: expected}, {1: None}])
    assert read(place, after, file_format).column("c").combine_chunks().equals(want.column("c"))


@pytest.mark.parametrize("days", [110_000, -110_000, 2**31 - 1])
def test_a_date_beyond_nanoseconds_fails_when_it_is_read(file_format: str, days: int) -> None:
    before, after = (Schema((NestedField(1, "c", type_),)) for type_ in (DateType(), TimestampNsType()))
    place = write("range", batch_of(before, [{1: days}]), before, file_format).location
    with pytest.raises(MalformedData, match="range"):
        read(place, after, file_format)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (LongType(), IntegerType()),
        (DoubleType(), FloatType()),
        (DateType(), TimestamptzType()),
        (DecimalType(9, 2), DecimalType(9, 3)),
        (StringType(), LongType()),
        (LongType(), struct(NestedField(2, "x", LongType()))),
        (list_of(2, LongType()), map_of(2, LongType(), 3, LongType())),
        (LongType(), VariantType()),
    ],
)
def test_types_that_do_not_promote_are_refused_by_name(file_format: str, source: Type, target: Type) -> None:
    before, after = Schema((NestedField(1, "c", source),)), Schema((NestedField(1, "c", target),))
    place = write("wrong", batch_of(before, [{}]), before, file_format).location
    with pytest.raises(MalformedData, match="'c'"):
        read(place, after, file_format)


def test_unknown_columns_are_null_and_may_become_any_type(file_format: str) -> None:
    before = Schema((NestedField(1, "id", LongType()), NestedField(2, "u", UnknownType())))
    place = write("unknown", batch_of(before, [{1: 1}]), before, file_format).location
    after = Schema((NestedField(1, "gone", UnknownType()), NestedField(2, "u", list_of(3, StringType()))))
    assert read(place, after, file_format).to_pylist() == [{"gone": None, "u": None}]


# Name mappings (Parquet; the other formats have theirs).


def plain_file() -> str:
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "a.b": ["dotted", None],
            "s": [{"x": 1, "skip": 2}, None],
            "l": pa.array([[{"e": True}], []], pa.list_(pa.field("item", pa.struct([("e", pa.bool_())])))),
            "m": pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64())),
            "part": ["from the file", "from the file"],
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, use_compliant_nested_type=False, store_schema=False)
    memory().write("memory://samples/data/mapping.parquet", sink.getvalue().to_pybytes())
    return "memory://samples/data/mapping.parquet"


MAPPED = Schema(
    (
        NestedField(1, "key", LongType()),
        NestedField(2, "dotted", StringType()),
        NestedField(3, "s", struct(NestedField(4, "xx", LongType()), NestedField(5, "skip", LongType()))),
        NestedField(6, "l", list_of(7, struct(NestedField(8, "e", StringType())))),
        NestedField(9, "m", map_of(10, StringType(), 11, DoubleType())),
        NestedField(12, "part", StringType()),
        NestedField(13, "new", LongType(), initial_default=7),
    )
)
MAPPING = """[
  {"field-id": 1, "names": ["key", "id"]}, {"field-id": 2, "names": ["a.b"]},
  {"field-id": 3, "names": ["s"], "fields": [{"field-id": 4, "names": ["x"]}, {"names": ["skip"]}]},
  {"field-id": 9, "names": ["m"], "fields": [{"field-id": 10, "names": ["key"]}, {"field-id": 11, "names": ["value"]}]},
  {"field-id": 12, "names": ["part"]}, {"field-id": 13, "names": []}
]"""


def test_files_without_ids_are_read_by_the_name_mapping() -> None:
    wanted = Schema(tuple(column for column in MAPPED.fields if column.name != "l"))
    got = read(
        plain_file(), wanted, "parquet", name_mapping=NameMapping.from_json(MAPPING), constants={12: "partition"}
    )
    first = {
        "key": 1,
        "dotted": "dotted",
        "s": {"xx": 1, "skip": None},
        "m": [("k", 1.5)],
        "part": "partition",
        "new": 7,
    }
    second = {"key": 2, "dotted": None, "s": None, "m": None, "part": "partition", "new": 7}
    assert got.to_pylist() == [first, second]


def test_a_mapping_is_ignored_where_the_file_has_ids(location: str, file_format: str) -> None:
    wrong = NameMapping.from_json('[{"field-id": 2, "names": ["a"]}]')
    assert (
        read(location, Schema((WRITTEN.fields[1],)), file_format, name_mapping=wrong).column("b").to_pylist()[0]
        == "one"
    )


def test_a_file_without_ids_and_without_mapping_is_refused() -> None:
    with pytest.raises(MalformedData, match="name mapping") as caught:
        read(plain_file(), MAPPED, "parquet")
    assert "schema.name-mapping.default" in str(caught.value.hint)


def test_name_mappings_survive_their_json() -> None:
    mapping = NameMapping.from_json(MAPPING)
    assert NameMapping.from_json(mapping.to_json()) == mapping
    everything = NameMapping.of_schema(MAPPED)
    found = everything.find("l")
    assert found is not None
    assert found.fields.find("element") is not None
    for bad in ("{}", "[1]", '[{"field-id": 1}]', "nonsense", '[{"names": ["a"], "field-id": "x"}]'):
        with pytest.raises(MalformedMetadata):
            NameMapping.from_json(bad)


def test_only_the_physical_columns_that_are_needed_are_read() -> None:
    file = pq.ParquetFile(memory().open_input(write("leaves", batch_of(WRITTEN, ROWS), WRITTEN, "parquet").location))
    fields = file_fields("x", file.schema_arrow)

    def leaves(*names: str) -> list[int]:
        return Resolver("x", WRITTEN.select(names), fields, {}).leaves

    assert leaves("a") == [0]
    assert leaves("s.y", "b") == [1, 3]
    assert leaves("l.element.q") == [5]
    assert leaves("m.value.v") == [6, 7]
    assert Resolver("x", Schema((NestedField(99, "z", LongType()),)), fields, {}).leaves == []
