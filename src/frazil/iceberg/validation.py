"""What happened to a table since a change was begun, and whether it contradicts the change.

Every check looks at the snapshots between the one the change was worked out from and the one it is committed on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import CommitConflict
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import Content, DataFile, Status
from frazil.iceberg.delete_index import DeleteIndex, may_name
from frazil.iceberg.entries import Entries, Mask, from_files
from frazil.iceberg.file_filter import FileFilter
from frazil.iceberg.manifest import CORE_COLUMNS
from frazil.iceberg.manifest_list import DATA, DELETES, ManifestFile
from frazil.iceberg.partition_types import field_in_any_schema, partition_type
from frazil.iceberg.snapshot import APPEND, DELETE, OVERWRITE, REPLACE, Snapshot

COLUMNS = CORE_COLUMNS | frozenset(ids.METRICS)
ADDS_DATA = frozenset({APPEND, OVERWRITE})
ADDS_DELETES = frozenset({OVERWRITE, DELETE})
REMOVES_DATA = frozenset({OVERWRITE, REPLACE, DELETE})


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """What a change was worked out from: a snapshot of the table, and what its own transaction had put on top."""

    snapshot_id: int | None
    """A snapshot that the table has; None: it was empty."""
    own: Mapping[int, Snapshot]
    """Snapshots of the same transaction, by id, as they were then: after a retry they stand on another base."""

    def since(self, context: Context, parent: Snapshot | None) -> list[Snapshot]:
        """The snapshots up to the parent that the change does not know, the newest first."""
        found: list[Snapshot] = []
        oldest: Snapshot | None = None
        for snapshot in context.history(None if parent is None else parent.snapshot_id):
            oldest = snapshot
            if snapshot.snapshot_id == self.snapshot_id:
                return found
            if snapshot.snapshot_id not in self.own:
                found.append(snapshot)
        if self.snapshot_id is not None:
            raise CommitConflict(
                f"snapshot {self.snapshot_id}, from which the change was worked out, is no longer in the history",
                hint="it expired or was rolled back; read the table again and repeat the change",
            )
        if oldest is not None and oldest.parent_snapshot_id is not None:
            raise CommitConflict(
                "the change was worked out from an empty table, and not all that happened since is in the history",
                hint="snapshots expired; read the table again and repeat the change",
            )
        return found

    def renumbered(self, context: Context) -> list[Snapshot]:
        """The transaction's own snapshots whose rows have other ids or sequence numbers than when they were read."""
        now = {snapshot.snapshot_id: snapshot for snapshot in context.metadata.snapshots}
        return [
            now[number]
            for number, read in self.own.items()
            if number in now
            and (now[number].first_row_id, now[number].sequence_number) != (read.first_row_id, read.sequence_number)
        ]


def read_point(context: Context, snapshot_id: int | None) -> ReadPoint:
    """The point that a snapshot is, which may be one that the transaction itself makes."""
    own: dict[int, Snapshot] = {}
    for snapshot in context.history(snapshot_id):
        if not context.is_own(snapshot):
            return ReadPoint(snapshot.snapshot_id, own)
        own[snapshot.snapshot_id] = snapshot
    return ReadPoint(None if own else snapshot_id, own)


def changed_entries(
    context: Context,
    snapshots: Iterable[Snapshot],
    content: int,
    statuses: tuple[Status, ...],
    may_hold: Callable[[ManifestFile], bool] | None = None,
) -> Iterator[Entries]:
    """Entries that snapshots added or deleted, with their metrics."""
    for snapshot in snapshots:
        manifests = [
            manifest
            for manifest in context.manifests(snapshot)
            if manifest.content == content
            and manifest.added_snapshot_id == snapshot.snapshot_id
            and (may_hold is None or may_hold(manifest))
        ]
        for entries in context.reader.read(manifests, COLUMNS):
            own = entries.numpy(ids.SNAPSHOT_ID) == snapshot.snapshot_id
            mask = own & np.isin(entries.numpy(ids.STATUS), statuses)
            if mask.any():
                yield entries.filter(mask)


def _doing(snapshots: Iterable[Snapshot], operations: frozenset[str]) -> list[Snapshot]:
    # an operation we do not know may have done anything
    known = ADDS_DATA | REMOVES_DATA
    return [item for item in snapshots if item.operation in operations or item.operation not in known]


def no_new_data(context: Context, snapshots: Iterable[Snapshot], matching: FileFilter) -> None:
    """No rows that match the filter were added (serializable isolation)."""
    for entries in changed_entries(context, _doing(snapshots, ADDS_DATA), DATA, (Status.ADDED,), matching.may_hold):
        _refuse(entries, matching.some(entries), "a concurrent commit added rows that match the filter")


def no_removed_data(
    context: Context, snapshots: Iterable[Snapshot], matching: FileFilter, *, rewrites: bool = True
) -> None:
    """No files that may hold matching rows were removed; those that were only rewritten count unless told."""
    operations = REMOVES_DATA if rewrites else REMOVES_DATA - {REPLACE}
    for entries in changed_entries(context, _doing(snapshots, operations), DATA, (Status.DELETED,)):
        _refuse(entries, matching.some(entries), "a concurrent commit removed rows that match the filter")


