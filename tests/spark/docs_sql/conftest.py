"""The catalog `prod` with namespace `db`, of which Iceberg's documentation tells.

Ids of snapshots are those of the documentation: the fixture `snapshot_ids` says which ones come next.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

import frazil
from frazil import ambient
from tests.spark.docs_sql.cases import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake


@pytest.fixture(scope="module")
def prod(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake whose catalog can rename tables and put them anywhere."""
    folder = tmp_path_factory.mktemp("prod")
    made = frazil.connect(f"sqlite:///{folder}/prod.db", warehouse=folder / "warehouse")
    made.attach(spark, "prod")
    made.create_namespace("db")
    yield made
    made.detach(spark, "prod")
    made.close()


@pytest.fixture
def world(spark: SparkSession, prod: Lake) -> Iterator[World]:
    """The catalog; tables that a test makes are dropped after it."""
    before = prod.tables("db")
    yield World(spark, prod)
    for name in prod.tables("db"):
        if name not in before:
            prod.drop_table(name, purge=True)


@pytest.fixture
def snapshot_ids(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`snapshot_ids(1234, 4567)`: the ids of the next snapshots; those after them count on."""

    def use(*wanted: int) -> None:
        following = itertools.chain(wanted, itertools.count(wanted[-1] + 1))
        monkeypatch.setattr(ambient, "new_snapshot_id", lambda: next(following))

    return use
