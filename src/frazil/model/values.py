"""Single values of every type: canonical Python form, JSON and bytes (Appendix D of the specification).

A canonical value is None, bool, int, float, Decimal, str or bytes. Dates are days since 1970, times and timestamps
microseconds (nanoseconds for the `_ns` types), a uuid is its 16 bytes, geometries are WKB, a variant is a pair of bytes
(metadata, value), a struct is a dict by field id, a list a list, a map a list of (key, value) pairs.

>>> from frazil.model.types import DateType, DecimalType, LongType
>>> canonical(DateType(), "2017-11-16")
17486
>>> to_json(DecimalType(9, 2), canonical(DecimalType(9, 2), "14.2"))
'14.20'
>>> from_bytes(LongType(), to_bytes(LongType(), 34))
34
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
import sys
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidValue
from frazil.model import temporal
from frazil.model.geo import geo_bound_from_bytes, geo_bound_to_bytes, wkb_to_wkt, wkt_to_wkb
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
    ListType,
    LongType,
    MapType,
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

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "bounds_to_array",
    "canonical",
    "friendly",
    "from_bytes",
    "from_json",
    "from_text",
    "geo_bound_from_bytes",
    "geo_bound_to_bytes",
    "to_bytes",
    "to_json",
]

Timestamps = TimestampType | TimestamptzType | TimestampNsType | TimestamptzNsType
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the epoch of the types without a zone
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROS_PER_DAY = temporal.SECONDS_PER_DAY * 10**6
# enough digits that scaling a decimal of 38 digits never rounds
_EXACT = decimal.Context(prec=200, traps=[decimal.InvalidOperation])
_FLOAT_WORDS = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf}


def timestamp_digits(type_: Type) -> int:
    """Decimals of a second a timestamp type counts in: 6 or 9."""
    return 9 if isinstance(type_, TimestampNsType | TimestamptzNsType) else 6


def has_zone(type_: Type) -> bool:
    """Whether values of the type are points in time."""
    return isinstance(type_, TimestamptzType | TimestamptzNsType)


def _bad(type_: Type, value: Any, why: str = "") -> InvalidValue:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return InvalidValue(
        f"{shown} is not a value of type {type_}{why and f': {why}'}", hint=f"give a value of type {type_}"
    )


# Canonical values


def canonical(type_: Type, value: Any) -> Any:
    """The canonical form of anything that plainly means a value of the type; InvalidValue otherwise.

    Accepts Python's own types (date, datetime, UUID, Decimal, ...), numpy scalars, ISO text for dates and times, text
    for decimals and uuids, WKT for geometries. A timestamp without a zone for a type with one is taken as UTC.
    """
    if value is None:
        return None
    if isinstance(type_, StructType | ListType | MapType):
        return _canonical_nested(type_, value)
    value = _without_numpy(type_, value)
    if isinstance(value, str) and not isinstance(
        type_, BooleanType | IntegerType | LongType | FloatType | DoubleType | BinaryType | FixedType
    ):
        return from_text(type_, value)
    if isinstance(type_, BooleanType):
        if isinstance(value, bool):
            return value
    elif isinstance(type_, IntegerType | LongType):
        return _integer(type_, value)
    elif isinstance(type_, FloatType | DoubleType):
        return _floating(type_, value)
    elif isinstance(type_, DecimalType):
        return _decimal(type_, value)
    elif isinstance(type_, DateType):
        return _date(type_, value)
    elif isinstance(type_, TimeType):
        return _time(type_, value)
    elif isinstance(type_, Timestamps):
        return _timestamp(type_, value)
    elif isinstance(type_, UuidType) and isinstance(value, uuid.UUID):
        return value.bytes
    elif isinstance(type_, VariantType):
        if isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, bytes) for part in value):
            return value
    elif isinstance(value, bytes | bytearray | memoryview):
        return _bytes(type_, bytes(value))
    raise _bad(type_, value)


def from_text(type_: Type, text: str) -> Any:
    """The canonical value a text stands for, for every primitive type (hex for bytes): file paths and command lines.

    >>> from frazil.model.types import IntegerType
    >>> from_text(IntegerType(), "-5")
    -5
    """
    if isinstance(type_, StringType):
        return _utf8(type_, text)
    try:
        if isinstance(type_, BooleanType):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(type_, IntegerType | LongType):
            return _integer(type_, int(text))
        if isinstance(type_, FloatType | DoubleType):
            return _floating(type_, float(text))
        if isinstance(type_, DecimalType):
            return _decimal(type_, Decimal(text))
        if isinstance(type_, UuidType):
            return uuid.UUID(text).bytes
        if isinstance(type_, FixedType | BinaryType):
            return _bytes(type_, bytes.fromhex(text))
    except (ValueError, KeyError, decimal.InvalidOperation) as error:
        raise _bad(type_, text) from error
    if isinstance(type_, DateType):
        return _in_range(type_, temporal.parse_date(text), 32)
    if isinstance(type_, TimeType):
        return temporal.parse_time(text)
    if isinstance(type_, Timestamps):
        value, zoned = temporal.parse_timestamp(text, timestamp_digits(type_))
        if zoned and not has_zone(type_):
            raise _bad(type_, text, "it has a zone, the type has none")
        return _in_range(type_, value, 64)
    if isinstance(type_, GeometryType | GeographyType):
        return wkt_to_wkb(text)
    raise _bad(type_, text)


def _without_numpy(type_: Type, value: Any) -> Any:
    numpy = sys.modules.get("numpy")  # a numpy value cannot come from a program that has not loaded numpy
    if numpy is None or not isinstance(value, numpy.generic):
        return value
    if not isinstance(value, numpy.datetime64):
        return value.item()
    if numpy.isnat(value):
        raise _bad(type_, value)
    unit = "D" if isinstance(type_, DateType) else "ns" if timestamp_digits(type_) == 9 else "us"
    converted = value.astype(f"datetime64[{unit}]")
    if converted.astype(value.dtype) != value or converted != value:
        raise _bad(type_, value, "it is out of range, or more precise than the type")
    return int(converted.astype("int64"))


def _in_range(type_: Type, value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _bad(type_, value, f"it does not fit {bits} bits")
    return value


def _integer(type_: Type, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _bad(type_, value)
    if not isinstance(value, int):
        if not math.isfinite(value) or value != int(value):
            raise _bad(type_, value)
        value = int(value)
    return _in_range(type_, value, 32 if isinstance(type_, IntegerType) else 64)


def _floating(type_: Type, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _bad(type_, value)
    try:
        result = float(value)
        # a float column holds 32 bits: compare and store what it can hold
        return float(struct.unpack("<f", struct.pack("<f", result))[0]) if isinstance(type_, FloatType) else result
    except OverflowError as error:
        raise _bad(type_, value, "it is out of range") from error


def _decimal(type_: DecimalType, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _bad(type_, value)
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite():
        raise _bad(type_, value)
    try:
        scaled = exact.quantize(Decimal((0, (1,), -type_.scale)), context=_EXACT)
    except decimal.InvalidOperation as error:
        raise _bad(type_, value, "it has too many digits") from error
    if scaled != exact:
        raise _bad(type_, value, f"more than {type_.scale} decimals")
    if abs(unscaled(scaled)) >= 10**type_.precision:
        raise _bad(type_, value, f"more than {type_.precision} digits")
    return scaled


def unscaled(value: Decimal) -> int:
    """The digits of a decimal as an integer, without its scale."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def _date(type_: Type, value: Any) -> int:
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None or value.time() != dt.time():
            raise _bad(type_, value, "it has a time of day")
        value = value.date()
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days
    if isinstance(value, int) and not isinstance(value, bool):
        return _in_range(type_, value, 32)
    raise _bad(type_, value)


