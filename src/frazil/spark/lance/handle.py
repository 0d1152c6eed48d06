"""A Lance table as the engine holds it: a version of one of its branches."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from frazil.catalog.formats import LANCE, STABLE_ROW_IDS
from frazil.errors import InvalidArgument
from frazil.lance import metadata_tables
from frazil.lance.feature_flags import has_stable_row_ids
from frazil.lance.plan import METADATA_COLUMNS
from frazil.lance.same_table import made_by
from frazil.lance.scan import fragment_tasks
from frazil.lance.table import LanceTable
from frazil.lance.vectors import told_of
from frazil.lance.version import LanceVersion
from frazil.model.arrow import schema_from_arrow
from frazil.spark.describe import READ, SHOWN, WRITE
from frazil.spark.handles import MAIN, Asked, Change, TableHandle, number_of
from frazil.spark.lance.scan import HIDDEN, STABLE_ID, LanceSource, column_named
from frazil.spark.scan.columns import pack
from frazil.spark.scan.native import output_struct
from frazil.spark.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.lance.results import RowChanges
    from frazil.spark import grammar
    from frazil.spark.bridge import Bridge
    from frazil.spark.changes.command import Command
    from frazil.spark.types import Dialect

_ALIASES = {"history": "snapshots", "versions": "snapshots"}
"""Other names for a metadata table: Iceberg's, and Lance's own."""


@dataclass(frozen=True)
class LanceHandle(TableHandle):
    """A table, and the version that is read."""

    format: ClassVar[str] = LANCE

    table: LanceTable
    state: LanceVersion
    shape: LanceVersion | None = None
    """The version whose columns are read, if not those of the state."""

    def identity(self) -> dict[str, Any]:
        shape = None if self.shape is None else self.shape.version
        return {"at": self.state.location, "made": made_by(self.state), "shape": shape}

    def origin(self) -> dict[str, Any]:
        return {"root": self.state.root, "line": self.state.branch, "number": self.state.version}

    def with_columns_of(self, other: Self) -> Self:
        return replace(self, schema=other.schema, shape=other.shape or other.state)

    # What Spark is told.

    @property
    def id(self) -> str | None:
        return self.state.root

    @property
    def version(self) -> str | None:
        branch = self.state.branch
        return str(self.state.version) if branch is None else f"{branch}:{self.state.version}"

    @property
    def is_stable(self) -> bool:
        """Whether rows keep their ids when they move."""
        return has_stable_row_ids(self.state.manifest)

    def properties(self) -> dict[str, str]:
        stored = {key: text for key, text in self.state.manifest.config.items() if key not in SHOWN}
        shown = {
            "format": f"lance/{self.state.file_version}",
            "provider": LANCE,
            "location": self.state.root,
            "current-snapshot-id": str(self.table.version),
            "format-version": self.state.file_version,
        }
        vectors = told_of(self.state.arrow_schema)
        return {**stored, **vectors, **shown, **({STABLE_ROW_IDS: "true"} if self.is_stable else {})}

    def hidden(self, dialect: Dialect) -> list[tuple[str, str]]:
        if self.kind == "metadata":
            return []
        return [
            (name, json.dumps(spark_type(column.type, dialect=dialect)))
            for name, column in HIDDEN.items()
            if (name != STABLE_ID or self.is_stable) and not (name in METADATA_COLUMNS and name in self.schema.columns)
        ]

    def capabilities(self, dialect: Dialect) -> Sequence[str]:
        return READ if self.branch is None else (*READ, *WRITE)

    @property
    def metadata_columns(self) -> Collection[str]:
        return METADATA_COLUMNS.keys()

    @property
    def row_count(self) -> int:
        return sum(task.rows for task in fragment_tasks(self.state, lineage=False))

    # Time travel.

    def at(self, version: int | None, ref: str | None, as_of: int | str | datetime | None) -> Self:
        return self._at(self.table.at(version=version, ref=ref, as_of=as_of))

    def at_version(self, version: str) -> Self:
        number = number_of(version)
        if number is not None and version not in self.table.refs:
            return self._pinned(self.table.at(version=number))
        return self._pinned(self.table.at(ref=version))

    def at_number(self, number: int) -> Self:
        return self._pinned(self.table.at(version=number))

    def at_millis(self, millis: int) -> Self:
        return self._pinned(self.table.at(as_of=millis))

    def at_ref(self, name: str) -> Self:
        if name == MAIN or name in self.table.branches:
            line = self.table.branch(name)
            return replace(self._pinned(line.current_snapshot), table=line, branch=name)
        return self._pinned(self.table.at(ref=name))

    def _pinned(self, state: LanceVersion) -> Self:
        if self.metadata_name in metadata_tables.OF_ALL_VERSIONS:
            raise InvalidArgument(
                f"{self.metadata_name} is about all versions, not about one", hint="leave the version out"
            )
        return replace(self._at(state), branch=None, pinned=True)

    def _at(self, state: LanceVersion) -> Self:
        return replace(self, state=state, schema=self.schema if self.kind == "metadata" else state.schema)

    def metadata_table(self, name: str) -> Self | None:
        wanted = _ALIASES.get(name, name)
        columns = metadata_tables.metadata_schema(wanted)
        if columns is None:
            return None
        return replace(self, schema=schema_from_arrow(columns), kind="metadata", branch=None, metadata_name=wanted)

    # Rows.

    def scan(self, bridge: Bridge, asked: Asked, jsession: Any) -> Any:
        if self.metadata_name is not None:
            from frazil.spark.local_scan import local_plan

            rows = metadata_tables.metadata_table(self.table, self.metadata_name, self.state)
            return local_plan(bridge, rows, self.schema, asked.columns, jsession)
        if not self.state.manifest.fragments:
            columns = [column_named(self.schema, name) for name in asked.columns]
            return bridge.scans.describe([], output_struct(columns, bridge.dialect))
        source = LanceSource(self.table.store, self.state, self.shape or self.state, self.schema)
        key = json.dumps([self.rows, *asked.columns])
        return bridge.scans.describe([source.relation(asked.columns, self.name, key, bridge.dialect)])

    def aggregate(self, aggregates: Sequence[Sequence[Any]], filters: str) -> bytes | None:
        if self.kind == "metadata" or json.loads(filters):
            return None
        required = {column.name for column in self.schema.fields if column.required}
        if any(function != "count" or not (column is None or column in required) for function, column in aggregates):
            return None
        tasks = list(fragment_tasks(self.state, lineage=False))
        if not all(task.physical_rows for task in tasks):
            return None
        count = pack(pa.array([sum(task.rows for task in tasks)], pa.int64()))
        return b"".join([(1).to_bytes(4, "little"), *[count] * len(aggregates)])

    def insert(self, bridge: Bridge, mode: str, conditions: str, options: Mapping[str, str], rows: DataFrame) -> None:
        from frazil.spark.lance.insert import insert

        insert(bridge, self, mode, conditions, options, rows)

    def truncate(self, spark: SparkSession) -> None:
        self.refuse_unless_written()
        self.table.delete("TRUE")

    def change_rows(self, command: Command) -> RowChanges:
        from frazil.spark.lance.changes import change_rows

        self.refuse_unless_written()
        return change_rows(self, command)

    def refuse_unless_written(self) -> None:
        """Refuse to change what is no branch."""
        if self.branch is None:
            self._refuse("cannot be changed where an earlier state was asked for: name the table, or a branch")

    # The table itself.

    def alter(self, bridge: Bridge, changes: Sequence[Change]) -> TableHandle:
        from frazil.spark.lance.alter import alter

        alter(self.table, changes)
        return current(self.table)

    def execute(self, bridge: Bridge, change: grammar.Change | grammar.AlterColumn) -> None:
        from frazil.spark.lance.alter import execute

        execute(bridge, self.table, change)


def current(table: LanceTable) -> LanceHandle:
    """The table as it is now."""
    state = table.current_snapshot
    return LanceHandle(table, table.schema, state, branch=state.branch or MAIN)
