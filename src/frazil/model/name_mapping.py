"""Name mappings (`schema.name-mapping.default`): field ids for columns of files that carry none.

>>> mapping = NameMapping.from_json('[{"field-id": 1, "names": ["id", "record_id"]}]')
>>> mapping.find("record_id").field_id
1
>>> mapping.find("name") is None
True
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from frazil.errors import MalformedMetadata
from frazil.model.schema import Schema
from frazil.model.types import MAX_TYPE_DEPTH, NestedField, children


@dataclass(frozen=True, slots=True)
class MappedField:
    """Names that stand for one field, and the mappings of the fields inside it."""

    names: tuple[str, ...]
    field_id: int | None
    fields: NameMapping


@dataclass(frozen=True, slots=True)
class NameMapping:
    """The mapped fields of one level."""

    fields: tuple[MappedField, ...] = ()

    def find(self, name: str) -> MappedField | None:
        """The field that bears the (literal, undotted) name, or None."""
        return next((field for field in self.fields if name in field.names), None)

    @classmethod
    def from_json(cls, document: str | Sequence[Any]) -> NameMapping:
        """Read the table property's text, or its parsed form."""
        try:
            return _level(json.loads(document) if isinstance(document, str) else document, 0)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise MalformedMetadata(
                f"the name mapping cannot be read: {error!r}", hint="check the property schema.name-mapping.default"
            ) from error

    def to_json(self) -> str:
        """The text for the table property."""
        return json.dumps(_to_tree(self), separators=(",", ":"))

    @classmethod
    def of_schema(cls, schema: Schema) -> NameMapping:
        """A mapping of every field by its current name."""
        return _of_fields(schema.fields)

    def updated(self, old: Schema, new: Schema) -> NameMapping:
        """The mapping after the table's schema changed: a renamed field keeps its old names, new fields get theirs.

        A name belongs to one field of a level: whoever gets it now takes it from the others. Dropped fields stay.
        """
        return _updated(self, new.fields, old, new)


def _level(document: Any, depth: int) -> NameMapping:
    if depth > MAX_TYPE_DEPTH or not isinstance(document, list):
        raise TypeError("a list of mapped fields was expected")
    fields = []
    for entry in document:
        number = entry.get("field-id")
        names = tuple(str(name) for name in entry["names"])
        fields.append(
            MappedField(names, None if number is None else int(number), _level(entry.get("fields", []), depth + 1))
        )
    names_used = [name for field in fields for name in field.names]
    if len(set(names_used)) != len(names_used):
        raise ValueError("two fields of one level have a name in common")
    return NameMapping(tuple(fields))


def _updated(mapping: NameMapping, fields: Sequence[NestedField], old: Schema, new: Schema) -> NameMapping:
    now = {field.id: field for field in fields}
    renamed = {number: field for number, field in now.items() if _was_renamed(field, old)}
    added = [field for field in fields if field.id not in old.field_ids]
    owner = {field.name: field.id for field in (*renamed.values(), *added)}
    result = []
    for entry in mapping.fields:
        names = [name for name in entry.names if owner.get(name, entry.field_id) == entry.field_id]
        field = now.get(entry.field_id) if entry.field_id is not None else None
        if field is not None and field.id in renamed and field.name not in names:
            names.append(field.name)
        inner = entry.fields if field is None else _updated(entry.fields, children(field.type), old, new)
        result.append(MappedField(tuple(names), entry.field_id, inner))
    return NameMapping((*result, *_of_fields(added).fields))


def _was_renamed(field: NestedField, old: Schema) -> bool:
    before = old.field_by_id(field.id)
    return before is not None and before.name != field.name


def _to_tree(mapping: NameMapping) -> list[dict[str, Any]]:
    tree = []
    for field in mapping.fields:
        entry: dict[str, Any] = {} if field.field_id is None else {"field-id": field.field_id}
        entry["names"] = list(field.names)
        if field.fields.fields:
            entry["fields"] = _to_tree(field.fields)
        tree.append(entry)
    return tree


def _of_fields(fields: Sequence[NestedField]) -> NameMapping:
    return NameMapping(
        tuple(MappedField((field.name,), field.id, _of_fields(children(field.type))) for field in fields)
    )
