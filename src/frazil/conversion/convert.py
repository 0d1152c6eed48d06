"""A table of one format becomes one of another, under the same name: schema, rows, properties, comments and tags.

The other table is made beside the first, where nobody finds it, with a version for every tag and one for what the
table is now. Then one step of the catalog gives it the name. Until that step the first table is untouched; after it the
second is there whole. Both kinds of writers who come too late are told: an Iceberg table's commit finds its pointer
gone, and a Lance table is sealed (`frazil.lance.operations.seal`) before the step. Whoever changes the table while it
is converted makes the conversion begin again. The first table's files stay where they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from frazil.catalog.formats import ICEBERG, LANCE, check_format
from frazil.conversion import from_iceberg, from_lance
from frazil.conversion.place import Place
from frazil.conversion.work import InProcess, Workers
from frazil.errors import CommitFailed, Unsupported

_ATTEMPTS = 3


@dataclass(frozen=True)
class Converted:
    """What became of a table."""

    format: str
    location: str
    previous: str | None
    """Where the former table can be opened: its folder, or its last metadata file. None if nothing was to be done."""
    rows: int
    tags: int = 0


def convert(place: Place, to: str, workers: Workers | None = None) -> Converted:
    """Make the table of a place one of format `to`. Rows are moved by workers; by this process if there are none."""
    wanted, found = check_format(to), place.opened()
    if wanted not in (ICEBERG, LANCE) or found.format not in (ICEBERG, LANCE):
        other = wanted if wanted not in (ICEBERG, LANCE) else found.format
        raise Unsupported(f"{other} tables are not converted", hint="convert between iceberg and lance")
    if found.format == wanted:
        if wanted == LANCE:
            from_lance.reopen(found)
        return Converted(wanted, found.location, None, found.scan().count())
    turned = from_lance.turned if found.format == LANCE else from_iceberg.turned
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            done = turned(place, found, workers or InProcess())
        except CommitFailed:
            if attempt == _ATTEMPTS:
                raise
            found = place.opened()
            if found.format == wanted:
                raise
        else:
            return Converted(wanted, done.location, done.previous, done.rows, done.tags)
    raise AssertionError("the last attempt returns or raises")  # pragma: no cover
