"""Schemas: fields with ids, looked up by id or by dotted name, and their JSON.

>>> schema = Schema((NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType())))
>>> schema.find("name").id
2
>>> Schema.from_json(schema.to_json()) == schema
True
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from frazil.errors import ColumnNotFound, InvalidSchema
from frazil.model.types import (
    MAX_FIELD_ID,
    MAX_TYPE_DEPTH,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
    UnknownType,
    VariantType,
    children,
    list_of,
    map_of,
    parse_type,
    walk,
)
from frazil.model.values import from_json as value_from_json
from frazil.model.values import to_json as value_to_json


@dataclass(frozen=True, slots=True)
class _Index:
    """What is looked up often, worked out once per schema."""

    by_id: dict[int, NestedField]
    name_of: dict[int, str]
    id_of: dict[str, int]
    parent_of: dict[int, int]


@dataclass(frozen=True)
class Schema:
    """The columns of a table. Equal schemas have equal fields and identifiers, whatever their `schema_id`."""

    fields: tuple[NestedField, ...]
    schema_id: int = field(default=0, compare=False)
    identifier_field_ids: tuple[int, ...] = ()
    _index: _Index = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = _build_index(self.fields)
        object.__setattr__(self, "_index", index)
        for identifier in self.identifier_field_ids:
            _check_identifier(index, identifier)

    @property
    def as_struct(self) -> StructType:
        return StructType(self.fields)

    @property
    def highest_field_id(self) -> int:
        return max(self._index.by_id, default=0)

    @property
    def columns(self) -> list[str]:
        """The names of the top-level columns."""
        return [column.name for column in self.fields]

    @property
    def field_ids(self) -> frozenset[int]:
        """The ids of all fields, nested ones included."""
        return frozenset(self._index.by_id)

    def find(self, name: str, *, case_sensitive: bool = True) -> NestedField:
        """The field of that (dotted) name; a ColumnNotFound with the nearest names otherwise."""
        found = self.find_or_none(name, case_sensitive=case_sensitive)
        if found is None:
            near = [known for known in self._index.id_of if known.lower() == str(name).lower()]
            near = near or difflib.get_close_matches(str(name), self._index.id_of, n=3)
            if near:
                raise ColumnNotFound(f"no column {name!r}", hint=f"did you mean {' or '.join(map(repr, near))}?")
            listed = ", ".join(map(repr, list(self.columns)[:12])) or "none"
            raise ColumnNotFound(f"no column {name!r}", hint=f"the columns are {listed}")
        return found

    def find_or_none(self, name: str, *, case_sensitive: bool = True) -> NestedField | None:
        """The field of that (dotted) name, or None."""
        names = self._index.id_of
        if name in names:
            return self._index.by_id[names[name]]
        if case_sensitive:
            return None
        matches = {number for known, number in names.items() if known.lower() == name.lower()}
        if len(matches) > 1:
            raise ColumnNotFound(f"{name!r} fits several columns", hint="write it with its exact case")
        return self._index.by_id[matches.pop()] if matches else None

    def field_by_id(self, field_id: int) -> NestedField | None:
        """The field of that id, at any depth, or None."""
        return self._index.by_id.get(field_id)

    def name_of(self, field_id: int) -> str | None:
        """The dotted name of a field id, or None."""
        return self._index.name_of.get(field_id)

    def names(self) -> Mapping[str, int]:
        """Every dotted name and its id."""
        return self._index.id_of

    def parent_id(self, field_id: int) -> int | None:
        """The id of the field that holds this one, or None at the top."""
        return self._index.parent_of.get(field_id)

    def path_ids(self, field_id: int) -> tuple[int, ...]:
        """The ids from the top-level column down to the field."""
        path = [field_id]
        while (parent := self.parent_id(path[-1])) is not None:
            path.append(parent)
        return tuple(reversed(path))

    def all_fields(self) -> Iterator[NestedField]:
        """All fields, outer before inner."""
        return walk(self.as_struct)

    def select(self, names: Iterable[str], *, case_sensitive: bool = True) -> Schema:
        """The schema of some columns, in the order asked; `a.b` keeps only that part of struct `a`."""
        wanted: dict[int, None] = {}
        for name in names:
            wanted[self.find(name, case_sensitive=case_sensitive).id] = None
        top: dict[int, None] = {}
        for number in wanted:
            top[self.path_ids(number)[0]] = None
        picked = tuple(_prune(self._index.by_id[number], set(wanted)) for number in top)
        return Schema(tuple(part for part in picked if part is not None), self.schema_id)

    def with_id(self, schema_id: int) -> Schema:
        """The same schema under another id."""
        return replace(self, schema_id=schema_id)

    def check_version(self, format_version: int) -> None:
        """Refuse types and defaults that the format version does not have."""
        for column in self.all_fields():
            if column.type.added_in > format_version:
                raise InvalidSchema(
                    f"column {self.name_of(column.id)!r} has type {column.type}, which needs format version "
                    f"{column.type.added_in}; this table has {format_version}",
                    hint="create the table with format_version=3, or upgrade it",
                )
            if format_version < 3 and column.initial_default is not None:
                raise InvalidSchema(
                    f"column {self.name_of(column.id)!r} has a default, which needs format version 3",
                    hint="upgrade the table, or add the column without a default",
                )

    def to_json(self) -> dict[str, Any]:
        """The specification's JSON object (Appendix C)."""
        result: dict[str, Any] = {"type": "struct", "schema-id": self.schema_id}
        if self.identifier_field_ids:
            result["identifier-field-ids"] = list(self.identifier_field_ids)
        result["fields"] = [field_to_json(column) for column in self.fields]
        return result

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Schema:
        """Read the specification's JSON object."""
        struct = type_from_json({**document, "type": "struct"})
        assert isinstance(struct, StructType)
        schema_id, identifiers = document.get("schema-id", 0), document.get("identifier-field-ids") or ()
        if not isinstance(schema_id, int) or not all(isinstance(number, int) for number in identifiers):
            raise InvalidSchema("schema-id and identifier-field-ids must be integers", hint="the metadata is damaged")
        return cls(struct.fields, schema_id, tuple(identifiers))

    def __str__(self) -> str:
        return "table {\n" + "".join(f"  {column}\n" for column in self.fields) + "}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{column.id}</td><td>{escape(column.name)}</td><td>{escape(str(column.type))}</td>"
            f"<td>{'required' if column.required else ''}</td><td>{escape(column.doc or '')}</td></tr>"
            for column in self.fields
        )
        return f"<table><tr><th>id</th><th>name</th><th>type</th><th></th><th>doc</th></tr>{rows}</table>"


