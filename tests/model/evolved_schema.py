"""The schema that tests of evolution change, and short words to write fields with."""

from __future__ import annotations

from frazil.model.schema import Schema
from frazil.model.schema_evolution import SchemaEvolution
from frazil.model.types import (
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    Type,
    list_of,
    map_of,
)

INT, LONG, TEXT = IntegerType(), LongType(), StringType()


def optional(number: int, name: str, type_: Type) -> NestedField:
    return NestedField(number, name, type_)


def required(number: int, name: str, type_: Type) -> NestedField:
    return NestedField(number, name, type_, required=True)


POINT = StructType((required(10, "x", FloatType()), optional(11, "y", FloatType())))
SCHEMA = Schema(
    (
        required(1, "id", INT),
        optional(2, "name", TEXT),
        optional(3, "place", StructType((required(6, "lat", FloatType()), required(7, "long", FloatType())))),
        optional(4, "points", list_of(8, POINT)),
        optional(
            5, "tags", map_of(9, StructType((required(12, "k", TEXT),)), 13, StructType((optional(14, "v", INT),)))
        ),
    ),
    identifier_field_ids=(1,),
)


def evolve(schema: Schema = SCHEMA, version: int = 2, **options: object) -> SchemaEvolution:
    return SchemaEvolution(schema, max(20, schema.highest_field_id), version, **options)  # type: ignore[arg-type]


def named(evolution: SchemaEvolution, name: str) -> NestedField:
    return evolution.apply().schema.find(name)
