"""The variant encoding: round trips, published bytes, hostile bytes, and shredded columns."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidValue, MalformedData
from frazil.model.shredded import assemble
from frazil.model.variant import (
    EMPTY_METADATA,
    Node,
    decode,
    encode,
    metadata_size,
    read_metadata,
    read_node,
    to_json,
    write_metadata,
    write_primitive,
)

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**38) + 1, 10**38 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=80)
    | st.binary(max_size=80)
    | st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**12), max_value=10**12)
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.datetimes(timezones=st.just(dt.UTC))
    | st.uuids()
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5)
)


def expected(value: Any) -> Any:
    """What comes back: whole numbers beyond 64 bits are decimals."""
    if isinstance(value, dict):
        return {name: expected(item) for name, item in value.items()}
    if isinstance(value, list):
        return [expected(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return Decimal(value)
    return value


@given(VALUES)
def test_python_values_come_back_as_they_were(value: Any) -> None:
    metadata, data = encode(value)
    assert decode(metadata, data) == expected(value)
    json.loads(to_json(metadata, data))


@given(st.binary(max_size=30), st.binary(max_size=60))
def test_no_bytes_break_the_reader(metadata: bytes, value: bytes) -> None:
    for dictionary in (metadata, EMPTY_METADATA):
        with contextlib.suppress(MalformedData):
            read_node(dictionary, value)


@given(VALUES, st.data())
def test_a_changed_byte_is_read_or_refused_but_never_a_crash(value: Any, data: st.DataObject) -> None:
    metadata, encoded = encode(value)
    at = data.draw(st.integers(0, len(encoded) - 1))
    changed = encoded[:at] + bytes([data.draw(st.integers(0, 255))]) + encoded[at + 1 :]
    with contextlib.suppress(MalformedData):
        to_json(metadata, changed)


def test_bytes_are_those_of_the_specification() -> None:
    assert encode(None) == (b"\x01\x00\x00", b"\x00")
    assert write_primitive("boolean", True) == b"\x04"
    assert write_primitive("int8", 5) == b"\x0c\x05"
    assert write_primitive("string", "ab") == b"\x09ab"
    assert write_primitive("decimal4", Decimal("1.23")) == b"\x20\x02\x7b\x00\x00\x00"
    assert write_primitive("uuid", uuid.UUID(int=1).bytes) == b"\x50" + bytes(15) + b"\x01"
    assert encode({"b": 1, "a": None}) == (b"\x11\x02\x00\x01\x02ab", b"\x02\x02\x00\x01\x00\x01\x03\x00\x0c\x01")
    assert encode([1])[1] == b"\x03\x01\x00\x02\x0c\x01"


def test_large_dictionaries_objects_and_arrays_use_wider_numbers() -> None:
    value = {f"field{number:05}": [number] * (number % 3) for number in range(1000)}
    assert decode(*encode(value)) == value
    long = ["x" * 300] * 400
    assert decode(*encode(long)) == long


def test_integers_take_the_smallest_type() -> None:
    kinds = [read_node(*encode(value)).kind for value in (127, 128, 2**15, 2**31, 2**63, Decimal("1.5"), 1.5)]
    assert kinds == ["int8", "int16", "int32", "int64", "decimal16", "decimal4", "double"]


def test_times_that_python_cannot_hold_become_text() -> None:
    assert decode(EMPTY_METADATA, write_primitive("timestampntz_nanos", 1)) == "1970-01-01T00:00:00.000000001"
    assert decode(EMPTY_METADATA, write_primitive("date", 10**7)).startswith("+2934")


def test_the_metadata_at_the_start_of_a_bound_is_found() -> None:
    metadata, value = encode({"$['a']": 1})
    assert metadata_size(metadata + value) == len(metadata)
    assert read_metadata(write_metadata(["a", "bc"])) == ["a", "bc"]


@pytest.mark.parametrize(
    ("metadata", "value", "why"),
    [
        (b"", b"\x00", "version"),
        (b"\x02\x00\x00", b"\x00", "version"),
        (b"\x01\x05\x00", b"\x00", "field names"),
        (b"\x01\x01\x00\x09a", b"\x00", "end after"),
        (b"\x01\x02\x00\x02\x01ab", b"\x00", "ascend"),
        (EMPTY_METADATA, b"", "empty"),
        (EMPTY_METADATA, b"\xfc", "unknown"),
        (EMPTY_METADATA, b"\x18\x01", "ends after"),
        (EMPTY_METADATA, b"\x40\xff\xff\xff\xff", "ends after"),
        (EMPTY_METADATA, b"\x13\xff\xff\xff\xff", "claims"),
        (EMPTY_METADATA, b"\x02\x01\x00\x00\x01\x00", "dictionary"),
        (EMPTY_METADATA, b"\x09\xff\xff", "UTF-8"),
        (EMPTY_METADATA, b"\x20\xff\x00\x00\x00\x00", "scale"),
    ],
)
def test_malformed_bytes_say_what_is_wrong(metadata: bytes, value: bytes, why: str) -> None:
    with pytest.raises(MalformedData, match=why):
        read_node(metadata, value)


def test_nesting_is_limited_both_ways() -> None:
    deep: Any = None
    for _ in range(200):
        deep = [deep]
    with pytest.raises(InvalidValue, match="deeper"):
        encode(deep)
    data = b"\x00"
    for _ in range(200):
        size = len(data).to_bytes(2, "little")
        data = b"\x07\x01\x00\x00" + size + data
    with pytest.raises(MalformedData, match="deeper"):
        read_node(EMPTY_METADATA, data)


def test_values_without_a_variant_type_are_refused() -> None:
    with pytest.raises(InvalidValue):
        encode(object())
    with pytest.raises(InvalidValue):
        encode({1: "x"})
    with pytest.raises(InvalidValue, match="38 digits"):
        encode(10**40)


# Shredded columns: what the tests shred by hand must come back whole.


def group(metadata: list[bytes | None], value: list[bytes | None], typed: pa.Array) -> pa.StructArray:
    parts = [pa.array(metadata, pa.binary()), pa.array(value, pa.binary()), typed]
    mask = pa.array([data is None for data in metadata])
    return pa.StructArray.from_arrays(parts, names=["metadata", "value", "typed_value"], mask=mask)


def nodes(array: pa.StructArray) -> list[Node | None]:
    array.validate(full=True)
    return [None if item is None else read_node(item["metadata"], item["value"]) for item in array.to_pylist()]


def test_a_typed_primitive_is_put_back_and_others_stay() -> None:
    typed = pa.array([5, None, None, None], pa.int32())
    value = [None, write_primitive("string", "x"), None, None]
    got = nodes(assemble(group([EMPTY_METADATA] * 3 + [None], value, typed)))
    assert got == [Node("int32", 5), Node("string", "x"), Node("null", None), None]


@pytest.mark.parametrize(
    ("typed", "node"),
    [
        (pa.array([True]), Node("boolean", True)),
        (pa.array([1], pa.int8()), Node("int8", 1)),
        (pa.array([1.5], pa.float32()), Node("float", 1.5)),
        (pa.array([Decimal("1.20")], pa.decimal128(18, 2)), Node("decimal8", Decimal("1.20"))),
        (pa.array([7], pa.date32()), Node("date", 7)),
        (pa.array([7], pa.time64("us")), Node("time", 7)),
        (pa.array([7], pa.timestamp("us", "UTC")), Node("timestamptz", 7)),
        (pa.array([7], pa.timestamp("ns")), Node("timestampntz_nanos", 7)),
        (pa.array([b"x"]), Node("binary", b"x")),
        (pa.array([bytes(16)], pa.binary(16)).cast(pa.uuid()), Node("uuid", bytes(16))),
        (pa.array(["y" * 70]), Node("string", "y" * 70)),
    ],
)
def test_every_typed_column_has_its_physical_type(typed: pa.Array, node: Node) -> None:
    assert nodes(assemble(group([EMPTY_METADATA], [None], typed))) == [node]


def field(value: list[bytes | None], typed: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays([pa.array(value, pa.binary()), typed], names=["value", "typed_value"])


def test_a_partly_shredded_object_is_merged() -> None:
    metadata = write_metadata(["a", "b", "c"])
    rest = encode({"a": 0, "b": 0, "c": [1]})
    only_c = b"\x02\x01\x02\x00" + bytes([6]) + b"\x03\x01\x00\x02\x0c\x01"
    assert decode(metadata, only_c) == {"c": [1]}
    a = field([None, None, None], pa.array([1, None, None], pa.int64()))
    b = field([None, write_primitive("string", "s"), None], pa.array([None, None, None], pa.int64()))
    typed = pa.StructArray.from_arrays([a, b], names=["a", "b"], mask=pa.array([False, False, True]))
    got = assemble(group([metadata] * 3, [only_c, None, rest[1]], typed))
    values = [decode(item["metadata"], item["value"]) for item in got.to_pylist()]
    assert values == [{"a": 1, "c": [1]}, {"b": "s"}, {"a": 0, "b": 0, "c": [1]}]


def test_shredded_lists_keep_null_empty_and_mixed_elements() -> None:
    inner = field([None, write_primitive("int8", 3), None], pa.array(["x", None, None]))
    lists = pa.ListArray.from_arrays(pa.array([0, 3, 3, 3], pa.int32()), inner, mask=pa.array([False, False, True]))
    got = assemble(group([EMPTY_METADATA] * 3, [None, None, b"\x00"], lists))
    assert [decode(item["metadata"], item["value"]) for item in got.to_pylist()] == [["x", 3, None], [], None]


def test_slices_of_shredded_columns_keep_their_rows() -> None:
    inner = field([None] * 3, pa.array([1, 2, 3], pa.int32()))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), inner)
    got = assemble(group([EMPTY_METADATA] * 2, [None, None], lists).slice(1))
    assert [decode(item["metadata"], item["value"]) for item in got.to_pylist()] == [[2, 3]]


def test_a_shredded_object_with_a_value_that_is_none_is_refused() -> None:
    typed = pa.StructArray.from_arrays([field([None], pa.array([1]))], names=["a"])
    with pytest.raises(MalformedData, match="no object"):
        assemble(group([write_metadata(["a"])], [b"\x00"], typed))
    with pytest.raises(MalformedData, match="dictionary"):
        assemble(group([EMPTY_METADATA], [None], typed))


def test_a_column_of_another_shape_is_no_variant() -> None:
    with pytest.raises(MalformedData):
        assemble(pa.array([{"x": 1}]))
    with pytest.raises(MalformedData):
        assemble(pa.array([1]))
