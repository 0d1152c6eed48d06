"""Scans of any table, without a catalog around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import frazil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def bridge(spark: SparkSession) -> Iterator[Any]:
    """A bridge to an empty lake: what scans ask of it is all there."""
    from frazil.spark.bridge import Bridge, prepare

    prepare(spark)
    made = Bridge(frazil.connect("memory:"), spark, "goldens")
    made.classes.Frazil.bridges.put(made.key, made)
    yield made
    made.classes.Frazil.bridges.remove(made.key)


@pytest.fixture
def read(bridge: Any) -> Callable[..., Any]:
    """A DataFrame of a table: `read(table, snapshot, schema, columns, **options)`."""
    from pyspark.sql import DataFrame

    from frazil.spark.iceberg.handle import IcebergHandle
    from frazil.spark.scan.scans import logical_plan

    def frame(table: Any, snapshot: Any = None, schema: Any = None, columns: Any = None, mode: str = "auto") -> Any:
        told = table.schema if schema is None else schema
        handle = IcebergHandle(table, told, snapshot or table.current_snapshot).with_options({"frazil.scan": mode})
        session = bridge.spark._jsparkSession
        plan = logical_plan(bridge, handle, session, told.columns if columns is None else columns)
        return DataFrame(bridge.jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan), bridge.spark)

    return frame
