"""The order of transactions, which is that of their ids, whenever they are committed.

An id is taken when a transaction begins. So a slow transaction may be committed after a quick one that it comes before,
and the quick one has not seen it. That is as it should be if the quick one is *blind*: an append, an upsert or change
data is the same whatever the table holds. It is not if the quick one *reads*: what is worked out from rows (UPDATE,
DELETE, MERGE), or replaces rows (an overwrite), must have seen all that comes before it. Hence, at a commit:

- No changes come before a transaction that reads, once that is committed and looked at such rows as they have: it says
  which in its summary (`frazil.mixed.looked_at`). Nor before an overwrite, once that has begun: it is committed to the
  other store, where nobody can look and write in one step. What is too late gets a new id (`frazil.mixed.renewal`), or
  is worked out again if it reads itself.
- What was read must not have changed since (`ReadPoint`).
- An overwrite replaces all changes up to its id, and blind ones with higher ids come after it. One that reads and has a
  higher id has not seen the overwrite, which gets a new id if that looked at its partitions (`frazil.mixed.closing`).

Commits of Amoro do not say whether they read, and are taken for blind; its overwrites are seen by what they did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from frazil.errors import CommitConflict
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.entries import Entries, from_files
from frazil.iceberg.file_filter import FileFilter
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import partition_type
from frazil.iceberg.scan import ALL_ROWS, Scan
from frazil.iceberg.snapshot import Snapshot
from frazil.io.store import Store
from frazil.mixed.file_names import parse_change
from frazil.mixed.looked_at import looked_at
from frazil.mixed.optimized import read_optimized
from frazil.mixed.transactions import OVERWRITES, ended_by, ended_transactions, reaches, since
from frazil.mixed.visible import PartitionPaths
from frazil.model.expressions import Expression

_REPEAT = "repeat the change"


def check_order(
    base: TableMetadata, change: TableMetadata, store: Store, transaction_id: int, files: Sequence[DataFile]
) -> None:
    """Refuse to commit files to the change store if their transaction would come before one that did not see them."""
    _check_not_passed(base, store, transaction_id, files)
    _check_is_told(change, transaction_id)
    ended = ended_transactions(base, change)
    entries = _entries(change, files)
    for snapshot in since(change, transaction_id):
        if OVERWRITES in snapshot.summary and snapshot.sequence_number not in ended:
            raise CommitConflict(
                f"overwrite {snapshot.sequence_number} began after transaction {transaction_id}, and may be committed",
                hint=_REPEAT,
            )
        where = _read_by_later(change, snapshot, transaction_id)
        if where is not None and FileFilter(change, change.current_schema, where).some(entries).any():
            raise CommitConflict(
                f"transaction {ended_by(snapshot)} read the table without transaction {transaction_id}, which comes "
                "before it",
                hint=_REPEAT,
            )


def _read_by_later(change: TableMetadata, snapshot: Snapshot, transaction_id: int) -> Expression | None:
    """What the transaction that a snapshot ended looked at, if it comes after another one."""
    other = ended_by(snapshot)
    return looked_at(change, snapshot) if other is not None and other > transaction_id else None


def _entries(metadata: TableMetadata, files: Sequence[DataFile]) -> Entries:
    spec = metadata.default_spec
    return from_files(spec, partition_type(metadata, spec), files)


def _check_not_passed(base: TableMetadata, store: Store, transaction_id: int, files: Sequence[DataFile]) -> None:
    """Refuse if a partition was overwritten by a later transaction, or optimized further than this one."""
    optimized = read_optimized(base, store, base.current_snapshot).sequence
    if not optimized:
        return
    paths = PartitionPaths(base)
    passed = next((path for path in map(paths.of, files) if optimized.get(path, 0) > transaction_id), None)
    if passed is not None:
        raise CommitConflict(
            f"partition {passed} was optimized up to commit {optimized[passed]} since transaction {transaction_id} "
            "began",
            hint=_REPEAT,
        )


@dataclass(frozen=True)
class Scope:
    """What an overwrite replaces."""

    has: Callable[[DataFile], bool]
    """Whether that is so for what is in the partition of a file."""
    examples: Callable[[], Sequence[DataFile]]
    """A file of each partition, as far as there are any."""


def check_overwrite(change: TableMetadata, store: Store, transaction_id: int, scope: Scope) -> None:
    """Refuse to overwrite files of the base store if changes of theirs are not in order with it."""
    _check_is_told(change, transaction_id)
    entries = _entries(change, scope.examples())
    for snapshot in since(change, transaction_id):
        where = _read_by_later(change, snapshot, transaction_id)
        unseen = where is not None and FileFilter(change, change.current_schema, where).some_partitions(entries).any()
        files = added_files(change, store, snapshot)
        if unseen or any(_comes_before(file, snapshot, transaction_id) and scope.has(file) for file in files):
            raise CommitConflict(
                f"snapshot {snapshot.snapshot_id} changed rows without having seen overwrite {transaction_id}, or too "
                "late to be replaced by it",
                hint="repeat the overwrite",
            )


def _comes_before(file: DataFile, snapshot: Snapshot, transaction_id: int) -> bool:
    return parse_change(file.file_path, snapshot.sequence_number).transaction_id < transaction_id


def _check_is_told(change: TableMetadata, transaction_id: int) -> None:
    if not reaches(change, transaction_id):
        raise CommitConflict(
            f"what happened since transaction {transaction_id} began has expired",
            hint="repeat it on the table as it is",
        )


def added_files(metadata: TableMetadata, store: Store, snapshot: Snapshot) -> Iterator[DataFile]:
    """The files that a snapshot added."""
    if snapshot.summary.get("added-data-files", "0") == "0":
        return
    scan = Scan(metadata, store, snapshot, metadata.current_schema, ALL_ROWS, appends=(snapshot,))
    yield from (task.file for task in scan.plan().tasks())
