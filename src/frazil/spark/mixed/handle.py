"""A mixed table as the engine holds it: with a key, a pair of snapshots; without, the Iceberg table that it is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

from frazil.catalog.formats import MIXED
from frazil.errors import InvalidArgument
from frazil.iceberg.read import METADATA_COLUMNS
from frazil.iceberg.table import IcebergTable
from frazil.mixed.change_view import ON_REQUEST
from frazil.mixed.pair import SnapshotPair, choose_pair
from frazil.mixed.properties import UPSERT_ENABLED
from frazil.mixed.table import MixedTable
from frazil.model.schema import Schema
from frazil.spark.describe import READ, WRITE
from frazil.spark.handles import MAIN, Asked, Change, TableHandle, number_of
from frazil.spark.iceberg import shown
from frazil.spark.iceberg.handle import IcebergHandle, refuse_forgotten
from frazil.spark.mixed.shown import shown_properties
from frazil.spark.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.iceberg.row_changes import RowChanges
    from frazil.iceberg.snapshot import Snapshot
    from frazil.spark import grammar
    from frazil.spark.bridge import Bridge
    from frazil.spark.changes.command import Command
    from frazil.spark.scan.contents import OnlyFiles
    from frazil.spark.types import Dialect

BASE, CHANGE = "base", "change"
"""The stores: tables of these names behind the table's, each with metadata tables of its own."""


_REMOVALS = frozenset({"delete"})
"""What takes changes from the change store: that they are in the base store already, or that they are too old."""


