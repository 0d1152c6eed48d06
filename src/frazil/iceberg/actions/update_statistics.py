"""Statistics files: which Puffin file and which partition statistics belong to a snapshot."""

from __future__ import annotations

from typing import Self

from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.statistics import PartitionStatisticsFile, StatisticsFile
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import (
    RemovePartitionStatistics,
    RemoveStatistics,
    SetPartitionStatistics,
    SetStatistics,
    Update,
)


class UpdateStatistics(Action):
    """Sets and removes statistics; the last call for a snapshot counts. The files themselves are not touched."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._statistics: dict[int, StatisticsFile | None] = {}
        self._partition_statistics: dict[int, PartitionStatisticsFile | None] = {}

    def set_statistics(self, file: StatisticsFile) -> Self:
        """Make this the statistics file of its snapshot."""
        self._statistics[file.snapshot_id] = file
        return self

    def remove_statistics(self, snapshot_id: int) -> Self:
        """Forget the statistics file of a snapshot."""
        self._statistics[snapshot_id] = None
        return self

    def set_partition_statistics(self, file: PartitionStatisticsFile) -> Self:
        """Make this the partition statistics file of its snapshot."""
        self._partition_statistics[file.snapshot_id] = file
        return self

    def remove_partition_statistics(self, snapshot_id: int) -> Self:
        """Forget the partition statistics file of a snapshot."""
        self._partition_statistics[snapshot_id] = None
        return self

    def stage(self, context: Context) -> Staged:
        metadata = context.metadata
        updates: list[Update] = []
        known = {file.snapshot_id: file for file in metadata.statistics}
        for snapshot_id, file in self._statistics.items():
            if file is not None:
                # nobody would ever delete the file of a snapshot that is gone
                metadata.snapshot(snapshot_id)
                if known.get(snapshot_id) != file:
                    updates.append(SetStatistics(file))
            elif snapshot_id in known:
                updates.append(RemoveStatistics(snapshot_id))
        known_parts = {file.snapshot_id: file for file in metadata.partition_statistics}
        for snapshot_id, part in self._partition_statistics.items():
            if part is not None:
                metadata.snapshot(snapshot_id)
                if known_parts.get(snapshot_id) != part:
                    updates.append(SetPartitionStatistics(part))
            elif snapshot_id in known_parts:
                updates.append(RemovePartitionStatistics(snapshot_id))
        return Staged(tuple(updates))
