"""Rows on their way from Spark to its workers, and batches of them in the layout that tables are written from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from frazil.model.arrow import rebuild_list, rebuild_map, rebuild_struct
from frazil.model.schema import Schema
from frazil.model.types import GeographyType, GeometryType, ListType, MapType, StructType, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def by_places(rows: DataFrame) -> DataFrame:
    """Rows whose columns are named by their places: PySpark finds columns by their names, which may be any."""
    from pyspark.sql.types import NullType, StructField
    from pyspark.sql.types import StructType as SparkStruct

    names = [f"c{place}" for place in range(len(rows._jdf.columns()))]
    named = rows.toDF(*names)
    # it has no classes for some types that Spark has; this is where its cached property keeps the schema
    named.__dict__["schema"] = SparkStruct([StructField(name, NullType()) for name in names])
    return named


def from_spark(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """A batch of a schema's columns, in their order, with their names and with geometries as bytes."""
    arrays = batch.columns
    if any(isinstance(column.type, GeometryType | GeographyType) for column in schema.all_fields()):
        arrays = [_plain(array, column.type) for array, column in zip(arrays, schema.fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(schema.columns)) if arrays else batch


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
