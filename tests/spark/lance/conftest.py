"""Lance tables of a lake, and pylance to look at them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

lance = pytest.importorskip("lance")


@pytest.fixture
def dataset(lake):
    """What pylance finds in a table, by its name in Spark."""

    def opened(name, version=None):
        return lance.dataset(lake.table(name.removeprefix("lake.")).location, version=version)

    return opened


@pytest.fixture
def made(spark, lake, name):
    """A table of 100 rows in four fragments, of which some are deleted: its name, and the ids that are left."""
    table = lake.create_table(name.removeprefix("lake."), "id BIGINT NOT NULL, word STRING, x DOUBLE", format="lance")
    for start in range(0, 100, 25):
        table.append([{"id": n, "word": f"w{n % 7}", "x": n / 4} for n in range(start, start + 25)])
    table.delete("id IN (3, 30, 31)")
    left = [n for n in range(100) if n not in (3, 30, 31)]
    return SimpleNamespace(name=name, table=table, ids=left)
