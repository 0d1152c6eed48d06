"""Partition transforms: identity, bucket, truncate, year, month, day, hour, void, and those we do not know.

Each works on one canonical value (`apply`) and, vectorised, on an Arrow array (`apply_array`); both agree.

>>> from frazil.model.types import IntegerType, StringType
>>> parse_transform("bucket[16]").apply(IntegerType(), 34)
3
>>> parse_transform("truncate[3]").apply(StringType(), "iceberg")
'ice'
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from frazil.errors import InvalidSchema, InvalidValue, Unsupported
from frazil.model import temporal
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
    PrimitiveType,
    StringType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
)
from frazil.model.values import Timestamps, decimal_bytes, has_zone, timestamp_digits, to_json, unscaled

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_INT = 2**31 - 1


class Transform:
    """A function from a column's values to partition (or sort) values; null to null. `str()` is its metadata text."""

    __slots__ = ()
    preserves_order: ClassVar[bool] = False
    """Whether a <= b implies apply(a) <= apply(b)."""

    @property
    def dedup_name(self) -> str:
        """Two fields on one column with the same name here are redundant in a spec."""
        return str(self)

    def can_transform(self, type_: Type) -> bool:
        """Whether columns of the type can be the source."""
        raise Unsupported(f"{self} has no source types", hint="use a transform of the specification")

    def result_type(self, type_: Type) -> Type:
        """The type of the results for a source type."""
        return type_

    def apply(self, type_: Type, value: Any) -> Any:
        """The result for one canonical value of the source type."""
        self.check(type_)
        return None if value is None else self._apply(type_, value)

    def apply_array(self, type_: Type, array: pa.Array) -> pa.Array:
        """The results for an Arrow array (or chunked array) of the source type."""
        from frazil.model import transform_arrays

        self.check(type_)
        return transform_arrays.apply_chunked(self, type_, array)

    def check(self, type_: Type) -> None:
        """Refuse source types the transform is not defined for."""
        if not self.can_transform(type_):
            raise InvalidSchema(f"{self} cannot transform a column of type {type_}", hint="choose another transform")

    def satisfies_order_of(self, other: Transform, type_: Type | None = None) -> bool:
        """Whether rows ordered by this transform are also ordered by the other one, on the same column."""
        return self == other

    def to_human_string(self, type_: Type, value: Any) -> str:
        """A result, of the result type given, as partition paths show it."""
        return human_string(type_, value)

    def _apply(self, type_: Type, value: Any) -> Any:
        raise Unsupported(f"{self} cannot be applied", hint="use a transform of the specification")


@dataclass(frozen=True, slots=True)
class IdentityTransform(Transform):
    """The value itself."""

    preserves_order = True

    def __str__(self) -> str:
        return "identity"

    def can_transform(self, type_: Type) -> bool:
        return isinstance(type_, PrimitiveType) and not isinstance(type_, GeometryType | GeographyType)

    def satisfies_order_of(self, other: Transform, type_: Type | None = None) -> bool:
        return other.preserves_order

    def _apply(self, type_: Type, value: Any) -> Any:
        return value


_BUCKET_SOURCES = (
    *(IntegerType, LongType, DecimalType, DateType, TimeType, StringType, UuidType, FixedType, BinaryType),
    *(TimestampType, TimestamptzType, TimestampNsType, TimestamptzNsType),
)


@dataclass(frozen=True, slots=True)
class BucketTransform(Transform):
    """A hash of the value, modulo `buckets`."""

    buckets: int

    def __post_init__(self) -> None:
        if not 0 < self.buckets <= _MAX_INT:
            raise InvalidSchema(f"bucket[{self.buckets}] needs a positive number", hint="for example bucket(16, id)")

    def __str__(self) -> str:
        return f"bucket[{self.buckets}]"

    def can_transform(self, type_: Type) -> bool:
        return isinstance(type_, _BUCKET_SOURCES)

    def result_type(self, type_: Type) -> Type:
        return IntegerType()

    def _apply(self, type_: Type, value: Any) -> int:
        return (bucket_hash(type_, value) & _MAX_INT) % self.buckets


