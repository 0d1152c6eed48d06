"""Sort orders: terms, JSON, ids, and sorting Arrow tables."""

from __future__ import annotations

import functools
import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import ColumnNotFound, InvalidArgument, InvalidSchema, Unsupported
from frazil.model.schema import Schema
from frazil.model.sorting import (
    UNSORTED,
    SortField,
    SortOrder,
    assign_order_id,
    parse_sort_order,
    sort_indices,
    sort_table,
)
from frazil.model.transforms import BucketTransform, DayTransform, IdentityTransform, UnknownTransform
from frazil.model.types import (
    BooleanType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UnknownType,
    UuidType,
    list_of,
)

SCHEMA = Schema(
    (
        NestedField(1, "id", LongType()),
        NestedField(2, "ts", TimestampType()),
        NestedField(3, "s", StringType()),
        NestedField(4, "x", DoubleType()),
        NestedField(5, "a", StructType((NestedField(6, "b", LongType()),))),
        NestedField(7, "tags", list_of(8, StringType())),
        NestedField(9, "u", UuidType()),
        NestedField(10, "nothing", UnknownType()),
        NestedField(11, "flag", BooleanType()),
    )
)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("id", SortField(IdentityTransform(), (1,))),
        ("id asc", SortField(IdentityTransform(), (1,))),
        ("id DESC", SortField(IdentityTransform(), (1,), "desc", "nulls-last")),
        ("ts DESC NULLS FIRST", SortField(IdentityTransform(), (2,), "desc", "nulls-first")),
        (" s  nulls   last ", SortField(IdentityTransform(), (3,), "asc", "nulls-last")),
        ("bucket(4, id) desc", SortField(BucketTransform(4), (1,), "desc", "nulls-last")),
        ("days(ts)", SortField(DayTransform(), (2,))),
        ("a.b", SortField(IdentityTransform(), (6,))),
        ("`a`.`b` ASC NULLS LAST", SortField(IdentityTransform(), (6,), "asc", "nulls-last")),
    ],
)
def test_a_key_has_a_direction_and_a_place_for_nulls(text: str, field: SortField) -> None:
    assert parse_sort_order(SCHEMA, [text]) == SortOrder(1, (field,))


@pytest.mark.parametrize("text", ["", "  ", "id up", "id desc asc", "day(id)", "tags", "tags.element", "id AS x"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_sort_order(SCHEMA, [text])


def test_no_keys_mean_unsorted() -> None:
    assert parse_sort_order(SCHEMA, []) is UNSORTED
    assert UNSORTED.is_unsorted
    with pytest.raises(InvalidSchema):
        SortOrder(1)
    with pytest.raises(InvalidSchema):
        SortOrder(0, (SortField(IdentityTransform(), (1,)),))


def test_the_json_is_that_of_the_specification() -> None:
    document = {
        "order-id": 1,
        "fields": [
            {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"},
            {"transform": "bucket[4]", "source-id": 3, "direction": "desc", "null-order": "nulls-last"},
        ],
    }
    order = SortOrder.from_json(document)
    assert order.fields[1] == SortField(BucketTransform(4), (3,), "desc", "nulls-last")
    assert order.to_json() == document
    assert SortOrder.from_json({"order-id": 0, "fields": []}) == UNSORTED
    several = {"transform": "z", "source-ids": [1, 2], "direction": "asc", "null-order": "nulls-first"}
    many = SortOrder.from_json({"order-id": 2, "fields": [several]})
    assert many.to_json()["fields"] == [several]
    assert many.has_unknown_transform


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"order-id": 1},
        {"order-id": "1", "fields": []},
        {"order-id": 1, "fields": [{}]},
        {"order-id": 1, "fields": [{"transform": "identity", "source-id": 1, "direction": "up", "null-order": "x"}]},
        {"order-id": 1, "fields": [5]},
    ],
)
def test_malformed_json_is_refused(document: Any) -> None:
    with pytest.raises(InvalidSchema):
        SortOrder.from_json(document)


def test_an_equal_order_keeps_its_id_and_a_new_one_gets_the_next() -> None:
    by_id, by_s = parse_sort_order(SCHEMA, ["id"]), parse_sort_order(SCHEMA, ["s"])
    assert assign_order_id([UNSORTED], by_id).order_id == 1
    assert assign_order_id([UNSORTED, by_id], by_s).order_id == 2
    assert assign_order_id([UNSORTED, SortOrder(5, by_s.fields)], by_s).order_id == 5
    assert assign_order_id([by_id], UNSORTED) is UNSORTED


def test_orders_that_satisfy_others() -> None:
    def satisfies(one: list[str], other: list[str]) -> bool:
        return parse_sort_order(SCHEMA, one).satisfies(parse_sort_order(SCHEMA, other), SCHEMA)

    assert satisfies(["ts", "id"], ["ts"])
    assert satisfies(["ts"], ["days(ts)"])
    assert satisfies(["hours(ts)"], ["days(ts)"])
    assert satisfies(["truncate(4, s)"], ["truncate(2, s)"])
    assert satisfies(["ts"], [])
    assert not satisfies(["days(ts)"], ["ts"])
    assert not satisfies(["ts"], ["ts", "id"])
    assert not satisfies(["ts"], ["ts desc"])
    assert not satisfies(["ts"], ["ts nulls last"])


