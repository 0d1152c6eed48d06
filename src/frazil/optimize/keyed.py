"""Optimizing of keyed tables, in this process: changes and small files become base files, deletes become positions.

One run is one commit to the base store. It is safe to kill at any moment: files that were not committed are orphans,
and the change store is not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from frazil import ambient
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.row_delta import RowDelta
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_settings import DeleteSettings, NewDeleteFiles
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.portable import without_history
from frazil.iceberg.position_files import PositionFiles
from frazil.iceberg.scan import BATCH_ROWS
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.write import remove_files, removing
from frazil.io.store import Store
from frazil.mixed.file_names import FileName, FilePlace, FileType
from frazil.mixed.keys import key_fields
from frazil.mixed.merge import MergeReader
from frazil.mixed.optimized import SEQUENCE, TIME, MoveOptimized, Optimized, flag
from frazil.mixed.pair import CHANGE_SNAPSHOT, recorded
from frazil.mixed.plan import MixedPlan, NodeTask, PlannedFile, StoreState
from frazil.mixed.table import MixedTable
from frazil.mixed.transactions import ENDED, OPTIMIZE, PRODUCER, ended_by_files
from frazil.mixed.tree import ROOT
from frazil.mixed.visible import PartitionPaths
from frazil.mixed.watermark import MoveWatermark, watermark_of
from frazil.mixed.writer import BaseWriter, new_file_location
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.model.types import NestedField
from frazil.optimize.arrangement import Arrangement, KnowOrder
from frazil.optimize.deleted_positions import DeletedPositions
from frazil.optimize.evaluate import Kind
from frazil.optimize.inputs import DataInput, DeleteInput, DeleteKind
from frazil.optimize.outcome import Outcome
from frazil.optimize.plan import RewriteTask
from frazil.optimize.rewrites import RewriteJob, TaskFiles, clear_named, new_job_number, settle
from frazil.optimize.settings import Settings
from frazil.optimize.tables import KIND, TARGET, PlannedTable, note_full, plan_mixed
from frazil.optimize.tasks import Executor, InProcess, carry_out, problems


@dataclass(frozen=True)
class KeyedJob(RewriteJob):
    """The tasks of one run on a table."""

    merge: MixedPlan
    """The pair of snapshots; its files are those of the tasks."""
    keys: tuple[NestedField, ...]
    target_bytes: int
    arrangement: Arrangement
    number: int = 0
    """Stands in names of files that are written elsewhere."""

    @property
    def metadata(self) -> TableMetadata:  # type: ignore[override]
        return self.merge.base.metadata

    @property
    def store(self) -> Store:  # type: ignore[override]
        return self.merge.base.store

    def elsewhere(self) -> KeyedJob:
        merge = self.merge
        light = replace(merge, base=_light(merge.base), change=_light(merge.change), optimized=Optimized())
        return replace(self, merge=light, number=new_job_number())

    def clear(self, tasks: Iterable[RewriteTask], kept: Iterable[TaskFiles] = ()) -> None:
        clear_named(self.store, self.metadata, self.number, tasks, kept)

    def _reader(self) -> MergeReader:
        return MergeReader(self.merge, self.merge.schema, self._key_ids(), BATCH_ROWS)

    def _key_ids(self) -> tuple[int, ...]:
        return tuple(key.id for key in self.keys)

    def run(self, task: RewriteTask) -> TaskFiles:
        written: list[DataFile] = []
        deletes: list[DataFile] = []
        try:
            if task.rewrite:
                written += self._writer(task.transaction_id).write(_rows(self._reader(), task.rewrite))
            deleted = DeletedPositions(self.merge, self._key_ids())
            for file in task.convert:
                deletes += self._convert(file, deleted)
        except BaseException:
            remove_files(self.store, [*written, *deletes])
            raise
        return TaskFiles(tuple(written), tuple(deletes))

    def _writer(self, transaction_id: int) -> BaseWriter:
        return BaseWriter(
            self.metadata,
            self.store,
            self.keys,
            transaction_id,
            task_id=self.number,
            target_bytes=self.target_bytes,
            order=self.arrangement.order,
            arrange=self.arrangement.indices(self.merge.schema),
        )

    def _convert(self, file: DataInput, deleted: DeletedPositions) -> list[DataFile]:
        """Write one file with all deleted positions of a data file, in the place of all its deletes."""
        task = _node_task([file])
        gone = deleted.of(task.base[0], task.deletes)
        if not gone.cardinality:
            return []
        number = (self.number, ambient.new_snapshot_id(), 1)
        name = FileName(file.node, FileType.POS_DELETE, file.transaction_id, 0, *number)
        places = _Place(self.metadata, self.store, name, PartitionPaths(self.metadata).of(file.file))
        files = PositionFiles(self.store, places, DeleteSettings.of(self.metadata))
        return files.write([(file.file, gone)])


def optimize_keyed(
    table: MixedTable,
    settings: Settings | None = None,
    where: str | Expression | None = None,
    *,
    now_ms: int | None = None,
) -> Outcome:
    """Run what a keyed table needs once, in this process; nothing, if it is at rest."""
    table.refresh()
    known = Settings.of(table.base_store.properties) if settings is None else settings
    planned = plan_mixed(table, known, where, now_ms=now_ms)
    return run_keyed(table, planned, InProcess(), target_bytes=known.target_size)


def run_keyed(
    table: MixedTable,
    planned: PlannedTable,
    executor: Executor,
    *,
    target_bytes: int,
    arrangement: Arrangement | None = None,
) -> Outcome:
    """Carry out a plan for a keyed table as it was planned, and commit it."""
    plan, merge = planned.plan, planned.merge
    if plan.kind is None or merge is None:
        return Outcome(plan=plan)
    chosen = Arrangement() if arrangement is None else arrangement
    keys = key_fields(merge.base.metadata.current_schema, table.primary_key)
    job = KeyedJob(replace(merge, tasks=(), idle_deletes=()), keys, target_bytes, chosen)
    done = carry_out(executor, job, plan.tasks)
    left, written = settle(job, plan, done)
    with removing(table.store, written.all):
        outcome = commit_keyed(table, replace(planned, plan=left), plan.kind, written, job)
    table.refresh()
    return replace(outcome, problems=problems(done))


def commit_keyed(table: MixedTable, planned: PlannedTable, kind: Kind, written: TaskFiles, job: KeyedJob) -> Outcome:
    """Put new files in the place of old ones, and move the optimized sequence, if nobody else did meanwhile."""
    plan, merge = planned.plan, planned.merge
    assert merge is not None
    removed = [file.file for task in plan.tasks for file in task.rewrite if not file.is_change]
    dropped = {one.key: one for task in plan.tasks for one in task.removable}
    paths = {task.partition.path for task in plan.tasks} | set(plan.to_sequence)
    maps = {SEQUENCE: plan.to_sequence, TIME: dict.fromkeys(sorted(paths), ambient.now_ms())}
    start = merge.base.snapshot
    with table.base_store.transaction() as tx:
        if not job.arrangement.order.is_unsorted:
            KnowOrder(tx, job.arrangement.order).commit()
        action = _OptimizeFiles(tx, table._change_store).validate_from(None if start is None else start.snapshot_id)
        action.set(PRODUCER, OPTIMIZE).set(KIND, kind.name.lower()).set(TARGET, job.target_bytes)
        for flagged in maps:
            action.set(flag(flagged), "true")
        replaced = (file.transaction_id for task in plan.tasks for file in task.rewrite if not file.is_change)
        ended = ended_by_files(merge.base.metadata, merge.change.metadata, replaced)
        if ended:
            action.set(ENDED, ended)
        _fill(action, written.data, removed, written.deletes, dropped.values())
        action.validate_data_files_exist(file.path for task in plan.tasks for file in task.convert)
        action.commit()
        MoveOptimized(tx, maps, merge.optimized.sequence).commit()
        note_full(tx, kind)
        MoveWatermark(tx, watermark_of(written.data, tx.metadata.current_schema, tx.metadata.properties)).commit()
    counts = (len(written.data), len(removed), len(written.deletes), len(dropped))
    return Outcome(kind, *counts, action.snapshot_id, plan=plan)


def _rows(reader: MergeReader, files: Sequence[DataInput]) -> Iterator[pa.RecordBatch]:
    by_node: dict[int, list[DataInput]] = {}
    for file in files:
        by_node.setdefault(file.node, []).append(file)
    for members in by_node.values():  # the same change deletes apply to all files of a node
        yield from reader.read(_node_task(members))


def _fill(
    action: RowDelta,
    data: Iterable[DataFile],
    removed: Iterable[DataFile],
    deletes: Iterable[DataFile],
    dropped: Iterable[DeleteInput],
) -> None:
    for file in data:
        action.add_rows(file)
    for file in removed:
        action.remove_rows(file)
    for file in deletes:
        action.add_deletes(file)
    for delete in dropped:
        action.remove_deletes(delete.file)


class _OptimizeFiles(RowDelta):
    """New files for old ones in one snapshot, which says which one the change store was at."""

    def __init__(self, transaction: Transaction, change: IcebergTable) -> None:
        super().__init__(transaction)
        self._change = change

    def stage(self, context: Context) -> Staged:
        self.set(CHANGE_SNAPSHOT, recorded(self._change.newest_state().metadata))
        return super().stage(context)


class _Place(NewDeleteFiles):
    """The place of one position delete file."""

    def __init__(self, metadata: TableMetadata, store: Store, name: FileName, partition_path: str) -> None:
        super().__init__(metadata, store)
        self._name = name
        self._path = partition_path

    def next(self, extension: str, spec_id: int | None = None, partition: tuple[Any, ...] = ()) -> str:
        return new_file_location(self._metadata, self._path, self._name.text(extension))


def _light(state: StoreState) -> StoreState:
    return StoreState(without_history(state.metadata), state.store, None)


def _node_task(files: Sequence[DataInput]) -> NodeTask:
    """Files of one node as the merge reads them."""
    first = files[0]
    changes = {one.key: one for file in files for one in file.of_kind(DeleteKind.CHANGE)}
    deletes = tuple(_planned(one.file, FileType.EQ_DELETE, one.transaction_id, ()) for one in changes.values())
    base, inserts = [], []
    for file in files:
        own = tuple(one.file for one in file.deletes if one.kind is not DeleteKind.CHANGE)
        if file.is_change:
            inserts.append(_planned(file.file, FileType.INSERT, file.transaction_id, own))
        else:
            base.append(_planned(file.file, FileType.BASE, file.transaction_id, own))
    return NodeTask(first.file.partition, "", first.node, tuple(base), tuple(inserts), deletes)


def _planned(file: DataFile, kind: FileType, transaction_id: int, deletes: tuple[DataFile, ...]) -> PlannedFile:
    return PlannedFile(FileScanTask(file, deletes, AlwaysTrue()), FilePlace(ROOT, kind, transaction_id), "")
