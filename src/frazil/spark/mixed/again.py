"""Changes that are worked out from rows of the table: worked out again, if others change rows before they are in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from frazil.errors import CommitConflict
from frazil.iceberg.properties import COMMIT_NUM_RETRIES
from frazil.iceberg.row_changes import RowChanges
from frazil.spark.mixed.handle import MixedHandle, current
from frazil.spark.mixed.target import newest_of
from frazil.spark.plans import frame_of
from frazil.spark.scan.scans import logical_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.spark.bridge import Bridge


def until_committed(handle: MixedHandle, attempt: Callable[[MixedHandle], RowChanges]) -> RowChanges:
    """What an attempt gives, first with the state that a handle has, then with newer ones."""
    retries = handle.base.metadata.property_reader.get(COMMIT_NUM_RETRIES)
    for left in range(retries, -1, -1):
        try:
            return attempt(handle)
        except CommitConflict:
            newer = current(newest_of(handle.table))
            if not left or newer.schema.fields != handle.schema.fields:
                raise
            assert isinstance(newer, MixedHandle)
            handle = newer
    raise AssertionError("the last attempt returns or raises")  # pragma: no cover


def rows_of(bridge: Bridge, handle: MixedHandle, spark: SparkSession) -> DataFrame:
    """The rows of a table in the state that a handle has."""
    return frame_of(spark, logical_plan(bridge, handle, spark._jsparkSession, list(handle.schema.columns)))
