"""Tables of other formats than Iceberg, as catalogs hold them: a format and a folder, which commits for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from frazil.catalog.folders import child_files
from frazil.errors import InvalidArgument, Unsupported
from frazil.io import location as locations
from frazil.io.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.lance.table import LanceTable
    from frazil.mixed.table import MixedTable

ICEBERG, LANCE, MIXED = "iceberg", "lance", "mixed"
FORMATS = (ICEBERG, LANCE, MIXED)
STABLE_ROW_IDS = "enable_stable_row_ids"
"""The property by which rows of a new Lance table keep their ids, named as pylance's argument."""


class Placed(NamedTuple):
    """A table that is not Iceberg's: its format, and the folder that is the table."""

    format: str
    location: str


def recognise(store: Store, folder: str) -> Placed | None:
    """The table of another format in a folder, if there is one."""
    from frazil.catalog.mixed_folder import is_nested

    if any(name.endswith(".manifest") for name in child_files(store, locations.join(folder, "_versions"))):
        return Placed(LANCE, folder)
    return Placed(MIXED, folder) if is_nested(store, folder) else None


def table_in(store: Store, folder: str) -> Placed | None:
    """The table of another format that a folder is known for: in it, or where an Iceberg table's last version says.

    None if an Iceberg table is there.
    """
    from frazil.catalog.folder_table import FolderCommitter

    committer = FolderCommitter(store, folder)
    if (moved := committer.moved()) is not None:
        return Placed(moved.format, moved.location)
    found = recognise(store, folder)
    return None if found is None or committer.exists() else found


def open_placed(store: Store, placed: Placed, name: str) -> LanceTable | MixedTable:
    """The table as it is now."""
    if placed.format == LANCE:
        from frazil.lance.table import LanceTable

        return LanceTable.open(store, placed.location, name)
    from frazil.catalog.mixed_folder import open_mixed_folder

    return open_mixed_folder(store, placed.location, name)


def check_placed_purge(store: Store, placed: Placed) -> None:
    """Unsupported if the table's files may not be deleted."""
    if placed.format == MIXED:
        from frazil.catalog.mixed_folder import check_stores_purge

        check_stores_purge(store, placed.location)


def drop_placed(store: Store, placed: Placed, *, purge: bool) -> None:
    """Make a folder be no table any more; with `purge` delete all that is in it."""
    if placed.format == LANCE:
        # what makes it a table goes first: then nobody finds half of it
        store.delete_many([file.location for file in store.list(locations.join(placed.location, "_versions"))])
    else:
        from frazil.catalog.mixed_folder import drop_stores

        drop_stores(store, placed.location, purge=purge)
    if purge:
        store.delete_many([file.location for file in store.list(placed.location)])


def create_lance(
    store: Store, location: str, name: str, schema: Any, properties: Mapping[str, str], file_version: str | None
) -> LanceTable:
    """A new Lance table in a folder."""
    from frazil.lance.table import LanceTable
    from frazil.model.property_text import property_texts

    given = property_texts(properties)
    stable = given.pop(STABLE_ROW_IDS, "false").lower() == "true"
    version = {} if file_version is None else {"file_version": file_version}
    return LanceTable.create(
        store, location, _arrow_schema(schema), identifier=name, stable_row_ids=stable, properties=given, **version
    )


def _arrow_schema(schema: Any) -> pa.Schema:
    """What was given as pyarrow's stays as it is: Lance has all of Arrow's types."""
    import pyarrow as pa

    from frazil.lance.plain_schema import plain_schema
    from frazil.model.arrow import schema_from_anything

    return schema if isinstance(schema, pa.Schema) else plain_schema(schema_from_anything(schema))


def check_format(name: str) -> str:
    """The format's name as we have it."""
    if str(name).lower() not in FORMATS:
        raise InvalidArgument(f"unknown table format {name!r}", hint=f"use one of {', '.join(FORMATS)}")
    return name.lower()


def refuse(format_name: str, **given: Sequence[str] | object) -> None:
    """Refuse what a format has no place for."""
    for what, value in given.items():
        if value:
            raise Unsupported(f"{format_name} tables have no {what}", hint=f"leave {what} out")
