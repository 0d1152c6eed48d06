"""Filters that Spark pushes down, as filters of the kernel.

The JVM side writes Catalyst expressions as JSON: a column is `{"c": [names], "t": type}`, a literal
`{"v": text, "t": type}` and everything else `[class, operand, ...]`. What is not understood is left out where that only
makes the filter weaker: pruning may keep too much, never too little, since Spark checks every row again.

>>> from frazil.model.arrow import schema_from_anything
>>> schema = schema_from_anything("id BIGINT, name STRING")
>>> text = '''[["And", ["GreaterThan", {"c": ["id"], "t": "bigint"}, {"v": "7", "t": "bigint"}],
...                    ["RLike", {"c": ["name"], "t": "string"}, {"v": "x.*", "t": "string"}]]]'''
>>> str(pushed_filter(text, schema))
'`1` > 7'
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from frazil.errors import InvalidExpression, InvalidValue
from frazil.model.binding import bind
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, Expression, and_, col, not_, or_, predicate
from frazil.model.operations import Operation
from frazil.model.schema import Schema
from frazil.model.types import ListType, MapType, NestedField, StringType, StructType, Type, UuidType
from frazil.spark.types import temporal_text

_COMPARISONS = {
    "EqualTo": Operation.EQ,
    "LessThan": Operation.LT,
    "LessThanOrEqual": Operation.LT_EQ,
    "GreaterThan": Operation.GT,
    "GreaterThanOrEqual": Operation.GT_EQ,
}
_SWAPPED = {
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
}


class _NotUnderstoodError(Exception):
    """A part of a filter that has no meaning here."""


_NOT_UNDERSTOOD = (_NotUnderstoodError, InvalidExpression, InvalidValue)


@dataclass(frozen=True, slots=True)
class _Operand:
    """A column by the ids on its path."""

    path: str
    type: Type


def pushed_filter(text: str, schema: Schema) -> Expression:
    """All filters of the JSON text, bound to `numbered(schema)`. `schema` has the names that the relation has."""
    names = numbered(schema)
    translate = _Translation(schema, names)
    parts = [translate.weaker(tree) for tree in json.loads(text)]
    return bind(names, and_(*parts), nan_ordered=True)


def exact_filter(text: str, schema: Schema) -> Expression | None:
    """As `pushed_filter`, but None unless it is true for the same rows as Spark's."""
    names = numbered(schema)
    translate = _Translation(schema, names)
    try:
        parts = [translate.exact(tree) for tree in json.loads(text)]
    except _NOT_UNDERSTOOD:
        return None
    return bind(names, and_(*parts), nan_ordered=True)


def numbered(schema: Schema) -> Schema:
    """The same columns, each named by its id: no name in it is ambiguous, whatever the table's names are."""
    return Schema(tuple(_numbered(column) for column in schema.fields), schema.schema_id)


def _numbered(column: NestedField) -> NestedField:
    return replace(column, name=str(column.id), type=_numbered_type(column.type))


def _numbered_type(type_: Type) -> Type:
    if isinstance(type_, StructType):
        return StructType(tuple(_numbered(column) for column in type_.fields))
    if isinstance(type_, ListType):
        return replace(type_, element=replace(type_.element, type=_numbered_type(type_.element.type)))
    if isinstance(type_, MapType):
        key = replace(type_.key, type=_numbered_type(type_.key.type))
        return replace(type_, key=key, value=replace(type_.value, type=_numbered_type(type_.value.type)))
    return type_