def no_new_deletes(
    context: Context, snapshots: Iterable[Snapshot], matching: FileFilter, files: Collection[str] | None = None
) -> None:
    """No delete files were added that may concern matching rows, those of some data files if told."""
    for entries in changed_entries(context, _doing(snapshots, ADDS_DELETES), DELETES, (Status.ADDED,)):
        mask = matching.some_partitions(entries)
        if files is not None:
            mask = mask & may_name(entries, files)
        _refuse(entries, mask, "a concurrent commit deleted rows that match the filter")


def no_new_deletes_for(
    context: Context,
    snapshots: Iterable[Snapshot],
    files: Iterable[DataFile],
    *,
    rewritten_as: int | None = None,
    new: Sequence[DataFile] = (),
) -> None:
    """No deletes were added that apply to these data files: replacing the files would bring the rows back.

    `rewritten_as` is the data sequence number of the `new` files: younger equality deletes find their rows as well, if
    they reach them.
    """
    added = list(changed_entries(context, _doing(snapshots, ADDS_DELETES), DELETES, (Status.ADDED,)))
    if rewritten_as is not None:
        added = [part.filter(~_finds_again(context, part, rewritten_as, new)) for part in added]
    if not any(map(len, added)):
        return
    for data in _by_spec(context, files):
        for part in added:  # each by itself: a vector may have replaced one that was added shortly before
            applied = DeleteIndex([part]).apply_to(data)
            _refuse(data, np.diff(applied.offsets) > 0, "a concurrent commit deleted rows of a file that is replaced")


def _finds_again(context: Context, entries: Entries, sequence_number: int, new: Sequence[DataFile]) -> Mask:
    """Equality deletes that apply to new files of this sequence number as they did to the old ones: they are younger,
    reach all partitions or are of the same spec, and the new files have the columns they go by.
    """
    if not entries.spec.is_unpartitioned and any(file.spec_id != entries.spec.spec_id for file in new):
        return np.zeros(len(entries), dtype=np.bool_)
    equality: Mask = entries.numpy(ids.CONTENT) == Content.EQUALITY_DELETES
    later: Mask = entries.numpy(ids.SEQUENCE_NUMBER) > sequence_number
    known = {field.id for field in context.metadata.current_schema.all_fields()}
    keys = entries.column(ids.EQUALITY_IDS).to_pylist()
    return equality & later & np.array([known.issuperset(one or ()) for one in keys], dtype=np.bool_)


def files_exist(
    context: Context, snapshots: Iterable[Snapshot], paths: set[str], *, skip_deletes: bool = False
) -> None:
    """None of these data files was removed."""
    if not paths:
        return
    operations = REMOVES_DATA - {DELETE} if skip_deletes else REMOVES_DATA
    value_set = pa.array(sorted(paths), pa.string())
    for entries in changed_entries(context, _doing(snapshots, operations), DATA, (Status.DELETED,)):
        gone = pc.is_in(entries.column(ids.FILE_PATH), value_set=value_set).to_numpy(zero_copy_only=False)
        _refuse(entries, gone, "a concurrent commit removed a data file that the change refers to")


def no_new_vectors(context: Context, snapshots: Iterable[Snapshot], targets: set[str]) -> None:
    """No vector was added for these data files: a second one would lose the first one's positions."""
    if not targets:
        return
    value_set = pa.array(sorted(targets), pa.string())
    for entries in changed_entries(context, _doing(snapshots, ADDS_DELETES | {REPLACE}), DELETES, (Status.ADDED,)):
        named = pc.is_in(entries.column(ids.REFERENCED_DATA_FILE), value_set=value_set)
        _refuse(
            entries, named.to_numpy(zero_copy_only=False), "a concurrent commit added deletes for the same data file"
        )


def no_older_data(context: Context, snapshots: Iterable[Snapshot], deletes: Iterable[DataFile]) -> None:
    """No data files were added that these equality deletes apply to, as rewritten ones with their old sequence number:
    without the deletes, rows would come back.
    """
    index = DeleteIndex(list(_by_spec(context, deletes)), partial(field_in_any_schema, context.metadata))
    if not len(index):
        return
    for entries in changed_entries(context, snapshots, DATA, (Status.ADDED,)):
        hit = np.diff(index.apply_to(entries).offsets) > 0
        _refuse(entries, hit, "a concurrent commit added a file that an equality delete applies to, which is removed")


def _by_spec(context: Context, files: Iterable[DataFile]) -> Iterator[Entries]:
    """Files as entries, those of a spec together."""
    by_spec: dict[int, list[DataFile]] = {}
    for file in files:
        by_spec.setdefault(file.spec_id, []).append(file)
    for spec_id, members in by_spec.items():
        spec = context.metadata.spec(spec_id)
        yield from_files(spec, partition_type(context.metadata, spec), members)


def _refuse(entries: Entries, mask: Mask, what: str) -> None:
    if mask.any():
        path = entries.column(ids.FILE_PATH)[int(np.flatnonzero(mask)[0])].as_py()
        raise CommitConflict(f"{what}: {path}", hint="read the table again and repeat the change")
