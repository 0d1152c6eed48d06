"""Partition specs: how the columns of a row decide the partition it belongs to.

>>> from frazil.model.types import LongType, NestedField, TimestampType
>>> schema = Schema((NestedField(1, "id", LongType()), NestedField(2, "ts", TimestampType())))
>>> spec = parse_partition_by(schema, ["days(ts)", "bucket(16, id)"])
>>> [field.name for field in spec.fields]
['ts_day', 'id_bucket']
>>> spec.partition_path(schema, (17486, 3))
'ts_day=2017-11-16/id_bucket=3'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote_plus

from frazil.errors import InvalidSchema, InvalidValue
from frazil.model.schema import Schema
from frazil.model.terms import parse_term
from frazil.model.transforms import (
    BucketTransform,
    IdentityTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    parse_transform,
)
from frazil.model.types import NestedField, StructType, Type, UnknownType

FIRST_FIELD_ID = 1000
"""Partition field ids begin here; 999 as the last one means that there is none yet."""

SourceTypes = Callable[[int], Type | None]
"""The type of a source column by its id, or None if the column is gone."""


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One partition value: a transform of a source column (of several, for transforms yet to come)."""

    source_ids: tuple[int, ...]
    field_id: int
    name: str
    transform: Transform

    @property
    def source_id(self) -> int:
        return self.source_ids[0]

    def equivalent(self, other: PartitionField) -> bool:
        """Whether both have the same sources, transform and name, whatever their ids."""
        return replace(self, field_id=other.field_id) == other

    def result_type(self, sources: Schema | SourceTypes) -> Type:
        """The type of the values; of a dropped source column, unknown where the transform keeps the type."""
        return self.transform.result_type(_lookup(sources)(self.source_id) or UnknownType())

    def to_json(self) -> dict[str, Any]:
        """The field's JSON; `source-ids` is for several sources only."""
        sources = {"source-id": self.source_id} if len(self.source_ids) == 1 else {"source-ids": list(self.source_ids)}
        return {**sources, "field-id": self.field_id, "name": self.name, "transform": str(self.transform)}

    def __str__(self) -> str:
        return f"{self.field_id}: {self.name}: {self.transform}({', '.join(map(str, self.source_ids))})"


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """The partition fields of a table, in order. A partition is a tuple of canonical values in this order."""

    spec_id: int = 0
    fields: tuple[PartitionField, ...] = ()

    def __post_init__(self) -> None:
        names: list[Any] = [field.name for field in self.fields]
        for values, what in ((names, "name"), ([field.field_id for field in self.fields], "field id")):
            if len(set(values)) != len(values):
                twice = next(value for value in values if values.count(value) > 1)
                raise InvalidSchema(f"two partition fields have the {what} {twice!r}", hint="each needs its own")

    @property
    def is_unpartitioned(self) -> bool:
        """Whether every row is in the one partition: no fields, or only dropped ones."""
        return all(isinstance(field.transform, VoidTransform) for field in self.fields)

    @property
    def last_field_id(self) -> int:
        """The highest partition field id, 999 without fields."""
        return max((field.field_id for field in self.fields), default=FIRST_FIELD_ID - 1)

    @property
    def has_unknown_transform(self) -> bool:
        """Whether nothing may be written with this spec."""
        return any(isinstance(field.transform, UnknownTransform) for field in self.fields)

    def fields_by_source_id(self, source_id: int) -> tuple[PartitionField, ...]:
        """The fields made from a column."""
        return tuple(field for field in self.fields if source_id in field.source_ids)

    def field_by_name(self, name: str) -> PartitionField | None:
        """The field of that name, or None."""
        return next((field for field in self.fields if field.name == name), None)

    def identity_source_ids(self) -> frozenset[int]:
        """The columns whose value is the same in all rows of a partition and known from it."""
        return frozenset(f.source_id for f in self.fields if isinstance(f.transform, IdentityTransform))

    def partition_type(self, sources: Schema | SourceTypes) -> StructType:
        """The struct of the partition values: ids are the partition field ids, everything is optional."""
        return StructType(tuple(NestedField(f.field_id, f.name, f.result_type(sources)) for f in self.fields))

    def partition_path(self, sources: Schema | SourceTypes, values: Sequence[Any]) -> str:
        """The directory of a partition, `name=value/...`, as the reference implementation writes it."""
        return self.path_of([field.type for field in self.partition_type(sources).fields], values)

    def path_of(self, types: Sequence[Type], values: Sequence[Any]) -> str:
        """As `partition_path`, from the types of the partition values themselves."""
        if len(values) != len(self.fields):
            raise InvalidValue(
                f"{len(values)} values for {len(self.fields)} partition fields", hint="give one for each"
            )
        parts = []
        for field, type_, value in zip(self.fields, types, values, strict=True):
            shown = field.transform.to_human_string(type_, value)
            parts.append(f"{_url_encode(field.name)}={_url_encode(shown)}")
        return "/".join(parts)

    @property
    def folder_prefixes(self) -> tuple[str, ...]:
        """How the names of its partitions' folders begin: `name=`."""
        return tuple(f"{_url_encode(field.name)}=" for field in self.fields)

    def compatible_with(self, other: PartitionSpec) -> bool:
        """Whether both have equivalent fields, whatever their ids: then one of them is superfluous."""
        return len(self.fields) == len(other.fields) and all(map(PartitionField.equivalent, self.fields, other.fields))

    def check(self, schema: Schema, *, allow_missing: bool = False) -> None:
        """Refuse the spec if the schema cannot be its source; `allow_missing` is for old specs of dropped columns."""
        for field in self.fields:
            if isinstance(field.transform, VoidTransform):
                continue
            for source_id in field.source_ids:
                if not (allow_missing and schema.field_by_id(source_id) is None):
                    check_source(schema, source_id, field.transform)

    def to_json(self) -> dict[str, Any]:
        """The specification's JSON object (Appendix C)."""
        return {"spec-id": self.spec_id, "fields": [field.to_json() for field in self.fields]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | Sequence[Any], spec_id: int = 0) -> PartitionSpec:
        """Read the JSON object, or v1's bare list of fields, whose spec id must be given."""
        try:
            if isinstance(document, Mapping):
                spec_id, listed = _integer(document["spec-id"]), document["fields"]
            else:
                listed = document
            if len({"field-id" in field for field in listed}) > 1:
                raise ValueError("some fields have a field-id and some have none")
            return cls(spec_id, tuple(_field_from_json(field, at) for at, field in enumerate(listed)))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise InvalidSchema(f"malformed partition spec: {error!r}", hint="the metadata is damaged") from error

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.fields))}]"


