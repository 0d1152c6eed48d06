"""Keys that must be there once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidValue


def repeated_key(names: Sequence[str], columns: Sequence[pa.Array]) -> dict[str, Any] | None:
    """A key that is there twice, by the names of its columns; None if there is none.

    >>> repeated_key(["id"], [pa.array([1, 2, 1])]), repeated_key(["id"], [pa.array([1, 2])])
    ({'id': 1}, None)
    """
    plain = [one.storage if isinstance(one, pa.ExtensionArray) else one for one in columns]
    places = [str(place) for place in range(len(plain))]  # columns may have the names of what counts them
    counted = pa.table(plain, names=places).group_by(places).aggregate([([], "count_all")])
    if len(counted) == len(plain[0]):
        return None
    [found] = counted.filter(pc.greater(counted["count_all"], 1)).slice(0, 1).to_pylist()
    return {name: found[place] for name, place in zip(names, places, strict=True)}


def left_twice(key: Mapping[str, Any]) -> InvalidValue:
    """The error for a command that would write two rows of one key."""
    shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
    return InvalidValue(
        f"the command makes several rows of the key {shown}",
        hint="give each row a key of its own; rows that plain inserts gave one key become one by an upsert of it",
    )
