"""What tests of row-level commands look at: a table by every way of reading, and what is on the disk for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.changes import layouts
from tests.spark.scan.golden_rows import rows_in_process, rows_of
from tests.spark.write.disk import path_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.iceberg.table import IcebergTable
    from frazil.lake import Lake


@pytest.fixture
def table(lake: Lake, name: str) -> Callable[[], IcebergTable]:
    """The table of the test as it is now."""
    return lambda: lake.table(name.removeprefix("lake."))


@pytest.fixture
def on_disk(table: Callable[[], IcebergTable]) -> Callable[[], list[str]]:
    """Every file, hidden ones too, under the table's folder."""
    root = None

    def found() -> list[str]:
        nonlocal root
        root = root or path_of(table().location)
        return sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())

    return found


@pytest.fixture
def rows(spark: SparkSession, name: str, table: Callable[[], IcebergTable]) -> Callable[..., Counter[str]]:
    """The rows, after Spark's reader, Python workers and this process gave the same ones."""

    def read(ref: str | None = None) -> Counter[str]:
        found = rows_in_process(table().scan(ref=ref))
        full = name if ref is None else f"{name}.branch_{ref}"
        for way in ("auto", "arrow"):
            assert rows_of(spark.read.option("frazil.scan", way).table(full)) == found, way
        return found

    return read


@pytest.fixture(scope="module")
def views(spark: SparkSession, lake: Lake) -> Iterator[None]:
    """Rows that are not in a lake: `old`, those that each table begins with, and `src`."""
    for view, given in (("old", layouts.ROWS), ("src", layouts.SOURCE)):
        spark.createDataFrame(given, layouts.COLUMNS).createOrReplaceTempView(view)
    yield
    for view in ("old", "src"):
        spark.catalog.dropTempView(view)


@pytest.fixture
def wanted(spark: SparkSession, views: None) -> Callable[[str], Counter[str]]:
    """What a SELECT gives, in the form of `rows`."""
    return lambda query: rows_of(spark.sql(query))


@pytest.fixture
def no_file_is_left(lake: Lake, name: str) -> Iterator[None]:
    """After the test, every data and delete file on the disk is one that a snapshot has."""
    yield
    assert left_behind(lake.table(name.removeprefix("lake."))) == []


def left_behind(table: IcebergTable) -> list[str]:
    """Files in the table's data folder that no snapshot has."""
    used: set[str] = set()
    for kind in ("all_data_files", "all_delete_files"):
        used.update(str(path_of(path)) for path in table.inspect(kind).column("file_path").to_pylist())
    root = path_of(table.location) / "data"
    return sorted(str(file) for file in root.rglob("*") if file.is_file() and str(file) not in used)


def of_all(found: Counter[str]) -> list[Any]:
    """Rows in an order that can be read when a test fails."""
    return sorted(found.elements())
