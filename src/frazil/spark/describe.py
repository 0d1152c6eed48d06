"""What Spark is told about a table: schema, partitioning, properties, hidden columns, and what can be done with it."""

from __future__ import annotations

import json
import re
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
from frazil.spark.handles import TableHandle
from frazil.spark.types import spark_struct, spark_type

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge

READ = ("BATCH_READ",)
WRITE = ("BATCH_WRITE", "V1_BATCH_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC")
STREAM = ("MICRO_BATCH_READ", "STREAMING_WRITE")
SHOWN = (
    "format",
    "provider",
    "location",
    "current-snapshot-id",
    "sort-order",
    "identifier-fields",
    props.FORMAT_VERSION,
)
"""Properties that show a table's state. They are not stored, and left out when a table is created from them."""

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def describe(bridge: Bridge, handle: TableHandle) -> str:
    """The JSON that a FrazilTable is made from; the handle is kept for when it is read or written."""
    is_data = handle.kind != "metadata"
    snapshot = handle.snapshot
    schema = spark_struct(handle.schema, dialect=bridge.dialect)
    return json.dumps(
        {
            "key": bridge.tables.put(handle),
            "rows": handle.rows,
            "name": shown_name(bridge, handle),
            "id": handle.table.metadata.table_uuid if is_data else None,
            "version": str(snapshot.snapshot_id) if snapshot is not None and is_data else None,
            "schema": json.dumps(schema),
            "partitioning": partitioning(handle) if is_data else [],
            "properties": shown_properties(handle),
            "hidden": _hidden(bridge, handle) if is_data else [],
            "capabilities": _capabilities(bridge, handle),
        }
    )


def shown_name(bridge: Bridge, handle: TableHandle) -> str:
    """The name of the table with the catalog's."""
    behind = "" if handle.metadata_name is None else f".{handle.metadata_name}"
    return f"{bridge.name}.{handle.name}{behind}"


def _capabilities(bridge: Bridge, handle: TableHandle) -> list[str]:
    if handle.branch is None:
        return list(READ)
    anything = handle.table.metadata.property_reader.get(props.ACCEPT_ANY_SCHEMA)
    evolves = bridge.dialect.schema_evolution
    more = {"ACCEPT_ANY_SCHEMA": anything, "AUTOMATIC_SCHEMA_EVOLUTION": evolves}
    return [*READ, *WRITE, *STREAM, *(name for name, has in more.items() if has)]


def _hidden(bridge: Bridge, handle: TableHandle) -> list[tuple[str, str]]:
    lineage = {ROW_ID.name, LAST_UPDATED_SEQUENCE_NUMBER.name}
    metadata = handle.table.metadata
    columns = [
        (column.name, json.dumps(spark_type(column.type, dialect=bridge.dialect)))
        for column in METADATA_COLUMNS.values()
        if column.name not in lineage or metadata.format_version >= 3
    ]
    partition = spark_type(_partition_type(metadata), path="_partition", dialect=bridge.dialect)
    return [*columns, ("_partition", json.dumps(partition))]


def _partition_type(metadata: TableMetadata) -> StructType:
    def source_type(field_id: int) -> Type | None:
        found = field_in_any_schema(metadata, field_id)
        return None if found is None else found.type

    return unified_partition_type(source_type, metadata.partition_specs)


def partitioning(handle: TableHandle) -> list[list[Any]]:
    """The transforms of the default spec, as FrazilTable reads them."""
    schema = handle.table.schema
    return [_transform(schema, part) for part in handle.table.spec.fields if _is_shown(part, schema)]


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


def quoted_name(name: str) -> str:
    """A name as SQL text.

    >>> quoted_name("id"), quoted_name("odd `name`")
    ('id', '`odd ``name```')
    """
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def shown_properties(handle: TableHandle) -> dict[str, str]:
    """The table's properties, and its state as Iceberg's catalogs show it among them."""
    table = handle.table
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
