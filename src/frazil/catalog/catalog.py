"""What a catalog is: names of namespaces and tables, and for each table the one pointer that a commit swaps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from frazil import ambient
from frazil.catalog.formats import ICEBERG, Placed
from frazil.catalog.names import Namespace, TableName, namespace_name, table_name
from frazil.catalog.next_metadata import read_state
from frazil.errors import (
    FrazilError,
    InvalidArgument,
    NamespaceAlreadyExists,
    NamespaceNotFound,
    TableAlreadyExists,
    TableNotFound,
)
from frazil.iceberg.committer import Committer, TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.io import location as locations
from frazil.io.store import Store

MIXED_STORE = "mixed-format.table-store"
"""The property of Iceberg tables that are one store of a mixed table: `base` or `change`."""
_CHANGE_IDENTIFIER = "mixed-format.change.identifier"
_CHANGE_STORE = "_change_"
Name = str | Sequence[str]
"""`"db.t"` or `("db", "t")`."""


class Catalog(ABC):
    """Namespaces and tables by name. Safe to share between threads.

    `store` holds the tables' files, `warehouse` is the folder under which new tables get theirs.
    """

    def __init__(self, store: Store, warehouse: str) -> None:
        self.store = store
        self.warehouse = locations.join(warehouse)

    def close(self) -> None:  # noqa: B027 - most catalogs hold nothing open
        """Let go of connections. The catalog can be used again after."""

    # Namespaces.

    @abstractmethod
    def create_namespace(self, name: Name, properties: Mapping[str, str] | None = None) -> None:
        """Make a namespace; NamespaceAlreadyExists."""

    @abstractmethod
    def drop_namespace(self, name: Name) -> None:
        """Remove an empty namespace; NamespaceNotEmpty, NamespaceNotFound."""

    @abstractmethod
    def list_namespaces(self, parent: Name | None = None) -> list[Namespace]:
        """The namespaces directly in `parent`, or the outermost ones, in order."""

    @abstractmethod
    def namespace_exists(self, name: Name) -> bool:
        """Whether there is such a namespace."""

    @abstractmethod
    def load_namespace_properties(self, name: Name) -> dict[str, str]:
        """The properties of a namespace."""

    @abstractmethod
    def _store_namespace_properties(self, name: Namespace, properties: Mapping[str, str]) -> None: ...

    def update_namespace_properties(
        self, name: Name, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Set and remove properties of a namespace. Removing one that is not there is no error."""
        new, gone = check_namespace_properties(updates), set(removals)
        both = sorted(gone.intersection(new))
        if both:
            raise InvalidArgument(f"properties {both} are to be both set and removed", hint="name each of them once")
        found = self.load_namespace_properties(name)
        kept = {key: text for key, text in found.items() if key not in gone}
        self._store_namespace_properties(namespace_name(name), {**kept, **new})

    def ensure_namespace(self, name: Namespace) -> None:
        """Make a namespace unless it is there."""
        if not self.namespace_exists(name):
            with suppress(NamespaceAlreadyExists):
                self.create_namespace(name)

    def _require_namespace(self, name: Namespace) -> None:
        if not self.namespace_exists(name):
            raise NamespaceNotFound(f"no namespace {'.'.join(name)}", hint="create it, or check its name")

    # Tables.

    @abstractmethod
    def load_table(self, name: Name) -> TableState:
        """The table's state now; TableNotFound."""

    @abstractmethod
    def create_table(self, name: Name, metadata: TableMetadata) -> TableState:
        """Make a table from its first metadata, which may have snapshots already; TableAlreadyExists.

        The namespace must exist.
        """

    @abstractmethod
    def list_tables(self, namespace: Name) -> list[TableName]:
        """The tables directly in a namespace, in order."""

    @abstractmethod
    def table_exists(self, name: Name) -> bool:
        """Whether there is such a table."""

    @abstractmethod
    def rename_table(self, name: Name, to: Name) -> None:
        """Give a table another name. Its files stay where they are."""

    @abstractmethod
    def drop_table(self, name: Name, *, purge: bool = False) -> None:
        """Forget a table; with `purge` delete its files too, as far as its metadata knows them."""

    def _visible(self, names: Iterable[TableName]) -> list[TableName]:
        """In order, without the change stores that Amoro keeps beside the tables that they belong to."""
        listed = sorted(names, key=str)
        known = {name.name for name in listed}
        return [name for name in listed if not (_base_of(name.name) in known and self._is_change_store(name))]

    def change_store_left(self, base: TableName) -> TableName | None:
        """The change store beside a table that is not there any more."""
        name = TableName(base.namespace, base.name + _CHANGE_STORE)
        return name if self._is_change_store(name) else None

    def _is_change_store(self, name: TableName) -> bool:
        with suppress(FrazilError):
            return self.load_table(name.parts).metadata.properties.get(MIXED_STORE, "").lower() == "change"
        return False

    # Tables of other formats: `list_tables`, `table_exists`, `rename_table` and `drop_table` know them too.

    @abstractmethod
    def placed(self, name: Name) -> Placed | None:
        """A table of another format than Iceberg's: which, and where; None if there is none of that name."""

    def check_placed(self, name: Name, placed: Placed) -> None:  # noqa: B027 - where folders are tables, they tell
        """CommitConflict if the name is not this table's any more: asked before each commit of a Lance table."""

    @abstractmethod
    def place(self, name: Name, placed: Placed) -> None:
        """Give a name to a table of another format that is there already; TableAlreadyExists."""

    # Conversion: one step, in which a name gets a table of another format that was made beside the one it had.

    def conversion_location(self, name: Name, format_name: str) -> str:
        """Where a table of that format is made; it is found under the name only after the step."""
        return conversion_folder(self.default_location(name), format_name)

    @abstractmethod
    def convert_to_placed(self, name: Name, base: TableState, placed: Placed) -> str:
        """Give the name of an Iceberg table, if it is at `base` still, to one of another format; CommitFailed if not.

        The Iceberg table's files stay, and its last metadata, whose location is returned.
        """

    @abstractmethod
    def convert_to_table(self, name: Name, placed: Placed, metadata: TableMetadata) -> TableState:
        """Give the name of a table of another format to an Iceberg table; CommitFailed if it is another's by now."""

    def register_table(self, name: Name, metadata_location: str) -> TableState:
        """Take in a table that exists elsewhere, by one of its metadata files."""
        wanted = table_name(name)
        if self.table_exists(wanted.parts):
            raise table_exists_already(wanted)
        return self._register(wanted, read_state(self.store, metadata_location))

    @abstractmethod
    def _register(self, name: TableName, state: TableState) -> TableState: ...

    @abstractmethod
    def committer(self, name: Name) -> Committer:
        """What loads and commits this table."""

    @abstractmethod
    def default_location(self, name: Name) -> str:
        """Where a new table of that name gets its files."""