def _time(type_: Type, value: Any) -> int:
    if isinstance(value, dt.time) and value.tzinfo is None:
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MICROS_PER_DAY:
        return value
    raise _bad(type_, value)


def _timestamp(type_: Type, value: Any) -> int:
    scale = 10 ** (timestamp_digits(type_) - 6)
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None and not has_zone(type_):
            raise _bad(type_, value, "it has a zone, the type has none")
        since = value.replace(tzinfo=None) - _EPOCH if value.tzinfo is None else value - _EPOCH_UTC
        nanos = getattr(value, "nanosecond", 0)  # a pandas Timestamp has them
        if nanos and scale == 1:
            raise _bad(type_, value, "it is more precise than the type")
        micros = (since.days * temporal.SECONDS_PER_DAY + since.seconds) * 10**6 + since.microseconds
        return _in_range(type_, micros * scale + nanos, 64)
    if isinstance(value, dt.date):
        return _in_range(type_, (value - _EPOCH.date()).days * _MICROS_PER_DAY * scale, 64)
    if isinstance(value, int) and not isinstance(value, bool):
        return _in_range(type_, value, 64)
    raise _bad(type_, value)


def _bytes(type_: Type, value: bytes) -> bytes:
    expected = type_.length if isinstance(type_, FixedType) else 16 if isinstance(type_, UuidType) else len(value)
    if not isinstance(type_, FixedType | UuidType | BinaryType | GeometryType | GeographyType):
        raise _bad(type_, value)
    if len(value) != expected:
        raise _bad(type_, value, f"{len(value)} bytes, not {expected}")
    return value


