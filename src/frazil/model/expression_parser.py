"""Filters written as SQL: `id > 5 AND name LIKE 'ab%' AND d IN (DATE '2024-01-01')`.

>>> parse_expression("5 < id AND NOT (y BETWEEN 1 AND 2)") == (col("id") > 5) & ~col("y").between(1, 2)
True

Integers, decimals (`1.50`), doubles (`1e3`), text, TRUE, FALSE, `X'ab'`, and text after DATE, TIME, TIMESTAMP,
TIMESTAMPTZ, UUID or DOUBLE are literals; names may stand in backquotes or double quotes; partition transforms are
functions: `bucket(16, id)`, `truncate(4, name)`, and `years(ts)`, `months(ts)`, `days(ts)`, `hours(ts)` since 1970.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, NoReturn

from frazil.errors import FrazilError, InvalidArgument, InvalidExpression, InvalidValue
from frazil.model import temporal
from frazil.model.expression_sql import literal_sql
from frazil.model.expressions import (
    MAX_DEPTH,
    AlwaysFalse,
    AlwaysTrue,
    Column,
    Expression,
    Reference,
    and_,
    col,
    not_,
    or_,
    predicate,
    transformed,
)
from frazil.model.operations import Operation
from frazil.model.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from frazil.model.types import DateType, TimestampType, TimestamptzType, TimeType
from frazil.model.values import friendly

_MAX_DIGITS = 1000
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<bytes>[xX]'[^']*')
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")
    | (?P<float>(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+(?!\w))
    | (?P<decimal>(?:\d+\.\d*|\.\d+)(?![\w.]))
    | (?P<integer>\d+(?!\w))
    | (?P<word>[^\W\d]\w*)
    | (?P<symbol><=>|<=|>=|<>|!=|==|[=<>(),.+-])
    )""",
    re.VERBOSE,
)
_COMPARISONS = {
    "<": Operation.LT,
    "<=": Operation.LT_EQ,
    ">": Operation.GT,
    ">=": Operation.GT_EQ,
    "=": Operation.EQ,
    "==": Operation.EQ,
    "!=": Operation.NOT_EQ,
    "<>": Operation.NOT_EQ,
}
_TIME_FUNCTIONS: dict[str, Transform] = {
    f"{transform.unit}s": transform
    for transform in (YearTransform(), MonthTransform(), DayTransform(), HourTransform())
}
_WIDTH_FUNCTIONS: dict[str, Callable[[int], Transform]] = {"bucket": BucketTransform, "truncate": TruncateTransform}


def parse_expression(text: str) -> Expression:
    """The filter a SQL condition stands for; InvalidExpression, with the position, if it is none we support."""
    parser = _Parser(text)
    found = parser.condition(parser.any_of(0))
    if parser.token.kind != "end":
        parser.fail(f"unexpected {parser.token}", hint="combine conditions with AND or OR")
    return found


def as_expression(where: str | Expression | None) -> Expression:
    """A filter from SQL text, or as it is; nothing at all is every row."""
    return AlwaysTrue() if where is None else as_condition(where)


def as_condition(where: str | Expression) -> Expression:
    """The same where it must be told which rows are meant: who forgets it should not lose all of them."""
    if isinstance(where, str):
        return parse_expression(where)
    if not isinstance(where, Expression):
        raise InvalidArgument(
            f"{where!r} does not say which rows are meant", hint='give SQL text or an expression; "TRUE" is every row'
        )
    return where


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    value: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.value)


@dataclass(frozen=True, slots=True)
class _Literal:
    value: Any

    def __str__(self) -> str:
        return "NULL" if self.value is None else literal_sql(self.value)


_Operand = Expression | Column | _Literal


