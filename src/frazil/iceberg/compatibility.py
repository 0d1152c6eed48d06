"""Whether partition specs and sort orders fit the table they are in, or are to be in."""

from __future__ import annotations

from frazil.errors import InvalidSchema
from frazil.iceberg.metadata import TableMetadata
from frazil.model.partition import FIRST_FIELD_ID, PartitionSpec, check_name
from frazil.model.schema import Schema


def check_new_spec(spec: PartitionSpec, schema: Schema, format_version: int) -> None:
    """Refuse a spec that nobody may add to a table: unfit sources or names, v1 ids out of order, unknown transforms."""
    if spec.has_unknown_transform:
        raise InvalidSchema(f"unknown transform in {spec}", hint="use a transform of the specification")
    spec.check(schema)
    for place, part in enumerate(spec.fields):
        check_name(schema, part.name, part.source_id, part.transform)
        if format_version == 1 and part.field_id != FIRST_FIELD_ID + place:
            raise InvalidSchema(
                f"partition field {part.name!r} has id {part.field_id}, but v1 counts them from {FIRST_FIELD_ID}",
                hint="upgrade the table to format version 2, or only append partition fields",
            )


def check_defaults(metadata: TableMetadata) -> None:
    """Refuse a current schema that the default spec or the default sort order cannot be applied to."""
    spec, order = metadata.default_spec, metadata.default_sort_order
    if not spec.has_unknown_transform:  # nothing is known about the columns of such a one
        spec.check(metadata.current_schema)
    if not order.has_unknown_transform:
        order.check(metadata.current_schema)
