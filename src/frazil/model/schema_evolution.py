"""Schema evolution: a list of changes, checked as they are made, that gives a new schema with stable field ids.

An evolution is immutable: each method returns a new one. Names are those of the schema it began with, or names
that it has given since. A path is dotted text; a tuple of names where a name itself has a dot.

>>> from frazil.model.types import DoubleType, IntegerType, LongType, StringType
>>> before = Schema((NestedField(1, "id", IntegerType(), required=True), NestedField(2, "name", StringType())))
>>> changed = SchemaEvolution(before, last_column_id=2, format_version=2).update_column("id", LongType())
>>> after = changed.add_column("score", DoubleType(), position=Position.after("id")).drop_column("name").apply()
>>> print(after.schema, after.last_column_id)
table {
  1: id: required long
  3: score: optional double
} 3
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from frazil.errors import ColumnNotFound, InvalidEvolution, InvalidSchema
from frazil.model.column_path import Path, fields_below, find_path, fold, named, path_text, split_last
from frazil.model.default_values import canonical_default, check_new_type
from frazil.model.fresh_ids import number_type
from frazil.model.promotion import can_promote, check_promotion, promote_value
from frazil.model.schema import Schema
from frazil.model.schema_changes import Move, MoveKind, PendingChanges, SchemaChanges, apply_changes
from frazil.model.transforms import Transform
from frazil.model.types import ListType, MapType, NestedField, StructType, Type, UnknownType, children, parse_type


class Unchanged(Enum):
    """The argument was not given: None means something else."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class Position:
    """Where a column goes in its struct: first, or beside a sibling (named without its path)."""

    kind: MoveKind
    sibling: str = ""

    @classmethod
    def first(cls) -> Position:
        return cls("first")

    @classmethod
    def after(cls, sibling: str) -> Position:
        return cls("after", sibling)

    @classmethod
    def before(cls, sibling: str) -> Position:
        return cls("before", sibling)


class EvolvedSchema(NamedTuple):
    """What `SchemaEvolution.apply` gives. The schema still has its old `schema_id`."""

    schema: Schema
    last_column_id: int
    changes: SchemaChanges


