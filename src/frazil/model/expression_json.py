"""Filters as Iceberg's JSON: what REST catalogs, scan reports and other implementations exchange.

>>> expression_from_json({"type": "lt-eq", "term": "a.b", "value": 5}) == (col("a.b") <= 5)
True
>>> expression_to_json(col("id").bucket(16) == 3)["term"]
{'type': 'transform', 'transform': 'bucket[16]', 'term': 'id'}

The term form is written, since every reader knows it; the newer form with `left`, `right` and `child` is read as well.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from frazil.errors import FrazilError, InvalidExpression
from frazil.model import temporal
from frazil.model.binding import BoundPredicate, BoundTransform
from frazil.model.expressions import (
    MAX_DEPTH,
    AlwaysFalse,
    AlwaysTrue,
    And,
    Expression,
    Not,
    Or,
    Predicate,
    Term,
    TransformTerm,
    and_,
    col,
    not_,
    or_,
    predicate,
    transformed,
)
from frazil.model.operations import Operation
from frazil.model.transforms import UnknownTransform, parse_transform
from frazil.model.values import to_json as value_to_json

_HINT = "see the JSON form in Iceberg's expressions specification"


def _bad(what: str, document: Any) -> InvalidExpression:
    shown = repr(document)
    return InvalidExpression(f"{what}: {shown if len(shown) <= 120 else shown[:117] + '...'}", hint=_HINT)


def expression_from_json(document: Any, *, depth: int = 0) -> Expression:
    """The filter of a JSON document, already decoded; InvalidExpression if it is none."""
    if depth > MAX_DEPTH:
        raise InvalidExpression(f"the filter nests deeper than {MAX_DEPTH} levels", hint="the document is hostile")
    if isinstance(document, bool):
        return AlwaysTrue() if document else AlwaysFalse()
    kind = _kind(document)
    if kind in {"true", "false"}:
        return AlwaysTrue() if kind == "true" else AlwaysFalse()
    if kind == "literal" and isinstance(document.get("value"), bool):
        return AlwaysTrue() if document["value"] else AlwaysFalse()
    if kind == "not":
        return not_(expression_from_json(_member(document, "child"), depth=depth + 1))
    if kind in {"and", "or"}:
        operands = [expression_from_json(child, depth=depth + 1) for child in _operands(kind, document)]
        return and_(*operands) if kind == "and" else or_(*operands)
    try:
        operation = Operation(kind)
    except ValueError:
        raise _bad(f"unknown expression type {kind!r}", document) from None
    return _predicate_from_json(operation, document)


def _kind(document: Any) -> str:
    kind = document.get("type") if isinstance(document, Mapping) else None
    if not isinstance(kind, str):
        raise _bad("not an expression", document)
    return kind.lower().replace("_", "-")


def _member(document: Mapping[str, Any], *names: str) -> Any:
    for name in names:
        if name in document:
            return document[name]
    raise _bad(f"{document.get('type')!r} without {' or '.join(map(repr, names))}", document)


def _operands(kind: str, document: Mapping[str, Any]) -> list[Any]:
    """All operands of a chain of the same kind: long chains are deep in JSON, and must not be here."""
    found: list[Any] = []
    pending: list[Any] = [document]
    while pending:
        node = pending.pop()
        if _is(node, kind):
            pending += [_member(node, "right"), _member(node, "left")]
        else:
            found.append(node)
    return found


def _is(node: Any, kind: str) -> bool:
    return isinstance(node, Mapping) and isinstance(node.get("type"), str) and node["type"].lower() == kind


def _predicate_from_json(operation: Operation, document: Mapping[str, Any]) -> Expression:
    if operation.is_unary:
        return predicate(operation, _term(_member(document, "term", "child")))
    if operation.is_set:
        values = _member(document, "values")
        if isinstance(values, Mapping):
            values = _member(values, "values")
        if not isinstance(values, list):
            raise _bad("values are no array", document)
        return predicate(operation, _term(_member(document, "term", "child")), *map(_value, values))
    if "term" in document:
        return predicate(operation, _term(document["term"]), _value(_member(document, "value")))
    left, right = _member(document, "left"), _member(document, "right")
    if _is_term(left) and not _is_term(right):
        return predicate(operation, _term(left), _value(right))
    if _is_term(right) and not _is_term(left) and operation not in {Operation.STARTS_WITH, Operation.NOT_STARTS_WITH}:
        return predicate(operation.flipped, _term(right), _value(left))
    raise _bad("only a column with a literal can be compared", document)


def _is_term(document: Any) -> bool:
    return isinstance(document, Mapping) and document.get("type") in {"reference", "transform", "apply"}


def _value(document: Any) -> Any:
    if isinstance(document, Mapping):
        if _kind(document) != "literal":
            raise _bad("not a literal", document)
        document = _member(document, "value")
    if document is not None and not isinstance(document, bool | int | float | str):
        raise _bad("not a literal", document)
    return document


def _term(document: Any) -> Term:
    if isinstance(document, str):
        return col(document).term
    if isinstance(document, Mapping):
        match document:
            case {"type": "reference", "name": str(name)} | {"type": "reference", "term": str(name)}:
                return col(name).term
            case {"type": "transform", "transform": str(text), "term": inner}:
                return _transform(text, _term(inner), document)
            case {"type": "apply", "function": function, "arguments": [*arguments]}:
                return _apply(function, arguments, document)
            case {"type": "reference"}:
                raise _bad("references by id are not supported", document)
    raise _bad("not a column or a transform of one", document)


def _apply(function: Any, arguments: list[Any], document: Any) -> Term:
    """A partition transform in the newer form: a call, whose width is its first argument."""
    if isinstance(function, Mapping):
        function = function.get("identifier")
    name = function[-1] if isinstance(function, list) and function else function
    if isinstance(name, str) and 1 <= len(arguments) <= 2:
        width = f"[{_value(arguments[0])}]" if len(arguments) == 2 else ""
        return _transform(f"{name}{width}", _term(arguments[-1]), document)
    raise _bad("unknown function", document)


def _transform(text: str, term: Term, document: Any) -> Term:
    try:
        transform = parse_transform(text)
    except FrazilError as error:
        raise _bad(error.message, document) from error
    if isinstance(transform, UnknownTransform):
        raise _bad(f"unknown transform {text!r}", document)
    return term if text == "identity" else transformed(transform, term)


def expression_to_json(expression: Expression) -> Any:
    """A filter as JSON values, in the term form.

    Literals take the single-value form of their column's type if the filter is bound, else that of their own type: bind
    before sending a filter to another implementation, which may be less liberal about what it compares.
    """
    if isinstance(expression, AlwaysTrue | AlwaysFalse):
        return isinstance(expression, AlwaysTrue)
    if isinstance(expression, Not):
        return {"type": "not", "child": expression_to_json(expression.operand)}
    if isinstance(expression, And | Or):
        return _balanced("and" if isinstance(expression, And) else "or", expression.operands)
    if not isinstance(expression, Predicate | BoundPredicate):
        raise InvalidExpression(f"{expression!r} is no filter", hint="use col(), parse_expression() or bind()")
    term = expression.term
    result: dict[str, Any] = {"type": expression.operation.value}
    if isinstance(term, TransformTerm | BoundTransform):
        result["term"] = {"type": "transform", "transform": str(term.transform), "term": term.reference.name}
    else:
        result["term"] = term.name
    if isinstance(expression, BoundPredicate):
        values = [value_to_json(expression.term.type, value) for value in expression.literals]
    else:
        values = [_literal_to_json(value) for value in expression.literals]
    if expression.operation.is_set:
        result["values"] = values
    elif not expression.operation.is_unary:
        result["value"] = values[0]
    return result


def _balanced(kind: str, operands: tuple[Expression, ...]) -> Any:
    """Two halves, and so on: a chain of thousands stays shallow."""
    if len(operands) == 1:
        return expression_to_json(operands[0])
    middle = len(operands) // 2
    return {"type": kind, "left": _balanced(kind, operands[:middle]), "right": _balanced(kind, operands[middle:])}


def _literal_to_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, dt.time):
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
        return temporal.format_time(micros)
    return str(value) if isinstance(value, uuid.UUID) else value.isoformat()
