"""DELETE, UPDATE and MERGE of a Lance table: rows are marked as deleted where they are, and written anew elsewhere.

A DELETE whose condition a filter can say is found by workers, of whom only offsets come back. Else Spark's rules make
the query of the changes, as for any table that knows its rows by file and position: here fragment and offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from frazil.errors import FrazilError, InvalidArgument
from frazil.lance.commit import commit, new_transaction
from frazil.lance.history import History
from frazil.lance.operations.delete import Marked, mark
from frazil.lance.operations.retry import Attempt, until_committed
from frazil.lance.operations.row_changes import commit_row_changes, with_lineage
from frazil.lance.plan import CREATED_AT, METADATA_COLUMNS, ScanPlan, schema_bytes
from frazil.lance.proto.messages import DataFragment, Delete
from frazil.lance.read import FragmentReader
from frazil.lance.rebase import Change
from frazil.lance.results import RowChanges
from frazil.lance.scan import fragment_tasks
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget
from frazil.model.expressions import AlwaysFalse, Expression
from frazil.spark.changes.cardinality import named_violations
from frazil.spark.changes.delta import Changes, Delta
from frazil.spark.lance.matching import matching_rows
from frazil.spark.lance.write import Job, Written
from frazil.spark.write.commit import was_refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.spark.changes.command import Command
    from frazil.spark.lance.handle import LanceHandle

Offsets = npt.NDArray[np.int64]


def change_rows(handle: LanceHandle, command: Command) -> RowChanges:
    """Carry out a DELETE, UPDATE or MERGE."""
    command.check()
    clash = [column.name for column in handle.schema.fields if column.name in METADATA_COLUMNS]
    if clash:
        raise InvalidArgument(
            f"column {clash[0]!r} of {handle.name} hides the column by which rows are changed", hint="rename it"
        )
    where = command.exactly()
    if where is not None:
        return _delete(handle, where, command.spark)
    with command.narrowed() as narrowed:
        change = RowChange(narrowed, handle)
        with named_violations(narrowed):
            if narrowed.is_repeatable:
                return change.run(narrowed.changes())
            with narrowed.made(narrowed.changes()) as changes:
                return change.run(changes)


def _delete(handle: LanceHandle, where: Expression, spark: SparkSession) -> RowChanges:
    """Delete what a filter says; worked out again while others change the same rows."""
    if isinstance(where, AlwaysFalse):
        return RowChanges()
    marked = Marked()
    history = _history(handle)

    def work(at: LanceVersion) -> Attempt:
        nonlocal marked
        marked = mark(history.store, at, matching_rows(spark, history.store, at, where))
        change = _deleting(at, marked, str(where))
        return Attempt(change)

    made = until_committed(history, handle.state, work)
    handle.table._moved(made)
    return _told(marked, made)


def _history(handle: LanceHandle) -> History:
    return handle.table._history()


def _deleting(at: LanceVersion, marked: Marked, predicate: str) -> Change | None:
    if not (marked.updated or marked.removed):
        return None
    body = Delete(updated_fragments=marked.updated, deleted_fragment_ids=marked.removed, predicate=predicate)
    return Change(new_transaction(at.version, delete=body), at, marked.rows)


def _told(marked: Marked, made: LanceVersion | None) -> RowChanges:
    return RowChanges(
        rows_deleted=marked.count,
        data_files_removed=marked.files_removed,
        delete_files_added=len(marked.updated),
        snapshot=made,
    )


@dataclass(frozen=True)
class RowChange:
    """What a command does once its changes are known."""

    command: Command
    handle: LanceHandle

    def run(self, changes: DataFrame) -> RowChanges:
        """Write what comes, mark what goes, commit both. Refused if others changed the same rows."""
        found = Changes(changes, self.command.bridge.classes, self.handle.schema)
        at, store = self.handle.state, self.handle.table.store
        if self.command.kind == "delete":
            marked = mark(store, at, _offsets(found.read()))
            change = _deleting(at, marked, "")
            made = None if change is None else commit(_history(self.handle), change)
            self.handle.table._moved(made)
            return _told(marked, made)
        job = Job.start(store, FileTarget.of(at), self.handle.schema)
        stable = self.handle.is_stable
        written = job.write(found.rows(lineage=stable), self.command.bridge.classes, keeps_ids=stable)
        try:
            return self._commit(found.delta(), written)
        except FrazilError as error:
            if was_refused(error):
                job.abandon()
            raise

    def _commit(self, delta: Delta, written: Sequence[Written]) -> RowChanges:
        gone = _offsets(delta)
        moved = [one for one in written if one.ids is not None]
        done = commit_row_changes(
            _history(self.handle),
            self.handle.state,
            gone,
            updated=self._with_lineage(gone, moved),
            inserted=[one.message() for one in written if one.ids is None],
        )
        self.handle.table._moved(done.snapshot)
        new = done.rows_inserted + done.rows_updated - delta.updated
        return replace(done, rows_inserted=new, rows_updated=delta.updated, rows_deleted=delta.deleted)

    def _with_lineage(self, gone: Mapping[int, Offsets], moved: Sequence[Written]) -> list[DataFragment]:
        """Fragments of rows that keep their ids, and the versions that made them."""
        if not moved:
            return []
        ids, made_in = self._created(gone)
        return [
            with_lineage(one.message(), one.ids, made_in[np.searchsorted(ids, one.ids)])
            for one in moved
            if one.ids is not None
        ]

    def _created(self, gone: Mapping[int, Offsets]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """The ids of rows that go, ascending, and the versions that made them."""
        at = self.handle.state
        reader = FragmentReader(
            self.handle.table.store, ScanPlan(at.version, schema_bytes(at.manifest), (), fragments=())
        )
        found, versions = [], []
        for task in fragment_tasks(at, lineage=True):
            offsets = gone.get(task.fragment_id)
            ids = None if offsets is None else reader.row_ids(task)
            if offsets is not None and ids is not None:
                found.append(ids[offsets])
                versions.append(reader.row_versions(task, CREATED_AT)[offsets])
        every, made_in = np.concatenate(found), np.concatenate(versions)
        order = np.argsort(every)
        return every[order], made_in[order]


def _offsets(delta: Delta) -> dict[int, Offsets]:
    """What goes, by fragment."""
    return {int(fragment): gone.positions.positions for fragment, gone in delta.gone.items()}
