"""The order of transactions, which is that of their ids, whenever they are committed.

An id is taken when a transaction begins. So a slow transaction may be committed after a quick one that it comes before,
and the quick one has not seen it. That is as it should be if the quick one is *blind*: an append, an upsert or change
data is the same whatever the table holds. It is not if the quick one *reads*: what is worked out from rows (UPDATE,
DELETE, MERGE), or replaces rows (an overwrite), must have seen all that comes before it. Hence, at a commit:

- Nothing comes before a transaction that reads, once that is committed and has changes of the same partition. Nor
  before an overwrite, once that has begun: it is committed to the other store, where nobody can look and write in one
  step. What is too late gets a new id (`frazil.mixed.renewal`), or is worked out again if it reads itself.
- What was read must not have changed since (`ReadPoint`).
- An overwrite has seen all changes up to its id, and blind ones with higher ids come after it. If one that reads has a
  higher id, it has not seen the overwrite, which gets a new id (`frazil.mixed.closing`).

Commits of Amoro do not say whether they read, and are taken for blind; its overwrites are seen by what they did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from frazil.errors import CommitConflict
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.scan import ALL_ROWS, Scan
from frazil.iceberg.snapshot import Snapshot
from frazil.io.store import Store
from frazil.mixed.file_names import parse_change
from frazil.mixed.optimized import read_optimized
from frazil.mixed.transactions import OVERWRITES, READS, ended_by, ended_transactions, reaches, since
from frazil.mixed.visible import PartitionPaths

_REPEAT = "repeat the change"


def check_order(
    base: TableMetadata, change: TableMetadata, store: Store, transaction_id: int, files: list[DataFile]
) -> None:
    """Refuse to commit files to the change store if their transaction would come before one that did not see them."""
    paths = PartitionPaths(base)
    partitions = {paths.of(file) for file in files}
    _check_not_passed(base, store, transaction_id, partitions)
    _check_is_told(change, transaction_id)
    ended = ended_transactions(base, change)
    for snapshot in since(change, transaction_id):
        if OVERWRITES in snapshot.summary and snapshot.sequence_number not in ended:
            raise CommitConflict(
                f"overwrite {snapshot.sequence_number} began after transaction {transaction_id}, and may be committed",
                hint=_REPEAT,
            )
        other = ended_by(snapshot)
        reads = READS in snapshot.summary and other is not None and other > transaction_id
        if reads and any(paths.of(file) in partitions for file in added_files(change, store, snapshot)):
            raise CommitConflict(
                f"transaction {other} read the table without transaction {transaction_id}, which comes before it",
                hint=_REPEAT,
            )


def _check_not_passed(base: TableMetadata, store: Store, transaction_id: int, partitions: set[str]) -> None:
    """Refuse if a partition was overwritten by a later transaction, or optimized further than this one."""
    optimized = read_optimized(base, store, base.current_snapshot).sequence
    passed = next((path for path in sorted(partitions) if optimized.get(path, 0) > transaction_id), None)
    if passed is not None:
        raise CommitConflict(
            f"partition {passed} was optimized up to commit {optimized[passed]} since transaction {transaction_id} "
            "began",
            hint=_REPEAT,
        )


def check_overwrite(
    change: TableMetadata, store: Store, transaction_id: int, overwritten: Callable[[DataFile], bool]
) -> None:
    """Refuse to overwrite files of the base store if changes of theirs are not in order with it."""
    _check_is_told(change, transaction_id)
    for snapshot in since(change, transaction_id):
        for file in added_files(change, store, snapshot):
            other = parse_change(file.file_path, snapshot.sequence_number).transaction_id
            if (READS in snapshot.summary or other < transaction_id) and overwritten(file):
                raise CommitConflict(
                    f"transaction {other} changed what overwrite {transaction_id} replaces, and has not seen it",
                    hint="repeat the overwrite",
                )


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
