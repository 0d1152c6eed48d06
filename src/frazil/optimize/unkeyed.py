"""Optimizing of tables without a key: Iceberg tables, and unkeyed mixed ones.

One run is one commit, which replaces files by others with the same rows. New data files keep the sequence number of the
snapshot that was read, so that equality deletes which come meanwhile still find the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from frazil import ambient
from frazil.errors import CommitConflict, FrazilError
from frazil.iceberg import validation
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.convert_deletes import ConvertDeletes
from frazil.iceberg.actions.rewrite_files import RewriteFiles
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.data_locations import data_folder, data_location, writing_to
from frazil.iceberg.delete_conversion import dead
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.delete_settings import DeleteSettings, NewDeleteFiles
from frazil.iceberg.delete_writer import WrittenDeletes, new_delete_files
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.portable import without_history
from frazil.iceberg.read import TaskReader
from frazil.iceberg.scan import BATCH_ROWS
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.write import RowWriter, remove_files, removing
from frazil.io.deletion_vector import DeletionVector
from frazil.io.store import Store
from frazil.mixed.properties import store_kind
from frazil.mixed.transactions import OPTIMIZE, PRODUCER
from frazil.mixed.writer import BaseWriter
from frazil.model.expressions import AlwaysTrue
from frazil.model.schema import POS, Schema
from frazil.optimize.arrangement import Arrangement, KnowOrder
from frazil.optimize.evaluate import Kind
from frazil.optimize.inputs import DataInput, DeleteKind
from frazil.optimize.outcome import Outcome
from frazil.optimize.plan import OptimizingPlan, RewriteTask
from frazil.optimize.rewrites import RewriteJob, TaskFiles, clear_named, new_job_number, settle
from frazil.optimize.tables import KIND, TARGET, note_full
from frazil.optimize.tasks import Executor, carry_out, problems

_NO_TRANSACTION = 0


@dataclass(frozen=True)
class UnkeyedJob(RewriteJob):
    """The tasks of one run on a table."""

    metadata: TableMetadata
    store: Store
    target_bytes: int
    arrangement: Arrangement
    table: IcebergTable | None = None
    """The table as it was planned; not sent elsewhere."""
    number: int = 0
    """Stands in names of files of a mixed table, if they are written elsewhere."""

    @property
    def is_mixed(self) -> bool:
        """Whether the table is the store of a mixed one."""
        return store_kind(self.metadata.properties) is not None

    def elsewhere(self) -> UnkeyedJob:
        small = without_history(self.metadata)
        if self.is_mixed:  # whose files have their places
            return replace(self, metadata=small, table=None, number=new_job_number())
        folder = data_location(self.metadata, "", str(ambient.new_uuid()))
        return replace(self, metadata=writing_to(folder, small), table=None)

    def clear(self, tasks: Iterable[RewriteTask], kept: Iterable[TaskFiles] = ()) -> None:
        if self.is_mixed:
            clear_named(self.store, self.metadata, self.number, tasks, kept)
            return
        stay = {file.file_path for one in kept for file in one.all}
        with suppress(FrazilError):
            listed = [file.location for file in self.store.list(data_folder(self.metadata))]
            self.store.delete_many([place for place in listed if place not in stay])

    def run(self, task: RewriteTask) -> TaskFiles:
        data = self._rewrite(task.rewrite) if task.rewrite else []
        try:
            return TaskFiles(tuple(data), tuple(self._convert(task.convert)))
        except BaseException:
            remove_files(self.store, data)
            raise

    def _reader(self, output: Schema) -> TaskReader:
        schema = self.metadata.current_schema
        return TaskReader(
            self.store, self.metadata, output, schema, DeleteReader(self.store, self.metadata), BATCH_ROWS
        )

    def _rewrite(self, files: Iterable[DataInput]) -> list[DataFile]:
        """Rows of files in others, in today's spec; with their ids, where they have any."""
        schema = self.metadata.current_schema
        if self.metadata.format_version >= 3:
            schema = schema.with_lineage()
        reader = self._reader(schema)
        rows = (batch for file in files for batch in reader.read(_scan_task(file)))
        return self._writer(schema).write(rows)

    def _writer(self, schema: Schema) -> RowWriter | BaseWriter:
        order, arrange = self.arrangement.order, self.arrangement.indices(schema)
        if self.is_mixed:
            return BaseWriter(
                self.metadata,
                self.store,
                (),
                _NO_TRANSACTION,
                task_id=self.number,
                target_bytes=self.target_bytes,
                order=order,
                arrange=arrange,
            )
        return RowWriter(
            self.metadata, self.store, schema=schema, order=order, target_bytes=self.target_bytes, arrange=arrange
        )

    def _convert(self, files: Iterable[DataInput]) -> list[DataFile]:
        """For each file one vector or delete file, with all that is deleted of it."""
        files = list(files)
        if not files:
            return []
        places = NewDeleteFiles(self.metadata, self.store)
        settings = replace(DeleteSettings.of(self.metadata), by_file=True)
        try:
            return new_delete_files(self.metadata, self.store, places, settings).write(self._dead(files))
        except BaseException:
            places.remove()
            raise

    def _dead(self, files: Iterable[DataInput]) -> Iterator[tuple[DataFile, DeletionVector]]:
        reader = self._reader(Schema((POS,)))
        for file in files:
            task = _scan_task(file)
            gone = dead(task, (_positions(batch) for batch in reader.read(task)))
            if gone.cardinality:
                yield file.file, gone