def test_an_order_is_checked_against_the_schema() -> None:
    order = parse_sort_order(SCHEMA, ["id", "bucket(4, s)"])
    order.check(SCHEMA)
    with pytest.raises(InvalidSchema):
        order.check(SCHEMA.select(["id"]))


NAN, NEGATIVE_NAN = math.nan, struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]


def test_floats_sort_by_their_total_order() -> None:
    expected = [NEGATIVE_NAN, -math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, NAN]
    table = pa.table({"x": pa.array([expected[at] for at in (7, 4, 3, 0, 6, 1, 5, 2)])})
    in_order = sort_table(SCHEMA, parse_sort_order(SCHEMA, ["x"]), table)["x"].to_pylist()
    assert [struct.pack("<d", value) for value in in_order] == [struct.pack("<d", value) for value in expected]
    backwards = sort_table(SCHEMA, parse_sort_order(SCHEMA, ["x desc"]), table)["x"].to_pylist()
    assert [struct.pack("<d", value) for value in backwards] == [struct.pack("<d", value) for value in expected[::-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id", [None, 1, 2]),
        ("id nulls last", [1, 2, None]),
        ("id desc", [2, 1, None]),
        ("id desc nulls first", [None, 2, 1]),
    ],
)
def test_nulls_go_where_the_order_says(text: str, expected: list[int | None]) -> None:
    table = pa.table({"id": [2, None, 1]})
    assert sort_table(SCHEMA, parse_sort_order(SCHEMA, [text]), table)["id"].to_pylist() == expected


def test_keys_may_be_nested_transformed_extensions_or_always_null() -> None:
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"\xff" * 16, b"\0" * 16, b"\x80" * 16], pa.binary(16)))
    table = pa.table(
        {
            "a": pa.array([{"b": 3}, {"b": 1}, None]),
            "u": uuids,
            "ts": pa.array([86_400_000_001, 86_400_000_000, -1]).cast(pa.timestamp("us")),
            "nothing": pa.nulls(3),
            "s": pa.array(["b", "a", "a"]).dictionary_encode(),
            "flag": [True, None, False],
        }
    )

    def positions(*keys: str) -> list[int]:
        indices: list[int] = sort_indices(SCHEMA, parse_sort_order(SCHEMA, keys), table).to_pylist()
        return indices

    assert positions("a.b") == [2, 1, 0]
    assert positions("u") == [1, 2, 0]
    assert positions("days(ts)") == [2, 0, 1]
    assert positions("nothing", "s") == [1, 2, 0]
    assert positions("s", "u desc") == [2, 1, 0]
    assert positions("flag") == [1, 2, 0]
    assert sort_table(SCHEMA, UNSORTED, table) is table


def test_rows_without_the_key_are_refused() -> None:
    with pytest.raises(ColumnNotFound):
        sort_indices(SCHEMA, parse_sort_order(SCHEMA, ["id"]), pa.table({"s": ["a"]}))
    with pytest.raises(ColumnNotFound):
        sort_indices(SCHEMA, SortOrder(1, (SortField(IdentityTransform(), (99,)),)), pa.table({"s": ["a"]}))
    unknown = SortOrder(1, (SortField(UnknownTransform("z"), (1,)),))
    with pytest.raises(Unsupported):
        sort_indices(SCHEMA, unknown, pa.table({"id": [1]}))


def test_an_empty_table_sorts() -> None:
    table = pa.table({"id": pa.chunked_array([], pa.int64()), "x": pa.array([], pa.float64())})
    assert len(sort_table(SCHEMA, parse_sort_order(SCHEMA, ["id", "x desc"]), table)) == 0


ROWS = st.lists(
    st.tuples(st.none() | st.integers(-3, 3), st.none() | st.text("ab", max_size=2), st.none() | st.floats()),
    max_size=12,
)
KEYS = st.tuples(st.booleans(), st.booleans())


@settings(max_examples=60)
@given(ROWS, st.tuples(KEYS, KEYS, KEYS))
def test_sorting_is_stable_and_by_all_keys(rows: list[tuple[Any, ...]], keys: tuple[tuple[bool, bool], ...]) -> None:
    names = ("id", "s", "x")
    terms = [
        f"{name} {'desc' if descending else 'asc'} nulls {'first' if first else 'last'}"
        for name, (descending, first) in zip(names, keys, strict=True)
    ]
    table = pa.table(
        {
            "id": pa.array([row[0] for row in rows], pa.int64()),
            "s": pa.array([row[1] for row in rows], pa.string()),
            "x": pa.array([row[2] for row in rows], pa.float64()),
        }
    )

    def compare(one: int, other: int) -> int:
        for at, (descending, first) in enumerate(keys):
            left, right = _rank(rows[one][at]), _rank(rows[other][at])
            if (left is None) != (right is None):
                return -1 if (left is None) == first else 1
            if left is not None and left != right:
                return (1 if descending else -1) * (1 if left < right else -1)
        return 0

    expected = sorted(range(len(rows)), key=functools.cmp_to_key(compare))
    assert sort_indices(SCHEMA, parse_sort_order(SCHEMA, terms), table).to_pylist() == expected


def _rank(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return bits if bits >= 0 else bits ^ (2**63 - 1)
