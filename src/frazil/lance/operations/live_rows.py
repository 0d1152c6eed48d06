"""Columns computed from others, fragment by fragment: also files of new columns have a place for each deleted row.

What is in those places is never seen. Nothing is computed from deleted values, which may be why the rows were deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from frazil.lance.deletions import read_deletions
from frazil.lance.plan import FragmentTask
from frazil.lance.read import FragmentReader

Compute = Callable[[pa.RecordBatch], Sequence[pa.Array]]


def computed(
    reader: FragmentReader, task: FragmentTask, schema: pa.Schema, compute: Compute
) -> Iterator[pa.RecordBatch]:
    """What a function makes of a fragment's rows; deleted ones get something that fits."""
    deleted = read_deletions(reader.store, task.deletions)
    start = 0
    for batch in reader.physical(task):
        rows = batch.num_rows
        low, high = np.searchsorted(deleted, (start, start + rows))
        gone = deleted[low:high] - start
        start += rows
        if not len(gone):
            yield pa.RecordBatch.from_arrays(list(compute(batch)), schema=schema)
            continue
        live = np.delete(np.arange(rows), gone)
        arrays = compute(batch.take(pa.array(live)))
        if len(live):  # each deleted row has the value of a neighbour
            places = pa.array(np.clip(np.searchsorted(live, np.arange(rows), side="right") - 1, 0, None))
            filled = [array.take(places) for array in arrays]
        else:
            filled = [_fitting(field, rows) for field in schema]
        yield pa.RecordBatch.from_arrays(filled, schema=schema)


def _fitting(field: pa.Field, rows: int) -> pa.Array:
    """Nulls; zeros and empty texts where there must be no nulls."""
    nulls = pa.nulls(rows, field.type)
    if field.nullable or pa.types.is_nested(field.type) or pa.types.is_dictionary(field.type):
        return nulls
    if isinstance(nulls, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(field.type, _fitting(field.with_type(field.type.storage_type), rows))
    return pa.Array.from_buffers(field.type, rows, [None, *nulls.buffers()[1:]])
