"""Cherry-picking: the change that one snapshot made, made again on top of a branch. It publishes audited writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from frazil.errors import CommitConflict, InvalidArgument, SnapshotNotFound
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.file_changes import FileChanges
from frazil.iceberg.data_file import Status, partition_key
from frazil.iceberg.entries import Entries
from frazil.iceberg.manifest import ALL_COLUMNS, CORE_COLUMNS
from frazil.iceberg.manifest_list import DATA
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.refs import SnapshotRef
from frazil.iceberg.requirements import AssertRefSnapshotId
from frazil.iceberg.snapshot import APPEND, OVERWRITE, Snapshot
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import SetSnapshotRef

STAGED_WAP_ID = "wap.id"
PUBLISHED_WAP_ID = "published-wap-id"
SOURCE_SNAPSHOT_ID = "source-snapshot-id"
REPLACE_PARTITIONS = "replace-partitions"


class CherryPick(FileChanges):
    """Applies one snapshot to a branch, `main` unless `to_branch` says otherwise.

    If the branch is where that snapshot began, it simply moves there. Else appends and dynamic overwrites are made
    again as a new snapshot; other changes depend on the rows they were made from and are refused.
    """

    merges = False

    def __init__(self, transaction: Transaction, snapshot_id: int) -> None:
        super().__init__(transaction)
        self._picked_id = snapshot_id
        self._operation = APPEND
        self._fast_forward = False

    @property
    def operation(self) -> str:
        return self._operation

    @property
    def snapshot_id(self) -> int:
        """The snapshot the branch is at afterwards: the picked one itself, or the new one that repeats it."""
        return self._picked_id if self._fast_forward else self._snapshot_id

    def stage(self, context: Context) -> Staged:
        metadata = context.metadata
        picked, parent = metadata.snapshot(self._picked_id), self.parent(metadata)
        self._check_not_applied(metadata, picked, parent)
        at = None if parent is None else parent.snapshot_id
        self._fast_forward = picked.parent_snapshot_id == at
        if self._fast_forward:
            ref = metadata.refs.get(self._branch)
            moved = SnapshotRef(picked.snapshot_id) if ref is None else replace(ref, snapshot_id=picked.snapshot_id)
            required = AssertRefSnapshotId(self._branch, None if ref is None else ref.snapshot_id)
            return Staged((SetSnapshotRef(self._branch, moved),), (required,))
        self._repeat(context, picked, parent)
        return super().stage(context)

    def _check_not_applied(self, metadata: TableMetadata, picked: Snapshot, parent: Snapshot | None) -> None:
        wap_id = picked.summary.get(STAGED_WAP_ID)
        for ancestor in metadata.ancestors_of(None if parent is None else parent.snapshot_id):
            if ancestor.snapshot_id == picked.snapshot_id:
                raise _refused(picked, f"it is an ancestor of {self._branch} already", "there is nothing to do")
            if ancestor.summary.get(SOURCE_SNAPSHOT_ID) == str(picked.snapshot_id):
                raise _refused(picked, f"snapshot {ancestor.snapshot_id} has applied it", "there is nothing to do")
            if wap_id and wap_id in (ancestor.summary.get(STAGED_WAP_ID), ancestor.summary.get(PUBLISHED_WAP_ID)):
                raise _refused(
                    picked, f"its wap.id {wap_id!r} was published already", "stage each change under an id of its own"
                )

    def _repeat(self, context: Context, picked: Snapshot, parent: Snapshot | None) -> None:
        """Take the picked snapshot's files over as this action's own."""
        dynamic = picked.operation == OVERWRITE and picked.summary.get(REPLACE_PARTITIONS, "").lower() == "true"
        if picked.operation != APPEND and not dynamic:
            raise _refused(
                picked,
                f"it is neither an append, nor a dynamic overwrite, nor based on the head of {self._branch}",
                "make the change again",
            )
        manifests = [item for item in context.manifests(picked) if item.added_snapshot_id == picked.snapshot_id]
        changed = [item.content for item in manifests if item.has_added_files or item.has_deleted_files]
        if not dynamic and any(content != DATA for content in changed):
            raise _refused(picked, "it adds or removes delete files", "make the change again")
        self._operation = APPEND if picked.operation is None else picked.operation
        self._added_data = []
        replaced: set[tuple[int, tuple[Any, ...]]] = set()
        for entries in _made_by(context, picked, Status.ADDED, full=True):
            # ids of rows and sequence numbers belong to the snapshot that is made now
            self._added_data += [
                replace(file, first_row_id=None, data_sequence_number=None, file_sequence_number=None)
                for file in entries.iter_files()
            ]
            replaced.update((entries.spec.spec_id, partition_key(values)) for values in entries.partition_tuples())
        if dynamic:
            _check_partitions_unchanged(context, picked, parent, replaced)
            for entries in _made_by(context, picked, Status.DELETED):
                self._removal.paths.update(entries.column(ids.FILE_PATH).to_pylist())
        self.set(SOURCE_SNAPSHOT_ID, str(picked.snapshot_id))
        wap_id = picked.summary.get(STAGED_WAP_ID)
        if wap_id is not None:
            self.set(PUBLISHED_WAP_ID, wap_id)


def staged_snapshot(metadata: TableMetadata, wap_id: str) -> Snapshot:
    """The one snapshot that was staged under a `wap.id`."""
    found = [snapshot for snapshot in metadata.snapshots if snapshot.summary.get(STAGED_WAP_ID) == wap_id]
    if not found:
        known = sorted({one.summary[STAGED_WAP_ID] for one in metadata.snapshots if STAGED_WAP_ID in one.summary})
        hint = f"there is {', '.join(map(repr, known[:12]))}" if known else "nothing is staged in this table"
        raise SnapshotNotFound(f"no snapshot is staged as {wap_id!r}", hint=hint)
    if len(found) > 1:
        numbers = " and ".join(str(snapshot.snapshot_id) for snapshot in found)
        raise InvalidArgument(
            f"{len(found)} snapshots are staged as {wap_id!r}: {numbers}", hint="cherry-pick one of them by its id"
        )
    return found[0]


def _made_by(context: Context, snapshot: Snapshot, status: Status, *, full: bool = False) -> Iterator[Entries]:
    """The data files that a snapshot itself added, or deleted."""
    manifests = [
        manifest
        for manifest in context.manifests(snapshot)
        if manifest.content == DATA and manifest.added_snapshot_id == snapshot.snapshot_id
    ]
    for entries in context.reader.read(manifests, ALL_COLUMNS if full else CORE_COLUMNS):
        own = (entries.numpy(ids.STATUS) == status) & (entries.numpy(ids.SNAPSHOT_ID) == snapshot.snapshot_id)
        if np.any(own):
            yield entries.filter(own)


def _check_partitions_unchanged(
    context: Context, picked: Snapshot, parent: Snapshot | None, replaced: set[tuple[int, tuple[Any, ...]]]
) -> None:
    """What was overwritten must be all there is: nobody may have added to those partitions since."""
    metadata, base = context.metadata, picked.parent_snapshot_id
    head = None if parent is None else parent.snapshot_id
    if base is not None and not metadata.is_ancestor(base, head):
        raise _refused(picked, "the snapshot it overwrites is not in the branch's history", "overwrite again")
    for snapshot in metadata.ancestors_of(head):
        if snapshot.snapshot_id == base:
            return
        for entries in _made_by(context, snapshot, Status.ADDED):
            both = [
                values
                for values in entries.partition_tuples()
                if (entries.spec.spec_id, partition_key(values)) in replaced
            ]
            if both:
                values = both[0]
                path = entries.spec.path_of([column.type for column in entries.partition_type.fields], values)
                raise CommitConflict(
                    f"snapshot {picked.snapshot_id} cannot be cherry-picked: snapshot {snapshot.snapshot_id} "
                    f"added files to {f'partition {path}' if path else 'the table'}, which it overwrites",
                    hint="overwrite the partition again",
                )


def _refused(picked: Snapshot, why: str, hint: str) -> InvalidArgument:
    return InvalidArgument(f"snapshot {picked.snapshot_id} cannot be cherry-picked: {why}", hint=hint)
