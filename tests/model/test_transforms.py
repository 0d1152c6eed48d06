"""Partition transforms: the vectors of Appendix B, the examples of the text, tables written by Java, and pyiceberg."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pyiceberg.transforms as theirs
import pyiceberg.types as their_types
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from frazil.errors import InvalidSchema, InvalidValue, Unsupported
from frazil.model.murmur3 import hash_slices
from frazil.model.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
    bucket_hash,
    human_string,
    parse_transform,
)
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeometryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
)
from frazil.model.values import canonical, from_json
from tests.model.value_strategies import VALUES, arrow_array, arrow_values

UUID_TEXT = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
TRANSFORMS: list[Transform] = [
    IdentityTransform(),
    BucketTransform(16),
    BucketTransform(2**31 - 1),
    TruncateTransform(10),
    TruncateTransform(3),
    TruncateTransform(2**31 - 1),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
    VoidTransform(),
]
ALLOWED = [(t, type_) for t in TRANSFORMS for type_ in VALUES if t.can_transform(type_)]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (IntegerType(), 34, 2017239379),
        (LongType(), 34, 2017239379),
        (DecimalType(9, 2), "14.20", -500754589),
        (DecimalType(38, 2), "14.20", -500754589),
        (DateType(), "2017-11-16", -653330422),
        (TimeType(), "22:31:08", -662762989),
        (TimestampType(), "2017-11-16T22:31:08", -2047944441),
        (TimestampType(), "2017-11-16T22:31:08.000001", -1207196810),
        (TimestamptzType(), "2017-11-16T14:31:08-08:00", -2047944441),
        (TimestamptzType(), "2017-11-16T14:31:08.000001-08:00", -1207196810),
        (TimestampNsType(), "2017-11-16T22:31:08", -2047944441),
        (TimestampNsType(), "2017-11-16T22:31:08.000001001", -1207196810),
        (TimestamptzNsType(), "2017-11-16T14:31:08-08:00", -2047944441),
        (TimestamptzNsType(), "2017-11-16T14:31:08.000001001-08:00", -1207196810),
        (StringType(), "iceberg", 1210000089),
        (UuidType(), UUID_TEXT, 1488055340),
        (FixedType(4), b"\x00\x01\x02\x03", -188683207),
        (BinaryType(), b"\x00\x01\x02\x03", -188683207),
        (BooleanType(), True, 1392991556),
        (FloatType(), 1.0, -142385009),
        (FloatType(), 0.0, 1669671676),
        (FloatType(), -0.0, 1669671676),
        (DoubleType(), 1.0, -142385009),
        (DoubleType(), 0.0, 1669671676),
        (DoubleType(), -0.0, 1669671676),
    ],
    ids=str,
)
def test_hashes_are_those_of_appendix_b(type_: Type, value: Any, expected: int) -> None:
    number = canonical(type_, value)
    assert bucket_hash(type_, number) == expected
    if BucketTransform(7).can_transform(type_) and type_ in VALUES:
        in_array = BucketTransform(100).apply_array(type_, arrow_array(type_, [number, None]))
        assert in_array.to_pylist() == [(expected & 0x7FFFFFFF) % 100, None]


def test_every_nan_has_the_hash_of_the_canonical_one() -> None:
    odd_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    assert bucket_hash(DoubleType(), odd_nan) == bucket_hash(FloatType(), math.nan)
    assert bucket_hash(DoubleType(), odd_nan) == mmh3.hash(struct.pack("<Q", 0x7FF8000000000000))


def test_no_hash_is_defined_for_variants() -> None:
    with pytest.raises(InvalidValue):
        bucket_hash(VariantType(), (b"", b""))


@pytest.mark.parametrize(
    ("width", "type_", "value", "expected"),
    [
        (10, IntegerType(), 1, 0),
        (10, IntegerType(), -1, -10),
        (10, LongType(), 1, 0),
        (10, LongType(), -1, -10),
        (50, DecimalType(9, 2), Decimal("10.65"), Decimal("10.50")),
        (3, StringType(), "iceberg", "ice"),
        (3, BinaryType(), b"\x01\x02\x03\x04\x05", b"\x01\x02\x03"),
        # from a table written by Java
        (50, DecimalType(9, 2), Decimal("-0.01"), Decimal("-0.50")),
        (50, DecimalType(9, 2), Decimal("-9.55"), Decimal("-10.00")),
        (50, DecimalType(9, 2), Decimal("9999999.99"), Decimal("9999999.50")),
        (100, LongType(), 9223372036854775807, 9223372036854775800),
        (10, IntegerType(), 2147483647, 2147483640),
        (3, StringType(), "日本語テキスト", "日本語"),
        (3, StringType(), "😀😀😀😀", "😀😀😀"),
        (3, StringType(), "", ""),
        (2, BinaryType(), b"\xdd\x41\xb6", b"\xdd\x41"),
    ],
    ids=str,
)
def test_truncate_is_that_of_the_specification(width: int, type_: Type, value: Any, expected: Any) -> None:
    transform = TruncateTransform(width)
    assert transform.apply(type_, value) == expected
    assert transform.apply_array(type_, arrow_array(type_, [value])).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("text", "year", "month", "day", "hour"),
    [
        ("0001-01-01T00:00:00.000000", -1969, -23628, "0001-01-01", -17259888),
        ("1965-07-20T21:08:45.666890", -5, -54, "1965-07-20", -39003),
        ("1968-02-29T12:00:00.000000", -2, -23, "1968-02-29", -16116),
        ("1969-01-01T00:00:00.000000", -1, -12, "1969-01-01", -8760),
        ("1969-12-31T23:59:59.999999", -1, -1, "1969-12-31", -1),
        ("1970-01-01T00:00:00.000000", 0, 0, "1970-01-01", 0),
        ("2017-11-16T22:31:08.000000", 47, 574, "2017-11-16", 419686),
        ("9999-12-31T23:59:59.999999", 8029, 96359, "9999-12-31", 70389527),
    ],
)
def test_parts_of_time_are_those_of_a_table_written_by_java(
    text: str, year: int, month: int, day: str, hour: int
) -> None:
    value, date = canonical(TimestampType(), text), canonical(DateType(), day)
    expected: dict[Transform, int] = {YearTransform(): year, MonthTransform(): month, DayTransform(): date}
    for transform, number in expected.items():
        assert transform.apply(TimestampType(), value) == number
        assert transform.apply(TimestamptzType(), value) == number
        assert transform.apply(DateType(), date) == number
    assert HourTransform().apply(TimestampType(), value) == hour
    if 1700 < 1970 + year < 2200:
        assert HourTransform().apply(TimestampNsType(), value * 1000 + 999) == hour
        assert DayTransform().apply(TimestampNsType(), value * 1000 + 999) == date


@pytest.mark.parametrize(
    ("type_", "value", "buckets", "expected"),
    [
        (IntegerType(), -162377998, 4, 1),
        (LongType(), -3263383753956320426, 5, 0),
        (DecimalType(9, 2), "-335755.93", 6, 3),
        (DateType(), "1984-12-13", 7, 2),
        (TimeType(), "23:34:40.879142", 8, 1),
        (TimestampType(), "2035-01-19T21:48:06.502521", 9, 4),
        (TimestamptzType(), "2041-02-17T15:41:03.792485+00:00", 10, 6),
        (StringType(), "pi612", 11, 4),
        (UuidType(), "43ae06a2-2782-2241-d325-4347314b4b36", 12, 2),
        (FixedType(5), "ec18ec7d51", 13, 5),
        (BinaryType(), "31d8b0c4c8b28f6e77c7d9", 16, 7),
    ],
    ids=str,
)
def test_buckets_are_those_of_a_table_written_by_java(type_: Type, value: Any, buckets: int, expected: int) -> None:
    number = from_json(type_, value)
    assert BucketTransform(buckets).apply(type_, number) == expected
    assert BucketTransform(buckets).apply_array(type_, arrow_array(type_, [number])).to_pylist() == [expected]


@pytest.mark.parametrize(("transform", "type_"), ALLOWED, ids=str)
def test_an_array_is_transformed_like_each_of_its_values(transform: Transform, type_: Type) -> None:
    @settings(max_examples=30)
    @given(st.lists(st.none() | VALUES[type_], max_size=10), st.integers(0, 3))
    def check(values: list[Any], skip: int) -> None:
        array = arrow_array(type_, values)
        expected = [transform.apply(type_, value) for value in values]
        results = transform.apply_array(type_, array)
        assert arrow_values(results) == expected
        assert arrow_values(transform.apply_array(type_, array.slice(skip))) == expected[skip:]
        chunked = transform.apply_array(type_, pa.chunked_array([array, array]))
        assert [item for chunk in chunked.chunks for item in arrow_values(chunk)] == expected * 2
        wanted = arrow_array(transform.result_type(type_), []).type
        assert results.type == wanted

    check()


THEIR_TYPES: dict[Type, Any] = {
    IntegerType(): their_types.IntegerType(),
    LongType(): their_types.LongType(),
    DecimalType(9, 2): their_types.DecimalType(9, 2),
    DecimalType(38, 10): their_types.DecimalType(38, 10),
    DateType(): their_types.DateType(),
    TimeType(): their_types.TimeType(),
    TimestampType(): their_types.TimestampType(),
    TimestamptzType(): their_types.TimestamptzType(),
    StringType(): their_types.StringType(),
    BinaryType(): their_types.BinaryType(),
    FixedType(5): their_types.FixedType(5),
}
PYTHON_TIMESTAMPS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


@pytest.mark.parametrize(("transform", "type_"), [pair for pair in ALLOWED if pair[1] in THEIR_TYPES], ids=str)
def test_pyiceberg_agrees(transform: Transform, type_: Type) -> None:
    function = theirs.parse_transform(str(transform)).transform(THEIR_TYPES[type_])
    in_range = PYTHON_TIMESTAMPS if isinstance(type_, TimestampType | TimestamptzType) else VALUES[type_]
    in_range = st.integers(-719_162, 2_932_896) if isinstance(type_, DateType) else in_range

    @settings(max_examples=50)
    @given(in_range)
    def check(value: Any) -> None:
        if isinstance(transform, TruncateTransform) and isinstance(value, int):
            assume(value > -(2**31) + transform.width or (type_ == LongType() and value > -(2**62)))
        assert transform.apply(type_, value) == function(value)

    check()


def test_truncating_beyond_the_smallest_integer_wraps_as_java_does() -> None:
    for type_, bits in ((IntegerType(), 32), (LongType(), 64)):
        smallest = -(2 ** (bits - 1))
        expected = smallest - smallest % 10 + 2**bits
        assert TruncateTransform(10).apply(type_, smallest) == expected
        assert TruncateTransform(10).apply_array(type_, arrow_array(type_, [smallest])).to_pylist() == [expected]


@given(st.lists(st.binary(max_size=40) | st.binary(min_size=500, max_size=600), max_size=12))
def test_many_byte_strings_hash_like_each(values: list[bytes]) -> None:
    data = np.frombuffer(b"".join(values), np.uint8)
    lengths = np.array([len(value) for value in values], np.int64)
    starts = np.cumsum(lengths) - lengths
    assert hash_slices(data, starts, lengths).tolist() == [mmh3.hash(value) for value in values]


def test_arrays_come_in_other_arrow_types_too() -> None:
    strings = ["a", None, "iceberg"]
    expected = BucketTransform(16).apply_array(StringType(), pa.array(strings))
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        array = pa.array(strings).cast(kind)
        assert BucketTransform(16).apply_array(StringType(), array).to_pylist() == expected.to_pylist()
        assert TruncateTransform(3).apply_array(StringType(), array.cast(pa.string())).to_pylist() == ["a", None, "ice"]
    uuids = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([bytes.fromhex(UUID_TEXT.replace("-", ""))], pa.binary(16))
    )
    assert BucketTransform(100).apply_array(UuidType(), uuids).to_pylist() == [40]
    millis = pa.array([-1], pa.int64()).view(pa.timestamp("ms"))
    assert HourTransform().apply_array(TimestampType(), millis).to_pylist() == [-1]
    empty = pa.chunked_array([], pa.int64())
    assert BucketTransform(4).apply_array(LongType(), empty).type == pa.int32()


def test_an_array_of_another_type_is_refused() -> None:
    for transform in (BucketTransform(4), YearTransform()):
        with pytest.raises(InvalidValue):
            transform.apply_array(TimestampType(), pa.array(["x"]))


@pytest.mark.parametrize(
    ("transform", "refused"),
    [
        (IdentityTransform(), [GeometryType(), VariantType(), StructType(())]),
        (BucketTransform(4), [BooleanType(), FloatType(), DoubleType(), UnknownType(), GeometryType(), VariantType()]),
        (TruncateTransform(4), [FixedType(4), UuidType(), DateType(), TimestampType(), DoubleType(), BooleanType()]),
        (YearTransform(), [TimeType(), IntegerType(), StringType()]),
        (HourTransform(), [DateType(), TimeType(), LongType()]),
    ],
    ids=str,
)
def test_transforms_refuse_types_they_are_not_defined_for(transform: Transform, refused: list[Type]) -> None:
    for type_ in refused:
        assert not transform.can_transform(type_)
        with pytest.raises(InvalidSchema):
            transform.apply(type_, None)


def test_result_types() -> None:
    assert IdentityTransform().result_type(UuidType()) == UuidType()
    assert BucketTransform(4).result_type(StringType()) == IntegerType()
    assert TruncateTransform(4).result_type(DecimalType(9, 2)) == DecimalType(9, 2)
    assert [t.result_type(TimestampType()) for t in (YearTransform(), MonthTransform(), HourTransform())] == [
        IntegerType()
    ] * 3
    assert DayTransform().result_type(TimestampType()) == DateType()
    assert VoidTransform().result_type(StringType()) == StringType()
    assert UnknownTransform("zorder").result_type(IntegerType()) == StringType()


def test_texts_of_metadata() -> None:
    for transform in TRANSFORMS:
        assert parse_transform(str(transform)) == transform
        assert parse_transform(str(transform).upper()) == transform
    for text in ("zorder", "bucket", "bucket[-1]", "bucket[1][2]", "truncate[x]", ""):
        assert parse_transform(text) == UnknownTransform(text)
        assert str(parse_transform(text)) == text
    for text in ("bucket[0]", "truncate[0]", "bucket[2147483648]"):
        with pytest.raises(InvalidSchema):
            parse_transform(text)


def test_an_unknown_transform_cannot_be_applied() -> None:
    unknown = UnknownTransform("zorder")
    assert unknown.can_transform(VariantType())
    assert unknown.apply(IntegerType(), None) is None
    with pytest.raises(Unsupported):
        unknown.apply(IntegerType(), 1)
    with pytest.raises(Unsupported):
        unknown.apply_array(IntegerType(), pa.array([1]))


def test_orders_that_satisfy_others() -> None:
    year, month, day, hour = YearTransform(), MonthTransform(), DayTransform(), HourTransform()
    assert hour.satisfies_order_of(day)
    assert day.satisfies_order_of(month)
    assert day.satisfies_order_of(year)
    assert not year.satisfies_order_of(day)
    assert IdentityTransform().satisfies_order_of(hour)
    assert not IdentityTransform().satisfies_order_of(BucketTransform(4))
    assert not hour.satisfies_order_of(IdentityTransform())
    assert TruncateTransform(4).satisfies_order_of(TruncateTransform(2), StringType())
    assert not TruncateTransform(2).satisfies_order_of(TruncateTransform(4), StringType())
    assert TruncateTransform(10).satisfies_order_of(TruncateTransform(100), LongType())
    assert not TruncateTransform(100).satisfies_order_of(TruncateTransform(10), LongType())
    assert not TruncateTransform(4).satisfies_order_of(TruncateTransform(2))
    assert BucketTransform(4).satisfies_order_of(BucketTransform(4))
    assert not BucketTransform(4).satisfies_order_of(BucketTransform(8))


@pytest.mark.parametrize(
    ("transform", "type_"),
    [pair for pair in ALLOWED if pair[0].preserves_order and pair != (TruncateTransform(2**31 - 1), IntegerType())],
    ids=str,
)
def test_transforms_that_preserve_order_do(transform: Transform, type_: Type) -> None:
    @settings(max_examples=50)
    @given(VALUES[type_], VALUES[type_])
    def check(one: Any, other: Any) -> None:
        low, high = min(one, other), max(one, other)
        if isinstance(transform, HourTransform):  # hours of years beyond 240,000 wrap, as in Java
            assume(low > -(2**62) and high < 2**62)
        elif isinstance(transform, TruncateTransform) and isinstance(low, int):  # so does what is nearly the smallest
            assume(low >= (-(2**63) if type_ == LongType() else -(2**31)) + transform.width)
        assert transform.apply(type_, low) <= transform.apply(type_, high)

    check()


def test_time_transforms_of_a_column_are_redundant() -> None:
    assert {t.dedup_name for t in (YearTransform(), MonthTransform(), DayTransform(), HourTransform())} == {"time"}
    assert BucketTransform(4).dedup_name == "bucket[4]"


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (BooleanType(), True, "true"),
        (IntegerType(), -5, "-5"),
        (FloatType(), -924991.9375, "-924991.94"),
        (FloatType(), 3.4028234663852886e38, "3.4028235E38"),
        (FloatType(), -0.0, "-0.0"),
        (DoubleType(), 155786894189.18896, "1.5578689418918896E11"),
        (DoubleType(), 1e7, "1.0E7"),
        (DoubleType(), 9999999.0, "9999999.0"),
        (DoubleType(), 0.001, "0.001"),
        (DoubleType(), 0.00012, "1.2E-4"),
        (DoubleType(), math.nan, "NaN"),
        (DoubleType(), -math.inf, "-Infinity"),
        (DecimalType(9, 2), Decimal("-0.50"), "-0.50"),
        (DecimalType(9, 8), Decimal("0.00000012"), "1.2E-7"),
        (DateType(), -1, "1969-12-31"),
        (TimeType(), 0, "00:00"),
        (TimeType(), 81068000000, "22:31:08"),
        (TimeType(), 81068120000, "22:31:08.120"),
        (TimeType(), 81068000001, "22:31:08.000001"),
        (TimestampType(), 0, "1970-01-01T00:00:00"),
        (TimestampType(), 1510871468120000, "2017-11-16T22:31:08.12"),
        (TimestamptzType(), 1510871468123456, "2017-11-16T22:31:08.123456+00:00"),
        (TimestampNsType(), 1, "1970-01-01T00:00:00.000000001"),
        (StringType(), "a b", "a b"),
        (UuidType(), bytes.fromhex(UUID_TEXT.replace("-", "")), UUID_TEXT),
        (BinaryType(), b"\xdd\x41", "3UE="),
        (FixedType(5), b"\0" * 5, "AAAAAAA="),
        (StringType(), None, "null"),
        (UnknownType(), None, "null"),
    ],
    ids=str,
)
def test_values_are_shown_as_java_shows_them(type_: Type, value: Any, text: str) -> None:
    assert human_string(type_, value) == text
    assert IdentityTransform().to_human_string(type_, value) == text


def test_parts_of_time_are_shown_for_people() -> None:
    assert YearTransform().to_human_string(IntegerType(), 47) == "2017"
    assert MonthTransform().to_human_string(IntegerType(), -1) == "1969-12"
    assert DayTransform().to_human_string(IntegerType(), 17486) == "2017-11-16"
    assert HourTransform().to_human_string(IntegerType(), -1) == "1969-12-31-23"
    assert HourTransform().to_human_string(IntegerType(), None) == "null"
    assert VoidTransform().to_human_string(IntegerType(), 5) == "null"
