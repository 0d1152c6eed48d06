"""A row-level command carried out, in one commit: by metadata alone, by rewriting files, or by deletes beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from frazil.counts import total
from frazil.errors import FrazilError
from frazil.iceberg import properties as props
from frazil.iceberg.actions.isolated_changes import FilteredChanges
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.delete_writer import DeleteWriter, WrittenDeletes
from frazil.iceberg.file_filter import FileFilter
from frazil.iceberg.merge_on_read import fill
from frazil.iceberg.planning import FileScanTask, ScanPlan
from frazil.iceberg.properties import Property
from frazil.iceberg.read import TaskReader
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.scan import BATCH_ROWS, Scan
from frazil.iceberg.write import remove_files
from frazil.model.binding import field_ids
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, Expression
from frazil.model.schema import Schema
from frazil.spark.changes.cardinality import named_violations
from frazil.spark.changes.command import Command
from frazil.spark.changes.delta import Changes, Delta, Gone, with_lineage
from frazil.spark.scan.some_files import rows_of_files
from frazil.spark.write.commit import as_told, was_refused
from frazil.spark.write.insert import write_files
from frazil.spark.write.job import Job
from frazil.spark.write.native import remove_folder
from frazil.spark.write.partitions import Transforms
from frazil.spark.write.rows import by_position
from frazil.spark.write.settings import NONE, WriteSettings, settings_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.iceberg.metadata import TableMetadata
    from frazil.iceberg.table import TableTransaction
    from frazil.spark.handles import CommandKind
    from frazil.spark.iceberg.handle import IcebergHandle

COPY_ON_WRITE = "copy-on-write"
SERIALIZABLE = "serializable"
_MODES: dict[CommandKind, Property[str]] = {
    "delete": props.DELETE_MODE,
    "update": props.UPDATE_MODE,
    "merge": props.MERGE_MODE,
}
_LEVELS: dict[CommandKind, Property[str]] = {
    "delete": props.DELETE_ISOLATION_LEVEL,
    "update": props.UPDATE_ISOLATION_LEVEL,
    "merge": props.MERGE_ISOLATION_LEVEL,
}
Touched = Sequence[tuple[FileScanTask, Gone]]
_FEW = 100_000
_OF_A_TASK, _OPENING = 128 << 20, 4 << 20
"""How much Spark gives a task to read unless told otherwise, and what it reckons for a file."""
_LEAST_SPLIT = 16 << 20
"""Files are rewritten in parts as large as they are, if there is work for all cores."""


def copies(handle: IcebergHandle, kind: CommandKind) -> bool:
    """Whether the table wants files with changed rows written anew."""
    return handle.table.metadata.property_reader.get(_MODES[kind]) == COPY_ON_WRITE


def change_rows(handle: IcebergHandle, command: Command) -> RowChanges:
    """Carry out a DELETE, UPDATE or MERGE."""
    spark = command.spark
    command.check()
    isolation = handle.table.metadata.property_reader.get(_LEVELS[command.kind])
    mode = handle.table.metadata.properties.get(f"write.{command.kind}.distribution-mode")
    settings = settings_of(handle, {} if mode is None else {"distribution-mode": mode}, spark)
    where = command.exactly()
    if where is not None:
        changed = delete_whole_files(handle, where, settings, spark, isolation)
        if changed is not None:
            return changed
    with command.narrowed() as narrowed:
        # what it reads of the table besides the rows that it may change is all of it
        looked_at = AlwaysTrue() if command.reads_itself else narrowed.depends_on()
        minds_all = command.reads_itself or command.minds_matches
        change = Change(narrowed, handle, settings, looked_at, isolation, minds_all)
        with named_violations(narrowed):
            if narrowed.is_repeatable:
                return change.run(narrowed.changes())
            with narrowed.made(narrowed.changes()) as changes:
                return change.run(changes)


def truncate(handle: IcebergHandle, spark: SparkSession) -> None:
    """Delete all rows, from the branch that the session writes to; those too that others add meanwhile."""
    settings = settings_of(handle, {}, spark)
    if not len(_plan(handle, AlwaysTrue())):
        return
    action = handle.table.new_delete().delete_where(AlwaysTrue())
    as_told(action, settings, spark)
    action.commit()


def delete_whole_files(
    handle: IcebergHandle, where: Expression, settings: WriteSettings, spark: SparkSession, isolation: str
) -> RowChanges | None:
    """Delete rows by taking their files from the table; None if some rows of a file may not match."""
    if isinstance(where, AlwaysFalse):
        return RowChanges()
    table = handle.table
    matching = FileFilter(table.metadata, handle.schema, where)
    plan = _plan(handle, where)
    if not all(matching.every(part.entries).all() for part in plan.parts):
        return None
    tasks = list(plan.tasks())
    deletes = DeleteReader(table.store, table.metadata)
    counting = TaskReader(table.store, table.metadata, Schema(()), handle.schema, deletes, BATCH_ROWS)
    rows = total(map(counting.count_removed, tasks))
    if rows == 0:
        return RowChanges()
    action = table.new_overwrite()
    for task in tasks:
        action.delete_file(task.file)
    as_told(action, settings, spark)
    _isolate(action.validate_no_conflicting_deletes(), handle, where, isolation).commit()
    return RowChanges(
        rows_deleted=rows,
        data_files_removed=len(tasks),
        snapshot=table.snapshot(action.snapshot_id),
    )


def _plan(handle: IcebergHandle, where: Expression) -> ScanPlan:
    """The files that may hold matching rows, with the metrics that tell."""
    table = handle.table
    scan = Scan(table.metadata, table.store, handle.snapshot, handle.schema, where)
    return replace(scan, metrics_of=frozenset(field_ids(where))).plan()


def _isolate(action: Any, handle: IcebergHandle, where: Expression, isolation: str) -> Any:
    """Refuse the change if others changed what it was worked out from."""
    base = handle.snapshot
    action.validate_from(None if base is None else base.snapshot_id)
    action.conflict_filter(where)
    return action.validate_no_conflicting_data() if isolation == SERIALIZABLE else action


@dataclass(frozen=True)
class Change:
    """What a command does once its changes are known. `where` is true for all rows that it looked at."""

    command: Command
    _handle: IcebergHandle
    settings: WriteSettings
    where: Expression
    isolation: str
    minds_all: bool
    """Whether rows that it looked at and left alone matter to what it did."""

    @property
    def _metadata(self) -> TableMetadata:
        return self._handle.table.metadata

    @cached_property
    def _schema(self) -> Schema:
        """The columns of files that are written: rows of format 3 keep who they are."""
        schema = self._handle.schema
        return with_lineage(schema) if self._metadata.format_version >= 3 else schema

    @cached_property
    def _commit(self) -> TableTransaction:
        return self._handle.transaction(self.command.bridge)

    def run(self, changes: DataFrame) -> RowChanges:
        """Write what comes, take away what goes."""
        found = Changes(changes, self.command.bridge.classes, self._handle.schema)
        written = _Written(self._handle)
        try:
            delta, touched = (self._copy if self.command.copies else self._note)(found, written)
            action = self._action(touched, written)
        except BaseException:
            written.abandon()
            raise
        return self._committed(action, delta, written, touched)

    def _copy(self, changes: Changes, written: _Written) -> tuple[Delta, Touched]:
        """Write the rows that come, and those that stay of files that lose some."""
        delta = changes.read()
        touched = self._touched(delta)
        rows = None
        if self.command.kind != "delete" and (touched or self.command.kind == "merge"):
            rows = changes.rows(lineage=self._keeps_lineage)
            if self.settings.distribution == NONE:
                few = delta.noted and delta.updated + delta.inserted <= _FEW
                rows = rows.repartition(1) if few else rows.hint("rebalance")  # each task writes a file
        rows = self._with_carried(rows, touched)
        if rows is not None:
            self._write_rows(rows, written)
        return delta, touched

    def _note(self, changes: Changes, written: _Written) -> tuple[Delta, Touched]:
        """Write the rows that come, and beside the files that lose rows which ones those are."""
        if self.command.kind == "delete":
            delta = changes.read()
        else:
            rows = changes.rows(lineage=self._keeps_lineage)
            moved = self.settings.distribution == NONE and not self._is_read_by_few_tasks
            self._write_rows(rows.hint("rebalance") if moved else rows, written)
            delta = changes.delta()
        touched = self._touched(delta)
        if touched:
            writer = DeleteWriter(self._metadata, self._handle.table.store, properties=self.settings.properties)
            written.deletes = writer.write((task, gone.positions) for task, gone in touched)
        return delta, touched

    @cached_property
    def _planned(self) -> ScanPlan:
        return _plan(self._handle, self.where)

    @property
    def _is_read_by_few_tasks(self) -> bool:
        """Whether the tasks that find the rows of an UPDATE may write them too: no more than there are cores."""
        if self.command.kind != "update" or not self.command.is_repeatable:
            return False
        cores = self.command.spark.sparkContext.defaultParallelism
        return self._planned.total_bytes + len(self._planned) * _OPENING <= cores * _OF_A_TASK

    def _touched(self, delta: Delta) -> Touched:
        return delta.touched(self._planned) if delta.gone else []

    @property
    def _keeps_lineage(self) -> bool:
        return self._metadata.format_version >= 3

    def _with_carried(self, rows: DataFrame | None, touched: Touched) -> DataFrame | None:
        """Rows that come, and those that stay of files that go: about as many files as went, if they were not small."""
        left = {task.file.file_path: gone.positions for task, gone in touched if not _is_empty(task, gone)}
        if not left:
            return rows
        size = sum(task.file.file_size_in_bytes for task, _ in touched if task.file.file_path in left)
        share = size // self.command.spark.sparkContext.defaultParallelism
        split = max(_LEAST_SPLIT, min(self.settings.target_bytes, share))
        carried = rows_of_files(
            self.command.bridge,
            self.command.spark,
            self._handle,
            self._schema.columns,
            list(left),
            without=left,
            split_bytes=split,
        )
        if rows is None:
            return carried
        together = carried.union(rows)
        # each task writes a file, and changed rows are few
        return together.coalesce(-(-size // split)) if self.settings.distribution == NONE else together

    def _write_rows(self, rows: DataFrame, written: _Written) -> None:
        bridge, table = self.command.bridge, self._handle.table
        fitted = by_position(rows, self._schema, bridge.classes)
        written.job = Job.start(self.command.spark, table.store, table.metadata, self._schema, self.settings)
        written.files = write_files(bridge, written.job, fitted, Transforms(bridge.name))

    def _action(self, touched: Touched, written: _Written) -> FilteredChanges | None:
        if not (touched or written.files):
            return None
        action: Any = self._replacing(touched, written) if self.command.copies else self._beside(touched, written)
        as_told(action, self.settings, self.command.spark)
        isolated: FilteredChanges = _isolate(action, self._handle, self.where, self.isolation)
        if self.minds_all and self.isolation == SERIALIZABLE:
            isolated.validate_no_removed_rows()
        return isolated

    def _replacing(self, touched: Touched, written: _Written) -> Any:
        action = self._commit.new_overwrite().add_files(written.files)
        for task, _ in touched:
            action.delete_file(task.file)
        return action.validate_no_conflicting_deletes()

    def _beside(self, touched: Touched, written: _Written) -> Any:
        action = self._commit.new_row_delta()
        for file in written.files:
            action.add_rows(file)
        fill(action, written.deletes, written.deletes.emptied)
        paths = [task.file.file_path for task, _ in touched]
        return action.validate_data_files_exist(paths).validate_deleted_files().validate_no_conflicting_deletes(paths)

    def _committed(self, action: Any, delta: Delta, written: _Written, touched: Touched) -> RowChanges:
        try:
            with self._commit:
                if action is not None:
                    action.commit()
        except FrazilError as error:
            if was_refused(error):
                written.abandon()
            raise
        if action is None:
            return RowChanges()
        rows = sum(file.record_count for file in written.files)
        return RowChanges(
            rows_inserted=delta.inserted if self.command.copies and delta.noted else rows - delta.updated,
            rows_updated=delta.updated,
            rows_deleted=delta.deleted,
            data_files_added=len(written.files),
            data_files_removed=len(touched) if self.command.copies else len(written.deletes.emptied),
            delete_files_added=len(written.deletes.added),
            delete_files_removed=len(written.deletes.removed),
            snapshot=self._handle.table.snapshot(action.snapshot_id),
        )


def _is_empty(task: FileScanTask, gone: Gone) -> bool:
    """Whether a file has no row left, as far as that can be told without reading its deletes."""
    return gone.cardinality == task.file.record_count


class _Written:
    """Files that a change wrote, and how they are taken back."""

    def __init__(self, handle: IcebergHandle) -> None:
        self._handle = handle
        self.job: Job | None = None
        self.files: list[DataFile] = []
        self.deletes = WrittenDeletes([], [], [], 0)

    def abandon(self) -> None:
        """Remove everything: it was definitely not committed."""
        if self.job is not None:
            remove_folder(self.job)
        remove_files(self._handle.table.store, self.deletes.added)
