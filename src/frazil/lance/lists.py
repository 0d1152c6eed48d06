"""Lists in the layouts that Arrow has for them: with offsets of 32 or 64 bits, or all of one length."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidValue


def plain_list(array: pa.Array) -> pa.ListArray:
    """A list with offsets of 32 bits, whatever layout it had."""
    if pa.types.is_list(array.type):
        return array
    if not pa.types.is_fixed_size_list(array.type):
        return array.cast(pa.list_(array.type.value_field))
    lengths = np.full(len(array), array.type.list_size, np.int32)
    mask = array.is_null() if array.null_count else None
    if mask is not None:
        lengths[mask.to_numpy(zero_copy_only=False)] = 0
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, array.flatten(), mask=mask)


def as_list(array: pa.ListArray, field: pa.Field) -> pa.Array:
    """A list in the layout of a column; InvalidValue if its vectors have another length."""
    if not pa.types.is_fixed_size_list(field.type):
        return array if array.type == field.type else array.cast(field.type)
    size = field.type.list_size
    lengths = pc.list_value_length(array)
    others = pc.not_equal(lengths, size)
    if others.true_count:
        given = lengths.filter(others)[0].as_py()
        raise InvalidValue(
            f"column {field.name!r} has vectors of {size} values, and is given one of {given}",
            hint="give vectors of that length",
            column=field.name,
        )
    if not array.null_count:
        return pa.FixedSizeListArray.from_arrays(array.flatten(), type=field.type)
    mask = array.is_null()
    starts = np.asarray(array.offsets)[:-1]
    places = (starts[:, None] + np.arange(size)).reshape(-1)
    absent = np.repeat(mask.to_numpy(zero_copy_only=False), size)
    values = array.values.take(pa.array(places, mask=absent))
    return pa.FixedSizeListArray.from_arrays(values, type=field.type, mask=mask)


def has_layout(array: pa.Array, wanted: pa.DataType) -> bool:
    """Whether an array has the layout of a type, whatever its values are."""
    if pa.types.is_fixed_size_list(wanted):
        return bool(pa.types.is_fixed_size_list(array.type) and array.type.list_size == wanted.list_size)
    return bool(array.type.id == wanted.id)


def with_values(array: pa.Array, values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The lists of an array with other values, as many as `array.values` has; both are of one layout."""
    buffers = array.buffers()[: 1 if pa.types.is_fixed_size_list(wanted) else 2]
    return pa.Array.from_buffers(wanted, len(array), buffers, offset=array.offset, children=[values])
