"""The Avro schemas of manifests and manifest lists, by format version, made from one table of fields.

Readers go by field id alone: older writers used other names for some fields.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from frazil.errors import Unsupported
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
)

STATUS, SNAPSHOT_ID, DATA_FILE, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER = 0, 1, 2, 3, 4
CONTENT, FILE_PATH, FILE_FORMAT, PARTITION, RECORD_COUNT, FILE_SIZE = 134, 100, 101, 102, 103, 104
BLOCK_SIZE = 105
COLUMN_SIZES, VALUE_COUNTS, NULL_COUNTS, NAN_COUNTS, LOWER_BOUNDS, UPPER_BOUNDS = 108, 109, 110, 137, 125, 128
KEY_METADATA, SPLIT_OFFSETS, EQUALITY_IDS, SORT_ORDER_ID = 131, 132, 135, 140
FIRST_ROW_ID, REFERENCED_DATA_FILE, CONTENT_OFFSET, CONTENT_SIZE = 142, 143, 144, 145

METRICS = (VALUE_COUNTS, NULL_COUNTS, NAN_COUNTS, LOWER_BOUNDS, UPPER_BOUNDS)
"""What a filter on columns needs; large, so decoded only then."""

ENTRY_FIELDS = (STATUS, SNAPSHOT_ID, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER)
V1_BLOCK_SIZE = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its id and name, its Avro type, the versions that have it and those that require it."""

    id: int
    name: str
    avro: Any
    versions: tuple[int, ...] = (1, 2, 3)
    required: tuple[int, ...] = ()


