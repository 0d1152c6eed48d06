"""Rows as people bring them, made into batches of exactly the table's schema, or refused with the column's name.

Columns go by name. A column that is not given gets its write default, or null. Values are cast only where nothing can
be lost: no overflow, no rounding, no null in a required column, at any depth.

>>> from frazil.model.arrow import schema_from_anything
>>> schema = schema_from_anything("id BIGINT NOT NULL, name STRING")
>>> [batch.to_pylist() for batch in conform([{"id": 1}, {"id": 2, "name": "b"}], schema)]
[[{'id': 1, 'name': None}, {'id': 2, 'name': 'b'}]]
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidArgument, InvalidValue
from frazil.model.arrow import (
    VARIANT_STORAGE,
    array_from_canonical,
    constant_array,
    is_arrow_list,
    null_array,
    rebuild_list,
    rebuild_map,
    rebuild_struct,
    schema_to_arrow,
    type_to_arrow,
)
from frazil.model.schema import Schema
from frazil.model.types import (
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
)
from frazil.model.values import canonical
from frazil.model.variant import encode as encode_variant


def conform(rows: Any, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Batches of `schema_to_arrow(schema)` from a table, batch, reader, iterable of batches, pandas frame or dicts.

    Columns are checked before the first row is read; values as the batches come.
    """
    if (
        isinstance(rows, Sequence)
        and not isinstance(rows, str | bytes)
        and all(isinstance(row, Mapping) for row in rows)
    ):
        return iter([_from_dicts(rows, schema)] if rows else [])
    names, batches = opened(rows)
    if names is not None:
        _check_names(names, schema)
    return _conform_all(batches, schema)


def opened(rows: Any) -> tuple[list[str] | None, Iterable[pa.RecordBatch]]:
    """The batches of a table, reader or frame, and the names of their columns where these are known."""
    if type(rows).__module__.partition(".")[0] == "pandas":
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    elif not isinstance(rows, pa.RecordBatch | pa.Table | pa.RecordBatchReader) and hasattr(rows, "__arrow_c_stream__"):
        rows = pa.RecordBatchReader.from_stream(rows)
    if isinstance(rows, pa.RecordBatch):
        return rows.schema.names, [rows]
    if isinstance(rows, pa.Table):
        return rows.schema.names, rows.to_batches()
    if isinstance(rows, pa.RecordBatchReader):
        return rows.schema.names, rows
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes | Mapping):
        return None, rows
    raise InvalidArgument(
        f"{type(rows).__name__} holds no rows", hint="give an Arrow table, a DataFrame, or a list of dicts"
    )


