"""Dates and times as numbers since 1970 and as ISO 8601 text, over the whole range of the format.

Python's `datetime` ends at the years 1 and 9999 and at microseconds; Iceberg's values do not, so the calendar is here.

>>> format_timestamp(-1, 6)
'1969-12-31T23:59:59.999999'
>>> parse_timestamp("2017-11-16T22:31:08.123456789", 9)
(1510871468123456789, False)
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from frazil.errors import InvalidArgument, InvalidValue

SECONDS_PER_DAY = 86_400
_DATE = re.compile(r"([+-]?\d{4,7})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)
_TIMESTAMP = re.compile(rf"({_DATE.pattern})(?:[Tt ]({_TIME.pattern})\s*(Z|z|UTC|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII)


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar.

    >>> days_from_civil(1969, 12, 31)
    -1
    """
    # Years begin in March, so that a leap day is the last day of its year.
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01.

    >>> civil_from_days(-719528)
    (0, 1, 1)
    """
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = (shifted_month + 2) % 12 + 1
    return era * 400 + year_of_era + (month <= 2), month, day_of_year - (153 * shifted_month + 2) // 5 + 1


def format_year(year: int) -> str:
    """A year with at least four digits and, outside 0..9999, its sign."""
    if 0 <= year <= 9999:
        return f"{year:04d}"
    return f"{'-' if year < 0 else '+'}{abs(year):04d}"


def format_date(days: int) -> str:
    """ISO text of days since 1970."""
    year, month, day = civil_from_days(days)
    return f"{format_year(year)}-{month:02d}-{day:02d}"


def format_time(value: int, digits: int = 6) -> str:
    """ISO text of a time of day counted in units of 10**-digits seconds."""
    seconds, fraction = divmod(value, 10**digits)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:0{digits}d}"


def format_timestamp(value: int, digits: int) -> str:
    """ISO text of a timestamp counted in units of 10**-digits seconds since 1970, without a zone."""
    days, rest = divmod(value, SECONDS_PER_DAY * 10**digits)
    return f"{format_date(days)}T{format_time(rest, digits)}"


def parse_date(text: str) -> int:
    """Days since 1970 of an ISO date; InvalidValue otherwise."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise InvalidValue(f"{text!r} is not a date", hint="write it as 2017-11-16")
    return _days(text, found[1], found[2], found[3])


def parse_time(text: str) -> int:
    """Microseconds since midnight of an ISO time; InvalidValue otherwise."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise InvalidValue(f"{text!r} is not a time of day", hint="write it as 22:31:08.123456")
    return _time_of_day(text, found.groups(), 6)


def parse_timestamp(text: str, digits: int) -> tuple[int, bool]:
    """Units of 10**-digits seconds since 1970, and whether the text has a zone; a date alone means its midnight."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise InvalidValue(f"{text!r} is not a timestamp", hint="write it as 2017-11-16T22:31:08.123456")
    _, year, month, day, _, *clock, zone = found.groups()
    value = _days(text, year, month, day) * SECONDS_PER_DAY * 10**digits
    if clock[0] is not None:
        value += _time_of_day(text, tuple(clock), digits)
    return value - _offset_seconds(text, zone) * 10**digits, zone is not None


def _days(text: str, year: str, month: str, day: str) -> int:
    days = days_from_civil(int(year), int(month), int(day)) if 1 <= int(month) <= 12 else 0
    # a day that does not exist comes back as another one
    if civil_from_days(days) != (int(year), int(month), int(day)):
        raise InvalidValue(f"{text!r} names a day that does not exist", hint="check the month and the day")
    return days


def _time_of_day(text: str, parts: tuple[str | None, ...], digits: int) -> int:
    hour, minute, second = (int(part or 0) for part in parts[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise InvalidValue(
            f"{text!r} names a time that does not exist", hint="times run from 00:00:00 to 23:59:59.999999"
        )
    fraction = parts[3] or ""
    if fraction[digits:].strip("0"):
        raise InvalidValue(f"{text!r} is more precise than {digits} decimals of a second", hint="round it first")
    return (hour * 3600 + minute * 60 + second) * int(10**digits) + int(fraction[:digits].ljust(digits, "0"))


def _offset_seconds(text: str, zone: str | None) -> int:
    if zone is None or zone[0] in "ZzU":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
    if hours > 18 or minutes > 59:
        raise InvalidValue(f"{text!r} has an impossible zone offset", hint="offsets run from -18:00 to +18:00")
    seconds = hours * 3600 + minutes * 60
    return -seconds if zone[0] == "-" else seconds


def to_millis(moment: int | str | datetime) -> int:
    """Milliseconds since 1970 from a number of them, a datetime, or ISO text; without a zone it is UTC."""
    if isinstance(moment, bool):
        raise InvalidArgument("a time cannot be a boolean", hint="give milliseconds, ISO text or a datetime")
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise InvalidArgument(f"{moment!r} is not a time", hint="write it as 2024-01-31T12:00:00+00:00") from error
    if not isinstance(moment, datetime):
        raise InvalidArgument(f"{moment!r} is not a time", hint="give milliseconds, ISO text or a datetime")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
