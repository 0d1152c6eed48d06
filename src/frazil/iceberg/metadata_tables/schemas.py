"""The schemas of the metadata tables, as Iceberg has them: names, types and field ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.metadata_tables.readable_metrics import readable_metrics_field
from frazil.model.partition import unified_partition_type
from frazil.model.schema import DELETE_FILE_PATH, DELETE_POS, DELETE_ROW_ID, FILE, PARTITION_ID, SPEC_ID_ID, Schema
from frazil.model.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    Type,
    list_of,
    map_of,
)

INT, LONG, STRING, BINARY, BOOLEAN, TIME = (
    IntegerType(),
    LongType(),
    StringType(),
    BinaryType(),
    BooleanType(),
    TimestamptzType(),
)


def _required(number: int, name: str, type_: Type) -> NestedField:
    return NestedField(number, name, type_, required=True)


def _optional(number: int, name: str, type_: Type) -> NestedField:
    return NestedField(number, name, type_)


def _by_column(key_id: int, value_id: int, value: Type) -> MapType:
    return map_of(key_id, INT, value_id, value, required=True)


_SPEC_ID = 141
_BEFORE_PARTITION = (
    _optional(ids.CONTENT, "content", INT),
    _required(ids.FILE_PATH, "file_path", STRING),
    _required(ids.FILE_FORMAT, "file_format", STRING),
    _optional(_SPEC_ID, "spec_id", INT),
)
_AFTER_PARTITION = (
    _required(ids.RECORD_COUNT, "record_count", LONG),
    _required(ids.FILE_SIZE, "file_size_in_bytes", LONG),
    _optional(ids.COLUMN_SIZES, "column_sizes", _by_column(117, 118, LONG)),
    _optional(ids.VALUE_COUNTS, "value_counts", _by_column(119, 120, LONG)),
    _optional(ids.NULL_COUNTS, "null_value_counts", _by_column(121, 122, LONG)),
    _optional(ids.NAN_COUNTS, "nan_value_counts", _by_column(138, 139, LONG)),
    _optional(ids.LOWER_BOUNDS, "lower_bounds", _by_column(126, 127, BINARY)),
    _optional(ids.UPPER_BOUNDS, "upper_bounds", _by_column(129, 130, BINARY)),
    _optional(ids.KEY_METADATA, "key_metadata", BINARY),
    _optional(ids.SPLIT_OFFSETS, "split_offsets", list_of(133, LONG, required=True)),
    _optional(ids.EQUALITY_IDS, "equality_ids", list_of(136, INT, required=True)),
    _optional(ids.SORT_ORDER_ID, "sort_order_id", INT),
    _optional(ids.FIRST_ROW_ID, "first_row_id", LONG),
    _optional(ids.REFERENCED_DATA_FILE, "referenced_data_file", STRING),
    _optional(ids.CONTENT_OFFSET, "content_offset", LONG),
    _optional(ids.CONTENT_SIZE, "content_size_in_bytes", LONG),
)

SNAPSHOTS = Schema(
    (
        _required(1, "committed_at", TIME),
        _required(2, "snapshot_id", LONG),
        _optional(3, "parent_id", LONG),
        _optional(4, "operation", STRING),
        _optional(5, "manifest_list", STRING),
        _optional(6, "summary", map_of(7, STRING, 8, STRING, required=True)),
    )
)
HISTORY = Schema(
    (
        _required(1, "made_current_at", TIME),
        _required(2, "snapshot_id", LONG),
        _optional(3, "parent_id", LONG),
        _required(4, "is_current_ancestor", BOOLEAN),
    )
)
REFS = Schema(
    (
        _required(1, "name", STRING),
        _required(2, "type", STRING),
        _required(3, "snapshot_id", LONG),
        _optional(4, "max_reference_age_in_ms", LONG),
        _optional(5, "min_snapshots_to_keep", INT),
        _optional(6, "max_snapshot_age_in_ms", LONG),
    )
)
METADATA_LOG_ENTRIES = Schema(
    (
        _required(1, "timestamp", TIME),
        _required(2, "file", STRING),
        _optional(3, "latest_snapshot_id", LONG),
        _optional(4, "latest_schema_id", INT),
        _optional(5, "latest_sequence_number", LONG),
    )
)
_SUMMARY = StructType(
    (
        _required(10, "contains_null", BOOLEAN),
        _optional(11, "contains_nan", BOOLEAN),
        _optional(12, "lower_bound", STRING),
        _optional(13, "upper_bound", STRING),
    )
)
MANIFESTS = Schema(
    (
        _required(14, "content", INT),
        _required(1, "path", STRING),
        _required(2, "length", LONG),
        _required(3, "partition_spec_id", INT),
        _required(4, "added_snapshot_id", LONG),
        _required(5, "added_data_files_count", INT),
        _required(6, "existing_data_files_count", INT),
        _required(7, "deleted_data_files_count", INT),
        _required(15, "added_delete_files_count", INT),
        _required(16, "existing_delete_files_count", INT),
        _required(17, "deleted_delete_files_count", INT),
        _required(8, "partition_summaries", list_of(9, _SUMMARY, required=True)),
    )
)
_LOOSE_IN_ALL = frozenset({3, 4, 5, 6, 7, 8})
ALL_MANIFESTS = Schema(
    (
        *(replace(column, required=column.id not in _LOOSE_IN_ALL) for column in MANIFESTS.fields),
        _required(18, "reference_snapshot_id", LONG),
        _optional(19, "key_metadata", BINARY),
    )
)
_PARTITION_COUNTS = (
    _required(2, "record_count", LONG),
    _required(3, "file_count", INT),
    _required(11, "total_data_file_size_in_bytes", LONG),
    _required(5, "position_delete_record_count", LONG),
    _required(6, "position_delete_file_count", INT),
    _required(7, "equality_delete_record_count", LONG),
    _required(8, "equality_delete_file_count", INT),
    _optional(9, "last_updated_at", TIME),
    _optional(10, "last_updated_snapshot_id", LONG),
)


def partition_struct(metadata: TableMetadata) -> StructType:
    """The partition fields of all specs whose columns are still there."""
    return unified_partition_type(metadata.current_schema, metadata.partition_specs, active_only=True)


def _file_fields(metadata: TableMetadata) -> tuple[NestedField, ...]:
    type_ = partition_struct(metadata)
    # not every engine has structs without fields: an unpartitioned table has no such column
    partition = (_required(ids.PARTITION, "partition", type_),) if type_.fields else ()
    return (*_BEFORE_PARTITION, *partition, *_AFTER_PARTITION)


def _with_metrics(metadata: TableMetadata, fields: tuple[NestedField, ...]) -> Schema:
    highest = Schema(fields).highest_field_id
    return Schema((*fields, readable_metrics_field(metadata.current_schema, highest)))


def files_schema(metadata: TableMetadata) -> Schema:
    """Of files, data_files, delete_files and their all_ kin."""
    return _with_metrics(metadata, _file_fields(metadata))


def entries_schema(metadata: TableMetadata) -> Schema:
    """Of entries and all_entries."""
    fields = (
        _required(ids.STATUS, "status", INT),
        _optional(ids.SNAPSHOT_ID, "snapshot_id", LONG),
        _optional(ids.SEQUENCE_NUMBER, "sequence_number", LONG),
        _optional(ids.FILE_SEQUENCE_NUMBER, "file_sequence_number", LONG),
        _required(ids.DATA_FILE, "data_file", StructType(_file_fields(metadata))),
    )
    return _with_metrics(metadata, fields)


def partitions_schema(metadata: TableMetadata) -> Schema:
    """Of partitions."""
    type_ = partition_struct(metadata)
    partition = (_required(1, "partition", type_), _required(4, "spec_id", INT)) if type_.fields else ()
    return Schema((*partition, *_PARTITION_COUNTS))


def position_deletes_schema(metadata: TableMetadata) -> Schema:
    """Of position_deletes. Columns of the table keep their ids, so partition fields get others."""
    used = {number for schema in (metadata.current_schema, *metadata.schemas) for number in schema.field_ids}
    old = partition_struct(metadata)
    used.update(column.id for column in old.fields)
    free = (number for number in count(1) if number not in used)
    type_ = StructType(tuple(replace(column, id=next(free)) for column in old.fields))
    partition = (_required(PARTITION_ID, "partition", type_),) if type_.fields else ()
    vector = (_optional(next(free), "content_offset", LONG), _optional(next(free), "content_size_in_bytes", LONG))
    return Schema(
        (
            DELETE_FILE_PATH,
            DELETE_POS,
            _optional(DELETE_ROW_ID, "row", metadata.current_schema.as_struct),
            *partition,
            _required(SPEC_ID_ID, "spec_id", INT),
            _required(FILE.id, "delete_file_path", STRING),
            *(vector if metadata.format_version >= 3 else ()),
        )
    )


def always(schema: Schema) -> Callable[[TableMetadata], Schema]:
    """The schema of a table that is the same for all tables."""
    return lambda _: schema