def _conform_all(batches: Iterable[pa.RecordBatch], schema: Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise InvalidArgument(f"{type(batch).__name__} is no batch of rows", hint="give pyarrow record batches")
        yield conform_batch(batch, schema)


def conform_batch(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """One batch in the table's schema."""
    _check_names(batch.schema.names, schema)
    arrays = []
    for column in schema.fields:
        if column.name in batch.schema.names:
            array = _conform(batch.column(column.name), column, column.name)
        else:
            array = _absent(column, column.name, batch.num_rows)
        _check_nulls(array, None, column, column.name)
        arrays.append(array)
    if not arrays:
        raise InvalidArgument("the table has no columns", hint="add a column first")
    return pa.RecordBatch.from_arrays(arrays, schema=schema_to_arrow(schema))


def _check_names(names: Sequence[str], schema: Schema) -> None:
    if extra := [name for name in names if name not in schema.columns]:
        raise InvalidArgument(
            f"the table has no column {extra[0]!r}",
            hint="leave the column out, or add it to the table's schema first",
            columns=extra,
        )
    if len(set(names)) != len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise InvalidArgument(f"column {twice!r} is given twice", hint="rename or drop one of them")
    for column in schema.fields:
        if column.name not in names:
            _write_default(column, column.name)


def _write_default(column: NestedField, path: str) -> Any:
    value = column.write_default
    if value is None and column.required:
        raise InvalidValue(
            f"required column {path!r} is not given and has no default", hint="add the column to the rows", column=path
        )
    if value is None or not isinstance(column.type, StructType):
        return value
    return {
        inner.id: value.get(inner.id, _write_default(inner, f"{path}.{inner.name}")) for inner in column.type.fields
    }


def _absent(column: NestedField, path: str, rows: int) -> pa.Array:
    return constant_array(column.type, _write_default(column, path), rows)


def _from_dicts(rows: Sequence[Mapping[str, Any]], schema: Schema) -> pa.RecordBatch:
    given = dict.fromkeys(name for row in rows for name in row)
    _check_names(list(given), schema)
    arrays = []
    for column in schema.fields:
        default = _write_default(column, column.name) if any(column.name not in row for row in rows) else None
        try:
            values = [_given(column, row[column.name]) if column.name in row else default for row in rows]
            array = array_from_canonical(column.type, values)
        except InvalidValue as error:
            if "column" in error.context:
                raise
            raise InvalidValue(
                f"column {column.name!r}: {error.message}", hint=error.hint, column=column.name
            ) from error
        _check_nulls(array, None, column, column.name)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema_to_arrow(schema))


def _given(column: NestedField, value: Any) -> Any:
    return _with_defaults(column.type, canonical(column.type, _variants(column.type, value)), column.name)


def _with_defaults(type_: Type, value: Any, path: str) -> Any:
    """A canonical value in which fields of structs that were left out have their write defaults."""
    if value is None:
        return None
    if isinstance(type_, StructType):
        return {
            column.id: _with_defaults(column.type, value[column.id], f"{path}.{column.name}")
            if column.id in value
            else _write_default(column, f"{path}.{column.name}")
            for column in type_.fields
        }
    if isinstance(type_, ListType):
        return [_with_defaults(type_.element.type, item, f"{path}.element") for item in value]
    if isinstance(type_, MapType):
        key, item = type_.key.type, type_.value.type
        return [
            (_with_defaults(key, one, f"{path}.key"), _with_defaults(item, other, f"{path}.value"))
            for one, other in value
        ]
    return value


def _variants(type_: Type, value: Any) -> Any:
    """The value with everything that is to be a variant encoded as one."""
    if value is None:
        return None
    if isinstance(type_, VariantType):
        is_encoded = isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, bytes) for part in value)
        return value if is_encoded else encode_variant(value)
    if isinstance(type_, StructType) and isinstance(value, Mapping):
        types = {column.name: column.type for column in type_.fields}
        return {name: _variants(types[name], item) if name in types else item for name, item in value.items()}
    if isinstance(type_, ListType) and isinstance(value, list | tuple):
        return [_variants(type_.element.type, item) for item in value]
    if isinstance(type_, MapType) and isinstance(value, Mapping):
        return [(key, _variants(type_.value.type, item)) for key, item in value.items()]
    return value


def _conform(array: pa.Array, column: NestedField, path: str) -> pa.Array:
    type_, arrow = column.type, type_to_arrow(column.type)
    if array.type.equals(arrow) and not type_.is_nested and not isinstance(type_, VariantType):
        return array
    array = _plain_layout(array)
    if pa.types.is_null(array.type):
        return null_array(arrow, len(array))
    if isinstance(type_, StructType) and pa.types.is_struct(array.type):
        return _conform_struct(array, type_, path)
    if isinstance(type_, ListType) and is_arrow_list(array.type):
        if not pa.types.is_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        values = _conform(array.values, type_.element, f"{path}.element")
        result = rebuild_list(array, values, arrow)
        if values.null_count and type_.element.required:
            _check_nulls(result.flatten(), None, type_.element, f"{path}.element")
        return result
    if isinstance(type_, MapType) and pa.types.is_map(array.type):
        keys = _conform(array.keys, type_.key, f"{path}.key")
        items = _conform(array.items, type_.value, f"{path}.value")
        result = rebuild_map(array, keys, items, arrow)
        if items.null_count and type_.value.required:
            listed = pa.Array.from_buffers(
                pa.list_(arrow.item_field), len(result), result.buffers()[:2], offset=result.offset, children=[items]
            )
            _check_nulls(listed.flatten(), None, type_.value, f"{path}.value")
        return result
    if isinstance(type_, VariantType) and pa.types.is_struct(array.type):
        names = [field.name for field in array.type]
        if sorted(names) == ["metadata", "value"]:
            parts = [array.field(names.index(name)).cast(pa.binary()) for name in ("metadata", "value")]
            return rebuild_struct(array, parts, VARIANT_STORAGE)
    if not isinstance(type_, StructType | ListType | MapType | VariantType | UnknownType):
        return _cast(array, type_, arrow, path)
    raise _unfit(array.type, type_, path)


