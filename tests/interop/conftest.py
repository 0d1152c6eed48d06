"""Tables of the cases, each built once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import frazil
from frazil.iceberg.table import IcebergTable
from tests.interop.cases import Row, registered

Built = Callable[[str, int], tuple[IcebergTable, list[Row]]]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The table of a case in a format version, and its rows. Tests must not change it."""
    made: dict[tuple[str, int], tuple[IcebergTable, list[Row]]] = {}
    warehouse: Path = tmp_path_factory.mktemp("interop")

    def build(name: str, version: int) -> tuple[IcebergTable, list[Row]]:
        if (name, version) not in made:
            lake = frazil.connect(warehouse / f"{name}_v{version}")
            made[name, version] = registered()[name].build(lake, version)
        return made[name, version]

    return build
