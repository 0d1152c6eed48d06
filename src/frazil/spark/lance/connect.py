"""A scan of a Lance table on Spark Connect: planned here, read by the server's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.lance.scan import LanceScan
from frazil.spark.bridge import dialect_of
from frazil.spark.lance.scan import column_named, fragments_frame, scan_plan
from frazil.spark.scan.native import output_struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARALLELISM = 16
"""A guess: a client cannot ask how many cores the server has."""


def connect_frame(scan: LanceScan, spark: Any) -> DataFrame:
    """The rows of a scan."""
    plan = scan.plan()
    wanted = tuple(column_named(scan.schema, name) for name in plan.columns)
    told = output_struct(wanted, dialect_of(spark))["fields"]
    found = scan_plan(scan.version, wanted, plan.where)
    return fragments_frame(scan.store, found, wanted, told, spark, PARALLELISM)
