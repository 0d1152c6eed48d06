"""A catalog in a SQL database, with the tables of Iceberg's JDBC catalog: other engines see the same tables.

A commit is one UPDATE that requires the metadata location it was based on. SQLite serves the processes of one machine,
PostgreSQL any number of machines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from frazil.catalog.catalog import Name, check_namespace_properties, no_such_table, table_exists_already
from frazil.catalog.formats import LANCE, MIXED, Placed
from frazil.catalog.names import Namespace, TableName, namespace_name, table_name
from frazil.catalog.pointer import PointerCatalog
from frazil.errors import (
    CatalogError,
    FrazilError,
    InvalidArgument,
    MissingDependency,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    Unsupported,
)
from frazil.io.store import Store

_EXISTS = "exists"
"""The property whose presence makes a namespace, as Java's catalog has it; never shown."""

_TABLE = "TABLE"
_OTHERS = {LANCE: "LANCE", MIXED: "MIXED"}
"""Tables of other formats, which Iceberg's engines pass over as they do views: their location is the folder."""
_SCHEMA = sa.MetaData()
_TABLES = sa.Table(
    "iceberg_tables",
    _SCHEMA,
    sa.Column("catalog_name", sa.String(255), primary_key=True),
    sa.Column("table_namespace", sa.String(255), primary_key=True),
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("metadata_location", sa.String(1000)),
    sa.Column("previous_metadata_location", sa.String(1000)),
    sa.Column("iceberg_type", sa.String(5)),
)
_PROPERTIES = sa.Table(
    "iceberg_namespace_properties",
    _SCHEMA,
    sa.Column("catalog_name", sa.String(255), primary_key=True),
    sa.Column("namespace", sa.String(255), primary_key=True),
    sa.Column("property_key", sa.String(255), primary_key=True),
    sa.Column("property_value", sa.String(1000)),
)


