"""Small mixed tables for tests, and their rows."""

from __future__ import annotations

from typing import Any

from frazil import ambient
from frazil.catalog.definition import TableDefinition
from frazil.catalog.mixed_folder import create_mixed_table
from frazil.io.store import Stores
from frazil.mixed.table import MixedTable
from frazil.model.arrow import schema_from_anything

SCHEMA = "id BIGINT NOT NULL, name STRING, region STRING"


def new_table(
    schema: str = SCHEMA,
    *,
    partition_by: tuple[str, ...] = (),
    primary_key: tuple[str, ...] = ("id",),
    layout: str = "nested",
    properties: dict[str, str] | None = None,
    folder: str | None = None,
) -> MixedTable:
    place = folder or f"memory://mixed-{ambient.new_uuid()}/db/t"
    definition = TableDefinition(schema_from_anything(schema), partition_by, (), properties or {})
    return create_mixed_table(Stores(), place, definition, primary_key=primary_key, layout=layout)


def row(number: int, name: str | None = "a", region: str | None = "eu") -> dict[str, Any]:
    return {"id": number, "name": name, "region": region}


def rows_of(table: MixedTable, **options: Any) -> list[dict[str, Any]]:
    """The rows of a table, sorted; read in both ways, and counted."""
    scan = table.scan(**options)
    rows = sorted(scan.to_arrow().to_pylist(), key=repr)
    assert sorted((row for batch in scan.to_batches() for row in batch.to_pylist()), key=repr) == rows
    assert scan.count() == len(rows)
    return rows


def ids_of(table: MixedTable, **options: Any) -> list[int]:
    return sorted(row["id"] for row in rows_of(table, **options))
