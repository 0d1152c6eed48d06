"""Python's values as an Arrow array of a type, or refused where Arrow would make others of them without a word.

Arrow cuts off what comes after the decimal point or the second, and drops members of structs that it does not know.

>>> array_of([1, None], pa.field("n", pa.int64())).to_pylist()
[1, None]
>>> array_of([1.5], pa.field("n", pa.int64()))
Traceback (most recent call last):
    ...
frazil.errors.InvalidValue: [INVALID_VALUE] column 'n': 1.5 is no whole number ...
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.errors import InvalidValue
from frazil.model.arrow import is_arrow_list

_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
"""Microseconds of the units of times."""


def array_of(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """An array of a column's type; InvalidValue for a value that is none of it. Floats may be rounded."""
    for value in values:
        _check(value, field.type, field.name)
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(
            f"column {field.name!r} of type {field.type}: {error}", hint="check its values", column=field.name
        ) from error


def _check(value: Any, kind: pa.DataType, path: str) -> None:
    if value is None or pa.types.is_floating(kind) or pa.types.is_null(kind):
        return
    if isinstance(kind, pa.BaseExtensionType):
        _check(value, kind.storage_type, path)
    elif pa.types.is_dictionary(kind):
        _check(value, kind.value_type, path)
    elif pa.types.is_struct(kind):
        _check_struct(value, kind, path)
    elif pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else value
        for key, item in pairs if isinstance(pairs, Iterable) else ():
            _check(key, kind.key_type, f"{path}.key")
            _check(item, kind.item_type, f"{path}.value")
    elif is_arrow_list(kind):
        if isinstance(value, Iterable) and not isinstance(value, str | bytes) and not _is_flat(kind.value_type):
            for item in value:
                _check(item, kind.value_type, f"{path}.item")
    elif pa.types.is_integer(kind):
        if isinstance(value, bool | np.bool_):
            raise _refused(value, path, "is true or false, and no number")
        if isinstance(value, float | np.floating | Decimal) and (not np.isfinite(float(value)) or value != int(value)):
            raise _refused(value, path, "is no whole number")
    elif pa.types.is_temporal(kind):
        _check_moment(value, kind, path)


def _is_flat(kind: pa.DataType) -> bool:
    """Whether no value can be changed on its way into a type: vectors are long."""
    return bool(pa.types.is_floating(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind))


def _check_struct(value: Any, kind: pa.StructType, path: str) -> None:
    if not isinstance(value, Mapping):
        return
    for name, item in value.items():
        number = kind.get_field_index(name) if isinstance(name, str) else -1
        if number < 0:
            raise InvalidValue(
                f"struct {path!r} has no field {name!r}", hint="leave it out, or add it to the schema", column=path
            )
        _check(item, kind.field(number).type, f"{path}.{name}")


def _check_moment(value: Any, kind: pa.DataType, path: str) -> None:
    if pa.types.is_date(kind):
        if isinstance(value, dt.datetime) and value.time() != dt.time():
            raise _refused(value, path, "is no date: it has a time of day")
        return
    unit = getattr(kind, "unit", "us")
    if isinstance(value, dt.timedelta):
        parts = value.microseconds
    elif isinstance(value, dt.datetime | dt.time):
        parts = value.microsecond
    else:
        return
    finer = getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0)  # pandas has them
    if parts % _PER_UNIT[unit] or (finer and unit != "ns"):
        raise _refused(value, path, f"is finer than {kind}")


def _refused(value: Any, path: str, what: str) -> InvalidValue:
    return InvalidValue(f"column {path!r}: {value!r} {what}", hint="check its values", column=path)
