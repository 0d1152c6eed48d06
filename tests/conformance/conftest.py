"""One lake for tables that were made elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import frazil
from tests.conformance.ways import CATALOG
from tests.interop.conftest import built  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.conformance)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake whose catalog takes in tables wherever they are."""
    folder = tmp_path_factory.mktemp("conformance")
    made = frazil.connect(f"sqlite:///{folder}/catalog.db", warehouse=folder / "warehouse")
    made.attach(spark, CATALOG)
    made.create_namespace("db")
    yield made
    made.detach(spark, CATALOG)
    made.close()
