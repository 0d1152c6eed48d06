"""What a filter means for a schema: columns by id, literals as values of the column's type, no NOT left.

>>> from frazil.model.expressions import col
>>> from frazil.model.schema import Schema
>>> from frazil.model.types import IntegerType, NestedField
>>> schema = Schema((NestedField(1, "a", IntegerType()),))
>>> str(bind(schema, (col("a") > 1.5) & (col("a") < 2**40)))
'a >= 2 AND a IS NOT NULL'

Literals keep their exact meaning: one that no value of the column can equal, or that lies beyond the column's range,
becomes the comparison that is true for the same rows. For floating point columns a literal is rounded to the nearest
value, as in SQL. A bound predicate has IEEE meaning: NaN is unequal to everything and not ordered. With `nan_ordered`
the filter is understood as Spark understands it (NaN equals itself and is greater than any number, null is not NaN)
and bound to predicates that say so explicitly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from frazil.errors import InvalidExpression
from frazil.model.expression_sql import predicate_sql, quote_name
from frazil.model.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    Expression,
    Not,
    Or,
    Predicate,
    Reference,
    TransformTerm,
    and_,
    or_,
)
from frazil.model.literals import nearest_float, plain_value, quantity, text_value, units_of
from frazil.model.operations import Operation
from frazil.model.schema import Schema
from frazil.model.transforms import IdentityTransform, Transform, UnknownTransform, VoidTransform
from frazil.model.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    PrimitiveType,
    StringType,
    StructType,
    Type,
    UnknownType,
)
from frazil.model.values import friendly

Literal = Any


@dataclass(frozen=True, slots=True)
class BoundReference:
    """A column of a schema, at the top or inside structs."""

    field_id: int
    type: Type
    path: tuple[str, ...]
    nullable: bool = True
    """Whether rows may have no value here."""
    in_optional_struct: bool = False
    """Whether a struct around it may be null: some writers leave such rows out of the column's counts."""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def reference(self) -> BoundReference:
        return self

    def __str__(self) -> str:
        return quote_name(self.name)


@dataclass(frozen=True, slots=True)
class BoundTransform:
    """A transform of a column; `type` is that of the results."""

    transform: Transform
    reference: BoundReference
    type: Type

    @property
    def nullable(self) -> bool:
        return self.reference.nullable

    def __str__(self) -> str:
        return str(TransformTerm(self.transform, Reference(self.reference.name)))


BoundTerm = BoundReference | BoundTransform


@dataclass(frozen=True, slots=True)
class BoundPredicate(Expression):
    """A test of a bound term; `literals` are canonical values of the term's type, sorted and distinct for `in`."""

    operation: Operation
    term: BoundTerm
    literals: tuple[Literal, ...] = ()

    @property
    def reference(self) -> BoundReference:
        return self.term.reference

    def __str__(self) -> str:
        shown = tuple(friendly(self.term.type, value) for value in self.literals)
        return predicate_sql(self.operation, str(self.term), shown)


def bind(
    schema: Schema, expression: Expression, *, case_sensitive: bool = True, nan_ordered: bool = False
) -> Expression:
    """The filter over the columns of the schema; And, Or, constants and BoundPredicates only.

    Unknown columns are a ColumnNotFound, literals that cannot be compared with their column an InvalidExpression. A
    filter that is bound already is returned as it is.
    """

    def walk(node: Expression, negate: bool) -> Expression:
        if isinstance(node, Not):
            return walk(node.operand, not negate)
        if isinstance(node, And | Or):
            combine = or_ if isinstance(node, Or) is not negate else and_
            return combine(*(walk(operand, negate) for operand in node.operands))
        if isinstance(node, AlwaysTrue | AlwaysFalse):
            return AlwaysTrue() if isinstance(node, AlwaysTrue) is not negate else AlwaysFalse()
        if isinstance(node, BoundPredicate):
            if negate:  # unknown and false were made one when it was bound
                raise InvalidExpression(f"({node}) is bound and cannot be negated", hint="negate it before binding")
            return node
        if not isinstance(node, Predicate):
            raise InvalidExpression(f"{node!r} is no filter", hint="use col(), parse_expression() or SQL text")
        return _bind_predicate(schema, node, negate, case_sensitive, nan_ordered)

    return walk(expression, False)


def bound_predicates(expression: Expression) -> Iterator[BoundPredicate]:
    """All predicates of a bound filter."""
    return (leaf for leaf in expression.leaves() if isinstance(leaf, BoundPredicate))


def field_ids(expression: Expression) -> frozenset[int]:
    """The ids of the columns a bound filter looks at."""
    return frozenset(leaf.reference.field_id for leaf in bound_predicates(expression))


# Terms