def change_store_base(name: TableName) -> TableName | None:
    """The table that a change store of this name would belong to."""
    base = _base_of(name.name)
    return TableName(name.namespace, base) if base else None


def change_store_of(base: TableName, properties: Mapping[str, str]) -> TableName | None:
    """The change store beside a base store, which keeps its name with no more than the last namespace."""
    kept = properties.get(_CHANGE_IDENTIFIER)
    return None if kept is None else TableName(base.namespace, kept.rpartition(".")[2])


def conversion_folder(folder: str, format_name: str) -> str:
    """Where a table is made that takes the place of one in a folder: there, if it is Iceberg's, else in one of its own.

    Two who convert a table must not meet in one folder before the step that only one of them makes.
    """
    return folder if format_name == ICEBERG else locations.join(folder, f"{format_name}-{ambient.new_uuid().hex[:12]}")


def _base_of(name: str) -> str | None:
    return name.removesuffix(_CHANGE_STORE) if name.endswith(_CHANGE_STORE) else None


def check_namespace_properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    """A copy, or InvalidArgument for properties that are no texts."""
    given = dict(properties or {})
    for key, text in given.items():
        if not all(isinstance(one, str) for one in (key, text)) or not key:
            raise InvalidArgument(f"property {key!r} is {text!r}", hint="names and values of properties are texts")
    return given


def table_exists_already(name: TableName) -> TableAlreadyExists:
    """The error for a name that is taken."""
    return TableAlreadyExists(f"table {name} exists already", hint="open it, or choose another name")


def no_such_table(name: TableName) -> TableNotFound:
    """The error for a name that nothing has."""
    return TableNotFound(f"no table {name}", hint="check its name; Lake.tables() lists what is there")
