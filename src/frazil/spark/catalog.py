"""Tables by name, as Spark asks for them: loading with time travel, creating, dropping, renaming, listing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument, InvalidName, NamespaceNotFound, TableNotFound, Unsupported
from frazil.spark.definition import parse_definition
from frazil.spark.describe import describe
from frazil.spark.exceptions import table_errors
from frazil.spark.formats import format_named, handle_of
from frazil.spark.handles import MAIN, TableHandle, number_of
from frazil.spark.options import folded
from frazil.spark.paths import is_path, open_path

if TYPE_CHECKING:
    from frazil.lake import Lake
    from frazil.spark.bridge import Bridge

_SELECTOR = re.compile(r"(branch|tag|snapshot_id|at_timestamp)_(.+)", re.IGNORECASE | re.DOTALL)
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
        bridge.on("tableExists", self.exists)
        bridge.on("evolveTable", self.evolve)
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
            handle = handle.at_version(version)
        elif micros is not None:
            handle = handle.at_millis(int(micros) // 1000)
        else:
            handle = self._audited(handle)
        if version is None and micros is None:
            self._refresh_cached(handle)
        return describe(self._bridge, handle)

    def exists(self, name: str, _b: None, _c: None) -> bool:
        """Whether the name is one of a table, of a branch or metadata table of one too. It need not be readable."""
        parts = json.loads(name)
        if held_table(self._bridge, parts) is not None:
            return True
        with suppress(InvalidName):  # a path, or a part of a table
            if self._lake.table_exists(parts):
                return True
        try:
            resolve(self._lake, parts)
        except (TableNotFound, NamespaceNotFound):
            return False
        return True

    def evolve(self, name: str, changes: str, _c: None) -> str:
        """A table with the columns that it will have when a command WITH SCHEMA EVOLUTION has written its rows."""
        parts = json.loads(name)
        handle = held_table(self._bridge, parts)
        with table_errors(self._bridge, parts):
            found = self._audited(resolve(self._lake, parts)) if handle is None else handle
            evolved = found.evolved(self._bridge, json.loads(changes))
        if handle is not None:
            self._bridge.tables.keep(parts[-1], evolved)
        return describe(self._bridge, evolved)

    def _audited(self, handle: TableHandle) -> TableHandle:
        return handle.audited(self._conf) if handle.branch == MAIN else handle

    def _conf(self, key: str) -> str | None:
        active = self._bridge.jvm.org.apache.spark.sql.classic.SparkSession.active()
        return self._bridge.session(active).conf.get(key, None)

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
            if not is_path(parts[0]):
                self._lake.catalog._require_namespace(tuple(parts[:-1]))
            made = format_named(new.format).create(self._lake, parts, new)
        return describe(self._bridge, made)

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
        return handle_of(_table(lake, parts))
    except (TableNotFound, InvalidName, Unsupported) as error:  # stores of mixed tables may lie where tables do
        found = _selected(lake, parts) if len(parts) > (1 if is_path(parts[0]) else 2) else None
        if found is not None:
            return found
        if isinstance(error, InvalidName):  # no table can have that name, so none has
            raise TableNotFound(error.message, hint=error.hint) from error
        raise


def _table(lake: Lake, parts: Sequence[str]) -> Any:
    return open_path(lake.catalog.store, parts[0]) if len(parts) == 1 and is_path(parts[0]) else lake.table(parts)


def _selected(lake: Lake, parts: Sequence[str]) -> TableHandle | None:
    try:
        table = _table(lake, parts[:-1])
    except (TableNotFound, InvalidName, Unsupported):
        return _inside_store(lake, parts)
    found = _SELECTOR.fullmatch(parts[-1])
    handle = handle_of(table)
    if found is None:
        return handle.metadata_table(parts[-1].lower())
    kind, what = found[1].lower(), found[2]
    if kind in ("branch", "tag"):
        return handle.at_branch(what) if kind == "branch" else handle.at_tag(what)
    number = number_of(what)
    if number is None:
        return None
    return handle.at_version(what) if kind == "snapshot_id" else handle.at_millis(number)


def _inside_store(lake: Lake, parts: Sequence[str]) -> TableHandle | None:
    """A metadata table of one of a table's stores: `db.t.change.snapshots`."""
    if len(parts) < (3 if is_path(parts[0]) else 4):
        return None
    try:
        table = _table(lake, parts[:-2])
    except (TableNotFound, InvalidName):
        return None
    return handle_of(table).metadata_table(".".join(parts[-2:]).lower())


def with_read_options(handle: TableHandle, options: Mapping[str, str]) -> TableHandle:
    """The handle for a read with options, of which one may choose the snapshot."""
    chosen = chosen_by(options)
    if chosen is None or chosen[0] == TIMESTAMP_AS_OF:  # a time in words, which was looked up with the table
        return handle.with_options(options)
    # the columns are those Spark planned with; older files lack some of them, and give null
    return at_option(handle, *chosen).with_columns_of(handle).with_options(options)


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
    if handle.pinned and found.version != handle.version:
        raise InvalidArgument(
            f"option {option} is {text!r} for {handle.name} at another snapshot", hint="name the table alone"
        )
    return found


def _number(option: str, text: str, hint: str) -> int:
    number = number_of(text)
    if number is None:
        raise InvalidArgument(f"option {option} is {text!r}", hint=hint)
    return number


_READ_OPTIONS: dict[str, Callable[[TableHandle, str], TableHandle]] = {
    "snapshot-id": lambda handle, text: handle.at_number(_number("snapshot-id", text, "give the id of a snapshot")),
    AS_OF_TIMESTAMP: lambda handle, text: handle.at_millis(
        _number(AS_OF_TIMESTAMP, text, "give milliseconds since 1970")
    ),
    "branch": lambda handle, text: handle.at_branch(text),
    "tag": lambda handle, text: handle.at_tag(text),
    "versionasof": lambda handle, text: handle.at_version(text),
}
CHOICES = (*_READ_OPTIONS, TIMESTAMP_AS_OF)
"""The options that choose a snapshot: Iceberg's, and Spark's two."""
