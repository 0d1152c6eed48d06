"""How the columns of a table stand in its files, as far as Spark's own reader is concerned.

Spark resolves the columns of a relation by field id, but pushes filters down, and looks up types, by name. So a column
of the relation bears the name it has in the files, or one that no file has if the name ever meant another column, and
gets its present name above the relation. Filters on floating numbers must not be pushed down at all: files may leave
NaN out of their statistics, which Spark takes for the greatest number, and in a dictionary -0.0 is not 0.0.

>>> from frazil.model.arrow import schema_from_anything
>>> relation_schema(schema_from_anything("id BIGINT, u UUID"), []).fields[1].type
FixedType(length=16)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import field_in_any_schema
from frazil.iceberg.properties import DEFAULT_NAME_MAPPING
from frazil.model.partition import PartitionSpec, unified_partition_type
from frazil.model.schema import Schema
from frazil.model.transforms import IdentityTransform
from frazil.model.types import (
    BinaryType,
    DateType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNsType,
    TimestamptzNsType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
    children,
    walk,
)
from frazil.spark.types import NEWEST, Dialect

_UUID_BYTES = FixedType(16)
_TOP = 0
"""Stands for the schema itself where a struct's id is asked for."""


def obstacle(metadata: TableMetadata, schema: Schema, dialect: Dialect = NEWEST) -> str | None:
    """Why Spark's reader cannot read this table's files, or None."""
    if metadata.property_reader.get(DEFAULT_NAME_MAPPING) is not None:
        return "files may have no field ids (the table has a name mapping)"
    stored = {type(field.type) for known in metadata.schemas for field in known.all_fields()}
    if stored & {VariantType, GeometryType, GeographyType} and not dialect.v3_types_in_files:
        return "files may have variants or shapes, and the Parquet library of this Spark reads no file with any"
    dates = {field.id for known in metadata.schemas for field in known.all_fields() if isinstance(field.type, DateType)}
    top = {field.id for field in schema.fields}
    for field in schema.all_fields():
        name = schema.name_of(field.id)
        if isinstance(field.type, TimestampNsType | TimestamptzNsType | GeometryType | GeographyType):
            return f"column {name!r} has type {field.type}"
        if field.id in dates and not isinstance(field.type, DateType):
            return f"column {name!r} was a date"
        if field.initial_default is not None and not (field.id in top and _default_is_told(field.type)):
            return f"column {name!r} has an initial default"
        if isinstance(field.type, StructType) and all(isinstance(part.type, UnknownType) for part in field.type.fields):
            return f"column {name!r} has no stored field"
    return None


def _default_is_told(type_: Type) -> bool:
    """Whether Spark's reader fills in a default of that type where a file lacks the column."""
    return type_.is_primitive and not isinstance(type_, BinaryType | FixedType | UuidType | TimeType)


# Names


def relation_schema(schema: Schema, history: Iterable[Schema], weights: Mapping[int, int] | None = None) -> Schema:
    """The columns as a relation has them. `history` are all schemas files were written with.

    `weights` tells how many rows were written with each schema: of several names a column had, the one most rows
    have under it is taken. Uuids are 16 bytes, columns of type unknown are in no file and left out.
    """
    schemas = [*history, schema]
    users: dict[tuple[int, str], set[int]] = defaultdict(set)
    rows: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for known in schemas:
        for parent, field in _struct_fields(known):
            users[parent, field.name.lower()].add(field.id)
            rows[field.id][field.name] += (weights or {}).get(known.schema_id, 0)

    def name(parent: int, field: NestedField) -> str:
        best = field.name
        if parent == _TOP and isinstance(field.type, FloatType | DoubleType):
            return made(parent, field)
        if parent == _TOP:
            best = max(rows[field.id], key=lambda known: (rows[field.id][known], known == field.name))
        for candidate in (best, field.name, *rows[field.id]):
            if len(users[parent, candidate.lower()]) == 1:
                return candidate
        return made(parent, field)

    def made(parent: int, field: NestedField) -> str:
        free = f"{field.name}#{field.id}"
        while (parent, free.lower()) in users:
            free += "#"
        return free

    def stored(field: NestedField, parent: int) -> NestedField:
        named = replace(field, name=name(parent, field), type=inside(field.type, field.id), doc=None)
        return named if field.initial_default is not None else without_defaults(named)

    def inside(type_: Type, number: int) -> Type:
        if isinstance(type_, UuidType):
            return _UUID_BYTES
        if isinstance(type_, StructType):
            return StructType(
                tuple(stored(part, number) for part in type_.fields if not isinstance(part.type, UnknownType))
            )
        if isinstance(type_, ListType):
            return replace(type_, element=replace(type_.element, type=inside(type_.element.type, type_.element.id)))
        if isinstance(type_, MapType):
            key, value = type_.key, type_.value
            return MapType(
                replace(key, type=inside(key.type, key.id)), replace(value, type=inside(value.type, value.id))
            )
        return type_

    fields = (stored(field, _TOP) for field in schema.fields if not isinstance(field.type, UnknownType))
    return Schema(tuple(fields), schema.schema_id)


