"""Giving columns of the rows that match other values: the rows move to new fragments, with their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.lance.commit import new_transaction
from frazil.lance.feature_flags import has_stable_row_ids
from frazil.lance.history import History
from frazil.lance.operations.delete import mark, matching_rows
from frazil.lance.operations.retry import Attempt, until_committed
from frazil.lance.plan import CREATED_AT, ROW_ID
from frazil.lance.proto.messages import DataFragment, Update
from frazil.lance.read import FragmentReader
from frazil.lance.rebase import Change
from frazil.lance.results import RowChanges
from frazil.lance.row_ids import encode_row_ids, encode_row_versions
from frazil.lance.rows import array_as
from frazil.lance.scan import LanceScan
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget, write_fragments
from frazil.model.assignments import Assign, assignments
from frazil.model.expressions import Expression

_NONE = np.empty(0, np.int64)


@dataclass
class Lineage:
    """The ids of rows that are written anew, and the versions that made them."""

    ids: list[npt.NDArray[np.uint64]] = field(default_factory=list)
    created: list[npt.NDArray[np.uint64]] = field(default_factory=list)

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the two columns of a batch, and give back the others."""
        self.ids.append(batch.column(ROW_ID).to_numpy())
        self.created.append(batch.column(CREATED_AT).to_numpy())
        return batch.drop_columns([ROW_ID, CREATED_AT])

    def put(self, fragments: Sequence[DataFragment]) -> None:
        """Tell fragments, which have the rows in order, whose rows they have."""
        ids, created = np.concatenate(self.ids), np.concatenate(self.created)
        start = 0
        for fragment in fragments:
            end = start + int(fragment.physical_rows)
            fragment.inline_row_ids = encode_row_ids(ids[start:end])
            fragment.inline_created_at = encode_row_versions(created[start:end])
            start = end


def update(history: History, version: LanceVersion, values: Mapping[str, Any], where: Expression) -> RowChanges:
    """Set columns of the rows that match: values are SQL text, or plain values."""
    changes = RowChanges()

    def work(at: LanceVersion) -> Attempt:
        nonlocal changes
        assign = assignments(at.arrow_schema, values)
        found = {task.fragment_id: offsets for _, task, offsets in matching_rows(history.store, at, where)}
        if not found:
            return Attempt(None)
        stable = has_stable_row_ids(at.manifest)
        lineage = Lineage()

        def batches() -> Iterator[pa.RecordBatch]:
            columns = [*at.arrow_schema.names, *([ROW_ID, CREATED_AT] if stable else [])]
            plan = LanceScan(history.store, at, columns=tuple(columns)).plan()
            reader = FragmentReader(history.store, plan)
            for task in plan.tasks():
                offsets = found.get(task.fragment_id, _NONE)
                for start in range(0, len(offsets), plan.batch_rows):
                    for batch in reader.rows(task, offsets[start : start + plan.batch_rows]).to_batches():
                        yield _assigned(lineage.take(batch) if stable else batch, assign, at.arrow_schema)

        written = write_fragments(history.store, FileTarget.of(at), batches())
        if stable:
            lineage.put(written)
        marked = mark(history.store, at, found)
        changed = sorted({at.schema.find(name).id for name in values})
        body = Update(
            removed_fragment_ids=marked.removed,
            updated_fragments=marked.updated,
            new_fragments=written,
            fields_for_preserving_frag_bitmap=changed,
        )
        changes = RowChanges(
            rows_updated=marked.count,
            data_files_added=len(written),
            data_files_removed=marked.files_removed,
            delete_files_added=len(marked.updated),
        )
        return Attempt(Change(new_transaction(at.version, update=body), at, marked.rows), written)

    made = until_committed(history, version, work)
    if made is None:
        return RowChanges()
    return RowChanges(**changes.counts(), snapshot=made)


def _assigned(batch: pa.RecordBatch, assign: Mapping[str, Assign], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        array_as(assign[name](batch), schema.field(name)) if name in assign else batch.column(number)
        for number, name in enumerate(batch.schema.names)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
