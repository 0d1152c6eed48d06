"""Looking into the folders of a store, one level at a time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from frazil.errors import StoreError
from frazil.io import location as locations
from frazil.io.store import Store


def child_folders(store: Store, folder: str) -> list[str]:
    """The names of the folders directly in a folder, in order."""
    return sorted(name for name, is_folder in _children(store, folder) if is_folder)


def child_files(store: Store, folder: str) -> list[str]:
    """The names of the files directly in a folder, in order."""
    return sorted(name for name, is_folder in _children(store, folder) if not is_folder)


def folder_exists(store: Store, folder: str) -> bool:
    """Whether there is a folder: on a disk also an empty one, in an object store only what has files."""
    from pyarrow.fs import FileType

    filesystem, path = store.filesystem(folder)
    return bool(filesystem.get_file_info(path).type == FileType.Directory)


def _children(store: Store, folder: str) -> set[tuple[str, bool]]:
    from pyarrow.fs import FileSelector, FileType

    filesystem, path = store.filesystem(folder)
    start = path.rstrip("/") + "/"
    found: set[tuple[str, bool]] = set()
    try:
        infos = filesystem.get_file_info(FileSelector(path, allow_not_found=True))
    except OSError as error:
        if filesystem.get_file_info(path).type == FileType.File:  # a file of that name: there is no such folder
            return found
        raise StoreError(
            f"{folder} cannot be listed: {error}", hint="check that it is a folder one may read"
        ) from error
    for info in infos:
        # the memory store lists all that is below, however deep
        name, slash, _ = info.path.removeprefix(start).partition("/")
        found.add((name, bool(slash) or info.type == FileType.Directory))
    return found


def remove_empty_folder(store: Store, folder: str) -> None:
    """On a disk, remove a folder and the folders in it if there is no file in any; elsewhere there is nothing to do."""
    place = locations.parse(folder)
    if place.scheme != "file" or next(store.list(folder), None) is not None:
        return
    for inner, _, _ in os.walk(place.path, topdown=False):
        with suppress(OSError):  # not empty after all, or gone
            Path(inner).rmdir()
