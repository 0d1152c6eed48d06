"""A mixed table: a base store with the rows as they were optimized last, and a change store with what came since.

Both are Iceberg tables. An unkeyed table has only the base store, and is read and written as any Iceberg table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument, Unsupported
from frazil.iceberg.refs import MAIN
from frazil.iceberg.scan import Scan, columns_of
from frazil.iceberg.self_optimizing import SelfOptimizing
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.mixed.change_view import ChangeView
from frazil.mixed.evolution import UpdateMixedProperties, UpdateMixedSchema, sync_schema
from frazil.mixed.keys import key_fields
from frazil.mixed.layout import BASE_FOLDER, layout_at
from frazil.mixed.merge_rows import MixedMerge
from frazil.mixed.optimized import Optimized, read_optimized
from frazil.mixed.overwrite import Overwrite, refuse_parts
from frazil.mixed.pair import SnapshotPair, choose_pair, refresh_pair
from frazil.mixed.plan import StoreState
from frazil.mixed.properties import UPSERT_ENABLED, WATERMARK_BASE, WATERMARK_TABLE, shown
from frazil.mixed.scan import MixedScan
from frazil.mixed.transactions import begin_transaction
from frazil.mixed.unkeyed import (
    append_unkeyed,
    drop_partition_unkeyed,
    overwrite_partitions_unkeyed,
    overwrite_unkeyed,
)
from frazil.mixed.write import ChangeJob
from frazil.model.expression_parser import as_condition, as_expression
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.iceberg.actions.update_properties import UpdateProperties
    from frazil.iceberg.actions.update_schema import UpdateSchema
    from frazil.iceberg.row_changes import RowChanges
    from frazil.spark.changes.builder import Merge


class MixedTable(SelfOptimizing):
    """One table. It stays at the state it was loaded with until `refresh()` or a change of its own."""

    format = "mixed"

    def __init__(
        self, identifier: str, base: IcebergTable, change: IcebergTable | None, primary_key: Iterable[str]
    ) -> None:
        self.identifier = identifier
        self.base_store = base
        self.change_store = change
        self.primary_key = tuple(primary_key)
        if bool(self.primary_key) != (change is not None):
            raise InvalidArgument(
                f"{identifier} has {'a' if self.primary_key else 'no'} primary key and "
                f"{'no' if change is None else 'a'} change store",
                hint="a keyed table has both; give primary_key= for tables whose metadata does not say it",
            )
        key_fields(base.schema, self.primary_key)

    # What the table is.

    @property
    def is_keyed(self) -> bool:
        return self.change_store is not None

    @property
    def store(self) -> Store:
        return self.base_store.store

    @property
    def location(self) -> str:
        """The folder of the table, which in some layouts is that of its base store."""
        own = self.base_store.location
        return locations.parent(own) if locations.name(own) == BASE_FOLDER else own

    @property
    def layout(self) -> str:
        """Where the stores lie: `nested`, `sibling`, or `internal` as Amoro's server has them."""
        return layout_at(self.base_store.location, self.base_store.properties)

    @property
    def schema(self) -> Schema:
        return self.base_store.schema

    @property
    def spec(self) -> PartitionSpec:
        return self.base_store.spec

    @property
    def format_version(self) -> int:
        return self.base_store.format_version

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the base store, with the watermarks of the table, without what is not for users."""
        told = shown(self.base_store.properties)
        if self.is_keyed:
            told[WATERMARK_TABLE] = str(self.watermark)
            told[WATERMARK_BASE] = str(self.base_watermark)
        return told

    @property
    def watermark(self) -> int:
        """Up to which event time, in milliseconds, the table has all rows; -1 if nobody said."""
        stores = (self.base_store,) if self.change_store is None else (self.base_store, self.change_store)
        return max(_watermark(store) for store in stores)

    @property
    def base_watermark(self) -> int:
        """The watermark of the base store alone."""
        return _watermark(self.base_store)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The snapshots of both stores, by time. Each is a version to read."""
        both = [*self.base_store.snapshots]
        if self.change_store is not None:
            both += self.change_store.snapshots
        return tuple(sorted(both, key=lambda one: one.timestamp_ms))

    @property
    def current_snapshot(self) -> SnapshotPair:
        """The snapshots that both stores are at."""
        change = None if self.change_store is None else self.change_store.current_snapshot
        return SnapshotPair(self.base_store.current_snapshot, change)

    @property
    def optimized(self) -> Optimized:
        """Up to which change commit, and when, each partition was moved to the base store."""
        base = self.base_store
        return read_optimized(base.metadata, base.store, base.current_snapshot)

    def refresh(self) -> MixedTable:
        """Load the newest state of both stores."""
        if self.change_store is None:
            self.base_store.refresh()
        else:
            refresh_pair(self.base_store, self.change_store)
        return self

    # Reading.

    @property
    def change(self) -> ChangeView:
        """What is in the change store, row by row."""
        return ChangeView(self._change_store, self.schema)

    @property
    def _change_store(self) -> IcebergTable:
        if self.change_store is None:
            raise Unsupported(f"{self.identifier} has no primary key, and so no change store", hint="read the table")
        return self.change_store

    def scan(
        self,
        where: str | Expression | None = None,
        columns: Iterable[str] | None = None,
        *,
        version: int | None = None,
        ref: str | None = None,
        as_of: int | str | datetime | None = None,
        limit: int | None = None,
        case_sensitive: bool = True,
    ) -> MixedScan | Scan:
        """A read of both stores merged: as they are, or as they were at a snapshot of either, or at a time."""
        base, change = self.base_store, self.change_store
        if change is None:
            return base.scan(
                where, columns, version=version, ref=ref, as_of=as_of, limit=limit, case_sensitive=case_sensitive
            )
        pair, schema = choose_pair(base.metadata, change.metadata, version, ref, as_of)
        scan = MixedScan(
            StoreState(base.metadata, base.store, pair.base),
            StoreState(change.metadata, change.store, pair.change),
            schema,
            tuple(column.id for column in key_fields(schema, self.primary_key)),
            as_expression(where),
            columns_of(columns),
            case_sensitive=case_sensitive,
        )
        return scan if limit is None else scan.limit(limit)

    def to_spark(
        self,
        spark: Any = None,
        *,
        where: str | None = None,
        columns: Iterable[str] | None = None,
        version: int | None = None,
        ref: str | None = None,
        as_of: int | str | datetime | None = None,
    ) -> Any:
        """The rows as `scan` has them, as a DataFrame of a Spark session, which may be one of Spark Connect."""
        from frazil.spark.frame import table_frame

        return table_frame(self, spark, where=where, columns=columns, version=version, ref=ref, as_of=as_of)

    def inspect(self, name: str, **options: Any) -> pa.Table:
        """A metadata table of the base store, or with `change.` before its name of the change store."""
        store, _, rest = name.rpartition(".")
        if store not in ("", "base", "change"):
            raise InvalidArgument(f"{name!r} names no store", hint="use files, base.files or change.files")
        table = self._change_store if store == "change" else self.base_store
        return table.inspect(rest, **options)

    # Writing, for small jobs.

    def append(
        self,
        rows: Any,
        *,
        batch_id: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> RowChanges:
        """Add rows: an Arrow table or reader, a pandas frame, or a list of dicts.

        With `write.upsert.enabled` they take the place of those with the same keys. What was written under a `batch_id`
        is not written again.
        """
        if not self.is_keyed:
            return append_unkeyed(self, rows, batch_id, snapshot_properties)
        if hasattr(rows, "sparkSession"):
            return self._append_frame(rows, self._upserts, batch_id, snapshot_properties)
        job = self._job(batch_id, snapshot_properties)
        return job.upsert(rows) if self._upserts else job.append(rows)

    def upsert(
        self, rows: Any, *, batch_id: str | None = None, snapshot_properties: Mapping[str, str] | None = None
    ) -> RowChanges:
        """Put rows, which may be a Spark DataFrame, in the place of those with the same keys, or add them."""
        self._refuse_unkeyed("replaced", "append them")
        if hasattr(rows, "sparkSession"):
            return self._append_frame(rows, True, batch_id, snapshot_properties)
        return self._job(batch_id, snapshot_properties).upsert(rows)

    def _append_frame(
        self, rows: Any, upserts: bool, batch: str | None, properties: Mapping[str, str] | None
    ) -> RowChanges:
        from frazil.spark.mixed.ingest import append_frame

        return append_frame(self, rows, upserts, batch, properties)

    def delete(self, where: str | Expression, *, spark: Any = None) -> RowChanges:
        """Delete the rows that match. Without such rows there is no new snapshot. With a session, Spark does it."""
        if spark is not None:
            from frazil.spark.changes.builder import delete_on_spark

            return delete_on_spark(self, where, spark, MAIN)
        if not self.is_keyed:
            return self.base_store.delete(where)
        return self._job().delete(as_condition(where))

    def update(
        self, values: Mapping[str, Any], where: str | Expression | None = None, *, spark: Any = None
    ) -> RowChanges:
        """Give columns of the rows that match other values: `table.update({"price": "price * 2"}, "kind = 'a'")`.

        Values are SQL text (see `frazil.model.scalar_sql`); numbers, dates and the like are themselves. With a session,
        Spark does it, and they may be anything that its SQL has.
        """
        if spark is not None:
            from frazil.spark.changes.builder import update_rows

            return update_rows(self, values, where, spark, MAIN)
        self._refuse_unkeyed("updated", "give spark=, and Spark does it")
        return self._job().update(values, as_expression(where))

    def merge(self, rows: Any, on: str | Sequence[str] | None = None, *, spark: Any = None) -> MixedMerge | Merge:
        """Change rows by others that have the same keys; `on` can only be the primary key. Then say what to do:
        `table.merge(rows).when_matched_update_all().when_not_matched_insert_all().execute()`.

        With a session, or rows of a DataFrame, Spark does it: then `on` may be any columns or condition, and clauses
        may have conditions.
        """
        if spark is not None or hasattr(rows, "sparkSession"):
            from frazil.spark.changes.builder import merge_rows

            return merge_rows(self, rows, self.primary_key if on is None else on, spark, MAIN)
        self._refuse_unkeyed("merged", "give spark=, and Spark does it")
        return MixedMerge(self._job, self.primary_key, rows, on)

    def delete_keys(self, keys: Any, *, batch_id: str | None = None) -> RowChanges:
        """Delete the rows with these keys: rows that have just the columns of the primary key."""
        self._refuse_unkeyed("deleted so", "use delete(where)")
        return self._job(batch_id).delete_keys(keys)

    def ingest(
        self,
        changes: Any,
        operation: str = "op",
        *,
        order: str | Sequence[str] | None = None,
        batch_id: str | None = None,
    ) -> RowChanges:
        """Apply change data; what was applied under a `batch_id` is not applied again.

        The column `operation` says what happened: `insert`, `update_before`, `update_after`, `delete`, or other words
        for them (see `frazil.mixed.operations`). An update without its old row takes the place of what has its key.
        With `write.upsert.enabled` an insert does too. A delete needs no more than the key.

        Changes happened in the order of the columns `order`, or else of the rows. Those of a Spark DataFrame have none:
        without `order` it may have one change of a key, or an update's two rows.
        """
        self._refuse_unkeyed("changed", "append rows, or merge them on Spark")
        if hasattr(changes, "sparkSession"):
            from frazil.spark.mixed.ingest import ingest_frame

            return ingest_frame(self, changes, operation, order, batch_id)
        names = () if order is None else (order,) if isinstance(order, str) else tuple(order)
        return self._job(batch_id).ingest(changes, operation, order=names, upsert=self._upserts)

    def overwrite(self, rows: Any, where: str | Expression | None = None) -> RowChanges:
        """Replace the rows that match (all, if not told) by others, in one step.

        Whole partitions are replaced in the base store; of other rows each is deleted by its key.
        """
        condition = as_expression(where)
        if not self.is_keyed:
            return overwrite_unkeyed(self, rows, condition)
        job = Overwrite(self)
        partitions = job.matching(condition)
        if partitions is None:
            return self._job().replace(rows, condition)
        return job.by_filter(rows, condition, partitions)

    def overwrite_partitions(self, rows: Any) -> RowChanges:
        """Replace the partitions that the rows belong to; of an unpartitioned table, all rows."""
        if not self.is_keyed:
            return overwrite_partitions_unkeyed(self, rows)
        return Overwrite(self).dynamic(rows)

    def truncate(self) -> RowChanges:
        """Remove all rows."""
        return self.drop_partition(AlwaysTrue())

    def drop_partition(self, where: str | Expression) -> RowChanges:
        """Remove the partitions that a filter means; one that means only some of a partition's rows is refused."""
        condition = as_expression(where)
        if not self.is_keyed:
            return drop_partition_unkeyed(self, condition)
        job = Overwrite(self)
        partitions = job.matching(condition)
        if partitions is None:
            raise refuse_parts(condition)
        return job.by_filter(None, condition, partitions)

    def begin_transaction(self, signature: str = "") -> int:
        """Begin a transaction of the change store: the id that files of it have in their names."""
        return begin_transaction(self.base_store, self._change_store, signature)

    def _job(self, batch: str | None = None, properties: Mapping[str, str] | None = None) -> ChangeJob:
        return ChangeJob(self, batch, properties)

    def _refuse_unkeyed(self, done: str, instead: str) -> None:
        if not self.is_keyed:
            raise Unsupported(
                f"{self.identifier} has no primary key, by which rows are {done}",
                hint=f"{instead}; or make a table with a primary key",
            )

    @property
    def _upserts(self) -> bool:
        return self.base_store.metadata.property_reader.get(UPSERT_ENABLED)

    # Changing what the table is.

    def update_schema(self) -> UpdateSchema:
        """Add, drop, rename, reorder or widen columns, of both stores."""
        if self.change_store is None:
            return self.base_store.update_schema()
        return UpdateMixedSchema(self.base_store, self.change_store, self.primary_key)

    def update_properties(self) -> UpdateProperties:
        """Set and remove properties, of both stores."""
        return UpdateMixedProperties(self.base_store, self.change_store)

    def repair(self) -> MixedTable:
        """Finish what a writer left half done: a schema change that only the base store has."""
        self.refresh()
        if self.change_store is not None:
            sync_schema(self.base_store, self.change_store)
        return self

    def __repr__(self) -> str:
        key = f", key {', '.join(self.primary_key)}" if self.primary_key else ""
        return f"MixedTable({self.identifier!r}{key}, {self.location!r})"

    def _repr_html_(self) -> str:
        key = f", key {escape(', '.join(self.primary_key))}" if self.primary_key else ""
        partitions = "" if self.spec.is_unpartitioned else f" partitioned by {escape(str(self.spec))}"
        return f"<b>{escape(self.identifier)}</b> (mixed{key}){partitions}{self.schema._repr_html_()}"


def _watermark(table: IcebergTable) -> int:
    text = table.properties.get(WATERMARK_TABLE, "-1")
    try:
        return int(text)
    except ValueError:
        return -1
