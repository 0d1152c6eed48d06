"""Replace partitions: a dynamic overwrite. Every partition that new files belong to loses its old files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from frazil.errors import CommitConflict
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg import validation
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.isolated_changes import IsolatedChanges
from frazil.iceberg.actions.snapshot_action import Change
from frazil.iceberg.data_file import Content, DataFile, Status, partition_key
from frazil.iceberg.entries import Entries, Mask
from frazil.iceberg.manifest_list import DATA, DELETES, ManifestFile
from frazil.iceberg.snapshot import OVERWRITE, Snapshot
from frazil.iceberg.transaction import Transaction


class ReplacePartitions(IsolatedChanges):
    """Adds data files and removes all others of the same partitions; of the whole table if it is unpartitioned.

    It depends on the rows of those partitions.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._summary["replace-partitions"] = "true"

    @property
    def operation(self) -> str:
        return OVERWRITE

    def add_file(self, file: DataFile) -> Self:
        """Add a data file."""
        return self._add_data(file)

    def add_files(self, files: Iterable[DataFile]) -> Self:
        """Add data files."""
        for file in files:
            self._add_data(file)
        return self

    def _replaced(self, entries: Entries) -> Mask:
        """Entries of a partition that gets new files, under the same spec."""
        partitions: set[tuple[Any, ...]] = {
            partition_key(file.partition) for file in self._added_data if file.spec_id == entries.spec.spec_id
        }
        if not partitions or not len(entries):
            return np.zeros(len(entries), dtype=bool)
        keys = (partition_key(values) for values in entries.partition_tuples())
        return np.fromiter((key in partitions for key in keys), bool, len(entries))

    def change(self, context: Context, parent: Snapshot | None, manifests: Sequence[ManifestFile]) -> Change:
        specs = {file.spec_id for file in self._added_data}
        has_other_specs = len(context.metadata.partition_specs) > 1

        def deletes(_: ManifestFile, entries: Entries) -> Mask:
            found = self._replaced(entries)
            if entries.spec.is_unpartitioned and has_other_specs:
                # without a partition an equality delete is for the whole table, also for files that stay
                found &= entries.numpy(ids.CONTENT) != Content.EQUALITY_DELETES
            return found

        self._removal.matches = lambda _, entries: self._replaced(entries)
        self._delete_removal.matches = deletes
        self._removal.may_match = lambda manifest: manifest.partition_spec_id in specs
        self._delete_removal.may_match = self._removal.may_match
        return super().change(context, parent, manifests)

    def validate(self, context: Context, parent: Snapshot | None) -> None:
        checks = [*([DATA] if self._check_data else []), *([DELETES] if self._check_deletes else [])]
        if not checks:
            return
        since = self.since(context, parent)
        for content in checks:
            for entries in validation.changed_entries(context, since, content, (Status.ADDED,)):
                if self._replaced(entries).any():
                    raise CommitConflict(
                        "a concurrent commit changed a partition that is being replaced",
                        hint="read the table again and repeat the change",
                    )
