"""A lake: the tables of a catalog, by name.

>>> lake = connect("memory:")
>>> table = lake.create_table("db.events", "id BIGINT NOT NULL, ts TIMESTAMP", partition_by=["days(ts)"])
>>> lake.tables()
['db.events']
>>> lake.rename_table("db.events", "db.clicks")
>>> lake
Lake('lake', MemoryCatalog('memory://...'))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from frazil.catalog.catalog import (
    MIXED_STORE,
    Catalog,
    Name,
    change_store_of,
    table_exists_already,
)
from frazil.catalog.definition import TableDefinition, definition_of
from frazil.catalog.formats import ICEBERG, LANCE, MIXED, Placed, check_format, refuse
from frazil.catalog.mixed_stores import change_store_beside, is_in_table, refuse_store
from frazil.catalog.names import TableName, table_name
from frazil.errors import CommitFailed, InvalidArgument, TableAlreadyExists, TableNotFound, Unsupported
from frazil.io.store import Stores
from frazil.locations import absolute_location, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.conversion.convert import Converted
    from frazil.iceberg.committer import Committer, TableState
    from frazil.iceberg.table import IcebergTable
    from frazil.lance.table import LanceTable
    from frazil.mixed.table import MixedTable
    from frazil.optimize.result import LakeResult
    from frazil.optimize.tasks import Executor

_Made = TypeVar("_Made", "LanceTable", "MixedTable")
_SQL = ("sqlite", "postgresql", "postgres")
_REPLACE_ATTEMPTS = 5
_SHOWN_TABLES = 200


class Lake:
    """Namespaces and tables by name. Made by `frazil.connect`."""

    def __init__(self, catalog: Catalog, name: str = "lake") -> None:
        self.catalog = catalog
        self.name = name

    def close(self) -> None:
        """Let go of connections to a database. The lake can be used again after."""
        self.catalog.close()

    # Spark.

    def spark(self, name: str = "lake", **conf: Any) -> SparkSession:
        """A Spark session, local unless told otherwise, that has this lake as catalog `name`.

        Settings are keywords: `lake.spark(master="local[4]", **{"spark.driver.memory": "4g"})`.
        """
        from frazil.spark.session import spark_session

        return spark_session(self, name, **conf)

    def attach(self, spark: SparkSession, name: str = "lake") -> None:
        """Make this lake the catalog `name` of a session, and of those made from it later."""
        from frazil.spark.attach import attach

        attach(self, spark, name)

    def detach(self, spark: SparkSession, name: str | None = None) -> None:
        """Take the lake away from a session again: the catalog of that name, or all that it is attached as."""
        from frazil.spark.attach import detach_lake

        detach_lake(self, spark, name)

    # Namespaces.

    def create_namespace(
        self, name: Name, properties: Mapping[str, str] | None = None, *, exist_ok: bool = False
    ) -> None:
        """Make a namespace."""
        if not (exist_ok and self.catalog.namespace_exists(name)):
            self.catalog.create_namespace(name, properties)

    def drop_namespace(self, name: Name) -> None:
        """Remove an empty namespace."""
        self.catalog.drop_namespace(name)

    def list_namespaces(self, parent: Name | None = None) -> list[str]:
        """The names of the namespaces in `parent`, or of the outermost ones."""
        return [".".join(namespace) for namespace in self.catalog.list_namespaces(parent)]

    def namespace_exists(self, name: Name) -> bool:
        """Whether there is such a namespace."""
        return self.catalog.namespace_exists(name)

    def namespace_properties(self, name: Name) -> dict[str, str]:
        """The properties of a namespace."""
        return self.catalog.load_namespace_properties(name)

    def update_namespace_properties(
        self, name: Name, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Set and remove properties of a namespace."""
        self.catalog.update_namespace_properties(name, updates, removals)

    # Tables.

    @overload
    def create_table(
        self,
        name: Name,
        schema: Any,
        *,
        format: Literal["lance"],
        format_version: int | str | None = None,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        exist_ok: bool = False,
    ) -> LanceTable: ...

    @overload
    def create_table(
        self,
        name: Name,
        schema: Any,
        *,
        format: Literal["mixed"],
        partition_by: str | Iterable[str] = (),
        primary_key: Sequence[str] = (),
        layout: str | None = None,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        exist_ok: bool = False,
    ) -> MixedTable: ...

    @overload
    def create_table(
        self,
        name: Name,
        schema: Any,
        *,
        partition_by: str | Iterable[str] = (),
        sort_by: str | Iterable[str] = (),
        format: Literal["iceberg"] = "iceberg",
        format_version: int | str | None = None,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        exist_ok: bool = False,
    ) -> IcebergTable: ...

    def create_table(
        self,
        name: Name,
        schema: Any,
        *,
        partition_by: str | Iterable[str] = (),
        sort_by: str | Iterable[str] = (),
        format: str = "iceberg",  # noqa: A002 - the word for it
        format_version: int | str | None = None,
        primary_key: Sequence[str] = (),
        layout: str | None = None,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        exist_ok: bool = False,
    ) -> IcebergTable | LanceTable | MixedTable:
        """Make a table, and its namespace where that is missing.

        `schema` is a Frazil or pyarrow schema, a Spark StructType, or text such as `"id BIGINT, ts TIMESTAMP"`. With
        `exist_ok` a table that exists is returned as it is.

        `format` is `"iceberg"`, `"lance"` (whose `format_version` is that of its data files, such as `"2.1"`), or
        `"mixed"`: Amoro's tables, keyed if they have a `primary_key`, with `layout="sibling"` as today's Amoro lays
        them out. Both can be given as the properties `primary-key` and `layout`, as in CREATE TABLE.
        """
        wanted = table_name(name)
        kind = check_format(format)
        if exist_ok and self.catalog.table_exists(wanted.parts):
            return self.table(wanted.parts)
        try:
            if kind == LANCE:
                refuse(kind, partition_by=partition_by, sort_by=sort_by, primary_key=primary_key, layout=layout)
                return self._create_lance(wanted, schema, properties, location, format_version)
            definition = definition_of(schema, partition_by, sort_by, format_version, properties)
            if kind == MIXED:
                return self._create_mixed(wanted, definition, primary_key, layout, location)
            refuse(kind, primary_key=primary_key, layout=layout)
            self.catalog.ensure_namespace(wanted.namespace)
            state = self.catalog.create_table(wanted.parts, definition.first_metadata(self._location(wanted, location)))
        except TableAlreadyExists:
            if not exist_ok:
                raise
            return self.table(wanted.parts)
        return self._table(wanted, self.catalog.committer(wanted.parts), state)

    def _create_lance(
        self,
        name: TableName,
        schema: Any,
        properties: Mapping[str, str] | None,
        location: str | None,
        file_version: int | str | None,
    ) -> LanceTable:
        from frazil.catalog.formats import create_lance

        return self._placed(
            name,
            LANCE,
            location,
            lambda place: create_lance(
                self.catalog.store,
                place,
                str(name),
                schema,
                properties or {},
                None if file_version is None else str(file_version),
            ),
        )

    def _create_mixed(
        self,
        name: TableName,
        definition: TableDefinition,
        primary_key: Sequence[str],
        layout: str | None,
        location: str | None,
    ) -> MixedTable:
        from frazil.catalog.mixed_folder import create_mixed_table
        from frazil.mixed.definition import LAYOUT, PRIMARY_KEY, key_of, layout_of
        from frazil.mixed.layout import NESTED

        given = definition.properties
        key, chosen = key_of(definition.schema, given, primary_key), layout_of(given, layout)
        rest = {prop: text for prop, text in given.items() if prop not in (PRIMARY_KEY, LAYOUT)}
        plan = replace(definition, properties=rest)

        def make(place: str) -> MixedTable:
            return create_mixed_table(self.catalog.store, place, plan, primary_key=key, layout=chosen, name=str(name))

        if chosen == NESTED:
            return self._placed(name, MIXED, location, make)
        from frazil.catalog.filesystem import FilesystemCatalog

        if not isinstance(self.catalog, FilesystemCatalog):
            raise Unsupported(f"layout={chosen!r} is for filesystem catalogs", hint="leave the layout out")
        self._check_free(name)
        return make(self._location(name, location))

    def _placed(self, name: TableName, kind: str, location: str | None, make: Callable[[str], _Made]) -> _Made:
        """Make a table of another format where it is to be, then name it: nobody sees a name without a table."""
        self._check_free(name)
        place = self._location(name, location)
        made = make(place)
        placed = Placed(kind, place)
        self.catalog.place(name.parts, placed)
        self._watched(made, name, placed)
        return made

    def _watched(self, table: Any, name: TableName, placed: Placed) -> None:
        """A Lance table commits for itself, so it asks before that whether the name is its own still."""
        if placed.format == LANCE:
            table.named(partial(self.catalog.check_placed, name.parts, placed))

    def _check_free(self, name: TableName) -> None:
        self.catalog.ensure_namespace(name.namespace)
        if self.catalog.table_exists(name.parts):
            raise table_exists_already(name)

    def replace_table(
        self,
        name: Name,
        schema: Any,
        *,
        partition_by: str | Iterable[str] = (),
        sort_by: str | Iterable[str] = (),
        format: str = "iceberg",  # noqa: A002
        format_version: int | None = None,
        properties: Mapping[str, str] | None = None,
        or_create: bool = False,
    ) -> IcebergTable:
        """Give a table another schema and no rows, in one step. Its history stays, and its former rows in it."""
        wanted = table_name(name)
        _only_iceberg(format, "replaced")
        for attempt in range(1, _REPLACE_ATTEMPTS + 1):
            staged, committer = self._stage(
                wanted,
                definition_of(schema, partition_by, sort_by, format_version, properties),
                location=None,
                create=or_create,
                replace=True,
            )
            try:
                return self._table(wanted, self.catalog.committer(wanted.parts), committer.commit(staged, [], []))
            except CommitFailed:
                if attempt == _REPLACE_ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")  # pragma: no cover

    def stage_table(
        self,
        name: Name,
        schema: Any,
        *,
        partition_by: str | Iterable[str] = (),
        sort_by: str | Iterable[str] = (),
        format: str = "iceberg",  # noqa: A002
        format_version: int | None = None,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        create: bool = True,
        replace: bool = False,
    ) -> IcebergTable:
        """A table that nobody sees before its first commit, which creates or replaces it together with its first rows.

        With `create` and not `replace` the name must be free; with `replace` and not `create` it must be a table's.
        """
        wanted = table_name(name)
        _only_iceberg(format, "staged")
        definition = definition_of(schema, partition_by, sort_by, format_version, properties)
        staged, committer = self._stage(wanted, definition, location=location, create=create, replace=replace)
        return self._table(wanted, committer, staged)

    @overload
    def table(self, name: Name, *, format: Literal["lance"]) -> LanceTable: ...

    @overload
    def table(self, name: Name, *, format: Literal["mixed"]) -> MixedTable: ...

    @overload
    def table(self, name: Name, *, format: Literal["iceberg"] | None = None) -> IcebergTable: ...

    def table(self, name: Name, *, format: str | None = None) -> IcebergTable | LanceTable | MixedTable:  # noqa: A002
        """The table of that name, whatever its format; TableNotFound.

        With `format` a table of another one is refused, and type checkers know what it is.
        """
        found = self._any_table(table_name(name))
        if format is not None and found.format != check_format(format):
            raise InvalidArgument(f"{found.identifier} is a table of format {found.format}", hint="leave format out")
        return found

    def _any_table(self, wanted: TableName) -> IcebergTable | LanceTable | MixedTable:
        try:
            state = self.catalog.load_table(wanted.parts)
        except TableNotFound as error:
            placed = self.catalog.placed(wanted.parts)
            if placed is None:
                raise self._with_suggestions(error, wanted) from None
            from frazil.catalog.formats import open_placed

            found: LanceTable | MixedTable = open_placed(self.catalog.store, placed, str(wanted))
            self._watched(found, wanted, placed)
            return found
        table = self._table(wanted, self.catalog.committer(wanted.parts), state)
        return table if MIXED_STORE not in table.properties else self._with_change_store(wanted, table)

    def _with_change_store(self, name: TableName, base: IcebergTable) -> IcebergTable | MixedTable:
        """The mixed table whose base store is in the catalog under its name, the change store under another."""
        from frazil.catalog.mixed_folder import as_mixed
        from frazil.mixed.properties import BASE, refuse_part, store_kind

        if store_kind(base.properties) != BASE:
            refuse_part(base.properties, base.location)
            return base
        twin = change_store_of(name, base.properties)
        change = None if twin is None else self._change_store(twin)
        return as_mixed(base.identifier, base, change, None)

    def _change_store(self, name: TableName) -> IcebergTable:
        from frazil.catalog.mixed_folder import missing_twin

        try:
            state = self.catalog.load_table(name.parts)
        except TableNotFound:
            if is_in_table(self.catalog, name):  # the folder of a store, which is no table
                raise
            raise missing_twin(self.catalog.default_location(name.parts), "change") from None
        return self._table(name, self.catalog.committer(name.parts), state)

    def tables(self, namespace: Name | None = None) -> list[str]:
        """The names of the tables in a namespace, or of all tables."""
        if namespace is not None:
            return [str(name) for name in self.catalog.list_tables(namespace)]
        found: list[str] = []
        waiting = self.catalog.list_namespaces()
        while waiting:
            inner = waiting.pop()
            found += [str(name) for name in self.catalog.list_tables(inner)]
            waiting += self.catalog.list_namespaces(inner)
        return sorted(found)

    def table_exists(self, name: Name) -> bool:
        """Whether there is such a table."""
        return self.catalog.table_exists(name)

    def drop_table(self, name: Name, *, purge: bool = False) -> None:
        """Forget a table; with `purge` delete its files too. Stores of a mixed table go with it only."""
        refuse_store(self.catalog, name, "dropped")
        twin = change_store_beside(self.catalog, name)
        self.catalog.drop_table(name, purge=purge)
        if twin is not None:
            with suppress(TableNotFound):  # somebody took it away: the table goes as it is
                self.catalog.drop_table(twin.parts, purge=purge)

    def rename_table(self, name: Name, to: Name) -> None:
        """Give a table another name. Its files stay where they are."""
        refuse_store(self.catalog, name, "renamed")
        self.catalog.rename_table(name, to)

    def convert_table(self, name: Name, to: str, *, spark: Any = None) -> Converted:
        """Make an Iceberg table a Lance table, or the other way, with its schema, rows, properties and tags.

        Its name is the other table's from one moment to the next; the former one's files stay where they are. Workers
        of a Spark session move the rows, if one is given.
        """
        from frazil.conversion.convert import convert
        from frazil.conversion.place import in_catalog

        wanted = table_name(name)
        place = in_catalog(self.catalog, wanted, lambda: self._any_table(wanted))
        if spark is None:
            return convert(place, to)
        from frazil.spark.conversion import OnSpark

        return convert(place, to, OnSpark(spark))

    def register_table(self, name: Name, metadata_location: str | Path) -> IcebergTable:
        """Take in a table that exists elsewhere, by one of its metadata files."""
        wanted = table_name(name)
        self.catalog.ensure_namespace(wanted.namespace)
        state = self.catalog.register_table(wanted.parts, absolute_location(metadata_location))
        return self._table(wanted, self.catalog.committer(wanted.parts), state)

    def optimize(
        self,
        namespace: Name | None = None,
        kind: str | None = None,
        *,
        dry_run: bool = False,
        upkeep: bool = True,
        executor: Executor | None = None,
        spark: SparkSession | None = None,
    ) -> LakeResult:
        """Optimize all tables, or those of a namespace, each as its properties say (see the tables' `optimize`).

        A table that cannot be optimized is told of, and does not keep the others from it.
        """
        from frazil.optimize.lakes import optimize_tables
        from frazil.optimize.run import Request

        if spark is not None:
            from frazil.spark.optimize.executor import SparkExecutor

            executor = SparkExecutor(spark)
        told: dict[str, Any] = {} if executor is None else {"executor": executor}
        request = Request(kind, dry_run=dry_run, upkeep=upkeep, **told)
        return optimize_tables(self.tables(namespace), self.table, request)

    def _stage(
        self, name: TableName, definition: TableDefinition, *, location: str | None, create: bool, replace: bool
    ) -> tuple[TableState, Committer]:
        from frazil.catalog.staged import StagedTable

        if not create and not replace:
            raise InvalidArgument("a staged table is to be created, replaced, or both", hint="pass create or replace")
        exists = self.catalog.table_exists(name.parts)
        if exists and not replace:
            raise TableAlreadyExists(f"table {name} exists already", hint="stage it with replace=True")
        if exists and (placed := self.catalog.placed(name.parts)) is not None:
            raise Unsupported(
                f"{name} is a table of format {placed.format}, which no Iceberg table can replace",
                hint="drop it and create it anew, or convert it: lake.convert_table",
            )
        first = None
        if create:
            self.catalog.ensure_namespace(name.namespace)
            first = definition.first_metadata(self._location(name, location))
        committer = StagedTable(self.catalog, name, definition, first=first, replace=replace)
        return committer.load(), committer

    def _location(self, name: TableName, location: str | None) -> str:
        return self.catalog.default_location(name.parts) if location is None else absolute_location(location)

    def _table(self, name: TableName, committer: Committer, state: TableState) -> IcebergTable:
        from frazil.iceberg.table import IcebergTable

        return IcebergTable(str(name), self.catalog.store, committer, state)

    def _with_suggestions(self, error: TableNotFound, name: TableName) -> TableNotFound:
        import difflib

        if not self.catalog.namespace_exists(name.namespace):
            known = ", ".join(self.list_namespaces()[:12]) or "none yet"
            return TableNotFound(
                error.message, hint=f"there is no namespace {'.'.join(name.namespace)}; there are {known}"
            )
        left = self.catalog.change_store_left(name)
        if left is not None:
            return TableNotFound(
                error.message, hint=f"its change store {left} is still there: restore the base store, or drop {left}"
            )
        names = [table.name for table in self.catalog.list_tables(name.namespace)]
        near = difflib.get_close_matches(name.name, names, n=3)
        listed = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(names[:12]) or 'no tables yet'}"
        return TableNotFound(error.message, hint=f"namespace {'.'.join(name.namespace)} is there; {listed}")

    def __repr__(self) -> str:
        return f"Lake({self.name!r}, {self.catalog!r})"

    def _repr_html_(self) -> str:
        names = self.tables()
        rows = "".join(f"<li>{escape(name)}</li>" for name in names[:_SHOWN_TABLES])
        more = f"<p>and {len(names) - _SHOWN_TABLES} more</p>" if len(names) > _SHOWN_TABLES else ""
        return f"<b>{escape(self.name)}</b> {escape(repr(self.catalog))}<ul>{rows}</ul>{more}"


