"""Table properties, set and removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from frazil.errors import InvalidArgument
from frazil.iceberg import properties as props
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import RemoveProperties, SetProperties, Update, UpgradeFormatVersion
from frazil.model.property_text import property_text
from frazil.model.schema import Schema


class UpdateProperties(Action):
    """Sets and removes properties. What other writers set meanwhile stays, unless it has the same name.

    `format-version` is no property, but as other libraries do, setting it upgrades the table.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._sets: dict[str, str] = {}
        self._removes: set[str] = set()
        self._format_version: int | None = None

    def set(self, name: str, value: Any) -> Self:
        """Set a property; numbers and booleans are written as Iceberg writes them."""
        if value is None:
            raise InvalidArgument(f"property {name} is set to None", hint="remove it instead")
        text = property_text(name, value)
        if name == props.FORMAT_VERSION:
            if not (text.isascii() and text.isdecimal()):
                raise InvalidArgument(f"format-version {text!r} is not a version", hint="use 2 or 3")
            self._format_version = int(text)
            return self
        props.check_properties({name: text})
        if name in self._removes:
            raise _both(name)
        self._sets[name] = text
        return self

    def set_all(self, properties: Mapping[str, Any]) -> Self:
        """Set several properties."""
        for name, value in properties.items():
            self.set(name, value)
        return self

    def remove(self, *names: str) -> Self:
        """Remove properties; one that is not set is removed already."""
        props.refuse_reserved(names)
        for name in names:
            if name in self._sets:
                raise _both(name)
            self._removes.add(name)
        return self

    def stage(self, context: Context) -> Staged:
        metadata = context.metadata
        _check_columns(self._sets, metadata.current_schema)
        changed = {name: text for name, text in self._sets.items() if metadata.properties.get(name) != text}
        removed = tuple(sorted(self._removes.intersection(metadata.properties)))
        updates: list[Update] = []
        if self._format_version is not None and self._format_version != metadata.format_version:
            updates.append(UpgradeFormatVersion(self._format_version))
        if changed:
            updates.append(SetProperties(changed))
        if removed:
            updates.append(RemoveProperties(removed))
        return Staged(tuple(updates))


def _both(name: str) -> InvalidArgument:
    return InvalidArgument(f"property {name} is both set and removed", hint="do one of both")


def _check_columns(properties: Mapping[str, str], schema: Schema) -> None:
    prefix = props.METRICS_MODE_COLUMN_PREFIX
    for name in properties:
        if name.startswith(prefix) and schema.find_or_none(name.removeprefix(prefix)) is None:
            raise InvalidArgument(
                f"property {name} names a column that the table does not have",
                hint=f"the columns are {', '.join(column.name for column in schema.fields[:12])}",
            )
