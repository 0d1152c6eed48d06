"""Iceberg's own Spark runtime and Frazil in one session and one warehouse: `java.db.t` and `lake.db.t` are one table.

Opt-in: `make interop` brings Spark 4.1 and the runtime (from Maven) and says where it is by FRAZIL_ICEBERG_RUNTIME.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil.lake import Lake
from tests.spark_session import classic_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUNTIME = os.environ.get("FRAZIL_ICEBERG_RUNTIME")
_HERE = Path(__file__).parent
_NAMES = itertools.count(1)
collect_ignore_glob = [] if _RUNTIME else ["test_*.py"]

Sql = Callable[[str], list[tuple[Any, ...]]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark(warehouse: Path) -> Iterator[SparkSession]:
    """A session with Iceberg's runtime and its extensions; catalog `java` is Iceberg's Hadoop catalog."""
    conf = {
        "spark.jars": str(_RUNTIME),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.java": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.java.type": "hadoop",
        "spark.sql.catalog.java.warehouse": str(warehouse),
        "spark.sql.catalog.java.cache-enabled": "false",
    }
    with classic_session("local[2]", **conf) as session:
        yield session


@pytest.fixture(scope="session")
def lake(spark: SparkSession, warehouse: Path) -> Iterator[Lake]:
    """The same warehouse as a lake of ours, catalog `lake`."""
    made = frazil.connect(warehouse)
    made.create_namespace("db")
    made.attach(spark)
    yield made
    made.detach(spark)


@pytest.fixture
def name(lake: Lake) -> str:
    """The name of a table that is not there yet, without its catalog."""
    return f"db.t{next(_NAMES)}"


@pytest.fixture
def sql(spark: SparkSession, lake: Lake) -> Sql:
    """Run a statement of either side; its rows as tuples, in order."""

    def run(text: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(map(_comparable, row)) for row in spark.sql(text).collect()), key=repr)

    return run


def _comparable(value: Any) -> Any:
    """A value that is equal to itself, which NaN is not."""
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, tuple | list):
        return [_comparable(one) for one in value]
    return {key: _comparable(one) for key, one in value.items()} if isinstance(value, dict) else value
