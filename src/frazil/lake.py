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
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.catalog.catalog import Catalog, Name
from frazil.catalog.names import TableName, table_name
from frazil.errors import CommitFailed, InvalidArgument, TableAlreadyExists, TableNotFound, Unsupported
from frazil.io.store import Stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.catalog.definition import TableDefinition
    from frazil.iceberg.committer import Committer, TableState
    from frazil.iceberg.table import IcebergTable

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):")
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

    def detach(self, spark: SparkSession, name: str = "lake") -> None:
        """Take the catalog away from a session again."""
        from frazil.spark.attach import detach

        detach(spark, name)

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

    def create_table(
        self,
        name: Name,
        schema: Any,
        *,
        partition_by: str | Iterable[str] = (),
        sort_by: str | Iterable[str] = (),
        format: str = "iceberg",  # noqa: A002 - the word for it
        format_version: int | None = None,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        exist_ok: bool = False,
    ) -> IcebergTable:
        """Make a table, and its namespace where that is missing.

        `schema` is a Frazil or pyarrow schema, a Spark StructType, or text such as `"id BIGINT, ts TIMESTAMP"`. With
        `exist_ok` a table that exists is returned as it is.
        """
        wanted = table_name(name)
        definition = _definition(schema, partition_by, sort_by, format, format_version, properties)
        if exist_ok and self.catalog.table_exists(wanted.parts):
            return self.table(wanted.parts)
        self.catalog.ensure_namespace(wanted.namespace)
        first = definition.first_metadata(self._location(wanted, location))
        try:
            state = self.catalog.create_table(wanted.parts, first)
        except TableAlreadyExists:
            if not exist_ok:
                raise
            return self.table(wanted.parts)
        return self._table(wanted, self.catalog.committer(wanted.parts), state)

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
        for attempt in range(1, _REPLACE_ATTEMPTS + 1):
            staged, committer = self._stage(
                wanted,
                _definition(schema, partition_by, sort_by, format, format_version, properties),
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
        definition = _definition(schema, partition_by, sort_by, format, format_version, properties)
        staged, committer = self._stage(wanted, definition, location=location, create=create, replace=replace)
        return self._table(wanted, committer, staged)

    def table(self, name: Name) -> IcebergTable:
        """The table of that name; TableNotFound."""
        wanted = table_name(name)
        try:
            state = self.catalog.load_table(wanted.parts)
        except TableNotFound as error:
            raise self._with_suggestions(error, wanted) from None
        from frazil.mixed.properties import refuse_part

        refuse_part(state.metadata.properties, state.metadata.location)
        return self._table(wanted, self.catalog.committer(wanted.parts), state)

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
        """Forget a table; with `purge` delete its files too."""
        self.catalog.drop_table(name, purge=purge)

    def rename_table(self, name: Name, to: Name) -> None:
        """Give a table another name. Its files stay where they are."""
        self.catalog.rename_table(name, to)

    def register_table(self, name: Name, metadata_location: str | Path) -> IcebergTable:
        """Take in a table that exists elsewhere, by one of its metadata files."""
        wanted = table_name(name)
        self.catalog.ensure_namespace(wanted.namespace)
        state = self.catalog.register_table(wanted.parts, absolute_location(metadata_location))
        return self._table(wanted, self.catalog.committer(wanted.parts), state)

    def _stage(
        self, name: TableName, definition: TableDefinition, *, location: str | None, create: bool, replace: bool
    ) -> tuple[TableState, Committer]:
        from frazil.catalog.staged import StagedTable

        if not create and not replace:
            raise InvalidArgument("a staged table is to be created, replaced, or both", hint="pass create or replace")
        exists = self.catalog.table_exists(name.parts)
        if exists and not replace:
            raise TableAlreadyExists(f"table {name} exists already", hint="stage it with replace=True")
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
    scheme = _scheme(text)
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


def absolute_location(path: str | Path) -> str:
    """A location from what people write: relative paths and `~` are for the local disk.

    >>> absolute_location("s3://bucket/t"), absolute_location("/a/./b/../c")
    ('s3://bucket/t', '/a/c')
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgument(f"{path!r} is no path", hint="give text or a pathlib.Path")
    text = os.fspath(path)
    if not text:
        raise InvalidArgument("an empty path", hint='write "." for the current folder')
    if _scheme(text) is not None:
        return text
    return os.path.abspath(Path(text).expanduser())  # noqa: PTH100 - takes '..' out without following links


def _scheme(text: str) -> str | None:
    found = _SCHEME.match(text)
    return None if found is None else found[1].lower().partition("+")[0]


def _definition(
    schema: Any,
    partition_by: str | Iterable[str],
    sort_by: str | Iterable[str],
    format_name: str,
    format_version: int | None,
    properties: Mapping[str, str] | None,
) -> TableDefinition:
    from frazil.catalog.definition import TableDefinition
    from frazil.model.arrow import schema_from_anything

    if format_name in ("lance", "mixed"):
        raise Unsupported(f"tables of format {format_name!r} are not supported yet", hint='use format="iceberg"')
    if format_name != "iceberg":
        raise InvalidArgument(f"unknown table format {format_name!r}", hint='use format="iceberg"')
    return TableDefinition(
        schema_from_anything(schema), _terms(partition_by), _terms(sort_by), dict(properties or {}), format_version
    )


def _terms(given: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(given, Iterable):
        raise InvalidArgument(f"{given!r} is no text", hint='write terms such as "days(ts)" or "id DESC"')
    terms: Sequence[str] = (given,) if isinstance(given, str) else tuple(given)
    for term in terms:
        if not isinstance(term, str):
            raise InvalidArgument(f"{term!r} is no text", hint='write terms such as "days(ts)" or "id DESC"')
    return tuple(terms)
