"""Actions that make a snapshot: manifests in, a manifest list and an `add-snapshot` update out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from frazil import ambient
from frazil.errors import InvalidArgument
from frazil.iceberg import properties as props
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.entries import Entries
from frazil.iceberg.manifest import UNASSIGNED
from frazil.iceberg.manifest_list import ManifestFile, assign_first_row_ids, serialize_manifest_list
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.refs import MAIN, SnapshotRef, checked_ref_name
from frazil.iceberg.requirements import AssertRefSnapshotId
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.summary import change_summary, with_totals
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import AddSnapshot, SetSnapshotRef, Update
from frazil.model.property_text import property_text


@dataclass(frozen=True)
class Change:
    """What an action makes of the manifests of the snapshot before it."""

    manifests: Sequence[ManifestFile]
    added: Sequence[Entries] = ()
    removed: Sequence[Entries] = ()
    summary: Mapping[str, str] = field(default_factory=dict)


class SnapshotAction(Action):
    """A change of the table's files, on main or on another branch."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._branch = MAIN
        self._staged_only = False
        self._summary: dict[str, str] = {}
        self._snapshot_id = ambient.new_snapshot_id()
        self._uuid = ambient.new_uuid()
        self._manifest_count = 0

    @property
    def snapshot_id(self) -> int:
        """The id of the snapshot this action makes."""
        return self._snapshot_id

    @property
    @abstractmethod
    def operation(self) -> str:
        """append, replace, overwrite or delete."""

    @abstractmethod
    def change(self, context: Context, parent: Snapshot | None, manifests: Sequence[ManifestFile]) -> Change | None:
        """The manifests of the new snapshot, from those of its parent; None if there is nothing to change."""

    def validate(self, context: Context, parent: Snapshot | None) -> None:
        """Raise CommitConflict if what happened since the action began contradicts it."""

    def to_branch(self, name: str) -> Self:
        """Commit to this branch; a branch that does not exist begins at the current snapshot."""
        self._branch = checked_ref_name(name)
        return self

    def stage_only(self) -> Self:
        """Add the snapshot to the table without making it current (write-audit-publish)."""
        self._staged_only = True
        return self

    def set(self, key: str, value: Any) -> Self:
        """Add a property to the snapshot's summary; numbers and booleans are written as Iceberg writes them."""
        self._summary[key] = property_text(key, value)
        return self

    def parent(self, metadata: TableMetadata) -> Snapshot | None:
        """The snapshot the change builds on."""
        ref = metadata.refs.get(self._branch)
        if ref is None:
            return metadata.current_snapshot
        if ref.is_tag:
            raise InvalidArgument(f"{self._branch!r} is a tag: it never moves", hint="write to a branch")
        return metadata.snapshot(ref.snapshot_id)

    def next_manifest_name(self) -> str:
        """A new name for a manifest of this commit."""
        self._manifest_count += 1
        return f"{self._uuid}-m{self._manifest_count - 1}.avro"

    def stage(self, context: Context) -> Staged:
        metadata = context.metadata
        parent = self.parent(metadata)
        self.validate(context, parent)
        change = self.change(context, parent, context.manifests(parent))
        if change is None:
            return Staged(())
        snapshot = self._write_snapshot(context, parent, change)
        updates: list[Update] = [AddSnapshot(snapshot)]
        requirements = []
        if not self._staged_only:
            current = metadata.refs.get(self._branch)
            ref = (
                SnapshotRef(snapshot.snapshot_id) if current is None else replace(current, snapshot_id=self.snapshot_id)
            )
            updates.append(SetSnapshotRef(self._branch, ref))
            requirements.append(AssertRefSnapshotId(self._branch, None if current is None else current.snapshot_id))
        return Staged(tuple(updates), tuple(requirements))

    def _write_snapshot(self, context: Context, parent: Snapshot | None, change: Change) -> Snapshot:
        metadata = context.metadata
        version = metadata.format_version
        sequence = metadata.last_sequence_number + 1 if version > 1 else 0
        manifests = [
            replace(
                manifest,
                sequence_number=sequence,
                min_sequence_number=sequence
                if manifest.min_sequence_number == UNASSIGNED
                else manifest.min_sequence_number,
            )
            if manifest.sequence_number == UNASSIGNED
            else manifest
            for manifest in change.manifests
        ]
        first_row_id = added_rows = None
        if version >= 3:
            first_row_id = metadata.next_row_id
            manifests, next_row_id = assign_first_row_ids(manifests, first_row_id)
            added_rows = next_row_id - first_row_id
        header = {
            "snapshot-id": self.snapshot_id,
            "parent-snapshot-id": None if parent is None else parent.snapshot_id,
            "sequence-number": sequence if version > 1 else None,
            "first-row-id": first_row_id,
        }
        data = serialize_manifest_list(manifests, header, version)
        location = context.write(f"snap-{self.snapshot_id}-{context.attempt}-{self._uuid}.avro", data)
        return Snapshot(
            self.snapshot_id,
            None if parent is None else parent.snapshot_id,
            sequence,
            metadata.next_timestamp_ms(),
            location,
            summary=self._full_summary(metadata, parent, change),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=added_rows,
        )

    def _full_summary(self, metadata: TableMetadata, parent: Snapshot | None, change: Change) -> dict[str, str]:
        limit = metadata.property_reader.get(props.WRITE_PARTITION_SUMMARY_LIMIT)
        counted = change_summary(change.added, change.removed, limit)
        totals = with_totals(counted, None if parent is None else parent.summary)
        return {"operation": self.operation, **totals, **change.summary, **self._summary}
