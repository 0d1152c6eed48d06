"""ALTER TABLE of a Lance table: columns, properties, tags and branches.

Columns are added, dropped and renamed without touching the data files. Changes of one kind are one version; Spark's
grammar puts several kinds into no statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import InvalidArgument, Unsupported
from frazil.lance.plain_schema import plain_schema
from frazil.lance.table import LanceTable
from frazil.model.schema import Schema
from frazil.model.types import NestedField, Type
from frazil.spark import grammar
from frazil.spark.describe import SHOWN
from frazil.spark.handles import Change
from frazil.spark.statements import type_and_comment
from frazil.spark.types import type_from_spark

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge

_ANY_ID = 1 << 28
"""Above the numbers of what is in a type."""
_HINT = "see what lance tables can do: add, drop, rename, change the type, allow nulls"


def alter(table: LanceTable, changes: Sequence[Change]) -> None:
    """Carry out the changes of a statement."""
    added = [_new_column(change) for change in changes if change["kind"] == "AddColumn"]
    if added:
        table.add_columns(pa.schema(added))
    dropped = [".".join(change["column"]) for change in changes if change["kind"] == "DeleteColumn"]
    missing = {
        ".".join(change["column"])
        for change in changes
        if change.get("ifExists") and table.schema.find_or_none(".".join(change["column"])) is None
    }
    if wanted := [name for name in dropped if name not in missing]:
        table.drop_columns(*wanted)
    properties = {change["property"]: change.get("value") for change in changes if "property" in change}
    if properties:
        _check_properties(properties)
        table.update_properties(properties)
    for change in changes:
        if "property" not in change and change["kind"] not in ("AddColumn", "DeleteColumn"):
            _column(table, change)


def _new_column(change: Change) -> pa.Field:
    [*above, name] = change["column"]
    if above or change["position"] is not None or not change["nullable"] or change["default"] is not None:
        raise Unsupported(
            f"column {'.'.join(change['column'])} of a lance table is added last, nullable and without a default",
            hint="add it so, and UPDATE its values",
        )
    comment = change["comment"]
    return pa.field(name, _arrow(name, type_from_spark(change["type"])), metadata=comment and {"doc": comment})


def _arrow(name: str, type_: Type) -> pa.DataType:
    """A column's type as Lance has it; InvalidSchema if it cannot."""
    return plain_schema(Schema((NestedField(_ANY_ID, name, type_),))).field(0).type


def _column(table: LanceTable, change: Change) -> None:
    path, kind = ".".join(change.get("column", ())), change["kind"]
    if kind == "RenameColumn":
        table.rename_column(path, change["name"])
    elif kind == "UpdateColumnType":
        table.change_column_type(path, _arrow(path, type_from_spark(change["type"])))
    elif kind == "UpdateColumnNullability" and change["nullable"]:
        table.make_column_optional(path)
    elif kind == "UpdateColumnComment":
        table.update_metadata({"doc": change["comment"]}, column=path)
    else:
        raise Unsupported(f"ALTER TABLE cannot do {kind} on a lance table", hint=_HINT)


def _check_properties(properties: dict[str, str | None]) -> None:
    shown = next((name for name in properties if name in SHOWN), None)
    if shown is not None:
        raise Unsupported(f"property {shown} shows the table's state and cannot be set", hint="leave it out")


def execute(bridge: Bridge, table: LanceTable, wanted: grammar.Change | grammar.AlterColumn) -> None:
    """Carry out a statement of our own grammar."""
    if isinstance(wanted, grammar.AlterColumn):
        type_, comment = type_and_comment(bridge, wanted)
        path = ".".join(wanted.path)
        table.change_column_type(path, _arrow(path, type_))
        table.update_metadata({"doc": comment}, column=path)
    elif isinstance(wanted, grammar.DropRef):
        _drop_ref(table, wanted)
    elif isinstance(wanted, grammar.PutRef):
        _put_ref(table, wanted)
    else:
        raise Unsupported(
            f"lance tables have no {type(wanted).__name__}", hint="they have no partitions, sort orders and identifiers"
        )


def _drop_ref(table: LanceTable, wanted: grammar.DropRef) -> None:
    if wanted.if_exists and wanted.name not in (table.branches if wanted.kind == "branch" else table.tags):
        return
    (table.drop_branch if wanted.kind == "branch" else table.drop_tag)(wanted.name)


def _put_ref(table: LanceTable, wanted: grammar.PutRef) -> None:
    told = (wanted.max_ref_age_ms, wanted.min_snapshots_to_keep, wanted.max_snapshot_age_ms)
    if any(value is not None for value in told):
        raise Unsupported("refs of lance tables stay until they are dropped", hint="leave RETAIN and the like out")
    exists = wanted.name in table.refs
    if exists and wanted.if_not_exists:
        return
    if not exists and not wanted.create:
        table.scan(ref=wanted.name)  # says that there is none
    if wanted.kind == "tag":
        table.create_tag(wanted.name, wanted.snapshot_id, replace=exists and wanted.replace)
    elif exists and wanted.replace:
        raise InvalidArgument(f"branch {wanted.name!r} cannot be replaced", hint="drop it, and create it anew")
    else:
        table.create_branch(wanted.name, wanted.snapshot_id)