@dataclass(frozen=True, slots=True)
class _Translation:
    schema: Schema
    names: Schema

    def weaker(self, tree: Any) -> Expression:
        """A filter that is true wherever the tree is."""
        kind, *operands = tree if isinstance(tree, list) else ("",)
        if kind == "And":
            return and_(*(self.weaker(operand) for operand in operands))
        if kind == "Or":
            return or_(*(self.weaker(operand) for operand in operands))
        try:
            return self.exact(tree)
        except _NOT_UNDERSTOOD:
            return AlwaysTrue()

    def exact(self, tree: Any) -> Expression:
        """A filter that is true, false and unknown for the same rows as the tree."""
        if isinstance(tree, dict):
            return self._truth(tree)
        kind, *operands = tree
        if kind in ("And", "Or"):
            return (and_ if kind == "And" else or_)(*(self.exact(operand) for operand in operands))
        if kind == "Not":
            return not_(self.exact(operands[0]))
        return self._checked(self._test(kind, operands))

    def _checked(self, leaf: Expression) -> Expression:
        """The leaf, if its literals fit its column."""
        bind(self.names, leaf, nan_ordered=True)
        return leaf

    def _truth(self, tree: dict[str, Any]) -> Expression:
        if "c" in tree:
            return self._checked(col(self._column(tree).path) == True)  # noqa: E712 - a filter, not a test
        if tree["t"] == "boolean" and tree["v"] is not None:
            return AlwaysTrue() if tree["v"] == "true" else AlwaysFalse()
        raise _NotUnderstoodError

    def _test(self, kind: str, operands: Sequence[Any]) -> Expression:
        if kind in _SWAPPED:
            left, right = operands
            if isinstance(left, dict) and "v" in left:
                kind, left, right = _SWAPPED[kind], right, left
            column = self._column(left)
            if kind == "EqualNullSafe":
                null = isinstance(right, dict) and "v" in right and right["v"] is None
                return col(column.path).equal_null_safe(None if null else _literal(right, column))
            return predicate(_COMPARISONS[kind], col(column.path).term, _literal(right, column))
        if not operands:
            raise _NotUnderstoodError
        column = self._column(operands[0])
        match kind:
            case "In":
                return col(column.path).isin([_literal(value, column) for value in operands[1:]])
            case "IsNull":
                return col(column.path).is_null()
            case "IsNotNull":
                return col(column.path).not_null()
            case "IsNaN":
                # true or false in Spark also for null
                return and_(col(column.path).not_null(), col(column.path).is_nan())
            case "StartsWith":
                return col(column.path).startswith(_literal(operands[1], column))
        raise _NotUnderstoodError

    def _column(self, tree: Any) -> _Operand:
        if not isinstance(tree, dict) or "c" not in tree:
            raise _NotUnderstoodError
        fields, path = self.schema.fields, []
        found: NestedField | None = None
        for name in tree["c"]:
            found = next((column for column in fields if column.name == name), None)
            if found is None:
                raise _NotUnderstoodError
            path.append(str(found.id))
            fields = found.type.fields if isinstance(found.type, StructType) else ()
        if found is None or (isinstance(found.type, StringType) and tree["t"] != "string"):
            raise _NotUnderstoodError  # a collation has another order
        return _Operand(".".join(path), found.type)


def _literal(tree: Any, column: _Operand) -> Any:
    """A literal of Spark as one of the kernel."""
    if not isinstance(tree, dict) or tree.get("v") is None:
        raise _NotUnderstoodError
    value = _value(tree["t"], tree["v"])
    if isinstance(column.type, UuidType) and isinstance(value, str) and not _is_canonical_uuid(value):
        raise _NotUnderstoodError  # to Spark it is text, which may be equal to no uuid
    return value


def _value(kind: str, text: str) -> Any:
    match kind.partition("(")[0]:
        case "boolean":
            return text == "true"
        case "tinyint" | "smallint" | "int" | "bigint":
            return int(text)
        case "float" | "double":
            return float(text)
        case "decimal":
            try:
                return Decimal(text)
            except InvalidOperation:
                raise _NotUnderstoodError from None
        case "string":
            return text
        case "binary":
            return bytes.fromhex(text)
    found = temporal_text(kind, text)
    if found is None:
        raise _NotUnderstoodError
    return found


def _is_canonical_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
