"""Single values: Appendix D of the specification, canonical and friendly forms, bounds of whole columns."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import FrazilError, InvalidValue
from frazil.model.geo import wkb_to_wkt, wkt_to_wkb
from frazil.model.temporal import civil_from_days, days_from_civil, format_date, parse_date
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    NestedField,
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
    list_of,
    map_of,
)
from frazil.model.values import (
    bounds_to_array,
    canonical,
    friendly,
    from_bytes,
    from_json,
    from_text,
    geo_bound_from_bytes,
    geo_bound_to_bytes,
    to_bytes,
    to_json,
)
from tests.model.value_strategies import ARROW, VALUES, arrow_values

UUID_TEXT = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
UUID_BYTES = bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")
MICROS = 1510871468123456
POINT = StructType((NestedField(1, "x", IntegerType()), NestedField(2, "name", StringType())))

# type, canonical value, JSON: the examples of Appendix D
JSON_EXAMPLES: list[tuple[Type, Any, Any]] = [
    (BooleanType(), True, True),
    (IntegerType(), 34, 34),
    (LongType(), 34, 34),
    (FloatType(), 1.0, 1.0),
    (DoubleType(), 1.0, 1.0),
    (DecimalType(9, 2), Decimal("14.20"), "14.20"),
    (DecimalType(9, -20), Decimal("2E+20"), "2E+20"),
    (DecimalType(9, -3), Decimal("12E+3"), "12E+3"),
    (DecimalType(20, 10), Decimal("1E-10"), "0.0000000001"),
    (DateType(), 17486, "2017-11-16"),
    (TimeType(), 81068123456, "22:31:08.123456"),
    (TimestampType(), MICROS, "2017-11-16T22:31:08.123456"),
    (TimestamptzType(), MICROS, "2017-11-16T22:31:08.123456+00:00"),
    (TimestampNsType(), MICROS * 1000 + 789, "2017-11-16T22:31:08.123456789"),
    (TimestamptzNsType(), MICROS * 1000 + 789, "2017-11-16T22:31:08.123456789+00:00"),
    (StringType(), "iceberg", "iceberg"),
    (StringType(), "", ""),
    (UuidType(), UUID_BYTES, UUID_TEXT),
    (FixedType(4), b"\x00\x01\x02\xff", "000102ff"),
    (BinaryType(), b"\x00\x01\x02\xff", "000102ff"),
    (BinaryType(), b"", ""),
    (POINT, {1: 1, 2: "bar"}, {"1": 1, "2": "bar"}),
    (POINT, {}, {}),
    (list_of(3, IntegerType()), [1, 2, 3], [1, 2, 3]),
    (map_of(4, StringType(), 5, IntegerType()), [("a", 1), ("b", 2)], {"keys": ["a", "b"], "values": [1, 2]}),
    (GeometryType(), wkt_to_wkb("POINT (30 10)"), "POINT (30 10)"),
    (GeographyType(), wkt_to_wkb("POINT (30 10)"), "POINT (30 10)"),
]


@pytest.mark.parametrize(("type_", "value", "document"), JSON_EXAMPLES, ids=lambda item: str(item)[:30])
def test_json_single_values_are_those_of_the_specification(type_: Type, value: Any, document: Any) -> None:
    assert to_json(type_, value) == document
    assert from_json(type_, document) == value
    assert from_json(type_, json.loads(json.dumps(document))) == value
    assert to_json(type_, None) is None
    assert from_json(type_, None) is None


# type, canonical value, hex: Appendix D, binary
BINARY_EXAMPLES: list[tuple[Type, Any, str]] = [
    (BooleanType(), False, "00"),
    (BooleanType(), True, "01"),
    (IntegerType(), -2, "feffffff"),
    (LongType(), 34, "2200000000000000"),
    (FloatType(), 1.0, "0000803f"),
    (DoubleType(), 1.0, "000000000000f03f"),
    (DateType(), 17486, "4e440000"),
    (TimeType(), 1, "0100000000000000"),
    (TimestampType(), -1, "ff" * 8),
    (TimestamptzType(), 1, "0100000000000000"),
    (TimestampNsType(), 1, "0100000000000000"),
    (TimestamptzNsType(), 1, "0100000000000000"),
    (StringType(), "ab", "6162"),
    (StringType(), "", ""),
    (UuidType(), UUID_BYTES, UUID_BYTES.hex()),
    (FixedType(2), b"\x01\x02", "0102"),
    (BinaryType(), b"", ""),
    (DecimalType(9, 2), Decimal("14.20"), "058c"),
    (DecimalType(9, 2), Decimal("0.00"), "00"),
    (DecimalType(9, 2), Decimal("-0.01"), "ff"),
    (DecimalType(9, 2), Decimal("1.28"), "0080"),
    (DecimalType(9, 2), Decimal("-1.28"), "80"),
    (DecimalType(9, 2), Decimal("-1.29"), "ff7f"),
    (GeometryType(), wkt_to_wkb("POINT (30 10)"), "01010000000000000000003e400000000000002440"),
    (VariantType(), (b"\x01\x01\x00\x01a", b"\x0c\x07"), "01010001610c07"),
]


@pytest.mark.parametrize(("type_", "value", "data"), BINARY_EXAMPLES, ids=lambda item: str(item)[:30])
def test_binary_single_values_are_those_of_the_specification(type_: Type, value: Any, data: str) -> None:
    assert to_bytes(type_, value).hex() == data
    assert from_bytes(type_, bytes.fromhex(data)) == value


@pytest.mark.parametrize("type_", list(VALUES), ids=str)
def test_json_and_bytes_read_back_as_the_same_value(type_: Type) -> None:
    @given(VALUES[type_])
    def check(value: Any) -> None:
        assert from_json(type_, json.loads(json.dumps(to_json(type_, value)))) == value
        assert from_bytes(type_, to_bytes(type_, value)) == value
        assert canonical(type_, value) == value
        assert canonical(type_, friendly(type_, value)) == value

    check()


def test_a_float_is_written_with_the_digits_a_person_wrote() -> None:
    assert to_json(FloatType(), canonical(FloatType(), 0.1)) == 0.1
    assert to_json(FloatType(), 3.4028234663852886e38) == 3.4028235e38
    assert from_json(FloatType(), 3.4028235e38) == 3.4028234663852886e38


def test_non_finite_floats_are_words_in_json() -> None:
    assert [to_json(DoubleType(), value) for value in (math.nan, math.inf, -math.inf)] == [
        "NaN",
        "Infinity",
        "-Infinity",
    ]
    assert math.isnan(from_json(FloatType(), "NaN"))
    assert from_json(DoubleType(), "-Infinity") == -math.inf


@pytest.mark.parametrize(
    ("type_", "document"),
    [
        (BooleanType(), 1),
        (BooleanType(), "true"),
        (IntegerType(), 2**31),
        (IntegerType(), True),
        (IntegerType(), 1.0),
        (IntegerType(), "1"),
        (LongType(), -(2**63) - 1),
        (FloatType(), "1.0"),
        (FloatType(), 1e39),
        (DecimalType(9, 2), 14.2),
        (DecimalType(9, 2), "14.2"),
        (DecimalType(9, 2), "14.200"),
        (DecimalType(4, 2), "123.45"),
        (DecimalType(9, 2), "NaN"),
        (DecimalType(9, 2), "x"),
        (DateType(), "2017-02-29"),
        (DateType(), "2017-13-01"),
        (DateType(), 17486),
        (TimeType(), "24:00:00"),
        (TimestampType(), "2017-11-16T22:31:08+00:00"),
        (TimestampType(), "2017-11-16T22:31:08.1234567"),
        (TimestamptzType(), "2017-11-16T22:31:08"),
        (TimestamptzType(), "2017-11-16T22:31:08+01:00"),
        (TimestampNsType(), "2500-01-01T00:00:00"),
        (UuidType(), "f79c3e09"),
        (FixedType(4), "0001"),
        (BinaryType(), "0"),
        (BinaryType(), "zz"),
        (StringType(), 5),
        (StringType(), "\ud800"),
        (UnknownType(), 1),
        (VariantType(), {"a": 1}),
        (POINT, [1]),
        (list_of(1, IntegerType()), {"a": 1}),
        (map_of(1, StringType(), 2, IntegerType()), {"keys": ["a"], "values": []}),
        (map_of(1, StringType(), 2, IntegerType()), {"keys": [None], "values": [1]}),
        (GeometryType(), "POINT (1"),
    ],
    ids=str,
)
def test_json_that_is_not_of_the_type_is_refused(type_: Type, document: Any) -> None:
    with pytest.raises(InvalidValue):
        from_json(type_, document)


@pytest.mark.parametrize(
    ("type_", "given_value", "expected"),
    [
        (IntegerType(), np.int8(5), 5),
        (LongType(), 5.0, 5),
        (LongType(), Decimal(7), 7),
        (FloatType(), 0.1, 0.10000000149011612),
        (DoubleType(), np.float32(0.5), 0.5),
        (DoubleType(), 3, 3.0),
        (BooleanType(), np.bool_(True), True),
        (DecimalType(9, 2), 14, Decimal("14.00")),
        (DecimalType(9, 2), "14.2", Decimal("14.20")),
        (DecimalType(9, 2), 10.5, Decimal("10.50")),
        (DecimalType(9, -2), 1200, Decimal("12E+2")),
        (DateType(), dt.date(1969, 12, 31), -1),
        (DateType(), dt.datetime(2017, 11, 16), 17486),
        (DateType(), np.datetime64("2017-11-16"), 17486),
        (TimeType(), dt.time(22, 31, 8, 123456), 81068123456),
        (TimestampType(), dt.datetime(2017, 11, 16, 22, 31, 8, 123456), MICROS),
        (TimestampType(), "2017-11-16 22:31:08.123456", MICROS),
        (TimestampType(), dt.date(1970, 1, 2), 86_400_000_000),
        (TimestampType(), np.datetime64("2017-11-16T22:31:08.123456"), MICROS),
        (TimestampNsType(), np.datetime64(MICROS * 1000 + 7, "ns"), MICROS * 1000 + 7),
        (TimestampNsType(), dt.datetime(1970, 1, 1, 0, 0, 1), 10**9),
        (TimestamptzType(), "2017-11-16T14:31:08.123456-08:00", MICROS),
        (TimestamptzType(), "1970-01-02", 86_400_000_000),
        (TimestamptzType(), dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 0),
        (UuidType(), uuid.UUID(UUID_TEXT), UUID_BYTES),
        (UuidType(), UUID_TEXT.upper(), UUID_BYTES),
        (UuidType(), UUID_BYTES, UUID_BYTES),
        (BinaryType(), bytearray(b"x"), b"x"),
        (POINT, {"x": 1, "name": None}, {1: 1, 2: None}),
        (list_of(1, DateType()), (dt.date(1970, 1, 2), None), [1, None]),
        (map_of(1, StringType(), 2, DateType()), {"a": "1970-01-02"}, [("a", 1)]),
        (UnknownType(), None, None),
    ],
    ids=str,
)
def test_what_plainly_means_a_value_becomes_canonical(type_: Type, given_value: Any, expected: Any) -> None:
    result = canonical(type_, given_value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (IntegerType(), 2**31),
        (IntegerType(), 1.5),
        (IntegerType(), True),
        (IntegerType(), "5"),
        (IntegerType(), math.nan),
        (LongType(), 2**63),
        (FloatType(), 1e39),
        (DoubleType(), 10**400),
        (DecimalType(4, 2), 123),
        (DecimalType(9, 2), "0.001"),
        (DecimalType(9, 2), math.inf),
        (DecimalType(9, 2), Decimal("1E+999999")),
        (DateType(), dt.datetime(2017, 11, 16, 1)),
        (DateType(), np.datetime64("2017-11-16T01")),
        (DateType(), np.datetime64("NaT")),
        (DateType(), "9999999-01-01"),
        (TimeType(), 86_400_000_000),
        (TimestampType(), dt.datetime(2017, 11, 16, tzinfo=dt.UTC)),
        (TimestampType(), np.datetime64(1, "ns")),
        (TimestampNsType(), dt.date(2500, 1, 1)),
        (UuidType(), b"short"),
        (FixedType(3), b"four"),
        (StringType(), b"bytes"),
        (BinaryType(), "text"),
        (POINT, {"y": 1}),
        (UnknownType(), 0),
        (VariantType(), b"x"),
        (list_of(1, IntegerType()), "abc"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_refused_by_the_name_of_its_type(type_: Type, value: Any) -> None:
    with pytest.raises(InvalidValue, match=r"is not a|does not exist|is more precise"):
        canonical(type_, value)


@given(st.sampled_from(list(VALUES)), st.text(max_size=12))
def test_no_text_ends_in_a_bare_python_error(type_: Type, text: str) -> None:
    for read in (from_text, from_json, canonical):
        with contextlib.suppress(FrazilError):
            read(type_, text)


def test_friendly_values_are_those_a_person_expects() -> None:
    assert friendly(DateType(), 17486) == dt.date(2017, 11, 16)
    assert friendly(TimeType(), 1) == dt.time(0, 0, 0, 1)
    assert friendly(TimestampType(), -1) == dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    assert friendly(TimestamptzType(), 0) == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert friendly(TimestampNsType(), 1000) == dt.datetime(1970, 1, 1, 0, 0, 0, 1)
    assert friendly(UuidType(), UUID_BYTES) == uuid.UUID(UUID_TEXT)
    assert friendly(POINT, {1: 5}) == {"x": 5, "name": None}
    assert friendly(map_of(1, StringType(), 2, DateType()), [("a", 0)]) == {"a": dt.date(1970, 1, 1)}


def test_what_datetime_cannot_hold_is_shown_as_text() -> None:
    assert friendly(TimestampNsType(), 1) == "1970-01-01T00:00:00.000000001"
    assert friendly(DateType(), 2932897) == "+10000-01-01"
    assert friendly(DateType(), -719529) == "-0001-12-31"


@given(st.integers(-(2**31), 2**31 - 1))
def test_the_calendar_covers_every_date(days: int) -> None:
    year, month, day = civil_from_days(days)
    assert days_from_civil(year, month, day) == days
    assert parse_date(format_date(days)) == days


@given(st.dates())
def test_the_calendar_is_pythons_where_python_has_one(day: dt.date) -> None:
    assert format_date((day - dt.date(1970, 1, 1)).days) == day.isoformat()


# Promotion by length


@pytest.mark.parametrize(
    ("type_", "data", "expected"),
    [
        (LongType(), struct.pack("<i", -5), -5),
        (DoubleType(), struct.pack("<f", 1.5), 1.5),
        (TimestampType(), struct.pack("<i", -1), -86_400_000_000),
        (TimestampNsType(), struct.pack("<i", 1), 86_400_000_000_000),
        (DecimalType(20, 2), b"\x05\x8c", Decimal("14.20")),
        (DecimalType(20, 2), b"\xff\xff\xff\xfe", Decimal("-0.02")),
        (FixedType(4), b"ab", b"ab"),
    ],
    ids=str,
)
def test_bounds_written_before_a_promotion_are_read_by_their_length(type_: Type, data: bytes, expected: Any) -> None:
    assert from_bytes(type_, data) == expected
    (decoded,) = arrow_values(bounds_to_array(type_, pa.array([data])))
    assert decoded == expected


@pytest.mark.parametrize(
    ("type_", "data"),
    [
        (BooleanType(), b""),
        (BooleanType(), b"\0\0"),
        (IntegerType(), b"\0" * 8),
        (IntegerType(), b"\0" * 3),
        (LongType(), b"\0" * 5),
        (FloatType(), b"\0" * 8),
        (DoubleType(), b"\0" * 7),
        (DateType(), b"\0" * 8),
        (TimeType(), b"\0" * 4),
        (TimestamptzType(), b"\0" * 4),
        (TimestamptzNsType(), b"\0" * 4),
        (TimestampType(), struct.pack("<i", 2**31 - 1)),
        (TimestampNsType(), struct.pack("<i", -(2**31))),
        (UuidType(), b"\0" * 15),
        (FixedType(4), b"\0" * 5),
        (DecimalType(9, 2), b""),
        (DecimalType(9, 2), b"\0" * 17),
        (StringType(), b"\xff\xfe"),
    ],
    ids=str,
)
def test_bytes_of_a_wrong_length_are_never_a_value(type_: Type, data: bytes) -> None:
    with pytest.raises(InvalidValue):
        from_bytes(type_, data)
    good = to_bytes(type_, canonical(type_, {BooleanType(): True, StringType(): "a"}.get(type_, _zero(type_))))
    assert bounds_to_array(type_, pa.array([data, None, good])).is_valid().to_pylist() == [False, False, True]


def _zero(type_: Type) -> Any:
    if isinstance(type_, UuidType | FixedType):
        return b"\0" * (16 if isinstance(type_, UuidType) else type_.length)
    return 0


@pytest.mark.parametrize("type_", list(VALUES), ids=str)
def test_decoding_a_column_of_bounds_equals_decoding_each(type_: Type) -> None:
    @settings(max_examples=40)
    @given(st.lists(st.none() | VALUES[type_], max_size=12), st.integers(0, 3), st.booleans())
    def check(values: list[Any], skip: int, large: bool) -> None:
        encoded = pa.array(
            [None if value is None else to_bytes(type_, value) for value in values],
            pa.large_binary() if large else pa.binary(),
        )
        decoded = bounds_to_array(type_, encoded.slice(skip))
        assert arrow_values(decoded) == values[skip:]
        decoded.validate(full=True)
        if not (large or isinstance(type_, FixedType)):
            assert decoded.type == ARROW[type_]

    check()


def test_bounds_come_in_chunks_or_not_at_all() -> None:
    chunks = pa.chunked_array([[b"\x01\0\0\0"], [], [b"\x02\0\0\0"]], pa.binary())
    assert bounds_to_array(IntegerType(), chunks).to_pylist() == [1, 2]
    assert bounds_to_array(IntegerType(), pa.nulls(2)).to_pylist() == [None, None]
    assert bounds_to_array(POINT, pa.array([b"x"])).to_pylist() == [None]
    with pytest.raises(InvalidValue):
        bounds_to_array(IntegerType(), pa.array([1]))


@pytest.mark.parametrize("type_", [UnknownType(), POINT, list_of(1, IntegerType())], ids=str)
def test_types_without_a_binary_form_are_refused(type_: Type) -> None:
    with pytest.raises(InvalidValue):
        to_bytes(type_, {} if type_ == POINT else [])
    with pytest.raises(InvalidValue):
        from_bytes(type_, b"")


@given(st.binary(max_size=12))
def test_a_damaged_variant_is_refused_or_split(data: bytes) -> None:
    try:
        metadata, value = from_bytes(VariantType(), data)
    except InvalidValue:
        return
    assert metadata + value == data


# Geometries


def test_geo_bounds_have_two_to_four_coordinates() -> None:
    assert geo_bound_to_bytes(1.0, 2.0) == struct.pack("<2d", 1, 2)
    assert geo_bound_to_bytes(1.0, 2.0, 3.0) == struct.pack("<3d", 1, 2, 3)
    assert geo_bound_from_bytes(geo_bound_to_bytes(1.0, 2.0, 3.0, 4.0)) == (1, 2, 3, 4)
    only_m = geo_bound_to_bytes(1.0, 2.0, m=4.0)
    assert len(only_m) == 32
    assert math.isnan(struct.unpack("<4d", only_m)[2])
    assert geo_bound_from_bytes(only_m) == (1, 2, None, 4)
    with pytest.raises(InvalidValue):
        geo_bound_from_bytes(b"\0" * 8)


@pytest.mark.parametrize(
    "text",
    [
        "POINT (30 10)",
        "POINT (-1.5 2e-07)",
        "POINT ZM (1 2 3 4)",
        "POINT EMPTY",
        "LINESTRING M (1 2 3, 4 5 6)",
        "LINESTRING EMPTY",
        "POLYGON ((0 0, 4 0, 4 4, 0 0), (1 1, 2 1, 2 2, 1 1))",
        "MULTIPOINT Z ((1 2 3), (4 5 6))",
        "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))",
        "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), EMPTY)",
        "GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (1 2, 3 4), GEOMETRYCOLLECTION EMPTY)",
    ],
)
def test_wkt_and_wkb_are_the_same_geometry(text: str) -> None:
    assert wkb_to_wkt(wkt_to_wkb(text)) == text


def test_wkt_and_wkb_are_read_in_their_other_forms() -> None:
    assert wkb_to_wkt(struct.pack(">BI2d", 0, 1, 30, 10)) == "POINT (30 10)"
    assert wkt_to_wkb(" multipoint( 1 2,3 4 ) ") == wkt_to_wkb("MULTIPOINT ((1 2), (3 4))")


@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda rest: b"\x01\x06\0\0\0" + rest))
def test_bytes_that_are_no_geometry_are_refused(data: bytes) -> None:
    try:
        text = wkb_to_wkt(data)
    except InvalidValue:
        return
    assert text


@pytest.mark.parametrize(
    "text", ["", "POINT", "POINT (1)", "POINT (1 x)", "POINT (1 2) 3", "CIRCLE (1 2)", "POINT (1 2"]
)
def test_text_that_is_no_geometry_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        wkt_to_wkb(text)


def test_a_geometry_nested_without_end_is_refused() -> None:
    with pytest.raises(InvalidValue):
        wkt_to_wkb("GEOMETRYCOLLECTION (" * 5000)
    with pytest.raises(InvalidValue):
        wkb_to_wkt(b"\x01\x07\0\0\0\x01\0\0\0" * 5000)