@dataclass(frozen=True)
class MixedHandle(TableHandle):
    """A table with a key, and the pair of snapshots that is read."""

    format: ClassVar[str] = MIXED

    table: MixedTable
    pair: SnapshotPair
    _: KW_ONLY
    files: OnlyFiles | None = None
    """Which files of the change store, if not all of them: of a part of its changes."""

    @property
    def base(self) -> IcebergTable:
        return self.table.base_store

    @property
    def change(self) -> IcebergTable:
        return self.table._change_store

    def identity(self) -> dict[str, Any]:
        stores = (self.base, self.change)
        metadata = self.base.metadata
        return {
            "uuid": metadata.table_uuid or metadata.location,
            "base": None if self.pair.base is None else self.pair.base.snapshot_id,
            "change": None if self.pair.change is None else self.pair.change.snapshot_id,
            "schema": None if self.kind == "metadata" else self._place_of_schema(),
            # a metadata table shows all of the metadata, not only a pair
            "at": [store.metadata_location for store in stores] if self.kind == "metadata" else None,
        }

    def origin(self) -> dict[str, Any]:
        stores = {BASE: self.base.metadata_location, CHANGE: self.change.metadata_location}
        return {"stores": stores, "primary_key": list(self.table.primary_key)}

    def _place_of_schema(self) -> list[Any]:
        """The store that has the schema, and its number there."""
        for name, store in ((BASE, self.base), (CHANGE, self.change)):
            found = next((one for one in store.metadata.schemas if one == self.schema), None)
            if found is not None:
                return [name, found.schema_id]
        raise AssertionError("a schema of neither store")  # pragma: no cover

    # What Spark is told.

    @property
    def id(self) -> str | None:
        return self.base.metadata.table_uuid

    @property
    def version(self) -> str | None:
        numbers = [None if one is None else one.snapshot_id for one in (self.pair.base, self.pair.change)]
        return None if numbers == [None, None] else ",".join("none" if one is None else str(one) for one in numbers)

    def properties(self) -> dict[str, str]:
        return shown_properties(self.table)

    def partitioning(self) -> list[list[Any]]:
        return shown.partitioning(self.base)

    def hidden(self, dialect: Dialect) -> list[tuple[str, str]]:
        if self.metadata_name == CHANGE:
            return [(name, json.dumps(spark_type(column.type, dialect=dialect))) for name, column in ON_REQUEST.items()]
        return [] if self.kind == "metadata" else shown.hidden(self.base.metadata, dialect)

    def capabilities(self, dialect: Dialect) -> Sequence[str]:
        if self.branch is not None:
            return (*READ, *WRITE, "STREAMING_WRITE")
        return (*READ, "MICRO_BATCH_READ") if self.metadata_name == CHANGE and not self.pinned else READ

    @property
    def metadata_columns(self) -> Collection[str]:
        return METADATA_COLUMNS.keys()

    @property
    def row_count(self) -> int:
        count = "0" if self.pair.base is None else self.pair.base.summary.get("total-records", "0")
        return int(count) if count.isdecimal() else 0

    # Time travel.

    def at(self, version: int | None, ref: str | None, as_of: int | str | datetime | None) -> Self:
        pair, schema = self._choose(version, ref, as_of)
        return replace(self, pair=pair, schema=schema)

    def at_version(self, version: str) -> Self:
        number = number_of(version)
        return self.at_ref(version) if number is None else self.at_number(number)

    def at_number(self, number: int) -> Self:
        return self._pinned(version=number)

    def at_millis(self, millis: int) -> Self:
        return self._pinned(as_of=millis)

    def at_ref(self, name: str) -> Self:
        return self if name == MAIN else self._pinned(ref=name)

    def _pinned(self, version: int | None = None, ref: str | None = None, as_of: int | None = None) -> Self:
        pair, schema = self._choose(version, ref, as_of)
        if self.metadata_name is not None:
            self._refuse_past(self.metadata_name)
            schema = self.schema
        return replace(self, pair=pair, schema=schema, branch=None, pinned=True)

    def _choose(
        self, version: int | None, ref: str | None, as_of: int | str | datetime | None
    ) -> tuple[SnapshotPair, Schema]:
        return choose_pair(self.base.metadata, self.change.metadata, version, ref, as_of)

    def _refuse_past(self, metadata_name: str) -> None:
        from frazil.iceberg.metadata_tables import TIME_TRAVEL_TABLES

        name = metadata_name.rpartition(".")[2]
        if name not in (*TIME_TRAVEL_TABLES, BASE, CHANGE):
            raise InvalidArgument(
                f"{metadata_name} is about all snapshots, not about one", hint="leave the version out"
            )

    def metadata_table(self, name: str) -> Self | None:
        schema = self._schema_of(name)
        return (
            None if schema is None else replace(self, schema=schema, kind="metadata", branch=None, metadata_name=name)
        )

    def _schema_of(self, name: str) -> Schema | None:
        """The columns of a store (`change`), or of a metadata table of a store (`files`, `change.files`)."""
        from frazil.iceberg.metadata_tables import METADATA_TABLES, metadata_table_schema

        if name in (BASE, CHANGE):
            return self.table.schema if name == BASE else self.table.change.schema
        store, _, inner = name.rpartition(".")
        if store not in ("", BASE, CHANGE) or inner not in METADATA_TABLES:
            return None
        return metadata_table_schema((self.change if store == CHANGE else self.base).metadata, inner)

    # Rows.

    def scan(self, bridge: Bridge, asked: Asked, jsession: Any) -> Any:
        inner = self._of_one_store()
        if inner is not None:
            return inner.scan(bridge, asked, jsession)
        if self.metadata_name == CHANGE:
            from frazil.spark.mixed.change_table import describe_changes

            return describe_changes(bridge, [self], asked, jsession)
        from frazil.spark.mixed.scan import describe_merge

        return describe_merge(bridge, self, asked, jsession)

    def _of_one_store(self) -> IcebergHandle | None:
        """The base store, or a metadata table of either store; None for what only mixed tables have."""
        name = self.metadata_name
        if name in (None, CHANGE):
            return None
        assert name is not None
        store, _, inner = name.rpartition(".")
        table, snapshot = (self.change, self.pair.change) if store == CHANGE else (self.base, self.pair.base)
        if name == BASE:
            return IcebergHandle(table, self.schema, snapshot, branch=None, pinned=True, options=self.options)
        return IcebergHandle(table, self.schema, snapshot, kind="metadata", branch=None, metadata_name=inner)

    def insert(self, bridge: Bridge, mode: str, conditions: str, options: Mapping[str, str], rows: DataFrame) -> None:
        from frazil.spark.mixed.insert import insert

        insert(bridge, self, mode, conditions, options, rows)

    def check_partitions(self, given: Sequence[str]) -> None:
        IcebergHandle(self.base, self.schema).check_partitions(given)

    def truncate(self, spark: SparkSession) -> None:
        self.refuse_unless_written()
        self.table.truncate()

    def drop_partitions(self, wanted: Sequence[Mapping[str, str | None]], *, if_exists: bool) -> None:
        from frazil.spark.mixed.partitions import drop_partitions

        self.refuse_unless_written()
        drop_partitions(self.table, wanted, if_exists)

    @property
    def changes_by_key(self) -> bool:
        return True

    def change_rows(self, command: Command) -> RowChanges:
        from frazil.spark.mixed.changes import change_rows

        self.refuse_unless_written()
        return change_rows(self, command)

    @property
    def replaces_by_key(self) -> bool:
        return self.base.metadata.property_reader.get(UPSERT_ENABLED)

    def ingest(self, bridge: Bridge, options: Mapping[str, str], rows: DataFrame) -> None:
        from frazil.spark.mixed.ingest import ingest

        ingest(bridge, self, options, rows)

    def last_batch(self, options: Mapping[str, str], query: str) -> int:
        from frazil.spark.mixed.target import last_batch

        return last_batch(self.table, query)

    def stream_store(self) -> tuple[IcebergTable, frozenset[str]]:
        if self.metadata_name != CHANGE:
            self._refuse("gives streams of its changes only: read its table .change")
        return self.change, _REMOVALS

    def stream_part(
        self, store: IcebergTable, snapshot: Snapshot | None, files: OnlyFiles | None, options: Mapping[str, str]
    ) -> Self:
        table = MixedTable(self.table.identifier, self.base, store, self.table.primary_key)
        return replace(self, table=table, pair=SnapshotPair(self.pair.base, snapshot), files=files, options=options)

    def describe_parts(self, bridge: Bridge, parts: Sequence[MixedHandle], asked: Asked, jsession: Any) -> Any:
        from frazil.spark.mixed.change_table import describe_changes

        return describe_changes(bridge, parts, asked, jsession)

    def refuse_unless_written(self) -> None:
        """Refuse to change what is not the table itself."""
        if self.branch is None:
            self._refuse("cannot be changed where an earlier state, or a part of it, was asked for: name the table")

    def aggregate(self, aggregates: Sequence[Sequence[Any]], filters: str) -> bytes | None:
        """As for an Iceberg table, where nothing is left to merge."""
        from frazil.spark.mixed.source import source_of

        if self.kind != "table":
            return None
        changes = source_of(self, None).changes
        if changes.inserts or changes.deletes:
            return None
        return IcebergHandle(self.base, self.schema, self.pair.base).aggregate(aggregates, filters)

    # The table itself.

    def alter(self, bridge: Bridge, changes: Sequence[Change]) -> TableHandle:
        from frazil.spark.mixed.alter import MixedAlteration

        MixedAlteration(bridge, self.table).run(changes)
        return current(self.table)

    def execute(self, bridge: Bridge, change: grammar.Change | grammar.AlterColumn) -> None:
        from frazil.spark.mixed.alter import execute

        execute(bridge, self.table, change)


