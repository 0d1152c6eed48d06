"""Projections: what a filter on columns says about partition values.

`inclusive` gives a filter that is true for every partition that may hold a matching row, `strict` one that is true only
for partitions in which every row matches. Both are bound to the partition type of the spec.

>>> from frazil.model.expressions import col
>>> from frazil.model.partition import parse_partition_by
>>> from frazil.model.types import IntegerType, NestedField, StringType
>>> schema = Schema((NestedField(1, "id", IntegerType()), NestedField(2, "name", StringType())))
>>> spec = parse_partition_by(schema, ["bucket(16, id)", "truncate(3, name)"])
>>> str(inclusive(schema, spec, (col("id") == 34) & col("name").startswith("ab")))
"id_bucket = 3 AND name_trunc LIKE 'ab%'"
>>> str(strict(schema, spec, (col("id") != 34) | (col("name") == "abcd")))
'id_bucket <> 3'

Writers before 2020 computed years, months, days and hours before 1970 one too high. Tables with such values are read
right: a partition value p at or below zero is taken to hold rows of p and of p - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frazil.model.binding import BoundPredicate, BoundReference, BoundTransform, bind
from frazil.model.expressions import And, Expression, Or, and_, or_
from frazil.model.literals import decimal_of
from frazil.model.operations import Operation
from frazil.model.partition import PartitionField, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
)
from frazil.model.types import BinaryType, DateType, DecimalType, IntegerType, LongType, StringType, Type
from frazil.model.values import timestamp_digits, unscaled

_EQUALITIES = frozenset({Operation.EQ, Operation.IN})
_INEQUALITIES = frozenset({Operation.NOT_EQ, Operation.NOT_IN})
_NULL_TESTS = frozenset({Operation.IS_NULL, Operation.NOT_NULL})


def inclusive(schema: Schema, spec: PartitionSpec, expression: Expression) -> Expression:
    """A filter on partition values that keeps every partition with a row that the filter on columns matches."""

    def project(leaf: BoundPredicate) -> Expression:
        parts = (project_predicate(field, leaf, strict=False) for field in _fields(spec, leaf))
        return and_(*(part for part in parts if part is not None))

    return _rewrite(bind(schema, expression), project)


def strict(schema: Schema, spec: PartitionSpec, expression: Expression) -> Expression:
    """A filter on partition values that keeps only partitions in which the filter on columns matches every row."""

    def project(leaf: BoundPredicate) -> Expression:
        parts = (project_predicate(field, leaf, strict=True) for field in _fields(spec, leaf))
        return or_(*(part for part in parts if part is not None))

    return _rewrite(bind(schema, expression), project)


def _rewrite(expression: Expression, project: Callable[[BoundPredicate], Expression]) -> Expression:
    if isinstance(expression, And | Or):
        combine = and_ if isinstance(expression, And) else or_
        return combine(*(_rewrite(operand, project) for operand in expression.operands))
    return project(expression) if isinstance(expression, BoundPredicate) else expression


def _fields(spec: PartitionSpec, leaf: BoundPredicate) -> list[PartitionField]:
    return [field for field in spec.fields_by_source_id(leaf.reference.field_id) if len(field.source_ids) == 1]


def project_predicate(field: PartitionField, leaf: BoundPredicate, *, strict: bool) -> Expression | None:
    """What one partition field can say about a predicate on its source column, or None if nothing."""
    transform, source = field.transform, leaf.reference.type
    if not transform.can_transform(source):
        return None
    part = BoundReference(field.field_id, transform.result_type(source), (field.name,))
    shifted = isinstance(transform, TimeTransform) and not isinstance(source, DateType)
    shifted = shifted or (isinstance(transform, TimeTransform) and not isinstance(transform, DayTransform))
    if isinstance(leaf.term, BoundTransform):
        if leaf.term.transform != transform:
            return None
        return _on_part(part, leaf.operation, leaf.literals, strict, shifted)
    if isinstance(transform, IdentityTransform):
        return BoundPredicate(leaf.operation, part, leaf.literals)
    if not isinstance(transform, BucketTransform | TruncateTransform | TimeTransform):
        return None  # void says nothing, and neither does a transform we do not know
    if leaf.operation in _NULL_TESTS:
        return BoundPredicate(leaf.operation, part)
    if isinstance(transform, TruncateTransform) and isinstance(source, StringType | BinaryType):
        exact = _exact_truncation(part, transform.width, leaf, strict)
        if exact is not None:
            return exact
    if leaf.operation in (_INEQUALITIES if strict else _EQUALITIES):
        results = {transform.apply(source, value) for value in leaf.literals}
        return _on_part(part, leaf.operation, tuple(sorted(results)), strict, shifted)
    if leaf.operation.is_ordering and transform.preserves_order:
        return _project_ordering(part, transform, source, leaf, strict, shifted)
    return None


def _exact_truncation(part: BoundReference, width: int, leaf: BoundPredicate, strict: bool) -> Expression | None:
    """Tests of text shorter than the width: the truncated value answers them as well as the whole one would."""
    operation, literals = leaf.operation, leaf.literals
    positive = operation in {Operation.STARTS_WITH, Operation.EQ, Operation.IN}
    if operation in _EQUALITIES | _INEQUALITIES and all(len(value) < width for value in literals):
        return BoundPredicate(operation, part, literals)
    if operation in {Operation.STARTS_WITH, Operation.NOT_STARTS_WITH}:
        (prefix,) = literals
        if len(prefix) < width:
            return BoundPredicate(operation, part, literals)
        if len(prefix) == width or positive is not strict:
            equal = Operation.EQ if positive else Operation.NOT_EQ
            return BoundPredicate(equal, part, (prefix[:width],))
    return None


def _project_ordering(
    part: BoundReference, transform: Transform, source: Type, leaf: BoundPredicate, strict: bool, shifted: bool
) -> Expression | None:
    """`a <= b` implies `f(a) <= f(b)`: move the bound to the nearest value that does (or does not) match; apply f."""
    (value,) = leaf.literals
    below = leaf.operation in {Operation.LT, Operation.LT_EQ}
    closed = leaf.operation in {Operation.LT_EQ, Operation.GT_EQ}
    operation = Operation.LT_EQ if below else Operation.GT_EQ
    neighbour = _neighbour(source, value, (1 if strict else -1) if below else (-1 if strict else 1))
    if strict:
        # true below the first value that does not match, or above the last one
        operation = Operation.LT if below else Operation.GT
        bound = value if not closed or neighbour is None else neighbour
    else:
        bound = value if closed or neighbour is None else neighbour
    result = transform.apply(source, bound)
    if _wraps(transform, source, bound, result):
        return None
    if neighbour is None and result == value and leaf.operation in {Operation.LT, Operation.GT_EQ}:
        operation = leaf.operation  # text no longer than the width: nothing between it and its truncation
    found = _on_part(part, operation, (result,), strict, shifted)
    if found is None or not isinstance(transform, TruncateTransform) or below is strict:
        return found
    return _with_wrapped(found, part, transform, source, strict)


def _neighbour(source: Type, value: Any, step: int) -> Any:
    """The next value up or down, or None for text and bytes, which have none."""
    if isinstance(source, StringType | BinaryType):
        return None
    if isinstance(source, DecimalType):
        return decimal_of(unscaled(value) + step, source.scale)
    return value + step


def _lowest(source: Type) -> int:
    return -(2**31) if isinstance(source, IntegerType) else -(2**63)


def _wraps(transform: Transform, source: Type, value: Any, result: Any) -> bool:
    """Whether a result did not fit its type, so that the order is lost: as in the reference, it wrapped around."""
    if isinstance(transform, TruncateTransform) and isinstance(source, IntegerType | LongType):
        return bool(result > value)
    if isinstance(transform, HourTransform):
        return bool(result != value // (3600 * 10 ** timestamp_digits(source)))
    return False


def _with_wrapped(
    found: Expression, part: BoundReference, transform: Transform, source: Type, strict: bool
) -> Expression:
    """Values near the lowest integer are truncated to below it, and so stored as a high number: keep or refuse that."""
    if not isinstance(source, IntegerType | LongType):
        return found
    lowest = _lowest(source)
    wrapped = transform.apply(source, lowest)
    if wrapped == lowest:
        return found
    if strict:
        return and_(found, BoundPredicate(Operation.NOT_EQ, part, (wrapped,)))
    return or_(found, BoundPredicate(Operation.EQ, part, (wrapped,)))


def _on_part(
    part: BoundReference, operation: Operation, literals: tuple[Any, ...], strict: bool, shifted: bool
) -> Expression | None:
    """A test of the partition value; `shifted` if values up to zero may be one too high."""
    if not shifted or operation in _NULL_TESTS:
        return _equality(part, operation, literals)
    negative = any(value < 0 for value in literals)
    touched = negative or 0 in literals
    if operation in _EQUALITIES if strict else operation in _INEQUALITIES:
        return None if touched else _equality(part, operation, literals)
    if operation in _EQUALITIES | _INEQUALITIES:
        widened = {*literals, *(value + 1 for value in literals if value < 0)}
        return _equality(part, operation, tuple(sorted(widened)))
    (value,) = literals
    if strict:
        moved = (operation is Operation.GT and negative) or (operation is Operation.GT_EQ and touched)
    else:
        moved = (operation is Operation.LT_EQ and negative) or (operation is Operation.LT and touched)
    return BoundPredicate(operation, part, (value + 1 if moved else value,))


def _equality(part: BoundReference, operation: Operation, literals: tuple[Any, ...]) -> Expression:
    if operation in _EQUALITIES:
        operation = Operation.EQ if len(literals) == 1 else Operation.IN
    elif operation in _INEQUALITIES:
        operation = Operation.NOT_EQ if len(literals) == 1 else Operation.NOT_IN
    return BoundPredicate(operation, part, literals)