def _map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    fields = [
        {"name": "key", "type": "int", "field-id": key_id},
        {"name": "value", "type": value, "field-id": value_id},
    ]
    record = {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": fields}
    return {"type": "array", "items": record, "logicalType": "map"}


def _list(element_id: int, element: str) -> dict[str, Any]:
    return {"type": "array", "items": element, "element-id": element_id}


ALL, NEW, V3 = (1, 2, 3), (2, 3), (3,)

DATA_FILE_FIELDS = (
    Field(CONTENT, "content", "int", NEW, NEW),
    Field(FILE_PATH, "file_path", "string", ALL, ALL),
    Field(FILE_FORMAT, "file_format", "string", ALL, ALL),
    Field(PARTITION, "partition", None, ALL, ALL),
    Field(RECORD_COUNT, "record_count", "long", ALL, ALL),
    Field(FILE_SIZE, "file_size_in_bytes", "long", ALL, ALL),
    Field(BLOCK_SIZE, "block_size_in_bytes", "long", (1,), (1,)),
    Field(COLUMN_SIZES, "column_sizes", _map(117, 118, "long")),
    Field(VALUE_COUNTS, "value_counts", _map(119, 120, "long")),
    Field(NULL_COUNTS, "null_value_counts", _map(121, 122, "long")),
    Field(NAN_COUNTS, "nan_value_counts", _map(138, 139, "long")),
    Field(LOWER_BOUNDS, "lower_bounds", _map(126, 127, "bytes")),
    Field(UPPER_BOUNDS, "upper_bounds", _map(129, 130, "bytes")),
    Field(KEY_METADATA, "key_metadata", "bytes"),
    Field(SPLIT_OFFSETS, "split_offsets", _list(133, "long")),
    Field(EQUALITY_IDS, "equality_ids", _list(136, "int"), NEW),
    Field(SORT_ORDER_ID, "sort_order_id", "int"),
    Field(FIRST_ROW_ID, "first_row_id", "long", V3),
    Field(REFERENCED_DATA_FILE, "referenced_data_file", "string", NEW),
    Field(CONTENT_OFFSET, "content_offset", "long", V3),
    Field(CONTENT_SIZE, "content_size_in_bytes", "long", V3),
)

MANIFEST_ENTRY_FIELDS = (
    Field(STATUS, "status", "int", ALL, ALL),
    Field(SNAPSHOT_ID, "snapshot_id", "long", ALL, (1,)),
    Field(SEQUENCE_NUMBER, "sequence_number", "long", NEW),
    Field(FILE_SEQUENCE_NUMBER, "file_sequence_number", "long", NEW),
    Field(DATA_FILE, "data_file", None, ALL, ALL),
)

MANIFEST_LIST_FIELDS = (
    Field(500, "manifest_path", "string", ALL, ALL),
    Field(501, "manifest_length", "long", ALL, ALL),
    Field(502, "partition_spec_id", "int", ALL, ALL),
    Field(517, "content", "int", NEW, NEW),
    Field(515, "sequence_number", "long", NEW, NEW),
    Field(516, "min_sequence_number", "long", NEW, NEW),
    Field(503, "added_snapshot_id", "long", ALL, ALL),
    Field(504, "added_files_count", "int", ALL, NEW),
    Field(505, "existing_files_count", "int", ALL, NEW),
    Field(506, "deleted_files_count", "int", ALL, NEW),
    Field(512, "added_rows_count", "long", ALL, NEW),
    Field(513, "existing_rows_count", "long", ALL, NEW),
    Field(514, "deleted_rows_count", "long", ALL, NEW),
    Field(
        507,
        "partitions",
        {
            "type": "array",
            "element-id": 508,
            "items": {
                "type": "record",
                "name": "r508",
                "fields": [
                    {"name": "contains_null", "type": "boolean", "field-id": 509},
                    {"name": "contains_nan", "type": ["null", "boolean"], "default": None, "field-id": 518},
                    {"name": "lower_bound", "type": ["null", "bytes"], "default": None, "field-id": 510},
                    {"name": "upper_bound", "type": ["null", "bytes"], "default": None, "field-id": 511},
                ],
            },
        },
    ),
    Field(519, "key_metadata", "bytes"),
    Field(520, "first_row_id", "long", V3),
)


def _record(name: str, fields: tuple[Field, ...], version: int, special: dict[int, Any]) -> dict[str, Any]:
    columns = []
    for spec in fields:
        if version not in spec.versions:
            continue
        avro = special.get(spec.id, spec.avro)
        if version in spec.required:
            columns.append({"name": spec.name, "type": avro, "field-id": spec.id})
        else:
            columns.append({"name": spec.name, "type": ["null", avro], "default": None, "field-id": spec.id})
    return {"type": "record", "name": name, "fields": columns}


def manifest_avro_schema(version: int, partition_type: StructType) -> str:
    """The schema of a manifest whose files have partitions of that type."""
    data_file = _record("r2", DATA_FILE_FIELDS, version, {PARTITION: partition_avro(partition_type)})
    return json.dumps(_record("manifest_entry", MANIFEST_ENTRY_FIELDS, version, {DATA_FILE: data_file}))


def manifest_list_avro_schema(version: int) -> str:
    """The schema of a manifest list."""
    return json.dumps(_record("manifest_file", MANIFEST_LIST_FIELDS, version, {}))


def partition_avro(partition_type: StructType) -> dict[str, Any]:
    """The record of a partition tuple; names that Avro forbids are replaced and kept as `iceberg-field-name`."""
    columns = []
    for column in partition_type.fields:
        name = avro_name(column.name)
        entry: dict[str, Any] = {
            "name": name,
            "type": ["null", _partition_value(column.type, column.id)],
            "default": None,
            "field-id": column.id,
        }
        if name != column.name:
            entry["iceberg-field-name"] = column.name
        columns.append(entry)
    return {"type": "record", "name": "r102", "fields": columns}


def avro_name(name: str) -> str:
    """A name that Avro allows, escaped as Iceberg's writers do: `_x2F` for a slash, `_1a` for `1a`."""

    def escaped(index: int, letter: str) -> str:
        if letter == "_" or (letter.isascii() and letter.isalnum() and not (index == 0 and letter.isdigit())):
            return letter
        return f"_{letter}" if letter.isdigit() and letter.isascii() else f"_x{ord(letter):X}"

    return "".join(escaped(index, letter) for index, letter in enumerate(name))


_SIMPLE: dict[type[Type], Any] = {
    UnknownType: "string",  # always null; Avro unions need a second branch
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimeType: {"type": "long", "logicalType": "time-micros"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    TimestamptzType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    TimestampNsType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    TimestamptzNsType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
}


def _partition_value(type_: Type, field_id: int) -> Any:
    if type(type_) in _SIMPLE:
        return _SIMPLE[type(type_)]
    if isinstance(type_, UuidType):
        return {"type": "fixed", "name": f"uuid_fixed_{field_id}", "size": 16, "logicalType": "uuid"}
    if isinstance(type_, FixedType):
        return {"type": "fixed", "name": f"fixed_{type_.length}_{field_id}", "size": type_.length}
    if isinstance(type_, DecimalType):
        return {
            "type": "fixed",
            "name": f"decimal_{type_.precision}_{type_.scale}_{field_id}",
            "size": decimal_bytes(type_.precision),
            "logicalType": "decimal",
            "precision": type_.precision,
            "scale": type_.scale,
        }
    raise Unsupported(f"partition values of type {type_} cannot be written", hint="partition by another column")


def decimal_bytes(precision: int) -> int:
    """The fewest bytes that hold every unscaled value of that precision."""
    return (int(10**precision).bit_length() + 8) // 8
