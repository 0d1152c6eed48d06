"""Metadata tables: their rows are read in this process and go into the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from frazil.model.schema import Schema
from frazil.spark.types import spark_struct

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.spark.bridge import Bridge


def local_plan(bridge: Bridge, rows: pa.Table, schema: Schema, columns: Sequence[str], jsession: Any) -> Any:
    """A plan that has rows in it: some columns of a table whose schema is given."""
    import pyarrow as pa

    from frazil.spark.scan.arrow import as_told, held_struct, local_frame
    from frazil.spark.scan.spark_arrow import for_spark

    chosen = Schema(tuple(schema.find(name) for name in columns))
    batches = []
    for batch in rows.select(list(columns)).to_batches():
        arrays = [for_spark(array, field.type) for array, field in zip(batch.columns, chosen.fields, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(arrays, names=list(columns)))
    spark = bridge.session(jsession)
    told = spark_struct(chosen, dialect=bridge.dialect)["fields"]
    frame = as_told(local_frame(batches, spark, held_struct(told)), told, spark)
    return frame._jdf.queryExecution().optimizedPlan()
