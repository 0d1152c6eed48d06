"""Filters as SQL text, in the form that `expression_parser` reads back.

>>> literal_sql(1.5), literal_sql(Decimal("1.5")), literal_sql("it's")
('1.5e0', '1.5', "'it''s'")
"""

from __future__ import annotations

import datetime as dt
import math
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from frazil.model.operations import Operation

_SYMBOLS = {
    Operation.LT: "<",
    Operation.LT_EQ: "<=",
    Operation.GT: ">",
    Operation.GT_EQ: ">=",
    Operation.EQ: "=",
    Operation.NOT_EQ: "<>",
}
RESERVED = frozenset({"and", "or", "not", "in", "is", "like", "between", "null", "true", "false", "nan", "escape"})
"""Words that must be quoted to be column names."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIKE_SPECIAL = re.compile(r"([\\%_])")


def quote_name(name: str) -> str:
    """A dotted name as SQL, in backquotes if it needs them.

    >>> quote_name("a.b"), quote_name("my col")
    ('a.b', '`my col`')
    """
    if all(_PLAIN_NAME.fullmatch(part) and part.lower() not in RESERVED for part in name.split(".")):
        return name
    return "`" + name.replace("`", "``") + "`"


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _float_sql(value: float) -> str:
    if not math.isfinite(value):
        return f"DOUBLE '{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}'"
    text = repr(value)
    return text if "e" in text else f"{text}e0"  # without the exponent it would be a decimal


_LITERAL_SQL: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "TRUE" if value else "FALSE",
    int: str,
    float: _float_sql,
    Decimal: lambda value: f"{value:f}",
    str: _quote_text,
    bytes: lambda value: f"X'{value.hex()}'",
    uuid.UUID: lambda value: f"UUID '{value}'",
    dt.time: lambda value: f"TIME '{value.isoformat()}'",
}


def literal_sql(value: Any) -> str:
    """A literal as SQL text."""
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP{'TZ' if value.tzinfo else ''} '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    written = next((write for kind, write in _LITERAL_SQL.items() if isinstance(value, kind)), repr)
    return written(value)


def predicate_sql(operation: Operation, term: str, literals: tuple[Any, ...]) -> str:
    """A predicate as SQL text."""
    match operation:
        case Operation.IS_NULL | Operation.NOT_NULL | Operation.IS_NAN | Operation.NOT_NAN:
            negation, what = operation.value.split("-")
            return f"{term} IS {'NOT ' if negation == 'not' else ''}{what.upper().replace('NAN', 'NaN')}"
        case Operation.IN | Operation.NOT_IN:
            listed = ", ".join(map(literal_sql, literals))
            return f"{term} {'NOT ' if operation is Operation.NOT_IN else ''}IN ({listed})"
        case Operation.STARTS_WITH | Operation.NOT_STARTS_WITH:
            pattern = _LIKE_SPECIAL.sub(r"\\\1", str(literals[0])) + "%"
            return f"{term} {'NOT ' if operation is Operation.NOT_STARTS_WITH else ''}LIKE {_quote_text(pattern)}"
    return f"{term} {_SYMBOLS[operation]} {literal_sql(literals[0])}"
