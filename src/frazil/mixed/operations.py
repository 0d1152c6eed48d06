"""What happens to a row: the four operations of change data, in the words of several writers."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidArgument, InvalidValue

Actions = npt.NDArray[np.int8]


class Operation(IntEnum):
    """As Amoro numbers them."""

    INSERT = 0
    DELETE = 1
    UPDATE_BEFORE = 2
    UPDATE_AFTER = 3


_WORDS = {
    **{operation.name.lower(): operation for operation in Operation},
    "+i": Operation.INSERT,
    "-d": Operation.DELETE,
    "-u": Operation.UPDATE_BEFORE,
    "+u": Operation.UPDATE_AFTER,
}


def actions_of(column: pa.Array) -> Actions:
    """Operations from their words: `insert`, `update_before` and so on in any case, or Flink's `+I`, `-U`, `+U`, `-D`.

    >>> actions_of(pa.array(["INSERT", "+U", "delete"])).tolist()
    [0, 3, 1]
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise InvalidArgument(f"operations are of type {column.type}", hint=_hint())
    words = pc.utf8_lower(column.cast(pa.string()))
    places = pc.index_in(words, value_set=pa.array(list(_WORDS)))
    if places.null_count:
        unknown: Any = column.filter(places.is_null())[0].as_py()
        raise InvalidValue(f"a row has the operation {unknown!r}, which is unknown", hint=_hint())
    numbers = np.array([int(operation) for operation in _WORDS.values()], dtype=np.int8)
    found: Actions = numbers[places.to_numpy(zero_copy_only=False)]
    return found


def all_of(operation: Operation, rows: int) -> Actions:
    """The same operation for all rows."""
    return np.full(rows, operation, dtype=np.int8)


def _hint() -> str:
    return "use insert, update_before, update_after and delete, or +I, -U, +U and -D"