def connect(
    uri: str | Path,
    *,
    warehouse: str | Path | None = None,
    name: str = "lake",
    token: str | None = None,
    **properties: str,
) -> Lake:
    """A lake of tables.

    - a folder, `file:`, `memory://name` or `s3://bucket/folder`: a filesystem catalog there, created on first use
    - `sqlite:///lake.db` or `postgresql://...` with a `warehouse`: a SQL catalog; `name` is the catalog's in it
    - `memory:`: a catalog and tables that end with the process

    Properties such as `s3.endpoint` go to the stores: `connect(..., **{"s3.endpoint": "..."})`.
    """
    if not isinstance(uri, str | os.PathLike):
        raise InvalidArgument(f"{uri!r} is no place", hint='give a folder, or a URL such as "sqlite:///lake.db"')
    text = os.fspath(uri)
    scheme = scheme_of(text)
    if scheme in ("http", "https"):
        raise Unsupported(
            "REST catalogs are not supported yet", hint="connect to a folder, or to a SQL catalog that others use too"
        )
    if token is not None:
        raise InvalidArgument("a token is for REST catalogs", hint="leave the token out")
    store = Stores(properties)
    if scheme in _SQL:
        if warehouse is None:
            raise InvalidArgument(
                f"a {scheme} catalog needs a warehouse, the folder where tables get their files",
                hint='connect("sqlite:///lake.db", warehouse="./warehouse")',
            )
        from frazil.catalog.sql import SqlCatalog

        return Lake(SqlCatalog(text, store, absolute_location(warehouse), name), name)
    if warehouse is not None:
        raise InvalidArgument(
            "a filesystem catalog is its own warehouse", hint="pass the folder alone, or the URL of a SQL catalog"
        )
    if text.rstrip("/") == "memory:":
        from frazil.catalog.memory import MemoryCatalog

        return Lake(MemoryCatalog(store), name)
    from frazil.catalog.filesystem import FilesystemCatalog

    place = absolute_location(text)
    store.route(place)  # refuses what no store can hold
    return Lake(FilesystemCatalog(store, place), name)


def _only_iceberg(format_name: str, done: str) -> None:
    kind = check_format(format_name)
    if kind != ICEBERG:
        raise Unsupported(f"{kind} tables cannot be {done}", hint="drop the table, and create it anew")
