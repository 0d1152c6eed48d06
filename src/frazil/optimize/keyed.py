"""Optimizing of keyed tables, in this process: changes and small files become base files, deletes become positions.

One run is one commit to the base store. It is safe to kill at any moment: files that were not committed are orphans,
and the change store is not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from frazil import ambient
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.row_delta import RowDelta
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_settings import DeleteSettings, NewDeleteFiles
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.position_files import PositionFiles
from frazil.iceberg.scan import BATCH_ROWS
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.write import remove_files, removing
from frazil.io.deletion_vector import DeletionVector
from frazil.io.store import Store
from frazil.mixed.file_names import FileName, FilePlace, FileType
from frazil.mixed.keys import key_fields
from frazil.mixed.merge import MergeReader
from frazil.mixed.optimized import SEQUENCE, TIME, MoveOptimized, flag
from frazil.mixed.pair import CHANGE_SNAPSHOT, recorded
from frazil.mixed.plan import MixedPlan, NodeTask, PlannedFile
from frazil.mixed.table import MixedTable
from frazil.mixed.transactions import OPTIMIZE, PRODUCER
from frazil.mixed.tree import ROOT
from frazil.mixed.visible import PartitionPaths
from frazil.mixed.watermark import MoveWatermark, watermark_of
from frazil.mixed.writer import BaseWriter, new_file_location
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.model.schema import POS, Schema
from frazil.optimize.evaluate import Kind
from frazil.optimize.inputs import DataInput, DeleteInput, DeleteKind
from frazil.optimize.plan import OptimizingPlan, RewriteTask
from frazil.optimize.settings import Settings
from frazil.optimize.tables import KIND, plan_mixed


@dataclass(slots=True)
class Outcome:
    """What one run did."""

    kind: Kind | None = None
    data_files_added: int = 0
    data_files_removed: int = 0
    delete_files_added: int = 0
    delete_files_removed: int = 0
    snapshot_id: int | None = None
    plan: OptimizingPlan | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return self.kind is not None


def optimize_keyed(
    table: MixedTable,
    settings: Settings | None = None,
    where: str | Expression | None = None,
    *,
    now_ms: int | None = None,
) -> Outcome:
    """Run what a keyed table needs once; nothing, if it is at rest."""
    table.refresh()
    planned = plan_mixed(table, settings, where, now_ms=now_ms)
    plan, merge = planned.plan, planned.merge
    if plan.kind is None or merge is None:
        return Outcome(plan=plan)
    run = _Run(table, merge)
    try:
        for task in plan.tasks:
            run.execute(task)
    except BaseException:
        remove_files(table.store, [*run.data, *run.deletes])
        raise
    with removing(table.store, [*run.data, *run.deletes]):
        outcome = run.commit(plan, plan.kind)
    table.refresh()
    return outcome


class _Run:
    """The files that tasks wrote, until they are committed."""

    def __init__(self, table: MixedTable, merge: MixedPlan) -> None:
        self._base, self._change = table.base_store, table._change_store
        self._merge = merge
        self._metadata = merge.base.metadata
        self._keys = key_fields(self._metadata.current_schema, table.primary_key)
        self._operation = ambient.new_snapshot_id()
        self._count = 0
        self.data: list[DataFile] = []
        self.deletes: list[DataFile] = []

    def _reader(self, output: Schema) -> MergeReader:
        return MergeReader(self._merge, output, tuple(key.id for key in self._keys), BATCH_ROWS)

    def execute(self, task: RewriteTask) -> None:
        """Write what a task's files become."""
        if task.rewrite:
            writer = BaseWriter(self._metadata, self._base.store, self._keys, task.transaction_id)
            reader = self._reader(self._merge.schema)
            self.data += writer.write(self._rows(reader, task.rewrite))
        positions = self._reader(Schema((POS,)))
        for file in task.convert:
            self._convert(file, positions)

    def _rows(self, reader: MergeReader, files: Sequence[DataInput]) -> Iterator[pa.RecordBatch]:
        by_node: dict[int, list[DataInput]] = {}
        for file in files:
            by_node.setdefault(file.node, []).append(file)
        for members in by_node.values():  # the same change deletes apply to all files of a node
            yield from reader.read(_node_task(members))

    def _convert(self, file: DataInput, reader: MergeReader) -> None:
        """Write one file with all deleted positions of a data file, in the place of all its deletes."""
        kept = np.zeros(file.rows, dtype=bool)
        for batch in reader.read(_node_task([file])):
            kept[batch.column(0).to_numpy()] = True
        gone = np.flatnonzero(~kept)
        if len(gone):
            settings = DeleteSettings.of(self._metadata)
            self._count += 1
            name = FileName(file.node, FileType.POS_DELETE, file.transaction_id, 0, 0, self._operation, self._count)
            places = _Place(self._metadata, self._base.store, name, PartitionPaths(self._metadata).of(file.file))
            self.deletes += PositionFiles(self._base.store, places, settings).write(
                [(file.file, DeletionVector.from_positions(gone))]
            )

    def commit(self, plan: OptimizingPlan, kind: Kind) -> Outcome:
        """Put new files in the place of old ones, and move the optimized sequence, if nobody else did meanwhile."""
        removed = [file.file for task in plan.tasks for file in task.rewrite if not file.is_change]
        dropped = {one.key: one for task in plan.tasks for one in task.removable}
        now = ambient.now_ms()
        paths = {task.partition.path for task in plan.tasks} | set(plan.to_sequence)
        maps = {SEQUENCE: plan.to_sequence, TIME: dict.fromkeys(sorted(paths), now)}
        start = self._merge.base.snapshot
        with self._base.transaction() as tx:
            action = _OptimizeFiles(tx, self._change).validate_from(None if start is None else start.snapshot_id)
            action.set(PRODUCER, OPTIMIZE).set(KIND, kind.name.lower())
            for flagged in maps:
                action.set(flag(flagged), "true")
            _fill(action, self.data, removed, self.deletes, dropped.values())
            action.validate_data_files_exist(file.path for task in plan.tasks for file in task.convert)
            action.commit()
            MoveOptimized(tx, maps, self._merge.optimized.sequence).commit()
            MoveWatermark(tx, watermark_of(self.data, tx.metadata.current_schema, tx.metadata.properties)).commit()
        return Outcome(kind, len(self.data), len(removed), len(self.deletes), len(dropped), action.snapshot_id, plan)


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
