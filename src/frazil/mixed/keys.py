"""Primary keys: which columns they are, and what may be done to those."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from frazil.errors import InvalidEvolution, InvalidSchema, MalformedMetadata
from frazil.mixed.key_hash import can_be_key
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.transforms import IdentityTransform, VoidTransform, YearTransform
from frazil.model.types import DecimalType, NestedField


def key_fields(schema: Schema, names: Sequence[str]) -> tuple[NestedField, ...]:
    """The columns of a table's primary key, in its order."""
    found = tuple(schema.find_or_none(name) for name in names)
    fields = tuple(column for column in found if column is not None)
    if len(fields) < len(names):
        missing = next(name for name, column in zip(names, found, strict=True) if column is None)
        raise MalformedMetadata(
            f"the primary key names a column {missing!r} that the table does not have",
            hint="somebody renamed or dropped it; give it its name back",
        )
    return fields


def check_new_key(schema: Schema, names: Sequence[str]) -> tuple[str, ...]:
    """The primary key of a new table, if it can be one."""
    if len(set(names)) < len(names):
        raise InvalidSchema(f"the primary key {', '.join(names)} names a column twice", hint="name each once")
    for name in names:
        column = schema.find(name)
        if not any(column.id == top.id for top in schema.fields) or "," in name:
            raise InvalidSchema(f"{name!r} cannot be in a primary key", hint="use columns that are not in a struct")
        if not can_be_key(column.type):
            raise InvalidSchema(
                f"column {name!r} of type {column.type} cannot be in a primary key", hint="use a primitive type"
            )
    return tuple(names)


def check_partitioning(spec: PartitionSpec) -> None:
    """Refuse what Amoro's readers get wrong once a partition was optimized or overwritten."""
    for part in spec.fields:
        if isinstance(part.transform, YearTransform):
            raise InvalidSchema(
                "a keyed table cannot be partitioned by years: Amoro would return optimized rows twice",
                hint="partition by months",
            )
    sources = [part.source_id for part in spec.fields if not isinstance(part.transform, VoidTransform)]
    if len(set(sources)) < len(sources):
        raise InvalidSchema(
            "a keyed table cannot have two partition fields of one column: Amoro cannot optimize it",
            hint="use one of both",
        )


def check_key_evolution(before: Schema, after: Schema, names: Iterable[str]) -> None:
    """Refuse changes of key columns that would lose rows: files lie by the hash of the key, which the type decides."""
    for name in names:
        old = before.find(name)
        new = after.field_by_id(old.id)
        if new is None:
            raise InvalidEvolution(f"column {name!r} is in the primary key and cannot be dropped", hint="keep it")
        if after.name_of(old.id) != name:
            raise InvalidEvolution(f"column {name!r} is in the primary key and cannot be renamed", hint="keep its name")
        if new.optional and old.required:
            raise InvalidEvolution(f"column {name!r} is in the primary key and cannot become optional", hint="keep it")
        if new.type != old.type and not isinstance(new.type, DecimalType):
            raise InvalidEvolution(
                f"column {name!r} is in the primary key and cannot become {new.type}: its hashes would be others",
                hint="make a new table with the wider key, and copy the rows",
            )


def partitioned_by_key(spec: PartitionSpec, keys: Iterable[int]) -> bool:
    """Whether the key alone tells the partition: then the row with a given key is always in the same one."""
    known = set(keys)
    return all(isinstance(part.transform, VoidTransform) or set(part.source_ids) <= known for part in spec.fields)


def columns_of_changes(spec: PartitionSpec, keys: Iterable[int]) -> frozenset[int]:
    """The columns of which every change tells the truth, also one that deletes a row which its writer did not read."""
    parts = (part.source_id for part in spec.fields if isinstance(part.transform, IdentityTransform))
    return frozenset((*keys, *parts))
