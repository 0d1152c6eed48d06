"""Arrow batches as Spark gives them, in the layout that tables are written from."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from frazil.model.arrow import rebuild_list, rebuild_map, rebuild_struct
from frazil.model.schema import Schema
from frazil.model.types import GeographyType, GeometryType, ListType, MapType, StructType, Type


def from_spark(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The batch with geometries as bytes; everything else is as it should be."""
    if not any(isinstance(column.type, GeometryType | GeographyType) for column in schema.all_fields()):
        return batch
    types = {column.name: column.type for column in schema.fields}
    arrays = [_plain(array, types[name]) for name, array in zip(batch.schema.names, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _plain(array: pa.Array, type_: Type) -> pa.Array:
    if isinstance(type_, GeometryType | GeographyType) and pa.types.is_struct(array.type):
        return pc.struct_field(array, "wkb")
    if isinstance(type_, StructType):
        parts = [_plain(array.field(number), field.type) for number, field in enumerate(type_.fields)]
        fields = [pa.field(field.name, part.type) for field, part in zip(type_.fields, parts, strict=True)]
        return rebuild_struct(array, parts, pa.struct(fields))
    if isinstance(type_, ListType):
        values = _plain(array.values, type_.element.type)
        return rebuild_list(array, values, pa.list_(values.type))
    if isinstance(type_, MapType):
        keys, items = _plain(array.keys, type_.key.type), _plain(array.items, type_.value.type)
        return rebuild_map(array, keys, items, pa.map_(keys.type, items.type))
    return array
