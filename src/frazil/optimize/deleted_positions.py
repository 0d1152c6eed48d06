"""Where the deleted rows of a base file are: of its rows only keys are read, and only where deleted ones can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg.data_file import Content
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.read import TaskReader
from frazil.iceberg.scan import BATCH_ROWS
from frazil.iceberg.scan_columns import leaf
from frazil.io.deletion_vector import DeletionVector
from frazil.mixed.change_keys import ChangeKeys
from frazil.mixed.columns import BASE_OFFSET
from frazil.mixed.deleted_keys import DeletedKeys
from frazil.mixed.plan import MixedPlan, PlannedFile
from frazil.model.binding import bind
from frazil.model.expressions import AlwaysTrue, Expression, and_, col
from frazil.model.schema import POS, Schema

_NONE = DeletionVector.from_positions([])


class DeletedPositions:
    """Looks rows of base files up in the deletes of a change store."""

    def __init__(self, merge: MixedPlan, keys: tuple[int, ...]) -> None:
        base = merge.base
        self._keys, self._schema = keys, merge.schema
        self._last: tuple[tuple[str, ...], tuple[DeletedKeys | None, Expression]] | None = None
        self._changes = ChangeKeys(merge.change, merge.schema, keys, BATCH_ROWS)
        self._deletes = DeleteReader(base.store, base.metadata)
        named = (column for column in merge.schema.fields if column.id in keys)
        self._output = Schema((*named, POS))
        self._reader = TaskReader(base.store, base.metadata, self._output, merge.schema, self._deletes, BATCH_ROWS)

    def of(self, one: PlannedFile, changes: Sequence[PlannedFile]) -> DeletionVector:
        """The rows of a base file that are deleted: by deletes of its own, or by those of the change store."""
        task = one.task
        own = self._deletes.positions(task.file, task.deletes) or _NONE
        if any(delete.content == Content.EQUALITY_DELETES for delete in task.deletes):
            alive = self._positions(task)
            own = DeletionVector.from_positions(np.setdiff1d(np.arange(task.file.record_count), alive))
        deleted, where = self._known(tuple(changes))
        if deleted is None:
            return own
        found = list(self._lost(replace(task, residual=where), one.transaction_id, deleted))
        return own.union(*map(DeletionVector.from_positions, found))

    def _known(self, changes: tuple[PlannedFile, ...]) -> tuple[DeletedKeys | None, Expression]:
        """What changes delete, and where it can be; files of a node have the same, and come one after the other."""
        paths = tuple(one.path for one in changes)
        if self._last is None or self._last[0] != paths:
            self._last = paths, (self._changes.deleted(changes), self._range(changes))
        return self._last[1]

    def _positions(self, task: FileScanTask) -> Any:
        reader = replace(self._reader, output=Schema((POS,)))
        return np.concatenate([np.zeros(0, np.int64), *(rows.column(0).to_numpy() for rows in reader.read(task))])

    def _lost(self, task: FileScanTask, transaction_id: int, deleted: DeletedKeys) -> Iterator[Any]:
        for rows in self._reader.read(task):
            columns = [leaf(rows, self._output, key) for key in self._keys]
            kept = deleted.kept(columns, transaction_id, BASE_OFFSET)
            if not kept.all():
                yield rows.column(rows.num_columns - 1).to_numpy()[~kept]

    def _range(self, changes: Iterable[PlannedFile]) -> Expression:
        """What is true of all rows that changes can delete, by the first column of the key, if its order is known."""
        name = self._schema.name_of(self._keys[0])
        columns = [columns[0] for columns, _ in map(self._changes.load, changes) if columns]
        if name is None or not columns or not _is_ordered(columns[0].type) or any(one.null_count for one in columns):
            return AlwaysTrue()
        found = [pc.min_max(column) for column in columns]
        least, most = (pick(one[end].as_py() for one in found) for end, pick in (("min", min), ("max", max)))
        return bind(self._schema, and_(col(name) >= least, col(name) <= most))


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_string(kind))
