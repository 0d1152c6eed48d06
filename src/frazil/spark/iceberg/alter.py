"""ALTER TABLE of an Iceberg table: columns and properties, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from frazil.errors import InvalidArgument, Unsupported
from frazil.iceberg.actions.update_schema import UpdateSchema
from frazil.iceberg.table import IcebergTable, TableTransaction
from frazil.model.schema_evolution import Position
from frazil.spark.defaults import default_value
from frazil.spark.handles import Change
from frazil.spark.types import type_from_spark

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge


class Alteration:
    """All changes of one statement."""

    def __init__(self, bridge: Bridge, table: IcebergTable) -> None:
        self._bridge = bridge
        self._table = table

    def run(self, changes: Sequence[Change]) -> None:
        """Carry them out."""
        with self._table.transaction() as transaction:
            self.change_columns(transaction, [change for change in changes if "column" in change])
            self._properties(transaction, [change for change in changes if "column" not in change])

    def change_columns(self, transaction: TableTransaction, changes: Sequence[Change]) -> None:
        """Add changes of columns to a transaction."""
        if changes:
            update = transaction.update_schema()
            for change in changes:
                self._column(self._table, update, change)
            update.commit()

    def _column(self, table: IcebergTable, update: UpdateSchema, change: Change) -> None:
        path = tuple(change["column"])
        kind = change["kind"]
        if kind == "AddColumn":
            self._add(update, path, change)
        elif kind == "RenameColumn":
            update.rename_column(path, change["name"])
        elif kind == "DeleteColumn":
            if not (change["ifExists"] and _is_missing(table, path)):
                update.drop_column(path)
        elif kind == "UpdateColumnType":
            update.update_column(path, type_from_spark(change["type"]))
        elif kind == "UpdateColumnNullability":
            if change["nullable"]:
                update.make_optional(path)
            else:
                update.require_column(path)
        elif kind == "UpdateColumnComment":
            update.update_column(path, doc=change["comment"])
        elif kind == "UpdateColumnPosition":
            self._move(update, path, change["position"])
        elif kind == "UpdateColumnDefaultValue":
            self._default(table, update, path, change["default"])
        else:
            raise Unsupported(f"ALTER TABLE cannot do {kind}", hint="see the documentation for what it can")

    def _add(self, update: UpdateSchema, path: tuple[str, ...], change: Change) -> None:
        type_ = type_from_spark(change["type"])
        sql, place = change["default"], change["position"]
        update.add_column(
            path,
            type_,
            change["comment"],
            required=not change["nullable"],
            default=None if sql is None else default_value(self._bridge, ".".join(path), sql, type_),
            position=None if place is None else Position.first() if place is True else Position.after(place),
        )

    def _move(self, update: UpdateSchema, path: tuple[str, ...], place: str | bool) -> None:
        if place is True:
            update.move_first(path)
        else:
            update.move_after(path, (*path[:-1], str(place)))

    def _default(self, table: IcebergTable, update: UpdateSchema, path: tuple[str, ...], sql: str | None) -> None:
        column = update.apply().find(".".join(path))
        value = None if not sql else default_value(self._bridge, ".".join(path), sql, column.type)
        if value is None:
            update.unset_default(path)
        else:
            update.update_column(path, default=value)

    def _properties(self, transaction: TableTransaction, changes: list[Change]) -> None:
        plain = []
        for change in changes:
            if change["kind"] not in ("SetProperty", "RemoveProperty"):
                raise Unsupported(f"ALTER TABLE cannot do {change['kind']}", hint="tables have no such thing")
            special = _SPECIAL.get(change["property"])
            if special is None:
                plain.append(change)
            else:
                special(transaction, change.get("value"))
        if plain:
            update = transaction.update_properties()
            for change in plain:
                if change["kind"] == "SetProperty":
                    update.set(change["property"], change["value"])
                else:
                    update.remove(change["property"])
            update.commit()


def _is_missing(table: IcebergTable, path: tuple[str, ...]) -> bool:
    return table.schema.find_or_none(".".join(path), case_sensitive=False) is None


# Properties that are no properties, but that Iceberg lets people set like them.


def _location(transaction: TableTransaction, value: str | None) -> None:
    if value is None:
        raise InvalidArgument("a table's location cannot be removed", hint="set another one")
    transaction.update_location().set_location(value).commit()


def _snapshot_id(name: str, value: str | None) -> int:
    if value is None or not value.isdecimal():
        raise InvalidArgument(f"{name} is {value!r}", hint="give the id of a snapshot")
    return int(value)


def _current_snapshot(transaction: TableTransaction, value: str | None) -> None:
    transaction.rollback().set_current(_snapshot_id("current-snapshot-id", value)).commit()


def _cherry_pick(transaction: TableTransaction, value: str | None) -> None:
    transaction.cherry_pick(_snapshot_id("cherry-pick-snapshot-id", value)).commit()


def _refuse(what: str) -> Callable[[TableTransaction, str | None], None]:
    def refuse(_transaction: TableTransaction, _value: str | None) -> None:
        raise Unsupported(f"property {what} shows the table's state and cannot be set", hint=_STATEMENTS[what])

    return refuse


_STATEMENTS = {
    "sort-order": "use ALTER TABLE ... WRITE ORDERED BY",
    "identifier-fields": "use ALTER TABLE ... SET IDENTIFIER FIELDS",
    "provider": "a table keeps its provider",
    "format": "set write.format.default",
}
_SPECIAL: dict[str, Callable[[TableTransaction, str | None], None]] = {
    "location": _location,
    "current-snapshot-id": _current_snapshot,
    "cherry-pick-snapshot-id": _cherry_pick,
    **{name: _refuse(name) for name in _STATEMENTS},
}
