"""Where the stores of a mixed table are.

| layout | base store | change store | |
|---|---|---|---|
| nested | `t/base` | `t/change` | what a new table gets; also that of Amoro up to 0.6 |
| sibling | `t` | `t_change_` | today's Amoro without its server |
| internal | `t` | `t/change` | today's Amoro with its server, which alone knows the newest metadata |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.errors import InvalidArgument, MalformedMetadata
from frazil.io import location as locations
from frazil.mixed.properties import CHANGE_IDENTIFIER

NESTED = "nested"
SIBLING = "sibling"
INTERNAL = "internal"
LAYOUTS = (NESTED, SIBLING)
"""Those in which tables are made."""
BASE_FOLDER = "base"
CHANGE_FOLDER = "change"
_SIBLING_SUFFIX = "_change_"
_INTERNAL_SUFFIX = "@change"


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of the stores."""

    base: str
    change: str


def new_places(folder: str, layout: str) -> Places:
    """Where a new table's stores go."""
    if layout not in LAYOUTS:
        raise InvalidArgument(f"layout {layout!r} is unknown", hint=f"use one of {', '.join(LAYOUTS)}")
    if layout == NESTED:
        return nested(folder)
    return Places(locations.join(folder), locations.join(folder) + _SIBLING_SUFFIX)


def nested(folder: str) -> Places:
    """The stores in a table's folder."""
    return Places(locations.join(folder, BASE_FOLDER), locations.join(folder, CHANGE_FOLDER))


def change_identifier(folder: str, layout: str) -> str:
    """The name of the change store that the base store keeps: of the namespace and the table, as Amoro has it."""
    table, namespace = locations.name(folder), locations.name(locations.parent(folder))
    return f"{namespace}.{table}{_SIBLING_SUFFIX if layout == SIBLING else _INTERNAL_SUFFIX}"


def layout_at(base_folder: str, properties: Mapping[str, str]) -> str:
    """The layout of a table, by the place and the properties of its base store."""
    if locations.name(base_folder) == BASE_FOLDER:
        return NESTED
    # without a key there is no change store, and a base store that is the folder itself is a sibling's
    return INTERNAL if properties.get(CHANGE_IDENTIFIER, "").endswith(_INTERNAL_SUFFIX) else SIBLING


def twin(base_folder: str, properties: Mapping[str, str]) -> str:
    """The folder of the change store that belongs to a base store."""
    if locations.name(base_folder) == BASE_FOLDER:
        return locations.join(locations.parent(base_folder), CHANGE_FOLDER)
    identifier = properties.get(CHANGE_IDENTIFIER, "")
    name = identifier.rpartition(".")[2]
    if name.endswith(_INTERNAL_SUFFIX):
        return locations.join(base_folder, CHANGE_FOLDER)
    if not name or "/" in name or name in (".", ".."):
        raise MalformedMetadata(
            f"the base store in {base_folder} names its change store {identifier!r}",
            hint="open both with change= and the metadata file of the change store",
        )
    return locations.join(locations.parent(base_folder), name)
