"""Tables written by the Java library, with what it reads from them: see the README.md beside them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from frazil.io.store import RelocatingStore, Store, Stores

WRITTEN_AT = "/golden_iceberg/db"
"""Where the tables were when they were written: every location in them begins so."""

_PLACES = [os.environ.get("FRAZIL_GOLDENS"), Path(__file__).parent / "goldens/iceberg", "/work/shared/goldens/iceberg"]
GOLDENS = next((Path(place) for place in _PLACES if place and Path(place).is_dir()), None)
"""The folder of the tables, or None where it is not there."""


def cases() -> list[str]:
    """The names of all cases; none where the goldens are not there."""
    return sorted(folder.name for folder in GOLDENS.iterdir() if folder.is_dir()) if GOLDENS else []


def expected(case: str) -> dict[str, Any]:
    """What Java reads from a case."""
    assert GOLDENS is not None
    return json.loads((GOLDENS / case / "expected.json").read_text())


def golden_store() -> Store:
    """A store that finds the files by the locations in the tables' metadata, however they are spelled."""
    return RelocatingStore(Stores(), [(WRITTEN_AT, str(GOLDENS))])
