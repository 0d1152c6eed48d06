"""Versions of a folder's table that are no metadata: it was dropped, or its name is that of a table of another format.

>>> text = moved_text("lance", "/lake/db/t", "/lake/db/t/lance-1")
>>> parse_moved(text, "/elsewhere/t", Version(3, "/elsewhere/t/metadata/v3.metadata.json"))
Moved(format='lance', location='/elsewhere/t/lance-1', ...)
>>> is_no_metadata(text), is_no_metadata(TOMBSTONE), is_no_metadata(b"{}")
(True, True, False)
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from frazil.errors import InvalidArgument, MalformedMetadata
from frazil.io import location as locations

TOMBSTONE = json.dumps({"frazil-table": "dropped"}).encode()
"""What the last version of a table says that was dropped."""
LONGEST_TEXT = 4096
"""How long a version can be at most that is no metadata."""

_MOVED = b'{"frazil-table": "moved"'


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a folder's table: its number, and its file."""

    number: int
    location: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A table of another format that has the name of the one in a folder, and the version that says so."""

    format: str
    location: str
    version: Version


def is_no_metadata(data: bytes) -> bool:
    """Whether a version is none that a table could be read by."""
    return data == TOMBSTONE or data.startswith(_MOVED)


def moved_text(format_name: str, folder: str, location: str) -> bytes:
    """What a version says whose table is in a folder of this folder: both can be copied together."""
    inside = (locations.relative_to(location, folder) or "").strip("/")
    if not inside:
        raise InvalidArgument(f"{location} is not in {folder}", hint="put the table into its folder")
    return json.dumps({"frazil-table": "moved", "format": format_name, "folder": inside}).encode()


def parse_moved(data: bytes, folder: str, version: Version) -> Moved | None:
    """The table that a version names; None if it names none."""
    if not data.startswith(_MOVED):
        return None
    try:
        told = json.loads(data)
        name = str(told["folder"])
        if ".." in name or ":" in name or name.startswith("/") or not name:
            raise ValueError(f"{name!r} is no folder in it")
        return Moved(str(told["format"]), locations.join(folder, name), version)
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedMetadata(
            f"{version.location} does not say where the table is: {error!r}", hint="repair the file"
        ) from error