def _build_index(fields: tuple[NestedField, ...]) -> _Index:
    index = _Index({}, {}, {}, {})

    def visit(column: NestedField, prefix: str, parent: int | None, depth: int) -> None:
        if depth > MAX_TYPE_DEPTH:
            raise InvalidSchema(f"types nest deeper than {MAX_TYPE_DEPTH}", hint="flatten the schema")
        _check_field(column)
        if column.id in index.by_id:
            raise InvalidSchema(f"field id {column.id} is used twice", hint="every field needs an id of its own")
        name = f"{prefix}{column.name}"
        index.by_id[column.id] = column
        index.name_of[column.id] = name
        # `a.b` could name both a column and a field of `a`: the first one keeps it
        index.id_of.setdefault(name, column.id)
        if parent is not None:
            index.parent_of[column.id] = parent
        for child in children(column.type):
            visit(child, f"{name}.", column.id, depth + 1)

    StructType(fields)  # refuses names used twice
    for column in fields:
        visit(column, "", None, 1)
    # Iceberg also finds fields inside a list or map of structs without the word `element` or `value`
    for number, name in list(index.name_of.items()):
        short = _short_name(index, number)
        if short != name:
            index.id_of.setdefault(short, number)
    return index


def _short_name(index: _Index, number: int) -> str:
    parts = [index.by_id[number].name]
    while (parent := index.parent_of.get(number)) is not None:
        grandparent = index.parent_of.get(parent)
        holder = index.by_id[grandparent].type if grandparent is not None else None
        skipped = isinstance(holder, ListType) or (isinstance(holder, MapType) and holder.value.id == parent)
        if not (skipped and isinstance(index.by_id[parent].type, StructType)):
            parts.append(index.by_id[parent].name)
        number = parent
    return ".".join(reversed(parts))


def _check_field(column: NestedField) -> None:
    if not column.name:
        raise InvalidSchema(f"field {column.id} has an empty name", hint="name every field")
    is_metadata_column = column.id in RESERVED_IDS
    if not is_metadata_column and not 0 <= column.id <= MAX_FIELD_ID:
        raise InvalidSchema(
            f"field id {column.id} of {column.name!r} is outside 0..{MAX_FIELD_ID}", hint="higher ids are reserved"
        )
    if isinstance(column.type, UnknownType) and column.required:
        raise InvalidSchema(
            f"column {column.name!r} of type unknown is required", hint="unknown columns are always null"
        )
    has_default = column.initial_default is not None or column.write_default is not None
    if has_default and isinstance(column.type, UnknownType | VariantType | GeometryType | GeographyType):
        raise InvalidSchema(
            f"column {column.name!r} of type {column.type} has a default", hint="it must default to null"
        )


def _check_identifier(index: _Index, number: int) -> None:
    column = index.by_id.get(number)
    if column is None:
        raise InvalidSchema(f"identifier field {number} is not in the schema", hint="add the column first")
    name = index.name_of[number]
    if not column.type.is_primitive or isinstance(column.type, FloatType | DoubleType):
        raise InvalidSchema(f"{name!r} of type {column.type} cannot identify rows", hint="use a non-floating primitive")
    holder: int | None = number
    while holder is not None:
        outer = index.by_id[holder]
        if not outer.required:
            raise InvalidSchema(
                f"{index.name_of[holder]!r} is optional: {name!r} cannot identify rows", hint="require it"
            )
        if holder != number and not isinstance(outer.type, StructType):
            raise InvalidSchema(
                f"{name!r} lies in a list or map and cannot identify rows", hint="use a top-level column"
            )
        holder = index.parent_of.get(holder)


