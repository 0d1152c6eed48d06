"""Lakes in every kind of catalog, on a disk: Lance's files are nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import frazil
from frazil.lake import Lake

CATALOGS = ("folder", "memory", "sqlite")


@pytest.fixture(params=CATALOGS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "folder":
        return frazil.connect(tmp_path / "lake")
    if request.param == "memory":
        from frazil.catalog.memory import MemoryCatalog

        return Lake(MemoryCatalog(warehouse=str(tmp_path / "lake")))
    return frazil.connect(f"sqlite:///{tmp_path}/lake.db", warehouse=tmp_path / "lake")


@pytest.fixture(params=["folder", "sqlite"])
def connect(request: pytest.FixtureRequest) -> Callable[[Path], Lake]:
    """Makes a lake in a folder, and finds it again."""
    if request.param == "folder":
        return frazil.connect
    return lambda folder: frazil.connect(f"sqlite:///{folder}/lake.db", warehouse=folder)
