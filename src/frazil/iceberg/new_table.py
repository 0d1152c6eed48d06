"""The first metadata of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from frazil import ambient
from frazil.errors import InvalidArgument, InvalidSchema
from frazil.iceberg.compatibility import check_new_spec
from frazil.iceberg.metadata import SUPPORTED_FORMAT_VERSION, TableMetadata
from frazil.iceberg.properties import FORMAT_VERSION, PARQUET_COMPRESSION, check_properties
from frazil.io import location as locations
from frazil.model.fresh_ids import assign_fresh_ids
from frazil.model.partition import FIRST_FIELD_ID, UNPARTITIONED, PartitionSpec
from frazil.model.property_text import property_texts
from frazil.model.schema import Schema
from frazil.model.sorting import UNSORTED, SortOrder

DEFAULT_FORMAT_VERSION = 2


def new_table_metadata(
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED,
    order: SortOrder = UNSORTED,
    *,
    location: str,
    properties: Mapping[str, Any] | None = None,
    format_version: int | None = None,
    uuid: str | None = None,
) -> TableMetadata:
    """Metadata of a table without snapshots.

    Columns get new ids from 1 and partition fields from 1000, whatever the arguments have. The format version is the
    argument, or the property `format-version`, or 2.
    """
    given = property_texts(properties)
    version = _format_version(format_version, given.pop(FORMAT_VERSION, None))
    check_properties(given)
    schema.check_version(version)
    fresh, new_ids = assign_fresh_ids(schema.with_id(0))

    def renumbered(source_ids: tuple[int, ...]) -> tuple[int, ...]:
        missing = next((number for number in source_ids if number not in new_ids), None)
        if missing is not None:
            raise InvalidSchema(
                f"the partition spec or sort order needs column {missing}, which the schema does not have",
                hint="make both from the schema of this table",
            )
        return tuple(new_ids[number] for number in source_ids)

    parts = tuple(
        replace(part, source_ids=renumbered(part.source_ids), field_id=FIRST_FIELD_ID + place)
        for place, part in enumerate(spec.fields)
    )
    fresh_spec = PartitionSpec(0, parts)
    keys = tuple(replace(key, source_ids=renumbered(key.source_ids)) for key in order.fields)
    fresh_order = SortOrder(1, keys) if keys else UNSORTED
    check_new_spec(fresh_spec, fresh, version)
    fresh_order.check(fresh)
    return TableMetadata(
        format_version=version,
        location=locations.join(location),
        table_uuid=str(ambient.new_uuid()) if uuid is None else uuid,
        last_updated_ms=ambient.now_ms(),
        schemas=(fresh,),
        last_column_id=fresh.highest_field_id,
        partition_specs=(fresh_spec,),
        last_partition_id=fresh_spec.last_field_id,
        sort_orders=(fresh_order,),
        default_sort_order_id=fresh_order.order_id,
        # the default for readers of old tables is gzip; as Java does, new tables say what they use
        properties={PARQUET_COMPRESSION.name: "zstd", **given},
    )


def _format_version(argument: object, text: str | None) -> int:
    if argument is None and text is not None and text.isdecimal():
        argument, text = int(text), None
    version = DEFAULT_FORMAT_VERSION if argument is None else argument
    told_in_vain = argument is None and text is not None
    if told_in_vain or not isinstance(version, int) or not 1 <= version <= SUPPORTED_FORMAT_VERSION:
        raise InvalidArgument(
            f"format version {text if argument is None else argument!r} cannot be written",
            hint=f"use 1 to {SUPPORTED_FORMAT_VERSION}",
        )
    return version
