"""The columns a scan reads, which may be more than it returns: those of the filter, of equality keys, of lineage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import MalformedMetadata
from frazil.iceberg.metadata import TableMetadata
from frazil.model.schema import Schema
from frazil.model.types import NestedField, StructType


def schema_with(metadata: TableMetadata, field_ids: Sequence[int]) -> Schema:
    """A schema of just those fields (and the structs around them), from whichever schema still has them."""
    result = Schema(())
    for number in field_ids:
        result = merge(result, _single(metadata, number))
    return result


def _single(metadata: TableMetadata, number: int) -> Schema:
    newest_first = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    for schema in (metadata.current_schema, *newest_first):
        name = schema.name_of(number)
        if name is not None:
            return schema.select([name])
    raise MalformedMetadata(f"no schema has a field {number}", hint="an equality delete names a column that never was")


def merge(left: Schema, right: Schema) -> Schema:
    """Both schemas' fields, structs merged by field id; what both have is as the left has it."""

    def fields(mine: tuple[NestedField, ...], theirs: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
        by_id = {column.id: column for column in theirs}
        names = {column.name for column in mine}
        merged = []
        for column in mine:
            other = by_id.pop(column.id, None)
            if other is not None and isinstance(column.type, StructType) and isinstance(other.type, StructType):
                column = replace(column, type=StructType(fields(column.type.fields, other.type.fields)))
            merged.append(column)
        # a dropped column's name may be in use again: columns go by id, any free name will do
        merged.extend(
            replace(column, name=f"{column.name}#{column.id}") if column.name in names else column
            for column in by_id.values()
        )
        return tuple(merged)

    return Schema(fields(left.fields, right.fields), left.schema_id)


def leaf(batch: pa.RecordBatch, schema: Schema, field_id: int) -> pa.Array:
    """The values of a field at any depth of structs, in its storage type; null where a struct around it is null."""
    path = schema.path_ids(field_id)
    index = next(i for i, column in enumerate(schema.fields) if column.id == path[0])
    array, type_ = batch.column(index), schema.fields[index].type
    for number in path[1:]:
        position = next(i for i, column in enumerate(type_.fields) if column.id == number)  # type: ignore[attr-defined]
        array = pc.struct_field(array, [position])
        type_ = type_.fields[position].type  # type: ignore[attr-defined]
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def prune(array: pa.Array, have: NestedField, want: NestedField) -> pa.Array:
    """A column as asked for: without the struct fields that were read for other reasons."""
    if have.type == want.type or not isinstance(have.type, StructType) or not isinstance(want.type, StructType):
        return array
    positions = {column.id: index for index, column in enumerate(have.type.fields)}
    arrays = [
        prune(array.field(positions[column.id]), have.type.fields[positions[column.id]], column)
        for column in want.type.fields
    ]
    fields = [array.type.field(positions[column.id]).with_name(column.name) for column in want.type.fields]
    typed = [field.with_type(child.type) for field, child in zip(fields, arrays, strict=True)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=typed, mask=mask)
