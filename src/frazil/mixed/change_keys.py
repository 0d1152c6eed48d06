"""Keys and offsets of change files: what tells which rows are gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.read import TaskReader
from frazil.iceberg.scan_columns import leaf
from frazil.io.store import Store
from frazil.mixed.columns import FILE_OFFSET, NO_OFFSET
from frazil.mixed.deleted_keys import DeletedKeys, Ints
from frazil.mixed.plan import PlannedFile, StoreState
from frazil.model.arrow import schema_to_arrow
from frazil.model.schema import Schema
from frazil.recent import Recent

Keys = tuple[list[pa.Array], Ints]
"""The key columns of a file's rows, and their offsets; no columns if there are no rows."""


Place = tuple[Store, str, tuple[int, ...], str]
Memory = Recent[Place, Keys]
_REMEMBERED_BYTES = 256 << 20
_EACH = 200
"""About what a file takes beside its keys."""


def new_memory(most_bytes: int) -> Memory:
    """What remembers keys of files, up to so many bytes."""
    return Recent(most_bytes, lambda keys: sum(column.nbytes for column in keys[0]) + keys[1].nbytes + _EACH)


@dataclass
class ChangeKeys:
    """Reads the keys of change files, each once: files of a wide node belong to many tasks. Safe to share."""

    change: StoreState
    schema: Schema
    keys: tuple[int, ...]
    """The field ids of the primary key, in its order."""
    batch_rows: int
    memory: Memory = field(default_factory=lambda: new_memory(_REMEMBERED_BYTES))
    """What was read; one that is shared is for files that are read whole."""

    def __post_init__(self) -> None:
        fields = (column for column in self.schema.fields if column.id in self.keys)
        self._output = Schema((*fields, FILE_OFFSET))
        deletes = DeleteReader(self.change.store, self.change.metadata)
        self._reader = TaskReader(
            self.change.store, self.change.metadata, self._output, self.schema, deletes, self.batch_rows
        )

    def load(self, one: PlannedFile) -> Keys:
        """The keys of a file, of rows that its residual filter takes."""
        place = self._place(one)
        known = self.memory.get(place)
        if known is not None:
            return known
        batches = list(self._reader.read(one.task))
        rows = pa.Table.from_batches(batches, schema_to_arrow(self._output)).combine_chunks().to_batches()
        if rows:
            columns = [leaf(rows[0], self._output, number) for number in self.keys]
            known = columns, offsets_of(rows[0].column(rows[0].num_columns - 1))
        else:
            known = [], np.zeros(0, dtype=np.int64)
        self.memory.put(place, known)
        return known

    def _place(self, one: PlannedFile) -> Place:
        return self.change.store, one.path, self.keys, str(self._output)

    def deleted(self, files: Sequence[PlannedFile]) -> DeletedKeys | None:
        """What files of deletes delete; None if that is nothing."""
        loaded = [(one.transaction_id, *self.load(one)) for one in files]
        loaded = [(transaction, columns, offsets) for transaction, columns, offsets in loaded if len(offsets)]
        if not loaded:
            return None
        columns = [pa.concat_arrays([part[1][place] for part in loaded]) for place in range(len(self.keys))]
        transactions = np.concatenate([np.full(len(part[2]), part[0], dtype=np.int64) for part in loaded])
        return DeletedKeys(columns, transactions, np.concatenate([part[2] for part in loaded]))


def offsets_of(column: pa.Array) -> Ints:
    """Offsets of rows; those that have none are before all others."""
    offsets: Ints = pc.fill_null(column, NO_OFFSET).to_numpy(zero_copy_only=False)
    return offsets
