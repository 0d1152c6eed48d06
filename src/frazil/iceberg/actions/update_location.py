"""Where a table's new files go. Files that are there stay where they are: metadata names each in full."""

from __future__ import annotations

from typing import Self

from frazil.errors import InvalidArgument
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import SetLocation
from frazil.io import location as locations


class UpdateLocation(Action):
    """A new location for the table."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._location: str | None = None

    def set_location(self, location: str) -> Self:
        """An absolute path or URI."""
        locations.parse(location)
        self._location = locations.join(location)
        return self

    def stage(self, context: Context) -> Staged:
        if self._location is None:
            raise InvalidArgument("no location was given", hint="call set_location first")
        return Staged(() if self._location == context.metadata.location else (SetLocation(self._location),))