def _plain_layout(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        return _plain_layout(array.storage)
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_run_end_encoded(array.type):
        return pc.run_end_decode(array)
    return array


def _conform_struct(array: pa.StructArray, type_: StructType, path: str) -> pa.Array:
    names = [field.name for field in array.type]
    known = {column.name for column in type_.fields}
    if extra := [name for name in names if name not in known]:
        raise InvalidArgument(
            f"struct {path!r} has no field {extra[0]!r}", hint="leave the field out, or add it to the schema first"
        )
    present = array.is_valid() if array.null_count else None
    children = []
    for column in type_.fields:
        inner = f"{path}.{column.name}"
        if column.name in names:
            child = _conform(array.field(names.index(column.name)), column, inner)
        else:
            child = _absent(column, inner, len(array))
        _check_nulls(child, present, column, inner)
        children.append(child)
    return rebuild_struct(array, children, type_to_arrow(type_))


def _check_nulls(array: pa.Array, parent_present: pa.Array | None, column: NestedField, path: str) -> None:
    if column.optional or not array.null_count:
        return
    nulls = array.is_null()
    if parent_present is not None:
        nulls = pc.and_(nulls, parent_present)
    if nulls.true_count:
        row = pc.index(nulls, pa.scalar(True)).as_py()
        raise InvalidValue(
            f"column {path!r} is required and has {nulls.true_count} nulls, the first at position {row} of its batch",
            hint="fill the nulls, or make the column optional",
            column=path,
        )


_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)


def _is(kind: pa.DataType, tests: Iterable[Callable[[pa.DataType], bool]]) -> bool:
    return any(test(kind) for test in tests)


def may_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one Arrow type can mean values of the other; single values may still not fit."""
    if pa.types.is_integer(target) or pa.types.is_floating(target):
        return bool(pa.types.is_integer(source) or pa.types.is_floating(source))
    if pa.types.is_decimal(target):
        return bool(pa.types.is_integer(source) or pa.types.is_decimal(source))
    if pa.types.is_string(target):
        return _is(source, _TEXTS)
    if pa.types.is_binary(target) or pa.types.is_fixed_size_binary(target):
        return _is(source, _BYTES)
    if pa.types.is_timestamp(target):
        if pa.types.is_timestamp(source):
            return target.tz is not None or source.tz is None  # without a zone: taken as UTC; the zone is never dropped
        return bool(pa.types.is_date(source))
    if pa.types.is_date(target):
        return bool(pa.types.is_date(source))
    if pa.types.is_time(target):
        return bool(pa.types.is_time(source))
    return bool(source == target)


def _cast(array: pa.Array, type_: Type, arrow: pa.DataType, path: str) -> pa.Array:
    try:
        if isinstance(type_, UuidType):
            if _is(array.type, _TEXTS):
                values = [None if text is None else uuid.UUID(text).bytes for text in array.to_pylist()]
                array = pa.array(values, arrow.storage_type)
            elif not _is(array.type, _BYTES):
                raise _unfit(array.type, type_, path)
            return pa.ExtensionArray.from_storage(arrow, array.cast(arrow.storage_type))
        if not may_cast(array.type, arrow):
            raise _unfit(array.type, type_, path)
        if pa.types.is_timestamp(arrow) and pa.types.is_date(array.type):
            array = array.cast(pa.timestamp(arrow.unit))
        if pa.types.is_decimal(arrow) and pa.types.is_integer(array.type):
            array = array.cast(pa.decimal128(20, 0))
        result = array.cast(arrow)
        if pa.types.is_float32(arrow) and pa.types.is_float64(array.type):
            _check_same(array, result, type_)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InvalidValue(
            f"column {path!r}: {array.type} does not fit {type_}: {error}",
            hint="cast the values yourself, or widen the column's type",
            column=path,
        ) from error
    return result


def _check_same(array: pa.Array, narrowed: pa.Array, type_: Type) -> None:
    """Arrow rounds doubles to floats without a word."""
    back = narrowed.cast(pa.float64())
    same = pc.or_(pc.equal(back, array), pc.and_(pc.is_nan(back), pc.is_nan(array)))
    if same.false_count:
        value = array[pc.index(same, pa.scalar(False)).as_py()].as_py()
        raise ValueError(f"{value} is not exactly a {type_}")


def _unfit(source: pa.DataType, type_: Type, path: str) -> InvalidArgument:
    return InvalidArgument(
        f"column {path!r} is given as {source}, the table has {type_}", hint="cast it before writing", column=path
    )
