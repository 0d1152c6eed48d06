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
    "update": Operation.UPDATE_AFTER,
    # Flink's
    "+i": Operation.INSERT,
    "-d": Operation.DELETE,
    "-u": Operation.UPDATE_BEFORE,
    "+u": Operation.UPDATE_AFTER,
    # a letter each; Debezium's are create, update, delete, read
    "i": Operation.INSERT,
    "u": Operation.UPDATE_AFTER,
    "d": Operation.DELETE,
    "c": Operation.INSERT,
    "r": Operation.INSERT,
    # Delta's
    "update_preimage": Operation.UPDATE_BEFORE,
    "update_postimage": Operation.UPDATE_AFTER,
}


def words_for(*operations: Operation) -> tuple[str, ...]:
    """The words, in small letters, for operations.

    >>> words_for(Operation.UPDATE_BEFORE)
    ('update_before', '-u', 'update_preimage')
    """
    return tuple(word for word, operation in _WORDS.items() if operation in operations)


def actions_of(column: pa.Array) -> Actions:
    """Operations from their words, in any case: `insert`, `update_before` and so on, Flink's `+I`, `-U`, `+U`, `-D`,
    the letters `I`, `U`, `D`, Debezium's `c`, `u`, `d`, `r`, and Delta's `update_preimage`, `update_postimage`.

    >>> actions_of(pa.array(["INSERT", "+U", "delete", "r", "u"])).tolist()
    [0, 3, 1, 0, 3]
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise InvalidArgument(f"operations are of type {column.type}", hint=_hint())
    words = pc.utf8_lower(column.cast(pa.string()))
    places = pc.index_in(words, value_set=pa.array(list(_WORDS)))
    if places.null_count:
        raise unknown_operation(column.filter(places.is_null())[0].as_py())
    numbers = np.array([int(operation) for operation in _WORDS.values()], dtype=np.int8)
    found: Actions = numbers[places.to_numpy(zero_copy_only=False)]
    return found


def unknown_operation(told: Any) -> InvalidValue:
    """The error for a word that is none of them."""
    return InvalidValue(f"a row has the operation {told!r}, which is unknown", hint=_hint())


def arrivals(actions: Actions) -> npt.NDArray[np.bool_]:
    """Which of them bring a row; the others take one."""
    found: npt.NDArray[np.bool_] = (actions == Operation.INSERT) | (actions == Operation.UPDATE_AFTER)
    return found


def all_of(operation: Operation, rows: int) -> Actions:
    """The same operation for all rows."""
    return np.full(rows, operation, dtype=np.int8)


def _hint() -> str:
    return "use insert, update_before, update_after and delete, or +I, -U, +U and -D, or I, U and D, or c, u, d and r"
