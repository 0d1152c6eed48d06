"""Deleting the rows that match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.io.store import Store
from frazil.lance.commit import new_transaction
from frazil.lance.deletions import read_deletions, write_deletions
from frazil.lance.history import History
from frazil.lance.operations.retry import Attempt, until_committed
from frazil.lance.plan import FragmentTask, ScanPlan
from frazil.lance.proto.messages import DataFragment, Delete
from frazil.lance.read import FragmentReader
from frazil.lance.rebase import Change
from frazil.lance.results import RowChanges
from frazil.lance.scan import LanceScan
from frazil.lance.version import LanceVersion
from frazil.model.expressions import AlwaysTrue, Expression

Offsets = npt.NDArray[np.int64]


@dataclass
class Marked:
    """Rows marked as deleted: fragments that keep some, and those that keep none."""

    updated: list[DataFragment] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    rows: dict[int, Offsets] = field(default_factory=dict)
    count: int = 0
    files_removed: int = 0


def matching_rows(
    store: Store, version: LanceVersion, where: Expression
) -> Iterable[tuple[FragmentReader, FragmentTask, Offsets]]:
    """The rows that match, fragment by fragment; fragments without any are left out."""
    plan: ScanPlan = LanceScan(store, version, where, ()).plan()
    reader = FragmentReader(store, plan)
    for task in plan.tasks():
        found = reader.matching(task)
        offsets = np.arange(task.physical_rows) if found is None else found
        if len(offsets):
            yield reader, task, offsets


def mark(store: Store, version: LanceVersion, rows: Mapping[int, Offsets]) -> Marked:
    """Write deletion files for rows of a version, by fragment, that are not deleted yet."""
    marked = Marked()
    fragments = {int(fragment.id): fragment for fragment in version.manifest.fragments}
    tasks = {task.fragment_id: task for task in LanceScan(store, version, columns=()).plan().tasks()}
    for number, offsets in rows.items():
        task = tasks[number]
        marked.count += len(offsets)
        if len(offsets) == task.rows:
            marked.removed.append(number)
            marked.files_removed += len(task.files)
            continue
        gone = np.union1d(read_deletions(store, task.deletions), offsets)
        fragment = DataFragment()
        fragment.CopyFrom(fragments[number])
        fragment.deletion_file.CopyFrom(write_deletions(store, version.folder, number, version.version, gone))
        marked.updated.append(fragment)
        marked.rows[number] = offsets
    return marked


def delete(history: History, version: LanceVersion, where: Expression) -> RowChanges:
    """Delete the rows that match; no new version if there are none."""
    marked = Marked()

    def work(at: LanceVersion) -> Attempt:
        nonlocal marked
        if isinstance(where, AlwaysTrue):
            tasks = list(LanceScan(history.store, at, columns=()).plan().tasks())
            marked = Marked(
                removed=[task.fragment_id for task in tasks],
                count=sum(task.rows for task in tasks),
                files_removed=sum(len(task.files) for task in tasks),
            )
        else:
            found = {task.fragment_id: offsets for _, task, offsets in matching_rows(history.store, at, where)}
            marked = mark(history.store, at, found)
        if not marked.updated and not marked.removed:
            return Attempt(None)
        body = Delete(updated_fragments=marked.updated, deleted_fragment_ids=marked.removed, predicate=str(where))
        return Attempt(Change(new_transaction(at.version, delete=body), at, marked.rows))

    made = until_committed(history, version, work)
    return RowChanges(
        rows_deleted=marked.count,
        data_files_removed=marked.files_removed,
        delete_files_added=len(marked.updated),
        snapshot=made,
    )
