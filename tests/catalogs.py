"""Lakes in every kind of catalog that needs no service, on a disk: Lance's files are nowhere else."""

from __future__ import annotations

from pathlib import Path

import frazil
from frazil.catalog.memory import MemoryCatalog
from frazil.lake import Lake

CATALOGS = ("folder", "memory", "sqlite")


def lake_in(kind: str, folder: Path) -> Lake:
    """A lake of one kind of catalog, with its files in a folder."""
    if kind == "folder":
        return frazil.connect(folder / "lake")
    if kind == "memory":
        return Lake(MemoryCatalog(warehouse=str(folder / "lake")))
    return frazil.connect(f"sqlite:///{folder}/lake.db", warehouse=folder / "lake")
