"""Where a table is known, and the one step that makes a table of another format be found there instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from frazil.catalog.catalog import Catalog, conversion_folder
from frazil.catalog.folder_table import FolderCommitter
from frazil.catalog.formats import LANCE, Placed
from frazil.catalog.names import TableName
from frazil.errors import Unsupported
from frazil.iceberg.committer import TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.io.store import Store


@dataclass(frozen=True)
class Place:
    """A name in a catalog, or a folder. The steps are CommitFailed if another came first."""

    name: str
    store: Store
    opened: Callable[[], Any]
    """The table as it is now."""
    location: Callable[[str], str]
    """Where a table of a format is made."""
    to_lance: Callable[[TableState, str], str]
    """An Iceberg table's name to a Lance table at a location; where the old one's last metadata is."""
    to_iceberg: Callable[[str, TableMetadata], TableState]
    """The name of a Lance table at a location to an Iceberg table."""


def in_catalog(catalog: Catalog, name: TableName, opened: Callable[[], Any]) -> Place:
    """A table by its name."""
    return Place(
        str(name),
        catalog.store,
        opened,
        lambda wanted: catalog.conversion_location(name.parts, wanted),
        lambda base, root: catalog.convert_to_placed(name.parts, base, Placed(LANCE, root)),
        lambda root, metadata: catalog.convert_to_table(name.parts, Placed(LANCE, root), metadata),
    )


def in_folder(store: Store, folder: str, opened: Callable[[], Any]) -> Place:
    """A table by its folder."""
    committer = FolderCommitter(store, folder)

    def to_lance(base: TableState, root: str) -> str:
        if not committer.exists():
            raise Unsupported(
                f"{base.metadata_location} belongs to a catalog, and is read here",
                hint="convert the table by its name in the catalog",
            )
        return committer.move(base, LANCE, root)

    return Place(
        folder, store, opened, lambda wanted: conversion_folder(folder, wanted), to_lance, committer.create_after
    )