def _utf8(type_: Type, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _bad(type_, text, "it has lone surrogates and no UTF-8 form") from error
    return text


def _canonical_nested(type_: Type, value: Any) -> Any:
    if isinstance(type_, StructType) and isinstance(value, Mapping):
        known = {field.id for field in type_.fields} | {field.name for field in type_.fields}
        if extra := [key for key in value if key not in known]:
            raise _bad(type_, value, f"the struct has no field {extra[0]!r}")
        found = {}
        for field in type_.fields:
            key = field.id if field.id in value else field.name
            if key in value:
                found[field.id] = canonical(field.type, value[key])
        return found
    if isinstance(type_, ListType) and isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [canonical(type_.element.type, item) for item in value]
    if isinstance(type_, MapType) and isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes):
        pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
        if all(isinstance(pair, Sequence) and len(pair) == 2 and pair[0] is not None for pair in pairs):
            return [(canonical(type_.key.type, key), canonical(type_.value.type, item)) for key, item in pairs]
    raise _bad(type_, value)


def friendly(type_: Type, value: Any) -> Any:
    """A canonical value as the Python object a person expects: date, datetime, UUID, dict by name, ...

    A date or timestamp that `datetime` cannot hold exactly (nanoseconds, the year 10000) becomes its ISO text.
    """
    if value is None:
        return None
    if isinstance(type_, StructType):
        return {field.name: friendly(field.type, value.get(field.id)) for field in type_.fields}
    if isinstance(type_, ListType):
        return [friendly(type_.element.type, item) for item in value]
    if isinstance(type_, MapType):
        return {friendly(type_.key.type, key): friendly(type_.value.type, item) for key, item in value}
    if isinstance(type_, UuidType):
        return uuid.UUID(bytes=value)
    try:
        if isinstance(type_, DateType):
            return _EPOCH.date() + dt.timedelta(days=value)
        if isinstance(type_, TimeType):
            return (_EPOCH + dt.timedelta(microseconds=value)).time()
        if isinstance(type_, Timestamps):
            micros, nanos = divmod(value, 1000) if timestamp_digits(type_) == 9 else (value, 0)
            if nanos:
                return to_json(type_, value)
            return (_EPOCH_UTC if has_zone(type_) else _EPOCH) + dt.timedelta(microseconds=micros)
    except OverflowError:
        return to_json(type_, value)
    return value


# JSON


