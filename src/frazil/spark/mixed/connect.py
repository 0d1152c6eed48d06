"""A scan of a mixed table on Spark Connect: planned here, read by the server's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.errors import Unsupported
from frazil.iceberg.scan import Scan
from frazil.io import location as locations
from frazil.mixed.scan import MixedScan
from frazil.spark.bridge import dialect_of
from frazil.spark.frame import CONNECT_PARALLELISM, iceberg_on_connect
from frazil.spark.mixed.arrow import merged_frame
from frazil.spark.scan.files import routed
from frazil.spark.scan.native import output_struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def connect_frame(scan: MixedScan | Scan, spark: Any) -> DataFrame:
    """The rows of a scan."""
    if isinstance(scan, Scan):
        return iceberg_on_connect(scan, spark)
    place = routed(scan.base.store, scan.base.metadata.location)
    if locations.parse(place).scheme == "memory":
        raise Unsupported(f"{place} is in the memory of this process", hint="send its rows: createDataFrame(arrow)")
    fields = scan.output.fields
    told = output_struct(fields, dialect_of(spark))["fields"]
    return merged_frame(scan.plan(), scan.primary_key, fields, told, spark, CONNECT_PARALLELISM, by_number=False)
