"""The type of a spec's partition tuples, also when a source column was dropped since."""

from __future__ import annotations

from frazil.iceberg.metadata import TableMetadata
from frazil.model.partition import PartitionSpec
from frazil.model.types import NestedField, StructType, Type


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

    def source_type(field_id: int) -> Type | None:
        found = field_in_any_schema(metadata, field_id)
        return None if found is None else found.type

    return spec.partition_type(source_type)