class SqlCatalog(PointerCatalog):
    """Tables by the rows of a database. `name` is the catalog's name in it: one database can hold several."""

    def __init__(self, uri: str, store: Store, warehouse: str, name: str = "lake") -> None:
        super().__init__(store, warehouse)
        self.name = name
        self._url = _url(uri)
        self._engine = _engine(self._url)
        self._process = os.getpid()
        self._has_type = self._create_schema()

    def __repr__(self) -> str:
        return f"SqlCatalog({self.name!r}, {_shown(self._url)!r}, {self.warehouse!r})"

    def close(self) -> None:
        self._engine.dispose()

    def _create_schema(self) -> bool:
        """Make the tables unless they are there; whether they have the column that tells tables from views."""

        def columns() -> list[str] | None:
            with self._errors(), self._connection() as connection:
                inspector = sa.inspect(connection)
                if not all(inspector.has_table(table.name) for table in _SCHEMA.sorted_tables):
                    return None
                return [column["name"] for column in inspector.get_columns(_TABLES.name)]

        found = columns()
        if found is None:
            try:
                with self._errors():
                    _SCHEMA.create_all(self._engine)
            except FrazilError:
                # "create if not exists" of several processes at once can fail: what counts is what is there then
                found = columns()
                if found is None:
                    raise
            else:
                found = columns() or []
        return "iceberg_type" in found

    # Namespaces.

    def create_namespace(self, name: Name, properties: Mapping[str, str] | None = None) -> None:
        namespace = namespace_name(name)
        given = _checked_properties(properties)
        taken = NamespaceAlreadyExists(f"namespace {'.'.join(namespace)} exists already", hint="use it as it is")
        if self.namespace_exists(namespace):
            raise taken
        try:
            with self._writing() as connection:
                self._insert_properties(connection, namespace, {_EXISTS: "true", **given})
        except IntegrityError:
            raise taken from None

    def drop_namespace(self, name: Name) -> None:
        namespace = namespace_name(name)
        self._require_namespace(namespace)
        text = ".".join(namespace)
        with self._writing() as connection:
            named = self._rows_in(_TABLES.c.table_namespace, namespace)
            table = connection.execute(sa.select(_TABLES.c.table_name).where(named)).first()
            inner = [one for one in self._all_namespaces(connection) if one[:-1] == namespace]
            if table is not None or inner:
                what = f"{text}.{table[0]}" if table is not None else ".".join(inner[0])
                raise NamespaceNotEmpty(
                    f"namespace {text} is not empty: it has {what}", hint="drop its tables, views and namespaces first"
                )
            connection.execute(sa.delete(_PROPERTIES).where(self._rows_in(_PROPERTIES.c.namespace, namespace)))

    def list_namespaces(self, parent: Name | None = None) -> list[Namespace]:
        outer: Namespace = () if parent is None else namespace_name(parent)
        with self._reading() as connection:
            known = self._all_namespaces(connection)
        if outer and outer not in known:
            self._require_namespace(outer)
        return sorted(one for one in known if one[:-1] == outer)

    def namespace_exists(self, name: Name) -> bool:
        namespace = namespace_name(name)
        with self._reading() as connection:
            for column in (_PROPERTIES.c.namespace, _TABLES.c.table_namespace):
                if connection.execute(sa.select(column).where(self._rows_in(column, namespace)).limit(1)).first():
                    return True
            return namespace in self._all_namespaces(connection)

    def load_namespace_properties(self, name: Name) -> dict[str, str]:
        namespace = namespace_name(name)
        self._require_namespace(namespace)
        chosen = sa.select(_PROPERTIES.c.property_key, _PROPERTIES.c.property_value)
        with self._reading() as connection:
            rows = connection.execute(chosen.where(self._rows_in(_PROPERTIES.c.namespace, namespace))).all()
        return {key: text for key, text in rows if key != _EXISTS}

    def _store_namespace_properties(self, name: Namespace, properties: Mapping[str, str]) -> None:
        given = _checked_properties(properties)
        with self._writing() as connection:
            connection.execute(sa.delete(_PROPERTIES).where(self._rows_in(_PROPERTIES.c.namespace, name)))
            self._insert_properties(connection, name, {_EXISTS: "true", **given})

    def _insert_properties(self, connection: sa.Connection, name: Namespace, properties: Mapping[str, str]) -> None:
        rows = [
            {"catalog_name": self.name, "namespace": ".".join(name), "property_key": key, "property_value": text}
            for key, text in properties.items()
        ]
        connection.execute(sa.insert(_PROPERTIES), rows)

    def _all_namespaces(self, connection: sa.Connection) -> set[Namespace]:
        """Every namespace that has properties or tables, and those around it."""
        found: set[Namespace] = set()
        for column in (_PROPERTIES.c.namespace, _TABLES.c.table_namespace):
            for (text,) in connection.execute(
                sa.select(column).distinct().where(column.table.c.catalog_name == self.name)
            ):
                levels = tuple(text.split(".")) if text else ()
                found.update(levels[:depth] for depth in range(1, len(levels) + 1))
        return found

    def _rows_in(self, column: sa.ColumnElement[str], namespace: Namespace) -> sa.ColumnElement[bool]:
        catalog_name = column.table.c.catalog_name
        return sa.and_(catalog_name == self.name, column == ".".join(namespace))

    # Tables.

    def list_tables(self, namespace: Name) -> list[TableName]:
        outer = namespace_name(namespace)
        self._require_namespace(outer)
        chosen = sa.select(_TABLES.c.table_name).where(
            self._rows_in(_TABLES.c.table_namespace, outer), self._any_table()
        )
        with self._reading() as connection:
            found = [TableName(outer, name) for (name,) in connection.execute(chosen)]
        return self._visible(found)

    def rename_table(self, name: Name, to: Name) -> None:
        old, new = table_name(name), table_name(to)
        self._require_namespace(new.namespace)
        change = sa.update(_TABLES).where(self._row(old), self._any_table())
        try:
            with self._writing() as connection:
                done = connection.execute(
                    change.values(table_namespace=".".join(new.namespace), table_name=new.name)
                ).rowcount
        except IntegrityError:
            raise table_exists_already(new) from None
        if done == 0:
            raise no_such_table(old)

    def _pointer(self, name: TableName) -> str | None:
        chosen = sa.select(_TABLES.c.metadata_location).where(self._row(name), self._iceberg_table())
        with self._reading() as connection:
            found = connection.execute(chosen).first()
        return None if found is None else found[0]

    def _swap(self, name: TableName, old: str | None, new: str) -> bool:
        if len(new) > 1000:
            raise InvalidArgument(
                "the metadata's location is longer than 1000 characters", hint="use a shorter warehouse or location"
            )
        try:
            with self._writing() as connection:
                if old is None:
                    connection.execute(sa.insert(_TABLES).values(**self._new_row(name, new)))
                    return True
                known = (self._row(name), self._iceberg_table(), _TABLES.c.metadata_location == old)
                change = sa.update(_TABLES).where(*known)
                done = connection.execute(change.values(metadata_location=new, previous_metadata_location=old))
                return bool(done.rowcount == 1)
        except IntegrityError:
            return False

    def _new_row(self, name: TableName, location: str) -> dict[str, Any]:
        row = {
            "catalog_name": self.name,
            "table_namespace": ".".join(name.namespace),
            "table_name": name.name,
            "metadata_location": location,
            "previous_metadata_location": None,
        }
        return {**row, "iceberg_type": _TABLE} if self._has_type else row

    def _remove(self, name: TableName) -> str | None:
        chosen = (self._row(name), self._iceberg_table())
        with self._writing() as connection:
            for _ in range(10):
                found = connection.execute(sa.select(_TABLES.c.metadata_location).where(*chosen)).first()
                if found is None:
                    return None
                as_seen = _TABLES.c.metadata_location == found[0]
                if connection.execute(sa.delete(_TABLES).where(*chosen, as_seen)).rowcount == 1:
                    return str(found[0])
        raise CatalogError(f"table {name} is being written to", hint="try again when its writers are done")

    def placed(self, name: Name) -> Placed | None:
        if not self._has_type:
            return None
        with self._reading() as connection:
            return self._placed(connection, table_name(name))

    def _placed(self, connection: sa.Connection, name: TableName) -> Placed | None:
        chosen = sa.select(_TABLES.c.iceberg_type, _TABLES.c.metadata_location).where(self._row(name))
        found = connection.execute(chosen.where(_TABLES.c.iceberg_type.in_(_OTHERS.values()))).first()
        return None if found is None else Placed(found[0].lower(), found[1])

    def place(self, name: Name, placed: Placed) -> None:
        wanted = table_name(name)
        self._require_namespace(wanted.namespace)
        self._require_type(placed.format)
        row = {**self._new_row(wanted, placed.location), "iceberg_type": _OTHERS[placed.format]}
        try:
            with self._writing() as connection:
                connection.execute(sa.insert(_TABLES).values(**row))
        except IntegrityError:
            raise table_exists_already(wanted) from None

    def _require_type(self, format_name: str) -> None:
        if not self._has_type:
            raise Unsupported(
                f"this catalog's tables have no column iceberg_type, and so no place for {format_name} tables",
                hint="ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5), as Iceberg's catalog does",
            )

    def _displace(self, name: TableName) -> Placed | None:
        if not self._has_type:
            return None
        with self._writing() as connection:
            found = self._placed(connection, name)
            if found is not None:
                connection.execute(sa.delete(_TABLES).where(self._row(name)))
        return found

    def _exchange(self, name: TableName, old: str | Placed, new: str | Placed) -> bool:
        self._require_type(LANCE)
        before, after = _stored(old), _stored(new)
        known = [self._row(name), _TABLES.c.metadata_location == before[1]]
        known.append(self._iceberg_table() if isinstance(old, str) else _TABLES.c.iceberg_type == before[0])
        change = (
            sa.update(_TABLES)
            .where(*known)
            .values(iceberg_type=after[0], metadata_location=after[1], previous_metadata_location=None)
        )
        with self._writing() as connection:
            return bool(connection.execute(change).rowcount == 1)

    def _names_below(self, folder: str) -> list[str]:
        """Of all catalogs in the database: those of another name may hold the same files."""
        chosen = sa.select(_TABLES.c.catalog_name, _TABLES.c.table_namespace, _TABLES.c.table_name).where(
            _TABLES.c.metadata_location.startswith(f"{folder}/", autoescape=True)
        )
        with self._reading() as connection:
            rows = connection.execute(chosen).all()
        return [".".join(row[1:] if row[0] == self.name else row) for row in rows]

    def _row(self, name: TableName) -> sa.ColumnElement[bool]:
        return sa.and_(self._rows_in(_TABLES.c.table_namespace, name.namespace), _TABLES.c.table_name == name.name)

    def _any_table(self) -> sa.ColumnElement[bool]:
        others = _TABLES.c.iceberg_type.in_(_OTHERS.values()) if self._has_type else sa.false()
        return sa.or_(self._iceberg_table(), others)

    def _iceberg_table(self) -> sa.ColumnElement[bool]:
        if not self._has_type:
            return sa.true()
        return sa.or_(_TABLES.c.iceberg_type == _TABLE, _TABLES.c.iceberg_type.is_(None))

    # Connections.

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        if self._process != os.getpid():
            # connections do not survive a fork; those of the parent are the parent's to close
            self._engine.dispose(close=False)
            self._process = os.getpid()
        with self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._errors(), self._connection() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """A transaction, committed at the end. IntegrityError passes; others are CatalogError."""
        committing = False
        try:
            with self._connection() as connection:
                if connection.dialect.name == "sqlite":
                    # take the lock now: two that have read first and then want to write would wait for each other
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
                committing = True
                connection.commit()
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            raise self._translated(error, applied="unknown" if committing else "no") from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise self._translated(error, applied="no") from None

    def _translated(self, error: SQLAlchemyError, *, applied: str) -> FrazilError:
        """Our error for the database's, without anything that the URL keeps secret."""
        reason = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        reason = next(iter(reason.strip().splitlines()), type(error).__name__)
        for secret in filter(None, (self._url.password, *map(str, self._url.query.values()))):
            reason = reason.replace(str(secret), "***")
        if isinstance(error, DataError):
            return InvalidArgument(f"the catalog cannot hold this: {reason}", hint="use a shorter name or property")
        return CatalogError(
            f"catalog {_shown(self._url)}: {reason}",
            hint="check that the database is up",
            applied=applied,
        )


