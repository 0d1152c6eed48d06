"""Tables by where they lie. Their name is the location: ``lake.`/data/events` `` is a table like any other.

A name of a catalog cannot contain a slash, and a location has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from frazil.catalog.definition import TableDefinition
from frazil.catalog.folder_table import FolderCommitter
from frazil.catalog.formats import open_placed, table_in
from frazil.catalog.names import TableName
from frazil.catalog.staged import StagedTable
from frazil.errors import InvalidArgument, TableAlreadyExists, TableNotFound, Unsupported
from frazil.iceberg.committer import TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.table import IcebergTable
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.locations import absolute_location
from frazil.opening import open_in, open_pair_in

if TYPE_CHECKING:
    from frazil.lance.table import LanceTable
    from frazil.mixed.table import MixedTable
    from frazil.spark.definition import Definition


def is_path(name: str) -> bool:
    """Whether a name is a location.

    >>> is_path("/data/t"), is_path("s3://bucket/t"), is_path("db.t")
    (True, True, False)
    """
    return "/" in name


def location_of(name: str) -> str:
    """The location that a name is."""
    local = name.removeprefix("file:")
    return locations.join(absolute_location("/" + local.lstrip("/") if local != name else name))


def open_path(store: Store, name: str) -> IcebergTable | LanceTable | MixedTable:
    """The table at a location, of any format: a folder, or exactly the one of a metadata file; TableNotFound."""
    place = location_of(name)
    placed = table_in(store, place)
    if placed is not None:
        return open_placed(store, placed, place)
    try:
        return open_iceberg(store, name)
    except (TableNotFound, Unsupported):
        pair = open_pair_in(store, place)
        if pair is None:
            raise
        return pair


def open_iceberg(store: Store, name: str) -> IcebergTable:
    """The Iceberg table at a location."""
    place = location_of(name)
    return open_in(store, place, name=place)


def refuse_taken(store: Store, place: str) -> None:
    """TableAlreadyExists if there is a table of any format at a location."""
    if FolderCommitter(store, place).exists() or table_in(store, place) is not None:
        raise TableAlreadyExists(f"there is a table in {place}", hint="append to it, or overwrite its rows")


def create_at(store: Store, name: str, new: Definition) -> IcebergTable:
    """Make a table at a location; TableAlreadyExists."""
    staged = stage_at(store, name, new)
    committer = FolderCommitter(store, staged.identifier)
    return IcebergTable(staged.identifier, store, committer, committer.create(staged.metadata))


def stage_at(store: Store, name: str, new: Definition) -> IcebergTable:
    """A table at a location that is not there before its first commit."""
    place = location_of(name)
    if new.how == "replace" or new.location not in (None, place):
        raise InvalidArgument(f"{place} is a location already", hint="create the table there, without LOCATION")
    refuse_taken(store, place)
    definition = TableDefinition(new.schema, new.partition_by, (), dict(new.properties), new.version_number)
    committer = StagedTable(
        _Folder(store), TableName((), place), definition, first=definition.first_metadata(place), replace=False
    )
    return IcebergTable(place, store, committer, committer.load())


class _Folder:
    """Tables whose only name is their folder."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def load_table(self, name: Sequence[str]) -> TableState:
        return self.committer(name).load()

    def create_table(self, name: Sequence[str], metadata: TableMetadata) -> TableState:
        return self.committer(name).create(metadata)

    def committer(self, name: Sequence[str]) -> FolderCommitter:
        [place] = name
        return FolderCommitter(self._store, place)
