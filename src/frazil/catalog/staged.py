"""Tables that do not show before their first commit: for CREATE TABLE AS, REPLACE TABLE AS and the like.

Rows are written to a staged table as to any other; its first commit creates or replaces the table with them in one
step. A replacement that another writer came before is worked out again on what that writer left, so the history has
both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from frazil.catalog.definition import TableDefinition
from frazil.catalog.names import TableName
from frazil.errors import CommitConflict, CommitFailed, TableAlreadyExists, TableNotFound
from frazil.iceberg.committer import Committer, TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.requirements import Requirement, check_requirements
from frazil.iceberg.updates import Update, apply_updates


class Tables(Protocol):
    """What holds the table: a catalog, or a folder of its own."""

    def load_table(self, name: Sequence[str]) -> TableState: ...

    def create_table(self, name: Sequence[str], metadata: TableMetadata) -> TableState: ...

    def committer(self, name: Sequence[str]) -> Committer: ...


class StagedTable(Committer):
    """The committer of a staged table. After its first commit it is the table's own.

    `first` is the metadata to create the table with, None if it must exist; with `replace` an existing one is replaced.
    """

    def __init__(
        self,
        catalog: Tables,
        name: TableName,
        definition: TableDefinition,
        *,
        first: TableMetadata | None,
        replace: bool,
    ) -> None:
        self._catalog = catalog
        self._name = name
        self._definition = definition
        self._first = first
        self._replace = replace
        self._staged: TableState | None = None
        self._current: TableState | None = None
        self._visible = False

    def load(self) -> TableState:
        if self._visible:
            return self._catalog.load_table(self._name.parts)
        self._current = self._existing()
        if self._current is None:
            staged = TableState(self._new_table(), "")
        else:
            updates = self._definition.replacing(self._current.metadata)
            staged = TableState(apply_updates(self._current.metadata, updates), self._current.metadata_location)
        if self._staged is not None and _layout(staged.metadata) != _layout(self._staged.metadata):
            # files written for the first staging have its field ids and partitions
            raise CommitConflict(
                f"table {self._name} was changed while its replacement was written", hint="run the replacement again"
            )
        self._staged = staged
        return staged

    def _existing(self) -> TableState | None:
        if not self._replace:
            return None
        try:
            return self._catalog.load_table(self._name.parts)
        except TableNotFound:
            if self._first is None:
                raise
            return None

    def _new_table(self) -> TableMetadata:
        assert self._first is not None
        return self._first

    def commit(self, base: TableState, updates: Sequence[Update], requirements: Sequence[Requirement]) -> TableState:
        if self._visible:
            return self._catalog.committer(self._name.parts).commit(base, updates, requirements)
        check_requirements(base.metadata, requirements)
        if self._current is None:
            state = self._create(apply_updates(base.metadata, updates))
        else:
            replacing = self._definition.replacing(self._current.metadata)
            state = self._catalog.committer(self._name.parts).commit(self._current, [*replacing, *updates], [])
        self._visible = True
        return state

    def _create(self, metadata: TableMetadata) -> TableState:
        try:
            return self._catalog.create_table(self._name.parts, metadata)
        except TableAlreadyExists as error:
            if self._replace:
                raise CommitFailed(error.message, hint="replacing it now") from error
            raise


def _layout(metadata: TableMetadata) -> tuple[object, ...]:
    return metadata.current_schema.fields, metadata.default_spec, metadata.default_sort_order, metadata.format_version