@dataclass(frozen=True, slots=True)
class SchemaEvolution:
    """Changes to a schema, by the rules of the format version."""

    schema: Schema
    last_column_id: int
    format_version: int
    partition_sources: Mapping[int, Sequence[Transform]] = field(default_factory=dict)
    """The transforms of the partition fields made from a column id, in any spec still in use."""
    protected: Mapping[int, str] = field(default_factory=dict)
    """Column ids that must not be dropped, and why: "a source of partition field 'day'"."""
    case_sensitive: bool = True
    allow_incompatible: bool = False
    """Allow required columns without a default, and optional columns to become required."""
    _pending: PendingChanges = field(default_factory=PendingChanges, repr=False)

    def __post_init__(self) -> None:
        if self.last_column_id < self.schema.highest_field_id:
            raise InvalidSchema(
                f"last column id {self.last_column_id} is below field id {self.schema.highest_field_id}",
                hint="the metadata is damaged",
            )

    # changes

    def add_column(
        self,
        path: Path,
        type_: Type | str,
        doc: str | None = None,
        *,
        required: bool = False,
        default: Any = None,
        position: Position | None = None,
    ) -> SchemaEvolution:
        """Add a column, or a field to a struct (also in a list or map value), last unless `position` says otherwise."""
        parent, name = split_last(path)
        holder = self._struct_holder(parent) if parent else None
        result, number = self._add(holder, name, _as_type(type_), doc, required=required, default=default)
        return result if position is None else result._place(number, position)

    def drop_column(self, path: Path) -> SchemaEvolution:
        """Drop a column and all that is inside it. Its id is never used again."""
        number = self._resolve(path)
        name = self._check_changeable(number, own_name=True)
        if number in self._pending.holder_of:
            raise InvalidEvolution(f"column {name!r} is added in this very change", hint="do not add it")
        touched = {*self._pending.updated, *(holder for holder in self._pending.added if holder is not None)}
        if any(number in self.schema.path_ids(other) for other in touched):
            raise InvalidEvolution(f"column {name!r} has other changes and cannot be dropped", hint="only drop it")
        for other, reason in self.protected.items():
            if number in self.schema.path_ids(other):
                raise InvalidEvolution(
                    f"column {name!r} cannot be dropped: {self._name(other)!r} is {reason}", hint="change that first"
                )
        return self._with(dropped=self._pending.dropped | {number})

    def rename_column(self, path: Path, new_name: str) -> SchemaEvolution:
        """Give a column another name (one name, not a path). It keeps its id and its place."""
        number = self._resolve(path)
        self._check_changeable(number, own_name=True)
        if not new_name:
            raise InvalidEvolution(f"column {self._name(number)!r} cannot have an empty name", hint="name it")
        names = {key: known for key, known in self._pending.new_names.items() if known != number}
        names[self._holder(number), self._fold(new_name)] = number
        return self._update(number, name=new_name)._with(new_names=names)

    def update_column(
        self,
        path: Path,
        type_: Type | str | None = None,
        *,
        doc: str | Unchanged | None = UNCHANGED,
        default: Any = UNCHANGED,
    ) -> SchemaEvolution:
        """Promote the type, replace the documentation, or set the default of rows written from now on."""
        number = self._resolve(path)
        self._check_changeable(number, own_name=not (doc is UNCHANGED and default is UNCHANGED))
        result = self if type_ is None else self._promote(number, _as_type(type_))
        if not isinstance(doc, Unchanged):
            result = result._update(number, doc=doc)
        return result if default is UNCHANGED else result._set_write_default(number, default)

    def unset_default(self, path: Path) -> SchemaEvolution:
        """Rows written from now on default to null; rows from before the column keep its initial default."""
        return self.update_column(path, default=None)

    def make_optional(self, path: Path) -> SchemaEvolution:
        """Let a column, list element or map value be null."""
        number = self._resolve(path)
        self._check_changeable(number)
        return self._update(number, required=False)

    def require_column(self, path: Path) -> SchemaEvolution:
        """Forbid nulls: only for a column added in this change with a default, or with `allow_incompatible`."""
        number = self._resolve(path)
        name = self._check_changeable(number)
        column = self._current(number)
        defaulted = number in self._pending.holder_of and column.initial_default is not None
        if not (column.required or defaulted or self.allow_incompatible):
            raise InvalidEvolution(
                f"column {name!r} is optional and cannot become required: old rows may hold nulls",
                hint="allow incompatible changes if you know that there are none",
            )
        return self._update(number, required=True)

    def move_first(self, path: Path) -> SchemaEvolution:
        """Make a column the first of its struct."""
        return self._move(self._resolve(path), "first", None)

    def move_after(self, path: Path, reference: Path) -> SchemaEvolution:
        """Put a column after another one (a full path) of the same struct."""
        return self._move(self._resolve(path), "after", self._resolve(reference))

    def move_before(self, path: Path, reference: Path) -> SchemaEvolution:
        """Put a column before another one (a full path) of the same struct."""
        return self._move(self._resolve(path), "before", self._resolve(reference))

    def set_identifier_fields(self, names: Iterable[Path]) -> SchemaEvolution:
        """Replace the columns that identify a row, by the names they have after this change."""
        return self._with(identifiers=tuple(names))

    def union_by_name(self, other: Schema) -> SchemaEvolution:
        """Take in what `other` has and this schema lacks: columns, wider types, nulls. Nothing narrows or goes away."""
        return self._union(None, self.schema.fields, other.fields)

    def apply(self) -> EvolvedSchema:
        """The new schema and last column id; an InvalidEvolution if the changes do not fit together."""
        schema, changes = apply_changes(self.schema, self._pending, self.case_sensitive)
        return EvolvedSchema(schema, self.last_column_id, changes)

    # finding columns

    def _resolve(self, path: Path) -> int:
        """The id of a column that stays, by its name before the change or the name given to it since."""
        known = find_path(self.schema, path, self.case_sensitive)
        if known is not None and not self._is_dropped(known.id):
            return known.id
        for parts in (path,) if isinstance(path, tuple) else ((path,), tuple(path.split("."))):
            holder: int | None = None
            for part in parts:
                holder = self._child(holder, part)
                if holder is None:
                    break
            if holder is not None:
                return holder
        if known is not None:
            raise InvalidEvolution(
                f"column {path_text(path)!r} is dropped in this very change", hint="do only one of both"
            )
        return self.schema.find(path_text(path), case_sensitive=self.case_sensitive).id

    def _child(self, holder: int | None, name: str) -> int | None:
        column = None if holder is None else self.schema.field_by_id(holder)
        if holder is not None and column is None:
            return None  # inside a column that this change adds
        known = named(fields_below(self.schema, column, name), name, self.case_sensitive)
        if known is not None and not self._is_dropped(known.id):
            return known.id
        if column is not None and isinstance(column.type, ListType | MapType):
            holder = children(column.type)[-1].id
        return self._pending.new_names.get((holder, self._fold(name)))

    def _struct_holder(self, path: Path) -> int:
        """The id of the struct that a field is added to: the column, its list element, or its map value."""
        try:
            number = self._resolve(path)
        except ColumnNotFound as error:
            hint = f'{error.hint} A name with a dot is written as a tuple: ("a.b",)'
            raise ColumnNotFound(f"no column {path_text(path)!r} to add a field to", hint=hint) from error
        if number in self._pending.holder_of:
            raise InvalidEvolution(
                f"column {path_text(path)!r} is added in this very change", hint="give all its fields in its type"
            )
        column = self._current(number)
        inner = children(column.type)[-1] if isinstance(column.type, ListType | MapType) else column
        if not isinstance(inner.type, StructType):
            raise InvalidEvolution(
                f"column {path_text(path)!r} of type {column.type} cannot have fields", hint="add them to a struct"
            )
        self._check_changeable(inner.id)
        return inner.id

    def _current(self, number: int) -> NestedField:
        column = self._pending.updated.get(number) or self.schema.field_by_id(number)
        assert column is not None, number
        return column

    def _holder(self, number: int) -> int | None:
        if number in self._pending.holder_of:
            return self._pending.holder_of[number]
        return self.schema.parent_id(number)

    def _name(self, number: int) -> str:
        if number in self._pending.holder_of:
            holder, own = self._pending.holder_of[number], self._current(number).name
            return own if holder is None else f"{self.schema.name_of(holder)}.{own}"
        return self.schema.name_of(number) or f"field {number}"

    def _is_dropped(self, number: int) -> bool:
        return not self._pending.dropped.isdisjoint(self.schema.path_ids(number))

    def _fold(self, name: str) -> str:
        return fold(name, self.case_sensitive)

    def _check_changeable(self, number: int, *, own_name: bool = False) -> str:
        """Refuse to touch map keys; with `own_name`, also the list elements and map values that only have a type."""
        name = self._name(number)
        holder: int | None = number
        while holder is not None:
            inner, holder = holder, self._holder(holder)
            outer = None if holder is None else self._current(holder).type
            if isinstance(outer, MapType) and outer.key.id == inner:
                raise InvalidEvolution(
                    f"{name!r} belongs to the keys of a map: they cannot change", hint="add a column"
                )
            if own_name and inner == number and isinstance(outer, ListType | MapType):
                raise InvalidEvolution(
                    f"{name!r} is the element or value of a {type(outer).__name__[:-4].lower()}: only its type and "
                    "whether it is optional can change",
                    hint="change the column that holds it",
                )
        return name

    # keeping changes

    def _with(self, **pending: Any) -> SchemaEvolution:
        return replace(self, _pending=replace(self._pending, **pending))

    def _update(self, number: int, **changes: Any) -> SchemaEvolution:
        before = self._current(number)
        after = replace(before, **changes)
        return self if before == after else self._with(updated={**self._pending.updated, number: after})

    def _add(
        self,
        holder: int | None,
        name: str,
        type_: Type,
        doc: str | None,
        *,
        required: bool = False,
        default: Any = None,
    ) -> tuple[SchemaEvolution, int]:
        full_name = name if holder is None else f"{self.schema.name_of(holder)}.{name}"
        if not name:
            raise InvalidEvolution("a column cannot have an empty name", hint="name it")
        if self._child(holder, name) is not None:
            raise InvalidEvolution(f"column {full_name!r} exists already", hint="rename it in an earlier change")
        if required and default is None and not self.allow_incompatible:
            raise InvalidEvolution(
                f"column {full_name!r} cannot be added as required without a default: old rows have no value for it",
                hint="give it a default (format version 3), or add it as optional",
            )
        number = self.last_column_id + 1
        numbered, last = self._new_type(full_name, type_, number)
        value = canonical_default(full_name, numbered, default, self.format_version)
        column = NestedField(number, name, numbered, required, doc, value, value)
        pending = self._pending
        result = replace(self, last_column_id=last)._with(
            updated={**pending.updated, number: column},
            added={**pending.added, holder: (*pending.added.get(holder, ()), number)},
            holder_of={**pending.holder_of, number: holder},
            new_names={**pending.new_names, (holder, self._fold(name)): number},
        )
        return result, number

    def _new_type(self, name: str, type_: Type, last: int) -> tuple[Type, int]:
        """The type with fresh ids after `last`, and the last id it took."""
        counter = itertools.count(last + 1)
        numbered = number_type(type_, lambda _: next(counter))
        return check_new_type(name, numbered, self.format_version), next(counter) - 1

    def _set_write_default(self, number: int, default: Any) -> SchemaEvolution:
        column, name = self._current(number), self._name(number)
        new = number in self._pending.holder_of
        if default is None and new and column.required and not self.allow_incompatible:
            raise InvalidEvolution(f"new required column {name!r} must keep a default", hint="add it as optional")
        value = canonical_default(name, column.type, default, self.format_version)
        # not `_update`, to which 0.0 and -0.0 are the same
        return self._with(updated={**self._pending.updated, number: replace(column, write_default=value)})

    def _promote(self, number: int, target: Type) -> SchemaEvolution:
        column, name = self._current(number), self._name(number)
        check_promotion(name, column.type, target, self.format_version, self.partition_sources.get(number, ()))
        if column.type == target:
            return self
        numbered, last = self._new_type(name, target, self.last_column_id)
        changes = {
            "initial_default": promote_value(column.type, target, column.initial_default),
            "write_default": promote_value(column.type, target, column.write_default),
        }
        return replace(self, last_column_id=last)._update(number, type=numbered, **changes)

    def _place(self, number: int, position: Position) -> SchemaEvolution:
        holder = self._holder(number)
        reference = None if position.kind == "first" else self._child(holder, position.sibling)
        if reference is None and position.kind != "first":
            raise ColumnNotFound(
                f"no column {position.sibling!r} beside {self._name(number)!r}", hint="name one of the same struct"
            )
        return self._move(number, position.kind, reference)

    def _move(self, number: int, kind: MoveKind, reference: int | None) -> SchemaEvolution:
        name = self._check_changeable(number, own_name=True)
        holder = self._holder(number)
        if reference is not None:
            if reference == number:
                raise InvalidEvolution(f"column {name!r} cannot move {kind} itself", hint="name another column")
            if self._holder(reference) != holder:
                raise InvalidEvolution(
                    f"column {name!r} cannot move {kind} {self._name(reference)!r}, which is in another struct",
                    hint="columns move within their struct only",
                )
        moves = (*self._pending.moves.get(holder, ()), Move(number, kind, reference))
        return self._with(moves={**self._pending.moves, holder: moves})

    def _union(
        self, holder: int | None, ours: tuple[NestedField, ...], theirs: tuple[NestedField, ...]
    ) -> SchemaEvolution:
        result = self
        kept = [column for column in ours if not self._is_dropped(column.id)]
        for other in theirs:
            column = named(kept, other.name, self.case_sensitive)
            if column is not None:
                result = result._union_field(column, other, described=True)
                continue
            if holder is not None:
                result._check_changeable(holder)
            # never required: rows from before have no value, even if the other schema says that its rows do
            result, number = result._add(holder, other.name, other.type, other.doc, default=other.initial_default)
            if other.write_default != other.initial_default:
                result = result._set_write_default(number, other.write_default)
        return result

    def _union_field(self, ours: NestedField, theirs: NestedField, *, described: bool = False) -> SchemaEvolution:
        column, result = self._current(ours.id), self
        if column.required and theirs.optional:
            self._check_changeable(column.id)
            result = result._update(column.id, required=False)
        if isinstance(column.type, StructType) and isinstance(theirs.type, StructType):
            result = result._union(column.id, column.type.fields, theirs.type.fields)
        elif isinstance(column.type, ListType) and isinstance(theirs.type, ListType):
            result = result._union_field(column.type.element, theirs.type.element)
        elif isinstance(column.type, MapType) and isinstance(theirs.type, MapType):
            result = result._union_field(column.type.key, theirs.type.key)
            result = result._union_field(column.type.value, theirs.type.value)
        elif not self._holds(column.type, theirs.type):
            self._check_changeable(column.id)
            result = result._promote(column.id, theirs.type)
        if described and theirs.doc is not None:
            result = result._update(column.id, doc=theirs.doc)
        if described and theirs.write_default is not None:
            default = promote_value(theirs.type, result._current(column.id).type, theirs.write_default)
            result = result._set_write_default(column.id, default)
        return result

    def _holds(self, ours: Type, theirs: Type) -> bool:
        return isinstance(theirs, UnknownType) or can_promote(theirs, ours, self.format_version)


def _as_type(type_: Type | str) -> Type:
    return parse_type(type_) if isinstance(type_, str) else type_
