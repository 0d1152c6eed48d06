"""A catalog that lives as long as its process, for tests, trials and notebooks. Tables' files are in a store."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from frazil import ambient
from frazil.catalog.catalog import Name, check_namespace_properties, no_such_table, table_exists_already
from frazil.catalog.formats import Placed
from frazil.catalog.names import Namespace, TableName, namespace_name, table_name
from frazil.catalog.pointer import PointerCatalog
from frazil.errors import NamespaceAlreadyExists, NamespaceNotEmpty
from frazil.io import location as locations
from frazil.io.store import Store, Stores


class MemoryCatalog(PointerCatalog):
    """Names in a dictionary.

    >>> catalog = MemoryCatalog()
    >>> catalog.create_namespace("db", {"owner": "me"})
    >>> catalog.list_namespaces()
    [('db',)]
    """

    def __init__(self, store: Store | None = None, warehouse: str | None = None) -> None:
        place = f"memory://{ambient.new_uuid()}/warehouse" if warehouse is None else warehouse
        super().__init__(Stores() if store is None else store, place)
        self._lock = threading.Lock()
        self._namespaces: dict[Namespace, dict[str, str]] = {}
        self._pointers: dict[TableName, str] = {}
        self._placed: dict[TableName, Placed] = {}

    def __repr__(self) -> str:
        return f"MemoryCatalog({self.warehouse!r})"

    def create_namespace(self, name: Name, properties: Mapping[str, str] | None = None) -> None:
        namespace = namespace_name(name)
        given = check_namespace_properties(properties)
        with self._lock:
            if namespace in self._namespaces:
                raise NamespaceAlreadyExists(f"namespace {'.'.join(namespace)} exists already", hint="use it as it is")
            for depth in range(1, len(namespace)):
                self._namespaces.setdefault(namespace[:depth], {})
            self._namespaces[namespace] = given

    def drop_namespace(self, name: Name) -> None:
        namespace = namespace_name(name)
        self._require_namespace(namespace)
        with self._lock:
            inner = [".".join(one) for one in self._namespaces if one[:-1] == namespace]
            inner += [str(table) for table in self._all() if table.namespace == namespace]
            if inner:
                raise NamespaceNotEmpty(
                    f"namespace {'.'.join(namespace)} is not empty: it has {inner[0]}",
                    hint="drop its tables and namespaces first",
                )
            self._namespaces.pop(namespace, None)

    def list_namespaces(self, parent: Name | None = None) -> list[Namespace]:
        outer: Namespace = () if parent is None else namespace_name(parent)
        if outer:
            self._require_namespace(outer)
        with self._lock:
            return sorted(one for one in self._namespaces if one[:-1] == outer)

    def namespace_exists(self, name: Name) -> bool:
        namespace = namespace_name(name)
        with self._lock:
            return namespace in self._namespaces

    def load_namespace_properties(self, name: Name) -> dict[str, str]:
        namespace = namespace_name(name)
        self._require_namespace(namespace)
        with self._lock:
            return dict(self._namespaces.get(namespace, {}))

    def _store_namespace_properties(self, name: Namespace, properties: Mapping[str, str]) -> None:
        with self._lock:
            self._namespaces[name] = dict(properties)

    def list_tables(self, namespace: Name) -> list[TableName]:
        outer = namespace_name(namespace)
        self._require_namespace(outer)
        with self._lock:
            found = [table for table in self._all() if table.namespace == outer]
        return self._visible(found)

    def _all(self) -> list[TableName]:
        return [*self._pointers, *self._placed]

    def rename_table(self, name: Name, to: Name) -> None:
        old, new = table_name(name), table_name(to)
        self._require_namespace(new.namespace)
        with self._lock:
            if old not in self._all():
                raise no_such_table(old)
            if new in self._all():
                raise table_exists_already(new)
            if old in self._placed:
                self._placed[new] = self._placed.pop(old)
            else:
                self._pointers[new] = self._pointers.pop(old)

    def placed(self, name: Name) -> Placed | None:
        with self._lock:
            return self._placed.get(table_name(name))

    def place(self, name: Name, placed: Placed) -> None:
        wanted = table_name(name)
        self._require_namespace(wanted.namespace)
        with self._lock:
            if wanted in self._all():
                raise table_exists_already(wanted)
            self._placed[wanted] = placed

    def _displace(self, name: TableName) -> Placed | None:
        with self._lock:
            return self._placed.pop(name, None)

    def _pointer(self, name: TableName) -> str | None:
        with self._lock:
            return self._pointers.get(name)

    def _swap(self, name: TableName, old: str | None, new: str) -> bool:
        with self._lock:
            if self._pointers.get(name) != old or name in self._placed:
                return False
            self._pointers[name] = new
            return True

    def _remove(self, name: TableName) -> str | None:
        with self._lock:
            return self._pointers.pop(name, None)

    def _exchange(self, name: TableName, old: str | Placed, new: str | Placed) -> bool:
        with self._lock:
            if old not in (self._pointers.get(name), self._placed.get(name)):
                return False
            self._pointers.pop(name, None)
            self._placed.pop(name, None)
            if isinstance(new, Placed):
                self._placed[name] = new
            else:
                self._pointers[name] = new
            return True

    def _names_below(self, folder: str) -> list[str]:
        with self._lock:
            return [str(name) for name, place in self._pointers.items() if locations.parent(place) == folder]
