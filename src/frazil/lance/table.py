"""A Lance table: its state, reads, writes for small jobs, and the actions that change it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import InvalidArgument, RefNotFound
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.lance import layout
from frazil.lance.field_ids import LAST_FIELD_ID
from frazil.lance.history import History
from frazil.lance.read import FragmentReader
from frazil.lance.refs import Branch, Refs, Tag
from frazil.lance.scan import LanceScan, columns_of
from frazil.lance.take import take_addresses, take_positions
from frazil.lance.version import LanceVersion
from frazil.model.expression_parser import as_condition, as_expression
from frazil.model.expressions import Expression
from frazil.model.schema import Schema
from frazil.model.temporal import to_millis
from frazil.recent import Recent

if TYPE_CHECKING:
    from frazil.lance.operations.compaction import CompactionPlan
    from frazil.lance.results import CleanedUp, Compacted, RowChanges
    from frazil.optimize.result import OptimizeResult
    from frazil.optimize.tasks import Executor
    from frazil.spark.changes.builder import Merge

MAIN = layout.MAIN


class LanceTable:
    """One table, or a branch of one. It stays at the version it was loaded with until `refresh()` or its own change."""

    format = "lance"

    def __init__(
        self,
        identifier: str,
        store: Store,
        root: str,
        version: LanceVersion,
        check_named: Callable[[], None] | None = None,
    ) -> None:
        self.identifier = identifier
        self._store = store
        self._root = root
        self._version = version
        self._check_named = check_named
        self._readers: Recent[tuple[str, tuple[str, ...] | None], FragmentReader] = Recent(8)

    @staticmethod
    def open(store: Store, root: str, identifier: str | None = None) -> LanceTable:
        """The table in a folder; TableNotFound if there is none."""
        version = History(store, root).latest()
        return LanceTable(identifier or locations.name(root), store, root, version)

    @staticmethod
    def create(
        store: Store,
        root: str,
        schema: pa.Schema,
        rows: Any = None,
        *,
        identifier: str | None = None,
        file_version: str = "2.2",
        stable_row_ids: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> LanceTable:
        """A new table in a folder; AlreadyExists if there is one."""
        from frazil.lance.operations.create import create_table

        version = create_table(
            History(store, root),
            schema,
            rows,
            file_version=file_version,
            stable_row_ids=stable_row_ids,
            config=properties,
        )
        return LanceTable(identifier or locations.name(root), store, root, version)

    # What the table is.

    @property
    def store(self) -> Store:
        return self._store

    @property
    def location(self) -> str:
        return self._root

    @property
    def current_snapshot(self) -> LanceVersion:
        """The version that the table is at."""
        return self._version

    @property
    def version(self) -> int:
        return self._version.version

    @property
    def schema(self) -> Schema:
        """The columns in Frazil's types, the nearest where Lance has others."""
        return self._version.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns exactly."""
        return self._version.arrow_schema

    @property
    def format_version(self) -> str:
        """The version of the data files."""
        return self._version.file_version

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self._version.manifest.config)

    @property
    def metadata(self) -> Mapping[str, str]:
        """What was said about the table, for people."""
        told = self._version.manifest.table_metadata
        return {key: text for key, text in told.items() if key != LAST_FIELD_ID}

    @property
    def snapshots(self) -> tuple[LanceVersion, ...]:
        """The versions that are there, oldest first."""
        return tuple(reversed(self.history))

    @property
    def history(self) -> list[LanceVersion]:
        """The versions that are there, newest first."""
        return list(self._history().newest_first())

    @property
    def refs(self) -> Mapping[str, Tag | Branch]:
        """Branches and tags by name, without main."""
        refs = Refs(self._store, self._root)
        return {**refs.branches(), **refs.tags()}

    @property
    def branches(self) -> Mapping[str, Branch]:
        """Branches by name, without main."""
        return Refs(self._store, self._root).branches()

    @property
    def tags(self) -> Mapping[str, Tag]:
        """Tags by name."""
        return Refs(self._store, self._root).tags()

    def refresh(self) -> LanceTable:
        """Load the newest version."""
        self._version = self._history().latest()
        return self

    def branch(self, name: str) -> LanceTable:
        """The table as a branch has it; what is changed there does not touch main."""
        if name != MAIN and name not in self.branches:
            raise RefNotFound(f"no branch {name!r}", hint=f"there are {', '.join(sorted([*self.refs, MAIN]))}")
        version = History(self._store, self._root, name).latest()
        return self._line(version)

    def named(self, check: Callable[[], None]) -> LanceTable:
        """The table, with what a catalog checks before each commit: that the name is this table's still."""
        self._check_named = check
        return self

    def _line(self, version: LanceVersion) -> LanceTable:
        return LanceTable(self.identifier, self._store, self._root, version, self._check_named)

    def _history(self) -> History:
        return History(self._store, self._root, self._version.branch, self._check_named)

    def _moved(self, version: LanceVersion | None) -> LanceVersion:
        if version is not None:
            self._version = version
        return self._version

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
    ) -> LanceScan:
        """A read of the current version, or of one named by number, by branch or tag, or by time."""
        chosen = self.at(version=version, ref=ref, as_of=as_of)
        scan = LanceScan(self._store, chosen, as_expression(where), columns_of(columns), case_sensitive=case_sensitive)
        return scan if limit is None else scan.limit(limit)

    def at(
        self, *, version: int | None = None, ref: str | None = None, as_of: int | str | datetime | None = None
    ) -> LanceVersion:
        """The version that a number, a branch or tag, or a time means; the current one if none is given."""
        if sum(given is not None for given in (version, ref, as_of)) > 1:
            raise InvalidArgument("version, ref and as_of are different ways to say one thing", hint="give one of them")
        if version is not None:
            if not isinstance(version, int):
                raise InvalidArgument(f"version {version!r} is no number", hint="versions count from 1")
            return self._version if version == self.version else self._history().load(version)
        if ref == MAIN:
            return History(self._store, self._root).latest()
        if ref is not None:
            found = Refs(self._store, self._root).find(ref)
            if isinstance(found, Tag):
                return History(self._store, self._root, found.branch).load(found.version)
            return History(self._store, self._root, found.name).latest()
        if as_of is not None:
            return self._history().as_of(to_millis(as_of))
        return self._version

    def take(self, rows: Sequence[int], columns: Iterable[str] | None = None, *, by_address: bool = False) -> pa.Table:
        """The rows at some positions, in the order asked; or at some addresses (`_rowaddr`)."""
        key = (self._version.location, columns_of(columns))
        reader = self._readers.get(key)
        if reader is None:
            reader = LanceScan(self._store, self._version, columns=key[1]).reader
            self._readers.put(key, reader)
        return take_addresses(reader, rows) if by_address else take_positions(reader, rows)

    def inspect(
        self,
        name: str,
        *,
        version: int | None = None,
        ref: str | None = None,
        as_of: int | str | datetime | None = None,
    ) -> pa.Table:
        """A metadata table: `files`, `snapshots`, `fragments` and so on; an unknown name's error lists them all."""
        from frazil.lance.metadata_tables import metadata_table

        return metadata_table(self, name, self.at(version=version, ref=ref, as_of=as_of))

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
        """A Spark DataFrame of the rows, in the active session if none is given; workers read them."""
        from frazil.spark.frame import table_frame

        return table_frame(self, spark, where=where, columns=columns, version=version, ref=ref, as_of=as_of)

    # Writing, for small jobs.

    def append(self, rows: Any, *, snapshot_properties: Mapping[str, str] | None = None) -> LanceVersion:
        """Add rows: an Arrow table or reader, a pandas frame, a list of dicts, or a Spark DataFrame.

        Rows of a DataFrame of Spark are written by its workers.
        """
        if hasattr(rows, "sparkSession"):
            from frazil.spark.lance.append import APPEND, write_frame

            return write_frame(self, rows, APPEND, snapshot_properties)
        from frazil.lance.operations.append import append

        return self._moved(append(self._history(), self._version, rows, snapshot_properties))

    def overwrite(
        self, rows: Any, where: str | Expression | None = None, *, schema: pa.Schema | None = None
    ) -> LanceVersion:
        """Replace all rows by others, and the schema if one is given; or only the rows that match."""
        from frazil.lance.operations.append import overwrite
        from frazil.lance.operations.replace import replace_rows

        if where is None and schema is None and hasattr(rows, "sparkSession"):
            from frazil.spark.lance.append import ALL, write_frame

            return write_frame(self, rows, ALL, None)
        if where is None:
            return self._moved(overwrite(self._history(), self._version, rows, schema))
        if schema is not None:
            raise InvalidArgument("a part of the table cannot have another schema", hint="leave out where or schema")
        return self._moved(replace_rows(self._history(), self._version, rows, as_expression(where)))

    def delete(self, where: str | Expression) -> RowChanges:
        """Delete the rows that match. Without such rows there is no new version."""
        from frazil.lance.operations.delete import delete

        return self._changed(delete(self._history(), self._version, as_condition(where)))

    def update(self, values: Mapping[str, Any], where: str | Expression | None = None) -> RowChanges:
        """Give columns of the rows that match other values: `table.update({"price": "price * 2"}, "kind = 'a'")`.

        Values are SQL text (see `frazil.model.scalar_sql`); numbers, dates and the like are themselves.
        """
        from frazil.lance.operations.update import update

        return self._changed(update(self._history(), self._version, values, as_expression(where)))

    def merge(self, source: Any, on: str | Sequence[str], *, spark: Any = None) -> Merge:
        """Begin a MERGE on Spark: `table.merge(df, on="t.id = s.id").when_matched_update_all().execute()`.

        `source` is a DataFrame, an Arrow table or a list of dicts; `on` a condition in which the table is `t` and the
        source `s`, or names of columns that both have.
        """
        from frazil.spark.changes.builder import merge_rows

        return merge_rows(self, source, on, spark, self._version.branch or MAIN)

    def _changed(self, changes: RowChanges) -> RowChanges:
        self._moved(changes.snapshot)
        return changes

    # Columns.

    def add_columns(self, columns: Any) -> LanceVersion:
        """Add columns without rewriting the others.

        They are SQL by name (`{"b": "a * 2"}`), an Arrow schema of nulls, or values: an Arrow table, a pandas frame, or
        a DataFrame of Spark, whose workers then write them. Values have their rows in the order of this table, or a
        column `_rowaddr` or `_rowid` says which they belong to, as a DataFrame must. They belong to rows of the version
        that the table is at: if it is not the newest any more, that is a CommitConflict.
        """
        if hasattr(columns, "sparkSession"):
            from frazil.spark.lance.columns import add_frame_columns

            return self._moved(add_frame_columns(self, columns))
        if isinstance(columns, Mapping | pa.Schema):
            from frazil.lance.operations.columns import add_columns

            return self._moved(add_columns(self._history(), self._version, columns))
        from frazil.lance.operations.column_values import add_column_values

        return self._moved(add_column_values(self._history(), self._version, columns))

    def drop_columns(self, *names: str) -> LanceVersion:
        """Drop columns, or fields of structs."""
        from frazil.lance.operations.columns import drop_columns

        return self._moved(drop_columns(self._history(), self._version, names))

    def rename_column(self, name: str, new_name: str) -> LanceVersion:
        """Give a column, or a field of a struct, another name."""
        from frazil.lance.operations.columns import alter_column

        return self._moved(alter_column(self._history(), self._version, name, rename=new_name))

    def make_column_optional(self, name: str) -> LanceVersion:
        """Allow nulls in a column."""
        from frazil.lance.operations.columns import alter_column

        return self._moved(alter_column(self._history(), self._version, name, nullable=True))

    def change_column_type(self, name: str, kind: pa.DataType) -> LanceVersion:
        """Give a column another type; its values are cast, and the other columns stay where they are."""
        from frazil.lance.operations.columns import change_type

        return self._moved(change_type(self._history(), self._version, name, kind))

    # Settings.

    def update_properties(self, changes: Mapping[str, str | None]) -> LanceVersion:
        """Set properties, and remove those that are None."""
        from frazil.lance.operations.settings import update_settings

        return self._moved(update_settings(self._history(), self._version, config=changes))

    def update_metadata(
        self, changes: Mapping[str, str | None], *, column: str | None = None, of_schema: bool = False
    ) -> LanceVersion:
        """Set and remove metadata: of the table, of a column, or of the schema."""
        from frazil.lance.operations.settings import update_settings

        kind = "field_metadata" if column is not None else "schema_metadata" if of_schema else "table_metadata"
        told: Any = {column: changes} if column is not None else changes
        return self._moved(update_settings(self._history(), self._version, **{kind: told}))

    # History.

    def restore(self, version: int | None = None, *, ref: str | None = None) -> LanceVersion:
        """Make an earlier version the newest one, as a version of its own."""
        from frazil.lance.operations.settings import restore

        chosen = self.at(version=version, ref=ref)
        if chosen.branch != self._version.branch:
            raise InvalidArgument("a version of another branch cannot be restored", hint="restore one of this branch")
        return self._moved(restore(self._history(), self._version, chosen.version))

    def create_tag(self, name: str, version: int | None = None, *, replace: bool = False) -> Tag:
        """Name a version, the current one if not told."""
        chosen = self.at(version=version)
        tag = Tag(name, chosen.version, chosen.branch, chosen.size)
        Refs(self._store, self._root).put_tag(tag, replace=replace)
        return tag

    def drop_tag(self, name: str) -> None:
        """Forget a tag."""
        Refs(self._store, self._root).drop_tag(name)

    def create_branch(self, name: str, version: int | None = None, *, ref: str | None = None) -> LanceTable:
        """Begin a branch at a version, the current one if not told."""
        from frazil.lance.operations.clone import create_branch

        return self._line(create_branch(self._store, self._root, name, self.at(version=version, ref=ref)))

    def drop_branch(self, name: str) -> None:
        """Forget a branch and remove what is its own."""
        from frazil.lance.operations.clean_up import remove_branch

        remove_branch(self._store, self._root, name)

    def shallow_clone(self, location: str, version: int | None = None, *, ref: str | None = None) -> LanceTable:
        """Another table that begins as this one is, and uses its files."""
        from frazil.lance.operations.clone import shallow_clone

        made = shallow_clone(self._store, location, self.at(version=version, ref=ref))
        return LanceTable(locations.name(location), self._store, location, made)

    # Upkeep.

    def optimize(
        self,
        kind: str | None = None,
        *,
        where: str | Expression | None = None,
        sort_by: str | None = None,
        dry_run: bool = False,
        upkeep: bool = True,
        executor: Executor | None = None,
        spark: Any = None,
    ) -> OptimizeResult:
        """Rewrite fragments that are small, or lost many rows, and remove old versions, as far as it is due.

        With `kind` (`minor`, `major` or `full`) it is done at once, however few they are. With `sort_by`, `ts DESC, id`
        or `zorder(a, b)`, all rows are written in that order; no fragment says that it has one, so it is done each
        time. `dry_run` only says what would be done, and why. With `spark` fragments are rewritten there, else in this
        process. `where` is for tables of other formats.
        """
        from frazil.optimize.lance_tables import optimize_lance
        from frazil.optimize.run import Request

        if spark is not None:
            from frazil.spark.optimize.executor import SparkExecutor

            executor = SparkExecutor(spark)
        told: dict[str, Any] = {} if executor is None else {"executor": executor}
        return optimize_lance(self, Request(kind, where, sort_by, dry_run=dry_run, upkeep=upkeep, **told))

    def plan_compaction(self, *, target_rows: int = 1 << 20, deleted_share: float | None = 0.1) -> CompactionPlan:
        """Groups of fragments to rewrite (all, without a share); see `frazil.lance.operations.compaction` for the next
        two steps.
        """
        from frazil.lance.operations.compaction import plan_compaction

        return plan_compaction(self._store, self._version, target_rows=target_rows, deleted_share=deleted_share)

    def compact(self, *, target_rows: int = 1 << 20, deleted_share: float = 0.1) -> Compacted:
        """Rewrite small fragments into larger ones, without their deleted rows."""
        from frazil.lance.operations.compaction import compact

        self.refresh()
        found = compact(self._history(), self._version, target_rows=target_rows, deleted_share=deleted_share)
        self.refresh()
        return found

    def clean_up(
        self,
        *,
        older_than: int | str | datetime | None = None,
        retain_last: int = 1,
        delete_unverified: bool = False,
        dry_run: bool = False,
    ) -> CleanedUp:
        """Remove versions from before a time (two weeks ago, if not told) and the files that only they need."""
        from frazil.lance.operations.clean_up import clean_up

        return clean_up(
            self._store,
            self._root,
            self._version.branch,
            older_than_ms=None if older_than is None else to_millis(older_than),
            retain_last=retain_last,
            delete_unverified=delete_unverified,
            dry_run=dry_run,
        )

    def __repr__(self) -> str:
        branch = f" of branch {self._version.branch}" if self._version.branch else ""
        return (
            f"LanceTable({self.identifier}, {self.format_version}, version {self.version}{branch} at {self.location})"
        )

    def _repr_html_(self) -> str:
        made = datetime.fromtimestamp(self._version.timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
        told = {
            "location": self.location,
            "version": f"{self.version}, {self._version.operation or ''} at {made}",
            "rows": f"{self.scan().count():,} in {len(self._version.manifest.fragments):,} fragments",
        }
        cells = "".join(f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in told.items())
        name = f"<b>{escape(self.identifier)}</b> (Lance {self.format_version})"
        return f"{name}<table>{cells}</table>{self.schema._repr_html_()}"
