"""A table as a DataFrame, without a catalog around it: `table.to_spark(spark)`.

In a classic session it is the plan that a query by name gets. A session of Spark Connect has no JVM to put that plan
into: there the table is planned in this process, with `where` and `columns`, and the server's Python workers read it.
They must have Frazil, and reach the table's files at the same locations.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from frazil.errors import Unsupported
from frazil.io import location as locations
from frazil.lake import connect
from frazil.spark.bridge import Bridge, dialect_of, prepare
from frazil.spark.formats import format_named, handle_of
from frazil.spark.handles import TableHandle
from frazil.spark.plans import frame_of
from frazil.spark.scan.arrow import Rows, frame_of_tasks, without_history
from frazil.spark.scan.files import routed
from frazil.spark.scan.native import output_struct
from frazil.spark.scan.relations import quoted_name
from frazil.spark.scan.scans import logical_plan
from frazil.spark.session import active_session, check_version, is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.iceberg.scan import Scan

_CONNECT_PARALLELISM = 16
"""A guess: a client cannot ask how many cores the server has. Chunks of tasks are four times as many."""

_LOCK = threading.Lock()
_bridges: dict[str, Bridge] = {}


def table_frame(
    table: Any,
    spark: SparkSession | None = None,
    *,
    where: str | None = None,
    columns: Iterable[str] | None = None,
    version: int | None = None,
    ref: str | None = None,
    as_of: int | str | datetime | None = None,
) -> DataFrame:
    """The rows of a snapshot as a DataFrame of a session."""
    session = active_session() if spark is None else spark
    check_version(session)
    names = None if columns is None else list(columns)
    if is_connect(session):
        scan = table.scan(where, names, version=version, ref=ref, as_of=as_of)
        return format_named(table.format).connect_frame(scan, session)
    handle = handle_of(table).at(version, ref, as_of)
    known = handle.schema.columns
    hidden = [name for name in names or () if name not in known and name in handle.metadata_columns]
    frame = _classic(handle, session, [*known, *hidden])
    if where is not None:
        frame = frame.where(where)
    return frame if names is None else frame.select(*map(quoted_name, names))


def _classic(handle: TableHandle, spark: SparkSession, columns: list[str]) -> DataFrame:
    frame = frame_of(spark, logical_plan(_bridge(spark), handle, spark._jsparkSession, columns))
    return frame.select(*map(quoted_name, columns))  # a plan has them in the order in which they are read


def _bridge(spark: SparkSession) -> Bridge:
    """The bridge of tables that come by no catalog: one for each Spark."""
    key = spark.sparkContext.applicationId
    with _LOCK:
        found = _bridges.get(key)
        if found is None:
            prepare(spark)
            _bridges.clear()  # of Sparks that were stopped
            found = _bridges[key] = Bridge(connect("memory:"), spark, "")
            found.classes.Frazil.bridges.put(found.key, found)
    return found


def iceberg_on_connect(scan: Scan, spark: Any) -> DataFrame:
    """A scan that the server's workers carry out."""
    from pyspark.sql.types import StructType

    place = routed(scan.store, scan.metadata.location)
    if locations.parse(place).scheme == "memory":
        raise Unsupported(f"{place} is in the memory of this process", hint="send its rows: createDataFrame(arrow)")
    fields = scan.output.fields
    schema = StructType.fromJson(output_struct(fields, dialect_of(spark)))
    rows = Rows(scan.store, without_history(scan.metadata), scan.schema, fields, by_number=False)
    return frame_of_tasks(rows, list(scan.plan().tasks()), spark, schema, _CONNECT_PARALLELISM)
