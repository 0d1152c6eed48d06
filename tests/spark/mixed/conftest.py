"""Keyed tables on Spark, read in all ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS: dict[str, dict[str, str]] = {
    "by Spark": {},
    "joined": {"frazil.merge": "shuffle"},
    "by workers": {"frazil.scan": "arrow"},
}
"""Options of a read, each of which gives the same rows."""


@pytest.fixture
def read(spark: SparkSession) -> Callable[..., Any]:
    """A DataFrame of a handle, with no lake around it: `read(handle, columns, **options)`."""
    from frazil.spark.frame import _classic

    def frame(handle: Any, columns: Any = None, **options: str) -> Any:
        names = list(handle.schema.columns) if columns is None else list(columns)
        return _classic(handle.with_options(options), spark, names)

    return frame
