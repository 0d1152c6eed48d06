"""Pending changes of a schema, by field id, and the schema they give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from frazil.errors import ColumnNotFound, InvalidEvolution, InvalidSchema
from frazil.model.column_path import Path, find_path, fold, path_text
from frazil.model.schema import Schema
from frazil.model.types import ListType, MapType, NestedField, StructType, UnknownType, children

MoveKind = Literal["first", "after", "before"]


class SchemaChanges(NamedTuple):
    """What changed, for those who must follow: the name mapping, and properties that name columns."""

    added: Mapping[int | None, tuple[NestedField, ...]]
    """New fields by the id of the field that holds them; None is the table."""
    renamed: Mapping[int, str]
    """The new name (not path) of each renamed field id."""
    moved_names: Mapping[str, str]
    """Old to new dotted name, of renamed columns and all that is inside them."""
    dropped_names: tuple[str, ...]
    """Dotted names of dropped columns and all that was inside them."""


@dataclass(frozen=True, slots=True)
class Move:
    """A column that goes to the front of its struct, or beside another one."""

    number: int
    kind: MoveKind
    reference: int | None = None


@dataclass(frozen=True, slots=True)
class PendingChanges:
    """Changes not yet applied. A holder is the id of the field that holds others; None is the table."""

    dropped: frozenset[int] = frozenset()
    updated: Mapping[int, NestedField] = field(default_factory=dict)
    """New and changed fields. Of a changed struct, list or map this has the old inside."""
    added: Mapping[int | None, tuple[int, ...]] = field(default_factory=dict)
    holder_of: Mapping[int, int | None] = field(default_factory=dict)
    """The holder of each added field."""
    new_names: Mapping[tuple[int | None, str], int] = field(default_factory=dict)
    """Ids of added and renamed fields by holder and (folded) new name."""
    moves: Mapping[int | None, tuple[Move, ...]] = field(default_factory=dict)
    identifiers: tuple[Path, ...] | None = None


def apply_changes(schema: Schema, pending: PendingChanges, case_sensitive: bool) -> tuple[Schema, SchemaChanges]:
    """The changed schema, under its old `schema_id`; an InvalidEvolution if the changes do not fit together."""
    try:
        bare = Schema(_arrange(schema, pending, None, schema.fields), schema.schema_id)
        after = replace(bare, identifier_field_ids=_identifier_ids(schema, bare, pending, case_sensitive))
    except InvalidSchema as error:
        raise InvalidEvolution(error.message, hint=error.hint) from error
    _check_new_collisions(schema, after, case_sensitive)
    return after, _describe(schema, after, pending)


def _arrange(
    schema: Schema, pending: PendingChanges, holder: int | None, fields: tuple[NestedField, ...]
) -> tuple[NestedField, ...]:
    """The fields of a struct after all changes: the old ones, then the new ones, then the moves."""
    by_id = {column.id: _rebuild(schema, pending, column) for column in fields if column.id not in pending.dropped}
    by_id |= {number: pending.updated[number] for number in pending.added.get(holder, ())}
    order = list(by_id)
    for move in pending.moves.get(holder, ()):
        for number in {move.number, move.reference} - {None}:
            if number not in by_id:
                name = schema.name_of(number or 0)
                raise InvalidEvolution(f"column {name!r} is dropped and part of a move", hint="do only one of both")
        order.remove(move.number)
        order.insert(0 if move.reference is None else order.index(move.reference) + (move.kind == "after"), move.number)
    return tuple(by_id[number] for number in order)


def _rebuild(schema: Schema, pending: PendingChanges, column: NestedField) -> NestedField:
    column = pending.updated.get(column.id, column)
    type_ = column.type
    if isinstance(type_, StructType):
        return replace(column, type=StructType(_arrange(schema, pending, column.id, type_.fields)))
    if isinstance(type_, ListType):
        return replace(column, type=ListType(_rebuild(schema, pending, type_.element)))
    if isinstance(type_, MapType):
        return replace(column, type=MapType(type_.key, _rebuild(schema, pending, type_.value)))
    return column


def _identifier_ids(before: Schema, after: Schema, pending: PendingChanges, case_sensitive: bool) -> tuple[int, ...]:
    if pending.identifiers is None:
        for number in before.identifier_field_ids:
            if number not in after.field_ids:
                raise InvalidEvolution(
                    f"identifier column {before.name_of(number)!r} cannot be dropped, nor what holds it",
                    hint="set other identifier fields in the same change",
                )
        return before.identifier_field_ids
    found: dict[int, None] = {}
    for path in pending.identifiers:
        # names as they are after the change come first; an old name is understood where nothing new has taken it
        column = find_path(after, path, case_sensitive) or find_path(before, path, case_sensitive)
        if column is None or column.id not in after.field_ids:
            raise ColumnNotFound(
                f"no column {path_text(path)!r} to identify rows by", hint=f"one of {', '.join(after.columns)}"
            )
        found[column.id] = None
    return tuple(found)


def _check_new_collisions(before: Schema, after: Schema, case_sensitive: bool) -> None:
    """Refuse two columns with one dotted name (a column `a.b`, and a field `b` of `a`) unless they had it before."""
    known = set(_same_named(before, case_sensitive))
    for group in _same_named(after, case_sensitive):
        if group not in known:
            names = " and ".join(f"{after.name_of(number)!r} (id {number})" for number in sorted(group))
            raise InvalidEvolution(f"columns would have the same name: {names}", hint="use another name")


def _same_named(schema: Schema, case_sensitive: bool) -> Iterator[frozenset[int]]:
    groups: dict[str, set[int]] = {}
    for number in schema.field_ids:
        groups.setdefault(fold(str(schema.name_of(number)), case_sensitive), set()).add(number)
    return (frozenset(group) for group in groups.values() if len(group) > 1)


def _describe(before: Schema, after: Schema, pending: PendingChanges) -> SchemaChanges:
    added = {holder: tuple(pending.updated[number] for number in numbers) for holder, numbers in pending.added.items()}
    renamed: dict[int, str] = {}
    for number, column in pending.updated.items():
        old = before.field_by_id(number)
        if old is None:
            continue
        if old.name != column.name:
            renamed[number] = column.name
        if isinstance(old.type, UnknownType) and column.type.is_nested:
            added[number] = children(column.type)
    names = {number: str(before.name_of(number)) for number in sorted(before.field_ids)}
    kept = {number: str(after.name_of(number)) for number in names if number in after.field_ids}
    return SchemaChanges(
        added,
        renamed,
        {names[number]: new for number, new in kept.items() if names[number] != new},
        tuple(old for number, old in names.items() if number not in kept),
    )
