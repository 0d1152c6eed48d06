"""CALL lake.system.<procedure>(...): what a table does with its history, as Iceberg's procedures name it.

Arguments come as Spark's values (timestamps in microseconds), tables as text that may begin with the catalog's name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument, NotFound
from frazil.iceberg.table import IcebergTable
from frazil.spark.grammar import table_parts

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Parameter:
    """An argument: its name, its type as Spark's JSON, and the SQL text of its default; None if it must be given."""

    name: str
    type: str
    default: str | None = None


@dataclass(frozen=True)
class Procedure:
    """What can be called: `run(bridge, arguments)` gives rows of `output` (a DDL text)."""

    name: str
    parameters: tuple[Parameter, ...]
    output: str
    run: Callable[[Bridge, dict[str, Any]], Sequence[Row]]


class Procedures:
    """Answers what ProcedureCatalog asks."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        bridge.on("listProcedures", self.list)
        bridge.on("loadProcedure", self.load)
        bridge.on("callProcedure", self.call)

    def list(self, namespace: str, _b: None, _c: None) -> str:
        """Their names; all are in namespace `system`."""
        return json.dumps(sorted(PROCEDURES) if json.loads(namespace) in ([], ["system"]) else [])

    def load(self, name: str, _b: None, _c: None) -> str:
        """What Spark must know to bind a call."""
        from pyspark.sql.types import StructType

        found = _find(json.loads(name))
        return json.dumps(
            {
                "name": found.name,
                "description": found.name.replace("_", " "),
                "output": StructType.fromDDL(found.output).json(),
                "parameters": [[part.name, json.dumps(part.type), part.default] for part in found.parameters],
            }
        )

    def call(self, name: str, values: str, _c: None) -> Any:
        """Run it; the rows as an InternalRow[]."""
        found = PROCEDURES[name]
        arguments = {part.name: value for part, value in zip(found.parameters, json.loads(values), strict=True)}
        rows = list(found.run(self._bridge, arguments))
        frame = self._bridge.spark.createDataFrame(rows, found.output)
        return frame._jdf.queryExecution().executedPlan().executeCollect()


def _find(parts: list[str]) -> Procedure:
    found = PROCEDURES.get(parts[-1].lower()) if parts[:-1] == ["system"] else None
    if found is None:
        raise NotFound(f"no procedure {'.'.join(parts)}", hint=f"there are {', '.join(sorted(PROCEDURES))} in system")
    return found


def table_argument(bridge: Bridge, text: Any) -> IcebergTable:
    """The table that an argument names."""
    if not isinstance(text, str):
        raise InvalidArgument("no table was given", hint="write table => 'db.t'")
    parts = table_parts(text)
    return bridge.lake.table(parts[1:] if len(parts) > 2 and parts[0] == bridge.name else parts)


def _changed(bridge: Bridge, table: IcebergTable) -> None:
    bridge.refresh(table.identifier)


def _current(table: IcebergTable) -> int | None:
    return table.metadata.current_snapshot_id


def _rollback_to_snapshot(bridge: Bridge, given: dict[str, Any]) -> Sequence[Row]:
    table = table_argument(bridge, given["table"])
    before = _current(table)
    table.rollback().to_snapshot(given["snapshot_id"]).commit()
    _changed(bridge, table)
    return [(before, _current(table))]


def _rollback_to_timestamp(bridge: Bridge, given: dict[str, Any]) -> Sequence[Row]:
    table = table_argument(bridge, given["table"])
    before = _current(table)
    table.rollback().to_timestamp(given["timestamp"] // 1000).commit()
    _changed(bridge, table)
    return [(before, _current(table))]


def _set_current_snapshot(bridge: Bridge, given: dict[str, Any]) -> Sequence[Row]:
    table = table_argument(bridge, given["table"])
    target = given["snapshot_id"] if given["ref"] is None else given["ref"]
    if target is None or (given["ref"] is not None and given["snapshot_id"] is not None):
        raise InvalidArgument("give either snapshot_id or ref", hint="name the snapshot once")
    before = _current(table)
    table.rollback().set_current(target).commit()
    _changed(bridge, table)
    return [(before, _current(table))]


def _cherrypick_snapshot(bridge: Bridge, given: dict[str, Any]) -> Sequence[Row]:
    table = table_argument(bridge, given["table"])
    table.cherry_pick(given["snapshot_id"]).commit()
    _changed(bridge, table)
    return [(given["snapshot_id"], _current(table))]


def _fast_forward(bridge: Bridge, given: dict[str, Any]) -> Sequence[Row]:
    table = table_argument(bridge, given["table"])
    found = table.refs.get(given["branch"])
    table.manage_refs().fast_forward(given["branch"], given["to"]).commit()
    _changed(bridge, table)
    before = None if found is None else found.snapshot_id
    return [(given["branch"], before, table.metadata.ref(given["branch"]).snapshot_id)]


def _ancestors_of(bridge: Bridge, given: dict[str, Any]) -> Sequence[Row]:
    table = table_argument(bridge, given["table"])
    start = given["snapshot_id"]
    if start is None:
        start = _current(table)
    return [(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in table.metadata.ancestors_of(start)]


def _register_table(bridge: Bridge, given: dict[str, Any]) -> Sequence[Row]:
    table = bridge.lake.register_table(table_parts(given["table"]), given["metadata_file"])
    current = table.current_snapshot
    if current is None:
        return [(None, None, None)]
    counts = (current.summary.get("total-records"), current.summary.get("total-data-files"))
    return [(current.snapshot_id, *(None if text is None else int(text) for text in counts))]


_TABLE = Parameter("table", "string")
_ID = Parameter("snapshot_id", "long")
_MOVED = "previous_snapshot_id BIGINT, current_snapshot_id BIGINT"

PROCEDURES = {
    procedure.name: procedure
    for procedure in (
        Procedure("rollback_to_snapshot", (_TABLE, _ID), _MOVED, _rollback_to_snapshot),
        Procedure(
            "rollback_to_timestamp", (_TABLE, Parameter("timestamp", "timestamp")), _MOVED, _rollback_to_timestamp
        ),
        Procedure(
            "set_current_snapshot",
            (_TABLE, Parameter("snapshot_id", "long", "NULL"), Parameter("ref", "string", "NULL")),
            _MOVED,
            _set_current_snapshot,
        ),
        Procedure(
            "cherrypick_snapshot",
            (_TABLE, _ID),
            "source_snapshot_id BIGINT, current_snapshot_id BIGINT",
            _cherrypick_snapshot,
        ),
        Procedure(
            "fast_forward",
            (_TABLE, Parameter("branch", "string"), Parameter("to", "string")),
            "branch_updated STRING, previous_ref BIGINT, updated_ref BIGINT",
            _fast_forward,
        ),
        Procedure(
            "ancestors_of",
            (_TABLE, Parameter("snapshot_id", "long", "NULL")),
            "snapshot_id BIGINT, timestamp BIGINT",
            _ancestors_of,
        ),
        Procedure(
            "register_table",
            (_TABLE, Parameter("metadata_file", "string")),
            "current_snapshot_id BIGINT, total_records_count BIGINT, total_data_files_count BIGINT",
            _register_table,
        ),
    )
}
