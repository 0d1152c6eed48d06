"""An Iceberg table: its state, reads, writes for small jobs, and the actions that change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

from frazil.iceberg.changes import Changes
from frazil.iceberg.committer import Committer, TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.refs import MAIN, SnapshotRef, existing_branch
from frazil.iceberg.scan import Scan, choose_snapshot, columns_of
from frazil.iceberg.self_optimizing import SelfOptimizing
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.transaction import Transaction
from frazil.io.store import Store
from frazil.model.expression_parser import as_condition, as_expression
from frazil.model.expressions import Expression
from frazil.model.partition import PartitionSpec
from frazil.model.property_text import property_texts
from frazil.model.schema import Schema
from frazil.model.sorting import SortOrder
from frazil.model.temporal import to_millis

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.iceberg.orphans import OrphanFiles
    from frazil.iceberg.rewritten import ConvertedDeleteFiles, RewrittenDataFiles, RewrittenDeleteFiles
    from frazil.iceberg.row_changes import RowChanges
    from frazil.spark.changes.builder import Merge


class TableTransaction(Changes, Transaction):
    """Several actions that become visible together: `with table.transaction() as tx: tx.update_schema()...`."""

    def _transaction(self) -> Transaction:
        return self

    def append(self, rows: Any, *, branch: str = MAIN) -> None:
        """Add rows with the schema and spec as this transaction left them; visible when it commits.

        If the transaction never commits, the written files are no part of the table and count as orphans.
        """
        from frazil.iceberg.write import RowWriter, removing
        from frazil.model.conform import conform

        existing_branch(self.metadata.refs, branch)
        files = RowWriter(self.metadata, self.store).write(conform(rows, self.metadata.current_schema))
        with removing(self.store, files):
            self.new_append().append_files(files).to_branch(branch).commit()

    def overwrite(self, rows: Any, where: str | Expression | None = None, *, branch: str = MAIN) -> None:
        """Replace the rows that match (all, if not told), of the table and of this transaction, by others."""
        from frazil.iceberg.rewrite import CopyOnWrite

        CopyOnWrite(self, existing_branch(self.metadata.refs, branch)).overwrite(rows, as_expression(where))

    def delete(self, where: str | Expression, *, branch: str = MAIN) -> None:
        """Delete the rows that match, of the table and of this transaction."""
        from frazil.iceberg.merge_on_read import delete_rows

        delete_rows(self, as_condition(where), existing_branch(self.metadata.refs, branch))


class IcebergTable(Changes, SelfOptimizing):
    """One table. It stays at the state it was loaded with until `refresh()` or a change of its own."""

    format = "iceberg"

    def __init__(self, identifier: str, store: Store, committer: Committer, state: TableState) -> None:
        self.identifier = identifier
        self._store = store
        self._committer = committer
        self._state = state

    # What the table is.

    @property
    def metadata(self) -> TableMetadata:
        return self._state.metadata

    @property
    def metadata_location(self) -> str:
        return self._state.metadata_location

    @property
    def store(self) -> Store:
        return self._store

    @property
    def location(self) -> str:
        return self.metadata.location

    @property
    def schema(self) -> Schema:
        return self.metadata.current_schema

    @property
    def spec(self) -> PartitionSpec:
        return self.metadata.default_spec

    @property
    def sort_order(self) -> SortOrder:
        return self.metadata.default_sort_order

    @property
    def format_version(self) -> int:
        return self.metadata.format_version

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.properties

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return self.metadata.snapshots

    @property
    def current_snapshot(self) -> Snapshot | None:
        return self.metadata.current_snapshot

    @property
    def refs(self) -> Mapping[str, SnapshotRef]:
        return self.metadata.refs

    @property
    def history(self) -> list[Snapshot]:
        """The current snapshot and those before it, newest first."""
        return list(self.metadata.ancestors_of(self.metadata.current_snapshot_id))

    def refresh(self) -> IcebergTable:
        """Load the newest state."""
        self._state = self._committer.load()
        return self

    def newest_state(self) -> TableState:
        """The newest state there is; this table stays at its own."""
        return self._committer.load()

    # Reading.

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
    ) -> Scan:
        """A read of the current snapshot, or of one named by id, by branch or tag, or by time."""
        snapshot, schema = choose_snapshot(self.metadata, version, ref, as_of)
        scan = Scan(
            self.metadata,
            self._store,
            snapshot,
            schema,
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
        """The rows of the current snapshot, or of one named as in `scan`, as a DataFrame of a Spark session.

        The session may be one of Spark Connect; without one, the active session is meant. No lake need be attached.
        """
        from frazil.spark.frame import table_frame

        return table_frame(self, spark, where=where, columns=columns, version=version, ref=ref, as_of=as_of)

    def inspect(
        self,
        name: str,
        *,
        version: int | None = None,
        ref: str | None = None,
        as_of: int | str | datetime | None = None,
    ) -> pa.Table:
        """A metadata table: `files`, `snapshots`, `partitions` and so on; an unknown name's error lists them all."""
        from frazil.iceberg.metadata_tables import metadata_table

        return metadata_table(self, name, version=version, ref=ref, as_of=as_of)

    # Writing, for small jobs.

    def append(
        self, rows: Any, *, branch: str = MAIN, snapshot_properties: Mapping[str, str] | None = None
    ) -> Snapshot:
        """Add rows: an Arrow table or reader, a pandas frame, or a list of dicts. A branch must exist."""
        from frazil.iceberg.write import RowWriter, removing
        from frazil.model.conform import conform

        existing_branch(self.refs, branch)
        told = property_texts(snapshot_properties)
        files = RowWriter(self.metadata, self._store).write(conform(rows, self.schema))
        with removing(self._store, files):
            action = self.new_append().append_files(files).to_branch(branch)
            for key, value in told.items():
                action.set(key, value)
            return self.snapshot(action.commit().snapshot_id)

    def overwrite(self, rows: Any, where: str | Expression | None = None, *, branch: str = MAIN) -> Snapshot:
        """Replace the rows that match (all, if not told) by others, in one step.

        Others may be made from rows that were read here: who changed such rows since this object was loaded is in the
        way of it (`CommitConflict`).
        """
        from frazil.iceberg.rewrite import CopyOnWrite

        return CopyOnWrite(self, existing_branch(self.refs, branch)).overwrite(rows, as_expression(where))

    def delete(self, where: str | Expression, *, spark: Any = None, branch: str = MAIN) -> RowChanges:
        """Delete the rows that match. Whole files go by metadata alone; others are rewritten without the rows, or get
        delete files or vectors if `write.delete.mode` is `merge-on-read`. Without such rows there is no new snapshot.

        As any statement it means the table as it is now, whenever this object was loaded. It is done in this process;
        or by a Spark session, if one is given: then `where` is any condition of its SQL.
        """
        if spark is not None:
            from frazil.spark.changes.builder import delete_on_spark

            return delete_on_spark(self, where, spark, branch)
        from frazil.iceberg.merge_on_read import delete_rows

        return delete_rows(self, as_condition(where), existing_branch(self.refresh().refs, branch))

    def upsert(
        self,
        rows: Any,
        keys: Sequence[str] | None = None,
        *,
        branch: str = MAIN,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> RowChanges:
        """Put rows in the place of those with the same keys, or add them, without reading the table.

        Keys are columns, by default the table's identifier fields. Rows are as for `append`, or a Spark DataFrame: fit
        for `foreachBatch`. Readers pay for the equality deletes until `convert_equality_deletes` or compaction.
        """
        told = property_texts(snapshot_properties)
        existing_branch(self.refs, branch)
        if hasattr(rows, "sparkSession"):
            from frazil.spark.changes.upsert import upsert_frame

            return upsert_frame(self, rows, keys, branch, told)
        from frazil.iceberg.upsert import upsert

        return upsert(self, rows, keys, branch, told)

    # Writing, on Spark.

    def update(
        self,
        values: Mapping[str, Any],
        where: str | Expression | None = None,
        *,
        spark: Any = None,
        branch: str = MAIN,
    ) -> RowChanges:
        """Give columns of the rows that match other values: `table.update({"price": "price * 2"}, "kind = 'a'")`.

        Values are SQL text, in which the table is `t`; numbers, dates and the like are themselves. The work is done by
        a Spark session: the active one, if none is given.
        """
        from frazil.spark.changes.builder import update_rows

        return update_rows(self, values, where, spark, branch)

    def merge(self, source: Any, on: str | Sequence[str], *, spark: Any = None, branch: str = MAIN) -> Merge:
        """Change rows by those of another table: a DataFrame, or rows as `append` takes them.

        `on` is a condition on `t`, the table, and `s`, the source; or the names of columns that must be equal. Then
        say what to do with rows, and `execute()`:
        `table.merge(rows, "id").when_matched_update_all().when_not_matched_insert_all().execute()`.
        """
        from frazil.spark.changes.builder import merge_rows

        return merge_rows(self, source, on, spark, branch)

    # History: which snapshot is current.

    def rollback_to_snapshot(self, snapshot_id: int) -> Snapshot:
        """Go back to a snapshot that the current one comes from; it is the current one then."""
        self.rollback().to_snapshot(snapshot_id).commit()
        return self.snapshot(snapshot_id)

    def rollback_to_timestamp(self, time: int | str | datetime) -> Snapshot:
        """Go back to the newest snapshot that the current one comes from and that was made before a time."""
        self.rollback().to_timestamp(to_millis(time)).commit()
        return self.history[0]

    def set_current_snapshot(self, snapshot: int | str) -> Snapshot:
        """Make any snapshot the current one: by its id, or by the name of a branch or tag."""
        self.rollback().set_current(snapshot).commit()
        return self.history[0]

    def cherrypick_snapshot(self, snapshot_id: int) -> Snapshot:
        """Make a snapshot's change again on top of the current one; the snapshot that the table is at then."""
        return self.snapshot(self.cherry_pick(snapshot_id).commit().snapshot_id)

    def publish_changes(self, wap_id: str) -> Snapshot:
        """Make the change current that was staged under a `wap.id`."""
        from frazil.iceberg.actions.cherry_pick import staged_snapshot

        return self.cherrypick_snapshot(staged_snapshot(self.metadata, wap_id).snapshot_id)

    def fast_forward(self, branch: str, to: str) -> Snapshot:
        """Move a branch on to where another branch or tag is, if nothing of it is lost by that."""
        self.manage_refs().fast_forward(branch, to).commit()
        return self.snapshot(self.metadata.ref(branch).snapshot_id)

    def ancestors_of(self, snapshot: int | str | None = None) -> list[Snapshot]:
        """A snapshot, by id or by the name of a branch or tag, and those before it, newest first; the current one's,
        if not told.
        """
        if snapshot is None:
            return self.history
        start = self.metadata.ref(snapshot).snapshot_id if isinstance(snapshot, str) else snapshot
        return list(self.metadata.ancestors_of(self.snapshot(start).snapshot_id))

    # Upkeep; `expire_snapshots` and `rewrite_manifests` are actions.

    def remove_orphan_files(
        self,
        *,
        older_than: int | str | datetime | None = None,
        location: str | None = None,
        dry_run: bool = False,
        max_concurrent_deletes: int | None = None,
        equal_schemes: Mapping[str, str] | None = None,
        equal_authorities: Mapping[str, str] | None = None,
        prefix_mismatch_mode: str = "ERROR",
        files: pa.Table | None = None,
    ) -> OrphanFiles:
        """Delete files in the table's folder that no snapshot or other metadata of it needs.

        Only files from before `older_than` count: three days ago if not told, and never less than one, since a writer
        may be about to commit what it wrote. `files` is a listing (`file_path`, `last_modified`) to look at instead.

        `location` is a folder to look in: in the table's location, or in a folder that its properties name, such as
        `write.data.path`, which is not looked at otherwise. A folder that several tables share must never be cleaned
        this way: the data files of the others look like orphans.
        """
        from frazil.iceberg.orphans import OrphanSearch, remove_orphan_files

        search = OrphanSearch.of(
            older_than=older_than,
            location=location,
            equal_schemes=equal_schemes,
            equal_authorities=equal_authorities,
            prefix_mismatch_mode=prefix_mismatch_mode,
            files=files,
        )
        return remove_orphan_files(
            self._store, self._committer, search, dry_run=dry_run, threads=max_concurrent_deletes
        )

    def rewrite_data_files(
        self,
        strategy: str | None = None,
        sort_order: str | None = None,
        where: str | Expression | None = None,
        options: Mapping[str, str] | None = None,
        *,
        spark: Any = None,
        branch: str = MAIN,
    ) -> RewrittenDataFiles:
        """Compact: rewrite files that are too small, too large or have too many deletes, on Spark.

        The arguments are those of Iceberg's procedure: `sort_order` is `id DESC, ts` or `zorder(a, b)`, `options` has
        `target-file-size-bytes`, `rewrite-all`, `partial-progress.enabled` and so on.
        """
        from frazil.spark.changes.builder import compact

        return compact(self, strategy, sort_order, where, options, spark, branch)

    def rewrite_position_delete_files(
        self,
        where: str | Expression | None = None,
        options: Mapping[str, str] | None = None,
        *,
        spark: Any = None,
        branch: str = MAIN,
    ) -> RewrittenDeleteFiles:
        """Compact position delete files: in format version 3 they become deletion vectors, in version 2 those of a
        partition are joined as `write.delete.granularity` says. Deletes of files that are gone go. It is done in this
        process, or by the workers of a Spark session, if one is given.

        The arguments are those of Iceberg's procedure. Only partitions that may hold rows that match are looked at.
        """
        if spark is not None:
            from frazil.spark.changes.builder import rewrite_deletes_on_spark

            return rewrite_deletes_on_spark(self, where, options, spark, branch)
        from frazil.iceberg.delete_rewrite import rewrite_position_delete_files

        branch = existing_branch(self.refs, branch)
        return rewrite_position_delete_files(self, as_expression(where), options or {}, branch)

    def convert_equality_deletes(
        self,
        where: str | Expression | None = None,
        options: Mapping[str, str] | None = None,
        *,
        spark: Any = None,
        branch: str = MAIN,
    ) -> ConvertedDeleteFiles:
        """Make equality deletes into deletion vectors, or in format version 2 into position deletes: readers need not
        look for keys any more. Rows are read in this process, or by a Spark session, if one is given.

        With `where` only data files that may hold rows that match are looked at; equality deletes that apply to others
        as well stay.
        """
        if spark is not None:
            from frazil.spark.changes.builder import convert_on_spark

            return convert_on_spark(self, where, options, spark, branch)
        from frazil.iceberg.delete_conversion import convert_equality_deletes

        branch = existing_branch(self.refs, branch)
        return convert_equality_deletes(self, as_expression(where), options or {}, branch)

    def transaction(self) -> TableTransaction:
        """A transaction of several actions."""
        return TableTransaction(self._store, self._committer, self._state, on_commit=self._moved)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """A snapshot of this table by id."""
        return self.metadata.snapshot(snapshot_id)

    def _transaction(self) -> Transaction:
        return Transaction(self._store, self._committer, self._state, autocommit=True, on_commit=self._moved)

    def _moved(self, state: TableState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"IcebergTable({self.identifier!r}, v{self.format_version}, {self.location!r})"

    def _repr_html_(self) -> str:
        current = self.current_snapshot
        rows = "" if current is None else f", {escape(current.summary.get('total-records', '?'))} rows"
        partitions = "" if self.spec.is_unpartitioned else f" partitioned by {escape(str(self.spec))}"
        return (
            f"<b>{escape(self.identifier)}</b> (Iceberg v{self.format_version}{rows}){partitions}"
            f"{self.schema._repr_html_()}"
        )
