"""Arrays in the exact Arrow type of a metadata table's column: field ids, names and extension types included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from frazil.model.arrow import array_from_canonical, rebuild_list, rebuild_map, rebuild_struct, schema_to_arrow
from frazil.model.schema import Schema


def typed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The same values as that type, which has the same shape; nothing is copied but what must be converted."""
    if array.type.equals(type_, check_metadata=True):
        return array
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, typed(array, type_.storage_type))
    if pa.types.is_struct(type_):
        children = [typed(array.field(index), field.type) for index, field in enumerate(type_)]
        return rebuild_struct(array, children, type_)
    if pa.types.is_map(type_):
        return rebuild_map(array, typed(array.keys, type_.key_type), typed(array.items, type_.item_type), type_)
    if pa.types.is_list(type_):
        return rebuild_list(array, typed(array.values, type_.value_type), type_)
    return array.cast(type_)


def struct_of(columns: Mapping[str, pa.Array], type_: pa.StructType) -> pa.StructArray:
    """A struct without nulls from its columns by name."""
    return pa.StructArray.from_arrays([typed(columns[field.name], field.type) for field in type_], fields=list(type_))


def batch_of(columns: Mapping[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a metadata table from its columns by name."""
    return pa.RecordBatch.from_arrays([typed(columns[field.name], field.type) for field in schema], schema=schema)


def table_of_rows(schema: Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """A table from rows of canonical values."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema.fields)
    arrays = [array_from_canonical(field.type, values) for field, values in zip(schema.fields, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema_to_arrow(schema))