def to_json(type_: Type, value: Any) -> Any:
    """The JSON single-value form of a canonical value."""
    if value is None:
        return None
    if isinstance(type_, StructType):
        return {str(f.id): to_json(f.type, value[f.id]) for f in type_.fields if value.get(f.id) is not None}
    if isinstance(type_, ListType):
        return [to_json(type_.element.type, item) for item in value]
    if isinstance(type_, MapType):
        return {
            "keys": [to_json(type_.key.type, key) for key, _ in value],
            "values": [to_json(type_.value.type, item) for _, item in value],
        }
    value = canonical(type_, value)
    if isinstance(type_, FloatType | DoubleType):
        return _float_to_json(type_, value)
    if isinstance(type_, DecimalType):
        return f"{value:f}" if type_.scale >= 0 else f"{unscaled(value)}E+{-type_.scale}"
    if isinstance(type_, DateType):
        return temporal.format_date(value)
    if isinstance(type_, TimeType):
        return temporal.format_time(value)
    if isinstance(type_, Timestamps):
        return temporal.format_timestamp(value, timestamp_digits(type_)) + ("+00:00" if has_zone(type_) else "")
    if isinstance(type_, UuidType):
        return str(uuid.UUID(bytes=value))
    if isinstance(type_, FixedType | BinaryType):
        return value.hex()
    if isinstance(type_, GeometryType | GeographyType):
        return wkb_to_wkt(value)
    if isinstance(type_, VariantType):
        raise _bad(type_, value, "a variant has no JSON form")
    return value


def _float_to_json(type_: Type, value: float) -> float | str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(
        type_, FloatType
    ):  # the shortest text that reads back as the same 32 bits: 0.1, not 0.10000000149011612
        candidates = (float(f"{value:.{digits}g}") for digits in range(1, 10))
        return next((short for short in candidates if _same_float(short, value)), value)
    return value


def _same_float(short: float, value: float) -> bool:
    try:
        return bool(struct.unpack("<f", struct.pack("<f", short))[0] == value)
    except OverflowError:
        return False


def from_json(type_: Type, document: Any) -> Any:
    """A canonical value from the JSON single-value form; InvalidValue if it is not exactly that."""
    if document is None:
        return None
    if isinstance(type_, StructType | ListType | MapType):
        return _nested_from_json(type_, document)
    text = document if isinstance(document, str) else None
    if isinstance(type_, FloatType | DoubleType) and text is not None and text.lower() in _FLOAT_WORDS:
        return _FLOAT_WORDS[text.lower()]
    if isinstance(type_, BooleanType | IntegerType | LongType | FloatType | DoubleType):
        if text is not None or (isinstance(type_, IntegerType | LongType) and not isinstance(document, int)):
            raise _bad(type_, document)
        return canonical(type_, document)
    if text is None:
        raise _bad(type_, document, "it must be text")
    value = from_text(type_, text)
    if isinstance(type_, DecimalType) and Decimal(text).as_tuple().exponent != -type_.scale:
        raise _bad(type_, text, f"its scale is not {type_.scale}")
    if has_zone(type_) and not text.endswith(("+00:00", "Z")):
        raise _bad(type_, text, "it must end in +00:00")
    return value


def _nested_from_json(type_: Type, document: Any) -> Any:
    if isinstance(type_, StructType) and isinstance(document, Mapping):
        present = [field for field in type_.fields if str(field.id) in document]
        return {field.id: from_json(field.type, document[str(field.id)]) for field in present}
    if isinstance(type_, ListType) and isinstance(document, list):
        return [from_json(type_.element.type, item) for item in document]
    if isinstance(type_, MapType) and isinstance(document, Mapping):
        keys, items = document.get("keys"), document.get("values")
        if isinstance(keys, list) and isinstance(items, list) and len(keys) == len(items) and None not in keys:
            return [
                (from_json(type_.key.type, key), from_json(type_.value.type, item))
                for key, item in zip(keys, items, strict=True)
            ]
    raise _bad(type_, document)


