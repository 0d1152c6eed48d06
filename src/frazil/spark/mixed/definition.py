"""What CREATE TABLE says of a mixed table: its key and its layout are properties.

`PRIMARY KEY (id)` in the statement becomes the property `primary-key` (`frazil.spark.mixed.statement`), by which
DataFrames can give it too: `df.writeTo(...).using("mixed").tableProperty("primary-key", "id").create()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.catalog.definition import TableDefinition
from frazil.mixed.definition import key_of, layout_of
from frazil.spark.mixed.shown import STATE

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
    properties = {name: text for name, text in given.items() if name not in STATE}
    plan = TableDefinition(new.schema, new.partition_by, (), properties, new.version_number)
    return MixedDefinition(plan, tuple(key_of(new.schema, given)), layout_of(given))