def _stored(table: str | Placed) -> tuple[str, str]:
    """The type and the location in a table's row."""
    return (_TABLE, table) if isinstance(table, str) else (_OTHERS[table.format], table.location)


def _checked_properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    given = check_namespace_properties(properties)
    if _EXISTS in given:
        raise InvalidArgument(f"property {_EXISTS!r} is reserved", hint="choose another name for it")
    long = next((key for key, text in given.items() if len(key) > 255 or len(text) > 1000), None)
    if long is not None:
        raise InvalidArgument(
            f"property {long[:80]!r} is too long", hint="names have at most 255 characters, values 1000"
        )
    return given


def _url(uri: str) -> sa.URL:
    try:
        url = sa.make_url(uri)
    except (SQLAlchemyError, ValueError):
        # not repeated in the message: it may hold a password
        raise InvalidArgument("not the URL of a database", hint="write sqlite:///file.db or postgresql://...") from None
    if url.drivername in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database not in (None, "", ":memory:"):
        path = Path(str(url.database)).expanduser().absolute()
        return url.set(database=str(path))
    return url


def _engine(url: sa.URL) -> sa.Engine:
    sqlite = url.get_backend_name() == "sqlite"
    try:
        if not sqlite:
            return sa.create_engine(url, poolclass=QueuePool, pool_pre_ping=True, hide_parameters=True)
        in_memory = url.database in (None, "", ":memory:")
        if not in_memory:
            Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
        engine = sa.create_engine(
            url,
            poolclass=StaticPool if in_memory else NullPool,
            connect_args={"timeout": 60, "check_same_thread": False},
            hide_parameters=True,
        )
    except ImportError as error:
        raise MissingDependency(
            f"no driver for {url.get_backend_name()}: {error}", hint="pip install 'frazil[postgres]'"
        ) from error
    except (SQLAlchemyError, OSError) as error:
        raise InvalidArgument(
            f"cannot use {_shown(url)}: {type(error).__name__}", hint="write sqlite:///file.db or postgresql://..."
        ) from None

    @sa.event.listens_for(engine, "connect")
    def _no_implicit_begin(connection: Any, _record: Any) -> None:
        # Python's driver would begin a transaction by itself at the first change, as a deferred one
        connection.isolation_level = None

    return engine


def _shown(url: sa.URL) -> str:
    """The URL without user, password and options."""
    return f"{url.get_backend_name()}://{url.host or ''}/{url.database or ''}"
