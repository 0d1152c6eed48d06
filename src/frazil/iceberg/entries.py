"""Manifest entries as columns: one Arrow array per field id, never one object per file.

A scan over a hundred thousand files prunes, filters and joins these arrays. `DataFile` objects are made at the edges
only: for the files a caller adds, and for those it asks to see one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidValue, MalformedMetadata
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.data_file import Content, DataFile, Status
from frazil.iceberg.stored_bounds import stored_bounds
from frazil.model.arrow import type_to_arrow
from frazil.model.partition import PartitionSpec
from frazil.model.stats_evaluator import ColumnStats
from frazil.model.types import NestedField, StructType

Mask = npt.NDArray[np.bool_]

COUNTS = pa.map_(pa.int32(), pa.field("value", pa.int64(), nullable=False))
BOUNDS = pa.map_(pa.int32(), pa.field("value", pa.binary(), nullable=False))

ARROW_TYPES: Mapping[int, pa.DataType] = {
    ids.STATUS: pa.int32(),
    ids.SNAPSHOT_ID: pa.int64(),
    ids.SEQUENCE_NUMBER: pa.int64(),
    ids.FILE_SEQUENCE_NUMBER: pa.int64(),
    ids.CONTENT: pa.int32(),
    ids.FILE_PATH: pa.string(),
    ids.FILE_FORMAT: pa.string(),
    ids.RECORD_COUNT: pa.int64(),
    ids.FILE_SIZE: pa.int64(),
    ids.BLOCK_SIZE: pa.int64(),
    ids.COLUMN_SIZES: COUNTS,
    ids.VALUE_COUNTS: COUNTS,
    ids.NULL_COUNTS: COUNTS,
    ids.NAN_COUNTS: COUNTS,
    ids.LOWER_BOUNDS: BOUNDS,
    ids.UPPER_BOUNDS: BOUNDS,
    ids.KEY_METADATA: pa.binary(),
    ids.SPLIT_OFFSETS: pa.list_(pa.int64()),
    ids.EQUALITY_IDS: pa.list_(pa.int32()),
    ids.SORT_ORDER_ID: pa.int32(),
    ids.FIRST_ROW_ID: pa.int64(),
    ids.REFERENCED_DATA_FILE: pa.string(),
    ids.CONTENT_OFFSET: pa.int64(),
    ids.CONTENT_SIZE: pa.int64(),
}


@dataclass(frozen=True)
class Entries:
    """Entries of one partition spec. Columns a manifest lacks read as null."""

    spec: PartitionSpec
    partition_type: StructType
    columns: Mapping[int, pa.Array]
    _map_index: dict[tuple[int, int], pa.Array] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.columns[ids.FILE_PATH])

    def column(self, field_id: int) -> pa.Array:
        """The array of a field, all null if the manifest does not have it."""
        found = self.columns.get(field_id)
        if found is not None:
            return found
        if field_id == ids.PARTITION:
            return pa.nulls(len(self), partition_arrow(self.partition_type))
        return pa.nulls(len(self), ARROW_TYPES[field_id])

    def numpy(self, field_id: int, *, null: int = 0) -> npt.NDArray[np.int64]:
        """An integer column as numpy, nulls replaced."""
        column = self.column(field_id)
        filled = pc.fill_null(column, null) if column.null_count else column
        values: npt.NDArray[np.int64] = filled.to_numpy(zero_copy_only=False)
        return values.astype(np.int64, copy=False)

    def with_columns(self, changed: Mapping[int, pa.Array]) -> Entries:
        """The same entries with some columns replaced or added."""
        return Entries(self.spec, self.partition_type, {**self.columns, **changed})

    def filter(self, mask: Mask) -> Entries:
        """The entries where the mask is true."""
        if mask.all():
            return self
        kept = pa.array(np.flatnonzero(mask))
        return self.take(kept)

    def take(self, indices: pa.Array) -> Entries:
        """The entries at those positions."""
        return Entries(
            self.spec, self.partition_type, {key: array.take(indices) for key, array in self.columns.items()}
        )

    def slice(self, offset: int, length: int) -> Entries:
        """A run of entries, without a copy."""
        return Entries(
            self.spec, self.partition_type, {key: array.slice(offset, length) for key, array in self.columns.items()}
        )

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.columns.values())

    @property
    def live(self) -> Mask:
        """True where the file belongs to the table: a deleted entry only informs."""
        mask: Mask = self.numpy(ids.STATUS) != Status.DELETED
        return mask

    def added_by(self, snapshots: Iterable[int]) -> Mask:
        """True where one of these snapshots added the file."""
        mine = np.isin(self.numpy(ids.SNAPSHOT_ID), list(snapshots))
        mask: Mask = mine & (self.numpy(ids.STATUS) == Status.ADDED)
        return mask

    def partition_columns(self) -> list[pa.Array]:
        """One array per field of the spec; a null tuple has null parts."""
        return list(self.column(ids.PARTITION).flatten())

    def partition_tuples(self) -> list[tuple[Any, ...]]:
        """The partition of each entry as canonical values."""
        if not self.partition_type.fields:
            return [()] * len(self)
        return list(zip(*(canonical_list(array) for array in self.partition_columns()), strict=True))

    def map_values(self, field_id: int, key: int) -> pa.Array:
        """For a map column (metrics by column id): the value under one key, null where there is none."""
        cached = self._map_index.get((field_id, key))
        if cached is None:
            cached = self._map_index[(field_id, key)] = _lookup(self.column(field_id), key)
        return cached

    def bounds(self, column: NestedField) -> tuple[pa.Array, pa.Array]:
        """Lower and upper bounds of a column, null where nothing is known."""
        lower = self.map_values(ids.LOWER_BOUNDS, column.id)
        return stored_bounds(column.type, lower, self.map_values(ids.UPPER_BOUNDS, column.id))

    def files(self) -> list[DataFile]:
        """One object per entry; for callers that want a few."""
        return list(self.iter_files())

    def iter_files(self) -> Iterator[DataFile]:
        """One object per entry, made as they are taken."""

        def pick(field_id: int) -> list[Any]:
            return self.column(field_id).to_pylist() if field_id in self.columns else [None] * len(self)

        maps = (ids.COLUMN_SIZES, ids.VALUE_COUNTS, ids.NULL_COUNTS, ids.NAN_COUNTS, ids.LOWER_BOUNDS, ids.UPPER_BOUNDS)
        columns = [
            *(pick(number) for number in (ids.FILE_PATH, ids.FILE_FORMAT, ids.RECORD_COUNT, ids.FILE_SIZE)),
            self.partition_tuples(),
            pick(ids.CONTENT),
            *(pick(number) for number in maps),
            *(pick(number) for number in (ids.KEY_METADATA, ids.SPLIT_OFFSETS, ids.EQUALITY_IDS, ids.SORT_ORDER_ID)),
            *(pick(number) for number in (ids.FIRST_ROW_ID, ids.REFERENCED_DATA_FILE)),
            *(pick(number) for number in (ids.CONTENT_OFFSET, ids.CONTENT_SIZE)),
            *(pick(number) for number in (ids.SEQUENCE_NUMBER, ids.FILE_SEQUENCE_NUMBER)),
        ]
        for row in zip(*columns, strict=True):
            path, kind, records, size, partition, content = row[:6]
            sizes, counts, nulls, nans, lower, upper = (None if pairs is None else dict(pairs) for pairs in row[6:12])
            keys, splits, equality, order, first, referenced, offset, length, sequence, file_sequence = row[12:]
            yield DataFile(
                path,
                kind.lower(),
                records,
                size,
                self.spec.spec_id,
                partition,
                Content(content or 0),
                sizes,
                counts,
                nulls,
                nans,
                lower,
                upper,
                keys,
                None if splits is None else tuple(splits),
                None if equality is None else tuple(equality),
                order,
                first,
                referenced,
                offset,
                length,
                sequence,
                file_sequence,
            )


class MetricsStats:
    """Column metrics of entries, as the statistics evaluator asks for them: only what a filter names is decoded."""

    def __init__(self, entries: Entries, fields: Mapping[int, NestedField]) -> None:
        self._entries = entries
        self._fields = fields
        self.n = len(entries)
        self.record_count = entries.column(ids.RECORD_COUNT)

    def column(self, field_id: int) -> ColumnStats | None:
        found = self._fields.get(field_id)
        if found is None:
            return None
        entries = self._entries
        # bounds of a variant are of the values inside it: only its nulls say something of the column
        lower = upper = None
        if found.type.is_primitive:
            lower, upper = entries.bounds(found)
        return ColumnStats(
            lower=lower,
            upper=upper,
            null_count=entries.map_values(ids.NULL_COUNTS, field_id),
            nan_count=entries.map_values(ids.NAN_COUNTS, field_id),
            value_count=entries.map_values(ids.VALUE_COUNTS, field_id),
        )


class PartitionStats:
    """Partition tuples as statistics: each value is its own lower and upper bound, so evaluation is exact."""

    def __init__(self, entries: Entries) -> None:
        self._arrays = {
            column.id: array
            for column, array in zip(entries.partition_type.fields, entries.partition_columns(), strict=True)
        }
        self.n = len(entries)
        self.record_count: pa.Array | None = None

    def column(self, field_id: int) -> ColumnStats | None:
        values = self._arrays.get(field_id)
        if values is None:
            return None
        nulls = values.is_null().cast(pa.int64())
        nans = None
        if pa.types.is_floating(values.type):
            nan_mask = pc.fill_null(pc.is_nan(values), False)
            nans = nan_mask.cast(pa.int64())
            values = pc.if_else(nan_mask, pa.scalar(None, values.type), values)
        ones = pa.array(np.ones(self.n, dtype=np.int64))
        return ColumnStats(lower=values, upper=values, null_count=nulls, nan_count=nans, value_count=ones)


def partition_arrow(partition_type: StructType) -> pa.DataType:
    """The Arrow type of a partition tuple, with uuids as plain bytes."""
    return pa.struct([pa.field(column.name, storage_arrow(column.type)) for column in partition_type.fields])


def storage_arrow(type_: Any) -> pa.DataType:
    """The Arrow type that holds a value, without extension types."""
    arrow = type_to_arrow(type_)
    return arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow


def canonical_list(array: pa.Array) -> list[Any]:
    """An Arrow array as canonical values: temporal values as integers."""
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_time(array.type) or pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    return array.to_pylist()  # type: ignore[no-any-return]


def canonical_array(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """Canonical values as an Arrow array of that type."""
    if pa.types.is_date32(arrow):
        return pa.array(values, pa.int32()).cast(arrow)
    if pa.types.is_time(arrow) or pa.types.is_timestamp(arrow):
        return pa.array(values, pa.int64()).cast(arrow)
    return pa.array(values, arrow)


def from_files(spec: PartitionSpec, partition_type: StructType, files: Sequence[DataFile]) -> Entries:
    """Entries for files about to be added; what a commit assigns (ids, sequence numbers) is filled in later."""
    columns: dict[int, pa.Array] = {
        ids.CONTENT: pa.array([int(file.content) for file in files], pa.int32()),
        ids.FILE_PATH: pa.array([file.file_path for file in files], pa.string()),
        ids.FILE_FORMAT: pa.array([file.file_format.upper() for file in files], pa.string()),
        ids.RECORD_COUNT: pa.array([file.record_count for file in files], pa.int64()),
        ids.FILE_SIZE: pa.array([file.file_size_in_bytes for file in files], pa.int64()),
        ids.COLUMN_SIZES: _map_array([file.column_sizes for file in files], COUNTS),
        ids.VALUE_COUNTS: _map_array([file.value_counts for file in files], COUNTS),
        ids.NULL_COUNTS: _map_array([file.null_value_counts for file in files], COUNTS),
        ids.NAN_COUNTS: _map_array([file.nan_value_counts for file in files], COUNTS),
        ids.LOWER_BOUNDS: _map_array([file.lower_bounds for file in files], BOUNDS),
        ids.UPPER_BOUNDS: _map_array([file.upper_bounds for file in files], BOUNDS),
        ids.KEY_METADATA: pa.array([file.key_metadata for file in files], pa.binary()),
        ids.SPLIT_OFFSETS: pa.array([file.split_offsets for file in files], pa.list_(pa.int64())),
        ids.EQUALITY_IDS: pa.array([file.equality_ids for file in files], pa.list_(pa.int32())),
        ids.SORT_ORDER_ID: pa.array([file.sort_order_id for file in files], pa.int32()),
        ids.FIRST_ROW_ID: pa.array([file.first_row_id for file in files], pa.int64()),
        ids.REFERENCED_DATA_FILE: pa.array([file.referenced_data_file for file in files], pa.string()),
        ids.CONTENT_OFFSET: pa.array([file.content_offset for file in files], pa.int64()),
        ids.CONTENT_SIZE: pa.array([file.content_size_in_bytes for file in files], pa.int64()),
        ids.SEQUENCE_NUMBER: pa.array([file.data_sequence_number for file in files], pa.int64()),
        ids.FILE_SEQUENCE_NUMBER: pa.array([file.file_sequence_number for file in files], pa.int64()),
        ids.PARTITION: partition_array(partition_type, [file.partition for file in files]),
    }
    return Entries(spec, partition_type, columns)


def partition_array(partition_type: StructType, tuples: Sequence[tuple[Any, ...]]) -> pa.Array:
    """Partition tuples as a struct array."""
    fields = partition_type.fields
    if not fields:
        return empty_structs(len(tuples))
    by_field = list(zip(*tuples, strict=True)) if tuples else [() for _ in fields]
    arrays = []
    for column, values in zip(fields, by_field, strict=True):
        try:
            arrays.append(canonical_array(values, storage_arrow(column.type)))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            # such as the lowest decimal truncated, which has a digit more than its type
            raise InvalidValue(
                f"partition field {column.name!r} of type {column.type} cannot hold one of its values: {error}",
                hint="keep such rows out, or partition by another transform",
            ) from error
    return pa.StructArray.from_arrays(arrays, fields=list(partition_arrow(partition_type)))


def empty_structs(count: int) -> pa.Array:
    """The partitions of an unpartitioned spec: tuples without fields."""
    return pa.Array.from_buffers(pa.struct([]), count, [None])


def _map_array(maps: Sequence[Mapping[int, Any] | None], type_: pa.DataType) -> pa.Array:
    present = [row for row in maps if row is not None]
    keys, items = _same_keys(present) or (
        np.fromiter(chain.from_iterable(present), np.int32),
        list(chain.from_iterable(row.values() for row in present)),
    )
    lengths = np.zeros(len(maps) + 1, np.int32)
    lengths[1:] = list(map(len, present)) if len(present) == len(maps) else [len(row or ()) for row in maps]
    offsets = np.cumsum(lengths, dtype=np.int32)
    values = pa.array(items, type_.item_type)
    nulls = None if len(present) == len(maps) else pa.array([row is None for row in maps], pa.bool_())
    return pa.MapArray.from_arrays(pa.array(offsets), pa.array(keys), values, type_, mask=nulls)


def _same_keys(maps: Sequence[Mapping[int, Any]]) -> tuple[npt.NDArray[np.int32], list[Any]] | None:
    """Keys and values if all maps have the same keys, as the metrics of files written alike do: the keys are known
    then, and only the values are gathered.
    """
    shape = tuple(maps[0]) if maps else ()
    if len(shape) < 2 or set(map(len, maps)) != {len(shape)} or set(map(type, maps)) != {dict}:
        return None
    try:
        values = list(chain.from_iterable(map(itemgetter(*shape), maps)))
    except KeyError:
        return None
    return np.tile(np.array(shape, np.int32), len(maps)), values


def _lookup(maps: pa.Array, key: int) -> pa.Array:
    if len(maps) == 0 or maps.null_count == len(maps):
        return pa.nulls(len(maps), maps.type.item_type)
    offsets = maps.offsets.to_numpy()
    keys = maps.keys.to_numpy(zero_copy_only=False)
    positions = np.flatnonzero(keys[offsets[0] : offsets[-1]] == key) + offsets[0]
    if np.array_equal(positions, offsets[:-1]) and len(positions) == offsets[-1] - offsets[0]:
        return maps.items.slice(offsets[0], len(maps))  # each map has this key alone
    rows = np.searchsorted(offsets, positions, side="right") - 1
    where = np.full(len(maps), -1, dtype=np.int64)
    where[rows] = positions
    return maps.items.take(pa.array(where, mask=where < 0))


def concat(parts: Sequence[Entries]) -> Entries:
    """Entries of one spec, one after the other, with the columns that any of them has."""
    if len(parts) == 1:
        return parts[0]
    keys = dict.fromkeys(chain.from_iterable(part.columns for part in parts))
    first = parts[0]
    columns = {key: pa.concat_arrays([_same(part.column(key), key) for part in parts]) for key in keys}
    return Entries(first.spec, first.partition_type, columns)


def _same(array: pa.Array, key: int) -> pa.Array:
    wanted = ARROW_TYPES.get(key)
    return array if wanted is None or array.type == wanted else array.cast(wanted)


def normalise(field_id: int, array: pa.Array, partition_type: StructType) -> pa.Array:
    """A decoded column in the Arrow type Frazil works with, whatever type the writer chose."""
    if field_id == ids.PARTITION:
        return _normalise_partition(array, partition_type)
    wanted = ARROW_TYPES[field_id]
    if array.type.equals(wanted):
        return array
    try:
        if pa.types.is_map(wanted):
            return pa.MapArray.from_arrays(
                array.offsets, array.keys, array.items.cast(wanted.item_type), wanted, mask=array.is_null()
            )
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, AttributeError) as error:
        raise MalformedMetadata(
            f"manifest field {field_id} has type {array.type}, not {wanted}", hint="the manifest is damaged"
        ) from error


def _normalise_partition(array: pa.Array, partition_type: StructType) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise MalformedMetadata(f"partitions are of type {array.type}, not tuples", hint="the manifest is damaged")
    by_id = {_field_id(array.type.field(index)): index for index in range(array.type.num_fields)}
    flat = array.flatten()
    arrays = []
    for column in partition_type.fields:
        arrow, index = storage_arrow(column.type), by_id.get(column.id)
        if index is None:
            arrays.append(pa.nulls(len(array), arrow))
            continue
        values = flat[index]
        if values.type != arrow:
            try:
                values = _cast_partition(values, arrow)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise MalformedMetadata(
                    f"partition field {column.name!r} has type {values.type}, not {arrow}",
                    hint="the manifest was written with another partition spec than it names",
                ) from error
        arrays.append(values)
    if not arrays:
        return empty_structs(len(array))
    return pa.StructArray.from_arrays(arrays, fields=list(partition_arrow(partition_type)))


def _cast_partition(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    if pa.types.is_null(arrow):
        return pa.nulls(len(values), arrow)
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(arrow):
        # the zone is a label only: both are counts since 1970
        return values.cast(pa.int64()).cast(pa.timestamp(values.type.unit, arrow.tz)).cast(arrow)
    if pa.types.is_int64(values.type) and pa.types.is_date32(arrow):
        values = values.cast(pa.int32())
    return values.cast(arrow)


def _field_id(column: pa.Field) -> int:
    return int((column.metadata or {}).get(b"PARQUET:field_id", -1))
