"""Filters: an immutable tree of predicates, built with Python operators, printed as SQL.

>>> str((col("id") > 5) & ~col("name").startswith("ab"))
"id > 5 AND NOT name LIKE 'ab%'"
>>> str(col("ts").day() == dt.date(2024, 1, 1))
"days(ts) = DATE '2024-01-01'"

Predicates follow SQL's three-valued logic: a comparison with null is unknown, and a row matches a filter only where it
is true. NaN equals nothing and is not ordered, so that `x <> 1` is true for it; whether null is NaN is unknown.
`frazil.model.binding` says what a filter means for the columns of a schema.
"""

from __future__ import annotations

import datetime as dt
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

from frazil.errors import InvalidExpression
from frazil.model.expression_sql import predicate_sql, quote_name
from frazil.model.operations import Operation
from frazil.model.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)

MAX_DEPTH = 100
"""Trees deeper than this are refused, so that no walk can exhaust the stack. Long AND and OR chains are flat."""


class Expression:
    """A filter, or a part of one. Combine with `&`, `|`, `~`; `str()` is SQL text that parses back to an equal tree."""

    __slots__ = ()

    @property
    def children(self) -> tuple[Expression, ...]:
        """The expressions directly below."""
        return ()

    @property
    def depth(self) -> int:
        """Levels of the tree, at most MAX_DEPTH."""
        return 1

    def leaves(self) -> Iterator[Expression]:
        """All expressions without children, from left to right."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()

    def columns(self) -> frozenset[str]:
        """The dotted names of all columns the filter looks at."""
        return frozenset(leaf.column for leaf in self.leaves() if isinstance(leaf, Predicate))

    def __and__(self, other: Expression) -> Expression:
        return and_(self, other)

    def __or__(self, other: Expression) -> Expression:
        return or_(self, other)

    def __invert__(self) -> Expression:
        return not_(self)

    def __bool__(self) -> NoReturn:
        raise InvalidExpression(
            f"the filter ({self}) has no truth value of its own",
            hint="combine filters with & | ~ instead of and, or, not; write between() instead of a < x < b",
        )


@dataclass(frozen=True, slots=True)
class AlwaysTrue(Expression):
    """Matches every row."""

    def __str__(self) -> str:
        return "TRUE"


@dataclass(frozen=True, slots=True)
class AlwaysFalse(Expression):
    """Matches no row."""

    def __str__(self) -> str:
        return "FALSE"


def _measure(node: And | Or | Not) -> None:
    depth = 1 + max((child.depth for child in node.children), default=0)
    if depth > MAX_DEPTH:
        raise InvalidExpression(f"the filter nests deeper than {MAX_DEPTH} levels", hint="split it, or use IN lists")
    object.__setattr__(node, "_depth", depth)


@dataclass(frozen=True, slots=True)
class And(Expression):
    """True where all operands are. Made by `and_`, which flattens and simplifies."""

    operands: tuple[Expression, ...]
    _depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _measure(self)

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.operands

    @property
    def depth(self) -> int:
        return self._depth

    def __str__(self) -> str:
        return " AND ".join(
            f"({operand})" if isinstance(operand, Or | And) else str(operand) for operand in self.operands
        )


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """True where any operand is. Made by `or_`, which flattens and simplifies."""

    operands: tuple[Expression, ...]
    _depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _measure(self)

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.operands

    @property
    def depth(self) -> int:
        return self._depth

    def __str__(self) -> str:
        return " OR ".join(f"({operand})" if isinstance(operand, Or) else str(operand) for operand in self.operands)


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """True where the operand is false, unknown where it is unknown."""

    operand: Expression
    _depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _measure(self)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    @property
    def depth(self) -> int:
        return self._depth

    def __str__(self) -> str:
        return f"NOT ({self.operand})" if isinstance(self.operand, And | Or) else f"NOT {self.operand}"


def and_(*operands: Expression) -> Expression:
    """All of the filters, flattened; without the ones that are always true.

    >>> and_(col("a") > 1, AlwaysTrue())
    Predicate(operation=<Operation.GT: 'gt'>, term=Reference(name='a'), literals=(1,))
    """
    kept: list[Expression] = []
    for operand in operands:
        kept.extend(operand.operands if isinstance(operand, And) else (operand,))
    kept = [operand for operand in kept if not isinstance(operand, AlwaysTrue)]
    if any(isinstance(operand, AlwaysFalse) for operand in kept):
        return AlwaysFalse()
    return And(tuple(kept)) if len(kept) > 1 else kept[0] if kept else AlwaysTrue()


def or_(*operands: Expression) -> Expression:
    """Any of the filters, flattened; without the ones that are always false."""
    kept: list[Expression] = []
    for operand in operands:
        kept.extend(operand.operands if isinstance(operand, Or) else (operand,))
    kept = [operand for operand in kept if not isinstance(operand, AlwaysFalse)]
    if any(isinstance(operand, AlwaysTrue) for operand in kept):
        return AlwaysTrue()
    return Or(tuple(kept)) if len(kept) > 1 else kept[0] if kept else AlwaysFalse()


def not_(operand: Expression) -> Expression:
    """The opposite of a filter, in three-valued logic."""
    if isinstance(operand, Not):
        return operand.operand
    if isinstance(operand, AlwaysTrue | AlwaysFalse):
        return AlwaysFalse() if isinstance(operand, AlwaysTrue) else AlwaysTrue()
    return Not(operand)


def rewrite_not(expression: Expression, *, negate: bool = False) -> Expression:
    """The same filter with NOT pushed down to the predicates and into them.

    NOT stays before orderings (`NOT x < 5`): for NaN it is true while `x >= 5` is not; only binding knows the types.

    >>> str(rewrite_not(~((col("a") == 1) & col("b").is_null())))
    'a <> 1 OR b IS NOT NULL'
    """
    if isinstance(expression, Not):
        return rewrite_not(expression.operand, negate=not negate)
    if isinstance(expression, And | Or):
        combine = or_ if isinstance(expression, Or) is not negate else and_
        return combine(*(rewrite_not(operand, negate=negate) for operand in expression.operands))
    if not negate:
        return expression
    if isinstance(expression, Predicate) and not expression.operation.is_ordering:
        return Predicate(expression.operation.negated, expression.term, expression.literals)
    return not_(expression)


# Predicates


@dataclass(frozen=True, slots=True)
class Reference:
    """A column by its dotted name."""

    name: str

    def __str__(self) -> str:
        return quote_name(self.name)


@dataclass(frozen=True, slots=True)
class TransformTerm:
    """A partition transform applied to a column: `bucket(16, id)`."""

    transform: Transform
    reference: Reference

    def __str__(self) -> str:
        if isinstance(self.transform, TimeTransform):
            return f"{self.transform.unit}s({self.reference})"  # in SQL, year(ts) is a number such as 2024
        name, _, argument = str(self.transform).rstrip("]").partition("[")
        return f"{name}({argument}, {self.reference})" if argument else f"{name}({self.reference})"


Term = Reference | TransformTerm


@dataclass(frozen=True, slots=True)
class Predicate(Expression):
    """A test of one term: against no literal (`is-null`), one (`lt`), or several (`in`)."""

    operation: Operation
    term: Term
    literals: tuple[Any, ...] = ()

    @property
    def column(self) -> str:
        """The dotted name of the column."""
        return self.term.name if isinstance(self.term, Reference) else self.term.reference.name

    def __str__(self) -> str:
        return predicate_sql(self.operation, str(self.term), self.literals)


def predicate(operation: Operation, term: Term, *literals: Any) -> Expression:
    """A predicate with checked literals; IN lists of no or one value become what they mean.

    >>> str(predicate(Operation.NOT_IN, Reference("a"), 7))
    'a <> 7'
    """
    checked = tuple(literal(value) for value in literals)
    if operation.is_set:
        if not checked:
            return AlwaysFalse() if operation is Operation.IN else AlwaysTrue()
        if len(checked) == 1:
            operation = Operation.EQ if operation is Operation.IN else Operation.NOT_EQ
    elif len(checked) != (0 if operation.is_unary else 1):
        raise InvalidExpression(
            f"{operation.value} on {term} has {len(checked)} literals", hint="only IN takes several"
        )
    return Predicate(operation, term, checked)


def literal(value: Any) -> Any:
    """A Python value that a filter may compare with, in the one form the tree uses; InvalidExpression otherwise."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        value = str(value) if isinstance(value, numpy.datetime64) else value.item()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dt.datetime):
        if getattr(value, "nanosecond", 0):  # a pandas Timestamp, finer than datetime
            return value.isoformat()
        try:
            return value if value.tzinfo is None else value.astimezone(dt.UTC)
        except OverflowError as error:
            raise InvalidExpression(f"{value} has no UTC form", hint="use a time within the years 1 to 9999") from error
    if isinstance(value, dt.time) and value.tzinfo is not None:
        raise InvalidExpression(f"the time of day {value} has a zone", hint="give the time without tzinfo")
    if isinstance(value, Decimal) and not value.is_finite():
        return float(value)
    if isinstance(value, bool | int | float | Decimal | str | bytes | dt.date | dt.time | uuid.UUID):
        return value
    if value is None:
        raise InvalidExpression("a comparison with NULL never matches", hint="use IS NULL or is_null()")
    if isinstance(value, Column | Expression):
        raise InvalidExpression(
            f"cannot compare with {value}: only a column with a literal", hint="compare two columns after reading"
        )
    raise InvalidExpression(
        f"cannot compare with {value!r} of type {type(value).__name__}", hint="use a number, text, bytes, date or time"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column, or a transform of one, to build predicates from. Made by `col`."""

    term: Term

    def __lt__(self, value: Any) -> Expression:
        return predicate(Operation.LT, self.term, value)

    def __le__(self, value: Any) -> Expression:
        return predicate(Operation.LT_EQ, self.term, value)

    def __gt__(self, value: Any) -> Expression:
        return predicate(Operation.GT, self.term, value)

    def __ge__(self, value: Any) -> Expression:
        return predicate(Operation.GT_EQ, self.term, value)

    def __eq__(self, value: object) -> Expression:  # type: ignore[override]
        return predicate(Operation.EQ, self.term, value)

    def __ne__(self, value: object) -> Expression:  # type: ignore[override]
        return predicate(Operation.NOT_EQ, self.term, value)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(self.term)

    def is_null(self) -> Expression:
        return predicate(Operation.IS_NULL, self.term)

    def not_null(self) -> Expression:
        return predicate(Operation.NOT_NULL, self.term)

    def is_nan(self) -> Expression:
        return predicate(Operation.IS_NAN, self.term)

    def not_nan(self) -> Expression:
        return predicate(Operation.NOT_NAN, self.term)

    def isin(self, values: Iterable[Any]) -> Expression:
        """Equal to any of the values."""
        return predicate(Operation.IN, self.term, *values)

    def between(self, low: Any, high: Any) -> Expression:
        """From `low` to `high`, both included."""
        return and_(self >= low, self <= high)

    def startswith(self, prefix: str) -> Expression:
        return predicate(Operation.STARTS_WITH, self.term, prefix)

    def equal_null_safe(self, value: Any) -> Expression:
        """SQL's `<=>`: never unknown, and null equals None."""
        return self.is_null() if value is None else and_(self.not_null(), self == value)

    def bucket(self, buckets: int) -> Column:
        """Iceberg's hash bucket of the value."""
        return self._transformed(BucketTransform(buckets))

    def truncate(self, width: int) -> Column:
        """The value cut to a width."""
        return self._transformed(TruncateTransform(width))

    def year(self) -> Column:
        """Years since 1970."""
        return self._transformed(YearTransform())

    def month(self) -> Column:
        """Months since January 1970."""
        return self._transformed(MonthTransform())

    def day(self) -> Column:
        """The date."""
        return self._transformed(DayTransform())

    def hour(self) -> Column:
        """Hours since 1970."""
        return self._transformed(HourTransform())

    def _transformed(self, transform: Transform) -> Column:
        return Column(transformed(transform, self.term))


def transformed(transform: Transform, term: Term) -> TransformTerm:
    """A transform applied to a column; transforms do not nest."""
    if isinstance(term, TransformTerm):
        raise InvalidExpression(f"{transform} of {term}: transforms do not nest", hint="apply one to the column")
    return TransformTerm(transform, term)


def col(name: str) -> Column:
    """The column of that dotted name, to be compared.

    >>> str(col("a.b").isin([1, 2]) | col("c").is_null())
    'a.b IN (1, 2) OR c IS NULL'
    """
    if not name:
        raise InvalidExpression("a column needs a name", hint="col('name')")
    return Column(Reference(name))
