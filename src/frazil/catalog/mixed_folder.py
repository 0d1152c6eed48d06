"""Mixed tables that are folders: made, and found, in any of their layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from frazil.catalog.definition import TableDefinition
from frazil.catalog.folder_table import FolderCommitter
from frazil.catalog.purge import check_purge
from frazil.errors import InvalidArgument, InvalidSchema, StoreMissing, TableAlreadyExists, TableNotFound
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.table import IcebergTable
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.mixed.layout import NESTED, Places, change_identifier, nested, new_places
from frazil.mixed.new_table import STORE_VERSION, new_stores
from frazil.mixed.properties import CREATE_TIMESTAMP, primary_key_of
from frazil.mixed.table import MixedTable
from frazil.model.partition import parse_partition_by


def create_mixed_table(
    store: Store,
    folder: str,
    definition: TableDefinition,
    *,
    primary_key: Sequence[str] = (),
    layout: str = NESTED,
    name: str | None = None,
) -> MixedTable:
    """Make a table in a folder; keyed if it has a primary key. `layout` is `nested`, or `sibling` for today's Amoro."""
    return NewStores.of(store, folder, definition, primary_key=primary_key, layout=layout, name=name).create()


@dataclass(frozen=True)
class NewStores:
    """The stores of a table that is to be made in a folder. Nothing is there yet."""

    store: Store
    folder: str
    definition: TableDefinition
    places: Places
    base: TableMetadata
    change: TableMetadata | None
    primary_key: tuple[str, ...]
    title: str

    @classmethod
    def of(
        cls,
        store: Store,
        folder: str,
        definition: TableDefinition,
        *,
        primary_key: Sequence[str] = (),
        layout: str = NESTED,
        name: str | None = None,
    ) -> NewStores:
        """What a definition makes."""
        if definition.sort_by:
            raise InvalidSchema("mixed tables have no sort order", hint="leave sort_by out")
        if definition.format_version not in (None, STORE_VERSION):
            raise InvalidArgument(
                "the stores of a mixed table are of format version 2", hint="leave format_version out"
            )
        if isinstance(primary_key, str):
            raise InvalidArgument(f"primary_key={primary_key!r} is no list of columns", hint="give a list of names")
        places = new_places(folder, layout)
        base, change = new_stores(
            definition.schema,
            parse_partition_by(definition.schema, definition.partition_by),
            primary_key=primary_key,
            places=places,
            change_identifier=change_identifier(folder, layout),
            properties=definition.properties,
        )
        return cls(store, folder, definition, places, base, change, tuple(primary_key), name or locations.name(folder))

    def create(self, base: TableMetadata | None = None) -> MixedTable:
        """Make the table; `base` is the base store's first metadata with a snapshot in it, if it has rows already."""
        store, places = self.store, self.places
        _refuse_neighbours(store, self.folder, places.base, places.change)
        # the base store makes the table: whoever creates it has it, and a change store without one is nobody's
        twin = None if self.change is None else _change_store(store, places.change, self.change)
        committer = FolderCommitter(store, places.base)
        made = committer.create(self.base if base is None else base)
        change = None if twin is None else IcebergTable(f"{self.title}.change", store, twin, twin.load())
        return MixedTable(self.title, IcebergTable(self.title, store, committer, made), change, self.primary_key)


def _refuse_neighbours(store: Store, folder: str, *own: str) -> None:
    """Refuse a folder that is another table's: in one layout the folder is a store, in another it holds two."""
    for place in (folder, *own):
        other = FolderCommitter(store, place)
        if place != own[-1] and other.exists():
            raise TableAlreadyExists(f"there is a table in {place}", hint="open it, or choose another name")
    if FolderCommitter(store, locations.join(folder, "base")).exists():
        raise TableAlreadyExists(f"there is a table in {folder}", hint="open it, or choose another name")


def _change_store(store: Store, place: str, wanted: TableMetadata) -> FolderCommitter:
    """Make the change store, or take one that somebody left who did not come to make the base store."""
    committer = FolderCommitter(store, place)
    try:
        committer.create(wanted)
    except TableAlreadyExists:
        found = committer.load().metadata
        if found.snapshots or _shape(found) != _shape(wanted):
            raise TableAlreadyExists(
                f"there is a change store without a base store in {place}", hint="remove it, or choose another name"
            ) from None
    return committer


def _shape(metadata: TableMetadata) -> TableMetadata:
    properties = {key: text for key, text in metadata.properties.items() if key != CREATE_TIMESTAMP}
    return replace(metadata, table_uuid=None, last_updated_ms=0, properties=properties)


def missing_twin(place: str, kind: str) -> StoreMissing:
    """The error for a store that stands alone."""
    return StoreMissing(
        f"there is no {kind} store in {place}, which a keyed table needs",
        hint="restore it: without it, rows would be missing or deleted ones come back",
    )


def is_nested(store: Store, folder: str) -> bool:
    """Whether a folder holds stores, and is none itself."""
    places = nested(folder)
    if FolderCommitter(store, folder).exists():
        return False
    return any(FolderCommitter(store, place).exists() for place in (places.base, places.change))


def check_stores_purge(store: Store, folder: str) -> None:
    """Unsupported if files of the stores in a folder may not be deleted."""
    places = nested(folder)
    for place in (places.base, places.change):
        state = FolderCommitter(store, place).load_or_none()
        if state is not None:
            check_purge(state.metadata, f"in {folder}")


def drop_stores(store: Store, folder: str, *, purge: bool) -> None:
    """Drop the stores in a folder, by commits as any other: who writes meanwhile fails, and brings nothing back.

    The base store goes first, and with it the table; who is interrupted then can drop the rest.
    """
    if purge:
        check_stores_purge(store, folder)
    places = nested(folder)
    for place in (places.base, places.change):
        with suppress(TableNotFound):
            FolderCommitter(store, place).drop(purge=purge)


def open_mixed_folder(
    store: Store,
    folder: str,
    name: str,
    *,
    primary_key: Sequence[str] | None = None,
    open_store: Callable[[str], IcebergTable] | None = None,
) -> MixedTable:
    """The table whose stores are in a folder. `open_store` gives the one in a place, if it is not simply there."""
    opened = open_store or (lambda place: _store_table(store, place))
    places = nested(folder)
    try:
        base = opened(places.base)
    except TableNotFound:
        raise missing_twin(places.base, "base") from None
    try:
        change = opened(places.change)
    except TableNotFound:
        if primary_key or primary_key_of(base.properties):
            raise missing_twin(places.change, "change") from None
        change = None
    return as_mixed(name, base, change, primary_key)


def _store_table(store: Store, place: str) -> IcebergTable:
    committer = FolderCommitter(store, place)
    return IcebergTable(locations.name(place), store, committer, committer.load())


def as_mixed(
    name: str, base: IcebergTable, change: IcebergTable | None, primary_key: Sequence[str] | None
) -> MixedTable:
    """Two stores as one table; the key is the one given where the metadata does not say it."""
    known = primary_key_of(base.properties)
    key = known or tuple(primary_key or ())
    if known and primary_key is not None and tuple(primary_key) != known:
        raise InvalidArgument(
            f"the primary key of {name} is {', '.join(known)}, not {', '.join(primary_key)}", hint="leave it out"
        )
    if change is not None and not key:
        raise InvalidArgument(
            f"{name} is keyed, and its metadata does not say by which columns",
            hint='open it with primary_key=["..."]; Amoro up to 0.6 kept the key elsewhere',
        )
    table = MixedTable(name, base, change, key)
    return table.refresh() if change is not None else table
