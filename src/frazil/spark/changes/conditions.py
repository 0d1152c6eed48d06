"""Frazil's expressions as conditions of Spark's SQL, on a table that is `t` in it."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from frazil.errors import InvalidArgument
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, And, Expression, Not, Or, Predicate, Reference
from frazil.model.operations import Operation
from frazil.model.schema import Schema
from frazil.model.types import StringType
from frazil.spark.scan.relations import quoted_name

_SIGNS = {
    Operation.LT: "<",
    Operation.LT_EQ: "<=",
    Operation.GT: ">",
    Operation.GT_EQ: ">=",
    Operation.EQ: "=",
    Operation.NOT_EQ: "<>",
}
_TESTS = {
    Operation.IS_NULL: "{} IS NULL",
    Operation.NOT_NULL: "{} IS NOT NULL",
    Operation.IS_NAN: "isnan({})",
    Operation.NOT_NAN: "NOT isnan({})",
    Operation.STARTS_WITH: "startswith({}, {})",
    Operation.NOT_STARTS_WITH: "NOT startswith({}, {})",
    Operation.IN: "{} IN ({})",
    Operation.NOT_IN: "{} NOT IN ({})",
}


def condition_sql(where: str | Expression, schema: Schema) -> str:
    """Text stays as it is."""
    if isinstance(where, str) and where.strip():
        return where
    if not isinstance(where, Expression):
        raise InvalidArgument(f"{where!r} is no condition", hint="give SQL text, or an expression")
    if isinstance(where, AlwaysTrue | AlwaysFalse):
        return "TRUE" if isinstance(where, AlwaysTrue) else "FALSE"
    if isinstance(where, And | Or):
        word = " AND " if isinstance(where, And) else " OR "
        return word.join(f"({condition_sql(one, schema)})" for one in where.operands)
    if isinstance(where, Not):
        return f"NOT ({condition_sql(where.operand, schema)})"
    if isinstance(where, Predicate) and isinstance(where.term, Reference):
        return _predicate(where, schema)
    raise InvalidArgument(f"Spark is not told {where}", hint="give the condition as SQL text")


def column_sql(name: str, schema: Schema) -> str:
    """A column of the table by its dotted name, whatever its parts are named."""
    path = [schema.field_by_id(number) for number in schema.path_ids(schema.find(name, case_sensitive=False).id)]
    return ".".join(["t", *(quoted_name(part.name) for part in path if part is not None)])


def value_sql(value: Any) -> str:
    """A value that is no text."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, Decimal):
        return f"{value}BD"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, int | float):
        return repr(value) if isinstance(value, int) else f"double('{value!r}')"
    raise InvalidArgument(
        f"{value!r} is no value", hint="give SQL text, or a number, boolean, date, timestamp or bytes"
    )


def _predicate(where: Predicate, schema: Schema) -> str:
    column = column_sql(where.column, schema)
    is_text = isinstance(schema.find(where.column, case_sensitive=False).type, StringType)
    literals = [_literal(value, is_text, where) for value in where.literals]
    if where.operation in _SIGNS:
        return f"{column} {_SIGNS[where.operation]} {literals[0]}"
    return _TESTS[where.operation].format(column, ", ".join(literals))


def _literal(value: Any, is_text: bool, where: Predicate) -> str:
    """A value that Spark takes as the kernel does: of texts, only for texts; of times, only moments."""
    if isinstance(value, str) and is_text:
        # by its bytes: what a backslash means in a text is a setting of the session
        return f"decode(X'{value.encode().hex()}', 'UTF-8')" if set("\\'") & set(value) else f"'{value}'"
    is_plain = not isinstance(value, str) and not (isinstance(value, float) and math.isnan(value))
    if is_plain and not (isinstance(value, datetime) and value.tzinfo is None):
        return value_sql(value)
    raise InvalidArgument(f"Spark may understand {where} in another way", hint="give the condition as SQL text")
