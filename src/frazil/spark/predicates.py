"""Conditions that Spark sends as trees of connector predicates, as filters of ours with the same meaning.

Spark orders NaN above every number and takes it as equal to itself; our filters follow IEEE. So what Spark means is
written out.

>>> from frazil.model.arrow import schema_from_anything
>>> schema = schema_from_anything("id BIGINT, x DOUBLE")
>>> tree = {"name": ">", "args": [{"column": ["x"]}, {"type": "double", "value": 1.5}]}
>>> str(to_expression(schema, tree))
'x > 1.5e0 OR x IS NaN'
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from frazil.errors import Unsupported
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, Expression, and_, not_, or_, predicate
from frazil.model.expressions import Reference as ColumnReference
from frazil.model.operations import Operation
from frazil.model.schema import Schema
from frazil.model.types import (
    DoubleType,
    FloatType,
    NestedField,
)
from frazil.spark.types import temporal_text

Tree = Mapping[str, Any]

_COMPARISONS = {
    "=": Operation.EQ,
    "<>": Operation.NOT_EQ,
    "!=": Operation.NOT_EQ,
    ">": Operation.GT,
    ">=": Operation.GT_EQ,
    "<": Operation.LT,
    "<=": Operation.LT_EQ,
}
_FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def conjunction(schema: Schema, trees: Sequence[Tree]) -> Expression:
    """All of the conditions."""
    return and_(*(to_expression(schema, tree) for tree in trees))


def to_expression(schema: Schema, tree: Tree) -> Expression:
    """A condition as a filter; Unsupported if it is more than a filter can say."""
    if "type" in tree and isinstance(tree["value"], bool):
        return AlwaysTrue() if tree["value"] else AlwaysFalse()
    if "column" in tree:
        return predicate(Operation.EQ, _reference(schema, tree)[0], True)
    name: str = tree.get("name", "?")
    args: Sequence[Tree] = tree.get("args", ())
    if name in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
        return AlwaysTrue() if name == "ALWAYS_TRUE" else AlwaysFalse()
    if name == "AND":
        return conjunction(schema, args)
    if name == "OR":
        return or_(*(to_expression(schema, arg) for arg in args))
    if name == "NOT":
        return not_(to_expression(schema, args[0]))
    if name in ("IS_NULL", "IS_NOT_NULL"):
        found = Operation.IS_NULL if name == "IS_NULL" else Operation.NOT_NULL
        return predicate(found, _reference(schema, args[0])[0])
    if name == "IN":
        return or_(*(_compare(schema, "=", args[0], value) for value in args[1:]))
    if name == "STARTS_WITH":
        return predicate(Operation.STARTS_WITH, _reference(schema, args[0])[0], _value(args[1]))
    if name == "<=>" or name in _COMPARISONS:
        flipped = "column" not in args[0]
        left, right = (args[1], args[0]) if flipped else (args[0], args[1])
        return _compare(schema, _FLIPPED.get(name, name) if flipped else name, left, right)
    raise _too_much(tree)


def _compare(schema: Schema, name: str, left: Tree, right: Tree) -> Expression:
    reference, column = _reference(schema, left)
    value = _value(right)
    if name == "<=>":
        if value is None:
            return predicate(Operation.IS_NULL, reference)
        equal = _compare(schema, "=", left, right)
        return and_(predicate(Operation.NOT_NULL, reference), equal)
    if value is None:
        # unknown for every row: nothing matches, and neither does its opposite
        return and_(predicate(Operation.IS_NULL, reference), predicate(Operation.NOT_NULL, reference))
    operation = _COMPARISONS[name]
    if not isinstance(column.type, FloatType | DoubleType):
        return predicate(operation, reference, value)
    return _compare_floating(operation, reference, value)


def _compare_floating(operation: Operation, reference: ColumnReference, value: float) -> Expression:
    is_nan = predicate(Operation.IS_NAN, reference)
    if not math.isnan(value):
        plain = predicate(operation, reference, value)
        return or_(plain, is_nan) if operation in (Operation.GT, Operation.GT_EQ) else plain
    if operation in (Operation.EQ, Operation.GT_EQ):
        return is_nan
    if operation in (Operation.NOT_EQ, Operation.LT):
        return and_(predicate(Operation.NOT_NULL, reference), not_(is_nan))
    if operation is Operation.LT_EQ:
        return predicate(Operation.NOT_NULL, reference)
    return and_(is_nan, not_(is_nan))


def _reference(schema: Schema, tree: Tree) -> tuple[ColumnReference, NestedField]:
    if "column" not in tree:
        raise _too_much(tree)
    name = ".".join(tree["column"])
    return ColumnReference(name), schema.find(name, case_sensitive=False)


def _value(tree: Tree) -> Any:
    """A literal as a Python value; dates and times are text."""
    if "type" not in tree or isinstance(tree["type"], dict):
        raise _too_much(tree)
    value, spark = tree["value"], tree["type"]
    if value is None:
        return None
    if spark == "binary":
        return base64.b64decode(value)
    if spark.startswith(("date", "time")):
        text = temporal_text(spark, str(value))
        if text is None:
            raise _too_much(tree)
        return text
    if spark in ("float", "double") and isinstance(value, str):
        return float(value)
    if spark.startswith("decimal"):
        return Decimal(value)
    return value


def _too_much(tree: Tree) -> Unsupported:
    shown = tree.get("text") or tree.get("name") or tree
    return Unsupported(
        f"condition {shown} is more than a filter of a table can say", hint="compare columns with values"
    )
