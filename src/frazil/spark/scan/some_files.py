"""The rows of some files of a table, as a DataFrame: what is rewritten, is read so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil import ambient
from frazil.io.deletion_vector import DeletionVector
from frazil.spark.plans import frame_of
from frazil.spark.scan.contents import OnlyFiles
from frazil.spark.scan.scans import logical_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.spark.bridge import Bridge
    from frazil.spark.iceberg.handle import IcebergHandle


def rows_of_files(
    bridge: Bridge,
    spark: SparkSession,
    handle: IcebergHandle,
    columns: Sequence[str],
    paths: Sequence[str],
    *,
    without: Mapping[str, DeletionVector] | None = None,
    split_bytes: int | None = None,
) -> DataFrame:
    """The live rows of these files, but for those at some positions. A task reads about `split_bytes`."""
    files = OnlyFiles(str(ambient.new_uuid()), pa.array(sorted(paths), pa.string()), without or {})
    options = dict(handle.options) if split_bytes is None else {**handle.options, "split-size": str(split_bytes)}
    plan = logical_plan(bridge, replace(handle, files=files, options=options), spark._jsparkSession, columns)
    return frame_of(spark, plan)
