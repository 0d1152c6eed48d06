"""What properties say of a table that is to be made: its key and its layout, by the names of CREATE TABLE.

They are no properties of the table: what it is, its stores say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.errors import InvalidArgument
from frazil.mixed import properties as stored
from frazil.mixed.layout import LAYOUTS, NESTED
from frazil.model.schema import Schema

PRIMARY_KEY = "primary-key"
"""The key's columns, with commas between."""
LAYOUT = "layout"
"""Where the stores lie: `nested`, or `sibling` as today's Amoro has them."""


def key_of(schema: Schema, properties: Mapping[str, str], given: Sequence[str] = ()) -> Sequence[str]:
    """The key that was given, or else the one of the properties; both must not differ."""
    text = properties.get(PRIMARY_KEY) or properties.get(stored.PRIMARY_KEY) or ""
    told = tuple(_column(schema, name.strip()) for name in text.split(",") if name.strip())
    if told and given and tuple(given) != told:
        raise InvalidArgument(
            f"the property {PRIMARY_KEY} is {text!r}, and primary_key={given!r}", hint="give primary_key= alone"
        )
    return given or told


def layout_of(properties: Mapping[str, str], given: str | None = None) -> str:
    """The layout that was given, or else the one of the properties; both must not differ."""
    told = properties.get(LAYOUT)
    if told is None:
        return NESTED if given is None else given
    if told.lower() not in LAYOUTS:
        raise InvalidArgument(f"{LAYOUT} is {told!r}", hint=f"use {' or '.join(LAYOUTS)}")
    if given not in (None, told.lower()):
        raise InvalidArgument(f"the property {LAYOUT} is {told!r}, and layout={given!r}", hint="give layout= alone")
    return told.lower()


def _column(schema: Schema, name: str) -> str:
    """The column's own name, however it is spelled."""
    found = schema.find(name, case_sensitive=False)
    return schema.name_of(found.id) or name
