"""Mixed tables written by Amoro's library, with what it reads from them: see the README.md beside them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from frazil.iceberg.committer import ReadOnly, TableState
from frazil.iceberg.metadata_json import parse_metadata
from frazil.iceberg.table import IcebergTable
from frazil.io.store import RelocatingStore, Store, Stores
from frazil.mixed.table import MixedTable

WRITTEN_AT = "/golden/mixed"
GOLDENS = Path(__file__).parents[1] / "goldens/mixed"


def cases() -> list[str]:
    """All states: `k_int` is an end, `k_int/s1` a step on the way there."""
    ends = sorted(folder for folder in GOLDENS.iterdir() if folder.is_dir())
    steps = [step for end in ends if (end / "steps").is_dir() for step in sorted((end / "steps").iterdir())]
    return [end.name for end in ends] + [f"{step.parents[1].name}/{step.name}" for step in steps]


def folder(case: str) -> Path:
    """Where a state's expectations and metadata are."""
    name, _, step = case.partition("/")
    return GOLDENS / name / "steps" / step if step else GOLDENS / name


@cache
def expected(case: str) -> dict[str, Any]:
    """What Amoro reads from a state."""
    return json.loads((folder(case) / "expected.json").read_text())


def golden_store(case: str) -> Store:
    """A store that finds the files by the locations in the metadata."""
    return RelocatingStore(Stores(), [(WRITTEN_AT, str(GOLDENS / case.partition("/")[0] / "warehouse"))])


def _store_table(case: str, metadata: str) -> IcebergTable:
    data = (folder(case) / "warehouse" / metadata).read_bytes()
    state = TableState(parse_metadata(data), f"{WRITTEN_AT}/{metadata}")
    return IcebergTable(case, golden_store(case), ReadOnly(state), state)


@cache
def golden(case: str) -> MixedTable:
    """The table in a state."""
    told = expected(case)
    base = _store_table(case, told["base_metadata"])
    change = _store_table(case, told["change_metadata"]) if told["keyed"] else None
    return MixedTable(case, base, change, told.get("primary_key", ()))
