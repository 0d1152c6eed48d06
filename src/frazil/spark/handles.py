"""Tables as Spark holds them: a key that says which rows, and what is known about it on this side.

Two handles with one key have the same rows, so Spark's caches and its reuse of exchanges may go by the key. A
DataFrame can be older than anything kept here: a handle that was let go is made again from the metadata file it was
made from, so its rows stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from frazil import ambient
from frazil.errors import NotFound
from frazil.iceberg.refs import MAIN
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.model.schema import Schema
from frazil.recent import Recent

if TYPE_CHECKING:
    from frazil.lake import Lake
    from frazil.spark.scan.contents import OnlyFiles

_KEPT = 64
Kind = Literal["table", "metadata", "staged"]


@dataclass(frozen=True)
class TableHandle:
    """A table at a snapshot. `schema` is what Spark was told; `branch` is where rows are written, None if nowhere."""

    table: IcebergTable
    snapshot: Snapshot | None
    schema: Schema
    kind: Kind = "table"
    branch: str | None = MAIN
    metadata_name: str | None = None
    """Which metadata table, of a handle of that kind."""
    pinned: bool = False
    """Whether a snapshot was asked for, by whatever spelling: options must not choose another."""
    options: Mapping[str, str] = field(default_factory=dict)
    token: str = ""
    """Tells staged tables apart: they have no metadata file yet."""
    files: OnlyFiles | None = None
    """Which files of the snapshot, if not all of them."""

    @property
    def name(self) -> str:
        return self.table.identifier

    @property
    def parts(self) -> list[str]:
        """The name in the lake: the parts of a catalog's name, or a location."""
        return [self.name] if "/" in self.name else self.name.split(".")

    @property
    def rows(self) -> str:
        """What decides the rows: equal for tables that differ only in properties and the like."""
        return json.dumps(self._rows(), separators=(",", ":"))

    @property
    def key(self) -> str:
        """What decides the rows, and where to find them again."""
        return json.dumps({**self._rows(), "metadata": self.table.metadata_location}, separators=(",", ":"))

    def _rows(self) -> dict[str, Any]:
        metadata = self.table.metadata
        return {
            "name": self.table.identifier,
            "uuid": metadata.table_uuid or metadata.location,
            "snapshot": None if self.snapshot is None else self.snapshot.snapshot_id,
            "schema": self.schema.schema_id,
            "kind": self.kind,
            "branch": self.branch,
            "of": self.metadata_name,
            # a metadata table shows all of the metadata, not only a snapshot
            "at": self.table.metadata_location if self.kind == "metadata" else None,
            "pinned": self.pinned,
            "token": self.token,
        }

    def with_options(self, options: Mapping[str, str]) -> TableHandle:
        """The handle for one read or write."""
        return replace(self, options=dict(options))


class Held:
    """A table that somebody brings along, with every handle that was given out for it, by key."""

    def __init__(self, make: Callable[[], TableHandle]) -> None:
        self._make = make
        self.given: dict[str, TableHandle] = {}

    def now(self) -> TableHandle:
        """The table as it is now."""
        handle = self._make()
        self.given[handle.key] = handle
        return handle


class Tables:
    """The handles of one lake in one session, by key; safe to share between threads."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._recent: Recent[str, TableHandle] = Recent(_KEPT)
        self._staged: dict[str, TableHandle] = {}
        self._held: dict[str, Held] = {}

    @contextmanager
    def held(self, make: Callable[[], TableHandle]) -> Iterator[str]:
        """A name for a table that need not be in the lake, for as long as it is used; `make` gives it as it is now."""
        name = str(ambient.new_uuid())
        self._held[name] = Held(make)
        try:
            yield name
        finally:
            del self._held[name]

    def named(self, name: str) -> TableHandle | None:
        """The table that is held under a name, as it is now."""
        held = self._held.get(name)
        return None if held is None else held.now()

    def put(self, handle: TableHandle) -> str:
        """Keep a handle; its key."""
        key = handle.key
        if handle.kind == "staged":
            self._staged[key] = handle
        else:
            self._recent.put(key, handle)
        return key

    def get(self, key: str) -> TableHandle:
        """The handle of that key."""
        held = (held.given.get(key) for held in list(self._held.values()))
        found = self._staged.get(key) or next(filter(None, held), None) or self._recent.get(key)
        if found is None:
            found = self._again(key)
            self.put(found)
        return found

    def forget(self, key: str) -> TableHandle | None:
        """Let go of a staged table."""
        return self._staged.pop(key, None)

    def _again(self, key: str) -> TableHandle:
        from frazil.catalog.next_metadata import read_state
        from frazil.spark.paths import is_path, open_path

        parts: dict[str, Any] = json.loads(key)
        if parts["kind"] == "staged":
            raise NotFound(f"table {parts['name']} is staged no more", hint="run the statement again")
        catalog, name = self._lake.catalog, parts["name"]
        state = read_state(catalog.store, parts["metadata"])
        committer = open_path(catalog.store, name)._committer if is_path(name) else catalog.committer(name)
        table = IcebergTable(name, catalog.store, committer, state)
        snapshot = state.metadata.snapshot_or_none(parts["snapshot"])
        if parts["kind"] == "metadata":
            from frazil.iceberg.metadata_tables import metadata_table_schema

            schema = metadata_table_schema(state.metadata, parts["of"])
        else:
            schema = state.metadata.schema(parts["schema"])
        return TableHandle(table, snapshot, schema, parts["kind"], parts["branch"], parts["of"], parts["pinned"])
