"""Replacing the rows that match by others, in one version."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from frazil.lance.commit import new_transaction
from frazil.lance.history import History
from frazil.lance.operations.delete import mark, matching_rows
from frazil.lance.operations.retry import Attempt, until_committed
from frazil.lance.proto.messages import Update
from frazil.lance.rebase import Change
from frazil.lance.rows import rows_as
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget, write_fragments
from frazil.model.expressions import Expression


def replace_rows(history: History, version: LanceVersion, rows: Any, where: Expression) -> LanceVersion:
    """Delete the rows that match and add others."""
    given = list(rows_as(rows, version.arrow_schema))  # read once, written as often as needed

    def work(at: LanceVersion) -> Attempt:
        batches = rows_as(pa.Table.from_batches(given, version.arrow_schema), at.arrow_schema)
        found = {task.fragment_id: offsets for _, task, offsets in matching_rows(history.store, at, where)}
        written = write_fragments(history.store, FileTarget.of(at), batches)
        marked = mark(history.store, at, found)
        body = Update(
            removed_fragment_ids=marked.removed,
            updated_fragments=marked.updated,
            new_fragments=written,
            fields_for_preserving_frag_bitmap=[field.id for field in at.manifest.fields],
        )
        return Attempt(Change(new_transaction(at.version, update=body), at, marked.rows), written)

    made = until_committed(history, version, work)
    assert made is not None
    return made
