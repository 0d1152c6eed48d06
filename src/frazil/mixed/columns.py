"""Columns that files of a keyed table have, or that are known from their names, beside those of the schema."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.errors import InvalidSchema
from frazil.model.schema import Schema
from frazil.model.types import LongType, NestedField, StringType

TRANSACTION_ID = NestedField(2147482646, "_transaction_id", LongType(), doc="Transaction that wrote the row")
FILE_OFFSET = NestedField(2147482645, "_file_offset", LongType(), doc="Place of the row among those of its writer")
CHANGE_ACTION = NestedField(2147482644, "_change_action", StringType(), doc="INSERT or DELETE")
TREE_NODE = NestedField(2147482643, "_tree_node", LongType(), doc="Node of the data tree")

CHANGE_COLUMNS = (TRANSACTION_ID, FILE_OFFSET, CHANGE_ACTION)
"""What the change store shows beside the columns of the table."""

_RESERVED = frozenset(column.name for column in (*CHANGE_COLUMNS, TREE_NODE))

BASE_OFFSET = 2**63 - 1
"""The offset of all base rows: a delete of the same transaction does not reach them."""

NO_OFFSET = -1
"""The offset of a row that has none: lower than any."""


def change_schema(schema: Schema) -> Schema:
    """What files of the change store hold."""
    stored = NestedField(FILE_OFFSET.id, FILE_OFFSET.name, FILE_OFFSET.type)
    return Schema((*schema.fields, stored), schema.schema_id)


def refuse_reserved(names: Iterable[str]) -> None:
    """Refuse columns with names of these, whatever their case: rows and changes could not be read any more."""
    taken = next((name for name in names if name.lower() in _RESERVED), None)
    if taken is not None:
        raise InvalidSchema(
            f"column {taken!r} has the name of a column in which keyed mixed tables keep what happened to rows",
            hint="give the column another name",
        )
