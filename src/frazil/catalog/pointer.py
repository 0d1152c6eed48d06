"""Catalogs that keep, for each table, the location of its newest metadata file and can swap it atomically.

A commit writes a new metadata file under a name of its own, then asks the catalog to swap the pointer from the file it
was based on to the new one. Names are never used twice, so a swap that was asked for may be asked for again: it can
take effect only once, and never after another's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress

from frazil import ambient
from frazil.catalog.catalog import Catalog, Name, no_such_table, table_exists_already
from frazil.catalog.formats import Placed, check_placed_purge, drop_placed
from frazil.catalog.names import TableName, table_name
from frazil.catalog.next_metadata import (
    delete_removed,
    read_state,
    settle,
    updated,
    was_lost,
    write_metadata_file,
)
from frazil.catalog.purge import check_purge, purge_files
from frazil.errors import CommitConflict, CommitFailed, CommitStateUnknown, FrazilError, Unsupported
from frazil.iceberg.committer import Committer, TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.requirements import Requirement
from frazil.iceberg.updates import Update, with_metadata_log
from frazil.io import location as locations


class PointerCatalog(Catalog):
    """The parts of a catalog that follow from a pointer per table."""

    @abstractmethod
    def _pointer(self, name: TableName) -> str | None:
        """The location of the table's metadata; None if there is no such table."""

    @abstractmethod
    def _swap(self, name: TableName, old: str | None, new: str) -> bool:
        """Point the table from `old` to `new`, and say whether that was done. None as `old`: no such table yet."""

    @abstractmethod
    def _remove(self, name: TableName) -> str | None:
        """Take the table out of the catalog and return where it pointed; None if there was no such table."""

    @abstractmethod
    def _displace(self, name: TableName) -> Placed | None:
        """Take a table of another format out of the catalog and return it; None if there was none of that name."""

    @abstractmethod
    def _exchange(self, name: TableName, old: str | Placed, new: str | Placed) -> bool:
        """Point a name from a table of one format to one of another, and say whether that was done."""

    @abstractmethod
    def _names_below(self, folder: str) -> list[str]:
        """The tables whose metadata is in this folder: one metadata file may be registered under two names."""

    def load_table(self, name: Name) -> TableState:
        wanted = table_name(name)
        location = self._pointer(wanted)
        if location is None:
            raise no_such_table(wanted)
        return read_state(self.store, location)

    def table_exists(self, name: Name) -> bool:
        return self._pointer(table_name(name)) is not None or self.placed(name) is not None

    def create_table(self, name: Name, metadata: TableMetadata) -> TableState:
        wanted = table_name(name)
        self._require_namespace(wanted.namespace)
        if self.table_exists(wanted.parts):
            raise table_exists_already(wanted)
        location = write_metadata_file(self.store, metadata, None)
        try:
            return self._point(wanted, None, TableState(metadata, location))
        except CommitFailed:
            raise table_exists_already(wanted) from None

    def _register(self, name: TableName, state: TableState) -> TableState:
        self._require_namespace(name.namespace)
        if not self._swap(name, None, state.metadata_location):
            raise table_exists_already(name)
        return state

    def commit(
        self, name: TableName, base: TableState, updates: Sequence[Update], requirements: Sequence[Requirement]
    ) -> TableState:
        """See `frazil.iceberg.committer.Committer.commit`."""
        metadata = updated(base, updates, requirements)
        if metadata is base.metadata:
            return base
        metadata = with_metadata_log(metadata, base.metadata_location, base.metadata.last_updated_ms)
        location = write_metadata_file(self.store, metadata, base.metadata_location)
        state = self._point(name, base, TableState(metadata, location))
        delete_removed(self.store, base.metadata, metadata)
        return state

    def _point(self, name: TableName, base: TableState | None, new: TableState) -> TableState:
        """Swap the pointer. The new metadata file is deleted only when it is certain that nothing points to it."""
        old = None if base is None else base.metadata_location
        try:
            try:
                if not self._swap(name, old, new.metadata_location):
                    raise _changed(name)
            except FrazilError as error:
                if not was_lost(error):
                    raise
                settle(new.metadata, new.metadata_location, error, lambda: self._asked_again(name, base, new))
        except FrazilError as error:
            if not was_lost(error) and not isinstance(error, CommitStateUnknown):
                with suppress(FrazilError):
                    self.store.delete(new.metadata_location)
            raise
        return new

    def _asked_again(self, name: TableName, base: TableState | None, new: TableState) -> TableState:
        if not self._swap(name, None if base is None else base.metadata_location, new.metadata_location):
            self._settled(name, base, new)
        return new

    def _settled(self, name: TableName, base: TableState | None, new: TableState) -> None:
        """The pointer was not at `base`: return if that is because our own swap was applied, unnoticed.

        Otherwise CommitFailed; or CommitStateUnknown if so much was committed since that the log no longer tells.
        """
        found = self._pointer(name)
        if found == new.metadata_location:
            return
        if found is not None:
            now = read_state(self.store, found).metadata
            log = {entry.metadata_file for entry in now.metadata_log}
            if new.metadata_location in log:
                return
            same_table = now.table_uuid is not None and now.table_uuid == new.metadata.table_uuid
            if base is None and same_table:
                return
            if base is not None and same_table and base.metadata_location not in log:
                raise CommitStateUnknown(
                    f"table {name} has changed so often that its log does not tell whether a commit was applied",
                    hint=f"nothing was deleted; look for what the commit added ({new.metadata_location})",
                    location=new.metadata_location,
                )
        raise _changed(name)

    def conversion_location(self, name: Name, format_name: str) -> str:
        return f"{self._plain_location(table_name(name))}-{ambient.new_uuid().hex[:12]}"

    def convert_to_placed(self, name: Name, base: TableState, placed: Placed) -> str:
        self._exchanged(table_name(name), base.metadata_location, placed, base)
        return base.metadata_location

    def convert_to_table(self, name: Name, placed: Placed, metadata: TableMetadata) -> TableState:
        state = TableState(metadata, write_metadata_file(self.store, metadata, None))
        try:
            self._exchanged(table_name(name), placed, state.metadata_location, state)
        except CommitFailed:
            with suppress(FrazilError):
                self.store.delete(state.metadata_location)
            raise
        return state

    def _exchanged(self, name: TableName, old: str | Placed, new: str | Placed, settings: TableState) -> None:
        """Exchange, or find out what became of it. The new location is nobody else's: it tells whether it was done."""

        def ask() -> TableState:
            if not self._exchange(name, old, new) and new not in (self._pointer(name), self.placed(name.parts)):
                raise _changed(name)
            return settings

        try:
            ask()
        except FrazilError as error:
            if not was_lost(error):
                raise
            settle(settings.metadata, settings.metadata_location, error, ask)

    def drop_table(self, name: Name, *, purge: bool = False) -> None:
        wanted = table_name(name)
        known = self.placed(wanted.parts) if purge else None
        if known is not None:
            check_placed_purge(self.store, known)
        placed = self._displace(wanted)
        if placed is not None:
            if purge:
                drop_placed(self.store, placed, purge=True)
            return
        state = None
        if purge:
            # before the name is gone: a table that cannot be purged stays
            state = self.load_table(wanted.parts)
            check_purge(state.metadata, str(wanted))
            self._check_not_shared(wanted, state)
        removed = self._remove(wanted)
        if removed is None:
            raise no_such_table(wanted)
        if state is not None:
            # another writer may have committed between the two
            last = state if removed == state.metadata_location else read_state(self.store, removed)
            purge_files(self.store, last)

    def check_placed(self, name: Name, placed: Placed) -> None:
        if self.placed(name) != placed:
            raise CommitConflict(
                f"table {table_name(name)} was dropped, renamed, converted or replaced",
                hint="open the table again by its name",
            )

    def _check_not_shared(self, name: TableName, state: TableState) -> None:
        others = [one for one in self._names_below(locations.parent(state.metadata_location)) if one != str(name)]
        if others:
            raise Unsupported(
                f"table {name} has its files in common with {others[0]}",
                hint="drop one of the two without purge: the other keeps the files",
            )

    def committer(self, name: Name) -> Committer:
        return PointerCommitter(self, table_name(name))

    def default_location(self, name: Name) -> str:
        plain = self._plain_location(table_name(name))
        # A renamed or dropped table's files stay in the folder of its old name. Two tables in one folder would take
        # each other's files for orphans.
        return plain if next(self.store.list(plain), None) is None else f"{plain}-{ambient.new_uuid().hex[:12]}"

    def _plain_location(self, wanted: TableName) -> str:
        base = self.warehouse
        below: tuple[str, ...] = wanted.parts
        if self.namespace_exists(wanted.namespace):
            own = self.load_namespace_properties(wanted.namespace).get("location")
            if own is not None:
                base, below = own, (wanted.name,)
        return locations.join(base, *below)


class PointerCommitter(Committer):
    """Loads and commits one table of a catalog."""

    def __init__(self, catalog: PointerCatalog, name: TableName) -> None:
        self._catalog = catalog
        self._name = name

    def load(self) -> TableState:
        return self._catalog.load_table(self._name.parts)

    def commit(self, base: TableState, updates: Sequence[Update], requirements: Sequence[Requirement]) -> TableState:
        return self._catalog.commit(self._name, base, updates, requirements)


def _changed(name: TableName) -> CommitFailed:
    return CommitFailed(f"table {name} was changed by another writer", hint="refresh the table and try again")
