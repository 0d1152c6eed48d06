"""CALL lake.system.<procedure>(...): a table's history and upkeep, under the names of Iceberg's procedures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from frazil.catalog.formats import ICEBERG
from frazil.errors import InvalidArgument, NotFound, Unsupported
from frazil.spark.formats import format_named
from frazil.spark.procedures import conversion, history, optimizing, registration, upkeep
from frazil.spark.procedures.procedure import Procedure, Run, table_argument

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge

_MODULES = (conversion, history, optimizing, registration, upkeep)
PROCEDURES: dict[str, Procedure] = {procedure.name: procedure for one in _MODULES for procedure in one.PROCEDURES}


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
        told = ", ".join(f"`{part.name}` {part.type}" for part in found.parameters)
        types = cast(StructType, StructType.fromDDL(told))
        return json.dumps(
            {
                "name": found.name,
                "description": found.name.replace("_", " "),
                "output": StructType.fromDDL(found.output).json(),
                "parameters": [
                    [part.name, column.dataType.json(), None if part.required else "NULL"]
                    for part, column in zip(found.parameters, types, strict=True)
                ],
            }
        )

    def call(self, name: str, values: str, jsession: Any) -> Any:
        """Run it; the rows as an InternalRow[]."""
        found = PROCEDURES[name]
        arguments = {part.name: value for part, value in zip(found.parameters, json.loads(values), strict=True)}
        for part in found.parameters:
            if part.required and arguments[part.name] is None:
                raise InvalidArgument(f"{name} needs its argument {part.name}", hint=f"write {part.name} => ...")
        spark = self._bridge.session(jsession)
        table = table_argument(self._bridge, spark, arguments["table"]) if found.on_table else None
        rows = list(_run_for(found, table)(self._bridge, spark, table, arguments))
        frame = self._bridge.spark.createDataFrame(_as_arrow(rows, found.output))
        return frame._jdf.queryExecution().executedPlan().executeCollect()


def _run_for(procedure: Procedure, table: Any) -> Run:
    """What the procedure does for a table of that format."""
    if table is None or table.format == ICEBERG:
        return procedure.run
    known = format_named(table.format).procedures
    if procedure.name not in known:
        raise Unsupported(
            f"{procedure.name} is not for {table.format} tables such as {table.identifier}",
            hint="CALL lake.system.optimize(table => ...) does what is due for tables of all formats"
            + (f"; for these there are {', '.join(sorted(known))} as well" if known else ""),
        )
    return known[procedure.name]


def _as_arrow(rows: Sequence[tuple[Any, ...]], output: str) -> pa.Table:
    """Rows that Spark takes as they are: those of Python it would send through a worker."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = to_arrow_schema(cast(StructType, StructType.fromDDL(output)))
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.table([pa.array(values, column.type) for values, column in zip(columns, schema, strict=True)], schema)


def _find(parts: list[str]) -> Procedure:
    found = PROCEDURES.get(parts[-1].lower()) if parts[:-1] == ["system"] else None
    if found is None:
        raise NotFound(f"no procedure {'.'.join(parts)}", hint=f"there are {', '.join(sorted(PROCEDURES))} in system")
    return found
