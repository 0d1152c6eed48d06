"""A bound filter on rows: as a mask of a record batch, and as a filter that Arrow can push into files.

>>> from frazil.model.binding import bind
>>> from frazil.model.expressions import col
>>> from frazil.model.schema import Schema
>>> from frazil.model.types import LongType, NestedField
>>> batch = pa.record_batch({"id": pa.array([1, 2, None])})
>>> bound = bind(Schema((NestedField(1, "id", LongType()),)), ~(col("id") == 1))
>>> filter_mask(bound, batch).to_pylist()
[False, True, False]
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import ColumnNotFound, InvalidExpression
from frazil.model.arrow_literals import arrow_literal, comparable_array, is_in_set
from frazil.model.binding import BoundPredicate, BoundReference, BoundTransform
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, And, Expression, Or
from frazil.model.operations import Operation
from frazil.model.types import DoubleType, FloatType, PrimitiveType, StringType

_COMPARISONS = {
    Operation.LT: pc.less,
    Operation.LT_EQ: pc.less_equal,
    Operation.GT: pc.greater,
    Operation.GT_EQ: pc.greater_equal,
    Operation.EQ: pc.equal,
    Operation.NOT_EQ: pc.not_equal,
}


def filter_mask(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """True for the rows that match the bound filter, False (never null) for the others."""
    if isinstance(expression, And | Or):
        combine = pc.and_ if isinstance(expression, And) else pc.or_
        return reduce(combine, (filter_mask(operand, batch) for operand in expression.operands))
    if isinstance(expression, BoundPredicate):
        return _test(expression, _column(expression, batch)).fill_null(False)
    if isinstance(expression, AlwaysTrue | AlwaysFalse):
        return pa.repeat(isinstance(expression, AlwaysTrue), batch.num_rows)
    raise InvalidExpression(f"({expression}) is not bound to a schema", hint="bind it first")


def _column(leaf: BoundPredicate, batch: pa.RecordBatch) -> pa.Array:
    reference = leaf.reference
    if batch.schema.get_field_index(reference.path[0]) < 0:
        raise ColumnNotFound(
            f"the rows have no column {reference.path[0]!r}", hint="read the columns of the filter too"
        )
    array = batch.column(reference.path[0])
    for name in reference.path[1:]:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(name) < 0:
            raise ColumnNotFound(
                f"the rows have no column {reference.name!r}", hint="read the columns of the filter too"
            )
        array = pc.struct_field(array, array.type.get_field_index(name))
    if isinstance(leaf.term, BoundTransform):
        array = leaf.term.transform.apply_array(reference.type, array)
    return comparable_array(leaf.term.type, array)


def _test(leaf: BoundPredicate, array: pa.Array) -> pa.BooleanArray:
    """The predicate on an array: null where it is unknown."""
    type_, values = leaf.term.type, leaf.literals
    match leaf.operation:
        case Operation.IS_NULL:
            return array.is_null()
        case Operation.NOT_NULL:
            return array.is_valid()
        case Operation.IS_NAN:
            return pc.is_nan(array)
        case Operation.NOT_NAN:
            return pc.invert(pc.is_nan(array))
        case Operation.STARTS_WITH:
            return pc.starts_with(array, values[0])
        case Operation.NOT_STARTS_WITH:
            return pc.invert(pc.starts_with(array, values[0]))
        case Operation.IN:
            return is_in_set(type_, array, values)
        case Operation.NOT_IN:
            return pc.and_(array.is_valid(), pc.invert(is_in_set(type_, array, values)))
    return _COMPARISONS[leaf.operation](array, arrow_literal(type_, values[0], array.type))


def to_arrow_filter(expression: Expression, schema: pa.Schema) -> pc.Expression | None:
    """A filter for pyarrow's readers that keeps every matching row and maybe others; None if it would keep all.

    Meant for skipping row groups: rows must be filtered again by `filter_mask`. `schema` is that of the file; conjuncts
    on columns it does not have, or of types whose statistics cannot be trusted for the test, are left out.
    """
    if isinstance(expression, And):
        parts = [
            part for part in (to_arrow_filter(operand, schema) for operand in expression.operands) if part is not None
        ]
        return reduce(lambda left, right: left & right, parts) if parts else None
    if isinstance(expression, Or):
        either: list[Any] = [to_arrow_filter(operand, schema) for operand in expression.operands]
        return None if any(part is None for part in either) else reduce(lambda left, right: left | right, either)
    if isinstance(expression, BoundPredicate):
        return _pushed(expression, schema)
    return None if isinstance(expression, AlwaysTrue) else pc.scalar(False)


def _pushed(leaf: BoundPredicate, schema: pa.Schema) -> pc.Expression | None:
    if isinstance(leaf.term, BoundTransform) or not isinstance(leaf.term.type, PrimitiveType):
        return None
    kind = _file_type(leaf.reference, schema)
    if kind is None or isinstance(kind, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(kind):
        return None
    column, type_, values = pc.field(*leaf.reference.path), leaf.term.type, leaf.literals
    floating = isinstance(type_, FloatType | DoubleType)
    match leaf.operation:
        case Operation.IS_NULL:
            return column.is_null()
        case Operation.NOT_NULL:
            return column.is_valid()
        case Operation.STARTS_WITH if isinstance(type_, StringType):
            return column >= pc.scalar(arrow_literal(type_, values[0], kind))
        case Operation.IN:
            # the readers have no statistics for lists, but for ranges
            low, high = (pc.scalar(arrow_literal(type_, values[end], kind)) for end in (0, -1))
            return (column >= low) & (column <= high)
        case Operation.NOT_EQ if not floating:  # the statistics of a row group do not show its NaN
            return column != pc.scalar(arrow_literal(type_, values[0], kind))
        case Operation.EQ | Operation.LT | Operation.LT_EQ | Operation.GT | Operation.GT_EQ:
            return _COMPARISONS[leaf.operation](column, pc.scalar(arrow_literal(type_, values[0], kind)))
    return None


def _file_type(reference: BoundReference, schema: pa.Schema) -> pa.DataType | None:
    fields: Any = schema
    kind = None
    for name in reference.path:
        index = fields.get_field_index(name)
        if index < 0:
            return None
        kind = fields.field(index).type
        fields = kind
        if not pa.types.is_struct(kind):
            return kind if name == reference.path[-1] else None
    return kind
