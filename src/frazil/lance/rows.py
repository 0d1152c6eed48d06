"""Rows as people bring them, made into batches of exactly a table's Arrow schema, or refused with the column's name.

Columns go by name; one that is not given is null. Values are cast only where nothing can be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidArgument, InvalidValue
from frazil.model.conform import may_cast, opened


def rows_as(rows: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of the schema from a table, batch, reader, iterable of batches, pandas frame or dicts."""
    if (
        isinstance(rows, Sequence)
        and not isinstance(rows, str | bytes)
        and all(isinstance(row, Mapping) for row in rows)
    ):
        return iter([_from_dicts(rows, schema)] if rows else [])
    names, batches = opened(rows)
    if names is not None:
        _check_names(names, schema)
    return (batch_as(batch, schema) for batch in batches)


def batch_as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """One batch in the table's schema."""
    if not isinstance(batch, pa.RecordBatch):
        raise InvalidArgument(f"{type(batch).__name__} is no batch of rows", hint="give pyarrow record batches")
    _check_names(batch.schema.names, schema)
    given = {name: batch.column(number) for number, name in enumerate(batch.schema.names)}
    arrays = [
        array_as(given[field.name], field) if field.name in given else _absent(field, batch.num_rows)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def array_as(array: pa.Array, field: pa.Field) -> pa.Array:
    """A column in the type of the table's."""
    if array.type != field.type:
        try:
            array = _cast(array, field)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise InvalidValue(
                f"column {field.name!r}: {array.type} does not fit {field.type}: {error}",
                hint="cast the values yourself",
                column=field.name,
            ) from error
    if array.null_count and not field.nullable:
        raise InvalidValue(
            f"column {field.name!r} is required and has {array.null_count} nulls", hint="fill them", column=field.name
        )
    return array


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    wanted = field.type
    if isinstance(array, pa.ExtensionArray):
        return _cast(array.storage, field)
    if isinstance(wanted, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(wanted, array.cast(wanted.storage_type))
    nested = pa.types.is_nested(wanted) or pa.types.is_nested(array.type)
    plain = wanted.value_type if pa.types.is_dictionary(wanted) else wanted
    given = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    widened = pa.types.is_null(given) or _kind(given) == _kind(plain)
    if not nested and not widened and not may_cast(given, plain):
        raise InvalidArgument(
            f"column {field.name!r} is given as {array.type}, the table has {wanted}",
            hint="cast it before writing",
            column=field.name,
        )
    if pa.types.is_dictionary(wanted) and not pa.types.is_dictionary(array.type):
        return array.cast(wanted.value_type).dictionary_encode().cast(wanted)
    result = array.cast(wanted)
    if pa.types.is_floating(plain) and pa.types.is_floating(given) and plain.bit_width < given.bit_width:
        _check_exact(array, result)
    return result


_KINDS = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
    lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
    lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind),
)


def _kind(kind: pa.DataType) -> int | pa.DataType:
    return next((number for number, test in enumerate(_KINDS) if test(kind)), kind)


def _check_exact(array: pa.Array, narrowed: pa.Array) -> None:
    """Arrow rounds floating point without a word."""
    back = narrowed.cast(array.type)
    same = pc.or_(pc.equal(back, array), pc.and_(pc.is_nan(back), pc.is_nan(array)))
    if same.false_count:
        raise ValueError("a value would be rounded")


def _absent(field: pa.Field, rows: int) -> pa.Array:
    if not field.nullable and rows:
        raise InvalidValue(
            f"required column {field.name!r} is not given", hint="add the column to the rows", column=field.name
        )
    return pa.nulls(rows, field.type)


def _from_dicts(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    _check_names(list(dict.fromkeys(name for row in rows for name in row)), schema)
    arrays = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        try:
            array = pa.array(values, field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidValue(
                f"column {field.name!r} of type {field.type}: {error}", hint="check its values", column=field.name
            ) from error
        arrays.append(array_as(array, field))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _check_names(names: Sequence[str], schema: pa.Schema) -> None:
    if extra := [name for name in names if name not in schema.names]:
        raise InvalidArgument(
            f"the table has no column {extra[0]!r}",
            hint="leave the column out, or add it to the table's schema first",
            columns=extra,
        )
    if len(set(names)) != len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise InvalidArgument(f"column {twice!r} is given twice", hint="rename or drop one of them")
