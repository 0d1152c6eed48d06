"""Filters that Spark pushes down, as filters of the kernel.

The JVM side writes Catalyst expressions as JSON: a column is `{"c": [names], "t": type}`, a literal
`{"v": text, "t": type}` and everything else `[class, operand, ...]`. What is not understood is left out where that only
makes the filter weaker: pruning may keep too much, never too little, since Spark checks every row again. Where nobody
does, as in DELETE, it is an error.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from frazil.errors import InvalidExpression, InvalidValue, Unsupported
from frazil.model.binding import bind
from frazil.model.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    Column,
    Expression,
    Reference,
    TransformTerm,
    and_,
    col,
    not_,
    or_,
    predicate,
)
from frazil.model.operations import Operation
from frazil.model.schema import Schema
from frazil.model.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
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


_FUNCTIONS: dict[str, Callable[..., Transform]] = {
    "FrazilBucket": BucketTransform,
    "FrazilTimeBucket": BucketTransform,
    "FrazilTruncate": TruncateTransform,
    "FrazilYears": YearTransform,
    "FrazilMonths": MonthTransform,
    "FrazilDays": DayTransform,
    "FrazilHours": HourTransform,
}
"""The functions of a lake, by the classes that Spark calls."""


class _NotUnderstoodError(Exception):
    """A part of a filter that has no meaning here."""


_NOT_UNDERSTOOD = (_NotUnderstoodError, InvalidExpression, InvalidValue)


@dataclass(frozen=True, slots=True)
class _Operand:
    """A column, or a transform of it, and what its values are."""

    column: Column
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


def row_filter(text: str, schema: Schema) -> Expression:
    """The rows that all conditions of a command are true for, bound to the schema; Unsupported if it cannot be said."""
    found = exact_row_filter(text, schema)
    if found is None:
        shown = " AND ".join(map(_shown, json.loads(text)))
        raise Unsupported(
            f"the condition {shown} is more than a filter of a table can say",
            hint="compare columns with values, or overwrite the rows",
        )
    return found


def exact_row_filter(text: str, schema: Schema) -> Expression | None:
    """As `row_filter`, but None if it cannot be said."""
    translate = _Translation(schema, schema)
    try:
        parts = [translate.exact(tree) for tree in json.loads(text)]
    except _NOT_UNDERSTOOD:
        return None
    return bind(schema, and_(*parts), nan_ordered=True)


def wider_row_filter(text: str, schema: Schema) -> Expression:
    """A filter, bound to the schema, that is true for every row that all conditions of a command are true for."""
    translate = _Translation(schema, schema)
    return bind(schema, and_(*(translate.weaker(tree) for tree in json.loads(text))), nan_ordered=True)


def _shown(tree: Any) -> str:
    if isinstance(tree, dict):
        return ".".join(tree["c"]) if "c" in tree else repr(tree["v"])
    name, *operands = tree
    return f"{name}({', '.join(map(_shown, operands))})"


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

    def exact(self, tree: Any, negated: bool = False) -> Expression:
        """A filter that is true for the same rows as the tree, or as its opposite.

        What is unknown is no more true than its opposite, so it counts as false once every `Not` is at a leaf.
        """
        kind, *operands = tree if isinstance(tree, list) else ("",)
        if kind in ("And", "Or"):
            combine = and_ if (kind == "And") is not negated else or_
            return combine(*(self.exact(operand, negated) for operand in operands))
        if kind == "Not":
            return self.exact(operands[0], not negated)
        if _is_unknown(tree, negated):
            return AlwaysFalse()
        leaf = self._truth(tree) if isinstance(tree, dict) else self._checked(self._test(kind, operands))
        return not_(leaf) if negated else leaf

    def _checked(self, leaf: Expression) -> Expression:
        """The leaf, if its literals fit its column."""
        bind(self.names, leaf, nan_ordered=True)
        return leaf

    def _truth(self, tree: dict[str, Any]) -> Expression:
        if "c" in tree:
            return self._checked(self._operand(tree).column == True)  # noqa: E712 - a filter, not a test
        if tree["t"] == "boolean" and tree["v"] is not None:
            return AlwaysTrue() if tree["v"] == "true" else AlwaysFalse()
        raise _NotUnderstoodError

    def _test(self, kind: str, operands: Sequence[Any]) -> Expression:
        if kind in _SWAPPED:
            left, right = operands
            if isinstance(left, dict) and "v" in left:
                kind, left, right = _SWAPPED[kind], right, left
            operand = self._operand(left)
            if kind == "EqualNullSafe":
                return operand.column.equal_null_safe(None if _is_null(right) else _literal(right, operand))
            return predicate(_COMPARISONS[kind], operand.column.term, _literal(right, operand))
        if not operands:
            raise _NotUnderstoodError
        operand = self._operand(operands[0])
        column = operand.column
        match kind:
            case "In":
                return column.isin([_literal(value, operand) for value in operands[1:] if not _is_null(value)])
            case "IsNull":
                return column.is_null()
            case "IsNotNull":
                return column.not_null()
            case "IsNaN":
                return and_(column.not_null(), column.is_nan())  # true or false in Spark also for null
            case "StartsWith":
                return column.startswith(_literal(operands[1], operand))
        raise _NotUnderstoodError

    def _operand(self, tree: Any) -> _Operand:
        if not isinstance(tree, list):
            return self._column(tree)
        made = _FUNCTIONS.get(tree[0])
        if made is None:
            raise _NotUnderstoodError
        *sizes, source = tree[1:]
        found = self._column(source)
        if any("v" not in size or size["v"] is None for size in sizes):
            raise _NotUnderstoodError
        transform = made(*(int(size["v"]) for size in sizes))
        assert isinstance(found.column.term, Reference)
        return _Operand(Column(TransformTerm(transform, found.column.term)), transform.result_type(found.type))

    def _column(self, tree: Any) -> _Operand:
        if not isinstance(tree, dict) or "c" not in tree:
            raise _NotUnderstoodError
        fields = self.schema.fields
        found: NestedField | None = None
        for name in tree["c"]:
            found = _named(fields, name)
            fields = found.type.fields if isinstance(found.type, StructType) else ()
        path = None if found is None else self.names.name_of(found.id)
        if found is None or path is None or (isinstance(found.type, StringType) and tree["t"] != "string"):
            raise _NotUnderstoodError  # a collation has another order
        return _Operand(col(path), found.type)


def _named(fields: Sequence[NestedField], name: str) -> NestedField:
    """The column of that name; in a command names are spelled as the user likes, if Spark says that case is nothing."""
    alike = [column for column in fields if column.name.lower() == name.lower()]
    found = [column for column in alike if column.name == name] or alike
    if len(found) != 1:
        raise _NotUnderstoodError
    return found[0]


def _is_null(tree: Any) -> bool:
    return isinstance(tree, dict) and "v" in tree and tree["v"] is None


def _is_unknown(tree: Any, negated: bool) -> bool:
    """Whether the tree is neither true nor false for any row, or is never so as its opposite."""
    if isinstance(tree, dict):
        return _is_null(tree)
    kind, *operands = tree
    nulls = [_is_null(operand) for operand in operands]
    if kind == "In":
        return nulls[0] or (len(nulls) > 1 and all(nulls[1:])) or (negated and any(nulls[1:]))
    return kind in (*_COMPARISONS, "StartsWith") and any(nulls)


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
