"""What Spark is told about a table: schema, partitioning, properties, hidden columns, and what can be done with it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from frazil.spark.handles import TableHandle
from frazil.spark.types import spark_struct

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge

READ = ("BATCH_READ",)
WRITE = ("BATCH_WRITE", "V1_BATCH_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC")
STREAM = ("MICRO_BATCH_READ", "STREAMING_WRITE")
EVOLUTION = "AUTOMATIC_SCHEMA_EVOLUTION"
SHOWN = (
    "format",
    "provider",
    "location",
    "current-snapshot-id",
    "sort-order",
    "identifier-fields",
    "format-version",
)
"""Properties that show a table's state. They are not stored, and left out when a table is created from them."""

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def describe(bridge: Bridge, handle: TableHandle) -> str:
    """The JSON that a FrazilTable is made from; the handle is kept for when it is read or written."""
    is_data = handle.kind != "metadata"
    return json.dumps(
        {
            "key": bridge.tables.put(handle),
            "rows": handle.rows,
            "name": shown_name(bridge, handle),
            "id": handle.id if is_data else None,
            "version": handle.version if is_data else None,
            "schema": json.dumps(spark_struct(handle.schema, dialect=bridge.dialect)),
            "partitioning": handle.partitioning() if is_data else [],
            "properties": handle.properties(),
            "hidden": handle.hidden(bridge.dialect),
            "capabilities": list(handle.capabilities(bridge.dialect)),
        }
    )


def shown_name(bridge: Bridge, handle: TableHandle) -> str:
    """The name of the table with the catalog's."""
    behind = "" if handle.metadata_name is None else f".{handle.metadata_name}"
    return f"{bridge.name}.{handle.name}{behind}"


def quoted_name(name: str) -> str:
    """A name as SQL text.

    >>> quoted_name("id"), quoted_name("odd `name`")
    ('id', '`odd ``name```')
    """
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"
