"""Columns of a data file by field id: what the table's schema asks for, made from what the file has.

Names and order in the file mean nothing. A field whose id the file lacks comes, in this order, from the partition
(`constants`), from the name mapping (only for files without ids), from its initial default, or is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from frazil.errors import FrazilError, MalformedData
from frazil.io.promote import promote
from frazil.model.arrow import (
    constant_array,
    field_id_of,
    is_arrow_list,
    rebuild_list,
    rebuild_map,
    rebuild_struct,
    schema_to_arrow,
    type_to_arrow,
)
from frazil.model.name_mapping import NameMapping
from frazil.model.schema import Schema
from frazil.model.shredded import assemble
from frazil.model.types import ListType, MapType, NestedField, StructType, Type, UnknownType, VariantType, children

_ORC_ID_KEY = b"iceberg.id"


@dataclass(frozen=True, slots=True)
class FileField:
    """A field of a file: its id if it has one, whether a name mapping gave it, and what is inside."""

    id: int | None
    name: str
    type: pa.DataType
    mapped: bool
    fields: tuple[FileField, ...]

    @property
    def leaves(self) -> int:
        """How many physical columns the field has."""
        return sum(field.leaves for field in self.fields) if self.fields else 1

    def walk(self) -> Iterator[FileField]:
        """The field and all fields inside it."""
        yield self
        for field in self.fields:
            yield from field.walk()


def file_fields(location: str, arrow: pa.Schema, name_mapping: NameMapping | None = None) -> tuple[FileField, ...]:
    """The fields of a file. When no field has an id, the name mapping gives them; without one the file is refused."""
    fields = tuple(_file_field(field) for field in arrow)
    if any(inner.id is not None for field in fields for inner in field.walk()) or not fields:
        return fields
    if name_mapping is None:
        raise MalformedData(
            f"{location} has no field ids, and the table has no name mapping",
            hint="set the table property schema.name-mapping.default to map its column names to field ids",
            location=location,
        )
    return tuple(_with_mapping(field, name_mapping) for field in fields)


def _file_field(field: pa.Field) -> FileField:
    kind = field.type
    number = field_id_of(field)
    if number is None and field.metadata and _ORC_ID_KEY in field.metadata:
        text = field.metadata[_ORC_ID_KEY]
        number = int(text) if text.isdigit() else None
    inner: Sequence[pa.Field] = ()
    if pa.types.is_struct(kind):
        inner = list(kind)
    elif pa.types.is_map(kind):
        inner = (kind.key_field.with_name("key"), kind.item_field.with_name("value"))
    elif is_arrow_list(kind):
        # files name it `item`, `array`, ...: the specification's name is the one mappings have
        inner = (kind.value_field.with_name("element"),)
    return FileField(number, field.name, kind, False, tuple(_file_field(child) for child in inner))


def _with_mapping(field: FileField, mapping: NameMapping) -> FileField:
    found = mapping.find(field.name)
    inner = found.fields if found is not None else NameMapping()
    return FileField(
        None if found is None else found.field_id,
        field.name,
        field.type,
        True,
        tuple(_with_mapping(child, inner) for child in field.fields),
    )


@dataclass(frozen=True, slots=True)
class Resolver:
    """Makes batches of `schema` from batches of one file."""

    location: str
    schema: Schema
    fields: tuple[FileField, ...]
    constants: Mapping[int, Any]

    @property
    def columns(self) -> list[int]:
        """Which top-level columns of the file are needed."""
        return [index for index, field in enumerate(self.fields) if self._wanted(field)]

    @property
    def hidden(self) -> frozenset[int]:
        """Ids that the file has, by a name mapping, but whose values come from the partition."""
        inside = (field for top in self.fields for field in top.walk())
        return frozenset(field.id for field in inside if field.id is not None and self._is_constant(field))

    @property
    def leaves(self) -> list[int]:
        """Which physical (Parquet) columns of the file are needed."""
        result: list[int] = []
        first = 0
        for field in self.fields:
            if (column := self._wanted(field)) is not None:
                result += _leaves(field, column.type, first)
            first += field.leaves
        return result

    def batch(self, source: pa.RecordBatch, fields: Sequence[FileField]) -> pa.RecordBatch:
        """Resolve one batch, whose columns are `fields` (all of the file's, or fewer, perhaps pruned inside)."""
        where = {field.id: index for index, field in enumerate(fields) if self._wanted(field)}
        arrays = []
        for column in self.schema.fields:
            index = where.get(column.id)
            if index is None:
                arrays.append(self._missing(column, source.num_rows))
            else:
                arrays.append(self._array(source.column(index), fields[index], column))
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * source.num_rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=schema_to_arrow(self.schema))

    def empty_source(self, rows: int) -> pa.RecordBatch:
        """Rows for which nothing is read from the file."""
        return self.batch(pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["nothing"]), ())

    def _wanted(self, field: FileField) -> NestedField | None:
        column = next((column for column in self.schema.fields if column.id == field.id), None)
        return None if column is None or self._is_constant(field) or isinstance(column.type, UnknownType) else column

    def _is_constant(self, field: FileField) -> bool:
        return field.mapped and field.id in self.constants

    def _missing(self, column: NestedField, rows: int) -> pa.Array:
        if column.id in self.constants:
            return constant_array(column.type, self.constants[column.id], rows)
        return constant_array(column.type, self._default(column), rows)

    def _default(self, column: NestedField) -> Any:
        value = column.initial_default
        if value is None and column.required:
            raise MalformedData(
                f"required column {self.schema.name_of(column.id)!r} (id {column.id}) is missing in {self.location}",
                hint="the file was not written for this table, or its name mapping leaves the column out",
                location=self.location,
            )
        if value is None or not isinstance(column.type, StructType):
            return value
        return {inner.id: value.get(inner.id, self._default(inner)) for inner in column.type.fields}

    def _array(self, array: pa.Array, source: FileField, column: NestedField) -> pa.Array:
        try:
            return self._convert(array, source, column.type)
        except FrazilError as error:
            raise _located(error, self.location, self.schema.name_of(column.id) or column.name) from error
        except (pa.ArrowException, ValueError, OverflowError) as error:
            name = self.schema.name_of(column.id) or column.name
            raise MalformedData(
                f"column {name!r} in {self.location} cannot be read as {column.type}: {error}",
                hint="the file does not fit the table's schema",
                location=self.location,
            ) from error

    def _convert(self, array: pa.Array, source: FileField, type_: Type) -> pa.Array:
        if isinstance(type_, UnknownType):
            return pa.nulls(len(array))
        if isinstance(type_, VariantType):
            return assemble(array)
        if not isinstance(type_, StructType | ListType | MapType):
            return promote(array, type_)
        arrow = type_to_arrow(type_)
        if isinstance(type_, StructType):
            if not pa.types.is_struct(array.type):
                raise _shape(array, type_)
            return rebuild_struct(array, [self._child(array, source, inner) for inner in type_.fields], arrow)
        if isinstance(type_, ListType):
            if not is_arrow_list(array.type) or len(source.fields) != 1:
                raise _shape(array, type_)
            if not pa.types.is_list(array.type):
                array = array.cast(pa.list_(array.type.value_field))
            self._check_inner(source.fields[0], type_.element)
            return rebuild_list(array, self._array(array.values, source.fields[0], type_.element), arrow)
        if not pa.types.is_map(array.type) or len(source.fields) != 2:
            raise _shape(array, type_)
        for inner, target in zip(source.fields, type_.fields, strict=True):
            self._check_inner(inner, target)
        keys = self._array(array.keys, source.fields[0], type_.key)
        return rebuild_map(array, keys, self._array(array.items, source.fields[1], type_.value), arrow)

    def _child(self, array: pa.StructArray, source: FileField, column: NestedField) -> pa.Array:
        for index, field in enumerate(source.fields):
            if field.id == column.id and not self._is_constant(field):
                return self._array(array.field(index), field, column)
        return self._missing(column, len(array))

    def _check_inner(self, source: FileField, column: NestedField) -> None:
        if source.id is not None and source.id != column.id:
            raise MalformedData(
                f"field id {source.id} stands where {column.id} was expected",
                hint="the file was written for another table",
            )


def _shape(array: pa.Array, type_: Type) -> MalformedData:
    return MalformedData(f"the file has {array.type} where {type_} was expected", hint="the file is of another table")


def _located(error: FrazilError, location: str, name: str) -> FrazilError:
    """The error with the column's name and the file, once."""
    if "location" in error.context:
        return error
    return MalformedData(
        f"column {name!r} in {location}: {error.message}", hint=error.hint, **{**error.context, "location": location}
    )


def _leaves(source: FileField, type_: Type, first: int) -> list[int]:
    """The physical columns that a field of the file needs to give `type_`, counting from `first`."""
    every = list(range(first, first + source.leaves))
    if not source.fields or isinstance(type_, VariantType):
        return every
    result: list[int] = []
    if isinstance(type_, StructType):
        wanted = {column.id: column.type for column in type_.fields}
        for field in source.fields:
            if field.id in wanted and not isinstance(wanted[field.id], UnknownType):
                result += _leaves(field, wanted[field.id], first)
            first += field.leaves
        # one leaf at least, to know which structs are null
        return result or every[:1]
    if len(source.fields) != len(children(type_)):
        return every
    for field, column in zip(source.fields, children(type_), strict=True):
        result += _leaves(field, column.type, first)
        first += field.leaves
    return result
