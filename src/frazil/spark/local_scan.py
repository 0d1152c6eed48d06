"""Metadata tables: their rows are read in this process and go into the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from frazil.iceberg.metadata_tables import Source, read
from frazil.model.schema import Schema
from frazil.spark.handles import TableHandle
from frazil.spark.types import spark_struct

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge


def local_plan(bridge: Bridge, handle: TableHandle, jsession: Any, columns: Sequence[str]) -> Any:
    """A plan that has the rows of a metadata table in it."""
    import pyarrow as pa

    from frazil.spark.scan.arrow import as_told, held_struct, local_frame
    from frazil.spark.scan.spark_arrow import for_spark

    table = handle.table
    assert handle.metadata_name is not None
    rows = read(Source(table.metadata, table.store, table.metadata_location, handle.snapshot), handle.metadata_name)
    schema = Schema(tuple(handle.schema.find(name) for name in columns))
    batches = []
    for batch in rows.select(list(columns)).to_batches():
        arrays = [for_spark(array, field.type) for array, field in zip(batch.columns, schema.fields, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(arrays, names=list(columns)))
    spark = bridge.session(jsession)
    told = spark_struct(schema, dialect=bridge.dialect)["fields"]
    frame = as_told(local_frame(batches, spark, held_struct(told)), told, spark)
    return frame._jdf.queryExecution().optimizedPlan()