@dataclass(frozen=True, slots=True)
class TruncateTransform(Transform):
    """Numbers rounded down to a multiple of `width`; text and bytes cut to that length."""

    width: int
    preserves_order = True

    def __post_init__(self) -> None:
        if not 0 < self.width <= _MAX_INT:
            raise InvalidSchema(f"truncate[{self.width}] needs a positive number", hint="for example truncate(4, name)")

    def __str__(self) -> str:
        return f"truncate[{self.width}]"

    def can_transform(self, type_: Type) -> bool:
        return isinstance(type_, IntegerType | LongType | DecimalType | StringType | BinaryType)

    def satisfies_order_of(self, other: Transform, type_: Type | None = None) -> bool:
        if not isinstance(other, TruncateTransform) or type_ is None:
            return self == other
        if isinstance(type_, StringType | BinaryType):  # a longer prefix orders the shorter ones too
            return other.width <= self.width
        return other.width % self.width == 0

    def _apply(self, type_: Type, value: Any) -> Any:
        if isinstance(type_, StringType | BinaryType):
            return value[: self.width]
        if isinstance(type_, DecimalType):
            number = unscaled(value)
            number -= number % self.width
            return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -type_.scale))
        # near the smallest integer this wraps around, as the reference implementation does
        return _wrap(value - value % self.width, 32 if isinstance(type_, IntegerType) else 64)


def _wrap(number: int, bits: int) -> int:
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


class TimeTransform(Transform):
    """What year, month, day and hour have in common."""

    __slots__ = ()
    preserves_order = True
    unit: ClassVar[str]
    hours: ClassVar[int]
    """How long one is, about: the finer one satisfies the order of the coarser."""

    def __str__(self) -> str:
        return self.unit

    @property
    def dedup_name(self) -> str:
        return "time"

    def can_transform(self, type_: Type) -> bool:
        return isinstance(type_, DateType | Timestamps)

    def result_type(self, type_: Type) -> Type:
        return IntegerType()

    def satisfies_order_of(self, other: Transform, type_: Type | None = None) -> bool:
        return isinstance(other, TimeTransform) and self.hours <= other.hours

    def _apply(self, type_: Type, value: Any) -> int:
        days = value if isinstance(type_, DateType) else value // (86_400 * 10 ** timestamp_digits(type_))
        return self._from_days(days)

    def _from_days(self, days: int) -> int:
        return days


@dataclass(frozen=True, slots=True)
class YearTransform(TimeTransform):
    """Years since 1970."""

    unit = "year"
    hours = 8766
    __str__ = TimeTransform.__str__

    def _from_days(self, days: int) -> int:
        return temporal.civil_from_days(days)[0] - 1970

    def to_human_string(self, type_: Type, value: Any) -> str:
        return "null" if value is None else f"{1970 + value:04d}"


@dataclass(frozen=True, slots=True)
class MonthTransform(TimeTransform):
    """Months since 1970-01."""

    unit = "month"
    hours = 731
    __str__ = TimeTransform.__str__

    def _from_days(self, days: int) -> int:
        year, month, _ = temporal.civil_from_days(days)
        return (year - 1970) * 12 + month - 1

    def to_human_string(self, type_: Type, value: Any) -> str:
        return "null" if value is None else f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"


@dataclass(frozen=True, slots=True)
class DayTransform(TimeTransform):
    """Days since 1970-01-01, as a date."""

    unit = "day"
    hours = 24
    __str__ = TimeTransform.__str__

    def result_type(self, type_: Type) -> Type:
        return DateType()

    def to_human_string(self, type_: Type, value: Any) -> str:
        return human_string(DateType(), value)


