"""An Iceberg table as the engine holds it: at a snapshot, with one of its schemas."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

from frazil.catalog.folders import remove_empty_folder
from frazil.catalog.formats import ICEBERG
from frazil.errors import CommitFailed, InvalidArgument, NotFound
from frazil.iceberg.read import METADATA_COLUMNS
from frazil.iceberg.scan import choose_snapshot
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.model.transforms import IdentityTransform, VoidTransform
from frazil.spark.handles import MAIN, Asked, Change, CommandKind, Conf, TableHandle, number_of
from frazil.spark.iceberg import shown
from frazil.spark.wap import wap_branch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.iceberg.row_changes import RowChanges
    from frazil.iceberg.table import TableTransaction
    from frazil.spark import grammar
    from frazil.spark.bridge import Bridge
    from frazil.spark.changes.command import Command
    from frazil.spark.scan.contents import OnlyFiles
    from frazil.spark.types import Dialect

_ATTEMPTS = 5


@dataclass(frozen=True)
class IcebergHandle(TableHandle):
    """A table at a snapshot, None if it has none."""

    format: ClassVar[str] = ICEBERG

    table: IcebergTable
    snapshot: Snapshot | None = None
    _: KW_ONLY
    files: OnlyFiles | None = None
    """Which files of the snapshot, if not all of them."""
    evolution: Sequence[Change] = ()
    """Changes of columns that are in `schema`, and are committed with the rows that are written."""

    def identity(self) -> dict[str, Any]:
        metadata = self.table.metadata
        return {
            "uuid": metadata.table_uuid or metadata.location,
            "snapshot": None if self.snapshot is None else self.snapshot.snapshot_id,
            "schema": self.schema.schema_id,
            "evolution": list(self.evolution),
            # a metadata table shows all of the metadata, not only a snapshot
            "at": self.table.metadata_location if self.kind == "metadata" else None,
        }

    def origin(self) -> dict[str, Any]:
        return {"metadata": self.table.metadata_location}

    # What Spark is told.

    @property
    def id(self) -> str | None:
        return self.table.metadata.table_uuid

    @property
    def version(self) -> str | None:
        return None if self.snapshot is None else str(self.snapshot.snapshot_id)

    def properties(self) -> dict[str, str]:
        return shown.shown_properties(self.table)

    def partitioning(self) -> list[list[Any]]:
        return shown.partitioning(self.table)

    def hidden(self, dialect: Dialect) -> list[tuple[str, str]]:
        return [] if self.kind == "metadata" else shown.hidden(self.table.metadata, dialect)

    def capabilities(self, dialect: Dialect) -> Sequence[str]:
        return shown.capabilities(self, dialect)

    @property
    def metadata_columns(self) -> Collection[str]:
        return METADATA_COLUMNS.keys()

    @property
    def row_count(self) -> int:
        count = "0" if self.snapshot is None else self.snapshot.summary.get("total-records", "0")
        return int(count) if count.isdecimal() else 0

    # Time travel.

    def at(self, version: int | None, ref: str | None, as_of: int | str | datetime | None) -> Self:
        snapshot, schema = choose_snapshot(self.table.metadata, version, ref, as_of)
        return replace(self, snapshot=snapshot, schema=schema)

    def at_version(self, version: str) -> Self:
        metadata = self.table.metadata
        number = number_of(version)
        # a number that is neither says that there is no such snapshot
        if number is not None and (metadata.snapshot_or_none(number) is not None or version not in self.table.refs):
            return self.at_number(number)
        return replace(self.at_ref(version), branch=None)

    def at_number(self, number: int) -> Self:
        return self._at(version=number)

    def at_millis(self, millis: int) -> Self:
        return self._at(as_of=millis)

    def at_ref(self, name: str) -> Self:
        found = self._at(ref=name)
        return replace(found, branch=name) if self.table.metadata.ref(name).is_branch else found

    def _at(self, **which: Any) -> Self:
        snapshot, schema = choose_snapshot(self.table.metadata, **which)
        if self.metadata_name is not None:
            from frazil.iceberg.metadata_tables import TIME_TRAVEL_TABLES

            if self.metadata_name not in TIME_TRAVEL_TABLES:
                raise InvalidArgument(
                    f"{self.metadata_name} is about all snapshots, not about one", hint="leave the version out"
                )
            schema = self.schema
        return replace(self, snapshot=snapshot, schema=schema, branch=None, pinned=True)

    def audited(self, conf: Conf) -> Self:
        branch = wap_branch(self.table.metadata, conf)
        if branch is None or branch not in self.table.refs:
            return self
        return replace(self.at_ref(branch), pinned=False)

    def metadata_table(self, name: str) -> Self | None:
        from frazil.iceberg.metadata_tables import METADATA_TABLES, metadata_table_schema

        if name not in METADATA_TABLES:
            return None
        schema = metadata_table_schema(self.table.metadata, name)
        return replace(self, schema=schema, kind="metadata", branch=None, metadata_name=name)

    # Rows.

    def scan(self, bridge: Bridge, asked: Asked, jsession: Any) -> Any:
        if self.kind == "metadata":
            return self._metadata_plan(bridge, asked.columns, jsession)
        from frazil.spark.scan.plan import describe_scan

        return describe_scan(bridge, [self], asked, jsession)

    def _metadata_plan(self, bridge: Bridge, columns: Sequence[str], jsession: Any) -> Any:
        from frazil.iceberg.metadata_tables import Source, read
        from frazil.spark.local_scan import local_plan

        table = self.table
        assert self.metadata_name is not None
        rows = read(Source(table.metadata, table.store, table.metadata_location, self.snapshot), self.metadata_name)
        return local_plan(bridge, rows, self.schema, columns, jsession)

    def aggregate(self, aggregates: Sequence[Sequence[Any]], filters: str) -> bytes | None:
        from frazil.spark.scan.aggregates import Aggregate, answer
        from frazil.spark.scan.plan import source_of

        if self.kind == "metadata":
            return None
        return answer(source_of(self, None), [Aggregate(*one) for one in aggregates], filters)

    def insert(self, bridge: Bridge, mode: str, conditions: str, options: Mapping[str, str], rows: DataFrame) -> None:
        from frazil.spark.write.insert import insert

        insert(bridge, self, mode, conditions, options, rows)

    def check_partitions(self, given: Sequence[str]) -> None:
        fields = [part for part in self.table.spec.fields if not isinstance(part.transform, VoidTransform)]
        known = [self.table.schema.name_of(part.source_id) for part in fields]
        plain = all(isinstance(part.transform, IdentityTransform) for part in fields)
        if given and not (plain and list(given) == known):
            raise InvalidArgument(
                f"{self.name} is not partitioned by {', '.join(given)}", hint="leave partitionBy out: the table knows"
            )

    def truncate(self, spark: SparkSession) -> None:
        from frazil.spark.changes.run import truncate

        truncate(self, spark)

    def copies(self, kind: CommandKind) -> bool:
        from frazil.spark.changes.run import copies

        return copies(self, kind)

    def change_rows(self, command: Command) -> RowChanges:
        from frazil.spark.changes.run import change_rows

        return change_rows(self, command)

    def last_batch(self, options: Mapping[str, str], query: str) -> int:
        from frazil.spark.streaming.write import last_batch

        return last_batch(self, options, query)

    def stream_store(self) -> tuple[IcebergTable, frozenset[str]]:
        return self.table, frozenset()

    def stream_part(
        self, store: IcebergTable, snapshot: Snapshot | None, files: OnlyFiles | None, options: Mapping[str, str]
    ) -> Self:
        return replace(self, table=store, snapshot=snapshot, files=files, options=options)

    def describe_parts(self, bridge: Bridge, parts: Sequence[IcebergHandle], asked: Asked, jsession: Any) -> Any:
        from frazil.spark.scan.plan import describe_scan

        return describe_scan(bridge, parts, asked, jsession)

    # The table itself.

    def alter(self, bridge: Bridge, changes: Sequence[Change]) -> IcebergHandle:
        from frazil.spark.iceberg.alter import Alteration

        Alteration(bridge, self.table).run(changes)
        return current(self.table)

    def evolved(self, bridge: Bridge, changes: Sequence[Change]) -> IcebergHandle:
        planned = replace(self, evolution=tuple(changes))
        return replace(planned, schema=planned.transaction(bridge).metadata.current_schema)

    def transaction(self, bridge: Bridge) -> TableTransaction:
        """A transaction for what is written, which has the columns for it."""
        changes = self.table.transaction()
        if self.evolution:
            from frazil.spark.iceberg.alter import Alteration

            Alteration(bridge, self.table).change_columns(changes, self.evolution)
        return changes

    def execute(self, bridge: Bridge, change: grammar.Change | grammar.AlterColumn) -> None:
        from frazil.spark.iceberg.statements import execute

        execute(bridge, self.table, change)

    def publish(self, origin: Mapping[str, Any]) -> None:
        if self.table.metadata_location != origin["metadata"]:
            return
        committer = self.table._committer
        for attempt in range(1, _ATTEMPTS + 1):  # on what other writers left meanwhile
            try:
                committer.commit(committer.load(), [], [])
            except CommitFailed:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    def abandon(self) -> None:
        remove_empty_folder(self.table.store, self.table.location)


def current(table: IcebergTable) -> IcebergHandle:
    """The table as it is now."""
    return IcebergHandle(table, table.schema, table.current_snapshot)


def refuse_forgotten(key: Mapping[str, Any]) -> None:
    """NotFound if a key is of a table with columns that were only planned."""
    if key["evolution"]:
        raise NotFound(f"the columns that {key['name']} was to get are forgotten", hint="run the statement again")


def on_branch(table: IcebergTable, branch: str) -> IcebergHandle:
    """The table at a branch."""
    handle = current(table)
    return handle if branch == MAIN else handle.at_branch(branch)
