"""Literals of filters measured in the units of a column's type, without loss.

A literal need not be a value of the column it is compared with: `x > 1.5` is meant for an integer `x`, `d = 0.125` for
a decimal with two digits, a nanosecond for a column of microseconds. Countable types take an exact quantity. What may
be compared with which type, and how text is read, is decided here.

>>> from frazil.model.binding import BoundReference
>>> quantity(BoundReference(1, DecimalType(9, 2), ("price",)), "0.125")
Fraction(25, 2)
"""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Protocol

from frazil.errors import FrazilError, InvalidExpression, InvalidValue
from frazil.model import temporal
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimeType,
    Type,
    UuidType,
)
from frazil.model.values import Timestamps, canonical, from_text, has_zone, timestamp_digits

_MICROS_PER_DAY = temporal.SECONDS_PER_DAY * 10**6


class Typed(Protocol):
    """A column or a transform of one; `str()` names it in errors."""

    @property
    def type(self) -> Type:
        """The type of its values."""


def nearest_float(term: Typed, value: Any) -> tuple[float, bool]:
    """The nearest value of a floating point type, and whether it is infinite only because the literal is."""
    if isinstance(value, str) and value in {"Infinity", "-Infinity"}:
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise incomparable(term, value)
    exact = isinstance(value, float) and math.isinf(value)
    try:
        number = float(value)
        if isinstance(term.type, FloatType):
            number = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    return number, exact


# Everything that can be counted: integers, decimals by their last digit, dates and times by their unit


@dataclass(frozen=True, slots=True)
class Units:
    """The whole numbers that stand for the values of a type, and the value of each."""

    low: int
    high: int
    value: Callable[[int], Any] = int


def units_of(type_: Type) -> Units | None:
    """How the values of a type are counted, or None if they are not."""
    if isinstance(type_, IntegerType | DateType):
        return Units(-(2**31), 2**31 - 1)
    if isinstance(type_, LongType | Timestamps):
        return Units(-(2**63), 2**63 - 1)
    if isinstance(type_, TimeType):
        return Units(0, _MICROS_PER_DAY - 1)
    if isinstance(type_, DecimalType):
        most = 10**type_.precision - 1
        return Units(-most, most, lambda number: decimal_of(number, type_.scale))
    return None


def decimal_of(number: int, scale: int) -> Decimal:
    """A decimal from its digits and its scale."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


Quantity = Fraction | int
"""A literal measured in the units of a column."""

_MAX_MAGNITUDE = 400  # of a decimal literal; beyond it one is as good as infinite, or as infinitely small
_UNBOUNDED: int = 10**_MAX_MAGNITUDE


def quantity(term: Typed, value: Any) -> Quantity:
    """A literal in units of the column's type, exactly."""
    type_ = term.type
    try:
        if isinstance(type_, DecimalType):
            return Fraction(_number(term, _exact_decimal(value))) * Fraction(10) ** type_.scale
        if isinstance(type_, IntegerType | LongType):
            return _number(term, value)
        if isinstance(type_, TimeType):
            if isinstance(value, str | dt.time):
                return int(canonical(type_, value))
        elif isinstance(value, str | dt.date):
            return _moment(term, value)
    except InvalidValue as error:
        raise InvalidExpression(f"column {term}: {error.message}", hint=error.hint) from error
    raise incomparable(term, value)


def _exact_decimal(value: Any) -> Any:
    """Text as the decimal it is; a float as the decimal it is shown as, so that 0.1 means one tenth."""
    if isinstance(value, float) and math.isfinite(value):
        return Decimal(repr(value))
    if isinstance(value, str):
        try:
            return Decimal(value)
        except InvalidOperation as error:
            raise InvalidValue(f"{value!r} is not a decimal", hint="write it as 12.50") from error
    return value


def _number(term: Typed, value: Any) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise incomparable(term, value)
    if isinstance(value, int):
        return value
    if math.isnan(value):
        raise InvalidExpression(f"column {term} is compared with NaN", hint="it is never NaN")
    magnitude = value.adjusted() if isinstance(value, Decimal) and value and value.is_finite() else 0
    if math.isinf(value) or magnitude > _MAX_MAGNITUDE:
        return _UNBOUNDED if value > 0 else -_UNBOUNDED
    if magnitude < -_MAX_MAGNITUDE:
        return Fraction(1 if value > 0 else -1, _UNBOUNDED)
    return Fraction(value)


def _moment(term: Typed, value: str | dt.date) -> Quantity:
    """A date or timestamp literal in units of a date or timestamp column. Without a zone it is taken as UTC."""
    type_ = term.type
    if isinstance(value, str):
        nanos, zoned = temporal.parse_timestamp(value, 9)
    else:
        zoned = isinstance(value, dt.datetime) and value.tzinfo is not None
        moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
        since = moment.replace(tzinfo=None) - dt.datetime(1970, 1, 1)  # noqa: DTZ001 - both sides are UTC
        nanos = ((since.days * temporal.SECONDS_PER_DAY + since.seconds) * 10**6 + since.microseconds) * 1000
        if zoned and moment.utcoffset():
            nanos -= round(moment.utcoffset().total_seconds() * 10**9)  # type: ignore[union-attr]
    if zoned and not has_zone(type_):
        raise InvalidExpression(
            f"column {term} of type {type_} is compared with a time that has a zone",
            hint="write the literal without a zone",
        )
    if isinstance(type_, DateType):
        return Fraction(nanos, temporal.SECONDS_PER_DAY * 10**9)
    return Fraction(nanos, 10 ** (9 - timestamp_digits(type_)))


# Booleans, text and bytes


def plain_value(term: Typed, value: Any) -> Any:
    """A literal for a boolean, text, uuid or bytes column as a canonical value."""
    type_ = term.type
    if isinstance(type_, StringType) and isinstance(value, str):
        return text_value(term, value)
    fits = (
        (isinstance(type_, BooleanType) and isinstance(value, bool))
        or (isinstance(type_, UuidType) and isinstance(value, str | bytes | uuid.UUID))
        or (isinstance(type_, BinaryType | FixedType) and isinstance(value, bytes | str))
    )
    if not fits:
        raise incomparable(term, value)
    try:
        # text for bytes is hex, as in Iceberg's JSON
        return from_text(type_, value) if isinstance(value, str) else canonical(type_, value)
    except FrazilError as error:
        raise InvalidExpression(f"column {term}: {error.message}", hint=error.hint) from error


def text_value(term: Typed, value: str) -> str:
    """Text that has a UTF-8 form."""
    try:
        return str(canonical(StringType(), value))
    except InvalidValue as error:
        raise InvalidExpression(f"column {term}: {error.message}", hint=error.hint) from error


def incomparable(term: Typed, value: Any) -> InvalidExpression:
    """The error for a literal of the wrong kind."""
    return InvalidExpression(
        f"column {term} of type {term.type} cannot be compared with {value!r}",
        hint=f"give a literal of type {term.type}",
    )
