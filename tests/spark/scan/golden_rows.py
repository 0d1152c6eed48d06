"""Rows of a golden table in one comparable form, read by Spark and in process."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa

from frazil.errors import Unsupported
from frazil.iceberg.scan import Scan
from frazil.model.schema import Schema
from frazil.model.variant import Node, read_node
from frazil.spark.scan.spark_arrow import for_spark
from frazil.spark.types import Dialect, spark_type


def rows_in_process(scan: Scan) -> Counter[str]:
    """What the kernel's reader gives, in the types Spark has for it."""
    table = scan.to_arrow()
    arrays = [
        for_spark(table.column(index).combine_chunks(), field.type) for index, field in enumerate(scan.output.fields)
    ]
    return counted(pa.table(arrays, names=[field.name for field in scan.output.fields]), table.num_rows)


def columns_spark_lacks(version: str, schema: Schema) -> list[str]:
    """The columns that a version of PySpark has no type for; it has none with nanoseconds, which Spark 4.3 has."""
    dialect, lacking = replace(Dialect.of_version(version), nanoseconds=False), []
    for column in schema.fields:
        try:
            spark_type(column.type, dialect=dialect)
        except Unsupported:
            lacking.append(column.name)
    return lacking


def rows_of(frame: Any) -> Counter[str]:
    """What a DataFrame gives."""
    # not toArrow(): it casts, and refuses nulls of structs whose fields are required
    batches = frame._collect_as_arrow()
    return counted(pa.Table.from_batches(batches), sum(batch.num_rows for batch in batches)) if batches else Counter()


def counted(table: pa.Table, rows: int) -> Counter[str]:
    columns = [[plain(value) for value in column] for column in table.columns]
    return Counter(map(repr, zip(*columns, strict=True) if columns else [()] * rows))


def _variant(node: Node) -> Any:
    """A variant without the width of its numbers, which writers and shredding may choose."""
    kind, value = node
    if kind == "object":
        return sorted((name, _variant(inner)) for name, inner in value.items())
    if kind == "array":
        return [_variant(inner) for inner in value]
    return (re.sub(r"^(int|decimal)\d+$", r"\1", kind), str(value))


def plain(scalar: pa.Scalar) -> Any:
    """A value without what differs only in how it is shown."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if isinstance(scalar, pa.ExtensionScalar):
        return plain(scalar.value)
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        if sorted(names) == ["metadata", "value"]:
            return _variant(read_node(scalar["metadata"].as_py(), scalar["value"].as_py()))
        if sorted(names) == ["srid", "wkb"]:
            return (scalar["srid"].as_py(), scalar["wkb"].as_py())
        return [(field.name, plain(scalar[index])) for index, field in enumerate(kind)]
    if pa.types.is_map(kind):
        pairs = zip(scalar.values.field(0), scalar.values.field(1), strict=True)
        return sorted(((plain(key), plain(value)) for key, value in pairs), key=repr)
    if pa.types.is_list(kind):
        return [plain(item) for item in scalar.values]
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return (scalar.value, kind.unit if pa.types.is_timestamp(kind) else "time")
    value = scalar.as_py()
    return value.isoformat() if isinstance(value, dt.date) else value
