"""Evolution of partition specs: add, remove and rename fields, with the ids the specification wants.

>>> from frazil.model.partition import parse_partition_by
>>> from frazil.model.types import LongType, NestedField
>>> schema = Schema((NestedField(1, "id", LongType()),))
>>> first = parse_partition_by(schema, ["bucket(4, id)"])
>>> second, last = evolve_spec(schema, [first], first, 1000, 2, adds=["bucket(8, id)"], removes=["id_bucket"])
>>> str(second), last
('[1001: id_bucket_8: bucket[8](1)]', 1001)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from frazil.errors import InvalidEvolution, InvalidSchema
from frazil.model.partition import (
    FIRST_FIELD_ID,
    PartitionField,
    PartitionSpec,
    check_source,
    default_name,
)
from frazil.model.schema import Schema
from frazil.model.terms import parse_term
from frazil.model.transforms import TimeTransform, Transform, VoidTransform


def evolve_spec(
    schema: Schema,
    specs: Sequence[PartitionSpec],
    base_spec: PartitionSpec,
    last_partition_id: int,
    format_version: int,
    adds: Iterable[str] = (),
    removes: Iterable[str] = (),
    renames: Mapping[str, str] | None = None,
) -> tuple[PartitionSpec, int]:
    """The spec after removing, renaming, then adding fields, and the last partition field id then.

    `adds` are terms (`days(ts)`, `bucket(16, id) AS shard`), `removes` are names or terms. An existing spec is returned
    when it already says the same. A v1 table keeps the place of a removed field, as a `void`.
    """
    if base_spec.has_unknown_transform:
        raise InvalidEvolution(
            f"spec {base_spec.spec_id} has a transform this library does not know", hint="use a newer version of it"
        )
    change = _Change(schema, specs, base_spec, last_partition_id, format_version)
    for text in removes:
        change.remove(text)
    for old, new in (renames or {}).items():
        change.rename(old, new)
    for text in adds:
        change.add(text)
    fields = change.result()
    try:
        spec = PartitionSpec(max((each.spec_id for each in specs), default=-1) + 1, fields)
    except InvalidSchema as error:
        raise InvalidEvolution(error.message, hint=error.hint) from error
    for existing in specs:
        if existing.compatible_with(spec):
            return existing, last_partition_id
    spec.check(schema)
    _check_names(schema, spec)
    if format_version < 2 and any(f.field_id != FIRST_FIELD_ID + at for at, f in enumerate(spec.fields)):
        raise InvalidEvolution("a v1 table needs partition field ids 1000, 1001, ...", hint="upgrade the table to v2")
    return spec, max(last_partition_id, spec.last_field_id)


@dataclass(frozen=True, slots=True)
class _Key:
    source_id: int
    transform: Transform


class _Change:
    """What is being done to a spec; fields of the base spec are known by their ids."""

    def __init__(
        self, schema: Schema, specs: Sequence[PartitionSpec], base: PartitionSpec, last_id: int, version: int
    ) -> None:
        self.schema = schema
        self.specs = specs
        self.base = base
        self.last_id = last_id
        self.version = version
        self.removed: set[int] = set()
        self.names = {field.field_id: field.name for field in base.fields}
        self.added: dict[_Key, PartitionField] = {}

    def remove(self, text: str) -> None:
        self.removed.add(self._find(text, "remove").field_id)

    def rename(self, old: str, new: str) -> None:
        field = self._find(old, "rename", by_term=False)
        if field.field_id in self.removed:
            raise InvalidEvolution(f"partition field {old!r} is both removed and renamed", hint="do one of both")
        self._free(new)
        self.names[field.field_id] = new

    def add(self, text: str) -> None:
        term = parse_term(text)
        source = self.schema.find(term.column)
        check_source(self.schema, source.id, term.transform)
        key = _Key(source.id, term.transform)
        present = next((f for f in self.base.fields if _Key(f.source_id, f.transform) == key), None)
        if present is not None and present.field_id in self.removed:
            # removed and added back: nothing happens but, maybe, a new name
            self.removed.discard(present.field_id)
            self.names[present.field_id] = term.alias or present.name
            return
        if present is not None or key in self.added:
            raise InvalidEvolution(f"{text!r} is a partition field already", hint="remove it first, or leave it")
        self._check_redundant(text, key)
        earlier = self._earlier(key, term.alias)
        if earlier is None:
            column = self.schema.name_of(source.id) or term.column
            name = term.alias or default_name(term.transform, column, with_size=True)
            self.last_id += 1
            earlier = PartitionField((source.id,), self.last_id, name, term.transform)
        self._free(earlier.name)
        self.added[key] = earlier

    def result(self) -> tuple[PartitionField, ...]:
        kept = []
        for field in self.base.fields:
            name = self.names[field.field_id]
            if field.field_id not in self.removed:
                kept.append(replace(field, name=name))
            elif self.version < 2:
                kept.append(replace(field, name=name, transform=VoidTransform()))
        return (*kept, *self.added.values())

    def _find(self, text: str, what: str, *, by_term: bool = True) -> PartitionField:
        field = self.base.field_by_name(text)
        if field is None and by_term:
            term = parse_term(text)
            source = self.schema.find_or_none(term.column)
            key = None if source is None else _Key(source.id, term.transform)
            field = next((f for f in self.base.fields if _Key(f.source_id, f.transform) == key), None)
        if field is None:
            listed = ", ".join(f.name for f in self.base.fields) or "none"
            raise InvalidEvolution(f"no partition field {text!r} to {what}", hint=f"the fields are: {listed}")
        return field

    def _free(self, name: str) -> None:
        """Take a name away from a field that was dropped."""
        for field in self.base.fields:
            dropped = field.field_id in self.removed or isinstance(field.transform, VoidTransform)
            if self.names[field.field_id] == name and dropped:
                self.names[field.field_id] = f"{name}_{field.field_id}"

    def _earlier(self, key: _Key, name: str | None) -> PartitionField | None:
        """An equivalent field of any spec: its id must be used again. Ids of v1 are positions and cannot be."""
        if self.version < 2:
            return None
        for spec in sorted(self.specs, key=lambda spec: -spec.spec_id):
            for field in spec.fields:
                if _Key(field.source_id, field.transform) == key and name in (None, field.name):
                    return field
        return None

    def _check_redundant(self, text: str, key: _Key) -> None:
        if isinstance(key.transform, TimeTransform) and any(
            other.source_id == key.source_id and isinstance(other.transform, TimeTransform) for other in self.added
        ):
            raise InvalidEvolution(f"{text!r} is redundant beside another part of the time", hint="add the finer one")


def _check_names(schema: Schema, spec: PartitionSpec) -> None:
    for field in spec.fields:
        column = schema.find_or_none(field.name)
        if not field.name or (column is not None and column.id != field.source_id):
            raise InvalidEvolution(
                f"partition field {field.name!r} is named like another column", hint="name it otherwise: `... AS name`"
            )