# Bytes


def decimal_bytes(number: int) -> bytes:
    """An integer as big-endian two's complement in as few bytes as hold it.

    >>> decimal_bytes(-129).hex(), decimal_bytes(0).hex()
    ('ff7f', '00')
    """
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def to_bytes(type_: Type, value: Any) -> bytes:
    """The binary single-value form of a canonical value that is not null."""
    if value is None or isinstance(type_, UnknownType | StructType | ListType | MapType):
        raise _bad(type_, value, "it has no binary form")
    if isinstance(type_, DecimalType) and isinstance(value, Decimal) and value.as_tuple().exponent == -type_.scale:
        return decimal_bytes(unscaled(value))  # truncating -99.99 to 50 gives one digit more than the precision
    value = canonical(type_, value)
    if isinstance(type_, BooleanType):
        return b"\x01" if value else b"\x00"
    if isinstance(type_, IntegerType | DateType):
        return struct.pack("<i", value)
    if isinstance(type_, LongType | TimeType | Timestamps):
        return struct.pack("<q", value)
    if isinstance(type_, FloatType | DoubleType):
        return struct.pack("<f" if isinstance(type_, FloatType) else "<d", value)
    if isinstance(type_, DecimalType):
        return decimal_bytes(unscaled(value))
    if isinstance(type_, StringType):
        return str(value).encode()
    return b"".join(value) if isinstance(type_, VariantType) else bytes(value)


def from_bytes(type_: Type, data: bytes) -> Any:
    """A canonical value from its binary form, also from that of a type that was promoted since to this one.

    Fixed values may be shorter than their type: a writer may have truncated a bound.
    """
    size = len(data)
    if isinstance(type_, StringType):
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise _bad(type_, data, "it is not UTF-8") from error
    if isinstance(type_, BinaryType | GeometryType | GeographyType):
        return bytes(data)
    if isinstance(type_, BooleanType) and size == 1:
        return data != b"\x00"
    if isinstance(type_, IntegerType | LongType | DateType) and size == 4:
        return int.from_bytes(data, "little", signed=True)
    if isinstance(type_, LongType | TimeType | Timestamps) and size == 8:
        return int.from_bytes(data, "little", signed=True)
    if isinstance(type_, TimestampType | TimestampNsType) and size == 4:  # was a date
        per_day = temporal.SECONDS_PER_DAY * 10 ** timestamp_digits(type_)
        return _in_range(type_, int.from_bytes(data, "little", signed=True) * per_day, 64)
    if isinstance(type_, FloatType | DoubleType) and size == 4:
        return struct.unpack("<f", data)[0]
    if isinstance(type_, DoubleType) and size == 8:
        return struct.unpack("<d", data)[0]
    if isinstance(type_, DecimalType) and 1 <= size <= 16:
        return _EXACT.scaleb(Decimal(int.from_bytes(data, "big", signed=True)), -type_.scale)
    if (isinstance(type_, UuidType) and size == 16) or (isinstance(type_, FixedType) and size <= type_.length):
        return bytes(data)
    if isinstance(type_, VariantType):
        return _split_variant(type_, data)
    raise _bad(type_, data, f"{size} bytes")


def _split_variant(type_: Type, data: bytes) -> tuple[bytes, bytes]:
    width = (data[0] >> 6) + 1 if data else 1
    count = int.from_bytes(data[1 : 1 + width], "little")
    strings = 1 + width * (count + 2)
    end = strings + int.from_bytes(data[strings - width : strings], "little")
    if end >= len(data):
        raise _bad(type_, data, "metadata and value expected")
    return bytes(data[:end]), bytes(data[end:])


def bounds_to_array(type_: Type, bounds: pa.Array) -> pa.Array:
    """Decode a whole array of bounds at once; see `model.bounds`. What cannot be decoded is null: an unknown bound."""
    from frazil.model.bounds import decode_bounds

    return decode_bounds(type_, bounds)
