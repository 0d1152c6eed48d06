"""What Spark is told about an Iceberg table: partitioning, properties, hidden columns, and what can be done with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from frazil.iceberg import properties as props
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import field_in_any_schema
from frazil.iceberg.read import METADATA_COLUMNS
from frazil.model.partition import PartitionField, unified_partition_type
from frazil.model.schema import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID, Schema
from frazil.model.sorting import SortField
from frazil.model.transforms import (
    BucketTransform,
    IdentityTransform,
    TimeTransform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
)
from frazil.model.types import StructType, Type
from frazil.spark.describe import EVOLUTION, READ, SHOWN, STREAM, WRITE, quoted_name
from frazil.spark.types import Dialect, spark_type

if TYPE_CHECKING:
    from frazil.iceberg.table import IcebergTable
    from frazil.spark.iceberg.handle import IcebergHandle


def capabilities(handle: IcebergHandle, dialect: Dialect) -> list[str]:
    """What can be done with it."""
    if handle.branch is None:
        return list(READ)
    anything = handle.table.metadata.property_reader.get(props.ACCEPT_ANY_SCHEMA)
    more = {"ACCEPT_ANY_SCHEMA": anything, EVOLUTION: dialect.schema_evolution}
    return [*READ, *WRITE, *STREAM, *(name for name, has in more.items() if has)]


def hidden(metadata: TableMetadata, dialect: Dialect) -> list[tuple[str, str]]:
    """The metadata columns and their types."""
    lineage = {ROW_ID.name, LAST_UPDATED_SEQUENCE_NUMBER.name}
    columns = [
        (column.name, json.dumps(spark_type(column.type, dialect=dialect)))
        for column in METADATA_COLUMNS.values()
        if column.name not in lineage or metadata.format_version >= 3
    ]
    partition = spark_type(_partition_type(metadata), path="_partition", dialect=dialect)
    return [*columns, ("_partition", json.dumps(partition))]


def _partition_type(metadata: TableMetadata) -> StructType:
    def source_type(field_id: int) -> Type | None:
        found = field_in_any_schema(metadata, field_id)
        return None if found is None else found.type

    return unified_partition_type(source_type, metadata.partition_specs)


def partitioning(table: IcebergTable) -> list[list[Any]]:
    """The transforms of the default spec, as FrazilTable reads them."""
    schema = table.schema
    return [_transform(schema, part) for part in table.spec.fields if _is_shown(part, schema)]


def _is_shown(part: PartitionField, schema: Schema) -> bool:
    known = not isinstance(part.transform, VoidTransform | UnknownTransform)
    return known and schema.field_by_id(part.source_id) is not None


def _transform(schema: Schema, part: PartitionField | SortField) -> list[Any]:
    column = quoted_column(schema, part.source_id)
    transform = part.transform
    if isinstance(transform, IdentityTransform):
        return ["identity", column]
    if isinstance(transform, BucketTransform):
        return ["bucket", column, transform.buckets]
    if isinstance(transform, TruncateTransform):
        return ["truncate", column, transform.width]
    assert isinstance(transform, TimeTransform), transform
    return [f"{transform}s", column]


def quoted_column(schema: Schema, field_id: int) -> str:
    """The path of a column as SQL text, each name quoted where it must be."""
    path = [schema.field_by_id(number) for number in schema.path_ids(field_id)]
    return ".".join(quoted_name(column.name) for column in path if column is not None)


def shown_properties(table: IcebergTable) -> dict[str, str]:
    """The table's properties, and its state as Iceberg's catalogs show it among them."""
    stored = {key: text for key, text in table.properties.items() if key not in SHOWN}
    default = props.DEFAULT_FILE_FORMAT
    shown = {
        "format": f"iceberg/{stored.get(default.name, default.default)}",
        "provider": "iceberg",
        "location": table.location,
        "current-snapshot-id": "none" if table.current_snapshot is None else str(table.current_snapshot.snapshot_id),
        props.FORMAT_VERSION: str(table.format_version),
    }
    if table.sort_order.fields:
        shown["sort-order"] = ", ".join(_sort_key(table.schema, key) for key in table.sort_order.fields)
    identifiers = [table.schema.name_of(number) or "" for number in table.schema.identifier_field_ids]
    if identifiers:
        shown["identifier-fields"] = f"[{','.join(identifiers)}]"
    return {**stored, **shown}


def _sort_key(schema: Schema, key: SortField) -> str:
    name, column, *size = _transform(schema, key)
    term = column if name == "identity" else f"{name.removesuffix('s')}({', '.join(map(str, [*size, column]))})"
    return f"{term} {key.direction.upper()} {key.null_order.replace('-', ' ').upper()}"
