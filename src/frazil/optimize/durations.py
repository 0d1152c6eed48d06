"""Spans of time and patterns of dates in properties, as Amoro's are written."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from frazil.errors import InvalidArgument

_SPAN = re.compile(r"\s*(-?\d+)\s*([a-z]*)\s*")
_UNITS = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_LETTERS = {"yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")


def milliseconds(name: str, text: str) -> int:
    """A span such as `12h`, `30 days` or `1000`, which is milliseconds.

    >>> milliseconds("keep", "2 h"), milliseconds("keep", "-1")
    (7200000, -1)
    """
    found = _SPAN.fullmatch(text.lower())
    if found is None or found[2] not in _UNITS:
        raise InvalidArgument(f"property {name} is {text!r}, not a span of time", hint="write it as 30d, 12h or 90min")
    return int(found[1]) * _UNITS[found[2]]


def at_least_none(name: str, text: str) -> int:
    """The same, where a span below zero would mean nothing, or all at once."""
    span = milliseconds(name, text)
    if span < 0:
        raise InvalidArgument(f"property {name} is {text!r}, less than no time", hint="write it as 30d, 12h or 90min")
    return span


def minutes(name: str, text: str) -> int:
    """A span of which a number alone is minutes, and none is below zero; in milliseconds.

    >>> minutes("keep", "720"), minutes("keep", "720min")
    (43200000, 43200000)
    """
    return int(text) * 60_000 if text.strip().isdecimal() else at_least_none(name, text)


def formatted(moment_ms: int, pattern: str) -> str:
    """A time in UTC, as a pattern of Java's has it: the part of them in which later texts are greater.

    >>> formatted(0, "yyyy-MM-dd'T'HH:mm")
    '1970-01-01T00:00'
    """
    parts = []
    for found in _PART.finditer(pattern):
        if found[2] is not None and found[0] not in _LETTERS:
            raise InvalidArgument(f"the pattern {pattern!r} has {found[0]!r}", hint=f"use {', '.join(_LETTERS)}")
        quoted = None if found[1] is None else (found[1].replace("''", "'") or "'")
        parts.append(_LETTERS[found[0]] if found[2] else (quoted or found[0]).replace("%", "%%"))
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("".join(parts))
