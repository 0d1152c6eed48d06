"""Rows as people bring them, made into batches of exactly a table's Arrow schema, or refused with the column's name.

Columns go by name; one that is not given is null. Values are cast only where nothing can be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidArgument, InvalidValue
from frazil.lance.lists import as_list, has_layout, plain_list, with_values
from frazil.model.arrow import is_arrow_list, rebuild_map, rebuild_struct
from frazil.model.conform import may_cast, opened
from frazil.model.python_values import array_of


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
    """A column in the type of the table's; InvalidValue if a value would not be the same in it.

    That goes for what is in structs, lists and maps as well. Only vectors, which are lists of one length, may be
    rounded to smaller floats: that is what they are made for.
    """
    fitted = _fitted(array, field, field.name)
    _check_nulls(fitted, field, field.name)
    return fitted


def _fitted(array: pa.Array, field: pa.Field, path: str, *, rounded: bool = False) -> pa.Array:
    wanted = field.type
    if array.type == wanted:
        return array
    if isinstance(array, pa.ExtensionArray):
        return _fitted(array.storage, field, path, rounded=rounded)
    if isinstance(wanted, pa.BaseExtensionType):
        storage = field.with_type(wanted.storage_type)
        return pa.ExtensionArray.from_storage(wanted, _fitted(array, storage, path, rounded=rounded))
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if pa.types.is_nested(wanted) or pa.types.is_nested(array.type):
        return _fitted_inside(array, field, path)
    return _cast(array, field, path, rounded)


def _fitted_inside(array: pa.Array, field: pa.Field, path: str) -> pa.Array:
    wanted = field.type
    if pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        names = [inner.name for inner in array.type]
        if extra := [name for name in names if wanted.get_field_index(name) < 0]:
            raise InvalidArgument(
                f"struct {path!r} has no field {extra[0]!r}", hint="leave the field out, or add it to the schema first"
            )
        parts = [
            _fitted(array.field(names.index(inner.name)), inner, f"{path}.{inner.name}")
            if inner.name in names
            else pa.nulls(len(array), inner.type)
            for inner in wanted
        ]
        return rebuild_struct(array, parts, wanted)
    if pa.types.is_map(wanted) and pa.types.is_map(array.type):
        keys = _fitted(array.keys, wanted.key_field, f"{path}.key")
        return rebuild_map(array, keys, _fitted(array.items, wanted.item_field, f"{path}.value"), wanted)
    if is_arrow_list(wanted) and is_arrow_list(array.type) and not pa.types.is_map(array.type):
        is_vector = pa.types.is_fixed_size_list(wanted)
        plain = array if has_layout(array, wanted) else plain_list(array)
        values = _fitted(plain.values, wanted.value_field, f"{path}.item", rounded=is_vector)
        if has_layout(plain, wanted):
            return with_values(plain, values, wanted)
        return as_list(with_values(plain, values, pa.list_(wanted.value_field)), field)
    raise _unfit(array.type, wanted, path)


def _cast(array: pa.Array, field: pa.Field, path: str, rounded: bool) -> pa.Array:
    wanted = field.type
    plain = wanted.value_type if pa.types.is_dictionary(wanted) else wanted
    given = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if _kind(given) != _kind(plain) and not may_cast(given, plain):
        raise _unfit(array.type, wanted, path)
    try:
        if pa.types.is_dictionary(wanted) and not pa.types.is_dictionary(array.type):
            return array.cast(wanted.value_type).dictionary_encode().cast(wanted)
        result = array.cast(wanted)
        narrower = pa.types.is_floating(plain) and pa.types.is_floating(given) and plain.bit_width < given.bit_width
        if narrower and not rounded:
            _check_exact(array, result)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InvalidValue(
            f"column {path!r}: {array.type} does not fit {wanted}: {error}",
            hint="cast the values yourself",
            column=path,
        ) from error
    return result


def _unfit(given: pa.DataType, wanted: pa.DataType, path: str) -> InvalidArgument:
    return InvalidArgument(
        f"column {path!r} is given as {given}, the table has {wanted}", hint="cast it before writing", column=path
    )


def _check_nulls(array: pa.Array, field: pa.Field, path: str, present: pa.Array | None = None) -> None:
    """Refuse nulls where there must be none; what is in a null does not count."""
    if array.null_count and not field.nullable:
        nulls = array.is_null() if present is None else pc.and_(array.is_null(), present)
        if nulls.true_count:
            raise InvalidValue(
                f"column {path!r} is required and has {nulls.true_count} nulls", hint="fill them", column=path
            )
    if not has_required(field.type):
        return
    if isinstance(array, pa.ExtensionArray):
        _check_nulls(array.storage, field.with_type(field.type.storage_type), path, present)
    elif pa.types.is_struct(field.type):
        here = array.is_valid() if present is None else pc.and_(array.is_valid(), present)
        for number, inner in enumerate(field.type):
            _check_nulls(array.field(number), inner, f"{path}.{inner.name}", here)
    elif pa.types.is_map(field.type):
        entry = field.type.item_field
        values = pa.Array.from_buffers(
            pa.list_(entry), len(array), array.buffers()[:2], offset=array.offset, children=[array.items]
        )
        _check_nulls(values.flatten(), entry, f"{path}.value")
    else:
        _check_nulls(array.flatten(), field.type.value_field, f"{path}.item")


def has_required(kind: pa.DataType) -> bool:
    """Whether there is something in a type that must not be null."""
    if isinstance(kind, pa.BaseExtensionType):
        return has_required(kind.storage_type)
    if pa.types.is_map(kind):
        return not kind.item_field.nullable or has_required(kind.item_type)
    if pa.types.is_struct(kind):
        return any(not inner.nullable or has_required(inner.type) for inner in kind)
    return is_arrow_list(kind) and (not kind.value_field.nullable or has_required(kind.value_type))


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
    arrays = [array_as(array_of([row.get(field.name) for row in rows], field), field) for field in schema]
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
