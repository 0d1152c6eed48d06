"""Statistics in Parquet footers: metrics of files that others wrote, and row groups that a filter can skip.

A footer may leave out what it does not know; nothing is guessed. Its bounds may be cut, which keeps them true.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.io.damage import reading
from frazil.io.metrics import Metrics, MetricsModes, lower_bound, reachable_fields, upper_bound
from frazil.io.parquet import Keep, open_parquet, row_group_offset
from frazil.io.resolve import FileField, file_fields
from frazil.io.written_file import WrittenFile
from frazil.model.arrow import array_from_canonical
from frazil.model.binding import bound_predicates
from frazil.model.expressions import Expression
from frazil.model.name_mapping import NameMapping
from frazil.model.schema import Schema
from frazil.model.stats_evaluator import ColumnStats, StatsTable, might_match
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    StringType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UuidType,
    VariantType,
)
from frazil.model.values import timestamp_digits

if TYPE_CHECKING:
    from frazil.io.store import Store

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class GroupStats:
    """What the footer says of one column in one row group. None is unknown."""

    values: int
    nulls: int | None
    low: Any
    high: Any


def describe_parquet_file(
    store: Store,
    location: str,
    schema: Schema,
    properties: Mapping[str, str],
    *,
    name_mapping: NameMapping | None = None,
    modes: MetricsModes | None = None,
) -> WrittenFile:
    """Everything a manifest entry needs of a Parquet file that someone else wrote, from its footer alone."""
    with reading(location), store.open_input(location) as source:
        size = source.size()
        metadata = open_parquet(source).metadata
        fields = file_fields(location, metadata.schema.to_arrow_schema(), name_mapping)
    metrics = _metrics(metadata, fields, schema, MetricsModes.of(schema, properties) if modes is None else modes)
    offsets = tuple(row_group_offset(metadata, number) for number in range(metadata.num_row_groups))
    return WrittenFile(location, "parquet", metadata.num_rows, size, metrics, offsets)


def metrics_from_parquet_footer(
    store: Store,
    location: str,
    schema: Schema,
    properties: Mapping[str, str],
    *,
    name_mapping: NameMapping | None = None,
) -> Metrics:
    """The metrics that a footer proves. NaN counts never are among them."""
    return describe_parquet_file(store, location, schema, properties, name_mapping=name_mapping).metrics


def column_sizes(metadata: pq.FileMetaData, fields: Sequence[FileField]) -> dict[int, int]:
    """Compressed bytes of each column that has a field id."""
    ids = [field.id for top in fields for field in top.walk() if not field.fields]
    sizes: dict[int, int] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index, field_id in enumerate(ids):
            if field_id is not None:
                sizes[field_id] = sizes.get(field_id, 0) + group.column(index).total_compressed_size
    return sizes


def _metrics(metadata: pq.FileMetaData, fields: Sequence[FileField], schema: Schema, modes: MetricsModes) -> Metrics:
    counts: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    leaves = _leaves(fields)
    sizes = {number: size for number, size in column_sizes(metadata, fields).items() if modes[number].counts}
    for column, _ in reachable_fields(schema.as_struct):
        mode = modes[column.id]
        if column.id not in leaves or not mode.counts:
            continue
        groups = group_stats(metadata, leaves[column.id], column.type)
        counts[column.id] = sum(group.values for group in groups)
        known = [group.nulls for group in groups if group.nulls is not None]
        if len(known) == len(groups):
            nulls[column.id] = sum(known)
        filled = [group for group in groups if group.nulls != group.values]
        if not mode.bounds or not filled or any(group.low is None or group.high is None for group in filled):
            continue
        if (data := lower_bound(column.type, min(group.low for group in filled), mode)) is not None:
            lower[column.id] = data
        if (data := upper_bound(column.type, max(group.high for group in filled), mode)) is not None:
            upper[column.id] = data
    return Metrics(metadata.num_rows, sizes, counts, nulls, {}, lower, upper)


def _leaves(fields: Sequence[FileField]) -> dict[int, tuple[int, pa.DataType]]:
    """Physical column and Arrow type of each field that is reached through structs only."""
    found: dict[int, tuple[int, pa.DataType]] = {}

    def visit(field: FileField, first: int, inside: bool) -> int:
        if inside and field.id is not None and (not field.fields or _is_variant(field)):
            found[field.id] = (first, field.type)
        for child in field.fields:
            first = visit(child, first, inside and pa.types.is_struct(field.type))
        return first if field.fields else first + 1

    at = 0
    for field in fields:
        at = visit(field, at, True)
    return found


def _is_variant(field: FileField) -> bool:
    # its metadata, the first column, is null where the variant is
    return [child.name for child in field.fields][:1] == ["metadata"] and field.fields[0].id is None


def group_stats(metadata: pq.FileMetaData, leaf: tuple[int, pa.DataType], type_: Type) -> list[GroupStats]:
    """What the footer says of a column, row group by row group; bounds as canonical values of `type_`."""
    index, arrow = leaf
    result = []
    for number in range(metadata.num_row_groups):
        chunk = metadata.row_group(number).column(index)
        stats = chunk.statistics if chunk.is_stats_set else None
        nulls = stats.null_count if stats is not None and stats.has_null_count else None
        low = high = None
        if stats is not None and stats.has_min_max and chunk.physical_type != "INT96":
            low, high = (canonical_stat(type_, arrow, raw) for raw in (stats.min_raw, stats.max_raw))
            if low is None or high is None or (isinstance(low, float) and (math.isnan(low) or math.isnan(high))):
                low = high = None
        result.append(GroupStats(chunk.num_values, nulls, low, high))
    return result


def canonical_stat(type_: Type, arrow: pa.DataType, raw: Any) -> Any:
    """A bound as it stands in a footer (int, float, bool or bytes) as a canonical value; None when that is unsure."""
    if isinstance(arrow, pa.BaseExtensionType):
        arrow = arrow.storage_type
    match type_:
        case BooleanType() if isinstance(raw, bool):
            return raw
        case IntegerType() | LongType() if pa.types.is_signed_integer(arrow):
            return raw
        case FloatType() | DoubleType() if pa.types.is_floating(arrow) and isinstance(raw, float):
            return raw
        case DateType() if arrow == pa.date32():
            return raw
        case TimestampType() | TimestampNsType() if arrow == pa.date32():
            return raw * 86_400 * 10 ** timestamp_digits(type_)
        case TimestampType() | TimestamptzType() | TimestampNsType() | TimestamptzNsType() if pa.types.is_timestamp(
            arrow
        ):
            return raw * 10 ** timestamp_digits(type_) // _PER_SECOND[arrow.unit]
        case TimeType() if pa.types.is_time(arrow):
            return raw * 10**6 // _PER_SECOND[arrow.unit]
        case DecimalType() if pa.types.is_decimal(arrow) and arrow.scale == type_.scale:
            unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
            sign, digits = int(unscaled < 0), tuple(int(digit) for digit in str(abs(unscaled)))
            return Decimal((sign, digits, -type_.scale))
        case StringType() if isinstance(raw, bytes):
            return _text(raw)
        case UuidType() | FixedType() | BinaryType() if isinstance(raw, bytes):
            return raw
    return None


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def row_group_filter(expression: Expression) -> Keep:
    """Which row groups may hold rows that match a bound filter."""
    types = {leaf.reference.field_id: leaf.reference.type for leaf in bound_predicates(expression)}

    def keep(metadata: pq.FileMetaData, fields: Sequence[FileField], hidden: Collection[int]) -> Sequence[bool]:
        leaves = _leaves(fields)
        columns = {
            number: _column_stats(group_stats(metadata, leaves[number], type_), type_)
            for number, type_ in types.items()
            if number in leaves and number not in hidden
        }
        rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        table = StatsTable(len(rows), columns, pa.array(rows, pa.int64()))
        return [bool(might) for might in might_match(expression, table)]

    return keep


def _column_stats(groups: Sequence[GroupStats], type_: Type) -> ColumnStats:
    bounds: dict[str, pa.Array] = {}
    if not isinstance(type_, VariantType | GeometryType | GeographyType):
        bounds = {
            "lower": _plain(array_from_canonical(type_, [group.low for group in groups])),
            "upper": _plain(array_from_canonical(type_, [group.high for group in groups])),
        }
    return ColumnStats(
        **bounds,
        null_count=pa.array([group.nulls for group in groups], pa.int64()),
        value_count=pa.array([group.values for group in groups], pa.int64()),
    )


def _plain(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array
