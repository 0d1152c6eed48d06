"""Every kind of catalog, for the suites that run against all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from frazil import ambient
from frazil.catalog.catalog import Catalog
from frazil.catalog.filesystem import FilesystemCatalog
from frazil.catalog.memory import MemoryCatalog
from frazil.catalog.sql import SqlCatalog
from frazil.io.store import Store, Stores

KINDS = ["memory", "folder", "memory folder", "sqlite", "postgresql"]
POINTER_KINDS = ["memory", "sqlite", "postgresql"]
_SEEDS = itertools.count()  # a test's own: equal seeds draw equal names, and memory stores outlive tests


@pytest.fixture
def open_catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str, Store], Catalog]]:
    """Makes a catalog of a kind over a store; all are closed at the end."""
    made: list[Catalog] = []

    def build(kind: str, store: Store) -> Catalog:
        catalog: Catalog
        match kind:
            case "memory":
                catalog = MemoryCatalog(store, f"memory://{ambient.new_uuid()}/w")
            case "folder":
                catalog = FilesystemCatalog(store, str(tmp_path / "warehouse"))
            case "memory folder":
                catalog = FilesystemCatalog(store, f"memory://{ambient.new_uuid()}/w")
            case "sqlite":
                catalog = SqlCatalog(f"sqlite:///{tmp_path}/lake.db", store, str(tmp_path / "warehouse"))
            case _:
                url = request.getfixturevalue("postgres_url")
                catalog = SqlCatalog(url, store, str(tmp_path / "warehouse"))
        made.append(catalog)
        return catalog

    yield build
    for catalog in made:
        catalog.close()


@pytest.fixture(params=KINDS)
def catalog(request: pytest.FixtureRequest, open_catalog: Callable[[str, Store], Catalog]) -> Catalog:
    return open_catalog(request.param, Stores())


@pytest.fixture(params=POINTER_KINDS)
def pointer_catalog(request: pytest.FixtureRequest, open_catalog: Callable[[str, Store], Catalog]) -> Catalog:
    return open_catalog(request.param, Stores())


@pytest.fixture
def frozen_clock() -> Iterator[None]:
    """Waiting takes no time."""
    with ambient.replaced(ambient.Ambient(seed=next(_SEEDS), start_ms=1_800_000_000_000)):
        yield