def bind_reference(schema: Schema, name: str, *, case_sensitive: bool = True) -> BoundReference:
    """A column of the schema by its dotted name; refused inside lists and maps, which have many values per row."""
    found = schema.find(name, case_sensitive=case_sensitive)
    ids = schema.path_ids(found.id)
    fields = [field for field in map(schema.field_by_id, ids) if field is not None]
    for outer in fields[:-1]:
        if not isinstance(outer.type, StructType):
            raise InvalidExpression(
                f"column {name!r} lies in the list or map {outer.name!r}", hint="filter on it after reading"
            )
    return BoundReference(
        found.id,
        found.type,
        tuple(field.name for field in fields),
        nullable=any(field.optional for field in fields),
        in_optional_struct=any(field.optional for field in fields[:-1]),
    )


def _bind_term(schema: Schema, node: Predicate, case_sensitive: bool) -> BoundTerm:
    reference = bind_reference(schema, node.column, case_sensitive=case_sensitive)
    if isinstance(node.term, Reference) or isinstance(node.term.transform, IdentityTransform):
        return reference
    transform = node.term.transform
    if isinstance(transform, VoidTransform | UnknownTransform) or not transform.can_transform(reference.type):
        raise InvalidExpression(
            f"{transform} cannot transform column {node.column!r} of type {reference.type}",
            hint="filter on the column itself",
        )
    return BoundTransform(transform, reference, transform.result_type(reference.type))


# Predicates


def _bind_predicate(
    schema: Schema, node: Predicate, negate: bool, case_sensitive: bool, nan_ordered: bool
) -> Expression:
    term = _bind_term(schema, node, case_sensitive)
    operation = node.operation.negated if negate else node.operation
    if operation in {Operation.IS_NULL, Operation.NOT_NULL}:
        return _null_test(operation, term)
    if isinstance(term.type, UnknownType):  # always null
        return AlwaysFalse()
    floating = isinstance(term.type, FloatType | DoubleType)
    if operation in {Operation.IS_NAN, Operation.NOT_NAN}:
        if not floating:
            raise InvalidExpression(f"column {node.column!r} of type {term.type} has no NaN", hint="remove the test")
        found = BoundPredicate(operation, term)
        # to Spark null is no NaN
        return (
            or_(found, _null_test(Operation.IS_NULL, term)) if nan_ordered and operation is Operation.NOT_NAN else found
        )
    if not isinstance(term.type, PrimitiveType) or isinstance(term.type, GeometryType | GeographyType):
        raise InvalidExpression(
            f"column {node.column!r} of type {term.type} cannot be compared", hint="only IS NULL and IS NOT NULL work"
        )
    if operation in {Operation.STARTS_WITH, Operation.NOT_STARTS_WITH}:
        return _prefix_test(operation, term, node)
    if not floating:
        return _compare(operation, term, node.literals)
    return _compare_floating(node.operation, operation, term, node.literals, nan_ordered)


def _null_test(operation: Operation, term: BoundTerm) -> Expression:
    wants_null = operation is Operation.IS_NULL
    if not term.nullable:
        return AlwaysFalse() if wants_null else AlwaysTrue()
    if isinstance(term.type, UnknownType):
        return AlwaysTrue() if wants_null else AlwaysFalse()
    # a transform of a value is null only where the value is
    return BoundPredicate(operation, term.reference)


def _not_null(term: BoundTerm) -> Expression:
    return _null_test(Operation.NOT_NULL, term)


def _prefix_test(operation: Operation, term: BoundTerm, node: Predicate) -> Expression:
    (prefix,) = node.literals
    if not isinstance(term.type, StringType) or not isinstance(prefix, str):
        raise InvalidExpression(
            f"a prefix test needs text, but column {node.column!r} is of type {term.type}", hint="compare with = or <"
        )
    prefix = text_value(term, prefix)
    if not prefix:
        return _not_null(term) if operation is Operation.STARTS_WITH else AlwaysFalse()
    return BoundPredicate(operation, term, (prefix,))


