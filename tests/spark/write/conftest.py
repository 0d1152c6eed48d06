"""What tests of writing look at: the files of a table, as the manifests and as the disk have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.write.disk import path_of

if TYPE_CHECKING:
    from frazil.iceberg.data_file import DataFile
    from frazil.iceberg.table import IcebergTable
    from frazil.lake import Lake


@pytest.fixture
def table(lake: Lake, name: str) -> Callable[[], IcebergTable]:
    """The table of the test as it is now."""
    return lambda: lake.table(name.removeprefix("lake."))


@pytest.fixture
def files(table: Callable[[], IcebergTable]) -> Callable[[], list[DataFile]]:
    """The data files of the current snapshot."""
    return lambda: [task.file for task in table().scan().plan().tasks()]


@pytest.fixture
def metrics(table: Callable[[], IcebergTable]) -> Callable[[], list[dict[str, Any]]]:
    """The metrics of the data files of the current snapshot, by field id."""

    def plain(value: Any) -> Any:
        return dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value or {}

    return lambda: [{key: plain(item) for key, item in row.items()} for row in table().inspect("files").to_pylist()]


@pytest.fixture
def on_disk(table: Callable[[], IcebergTable]) -> Callable[[], list[str]]:
    """Every file, hidden ones too, under the table's data folder."""

    def found() -> list[str]:
        root = path_of(table().location) / "data"
        return sorted(str(file) for file in root.rglob("*") if file.is_file())

    return found
