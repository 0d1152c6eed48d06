"""Which snapshot is current: back to an earlier one, or to any. No snapshot is lost by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Self

from frazil.errors import InvalidArgument, SnapshotNotFound
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.refs import MAIN, SnapshotRef
from frazil.iceberg.requirements import AssertRefSnapshotId
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import SetSnapshotRef


class Rollback(Action):
    """Moves `main`. The target is looked up again after a conflict; a rollback then also undoes what came between."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._target: Callable[[TableMetadata], int] | None = None

    def to_snapshot(self, snapshot_id: int) -> Self:
        """Back to a snapshot that the current one comes from."""

        def target(metadata: TableMetadata) -> int:
            metadata.snapshot(snapshot_id)
            if not metadata.is_ancestor(snapshot_id, metadata.current_snapshot_id):
                raise InvalidArgument(
                    f"snapshot {snapshot_id} is not an ancestor of the current snapshot {metadata.current_snapshot_id}",
                    hint="a rollback goes back only; set_current moves to any snapshot",
                )
            return snapshot_id

        self._target = target
        return self

    def to_timestamp(self, timestamp_ms: int) -> Self:
        """Back to the newest snapshot that the current one comes from and that was made before a time."""

        def target(metadata: TableMetadata) -> int:
            earlier = [
                snapshot
                for snapshot in metadata.ancestors_of(metadata.current_snapshot_id)
                if snapshot.timestamp_ms < timestamp_ms
            ]
            if not earlier:
                raise SnapshotNotFound(
                    f"no snapshot before {timestamp_ms} ms to roll back to",
                    hint="the time is before the first snapshot, or those snapshots have expired",
                )
            # clocks differ between writers: of equal times the one nearest to now counts, and it comes first
            return max(earlier, key=lambda snapshot: snapshot.timestamp_ms).snapshot_id

        self._target = target
        return self

    def set_current(self, snapshot: int | str) -> Self:
        """To any snapshot: by its id, or by the name of a branch or tag."""

        def target(metadata: TableMetadata) -> int:
            snapshot_id = metadata.ref(snapshot).snapshot_id if isinstance(snapshot, str) else snapshot
            return metadata.snapshot(snapshot_id).snapshot_id

        self._target = target
        return self

    def stage(self, context: Context) -> Staged:
        if self._target is None:
            raise InvalidArgument("no target was given", hint="call to_snapshot, to_timestamp or set_current")
        metadata = context.metadata
        snapshot_id, main = self._target(metadata), metadata.refs.get(MAIN)
        if main is not None and main.snapshot_id == snapshot_id:
            return Staged(())
        moved = SnapshotRef(snapshot_id) if main is None else replace(main, snapshot_id=snapshot_id)
        return Staged(
            (SetSnapshotRef(MAIN, moved),), (AssertRefSnapshotId(MAIN, None if main is None else main.snapshot_id),)
        )