def _positions(batch: pa.RecordBatch) -> pa.Array:
    return batch.column(0).to_numpy()


def _scan_task(file: DataInput) -> FileScanTask:
    return FileScanTask(file.file, tuple(delete.file for delete in file.deletes), AlwaysTrue())


class _OptimizeFiles(RewriteFiles):
    """A rewrite that takes deletes away too: equality deletes only if no file came that they apply to."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._dropped: list[DataFile] = []

    def drop(self, deletes: Iterable[DataFile]) -> Self:
        """Deletes that no file needs any more."""
        for file in deletes:
            self._dropped.append(file)
            self.delete_file(file)
        return self

    def validate(self, context: Context, parent: Snapshot | None) -> None:
        super().validate(context, parent)
        validation.no_older_data(context, self.since(context, parent), self._dropped)


def optimize_unkeyed(
    table: IcebergTable, plan: OptimizingPlan, executor: Executor, *, target_bytes: int, arrangement: Arrangement
) -> Outcome:
    """Carry out a plan for a table as it is loaded, and commit it."""
    base = table.current_snapshot
    if plan.kind is None or base is None:
        return Outcome(plan=plan)
    job = UnkeyedJob(table.metadata, table.store, target_bytes, arrangement, table)
    done = carry_out(executor, job, plan.tasks)
    lost: set[int] = set()
    left, written = settle(job, plan, done)
    with removing(table.store, written.all):
        while True:
            try:
                outcome = _commit(table, base, left, plan.kind, written, job)
            except CommitConflict:  # the work of other tasks is not lost by it
                more = overtaken(table.refresh(), plan) - lost
                if not more or len(lost | more) >= len(plan.tasks):
                    raise
                lost |= more
                left, written = settle(job, plan, done, lost)
            else:
                return replace(outcome, problems=problems(done))


def overtaken(table: IcebergTable, plan: OptimizingPlan) -> set[int]:
    """The numbers of tasks with files that others removed since, or deleted rows of by position."""
    now = {
        task.file.file_path: {delete.key for delete in task.deletes if delete.content is Content.POSITION_DELETES}
        for task in table.scan().plan().tasks()
    }
    return {
        number
        for number, task in enumerate(plan.tasks)
        for file in (*task.rewrite, *task.convert)
        if now.get(file.path) != {delete.key for delete in file.of_kind(DeleteKind.POSITION)}
    }


def _commit(
    table: IcebergTable,
    base: Snapshot,
    plan: OptimizingPlan,
    kind: Kind,
    written: TaskFiles,
    job: UnkeyedJob,
) -> Outcome:
    """Put new files in the place of old ones, unless others changed those meanwhile.

    New deletes are a snapshot of their own: it counts as a delete, so that whoever rewrites such a file and relies on
    an equality delete that is gone is refused.
    """
    removed = [file.file for task in plan.tasks for file in task.rewrite]
    dropped = [one.file for one in {one.key: one for task in plan.tasks for one in task.removable}.values()]
    converted = WrittenDeletes(
        list(written.deletes), referenced=[file.path for task in plan.tasks for file in task.convert]
    )
    with table.transaction() as tx:
        if not job.arrangement.order.is_unsorted:
            KnowOrder(tx, job.arrangement.order).commit()
        actions: list[RewriteFiles | ConvertDeletes] = []
        if removed:
            rewrite = _OptimizeFiles(tx).data_sequence_number(base.sequence_number)
            actions.append(rewrite.rewrite(removed, written.data).drop(dropped))
        if converted.referenced:
            actions.append(ConvertDeletes(tx).convert(() if removed else dropped, converted))
        for action in actions:
            action.set(PRODUCER, OPTIMIZE).set(KIND, kind.name.lower()).set(TARGET, job.target_bytes)
            action.validate_from(base.snapshot_id).commit()
        note_full(tx, kind)
    last = actions[-1].snapshot_id
    return Outcome(kind, len(written.data), len(removed), len(written.deletes), len(dropped), last, plan=plan)
