"""First metadata of small tables, for the tests of this folder."""

from __future__ import annotations

from frazil.catalog.catalog import Catalog
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.new_table import new_table_metadata
from frazil.model.schema import Schema
from frazil.model.types import LongType, NestedField

SCHEMA = Schema((NestedField(1, "id", LongType()),))


def first_metadata(catalog: Catalog, name: str, **properties: str) -> TableMetadata:
    """The metadata of a new table at its default location."""
    return new_table_metadata(SCHEMA, location=catalog.default_location(name), properties=properties)
