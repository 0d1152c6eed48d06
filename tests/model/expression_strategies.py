"""Random columns, rows and filters, and what a filter means for one row: three-valued logic, written down plainly."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from frazil.model.arrow import array_from_canonical
from frazil.model.expressions import AlwaysTrue, And, Expression, Not, Or, Predicate, and_, col, not_, or_, predicate
from frazil.model.operations import Operation
from frazil.model.schema import Schema
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNsType,
    TimestampType,
    TimestamptzType,
    Type,
    UuidType,
)

INT = (-(2**31), 2**31 - 1)
LONG = (-(2**63), 2**63 - 1)
TEXT = st.text(st.sampled_from("abcA\u00e9\u65e5\U0010ffff"), max_size=5)
BYTES = st.binary(max_size=3)
SMALL = st.integers(-12, 12)
NUMBERS = st.one_of(
    SMALL,
    st.sampled_from([*INT, *LONG, INT[1] + 1, INT[0] - 1, LONG[1] + 1, LONG[0] - 1, 10**30]),
    st.decimals(-12, 12, places=1),
    st.sampled_from([0.5, -1.5, 2.0, 1e30, -1e30, math.inf, -math.inf]),
)
FLOATS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1.5, 2.0, -2.5, math.inf, -math.inf, 3.0])
EPOCH = dt.datetime(1970, 1, 1)
MOMENTS = st.one_of(
    SMALL.map(lambda hours: EPOCH + dt.timedelta(hours=hours)),
    SMALL.map(lambda months: dt.datetime(1970 + months // 12, months % 12 + 1, 1)),
    SMALL.map(lambda micros: EPOCH + dt.timedelta(microseconds=micros)),
)
UTC = dt.UTC


def micros(value: dt.datetime) -> int:
    return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)


UUIDS = [uuid.UUID(int=number) for number in (0, 1, 1 << 127, (1 << 128) - 1)]

# One column per type: the values of rows (canonical) and the literals it is compared with
COLUMNS: dict[str, tuple[Type, st.SearchStrategy[Any], st.SearchStrategy[Any]]] = {
    "flag": (BooleanType(), st.booleans(), st.booleans()),
    "i": (IntegerType(), SMALL | st.sampled_from([*INT, INT[0] + 5, INT[1] - 5]), NUMBERS),
    "n": (LongType(), SMALL | st.sampled_from([*LONG, LONG[0] + 5, LONG[1] - 5]), NUMBERS),
    "f": (FloatType(), FLOATS | st.just(math.nan), FLOATS | SMALL | st.sampled_from([1e300, -1e300])),
    "d": (DoubleType(), FLOATS | st.just(math.nan), FLOATS | SMALL | st.sampled_from([10**400, Decimal("0.5")])),
    "dec": (DecimalType(4, 1), st.decimals(-12, 12, places=1), NUMBERS),
    "day": (DateType(), SMALL | st.sampled_from([-400, 400]), MOMENTS | MOMENTS.map(dt.datetime.date)),
    "ts": (TimestampType(), MOMENTS.map(micros), MOMENTS | MOMENTS.map(dt.datetime.date)),
    "tz": (
        TimestamptzType(),
        MOMENTS.map(micros),
        MOMENTS.map(lambda value: value.replace(tzinfo=UTC)),
    ),
    "ns": (TimestampNsType(), MOMENTS.map(lambda value: micros(value) * 1000 + 1), MOMENTS),
    "s": (StringType(), TEXT, TEXT),
    "b": (BinaryType(), BYTES, BYTES),
    "fx": (FixedType(2), st.binary(min_size=2, max_size=2), st.binary(min_size=2, max_size=2)),
    "u": (UuidType(), st.sampled_from([value.bytes for value in UUIDS]), st.sampled_from(UUIDS)),
}
SCHEMA = Schema(tuple(NestedField(at, name, COLUMNS[name][0]) for at, name in enumerate(COLUMNS, 1)))
FLOATING = ("f", "d")


def decimal_value(value: Any) -> Any:
    return value.quantize(Decimal("0.1")) if isinstance(value, Decimal) else value


def rows_of(name: str, *, max_size: int = 6) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | COLUMNS[name][1].map(decimal_value), max_size=max_size)


def batch_of(**columns: list[Any]) -> pa.RecordBatch:
    return pa.record_batch({name: array_from_canonical(COLUMNS[name][0], values) for name, values in columns.items()})


@st.composite
def predicates(draw: st.DrawFn, name: str) -> Expression:
    literals = COLUMNS[name][2]
    operations = [op for op in Operation if "nan" not in op.value or name in FLOATING]
    if name != "s":
        operations = [op for op in operations if "starts" not in op.value]
    operation = draw(st.sampled_from(operations))
    count = 0 if operation.is_unary else draw(st.integers(1, 4)) if operation.is_set else 1
    return predicate(operation, col(name).term, *(draw(literals) for _ in range(count)))


def filters(*names: str) -> st.SearchStrategy[Expression]:
    leaves = st.sampled_from(names).flatmap(predicates)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: and_(*parts)),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: or_(*parts)),
            inner.map(not_),
        ),
        max_leaves=5,
    )


# What a filter means


def measured(type_: Type, value: Any) -> Any:
    """A literal in the units of canonical values of the type."""
    if isinstance(type_, FloatType | DoubleType):
        try:
            number = float(value)
        except OverflowError:
            return Fraction(value)
        return number if math.isinf(number) or abs(number) < 1e30 else Fraction(number)
    if isinstance(value, float) and math.isinf(value):
        return value
    if isinstance(type_, IntegerType | LongType | DecimalType):
        return Fraction(value)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, dt.date):
        moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
        units = {DateType: Fraction(1, 86_400 * 10**6), TimestampNsType: 1000}.get(type(type_), 1)
        return micros(moment) * units
    return value


def compared(operation: Operation, value: Any, literal: Any, *, nan_greatest: bool) -> bool:
    if isinstance(value, float) and math.isnan(value):
        if nan_greatest:
            return operation in {Operation.GT, Operation.GT_EQ, Operation.NOT_EQ}
        return operation is Operation.NOT_EQ
    match operation:
        case Operation.LT:
            return value < literal
        case Operation.LT_EQ:
            return value <= literal
        case Operation.GT:
            return value > literal
        case Operation.GT_EQ:
            return value >= literal
        case Operation.EQ:
            return value == literal
    return value != literal


def truth(expression: Expression, row: dict[str, Any], *, nan_greatest: bool = False) -> bool | None:
    """True, False, or None for unknown."""
    if isinstance(expression, Not):
        inner = truth(expression.operand, row, nan_greatest=nan_greatest)
        return None if inner is None else not inner
    if isinstance(expression, And | Or):
        decisive = isinstance(expression, Or)
        parts = [truth(part, row, nan_greatest=nan_greatest) for part in expression.operands]
        return decisive if decisive in parts else None if None in parts else not decisive
    if not isinstance(expression, Predicate):
        return isinstance(expression, AlwaysTrue)
    operation, value, type_ = expression.operation, row[expression.column], COLUMNS[expression.column][0]
    if operation in {Operation.IS_NULL, Operation.NOT_NULL}:
        return (value is None) is (operation is Operation.IS_NULL)
    if value is None:
        return operation is Operation.NOT_NAN if nan_greatest and "nan" in operation.value else None
    if operation in {Operation.IS_NAN, Operation.NOT_NAN}:
        return math.isnan(value) is (operation is Operation.IS_NAN)
    literals = [measured(type_, literal) for literal in expression.literals]
    value = Fraction(value) if isinstance(value, Decimal) else value
    match operation:
        case Operation.IN:
            return any(compared(Operation.EQ, value, literal, nan_greatest=nan_greatest) for literal in literals)
        case Operation.NOT_IN:
            return all(compared(Operation.NOT_EQ, value, literal, nan_greatest=nan_greatest) for literal in literals)
        case Operation.STARTS_WITH:
            return value.startswith(literals[0])
        case Operation.NOT_STARTS_WITH:
            return not value.startswith(literals[0])
    return compared(operation, value, literals[0], nan_greatest=nan_greatest)
