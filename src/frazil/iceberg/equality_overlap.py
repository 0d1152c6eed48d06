"""Equality deletes that cannot hit a file: their keys and the file's values lie apart, by the metrics of both."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries, Mask
from frazil.model.types import DoubleType, FloatType, NestedField

Ints = npt.NDArray[np.int64]
FieldLookup = Callable[[int], NestedField | None]


def may_hit(data: Entries, rows: Ints, part: Entries, deletes: Ints, fields: FieldLookup) -> Mask:
    """For pairs of a data file and an equality delete file: False where no row can equal a key."""
    result = np.ones(len(rows), dtype=bool)
    if not len(rows):
        return result
    keys = part.column(ids.EQUALITY_IDS)
    distinct = {tuple(value) for value in keys.take(pa.array(np.unique(deletes))).to_pylist() if value}
    for field_id in {number for value in distinct for number in value}:
        column = fields(field_id)
        if column is None or not column.type.is_primitive:
            continue
        concerned = _names(keys, field_id)[deletes]
        apart = _apart(data, part, column)(rows[concerned], deletes[concerned])
        result[concerned] &= ~apart
    return result


def _names(keys: pa.Array, field_id: int) -> Mask:
    flat = keys.flatten().to_numpy(zero_copy_only=False) == field_id
    owners = pc.list_parent_indices(keys).to_numpy(zero_copy_only=False)
    mask = np.zeros(len(keys), dtype=bool)
    mask[owners[flat]] = True
    return mask


def _apart(data: Entries, part: Entries, column: NestedField) -> Callable[[Ints, Ints], Mask]:
    mine, theirs = _Facts(data, column), _Facts(part, column)

    def test(rows: Ints, deletes: Ints) -> Mask:
        both_null = mine.may_be_null[rows] & theirs.may_be_null[deletes]
        one_sided = (mine.only_null[rows] & ~theirs.may_be_null[deletes]) | (
            theirs.only_null[deletes] & ~mine.may_be_null[rows]
        )
        below = _less(mine.upper, rows, theirs.lower, deletes)
        above = _less(theirs.upper, deletes, mine.lower, rows)
        both_nan = mine.may_be_nan[rows] & theirs.may_be_nan[deletes]
        found: Mask = ~both_null & (one_sided | ((below | above) & ~both_nan))
        return found

    return test


class _Facts:
    """What the metrics say of one column; what they do not say is taken as possible."""

    def __init__(self, entries: Entries, column: NestedField) -> None:
        nulls = entries.map_values(ids.NULL_COUNTS, column.id)
        values = entries.map_values(ids.VALUE_COUNTS, column.id)
        none = pc.fill_null(pc.equal(nulls, 0), False).to_numpy(zero_copy_only=False)
        every = pc.fill_null(pc.equal(nulls, values), False).to_numpy(zero_copy_only=False)
        # a value missing because the struct around it is null may not be counted: then values are fewer than rows
        counted = pc.equal(values, entries.column(ids.RECORD_COUNT))
        complete = pc.fill_null(counted, False).to_numpy(zero_copy_only=False)
        self.may_be_null: Mask = ~(none & complete) & (not column.required)
        self.only_null: Mask = every & complete & (not column.required)
        self.lower, self.upper = entries.bounds(column)
        # NaN equals NaN in a delete, and lies outside of all bounds
        without = pc.fill_null(pc.equal(entries.map_values(ids.NAN_COUNTS, column.id), 0), False)
        is_floating = isinstance(column.type, FloatType | DoubleType)
        self.may_be_nan: Mask = ~without.to_numpy(zero_copy_only=False) & is_floating


def _less(left: pa.Array, left_rows: Ints, right: pa.Array, right_rows: Ints) -> Mask:
    compared = pc.less(left.take(pa.array(left_rows)), right.take(pa.array(right_rows)))
    found: Mask = pc.fill_null(compared, False).to_numpy(zero_copy_only=False)
    return found