def _prune(column: NestedField, wanted: set[int]) -> NestedField | None:
    if column.id in wanted or not column.type.is_nested:
        return column if column.id in wanted else None
    parts = [_prune(child, wanted) for child in children(column.type)]
    kept = tuple(part for part in parts if part is not None)
    if not kept:
        return None
    if isinstance(column.type, StructType):
        return replace(column, type=StructType(kept))
    if isinstance(column.type, ListType):
        return replace(column, type=ListType(kept[0]))
    assert isinstance(column.type, MapType)
    return replace(column, type=MapType(column.type.key, parts[1] or column.type.value))


def field_to_json(column: NestedField) -> dict[str, Any]:
    """One field as JSON."""
    result: dict[str, Any] = {
        "id": column.id,
        "name": column.name,
        "required": column.required,
        "type": type_to_json(column.type),
    }
    if column.doc is not None:
        result["doc"] = column.doc
    if column.initial_default is not None:
        result["initial-default"] = value_to_json(column.type, column.initial_default)
    if column.write_default is not None:
        result["write-default"] = value_to_json(column.type, column.write_default)
    return result


def type_to_json(type_: Type) -> str | dict[str, Any]:
    """A type as JSON: text for primitives, an object for nested types."""
    if isinstance(type_, StructType):
        return {"type": "struct", "fields": [field_to_json(column) for column in type_.fields]}
    if isinstance(type_, ListType):
        return {
            "type": "list",
            "element-id": type_.element.id,
            "element": type_to_json(type_.element.type),
            "element-required": type_.element.required,
        }
    if isinstance(type_, MapType):
        return {
            "type": "map",
            "key-id": type_.key.id,
            "key": type_to_json(type_.key.type),
            "value-id": type_.value.id,
            "value": type_to_json(type_.value.type),
            "value-required": type_.value.required,
        }
    return str(type_)


def type_from_json(document: Any, depth: int = 0) -> Type:
    """A type from JSON; anything malformed is an InvalidSchema."""
    if depth > MAX_TYPE_DEPTH:
        raise InvalidSchema(f"types nest deeper than {MAX_TYPE_DEPTH}", hint="the metadata is damaged or hostile")
    if isinstance(document, str):
        return parse_type(document)
    try:
        kind = document["type"]
        if kind == "struct":
            return StructType(tuple(_field_from_json(column, depth + 1) for column in document["fields"]))
        if kind == "list":
            element = type_from_json(document["element"], depth + 1)
            return list_of(int(document["element-id"]), element, required=bool(document["element-required"]))
        if kind == "map":
            return map_of(
                int(document["key-id"]),
                type_from_json(document["key"], depth + 1),
                int(document["value-id"]),
                type_from_json(document["value"], depth + 1),
                required=bool(document["value-required"]),
            )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidSchema(f"malformed type in schema: {error!r}", hint="the metadata is damaged") from error
    raise InvalidSchema(f"unknown type {kind!r}", hint="the metadata is newer than this library, or damaged")


def _field_from_json(document: Mapping[str, Any], depth: int) -> NestedField:
    type_ = type_from_json(document["type"], depth)
    initial, write = document.get("initial-default"), document.get("write-default")
    return NestedField(
        int(document["id"]),
        str(document["name"]),
        type_,
        bool(document["required"]),
        document.get("doc"),
        None if initial is None else value_from_json(type_, initial),
        None if write is None else value_from_json(type_, write),
    )


# Metadata columns: reserved ids that a scan can be asked for by name.
FILE = NestedField(2147483646, "_file", StringType(), required=True, doc="Path of the file that holds the row")
POS = NestedField(2147483645, "_pos", LongType(), required=True, doc="Position of the row in its file, from 0")
DELETED_ID = 2147483644
SPEC_ID_ID = 2147483643
PARTITION_ID = 2147483642
DELETE_FILE_PATH = NestedField(2147483546, "file_path", StringType(), required=True)
DELETE_POS = NestedField(2147483545, "pos", LongType(), required=True)
DELETE_ROW_ID = 2147483544
ROW_ID = NestedField(2147483540, "_row_id", LongType(), doc="Id of the row for its whole life")
LAST_UPDATED_SEQUENCE_NUMBER = NestedField(
    2147483539, "_last_updated_sequence_number", LongType(), doc="Sequence number of the commit that last wrote the row"
)
RESERVED_IDS = frozenset(
    {
        *(DELETED_ID, SPEC_ID_ID, PARTITION_ID, DELETE_ROW_ID),
        *(column.id for column in (FILE, POS, DELETE_FILE_PATH, DELETE_POS, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)),
        # of the changelog, and of the table `position_deletes`
        *(2147483543, 2147483542, 2147483541, 2147483641, 2147483640),
    }
)
