"""Tables in memory for the properties: a pointer that swaps like a REST catalog's, and loses an answer on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from frazil.errors import CommitStateUnknown
from frazil.iceberg.committer import Committer, TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.metadata_json import parse_metadata, serialize_metadata
from frazil.iceberg.new_table import new_table_metadata
from frazil.iceberg.requirements import Requirement, check_requirements
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.updates import Update, apply_updates
from frazil.io.memory_store import MemoryStore
from frazil.io.store import Store
from frazil.model.schema import Schema

_numbers = count()


class Pointer(Committer):
    """One table's pointer. Every state goes through its JSON form, so that what is not written cannot be relied on."""

    def __init__(self, metadata: TableMetadata, store: Store) -> None:
        self._lock = threading.Lock()
        self._store = store
        self.before_swap: Callable[[], Any] | None = None
        """Runs once, just before the next commit is checked: another writer who is first."""
        self.lose_answer = False
        """The next commit is applied, but its caller does not learn of it."""
        self.states: list[TableState] = []
        self._install(metadata)

    def _install(self, metadata: TableMetadata) -> TableState:
        location = f"{metadata.location}/metadata/{len(self.states):05d}.metadata.json"
        self._store.put_if_absent(location, serialize_metadata(metadata))
        self.states.append(TableState(parse_metadata(self._store.read(location)), location))
        return self.states[-1]

    def load(self) -> TableState:
        return self.states[-1]

    def commit(self, base: TableState, updates: Sequence[Update], requirements: Sequence[Requirement]) -> TableState:
        other, self.before_swap = self.before_swap, None
        if other is not None:
            other()
        with self._lock:
            current = self.load().metadata
            check_requirements(current, requirements)
            state = self._install(apply_updates(current, updates))
        if self.lose_answer:
            self.lose_answer = False
            raise CommitStateUnknown("the answer was lost", hint="look whether the change is there")
        return state


def new_table(schema: Schema, *arguments: Any, **options: Any) -> tuple[IcebergTable, Pointer]:
    """A table in a store of its own, and its pointer."""
    name = f"properties-{next(_numbers)}"
    store = MemoryStore(name)
    pointer = Pointer(new_table_metadata(schema, *arguments, location=f"memory://{name}/t", **options), store)
    return IcebergTable("t", store, pointer, pointer.load()), pointer


def another_handle(table: IcebergTable) -> IcebergTable:
    """The same table as another writer has it, at the state that `table` knows."""
    return IcebergTable(table.identifier, table.store, table._committer, table._state)


def forget(table: IcebergTable) -> None:
    """Free the memory of a table that is done with."""
    from frazil.iceberg.manifest_reader import SHARED_CACHE

    SHARED_CACHE.clear()
    MemoryStore.forget(table.location.removeprefix("memory://").partition("/")[0])
