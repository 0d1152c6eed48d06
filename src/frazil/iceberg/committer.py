"""The atomic step, given to the kernel by whoever holds the pointer to a table's metadata: a catalog, or a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.errors import Unsupported
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.requirements import Requirement
from frazil.iceberg.updates import Update


@dataclass(frozen=True)
class TableState:
    """A table's metadata, and the file it was read from."""

    metadata: TableMetadata
    metadata_location: str


class Committer(ABC):
    """Loads a table's state, and swaps it for the next one."""

    @abstractmethod
    def load(self) -> TableState:
        """The state now."""

    @abstractmethod
    def commit(self, base: TableState, updates: Sequence[Update], requirements: Sequence[Requirement]) -> TableState:
        """Apply updates to `base` and make the result current, if nobody else was first.

        CommitFailed: definitely not applied, another writer was first. CommitStateUnknown: it may have been applied.
        """


class ReadOnly(Committer):
    """A table opened from one metadata file: nobody holds a pointer that a commit could swap."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def load(self) -> TableState:
        return self._state

    def commit(self, base: TableState, updates: Sequence[Update], requirements: Sequence[Requirement]) -> TableState:
        raise Unsupported(
            f"{self._state.metadata_location} was opened on its own and cannot be changed",
            hint="open the table through its catalog or its folder to write to it",
        )
