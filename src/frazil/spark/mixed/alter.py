"""ALTER TABLE of a mixed table: columns and properties, of both stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from frazil.errors import Unsupported
from frazil.mixed.table import MixedTable
from frazil.spark import grammar
from frazil.spark.handles import Change
from frazil.spark.iceberg.alter import Alteration
from frazil.spark.mixed.shown import STATE
from frazil.spark.statements import type_and_comment

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge


class MixedAlteration(Alteration):
    """All changes of one statement; Spark's grammar puts columns and properties into no statement together."""

    def __init__(self, bridge: Bridge, table: MixedTable) -> None:
        super().__init__(bridge, table.base_store)
        self._mixed = table

    def run(self, changes: Sequence[Change]) -> None:
        columns = [change for change in changes if "column" in change]
        others = [change for change in changes if "column" not in change]
        wrong = next((change for change in others if change["kind"] not in ("SetProperty", "RemoveProperty")), None)
        if wrong is not None:
            raise Unsupported(f"ALTER TABLE cannot do {wrong['kind']}", hint="tables have no such thing")
        if columns:
            update = self._mixed.update_schema()
            for change in columns:
                self._column(self._table, update, change)
            update.commit()
        if others:
            self._set(others)

    def _set(self, changes: Sequence[Change]) -> None:
        shown = next((change["property"] for change in changes if change["property"] in STATE), None)
        if shown is not None:
            raise Unsupported(f"property {shown} shows what the table is and cannot be set", hint="leave it out")
        update = self._mixed.update_properties()
        for change in changes:
            if change["kind"] == "SetProperty":
                update.set(change["property"], change["value"])
            else:
                update.remove(change["property"])
        update.commit()


def execute(bridge: Bridge, table: MixedTable, wanted: grammar.Change | grammar.AlterColumn) -> None:
    """Carry out a statement of our own grammar."""
    if not isinstance(wanted, grammar.AlterColumn):
        raise Unsupported(
            f"mixed tables have no {type(wanted).__name__}",
            hint="they keep their partitions and their key, and have no branches, tags and sort orders",
        )
    type_, comment = type_and_comment(bridge, wanted)
    table.update_schema().update_column(wanted.path, type_, doc=comment).commit()