def without_defaults(field: NestedField) -> NestedField:
    """The field, whose defaults are of no concern to who reads files that all have it."""

    def inside(type_: Type) -> Type:
        if isinstance(type_, StructType):
            return StructType(tuple(without_defaults(part) for part in type_.fields))
        if isinstance(type_, ListType):
            return replace(type_, element=without_defaults(type_.element))
        if isinstance(type_, MapType):
            return replace(type_, key=without_defaults(type_.key), value=without_defaults(type_.value))
        return type_

    return replace(field, type=inside(field.type), initial_default=None, write_default=None, doc=None)


def _struct_fields(schema: Schema) -> Iterator[tuple[int, NestedField]]:
    """Every field of a struct, with the id of what holds the struct."""
    for field in schema.fields:
        yield _TOP, field
        for outer in (field, *walk(field.type)):
            if isinstance(outer.type, StructType):
                for part in outer.type.fields:
                    yield outer.id, part


def rows_by_schema(metadata: TableMetadata) -> dict[int, int]:
    """How many rows the snapshots that are left added, by the schema they were written with."""
    counted: dict[int, int] = defaultdict(int)
    for snapshot in metadata.snapshots:
        added = snapshot.summary.get("added-records", "0")
        if snapshot.schema_id is not None and added.isdigit():
            counted[snapshot.schema_id] += int(added)
    return counted


def has_nested_floats(schema: Schema) -> bool:
    """Whether a floating number is in a struct, where no other name keeps filters from being pushed down."""
    return any(
        isinstance(part.type, FloatType | DoubleType)
        for field in schema.all_fields()
        if isinstance(field.type, StructType)
        for part in field.type.fields
    )


# Equality deletes


def key_fields(metadata: TableMetadata, equality_ids: Iterable[int]) -> dict[int, NestedField] | None:
    """The columns that equality deletes compare, from any schema; None if Spark's reader cannot compare one."""
    top = {field.id for schema in metadata.schemas for field in schema.fields}
    found = {number: field_in_any_schema(metadata, number) for number in sorted(equality_ids)}
    fields = {number: field for number, field in found.items() if field is not None and _is_comparable(field)}
    return fields if len(fields) == len(found) and all(number in top for number in fields) else None


def stored_key(field: NestedField) -> NestedField:
    """A key column as files have it, with what it is in those that have it not."""
    type_ = _UUID_BYTES if isinstance(field.type, UuidType) else field.type
    return replace(field, type=type_, required=False, write_default=None, doc=None)


def _is_comparable(field: NestedField) -> bool:
    if field.initial_default is not None and not _default_is_told(field.type):
        return False
    return field.type.is_primitive and not isinstance(field.type, UnknownType | FloatType | DoubleType)


# Values


def as_told(column: str, stored: Type, wanted: Type) -> str | None:
    """SQL that makes a value of the table's type from a relation's column, or None if it is that already."""
    return None if _same(stored, wanted) else _sql(quoted_name(column), stored, wanted, 0)


def quoted_name(name: str) -> str:
    """A name in Spark's SQL."""
    return f"`{name.replace('`', '``')}`"


def _same(stored: Type, wanted: Type) -> bool:
    if isinstance(wanted, UnknownType | UuidType):
        return False
    have, want = children(stored), children(wanted)
    return len(have) == len(want) and all(
        left.name == right.name and _same(left.type, right.type) for left, right in zip(have, want, strict=True)
    )


def _sql(value: str, stored: Type, wanted: Type, depth: int) -> str:
    if isinstance(wanted, UuidType):
        return f"lower(regexp_replace(hex({value}), '(.{{8}})(.{{4}})(.{{4}})(.{{4}})(.{{12}})', '$1-$2-$3-$4-$5'))"
    if isinstance(stored, VariantType) or _same(stored, wanted):
        return value
    item, other = f"x{depth}", f"y{depth}"
    if isinstance(wanted, StructType):
        by_id = {part.id: part for part in children(stored)}
        parts = []
        for part in wanted.fields:
            have = by_id.get(part.id)
            inner = "NULL" if have is None else _sql(f"{value}.{quoted_name(have.name)}", have.type, part.type, depth)
            name = part.name.replace("\\", "\\\\").replace("'", "\\'")
            parts.append(f"'{name}', {inner}")
        return f"if({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
    if isinstance(wanted, ListType) and isinstance(stored, ListType):
        inner = _sql(item, stored.element.type, wanted.element.type, depth + 1)
        return f"transform({value}, {item} -> {inner})"
    if isinstance(wanted, MapType) and isinstance(stored, MapType):
        values = _sql(other, stored.value.type, wanted.value.type, depth + 1)
        result = f"transform_values({value}, ({item}, {other}) -> {values})"
        if _same(stored.key.type, wanted.key.type):
            return result
        keys = _sql(item, stored.key.type, wanted.key.type, depth + 1)
        return f"transform_keys({result}, ({item}, {other}) -> {keys})"
    return value


# Partitions


def identity_columns(spec: PartitionSpec, schema: Schema) -> tuple[int, ...]:
    """The top-level columns whose value is the same in all rows of a file of that spec, and known."""
    top = {field.id for field in schema.fields}
    return tuple(
        sorted(
            {
                part.source_id
                for part in spec.fields
                if isinstance(part.transform, IdentityTransform) and part.source_id in top
            }
        )
    )


def partition_struct(metadata: TableMetadata) -> StructType:
    """The type of `_partition`: the fields of all specs."""

    def source_type(field_id: int) -> Type | None:
        found = field_in_any_schema(metadata, field_id)
        return None if found is None else found.type

    return unified_partition_type(source_type, metadata.partition_specs)