@dataclass(frozen=True, slots=True)
class HourTransform(TimeTransform):
    """Hours since 1970-01-01 00:00."""

    unit = "hour"
    hours = 1
    __str__ = TimeTransform.__str__

    def can_transform(self, type_: Type) -> bool:
        return isinstance(type_, Timestamps)

    def to_human_string(self, type_: Type, value: Any) -> str:
        return "null" if value is None else f"{_human_day(value // 24)}-{value % 24:02d}"

    def _apply(self, type_: Type, value: Any) -> int:
        return _wrap(value // (3600 * 10 ** timestamp_digits(type_)), 32)


@dataclass(frozen=True, slots=True)
class VoidTransform(Transform):
    """Always null: a field that was dropped from a spec of a v1 table."""

    def __str__(self) -> str:
        return "void"

    def can_transform(self, type_: Type) -> bool:
        return True

    def to_human_string(self, type_: Type, value: Any) -> str:
        return "null"

    def _apply(self, type_: Type, value: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class UnknownTransform(Transform):
    """A transform of a newer specification: its fields are ignored when reading, and nothing is written with it."""

    text: str

    def __str__(self) -> str:
        return self.text

    def can_transform(self, type_: Type) -> bool:
        return True

    def result_type(self, type_: Type) -> Type:
        return StringType()

    def apply_array(self, type_: Type, array: pa.Array) -> pa.Array:
        return self._apply(type_, array)

    def _apply(self, type_: Type, value: Any) -> Any:
        raise Unsupported(f"unknown transform {self.text!r}", hint="write with a newer library, or change the spec")


_PARAMETRIC = re.compile(r"(bucket|truncate)\[(\d{1,10})\]", re.IGNORECASE | re.ASCII)
_PLAIN: dict[str, Transform] = {
    "identity": IdentityTransform(),
    "year": YearTransform(),
    "month": MonthTransform(),
    "day": DayTransform(),
    "hour": HourTransform(),
    "void": VoidTransform(),
}


def parse_transform(text: str) -> Transform:
    """The transform of a text from metadata; an UnknownTransform when it is none we know."""
    plain = _PLAIN.get(text.lower())
    if plain is not None:
        return plain
    if found := _PARAMETRIC.fullmatch(text):
        kind = BucketTransform if found[1].lower() == "bucket" else TruncateTransform
        return kind(int(found[2]))
    return UnknownTransform(text)


def bucket_hash(type_: Type, value: Any) -> int:
    """The 32-bit hash of a value that is not null, for every type Appendix B defines one for.

    >>> bucket_hash(StringType(), "iceberg")
    1210000089
    """
    from frazil.model.murmur3 import hash_bytes

    if isinstance(type_, StringType):
        return hash_bytes(value.encode())
    if isinstance(type_, UuidType | FixedType | BinaryType):
        return hash_bytes(value)
    if isinstance(type_, DecimalType):
        return hash_bytes(decimal_bytes(unscaled(value)))
    if isinstance(type_, TimestampNsType | TimestamptzNsType):
        value //= 1000
    elif isinstance(type_, FloatType | DoubleType):
        (value,) = struct.unpack("<q", struct.pack("<d", math.nan if math.isnan(value) else value + 0.0))
    elif not isinstance(type_, IntegerType | LongType | DateType | TimeType | BooleanType | Timestamps):
        raise InvalidValue(f"no hash is defined for type {type_}", hint="bucket by a column of another type")
    return hash_bytes(struct.pack("<q", value))


# Text for people and paths, as the reference implementation writes it


def human_string(type_: Type, value: Any) -> str:
    """A canonical value as the reference implementation shows it in partition paths."""
    if value is None:
        return "null"
    shown: Callable[[Any], str] = str
    if isinstance(type_, DateType):
        shown = _human_day
    elif isinstance(type_, TimeType):
        shown = _human_time
    elif isinstance(type_, Timestamps):
        return _human_timestamp(type_, value)
    elif isinstance(type_, BooleanType):
        return "true" if value else "false"
    elif isinstance(type_, FloatType | DoubleType):
        return _human_float(type_, value)
    elif isinstance(type_, UuidType):
        return str(to_json(type_, value))
    elif isinstance(type_, FixedType | BinaryType):
        return base64.b64encode(value).decode()
    elif isinstance(type_, UnknownType):
        return "null"
    return shown(value)


def _human_day(days: int) -> str:
    year, month, day = temporal.civil_from_days(days)
    return f"{year:04d}-{month:02d}-{day:02d}"


def _human_time(micros: int) -> str:
    # 22:31, 22:31:08, 22:31:08.120, 22:31:08.123456: the shortest of these that is exact
    text = temporal.format_time(micros)
    for tail in ("000", ".000", ":00"):
        text = text.removesuffix(tail) if micros % {"000": 10**3, ".000": 10**6, ":00": 6 * 10**7}[tail] == 0 else text
    return text


def _human_timestamp(type_: Type, value: int) -> str:
    text = temporal.format_timestamp(value, timestamp_digits(type_)).rstrip("0")
    text = f"{text[:-1]}" if text.endswith(".") else text
    return f"{text}+00:00" if has_zone(type_) else text


def _human_float(type_: Type, value: float) -> str:
    if not math.isfinite(value):
        return str(to_json(DoubleType(), value))
    digits, _, exponent = f"{Decimal(repr(to_json(type_, value))):e}".partition("e")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = f"{Decimal(repr(to_json(type_, value))):f}"
        return plain if "." in plain else f"{plain}.0"
    whole, _, fraction = digits.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}E{int(exponent)}"