class _Parser:
    """A Pratt parser: an operand, then whatever binds tighter than the caller."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokenize()
        self.index = 0
        self.depth = 0

    def _tokenize(self) -> list[_Token]:
        tokens, at, end = [], 0, len(self.text.rstrip())
        while at < end:
            found = _TOKEN.match(self.text, at)
            if found is None or found.lastgroup is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                self.fail_at(at, f"cannot read {self.text[at : at + 10]!r}", hint="check quotes, numbers and operators")
            kind = found.lastgroup
            tokens.append(_Token(kind, found[kind], found.start(kind)))
            at = found.end()
        return [*tokens, _Token("end", "", len(self.text))]

    def fail_at(self, position: int, message: str, hint: str) -> NoReturn:
        near = self.text[max(0, position - 20) : position + 20]
        raise InvalidExpression(
            f"{message} at position {position} of the filter, near {near!r}", hint=hint, position=position
        )

    def fail(self, message: str, hint: str) -> NoReturn:
        self.fail_at(self.token.position, message, hint)

    # Tokens

    @property
    def token(self) -> _Token:
        return self.tokens[self.index]

    def next(self) -> _Token:
        token = self.token
        self.index = min(self.index + 1, len(self.tokens) - 1)
        return token

    def at_word(self, *words: str) -> bool:
        """Whether these words come next."""
        ahead = self.tokens[self.index : self.index + len(words)]
        return [token.value.upper() for token in ahead if token.kind == "word"] == list(words)

    def accept(self, *words: str) -> bool:
        if self.at_word(*words):
            self.index += len(words)
            return True
        return False

    def accept_symbol(self, symbol: str) -> bool:
        if self.token.kind == "symbol" and self.token.value == symbol:
            self.next()
            return True
        return False

    def expect_symbol(self, symbol: str) -> None:
        if not self.accept_symbol(symbol):
            self.fail(f"expected {symbol!r}, found {self.token}", hint="check the parentheses and commas")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} levels of nesting", hint="remove parentheses, or split the filter")

    # Conditions: OR binds as 1, AND as 2, NOT as 3, a comparison as 4

    def any_of(self, power: int) -> _Operand:
        if self.accept("NOT"):
            self.deeper()
            left: _Operand = not_(self.condition(self.any_of(3)))
            self.depth -= 1
        else:
            left = self.comparison(self.operand())
        for word, strength, combine in (("AND", 2, and_), ("OR", 1, or_)):
            if power < strength and self.at_word(word):
                operands = [self.condition(left)]
                while self.accept(word):
                    operands.append(self.condition(self.any_of(strength)))
                left = combine(*operands)
        return left

    def condition(self, operand: _Operand) -> Expression:
        """What stands where a condition must: a boolean column alone means that it is true."""
        if isinstance(operand, Expression):
            return operand
        if isinstance(operand, Column):
            return operand == True  # noqa: E712 - builds the predicate
        if isinstance(operand.value, bool):
            return AlwaysTrue() if operand.value else AlwaysFalse()
        self.fail(f"{operand} is no condition; something is missing", hint="compare it with a column")

    def comparison(self, left: _Operand) -> _Operand:
        start = self.token
        if start.kind == "symbol" and (start.value in _COMPARISONS or start.value == "<=>"):
            self.next()
            return self.checked(start, lambda: self.compare(start.value, left, self.operand()))
        if self.accept("IS"):
            negated = self.accept("NOT")
            return self.checked(start, lambda: self.test(self.column(left, start), negated))
        negated = self.at_word("NOT") and self.tokens[self.index + 1].value.upper() in {"IN", "LIKE", "BETWEEN"}
        if negated:
            self.next()
        for word, parse in (("IN", self.in_list), ("LIKE", self.like), ("BETWEEN", self.between)):
            if self.accept(word):
                return self.checked(start, partial(parse, self.column(left, start), negated))
        return left

    def checked(self, start: _Token, build: Callable[[], Expression]) -> Expression:
        """Build a predicate; what it refuses is said with the position."""
        try:
            return build()
        except FrazilError as error:
            if "position" in error.context:
                raise
            self.fail_at(start.position, error.message, error.hint or "")

    def column(self, operand: _Operand, start: _Token) -> Column:
        if isinstance(operand, Column):
            return operand
        self.fail_at(start.position, f"{operand} is no column", hint="a column must stand to the left")

    def compare(self, symbol: str, left: _Operand, right: _Operand) -> Expression:
        if isinstance(left, Expression) or isinstance(right, Expression):
            self.fail("a condition is compared", hint="combine conditions with AND, OR, NOT")
        operation = _COMPARISONS.get(symbol, Operation.EQ)
        if isinstance(left, _Literal):
            left, right, operation = right, left, operation.flipped
        if isinstance(left, _Literal):
            self.fail("two literals are compared", hint="compare a column with a literal")
        value = right.value if isinstance(right, _Literal) else right
        return left.equal_null_safe(value) if symbol == "<=>" else predicate(operation, left.term, value)

    def test(self, column: Column, negated: bool) -> Expression:
        if self.accept("NULL"):
            return column.not_null() if negated else column.is_null()
        if self.accept("NAN"):
            return column.not_nan() if negated else column.is_nan()
        for word, value in (("TRUE", True), ("FALSE", False)):
            if self.accept(word):
                found = column.equal_null_safe(value)
                return not_(found) if negated else found
        self.fail(f"expected NULL, NAN, TRUE or FALSE after IS, found {self.token}", hint="for example x IS NOT NULL")

    def in_list(self, column: Column, negated: bool) -> Expression:
        self.expect_symbol("(")
        values = [self.literal()]
        while self.accept_symbol(","):
            values.append(self.literal())
        self.expect_symbol(")")
        return predicate(Operation.NOT_IN if negated else Operation.IN, column.term, *values)

    def between(self, column: Column, negated: bool) -> Expression:
        low = self.literal()
        if not self.accept("AND"):
            self.fail(f"expected AND, found {self.token}", hint="write x BETWEEN 1 AND 2")
        found = column.between(low, self.literal())
        return not_(found) if negated else found

    def like(self, column: Column, negated: bool) -> Expression:
        pattern = self.literal()
        escape = self.literal() if self.accept("ESCAPE") else "\\"
        if not isinstance(pattern, str) or not isinstance(escape, str) or len(escape) != 1:
            self.fail("LIKE needs a text pattern", hint="for example name LIKE 'ab%'")
        operation, value = _like(pattern, escape)
        return predicate(operation.negated if negated else operation, column.term, value)

    # Operands

    def literal(self) -> Any:
        operand = self.operand()
        if not isinstance(operand, _Literal):
            self.fail(f"expected a literal, found {operand}", hint="columns can be compared with literals only")
        return operand.value

    def operand(self) -> _Operand:
        token = self.next()
        if token.kind == "symbol":
            if token.value == "(":
                self.deeper()
                inner = self.any_of(0)
                self.expect_symbol(")")
                self.depth -= 1
                return inner
            if token.value in "+-" and self.token.kind in {"integer", "decimal", "float"}:
                number = self.number(self.next())
                if token.value == "+":
                    return _Literal(number)
                # minus would round a decimal to the 28 digits of Python's context
                return _Literal(number.copy_negate() if isinstance(number, Decimal) else -number)
        elif token.kind in {"integer", "decimal", "float"}:
            return _Literal(self.number(token))
        elif token.kind == "text":
            return _Literal(token.value[1:-1].replace("''", "'"))
        elif token.kind == "bytes":
            return _Literal(self.typed(token, bytes.fromhex, token.value[2:-1]))
        elif token.kind == "quoted":
            return self.name(token)
        elif token.kind == "word":
            return self.word(token)
        self.fail_at(token.position, f"expected a column or a literal, found {token}", hint="for example id > 5")

    def word(self, token: _Token) -> _Operand:
        word = token.value.upper()
        if word in {"TRUE", "FALSE", "NULL"}:
            return _Literal({"TRUE": True, "FALSE": False, "NULL": None}[word])
        if word in {"AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "ESCAPE", "NAN"}:
            self.fail_at(
                token.position, f"expected a column, found {token}", hint="put names that are words in backquotes"
            )
        if self.token.kind == "text" and word in _TYPED:
            text = self.next().value[1:-1].replace("''", "'")
            return _Literal(self.typed(token, _TYPED[word], text))
        if self.accept_symbol("("):
            return self.function(token)
        return self.name(token)

    def name(self, first: _Token) -> Column:
        parts = [first]
        while self.accept_symbol("."):
            if self.token.kind not in {"word", "quoted"}:
                self.fail(f"expected a name after the dot, found {self.token}", hint="for example address.city")
            parts.append(self.next())
        return col(".".join(_unquote(part) for part in parts))

    def number(self, token: _Token) -> int | float | Decimal:
        if len(token.value) > _MAX_DIGITS:
            self.fail_at(token.position, "the number is too long", hint=f"at most {_MAX_DIGITS} digits")
        if token.kind == "integer":
            return int(token.value)
        return float(token.value) if token.kind == "float" else Decimal(token.value)

    def typed(self, token: _Token, convert: Callable[[str], Any], text: str) -> Any:
        try:
            return convert(text)
        except (ValueError, InvalidValue) as error:
            hint = error.hint if isinstance(error, InvalidValue) else None
            reason = error.message if isinstance(error, InvalidValue) else str(error)
            self.fail_at(token.position, f"not a literal: {reason}", hint=hint or "check its text")

    def function(self, name: _Token) -> _Operand:
        self.deeper()
        arguments = [self.operand()]
        while self.accept_symbol(","):
            arguments.append(self.operand())
        self.expect_symbol(")")
        self.depth -= 1
        match name.value.lower(), arguments:
            case "isnan", [Column() as column]:
                return column.is_nan()
            case "startswith" | "starts_with", [Column() as column, _Literal(str() as prefix)]:
                return column.startswith(prefix)
            case function, [Column(Reference() as term)] if function in _TIME_FUNCTIONS:
                return Column(transformed(_TIME_FUNCTIONS[function], term))
            case function, [_Literal(int() as width), Column(Reference() as term)] if function in _WIDTH_FUNCTIONS:
                return self.checked_term(name, _WIDTH_FUNCTIONS[function], width, term)
        hint = "use isnan(x), startswith(x, 'a'), bucket(n, x), truncate(n, x), years(x), months(x), days(x), hours(x)"
        if f"{name.value.lower()}s" in _TIME_FUNCTIONS:
            hint = f"compare the column with dates or times; {name.value.lower()}s(x) counts them since 1970"
        called = f"{name.value}({', '.join(map(str, arguments))})"
        self.fail_at(name.position, f"{called} is not supported", hint=hint)

    def checked_term(self, name: _Token, make: Callable[[int], Transform], width: int, term: Reference) -> Column:
        try:
            return Column(transformed(make(width), term))
        except FrazilError as error:
            self.fail_at(name.position, error.message, hint=error.hint or "")


def _unquote(token: _Token) -> str:
    if token.kind == "word":
        return token.value
    quote = token.value[0]
    return token.value[1:-1].replace(quote * 2, quote)


def _like(pattern: str, escape: str) -> tuple[Operation, str]:
    prefix: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern[at] == escape and at + 1 < len(pattern) and pattern[at + 1] in {"%", "_", escape}:
            at += 1
        elif pattern[at] == "%" and not pattern[at:].strip("%"):
            return Operation.STARTS_WITH, "".join(prefix)
        elif pattern[at] in "%_":
            raise InvalidExpression(
                f"the pattern {pattern!r} is not a prefix",
                hint="use a pattern such as 'ab%', and filter the rest later",
            )
        prefix.append(pattern[at])
        at += 1
    return Operation.EQ, "".join(prefix)


def _timestamp(text: str, *, zone: bool | None) -> Any:
    """A datetime; text where datetime cannot hold it (nanoseconds, the year 10000), which binding reads exactly."""
    nanos, zoned = temporal.parse_timestamp(text, 9)
    if zoned and zone is False:
        raise InvalidValue(f"{text!r} has a zone", hint="write TIMESTAMPTZ before it")
    micros, rest = divmod(nanos, 1000)
    value = text if rest else friendly(TimestamptzType() if zoned or zone else TimestampType(), micros)
    return text if isinstance(value, str) else value


_TYPED: dict[str, Callable[[str], Any]] = {
    "DATE": lambda text: friendly(DateType(), temporal.parse_date(text)),
    "TIME": lambda text: friendly(TimeType(), temporal.parse_time(text)),
    "TIMESTAMP": lambda text: _timestamp(text, zone=None),
    "TIMESTAMP_NTZ": lambda text: _timestamp(text, zone=False),
    "TIMESTAMPTZ": lambda text: _timestamp(text, zone=True),
    "TIMESTAMP_LTZ": lambda text: _timestamp(text, zone=True),
    "UUID": uuid.UUID,
    "DOUBLE": float,
}