def _compare(operation: Operation, term: BoundTerm, literals: tuple[Literal, ...]) -> Expression:
    """A comparison with a column that is not floating: countable ones by exact arithmetic, others by their bytes."""
    units = units_of(_counted_type(term))
    if units is None:
        return _normalised(operation, term, [plain_value(term, value) for value in literals])
    quantities = [value if _is_day_number(term, value) else quantity(term, value) for value in literals]
    if operation not in _ORDERINGS:
        whole = {number for number in quantities if number == math.floor(number) and units.low <= number <= units.high}
        return _normalised(operation, term, [units.value(int(number)) for number in whole])
    (asked,) = quantities
    upper_side = operation in {Operation.LT, Operation.LT_EQ}
    # the nearest whole number that still matches
    if upper_side:
        bound = math.ceil(asked) - 1 if operation is Operation.LT else math.floor(asked)
        beyond, nothing = bound >= units.high, bound < units.low
    else:
        bound = math.floor(asked) + 1 if operation is Operation.GT else math.ceil(asked)
        beyond, nothing = bound <= units.low, bound > units.high
    if nothing:
        return AlwaysFalse()
    if beyond:
        return _not_null(term)
    if asked == math.floor(asked) and units.low <= asked <= units.high:
        return BoundPredicate(operation, term, (units.value(int(asked)),))
    return BoundPredicate(Operation.LT_EQ if upper_side else Operation.GT_EQ, term, (units.value(bound),))


def _counted_type(term: BoundTerm) -> Type:
    """The term's type; a decimal rounded down may have a digit more than its column."""
    if isinstance(term, BoundTransform) and isinstance(term.type, DecimalType):
        return DecimalType(38, term.type.scale)
    return term.type


def _is_day_number(term: BoundTerm, value: Literal) -> bool:
    """Java's JSON has the days since 1970 for day(ts)."""
    return isinstance(term, BoundTransform) and isinstance(term.type, DateType) and type(value) is int


_ORDERINGS = frozenset({Operation.LT, Operation.LT_EQ, Operation.GT, Operation.GT_EQ})


def _normalised(operation: Operation, term: BoundTerm, values: list[Literal]) -> Expression:
    """A comparison with values of the type; none are left if the column can equal none of the literals."""
    if operation in _ORDERINGS:
        return BoundPredicate(operation, term, tuple(values))
    positive = operation in {Operation.EQ, Operation.IN}
    distinct = tuple(sorted(set(values)))
    if not distinct:
        return AlwaysFalse() if positive else _not_null(term)
    if len(distinct) == 1:
        return BoundPredicate(Operation.EQ if positive else Operation.NOT_EQ, term, distinct)
    return BoundPredicate(Operation.IN if positive else Operation.NOT_IN, term, distinct)


# Floating point


def _compare_floating(
    asked: Operation, operation: Operation, term: BoundTerm, literals: tuple[Literal, ...], nan_ordered: bool
) -> Expression:
    is_nan = BoundPredicate(Operation.IS_NAN, term)
    numbers = [value for value in literals if not _is_nan(value)]
    if len(numbers) < len(literals):
        if not nan_ordered:
            raise InvalidExpression(f"column {term} is compared with NaN", hint="use is_nan() or isnan(x)")
        return _compare_with_nan(operation, term, numbers)
    found = _floating_test(operation, term, numbers)
    # NaN satisfies what is negated here, since it fails the comparison itself, and in Spark's order what is large
    matches_nan = operation in {Operation.GT, Operation.GT_EQ} if nan_ordered else operation is not asked
    return or_(found, is_nan) if operation in _ORDERINGS and matches_nan else found


def _compare_with_nan(operation: Operation, term: BoundTerm, numbers: list[Literal]) -> Expression:
    """Spark's meaning of a comparison with NaN, the greatest value and equal to itself."""
    is_nan = BoundPredicate(Operation.IS_NAN, term)
    is_number = BoundPredicate(Operation.NOT_NAN, term)
    match operation:
        case Operation.EQ | Operation.GT_EQ:
            return is_nan
        case Operation.IN:
            return or_(_floating_test(operation, term, numbers), is_nan)
        case Operation.NOT_IN:
            return and_(_floating_test(operation, term, numbers), is_number)
        case Operation.NOT_EQ | Operation.LT:
            return is_number
        case Operation.LT_EQ:
            return _not_null(term)
    return AlwaysFalse()


def _floating_test(operation: Operation, term: BoundTerm, literals: list[Literal]) -> Expression:
    rounded = [nearest_float(term, value) for value in literals]
    if operation not in _ORDERINGS:
        # what lies beyond the largest finite value was rounded to infinity, but equals nothing
        held = [value for value, exact in rounded if exact or math.isfinite(value)]
        return _normalised(operation, term, [value + 0.0 for value in held])
    ((value, exact),) = rounded
    if not exact and math.isinf(value):  # x > 1e400 holds for infinity, x < 1e400 for all below it
        if value > 0:
            operation = Operation.LT if operation in {Operation.LT, Operation.LT_EQ} else Operation.GT_EQ
        else:
            operation = Operation.GT if operation in {Operation.GT, Operation.GT_EQ} else Operation.LT_EQ
    return BoundPredicate(operation, term, (value + 0.0,))


def _is_nan(value: Literal) -> bool:
    return (isinstance(value, float) and math.isnan(value)) or value == "NaN"
