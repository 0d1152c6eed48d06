"""Opening one table where it lies, without a catalog.

Newest metadata is found with or without a version hint, in Hadoop's naming (`v3.metadata.json`) or a catalog's
(`00003-<uuid>.metadata.json`), compressed or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.errors import FileMissing, InvalidArgument, TableNotFound, Unsupported
from frazil.io import location as locations
from frazil.io.store import FileInfo, ForwardingStore, RelocatingStore, Store, Stores
from frazil.locations import absolute_location

if TYPE_CHECKING:
    from frazil.iceberg.committer import Committer, TableState
    from frazil.iceberg.table import IcebergTable
    from frazil.lance.table import LanceTable
    from frazil.mixed.table import MixedTable


def open(  # noqa: A001 - frazil.open reads as what it does
    path: str | Path,
    *,
    relocate: bool | str = False,
    properties: Mapping[str, str] | None = None,
    change: str | Path | None = None,
    primary_key: Sequence[str] | None = None,
) -> IcebergTable | LanceTable | MixedTable:
    """Open the table in a folder, whatever its format, or exactly the one that a metadata file describes.

    A folder in Hadoop's naming can be written to; a catalog's table cannot, since its catalog would not know.

    A mixed table is found by its folder in any layout, or by the metadata files of its stores, that of the change store
    as `change`. `primary_key` is for those of old, whose metadata does not have it.

    `relocate=True` is for a table that was moved or copied: what its metadata says to be under its old location (and
    under its write paths beside that) is looked for here. `relocate="/old/folder"` maps that folder, which contained
    the table, to the one that contains it now.
    """
    store = Stores(properties)
    place = locations.join(absolute_location(path))
    if change is None and not _is_metadata_name(place):
        from frazil.catalog.formats import LANCE, MIXED, table_in

        placed = table_in(store, place)
        if placed is not None and placed.format == MIXED:
            return _open_nested(store, placed.location, relocate, primary_key)
        if placed is not None and placed.format == LANCE:
            return _lance_table(store, placed.location, relocate)
    table = open_in(store, path, relocate=relocate, alone=True)
    return _with_twin(store, table, place, relocate, change, primary_key)


def _lance_table(store: Store, folder: str, relocate: bool | str) -> LanceTable:
    from frazil.lance.table import LanceTable

    if relocate is not False:
        raise InvalidArgument(
            "a Lance table is not relocated", hint="its files lie beside its manifests wherever it is: leave it out"
        )
    return LanceTable.open(store, folder)


def _open_nested(store: Store, folder: str, relocate: bool | str, primary_key: Sequence[str] | None) -> MixedTable:
    from frazil.catalog.mixed_folder import open_mixed_folder

    return open_mixed_folder(
        store,
        folder,
        locations.name(folder),
        primary_key=primary_key,
        open_store=lambda place: open_in(store, place, relocate=relocate, alone=True),
    )


def _with_twin(
    store: Store,
    table: IcebergTable,
    place: str,
    relocate: bool | str,
    change: str | Path | None,
    primary_key: Sequence[str] | None,
) -> IcebergTable | MixedTable:
    """A table as it is, or with its change store if it is the base store of a mixed one."""
    from frazil.catalog.mixed_folder import as_mixed, missing_twin
    from frazil.mixed.layout import twin
    from frazil.mixed.properties import BASE, primary_key_of, refuse_part, store_kind

    kind = store_kind(table.properties)
    if change is None and kind != BASE and not primary_key:
        refuse_part(table.properties, table.location)
        return table
    if change is None and not (primary_key or primary_key_of(table.properties)):
        return as_mixed(table.identifier, table, None, None)
    twin_place = twin(_table_folder(place), table.properties) if change is None else change
    try:
        twin_table = open_in(store, twin_place, relocate=relocate, alone=True)
    except TableNotFound:
        raise missing_twin(str(twin_place), "change") from None
    return as_mixed(table.identifier, table, twin_table, primary_key)


def open_pair_in(store: Store, place: str) -> MixedTable | None:
    """The mixed table whose base store is a folder, and whose change store lies elsewhere; None if it is no such."""
    from frazil.mixed.properties import BASE, primary_key_of, store_kind
    from frazil.mixed.table import MixedTable

    try:
        base = open_in(store, place, name=place, alone=True)
    except (TableNotFound, Unsupported):
        return None
    if store_kind(base.properties) != BASE or not primary_key_of(base.properties):
        return None
    found = _with_twin(store, base, place, False, None, None)
    return found if isinstance(found, MixedTable) else None


def _table_folder(place: str) -> str:
    return _folder_of(place) if _is_metadata_name(place) else place


def open_in(
    store: Store, path: str | Path, *, name: str | None = None, relocate: bool | str = False, alone: bool = False
) -> IcebergTable:
    """As `open`, with a store that is there already; `name` is what the table is called then.

    A store of a keyed mixed table is opened only if it is wanted `alone`.
    """
    from frazil.catalog.next_metadata import read_state
    from frazil.iceberg.table import IcebergTable
    from frazil.mixed.properties import refuse_part

    if not isinstance(relocate, bool | str):
        raise InvalidArgument(f"relocate={relocate!r} names no folder", hint="use True, or the old folder as text")
    place = locations.join(absolute_location(path))
    store.exists(place)  # refuses what no store can hold
    chosen = place if _is_metadata_name(place) else _newest_metadata(store, place)
    try:
        state = read_state(store, chosen)
    except FileMissing as error:
        raise TableNotFound(
            f"no metadata file at {chosen}", hint="give the table's folder, or check the path"
        ) from error
    folder = _folder_of(chosen) if chosen == place else place
    if relocate is not False:
        store = RelocatingStore(store, _mapping(state, folder, relocate))
    committer = _committer(store, folder, state, exact=chosen == place)
    table = IcebergTable(name or locations.name(folder) or folder, store, committer, state)
    if not alone:
        refuse_part(table.properties, table.location)
    return table


def _is_metadata_name(place: str) -> bool:
    name = locations.name(place)
    return name.endswith((".metadata.json", ".metadata.json.gz"))


def _folder_of(metadata_file: str) -> str:
    folder = locations.parent(metadata_file)
    return locations.parent(folder) if locations.name(folder) == "metadata" else folder


def _newest_metadata(store: Store, folder: str) -> str:
    """The newest metadata file: by the version in its name, then by the time of its last change."""
    from frazil.catalog.folder_table import FolderCommitter

    hadoop = FolderCommitter(store, folder).load_or_none()
    numbered = _numbered(store, folder)
    if hadoop is not None and (not numbered or _version(hadoop.metadata_location) >= max(numbered)):
        return hadoop.metadata_location
    if numbered:
        return max(numbered[max(numbered)], key=lambda file: (file.modified_ms, file.location)).location
    raise _nothing(store, folder)


def _numbered(store: Store, folder: str) -> dict[int, list[FileInfo]]:
    """The metadata files in a catalog's naming, by version."""
    from frazil.iceberg.metadata_files import version_of

    found: dict[int, list[FileInfo]] = {}
    for file in store.list(locations.join(folder, "metadata")):
        version = version_of(file.location)
        if version is not None and not locations.name(file.location).startswith("v"):
            found.setdefault(version, []).append(file)
    return found


