"""The first metadata of a mixed table's stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.errors import InvalidArgument
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.new_table import new_table_metadata
from frazil.iceberg.properties import FORMAT_VERSION
from frazil.mixed.columns import refuse_reserved
from frazil.mixed.keys import check_new_key, check_partitioning
from frazil.mixed.layout import Places
from frazil.mixed.properties import BASE, CHANGE, check_mixed_properties, store_properties
from frazil.mixed.watermark import check_event_time
from frazil.model.partition import PartitionSpec
from frazil.model.property_text import property_texts
from frazil.model.schema import Schema

STORE_VERSION = 2


def new_stores(
    schema: Schema,
    spec: PartitionSpec,
    *,
    primary_key: Sequence[str],
    places: Places,
    change_identifier: str,
    properties: Mapping[str, str] | None = None,
) -> tuple[TableMetadata, TableMetadata | None]:
    """Metadata of the base store, and of the change store if the table has a key."""
    given = property_texts(properties)
    if given.pop(FORMAT_VERSION, str(STORE_VERSION)) != str(STORE_VERSION):
        raise InvalidArgument("the stores of a mixed table are of format version 2", hint="leave format-version out")
    check_mixed_properties(given)
    check_event_time(given, schema)
    key = check_new_key(schema, primary_key)
    if key:
        check_partitioning(spec)
        refuse_reserved(schema.columns)

    def store(kind: str, location: str) -> TableMetadata:
        identifier = change_identifier if key and kind == BASE else None
        own = store_properties(kind, key, identifier)
        return new_table_metadata(
            schema, spec, location=location, properties={**own, **given}, format_version=STORE_VERSION
        )

    return store(BASE, places.base), store(CHANGE, places.change) if key else None
