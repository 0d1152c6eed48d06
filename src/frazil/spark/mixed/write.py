"""Changes to files of a change store: workers write what their tasks have, and the driver commits all of it once.

Names of files tell the transaction, the task and the attempt. Only the answers of attempts that succeeded reach the
driver; what others left behind is removed, and was never part of the table.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from frazil.errors import FrazilError
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.portable import without_history
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.write import abandoning
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.mixed.commit import commit_changes
from frazil.mixed.file_names import transaction_of
from frazil.mixed.operations import Operation
from frazil.mixed.transactions import (
    ReadPoint,
    abandon_transaction,
    abandoning_unwritten,
    begin_transaction,
    committed_batch,
)
from frazil.mixed.writer import Changes, ChangeWriter
from frazil.spark.mixed.target import Target
from frazil.spark.mixed.told import Told
from frazil.spark.scan.files import routed
from frazil.spark.write.from_spark import by_places

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Written:
    """What one task wrote: its files, and how many rows of each operation."""

    files: tuple[DataFile, ...]
    rows: tuple[int, ...] = ()
    is_repeated: bool = False
    """Whether another attempt at the task may have left files."""


@dataclass(frozen=True)
class WriteChanges:
    """Writes the changes of a task, wherever it is sent."""

    store: Store
    metadata: TableMetadata
    transaction: int
    told: Told

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What was written, pickled: what `mapInArrow` calls."""
        yield answer(self.write(batches))

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write the changes that batches of Spark tell; nothing is left if it fails."""
        partition, task, is_repeated = this_task()
        writer = ChangeWriter(
            self.metadata,
            self.store,
            self.told.keys,
            self.transaction,
            partition_id=partition,
            task_id=task,
            arrivals_last=self.told.arrivals_last,
        )
        rows = np.zeros(len(Operation), dtype=np.int64)

        def counted() -> Changes:
            for batch, actions in self.told.changes(batches):
                rows[:] += np.bincount(actions, minlength=len(Operation))
                yield batch, actions

        files = writer.write(counted())
        return Written(tuple(files), tuple(rows.tolist()), is_repeated)


def this_task() -> tuple[int, int, bool]:
    """The numbers of the partition and of the attempt that this process works on, and whether it is a repeated one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return 0, 0, False
    return context.partitionId(), context.taskAttemptId(), context.attemptNumber() > 0


def answer(written: Written) -> pa.RecordBatch:
    """What a worker tells the driver."""
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(written)], pa.binary())], names=["written"])


class Work(Protocol):
    """What a worker does with the rows of a task, for a transaction."""

    @property
    def transaction(self) -> int:
        """Its id."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `mapInArrow` calls."""

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write rows."""


def run_tasks(rows: DataFrame, work: Work, store: Store, location: str) -> list[Written]:
    """Let workers write rows under a store's location; what is left of the transaction besides is removed."""
    try:
        if locations.parse(routed(store, location)).scheme == "memory":
            return [work.write(rows.toArrow().to_batches())]  # files in this process's memory are written in it
        found = by_places(rows).mapInArrow(work, "written binary").toArrow().column(0).to_pylist()
    except BaseException:
        remove_rest(store, location, work.transaction)
        raise
    written: list[Written] = [pickle.loads(data) for data in found]  # noqa: S301 - pickled by our own workers
    may_run_twice = rows.sparkSession.sparkContext.getConf().get("spark.speculation", "false") == "true"
    if may_run_twice or any(one.is_repeated for one in written):
        remove_rest(store, location, work.transaction, {file.file_path for one in written for file in one.files})
    return written


def remove_rest(store: Store, location: str, transaction: int, keep: Iterable[str] = ()) -> None:
    """Remove the files of a transaction that are not part of the table, as far as that is possible."""
    kept = {locations.name(one) for one in keep}  # which no other file has
    with suppress(FrazilError):
        found = (file.location for file in store.list(f"{location.rstrip('/')}/data"))
        rest = [one for one in found if transaction_of(one) == transaction and locations.name(one) not in kept]
        store.delete_many(rest)


def write_changes(
    target: Target,
    rows: DataFrame,
    told: Told,
    *,
    batch: str | None = None,
    read: ReadPoint | None = None,
    properties: Mapping[str, str] | None = None,
    check: Callable[[Sequence[DataFile]], None] = lambda _: None,
) -> RowChanges:
    """Write changes as one transaction, unless its batch is in the table already.

    With `read`, others must not have changed rows since that point. What is written may be checked before it is
    committed.
    """
    base, change = target.base, target.change
    known = committed_batch(change.metadata, batch)
    if known is not None:
        return RowChanges(snapshot=known)
    transaction = begin_transaction(base, change, batch or "")
    work = WriteChanges(change.store, without_history(change.metadata), transaction, told)
    files: list[DataFile] = []
    with abandoning_unwritten(base, change, transaction), abandoning(change.store, files):
        written = run_tasks(rows, work, change.store, change.location)
        files += [file for one in written for file in one.files]
        check(files)
    if not files and batch is None:  # a batch is known by its commit, also if it changed nothing
        abandon_transaction(base, change, transaction)
        return RowChanges()
    snapshot, is_new = commit_changes(base, change, files, transaction, batch=batch, read=read, properties=properties)
    if not is_new:
        return RowChanges(snapshot=snapshot)
    counts = counted(written)
    return RowChanges(
        rows_inserted=counts[Operation.INSERT],
        rows_updated=counts[Operation.UPDATE_AFTER],
        rows_deleted=counts[Operation.DELETE],
        data_files_added=len(files),
        snapshot=snapshot,
    )


def counted(written: Sequence[Written]) -> list[int]:
    """How many rows of each operation were written in all."""
    return [sum(one.rows[operation] for one in written) for operation in Operation]
