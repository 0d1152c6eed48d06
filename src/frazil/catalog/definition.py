"""What a table is to be, before it is known whether it will be new or take the place of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.errors import InvalidArgument
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.new_table import new_table_metadata
from frazil.iceberg.refs import MAIN
from frazil.iceberg.updates import (
    LAST_ADDED,
    AddSchema,
    AddSortOrder,
    AddSpec,
    RemoveSnapshotRef,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetProperties,
    Update,
    UpgradeFormatVersion,
)
from frazil.model.arrow import schema_from_anything
from frazil.model.fresh_ids import reassign_ids_by_name
from frazil.model.partition import PartitionField, PartitionSpec, parse_partition_by
from frazil.model.property_text import property_texts
from frazil.model.schema import Schema
from frazil.model.sorting import parse_sort_order
from frazil.model.transforms import VoidTransform

_NO_ID = -1


@dataclass(frozen=True)
class TableDefinition:
    """A schema, and terms such as `days(ts)` and `id DESC` that refer to it."""

    schema: Schema
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    format_version: int | None = None

    def first_metadata(self, location: str) -> TableMetadata:
        """The metadata of a new table."""
        return new_table_metadata(
            self.schema,
            parse_partition_by(self.schema, self.partition_by),
            parse_sort_order(self.schema, self.sort_by),
            location=location,
            properties=self.properties,
            format_version=self.format_version,
        )

    def replacing(self, current: TableMetadata) -> list[Update]:
        """The updates that make `current` this table, empty: its history stays, and columns keep ids by their names."""
        schema, last_column_id = reassign_ids_by_name(self.schema, current.current_schema, current.last_column_id)
        spec = parse_partition_by(schema, self.partition_by)
        fields = tuple(replace(part, field_id=_NO_ID) for part in spec.fields)
        version = current.format_version if self.format_version is None else self.format_version
        if version == 1:
            fields = _after(current.default_spec, fields, schema)
        updates: list[Update] = [] if version == current.format_version else [UpgradeFormatVersion(version)]
        updates += [
            AddSchema(schema, last_column_id),
            SetCurrentSchema(LAST_ADDED),
            AddSpec(PartitionSpec(0, fields)),
            SetDefaultSpec(LAST_ADDED),
            AddSortOrder(parse_sort_order(schema, self.sort_by)),
            SetDefaultSortOrder(LAST_ADDED),
        ]
        if self.properties:
            updates.append(SetProperties(self.properties))
        return [*updates, RemoveSnapshotRef(MAIN)]


def _after(old: PartitionSpec, new: tuple[PartitionField, ...], schema: Schema) -> tuple[PartitionField, ...]:
    """Format version 1 numbers partition fields by place: former ones keep theirs, as void where nobody wants them."""
    left = list(new)
    fields: list[PartitionField] = []
    for part in old.fields:
        same = next((one for one in left if one.equivalent(replace(part, name=one.name))), None)
        if same is not None:
            left.remove(same)
            fields.append(replace(part, name=same.name))
        elif part.source_id in schema.field_ids:
            fields.append(replace(part, transform=VoidTransform()))
    return (*fields, *left)


def definition_of(
    schema: Any,
    partition_by: str | Iterable[str],
    sort_by: str | Iterable[str],
    format_version: int | str | None,
    properties: Mapping[str, str] | None,
) -> TableDefinition:
    """The definition from what people give: a schema in any form, and terms."""
    if isinstance(format_version, str):
        raise InvalidArgument(f"format_version={format_version!r} is a text", hint="use the number 1, 2 or 3")
    return TableDefinition(
        schema_from_anything(schema), _terms(partition_by), _terms(sort_by), property_texts(properties), format_version
    )


def _terms(given: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(given, Iterable):
        raise InvalidArgument(f"{given!r} is no text", hint='write terms such as "days(ts)" or "id DESC"')
    terms: Sequence[str] = (given,) if isinstance(given, str) else tuple(given)
    for term in terms:
        if not isinstance(term, str):
            raise InvalidArgument(f"{term!r} is no text", hint='write terms such as "days(ts)" or "id DESC"')
    return tuple(terms)
