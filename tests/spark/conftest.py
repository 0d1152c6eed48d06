"""Each test module gets a lake of its own in the one session."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import frazil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake

_LAKES = itertools.count(1)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake on the disk, attached as catalog `lake`."""
    made = frazil.connect(tmp_path_factory.mktemp("lake"))
    made.attach(spark)
    made.create_namespace("db")
    yield made
    made.detach(spark)


@pytest.fixture
def name(lake: Lake) -> str:
    """The name of a table that is not there yet, in the lake: `lake.db.t7`."""
    return f"lake.db.t{next(_LAKES)}"


@pytest.fixture
def sql(spark: SparkSession, lake: Lake) -> Callable[..., list[tuple[Any, ...]]]:
    """Run a statement; its rows as tuples."""

    def run(text: str, **arguments: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(text, **arguments).collect()]

    return run