UNPARTITIONED = PartitionSpec()


def parse_partition_by(schema: Schema, terms: Iterable[str], spec_id: int = 0) -> PartitionSpec:
    """A first spec from terms like `days(ts)`, `bucket(16, id) AS shard`, `country`, checked against the schema."""
    fields: list[PartitionField] = []
    redundant: dict[tuple[int, str], str] = {}
    for text in terms:
        term = parse_term(text)
        source = schema.find(term.column)
        check_source(schema, source.id, term.transform)
        name = term.alias or default_name(term.transform, schema.name_of(source.id) or term.column)
        check_name(schema, name, source.id, term.transform)
        other = redundant.setdefault((source.id, term.transform.dedup_name), text)
        if other is not text:
            raise InvalidSchema(f"{text!r} is redundant beside {other!r}", hint="keep the finer one")
        fields.append(PartitionField((source.id,), FIRST_FIELD_ID + len(fields), name, term.transform))
    return PartitionSpec(spec_id, tuple(fields))


def default_name(transform: Transform, column: str, *, with_size: bool = False) -> str:
    """The name a partition field gets when none is given; with its size when a spec evolves.

    >>> default_name(BucketTransform(16), "id"), default_name(BucketTransform(16), "id", with_size=True)
    ('id_bucket', 'id_bucket_16')
    """
    if isinstance(transform, IdentityTransform):
        return column
    if isinstance(transform, BucketTransform):
        return f"{column}_bucket_{transform.buckets}" if with_size else f"{column}_bucket"
    if isinstance(transform, TruncateTransform):
        return f"{column}_trunc_{transform.width}" if with_size else f"{column}_trunc"
    return f"{column}_{transform}" if isinstance(transform, TimeTransform) else f"{column}_null"


