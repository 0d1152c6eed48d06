"""New values for columns, as `update` takes them: SQL text, or plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from frazil.errors import ColumnNotFound, InvalidArgument, InvalidValue
from frazil.model.python_values import array_of
from frazil.model.scalar_sql import compile_scalar

Assign = Callable[[pa.RecordBatch], pa.Array]


def assignments(schema: pa.Schema, values: Mapping[str, Any]) -> dict[str, Assign]:
    """How the new values of columns are computed."""
    if not values:
        raise InvalidArgument("an update of no columns", hint="give values by column name")
    found: dict[str, Assign] = {}
    for name, value in values.items():
        if name not in schema.names:
            raise ColumnNotFound(f"no column {name!r} to update", hint=f"the columns are {', '.join(schema.names)}")
        found[name] = compile_scalar(value, schema) if isinstance(value, str) else _constant(value, schema.field(name))
    return found


def _constant(value: Any, field: pa.Field) -> Assign:
    try:
        scalar = value if isinstance(value, pa.Scalar) else array_of([value], field)[0]
    except InvalidValue as error:
        raise InvalidArgument(
            f"{value!r} does not fit column {field.name!r} of type {field.type}: {error.message}",
            hint="SQL goes as text",
        ) from error
    return lambda batch: pa.repeat(scalar, batch.num_rows) if scalar.is_valid else pa.nulls(batch.num_rows, field.type)
