"""A table whose next commit sets properties: rows that replace others are written under them, and come with them.

The base store has both in one commit, so nobody sees new rows under old properties or the other way round. The change
store follows by `update_properties`; until it has them, its next changes are written as before, and read as ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.errors import CommitFailed
from frazil.iceberg.committer import Committer, TableState
from frazil.iceberg.requirements import Requirement
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.updates import SetProperties, Update, apply_updates
from frazil.mixed.table import MixedTable


def with_properties(table: MixedTable, properties: Mapping[str, str]) -> MixedTable:
    """The table as it is now, to be written to once: what is committed to its base store sets properties as well."""
    if not properties:
        return table
    base = table.base_store
    committer = _WithProperties(base._committer, properties)
    staged = IcebergTable(base.identifier, base.store, committer, committer.load())
    return MixedTable(table.identifier, staged, table.change_store, table.primary_key)


class _WithProperties(Committer):
    """Shows the properties before they are set, and sets them by whatever is committed first."""

    def __init__(self, committer: Committer, properties: Mapping[str, str]) -> None:
        self._committer = committer
        self._setting = SetProperties(dict(properties))
        self._stored = committer.load()

    def load(self) -> TableState:
        self._stored = self._committer.load()
        return TableState(apply_updates(self._stored.metadata, [self._setting]), self._stored.metadata_location)

    def commit(self, base: TableState, updates: Sequence[Update], requirements: Sequence[Requirement]) -> TableState:
        # the state as it is stored goes on, not the one that was shown: some properties say how metadata is written
        if base.metadata_location != self._stored.metadata_location:
            raise CommitFailed("another commit was first", hint="try again")
        self._stored = self._committer.commit(self._stored, [self._setting, *updates], requirements)
        return self._stored
