"""What the optimizer is told of a relation: bytes and rows, and where it reckons with costs, something of each column.

All of it is an estimate: rows that deletes took are counted, bounds may be wider than the values, and how many distinct
values there are comes from a sketch, if somebody made one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.snapshot import Snapshot
from frazil.model.schema import Schema
from frazil.model.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    TimestamptzType,
)

THETA = "apache-datasketches-theta-v1"
_NDV = "ndv"
_BOUNDED = (BooleanType, IntegerType, LongType, FloatType, DoubleType, DecimalType, DateType, TimestamptzType)
"""Types of which Spark takes bounds."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """How much some files are, before deletes; `columns` by name, as the JVM reads it."""

    bytes: int = 0
    rows: int = 0
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """What the JVM is sent."""
        return {"size": self.bytes, "rows": self.rows, "columns": self.columns}


_NO_COLUMNS = Schema(())


def of_files(
    parts: Sequence[Entries], schema: Schema = _NO_COLUMNS, distinct: Mapping[int, int] | None = None
) -> Statistics:
    """The statistics of files, and of those columns whose metrics they have; `distinct` as far as it is known."""
    size, rows = (
        sum(int(entries.numpy(kind).sum()) for entries in parts) for kind in (ids.FILE_SIZE, ids.RECORD_COUNT)
    )
    columns = {one.name: _column(parts, one, rows, distinct or {}) for one in schema.fields}
    return Statistics(size, rows, {name: known for name, known in columns.items() if known})


def _column(parts: Sequence[Entries], column: NestedField, rows: int, distinct: Mapping[int, int]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    if column.id in distinct:
        known["distinct"] = min(distinct[column.id], rows)
    if not column.type.is_primitive or not parts:
        return known
    nulls = pa.chunked_array([entries.map_values(ids.NULL_COUNTS, column.id) for entries in parts])
    if not nulls.null_count:
        known["nulls"] = pc.sum(nulls).as_py() or 0
    if isinstance(column.type, _BOUNDED):
        pairs = [entries.bounds(column) for entries in parts]
        lower, upper = (pa.chunked_array([pair[side] for pair in pairs]) for side in (0, 1))
        if lower.null_count < len(lower) and lower.null_count == upper.null_count == _empty(parts, column):
            ends = [_shown(pc.min(lower), column), _shown(pc.max(upper), column)]
            if None not in ends:
                known["min"], known["max"] = ends
    return known


def _empty(parts: Sequence[Entries], column: NestedField) -> int:
    """How many files have no value of the column."""
    return sum(
        pc.sum(pc.equal(entries.map_values(ids.NULL_COUNTS, column.id), entries.column(ids.RECORD_COUNT))).as_py() or 0
        for entries in parts
    )


def _shown(value: pa.Scalar, column: NestedField) -> int | str | None:
    """A bound as the JVM takes it: dates and times as Spark counts them, the rest as text; infinite ones are none."""
    if isinstance(column.type, DateType | TimestamptzType):
        number: int = value.cast(pa.int32() if isinstance(column.type, DateType) else pa.int64()).as_py()
        return number
    plain = value.as_py()
    if isinstance(plain, float) and not math.isfinite(plain):
        return None
    return str(plain).lower()


def distinct_values(metadata: TableMetadata, snapshot: Snapshot | None) -> dict[int, int]:
    """About how many values each column has, from the sketches of this snapshot or of the nearest before it."""
    by_snapshot = {file.snapshot_id: file for file in metadata.statistics}
    if snapshot is None or not by_snapshot:
        return {}
    for known in metadata.ancestors_of(snapshot.snapshot_id):
        if known.snapshot_id in by_snapshot:
            blobs = by_snapshot[known.snapshot_id].blob_metadata
            sketches = [blob for blob in blobs if blob.type == THETA and len(blob.fields) == 1]
            return {
                blob.fields[0]: int(blob.properties[_NDV])
                for blob in sketches
                if blob.properties.get(_NDV, "").isdigit()
            }
    return {}
