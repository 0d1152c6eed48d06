"""Tables written by the Java library, with what it reads from them: see the README.md beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from frazil.io.store import RelocatingStore, Store, Stores

WRITTEN_AT = "/golden_iceberg/db"
"""Where the tables were when they were written: every location in them begins so."""

GOLDENS = Path(__file__).parent / "goldens/iceberg"


def cases() -> list[str]:
    """The names of all cases."""
    return sorted(folder.name for folder in GOLDENS.iterdir() if folder.is_dir())


def expected(case: str) -> dict[str, Any]:
    """What Java reads from a case."""
    return json.loads((GOLDENS / case / "expected.json").read_text())


def golden_store() -> Store:
    """A store that finds the files by the locations in the tables' metadata, however they are spelled."""
    return RelocatingStore(Stores(), [(WRITTEN_AT, str(GOLDENS))])
