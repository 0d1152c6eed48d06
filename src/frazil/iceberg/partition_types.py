"""The type of a spec's partition tuples, also when a source column was dropped since."""

from __future__ import annotations

from frazil.iceberg.metadata import TableMetadata
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.types import NestedField, StructType


def field_in_any_schema(metadata: TableMetadata, field_id: int) -> NestedField | None:
    """A field by id: as the current schema has it, else as the newest schema that still had it."""
    newest_first = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    for schema in (metadata.current_schema, *newest_first):
        found = schema.field_by_id(field_id)
        if found is not None:
            return found
    return None


def partition_type(metadata: TableMetadata, spec: PartitionSpec) -> StructType:
    """The struct type of a spec's partition tuples."""
    sources = {}
    for part in spec.fields:
        for source in part.source_ids:
            found = field_in_any_schema(metadata, source)
            if found is not None:
                sources[source] = NestedField(found.id, f"source_{found.id}", found.type)
    return spec.partition_type(Schema(tuple(sources.values())))
