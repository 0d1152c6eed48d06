"""A newer format version for a table. There is no way back."""

from __future__ import annotations

from typing import Self

from frazil.errors import InvalidArgument
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import UpgradeFormatVersion


class UpgradeFormat(Action):
    """Moves the table to a format version; a table that has it already stays as it is."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._version: int | None = None

    def to(self, version: int) -> Self:
        """The version to have."""
        if not isinstance(version, int):
            raise InvalidArgument(f"format version {version!r} is not an integer", hint="call to(3)")
        self._version = version
        return self

    def stage(self, context: Context) -> Staged:
        if self._version is None:
            raise InvalidArgument("no format version was given", hint="call to(3)")
        if self._version == context.metadata.format_version:
            return Staged(())
        return Staged((UpgradeFormatVersion(self._version),))
