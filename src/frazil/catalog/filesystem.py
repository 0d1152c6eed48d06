"""A catalog that is a folder: namespaces are folders in it, and tables are folders with metadata, as in Hadoop's.

Nothing else is needed, and every engine that knows Hadoop tables sees the same ones. Renaming is not possible: a
table's name is its folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from frazil.catalog.catalog import Catalog, Name, check_namespace_properties, no_such_table, table_exists_already
from frazil.catalog.folder_table import FolderCommitter
from frazil.catalog.folders import child_files, child_folders, folder_exists, remove_empty_folder
from frazil.catalog.formats import Placed, drop_placed, recognise, table_in
from frazil.catalog.names import Namespace, TableName, namespace_name, table_name
from frazil.errors import (
    AlreadyExists,
    FileMissing,
    InvalidName,
    MalformedMetadata,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    TableAlreadyExists,
    TableNotFound,
    Unsupported,
)
from frazil.iceberg.committer import TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.io import location as locations

PROPERTIES_FILE = ".frazil-namespace.json"
"""In a namespace's folder: its properties. It keeps an empty namespace alive where folders cannot exist, and tells,
by holding null, that a namespace was dropped although files of dropped tables are left in its folder."""


class FilesystemCatalog(Catalog):
    """Tables in the folders of a warehouse, on a disk or in an object store."""

    def __repr__(self) -> str:
        return f"FilesystemCatalog({self.warehouse!r})"

    # Namespaces.

    def create_namespace(self, name: Name, properties: Mapping[str, str] | None = None) -> None:
        namespace = namespace_name(name)
        given = check_namespace_properties(properties)
        for depth in range(1, len(namespace) + 1):
            if self._is_table(namespace[:depth]):
                raise AlreadyExists(f"{'.'.join(namespace[:depth])} is a table", hint="choose another name")
        taken = NamespaceAlreadyExists(f"namespace {'.'.join(namespace)} exists already", hint="use it as it is")
        if self.namespace_exists(namespace):
            raise taken
        if len(namespace) > 1:
            self.ensure_namespace(namespace[:-1])
        place = self._properties_file(namespace)
        if self.store.exists(place):
            self.store.delete(place)  # of a namespace that was dropped
        try:
            self.store.put_if_absent(place, json.dumps(given).encode())
        except AlreadyExists:
            raise taken from None

    def drop_namespace(self, name: Name) -> None:
        namespace = namespace_name(name)
        self._require_namespace(namespace)
        inner = [str(table) for table in self.list_tables(namespace)]
        inner += [".".join(one) for one in self.list_namespaces(namespace)]
        if inner:
            raise NamespaceNotEmpty(
                f"namespace {'.'.join(namespace)} is not empty: it has {inner[0]}",
                hint="drop its tables and namespaces first",
            )
        place = self._properties_file(namespace)
        self.store.delete(place)
        if next(self.store.list(self._folder(namespace)), None) is not None:
            self.store.replace(place, b"null")
        remove_empty_folder(self.store, self._folder(namespace))

    def list_namespaces(self, parent: Name | None = None) -> list[Namespace]:
        outer: Namespace = () if parent is None else namespace_name(parent)
        if outer:
            self._require_namespace(outer)
        inner = ((*outer, child) for child in self._children(outer))
        return [namespace for namespace in inner if self.namespace_exists(namespace)]

    def namespace_exists(self, name: Name) -> bool:
        namespace = namespace_name(name)
        try:
            dropped = self.store.read(self._properties_file(namespace)).strip() == b"null"
        except FileMissing:
            return folder_exists(self.store, self._folder(namespace)) and not self._is_table(namespace)
        return not dropped or any(self._tables(namespace))

    def load_namespace_properties(self, name: Name) -> dict[str, str]:
        namespace = namespace_name(name)
        self._require_namespace(namespace)
        place = self._properties_file(namespace)
        try:
            found = json.loads(self.store.read(place))
        except FileMissing:
            return {}
        except ValueError as error:
            raise MalformedMetadata(f"{place} is no JSON: {error}", hint="repair the file, or delete it") from error
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise MalformedMetadata(f"{place} is no JSON object", hint="repair the file, or delete it")
        return {str(key): str(text) for key, text in found.items()}

    def _store_namespace_properties(self, name: Namespace, properties: Mapping[str, str]) -> None:
        self.store.replace(self._properties_file(name), json.dumps(dict(properties)).encode())

    # Tables.

    def load_table(self, name: Name) -> TableState:
        wanted = table_name(name)
        state = self.committer(wanted.parts).load_or_none()
        if state is None:
            raise no_such_table(wanted)
        return state

    def table_exists(self, name: Name) -> bool:
        return self.committer(name).exists() or self.placed(name) is not None

    def placed(self, name: Name) -> Placed | None:
        return table_in(self.store, self.default_location(name))

    def place(self, name: Name, placed: Placed) -> None:
        wanted = table_name(name)
        self._require_free(wanted)
        if locations.join(placed.location) != self.default_location(name):
            raise Unsupported(
                f"{wanted} cannot be at {placed.location}: in a filesystem catalog a table's name is its folder",
                hint="leave the location out, or use a SQL catalog",
            )

    def convert_to_placed(self, name: Name, base: TableState, placed: Placed) -> str:
        return self.committer(name).move(base, placed.format, placed.location)

    def convert_to_table(self, name: Name, placed: Placed, metadata: TableMetadata) -> TableState:
        return self.committer(name).create_after(placed.location, metadata)

    def _require_free(self, name: TableName) -> None:
        self._require_namespace(name.namespace)
        if self.committer(name.parts).exists():
            raise table_exists_already(name)
        if self.namespace_exists(name.parts):
            raise TableAlreadyExists(f"{name} is a namespace", hint="choose another name")

    def create_table(self, name: Name, metadata: TableMetadata) -> TableState:
        return self._create(table_name(name), metadata, registered=False)

    def _register(self, name: TableName, state: TableState) -> TableState:
        return self._create(name, state.metadata, registered=True)

    def _create(self, name: TableName, metadata: TableMetadata, *, registered: bool) -> TableState:
        self._require_free(name)
        if self.placed(name.parts) is not None:
            raise table_exists_already(name)
        try:
            return self.committer(name.parts).create(metadata, registered=registered)
        except TableAlreadyExists:
            raise table_exists_already(name) from None

    def list_tables(self, namespace: Name) -> list[TableName]:
        outer = namespace_name(namespace)
        self._require_namespace(outer)
        return self._visible(self._tables(outer))

    def _tables(self, namespace: Namespace) -> Iterator[TableName]:
        names = (TableName(namespace, child) for child in self._children(namespace))
        return (name for name in names if self.table_exists(name.parts))

    def rename_table(self, name: Name, to: Name) -> None:
        raise Unsupported(
            f"{table_name(name)} cannot be renamed: in a filesystem catalog a table's name is its folder",
            hint='use a SQL catalog, frazil.connect("sqlite:///lake.db", warehouse=...), where names are free',
        )

    def drop_table(self, name: Name, *, purge: bool = False) -> None:
        """See `frazil.catalog.folder_table` for what stays."""
        wanted = table_name(name)
        committer = self.committer(wanted.parts)
        beside = recognise(self.store, committer.folder)
        try:
            committer.check_drop(purge=purge)
            if beside is not None:  # what the table was before it was converted: it must not come back
                drop_placed(self.store, beside, purge=False)
            committer.drop(purge=purge)
        except TableNotFound:
            placed = self.placed(wanted.parts)
            if placed is None:
                raise no_such_table(wanted) from None
            if (moved := committer.moved()) is not None:
                if beside is not None:
                    drop_placed(self.store, beside, purge=False)
                committer.forget_moved(moved)
            drop_placed(self.store, placed, purge=purge)
        if purge:
            remove_empty_folder(self.store, committer.folder)

    def committer(self, name: Name) -> FolderCommitter:
        return FolderCommitter(self.store, self.default_location(name))

    def default_location(self, name: Name) -> str:
        return self._folder(table_name(name).parts)

    # Folders.

    def _folder(self, parts: tuple[str, ...]) -> str:
        return locations.join(self.warehouse, *parts)

    def _properties_file(self, namespace: Namespace) -> str:
        return locations.join(self._folder(namespace), PROPERTIES_FILE)

    def _children(self, namespace: Namespace) -> list[str]:
        """The names of the folders in a namespace's folder, except those that cannot be names."""
        names = []
        for name in child_folders(self.store, self._folder(namespace)):
            try:
                namespace_name((name,))
            except InvalidName:
                continue  # not made by a catalog: hidden folders and the like
            names.append(name)
        return names

    def _is_table(self, parts: tuple[str, ...]) -> bool:
        return self._has_metadata(parts) or recognise(self.store, self._folder(parts)) is not None

    def _has_metadata(self, parts: tuple[str, ...]) -> bool:
        """Whether a folder is a table's, or that of a table that was dropped and left its files."""
        folder = locations.join(self._folder(parts), "metadata")
        return any(name.endswith((".avro", ".json", ".gz", ".text")) for name in child_files(self.store, folder))
