"""Metadata tables: their rows are read in this process and go into the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from frazil.iceberg.metadata_tables import Source, read
from frazil.model.schema import Schema
from frazil.spark.handles import TableHandle
from frazil.spark.types import spark_struct

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.spark.bridge import Bridge


def local_plan(bridge: Bridge, handle: TableHandle, jsession: Any, columns: Sequence[str]) -> Any:
    """A plan that has the rows of a metadata table in it."""
    table = handle.table
    assert handle.metadata_name is not None
    rows = read(Source(table.metadata, table.store, table.metadata_location, handle.snapshot), handle.metadata_name)
    schema = Schema(tuple(handle.schema.find(name) for name in columns))
    return arrow_plan(bridge, jsession, rows.select(list(columns)), schema)


def arrow_plan(bridge: Bridge, jsession: Any, rows: pa.Table, schema: Any) -> Any:
    """A LocalRelation of Arrow rows."""
    from pyspark.sql.types import StructType

    spark = bridge.session(jsession)
    told = StructType.fromJson(spark_struct(schema, dialect=bridge.dialect))
    given: Any = _plain(rows) if rows.num_rows else []
    return spark.createDataFrame(given, schema=told)._jdf.queryExecution().optimizedPlan()


def _plain(rows: pa.Table) -> pa.Table:
    """Without Arrow's extension types, which Spark does not take: a uuid is text to it."""
    import uuid

    import pyarrow as pa

    for index, field in enumerate(rows.schema):
        if isinstance(field.type, pa.UuidType):
            storage = rows.column(index).combine_chunks()
            texts = [None if value is None else str(uuid.UUID(bytes=value)) for value in _bytes_of(storage)]
            rows = rows.set_column(index, field.name, pa.array(texts, pa.string()))
    return rows


def _bytes_of(array: Any) -> list[bytes | None]:
    chunk = array.combine_chunks() if hasattr(array, "combine_chunks") and hasattr(array, "chunks") else array
    return list(chunk.storage.to_pylist())