@dataclass(frozen=True)
class UnkeyedHandle(IcebergHandle):
    """A table without a key: its base store, which is an Iceberg table."""

    format: ClassVar[str] = MIXED

    _: KW_ONLY
    mixed: MixedTable

    @property
    def name(self) -> str:
        return self.mixed.identifier

    def origin(self) -> dict[str, Any]:
        return {"stores": {BASE: self.table.metadata_location}, "primary_key": []}

    def properties(self) -> dict[str, str]:
        return shown_properties(self.mixed)

    def alter(self, bridge: Bridge, changes: Sequence[Change]) -> IcebergHandle:
        from frazil.spark.mixed.alter import MixedAlteration

        MixedAlteration(bridge, self.mixed).run(changes)
        return unkeyed(self.mixed)

    def drop_partitions(self, wanted: Sequence[Mapping[str, str | None]], *, if_exists: bool) -> None:
        from frazil.spark.mixed.partitions import drop_partitions

        drop_partitions(self.mixed, wanted, if_exists)

    def execute(self, bridge: Bridge, change: grammar.Change | grammar.AlterColumn) -> None:
        from frazil.spark.mixed.alter import execute

        execute(bridge, self.mixed, change)


def current(table: MixedTable) -> MixedHandle | UnkeyedHandle:
    """The table as it is now."""
    return MixedHandle(table, table.schema, table.current_snapshot) if table.is_keyed else unkeyed(table)


def unkeyed(table: MixedTable) -> UnkeyedHandle:
    """A table without a key, as it is now."""
    base = table.base_store
    return UnkeyedHandle(base, base.schema, base.current_snapshot, mixed=table)


def again(handle: MixedHandle | UnkeyedHandle, key: Mapping[str, Any]) -> TableHandle:
    """The handle of a key, of the table in the state that the key was made at."""
    if isinstance(handle, UnkeyedHandle):
        return _unkeyed_again(handle, key)
    base, change = handle.base.metadata, handle.change.metadata
    pair = SnapshotPair(base.snapshot_or_none(key["base"]), change.snapshot_or_none(key["change"]))
    schema = handle._schema_of(key["of"]) if key["kind"] == "metadata" else None
    if schema is None:
        store, number = key["schema"]
        schema = (base if store == BASE else change).schema(number)
    return replace(
        handle,
        schema=schema,
        pair=pair,
        kind=key["kind"],
        branch=key["branch"],
        metadata_name=key["of"],
        pinned=key["pinned"],
    )


def _unkeyed_again(handle: UnkeyedHandle, key: Mapping[str, Any]) -> TableHandle:
    refuse_forgotten(key)
    metadata = handle.table.metadata
    schema = metadata.schema(key["schema"]) if key["kind"] != "metadata" else None
    if schema is None:
        from frazil.iceberg.metadata_tables import metadata_table_schema

        schema = metadata_table_schema(metadata, key["of"])
    return replace(
        handle,
        schema=schema,
        snapshot=metadata.snapshot_or_none(key["snapshot"]),
        kind=key["kind"],
        branch=key["branch"],
        metadata_name=key["of"],
        pinned=key["pinned"],
    )
