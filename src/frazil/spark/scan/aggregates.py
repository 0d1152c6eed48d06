"""COUNT, MIN and MAX of a whole table from its metadata, where that says exactly what the rows would.

It does for files from which nothing was deleted and of which the filter takes all rows; deletion vectors tell how many
rows they take. Counts of nulls are exact, and so are bounds of numbers and times; bounds of text may have been cut, so
only those that leave one value are taken.
What a file does not tell is not guessed: there is no answer then, and Spark reads the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries, Mask, MetricsStats
from frazil.iceberg.planning import PlannedFiles, ScanPlan
from frazil.iceberg.scan import Scan
from frazil.model.expressions import AlwaysTrue
from frazil.model.residuals import residuals
from frazil.model.stats_evaluator import must_match
from frazil.model.transforms import IdentityTransform
from frazil.model.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    VariantType,
)
from frazil.spark.scan.columns import pack, to_spark
from frazil.spark.scan.filters import exact_filter, numbered
from frazil.spark.scan.plan import Source

COUNT, MIN, MAX = "count", "min", "max"

_FLOATING = (FloatType, DoubleType)
_INSTANTS = (TimestampType, TimestamptzType)
_ORDERED = (
    *(BooleanType, IntegerType, LongType, *_FLOATING, DecimalType, StringType, DateType, TimeType),
    *_INSTANTS,
)
"""Types whose values are in Spark what they are here, in the same order."""


class _NotToldError(Exception):
    """The metadata does not say it exactly."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A question about all rows: how many there are, or about a column, how many values, the least, the greatest."""

    function: str
    column: str | None = None


def answer(source: Source, asked: Sequence[Aggregate], filters: str) -> bytes | None:
    """One row, packed as the JVM takes it; None if the rows must be read. `filters` is the JSON of Spark's."""
    schema = source.schema
    where = exact_filter(filters, schema)
    by_name = {field.name: field for field in schema.fields}
    if where is None or not all(_is_possible(one, by_name.get(one.column or "")) for one in asked):
        return None
    columns = frozenset(by_name[one.column].id for one in asked if one.column is not None)
    scan = Scan(source.metadata, source.store, source.snapshot, numbered(schema), where)
    plan = replace(scan, metrics_of=columns, appends=source.appends).plan()
    deleted = plan.deleted_count
    if deleted is None or (deleted and columns) or not all(_takes_all_rows(plan, part) for part in plan.parts):
        return None
    try:
        found = [_value(one, by_name.get(one.column or ""), plan, deleted) for one in asked]
    except _NotToldError:
        return None
    return b"".join([(1).to_bytes(4, "little"), *map(pack, found)])


def _is_possible(one: Aggregate, column: NestedField | None) -> bool:
    if one.function == COUNT:
        return one.column is None or (column is not None and _has_counts(column))
    return column is not None and isinstance(column.type, _ORDERED)


def _has_counts(column: NestedField) -> bool:
    return column.type.is_primitive and not isinstance(column.type, VariantType)


def _takes_all_rows(plan: ScanPlan, part: PlannedFiles) -> bool:
    """Whether the filter is true for every row of the planned files, by their partitions or else by their metrics."""
    entries = part.entries
    which, filters = residuals(plan.schema, entries.spec, plan.filter, entries.partition_columns(), len(entries))
    stats = MetricsStats(entries, {column.id: column for column in plan.schema.all_fields()})
    return all(
        isinstance(left, AlwaysTrue) or bool(must_match(left, stats)[which == number].all())
        for number, left in enumerate(filters)
    )


def _value(one: Aggregate, column: NestedField | None, plan: ScanPlan, deleted: int) -> pa.Array:
    parts = [part.entries for part in plan.parts]
    if one.function == COUNT:
        return pa.array([sum(_count(entries, column) for entries in parts) - deleted], pa.int64())
    assert column is not None
    found = [to_spark(_extremes(entries, column, one.function), column.type) for entries in parts]
    values = pa.concat_arrays([*found, to_spark(pa.nulls(0), column.type)])
    return pa.repeat(pc.min_max(values)[one.function], 1)


def _count(entries: Entries, column: NestedField | None) -> int:
    rows = entries.numpy(ids.RECORD_COUNT)
    return int(rows.sum() - (0 if column is None else _nulls(entries, column).sum()))


def _nulls(entries: Entries, column: NestedField) -> npt.NDArray[np.int64]:
    """How many nulls each file has."""
    rows = entries.numpy(ids.RECORD_COUNT)
    constant = _constant(entries, column)
    if constant is not None:
        return np.where(_mask(constant.is_null()), rows, 0)
    values, nulls = (entries.map_values(kind, column.id) for kind in (ids.VALUE_COUNTS, ids.NULL_COUNTS))
    known = _mask(pc.equal(values, entries.column(ids.RECORD_COUNT))) & _mask(nulls.is_valid())
    _require(known | (rows == 0))
    counts: npt.NDArray[np.int64] = pc.fill_null(nulls, 0).to_numpy(zero_copy_only=False)
    return counts


def _extremes(entries: Entries, column: NestedField, function: str) -> pa.Array:
    """A value of each file that has any: its least or its greatest."""
    rows = entries.numpy(ids.RECORD_COUNT)
    filled = _nulls(entries, column) < rows
    floating = isinstance(column.type, _FLOATING)
    values = _constant(entries, column)
    if values is None:
        lower, upper = entries.bounds(column)
        values = lower if function == MIN else upper
        exact = _mask(values.is_valid())
        if isinstance(column.type, StringType):
            exact &= _mask(pc.equal(lower, upper))
        if isinstance(column.type, _INSTANTS):  # ORC's statistics of them count milliseconds
            exact &= ~_mask(pc.equal(pc.utf8_lower(entries.column(ids.FILE_FORMAT)), "orc"))
        if floating:
            exact &= _mask(pc.equal(entries.map_values(ids.NAN_COUNTS, column.id), 0))
        _require(exact | ~filled)
    values = values.filter(pa.array(filled))
    if floating:  # bounds do not tell the sign of a zero
        _require(~_mask(pc.is_nan(values)) & ~_mask(pc.equal(values, 0)))
    return values


def _constant(entries: Entries, column: NestedField) -> pa.Array | None:
    """The values of the column, if all rows of a file have the same."""
    for part, values in zip(entries.spec.fields, entries.partition_columns(), strict=True):
        if part.source_ids == (column.id,) and isinstance(part.transform, IdentityTransform):
            return values
    return None


def _mask(array: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return mask


def _require(known: Mask) -> None:
    if not known.all():
        raise _NotToldError
