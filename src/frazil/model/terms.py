"""Terms: a column, or a transform of one, as people write them: `ts`, `days(ts)`, `bucket(16, id)`, `a.b`.

>>> parse_term("bucket(16, `odd name`.id) AS shard")
Term(column='odd name.id', transform=BucketTransform(buckets=16), alias='shard')
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.errors import InvalidArgument
from frazil.model.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)

_NAME = r"(?:`(?:[^`]|``)+`|[^\s`(),.]+)"
_COLUMN = rf"{_NAME}(?:\.{_NAME})*"
_TERM = re.compile(
    rf"\s*(?:(?P<function>\w+)\s*\(\s*(?P<arguments>[^()]*?)\s*\)|(?P<column>{_COLUMN}))"
    rf"(?:\s+[Aa][Ss]\s+(?P<alias>{_NAME}))?\s*"
)
_ARGUMENT = re.compile(rf"\s*({_COLUMN})\s*(?:,|$)")
_PLAIN: dict[str, Transform] = {
    "identity": IdentityTransform(),
    **dict.fromkeys(("year", "years"), YearTransform()),
    **dict.fromkeys(("month", "months"), MonthTransform()),
    **dict.fromkeys(("day", "days", "date"), DayTransform()),
    **dict.fromkeys(("hour", "hours", "date_hour"), HourTransform()),
    "void": VoidTransform(),
}
_SIZED: dict[str, type[BucketTransform | TruncateTransform]] = {
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
    "trunc": TruncateTransform,
}


@dataclass(frozen=True, slots=True)
class Term:
    """A column's dotted name, what is made of it, and the name to give the result, if one was given."""

    column: str
    transform: Transform
    alias: str | None = None


def parse_term(text: str) -> Term:
    """Read a term; InvalidArgument if it is none."""
    found = _TERM.fullmatch(text)
    if found is None:
        raise _bad(text)
    alias = unquote(found["alias"]) if found["alias"] else None
    if found["column"]:
        return Term(unquote(found["column"]), IdentityTransform(), alias)
    function, arguments = found["function"].lower(), _arguments(text, found["arguments"])
    if function in _PLAIN and len(arguments) == 1:
        return Term(unquote(arguments[0]), _PLAIN[function], alias)
    if function in _SIZED and len(arguments) == 2:
        # both orders are written: bucket(16, id) and truncate(name, 4)
        size, column = arguments if arguments[0].isdecimal() else reversed(arguments)
        if size.isascii() and size.isdecimal():
            return Term(unquote(column), _SIZED[function](int(size)), alias)
    raise _bad(text)


def unquote(name: str) -> str:
    """A possibly backquoted, possibly dotted name without its quotes.

    >>> unquote("`a b`.c")
    'a b.c'
    """
    parts = re.findall(_NAME, name)
    return ".".join(part[1:-1].replace("``", "`") if part[0] == "`" else part for part in parts)


def _arguments(text: str, arguments: str) -> list[str]:
    result = []
    position = 0
    while position < len(arguments):
        found = _ARGUMENT.match(arguments, position)
        if found is None:
            raise _bad(text)
        result.append(found[1])
        position = found.end()
    return result


def _bad(text: str) -> InvalidArgument:
    return InvalidArgument(
        f"{text!r} is not a column or a transform of one",
        hint="write a column, year(c), month(c), day(c), hour(c), bucket(n, c) or truncate(n, c)",
    )
