"""Tables by name, as Spark asks for them: loading with time travel, creating, dropping, renaming, listing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument, InvalidName, TableNotFound, Unsupported
from frazil.iceberg.refs import MAIN
from frazil.iceberg.scan import choose_snapshot
from frazil.iceberg.table import IcebergTable
from frazil.spark.definition import parse_definition
from frazil.spark.describe import describe
from frazil.spark.exceptions import table_errors
from frazil.spark.handles import TableHandle
from frazil.spark.options import folded
from frazil.spark.paths import create_at, is_path, open_path
from frazil.spark.wap import wap_branch

if TYPE_CHECKING:
    from frazil.lake import Lake
    from frazil.spark.bridge import Bridge

_SELECTOR = re.compile(r"(branch|tag|snapshot_id|at_timestamp)_(.+)", re.IGNORECASE | re.DOTALL)
_INTEGER = re.compile(r"-?\d{1,19}")
AS_OF_TIMESTAMP, TIMESTAMP_AS_OF = "as-of-timestamp", "timestampasof"
"""The option for a time in milliseconds, and the one for a time as SQL has it."""


HELD = "__frazil__"
"""The namespace of tables that a call brings along."""


class Tables:
    """Answers what FrazilCatalog asks about tables; names are JSON lists of parts, answers are JSON."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._lake = bridge.lake
        self._seen: dict[str, str] = {}
        bridge.on("listTables", self.list)
        bridge.on("loadTable", self.load)
        bridge.on("createTable", self.create)
        bridge.on("dropTable", self.drop)
        bridge.on("renameTable", self.rename)
        bridge.on("invalidateTable", lambda _a, _b, _c: None)  # every query loads its tables anew

    def list(self, namespace: str, _b: None, _c: None) -> str:
        """The names of the tables in a namespace."""
        parts = json.loads(namespace)
        with table_errors(self._bridge, [*parts, "*"]):
            return json.dumps([name.name for name in self._lake.catalog.list_tables(parts)] if parts else [])

    def load(self, name: str, version: str | None, micros: str | None) -> str:
        """A table, at a version (id, branch or tag) or a time (in microseconds) if one is given."""
        parts = json.loads(name)
        held = held_table(self._bridge, parts)
        if held is not None:
            return describe(self._bridge, held)
        with table_errors(self._bridge, parts):
            handle = resolve(self._lake, parts)
        if handle.pinned and (version is not None or micros is not None):
            raise InvalidArgument(
                f"{parts[-1]} says which version of the table is meant, and AS OF says it again", hint="name it once"
            )
        if version is not None:
            handle = at_version(handle, version)
        elif micros is not None:
            handle = at_millis(handle, int(micros) // 1000)
        elif handle.branch == MAIN:
            handle = self._audited(handle)
        if version is None and micros is None:
            self._refresh_cached(handle)
        return describe(self._bridge, handle)

    def _audited(self, handle: TableHandle) -> TableHandle:
        """The branch that the session audits, if there is one, in the place of the main one."""

        def conf(key: str) -> str | None:
            active = self._bridge.jvm.org.apache.spark.sql.classic.SparkSession.active()
            return self._bridge.session(active).conf.get(key, None)

        branch = wap_branch(handle.table.metadata, conf)
        if branch is None or branch not in handle.table.refs:
            return handle
        return replace(at_ref(handle, branch), pinned=False)

    def _refresh_cached(self, handle: TableHandle) -> None:
        """A table that others changed: Spark takes it as it was when CACHE TABLE was run, until told."""
        if handle.kind != "table" or handle.pinned:
            return
        before = self._seen.get(handle.name)
        self._seen[handle.name] = handle.rows
        if before in (None, handle.rows):
            return
        if not self._bridge.spark._jsparkSession.sharedState().cacheManager().isEmpty():
            self._bridge.refresh(handle.name)

    def create(self, name: str, definition: str, _c: None) -> str:
        """Make a table."""
        parts = json.loads(name)
        new = parse_definition(self._bridge, definition)
        with table_errors(self._bridge, parts):
            if is_path(parts[0]):
                table = create_at(self._lake.catalog.store, parts[0], new)
            else:
                self._lake.catalog._require_namespace(tuple(parts[:-1]))
                table = self._lake.create_table(parts, new.schema, location=new.location, **new.layout)
        return describe(self._bridge, current(table))

    def drop(self, name: str, purge: bool, _c: None) -> bool:
        """Forget a table; whether there was one."""
        parts = json.loads(name)
        try:
            self._lake.drop_table(parts, purge=purge)
        except (TableNotFound, InvalidName):
            self._refuse_parts_of_tables(parts)
            return False
        return True

    def _refuse_parts_of_tables(self, parts: Sequence[str]) -> None:
        """What can be read under a name and is no table of the lake: Spark would take it as dropped."""
        try:
            resolve(self._lake, parts)
        except TableNotFound:
            return
        raise Unsupported(
            f"{'.'.join(parts)} cannot be dropped: it is no table of the lake",
            hint="drop the whole table by its name; ALTER TABLE ... DROP BRANCH or DROP TAG for those",
        )

    def rename(self, name: str, to: str, _c: None) -> None:
        """Give a table another name, which may begin with the catalog's."""
        parts, wanted = json.loads(name), json.loads(to)
        if len(wanted) > 2 and wanted[0] == self._bridge.name and not self._lake.namespace_exists(wanted[:-1]):
            wanted = wanted[1:]
        with table_errors(self._bridge, wanted if self._lake.table_exists(wanted) else parts):
            self._lake.rename_table(parts, wanted)


def held_table(bridge: Bridge, parts: Sequence[str]) -> TableHandle | None:
    """The table of that name, if it is one that a call brings along."""
    return bridge.tables.named(parts[-1]) if parts[0] == HELD else None


def resolve(lake: Lake, parts: Sequence[str]) -> TableHandle:
    """The table of that name; or of a table's name with a branch, tag, snapshot or metadata table behind it."""
    try:
        return current(_table(lake, parts))
    except (TableNotFound, InvalidName) as error:
        found = _selected(lake, parts) if len(parts) > (1 if is_path(parts[0]) else 2) else None
        if found is not None:
            return found
        if isinstance(error, InvalidName):  # no table can have that name, so none has
            raise TableNotFound(error.message, hint=error.hint) from error
        raise


def _table(lake: Lake, parts: Sequence[str]) -> IcebergTable:
    if len(parts) == 1 and is_path(parts[0]):
        return open_path(lake.catalog.store, parts[0])
    table: Any = lake.table(parts)
    if not isinstance(table, IcebergTable):
        raise Unsupported(
            f"{table.identifier} is a {table.format} table, which Spark does not know yet",
            hint="read it by lake.table(...).scan(...).to_arrow(), without Spark",
        )
    return table


def _selected(lake: Lake, parts: Sequence[str]) -> TableHandle | None:
    try:
        table = _table(lake, parts[:-1])
    except (TableNotFound, InvalidName):
        return None
    found = _SELECTOR.fullmatch(parts[-1])
    if found is None:
        return _metadata_table(table, parts[-1].lower())
    kind, what = found[1].lower(), found[2]
    handle = current(table)
    if kind in ("branch", "tag"):
        return at_branch(handle, what) if kind == "branch" else at_tag(handle, what)
    if _INTEGER.fullmatch(what) is None:
        return None
    return at_version(handle, what) if kind == "snapshot_id" else at_millis(handle, int(what))


def _metadata_table(table: IcebergTable, name: str) -> TableHandle | None:
    from frazil.iceberg.metadata_tables import METADATA_TABLES, metadata_table_schema

    if name not in METADATA_TABLES:
        return None
    schema = metadata_table_schema(table.metadata, name)
    return TableHandle(table, table.current_snapshot, schema, "metadata", branch=None, metadata_name=name)


def current(table: IcebergTable) -> TableHandle:
    """The table as it is now."""
    return TableHandle(table, table.current_snapshot, table.schema)


def at_version(handle: TableHandle, version: str) -> TableHandle:
    """The table at a snapshot id, or else at a branch or tag of that name."""
    if _INTEGER.fullmatch(version) and handle.table.metadata.snapshot_or_none(int(version)) is not None:
        return _at(handle, version=int(version))
    if _INTEGER.fullmatch(version) and version not in handle.table.refs:
        return _at(handle, version=int(version))  # says that there is no such snapshot
    return replace(at_ref(handle, version), branch=None)


def at_millis(handle: TableHandle, millis: int) -> TableHandle:
    """The table as it was at a time."""
    return _at(handle, as_of=millis)


def at_ref(handle: TableHandle, name: str) -> TableHandle:
    """A branch or tag. Only branches can be written to."""
    found = _at(handle, ref=name)
    return replace(found, branch=name) if handle.table.metadata.ref(name).is_branch else found


def at_branch(handle: TableHandle, name: str) -> TableHandle:
    """A branch; a tag of that name is refused."""
    found = at_ref(handle, name)
    if found.branch is None:
        raise InvalidArgument(f"{name!r} is a tag of {handle.name}, not a branch", hint=f"ask for tag {name}")
    return found


def at_tag(handle: TableHandle, name: str) -> TableHandle:
    """A tag; a branch of that name is refused."""
    found = at_ref(handle, name)
    if found.branch is not None:
        raise InvalidArgument(f"{name!r} is a branch of {handle.name}, not a tag", hint=f"ask for branch {name}")
    return found


def _at(handle: TableHandle, **which: Any) -> TableHandle:
    snapshot, schema = choose_snapshot(handle.table.metadata, **which)
    if handle.metadata_name is not None:
        from frazil.iceberg.metadata_tables import TIME_TRAVEL_TABLES

        if handle.metadata_name not in TIME_TRAVEL_TABLES:
            raise InvalidArgument(
                f"{handle.metadata_name} is about all snapshots, not about one", hint="leave the version out"
            )
        schema = handle.schema
    return replace(handle, snapshot=snapshot, schema=schema, branch=None, pinned=True)


def with_read_options(handle: TableHandle, options: Mapping[str, str]) -> TableHandle:
    """The handle for a read with options, of which one may choose the snapshot."""
    chosen = chosen_by(options)
    if chosen is None or chosen[0] == TIMESTAMP_AS_OF:  # a time in words, which was looked up with the table
        return handle.with_options(options)
    # the columns are those Spark planned with; older files lack some of them, and give null
    return replace(at_option(handle, *chosen), schema=handle.schema).with_options(options)


def chosen_by(options: Mapping[str, str]) -> tuple[str, str] | None:
    """The option that chooses a snapshot and what it says, None if none does; several are refused."""
    given = folded(options)
    named = [option for option in CHOICES if option in given]
    if len(named) > 1:
        raise InvalidArgument(f"options {' and '.join(named)} choose a snapshot each", hint="give one of them")
    return (named[0], given[named[0]]) if named else None


def at_option(handle: TableHandle, option: str, text: str) -> TableHandle:
    """The table as an option says, with the columns of that snapshot. It must not contradict the table's name."""
    found = _READ_OPTIONS[option](handle, text)
    if handle.pinned and found.snapshot != handle.snapshot:
        raise InvalidArgument(
            f"option {option} is {text!r} for {handle.name} at another snapshot", hint="name the table alone"
        )
    return found


def _number(option: str, text: str, hint: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise InvalidArgument(f"option {option} is {text!r}", hint=hint)
    return int(text)


_READ_OPTIONS = {
    "snapshot-id": lambda handle, text: _at(handle, version=_number("snapshot-id", text, "give the id of a snapshot")),
    AS_OF_TIMESTAMP: lambda handle, text: at_millis(
        handle, _number(AS_OF_TIMESTAMP, text, "give milliseconds since 1970")
    ),
    "branch": at_branch,
    "tag": at_tag,
    "versionasof": at_version,
}
CHOICES = (*_READ_OPTIONS, TIMESTAMP_AS_OF)
"""The options that choose a snapshot: Iceberg's, and Spark's two."""
