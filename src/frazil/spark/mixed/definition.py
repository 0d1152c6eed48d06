"""What CREATE TABLE says of a mixed table: its key and its layout are properties.

`PRIMARY KEY (id)` in the statement becomes the property `primary-key` (`frazil.spark.mixed.statement`), by which
DataFrames can give it too: `df.writeTo(...).using("mixed").tableProperty("primary-key", "id").create()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.catalog.definition import TableDefinition
from frazil.errors import InvalidArgument
from frazil.mixed import properties as stored
from frazil.mixed.layout import NESTED, SIBLING
from frazil.model.schema import Schema
from frazil.spark.mixed.shown import LAYOUT, PRIMARY_KEY, STATE

if TYPE_CHECKING:
    from frazil.spark.definition import Definition


@dataclass(frozen=True)
class MixedDefinition:
    """A mixed table that is to be made."""

    definition: TableDefinition
    primary_key: tuple[str, ...]
    layout: str


def mixed_definition(new: Definition) -> MixedDefinition:
    """What a statement says, taken apart. State that is shown among the properties is left out."""
    given = dict(new.properties)
    key = given.get(PRIMARY_KEY) or given.get(stored.PRIMARY_KEY) or ""
    layout = given.get(LAYOUT, NESTED).lower()
    if layout not in (NESTED, SIBLING):
        raise InvalidArgument(f"{LAYOUT} is {layout!r}", hint=f"use {NESTED} or {SIBLING}")
    properties = {name: text for name, text in given.items() if name not in STATE}
    names = tuple(_column(new.schema, name.strip()) for name in key.split(",") if name.strip())
    plan = TableDefinition(new.schema, new.partition_by, (), properties, new.version_number)
    return MixedDefinition(plan, names, layout)


def _column(schema: Schema, name: str) -> str:
    """The column's own name, however it is spelled."""
    found = schema.find(name, case_sensitive=False)
    return schema.name_of(found.id) or name
