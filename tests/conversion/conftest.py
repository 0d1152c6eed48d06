"""Lakes in every kind of catalog, on a disk: Lance's files are nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import frazil
from frazil.lake import Lake
from tests.catalogs import CATALOGS, lake_in


@pytest.fixture(params=CATALOGS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return lake_in(request.param, tmp_path)


@pytest.fixture(params=["folder", "sqlite"])
def connect(request: pytest.FixtureRequest) -> Callable[[Path], Lake]:
    """Makes a lake in a folder, and finds it again."""
    if request.param == "folder":
        return frazil.connect
    return lambda folder: frazil.connect(f"sqlite:///{folder}/lake.db", warehouse=folder)