def check_source(schema: Schema, source_id: int, transform: Transform) -> None:
    """Refuse sources that are missing, not primitive, in a list or map, or of a type the transform does not take."""
    column = schema.field_by_id(source_id)
    if column is None:
        raise InvalidSchema(
            f"{transform} of column id {source_id}, which the schema lacks", hint="add the column first"
        )
    name = schema.name_of(source_id)
    if not column.type.is_primitive:
        raise InvalidSchema(f"column {name!r} of type {column.type} is not primitive", hint="choose a field inside it")
    transform.check(column.type)
    for holder in schema.path_ids(source_id)[:-1]:
        outer = schema.field_by_id(holder)
        if outer is not None and not isinstance(outer.type, StructType):
            raise InvalidSchema(
                f"column {name!r} lies in a list or map", hint="choose a column that has one value a row"
            )


def check_name(schema: Schema, name: str, source_id: int, transform: Transform) -> None:
    """Refuse names that are empty or taken by a column, unless it is the very column the field keeps the value of."""
    if not name:
        raise InvalidSchema("a partition field has an empty name", hint="name it")
    column = schema.find_or_none(name)
    keeps_value = isinstance(transform, IdentityTransform | VoidTransform)
    if column is not None and not (keeps_value and column.id == source_id):
        raise InvalidSchema(f"partition field {name!r} is named like a column", hint="name it otherwise: `... AS name`")


def unified_partition_type(
    sources: Schema | SourceTypes, specs: Iterable[PartitionSpec], *, active_only: bool = False
) -> StructType:
    """The struct of all partition fields of all specs, ids ascending, with the newest names.

    `active_only` leaves out fields whose source column is gone, as metadata tables do.
    """
    found: dict[int, tuple[PartitionField, str]] = {}
    for spec in sorted(specs, key=lambda spec: -spec.spec_id):
        for field in spec.fields:
            newest, name = found.setdefault(field.field_id, (field, field.name))
            voids = [isinstance(each.transform, VoidTransform) for each in (newest, field)]
            if newest.source_ids != field.source_ids or (newest.transform != field.transform and not any(voids)):
                raise InvalidSchema(f"partition fields {newest} and {field} conflict", hint="v1 specs reused an id")
            if voids[0]:  # the type is that of the field before it was dropped
                found[field.field_id] = (field, name)
    lookup = _lookup(sources)
    kept = [item for item in found.items() if not active_only or lookup(item[1][0].source_id) is not None]
    taken: set[str] = set()
    result = []
    for field_id, (field, name) in sorted(kept, reverse=True):
        unique = name if name not in taken else f"{name}_{field_id}"  # an older field, replaced by one of its name
        taken.add(unique)
        result.append(NestedField(field_id, unique, field.result_type(lookup)))
    return StructType(tuple(reversed(result)))


def _lookup(sources: Schema | SourceTypes) -> SourceTypes:
    if not isinstance(sources, Schema):
        return sources
    schema = sources

    def find(source_id: int) -> Type | None:
        column = schema.field_by_id(source_id)
        return None if column is None else column.type

    return find


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not an integer")
    return value


def source_ids_from_json(document: Mapping[str, Any]) -> tuple[int, ...]:
    """The source columns of a partition or sort field."""
    listed = document.get("source-ids")
    result = tuple(map(_integer, [document["source-id"]] if listed is None else listed))
    if not result:
        raise ValueError("source-ids is empty")
    return result


def transform_from_json(text: Any, source_ids: tuple[int, ...]) -> Transform:
    """The transform of a partition or sort field. None of several columns is known yet."""
    if not isinstance(text, str):
        raise TypeError(f"transform {text!r} is not text")
    return parse_transform(text) if len(source_ids) == 1 else UnknownTransform(text)


def _field_from_json(document: Mapping[str, Any], position: int) -> PartitionField:
    sources = source_ids_from_json(document)
    field_id = _integer(document.get("field-id", FIRST_FIELD_ID + position))
    return PartitionField(sources, field_id, str(document["name"]), transform_from_json(document["transform"], sources))


def _url_encode(text: str) -> str:
    return quote_plus(text, safe="*").replace("~", "%7E")