def _version(location: str) -> int:
    from frazil.iceberg.metadata_files import version_of

    number = version_of(location)
    return -1 if number is None else number


def _nothing(store: Store, folder: str) -> TableNotFound | Unsupported:
    from frazil.catalog.folders import child_folders

    first = next(store.list(folder), None)
    looked = f"looked for version-hint.text, v<N>.metadata.json and <N>-<uuid>.metadata.json in {folder}/metadata"
    if first is None:
        return TableNotFound(f"there is nothing at {folder}", hint=looked)
    below = child_folders(store, folder)
    for marker, kind in (("_delta_log", "a Delta"), (".hoodie", "a Hudi"), ("_versions", "a Lance")):
        if marker in below:
            return Unsupported(
                f"{folder} is {kind} table, which cannot be opened", hint="Iceberg tables can; convert the table first"
            )
    return TableNotFound(f"{folder} is not a table", hint=looked)


def _mapping(state: TableState, folder: str, relocate: bool | str) -> list[tuple[str, str]]:
    """Old folders and where they are now."""
    old = state.metadata.location
    if isinstance(relocate, str):
        rest = locations.relative_to(old, relocate)
        if rest is None:
            raise InvalidArgument(
                f"the table's old location {old} is not under {relocate}",
                hint="relocate= names a folder that contained the table; relocate=True takes the table's own",
            )
        return [(relocate, _ancestor(folder, rest, relocate))]
    return [(old, folder), *_beside(state, folder)]


def _ancestor(folder: str, rest: str, old: str) -> str:
    """The folder that lies above `folder` as `old` lay above the table."""
    here = folder
    for name in reversed([part for part in rest.split("/") if part]):
        if locations.name(here) != name:
            raise InvalidArgument(
                f"{folder} does not end in {rest}, as the table's location under {old} did",
                hint="relocate=True maps the table's own location, wherever it is now",
            )
        here = locations.parent(here)
    return here


def _beside(state: TableState, folder: str) -> list[tuple[str, str]]:
    """Write paths beside the old location were probably moved along with it: they are looked for beside the new one."""
    from frazil.iceberg import properties as props

    old = state.metadata.location
    settings = state.metadata.property_reader
    written = (
        props.WRITE_DATA_LOCATION,
        props.WRITE_METADATA_LOCATION,
        props.OBJECT_STORE_PATH,
        props.WRITE_FOLDER_STORAGE_LOCATION,
    )
    mapping = []
    for prop in written:
        path = settings.get(prop)
        if path is None or locations.relative_to(path, old) is not None:
            continue
        rest = locations.relative_to(path, locations.parent(old))
        if rest:
            mapping.append((path, locations.join(locations.parent(folder), rest)))
    return mapping


def _committer(store: Store, folder: str, state: TableState, *, exact: bool) -> Committer:
    from frazil.catalog.folder_table import FolderCommitter
    from frazil.iceberg.committer import ReadOnly

    name = locations.name(state.metadata_location)
    hadoop = name.startswith("v") and _version(name) >= 0 and locations.name(_parent(state)) == "metadata"
    if not hadoop or not _is_here(store, folder, state.metadata.location):
        # new files would go to where the table was, into a folder that may be another table's by now
        return ReadOnly(state)
    committer = FolderCommitter(store, folder)
    if exact:
        newest = committer.load_or_none()
        if newest is None or newest.metadata_location != state.metadata_location:
            return ReadOnly(state)
    return committer


def _parent(state: TableState) -> str:
    return locations.parent(state.metadata_location)


def _is_here(store: Store, folder: str, location: str) -> bool:
    """Whether the table's location, as its store finds it, is the folder it was opened from."""
    place = store.route(location)[1] if isinstance(store, ForwardingStore) else location
    here, there = locations.parse(folder), locations.parse(place)
    if here.scheme == there.scheme == "file":
        return Path(here.path).resolve() == Path(there.path).resolve()
    return here == there
