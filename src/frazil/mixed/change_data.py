"""Change data: rows of which each says what happened to it, made into changes that can be written.

An update's new row takes the place of the old one. Where the old one is not told, what has its key is deleted first; so
it is for an insert into a table that upserts. A delete may tell no more than the key: where that does not tell the
partition, or lacks values that are required, rows that go are looked for, and what is left of the changes of a key is
its last one (`last_of_keys`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidArgument, InvalidValue, Unsupported
from frazil.iceberg.delete_index import comparable
from frazil.mixed.operations import Actions, Operation, actions_of, all_of, unknown_operation
from frazil.model.schema import Schema
from frazil.model.types import ListType, MapType, NestedField, StructType, Type

Mask = npt.NDArray[np.bool_]


@dataclass
class ToldChanges:
    """Completes changes, batch by batch; an update's old row may be the last one of the batch before."""

    upsert: bool
    knows_partition: bool
    """Whether the partition of a row follows from its key."""
    _before: tuple[Actions, list[pa.Array]] | None = field(default=None, init=False)

    def complete(
        self, rows: pa.RecordBatch, actions: Actions, keys: Sequence[pa.Array]
    ) -> tuple[pa.RecordBatch, Actions]:
        """The changes, with the deletes that were not told."""
        values = [comparable(column) for column in keys]
        lone = (actions == Operation.UPDATE_AFTER) & ~self._follows_its_before(actions, values)
        replaces = lone | ((actions == Operation.INSERT) & self.upsert)
        if replaces.any() and not self.knows_partition:
            raise Unsupported(
                "an update's new row comes before its old one, which may be in another partition",
                hint="order by columns that put each update_before row right before its update_after row",
            )
        if len(actions):
            self._before = actions[-1:], [column.slice(len(column) - 1) for column in values]
        return replacing(rows, replaces, actions)

    def _follows_its_before(self, actions: Actions, keys: Sequence[pa.Array]) -> Mask:
        """Where the row before has the same key, and is the old one of an update."""
        before, last = (actions[:0], [column.slice(0, 0) for column in keys]) if self._before is None else self._before
        joined = [pa.concat_arrays(pair) for pair in zip(last, keys, strict=True)]
        olds = _previous(np.concatenate([before, actions])) == Operation.UPDATE_BEFORE
        found: Mask = equals_previous(joined) & olds
        return found[len(before) :]


def tells_old_rows(actions: Actions, keys: Sequence[pa.Array]) -> bool:
    """Whether changes tell of all rows that go how they were, and so in which partition: there are updates with their
    old rows, and rows that are new. Of a delete nobody knows: it may tell the key alone.
    """
    if (actions == Operation.DELETE).any():
        return False
    pairs = (_previous(actions) == Operation.UPDATE_BEFORE) & equals_previous([comparable(key) for key in keys])
    return bool(pairs[actions == Operation.UPDATE_AFTER].all())


def loosened(schema: Schema, keys: Container[NestedField]) -> Schema:
    """A schema in which only the key is required, at any depth: what a delete has to tell."""
    return Schema(tuple(column if column in keys else _optional(column) for column in schema.fields))


def _optional(column: NestedField) -> NestedField:
    return replace(column, required=False, type=_of_optional(column.type))


def _of_optional(type_: Type) -> Type:
    if isinstance(type_, StructType):
        return StructType(tuple(map(_optional, type_.fields)))
    if isinstance(type_, ListType):
        return ListType(_optional(type_.element))
    if isinstance(type_, MapType):
        return replace(type_, value=_optional(type_.value))
    return type_


def last_of_keys(keys: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """The places of the last rows of all keys, in the order of the rows."""
    columns = [one.storage if isinstance(one, pa.ExtensionArray) else one for one in keys]
    names = [str(place) for place in range(len(columns))]
    numbered = pa.table([*columns, pa.array(np.arange(len(columns[0])))], names=[*names, "row"])
    found = numbered.group_by(names).aggregate([("row", "max")])["row_max"].to_numpy()
    return np.sort(found)


def _previous(actions: Actions) -> Actions:
    """What happened to the row before each; the first one has none."""
    shifted = np.full(len(actions), -1, dtype=np.int8)
    shifted[1:] = actions[:-1]
    return shifted


def equals_previous(columns: Sequence[pa.Array]) -> Mask:
    """Where all values are those of the row before."""
    result = np.zeros(len(columns[0]), dtype=bool)
    result[1:] = True
    for column in columns:
        if len(column) > 1:
            same = pc.fill_null(pc.equal(column.slice(1), column.slice(0, len(column) - 1)), False)
            result[1:] &= same.to_numpy(zero_copy_only=False)
    return result


@dataclass
class OneOrder:
    """Checks that it is known which of the changes of a key came first. They come sorted by key and then by place."""

    keys: tuple[str, ...]
    order: tuple[str, ...]
    """Columns that say when a change happened, if there are any."""
    _before: tuple[Actions, list[pa.Array]] | None = field(default=None, init=False)

    def check(self, actions: Actions, keys: Sequence[pa.Array], places: Sequence[pa.Array]) -> None:
        """Refuse changes without a place, and two of one key with the same, but an update's rows."""
        missing = next((name for name, column in zip(self.order, places, strict=True) if column.null_count), None)
        if missing is not None:
            raise without_place(missing)
        values = [comparable(column) for column in (*keys, *places)]
        if self._before is not None:
            before, last = self._before
            actions = np.concatenate([before, actions])
            values = [pa.concat_arrays(pair) for pair in zip(last, values, strict=True)]
        pairs = (_previous(actions) == Operation.UPDATE_BEFORE) & (actions == Operation.UPDATE_AFTER)
        found = np.flatnonzero(equals_previous(values) & ~pairs)
        if len(found):
            raise self._refused([column[int(found[0])].as_py() for column in values[: len(keys)]])
        if len(actions):
            self._before = actions[-1:], [column.slice(len(column) - 1) for column in values]

    def _refused(self, key: Sequence[Any]) -> InvalidValue:
        return unclear_order(self.keys, key, self.order)


def without_place(column: str) -> InvalidValue:
    """The error for a change of which nobody knows when it happened."""
    return InvalidValue(f"a change has no {column}, which says when it happened", hint="give all of them one")


def unclear_order(keys: Sequence[str], key: Sequence[Any], order: Sequence[str]) -> InvalidValue:
    """The error for changes of a key of which nobody knows which came first."""
    shown = ", ".join(f"{name} = {value!r}" for name, value in zip(keys, key, strict=True))
    if order:
        return InvalidValue(
            f"two changes of the key {shown} have the same {', '.join(order)}",
            hint="order by columns that tell all changes of a key apart",
        )
    return InvalidValue(
        f"there are several changes of the key {shown}, and nothing says which came first",
        hint="name the column that says when each happened: order='ts'",
    )


def replacing(
    rows: pa.RecordBatch, which: npt.NDArray[np.bool_], actions: Actions | None = None
) -> tuple[pa.RecordBatch, Actions]:
    """Changes in which some rows first delete the row with their key, and then come."""
    actions = all_of(Operation.INSERT, rows.num_rows) if actions is None else actions
    if not which.any():
        return rows, actions
    places = np.repeat(np.arange(rows.num_rows), 1 + which)
    repeated = actions[places]
    first = np.flatnonzero(np.diff(places, append=-1) == 0)
    repeated[first] = Operation.DELETE
    repeated[first + 1] = Operation.INSERT
    return rows.take(pa.array(places)), repeated


def in_order(rows: Any, order: Sequence[str], columns: Sequence[str]) -> Any:
    """Rows sorted by columns, of which those that the table has stay."""
    if not order:
        return rows
    extra = [name for name in order if name not in columns]
    if _are_dicts(rows):
        listed = list(rows)
        known = {name for row in listed for name in row}
        _refuse_missing(order, known)
        places = _sorted(pa.table({name: _column(name, [row.get(name) for row in listed]) for name in order}))
        return [{name: value for name, value in listed[place].items() if name not in extra} for place in places]
    table = _as_table(rows)
    _refuse_missing(order, table.column_names)
    return table.take(pa.array(_sorted(table.select(list(order))))).drop_columns(extra)


def _refuse_missing(order: Sequence[str], known: Container[str]) -> None:
    missing = next((name for name in order if name not in known), None)
    if missing is not None:
        raise InvalidArgument(f"the rows have no column {missing!r}", hint="name columns that say when each happened")


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidValue(
            f"values of {name}, which says when a change happened, do not compare: {error}", hint="give all one type"
        ) from None


def _sorted(places: pa.Table) -> list[int]:
    """The order of rows by what says when each happened, which all must have."""
    missing = next((name for name in places.column_names if places.column(name).null_count), None)
    if missing is not None:
        raise without_place(missing)
    try:
        found = pc.sort_indices(places, sort_keys=[(name, "ascending") for name in places.column_names])
    except pa.ArrowException as error:
        raise InvalidArgument(f"changes cannot be sorted: {error}", hint="order by numbers, times or texts") from None
    order: list[int] = found.to_pylist()
    return order


def _are_dicts(rows: Any) -> bool:
    return isinstance(rows, list | tuple) and all(isinstance(row, Mapping) for row in rows)


def _as_table(rows: Any) -> pa.Table:
    if type(rows).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False)
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table) and hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows).read_all()
    if not isinstance(rows, pa.Table):
        raise InvalidArgument(f"{type(rows).__name__} holds no changes", hint="give an Arrow table or a list of dicts")
    return rows


def split(rows: Any, operation: str, columns: Sequence[str]) -> tuple[Any, Actions]:
    """Rows and their operations, which stay in the rows where they are a column of the table."""
    if _are_dicts(rows):
        missing = next((row for row in rows if operation not in row), None)
        if missing is not None:
            raise InvalidArgument(f"a row has no {operation!r}", hint="each row says what happened in that column")
        words = [row[operation] for row in rows]
        unknown = next((word for word in words if not isinstance(word, str)), "")
        if unknown != "":
            raise unknown_operation(unknown)
        actions = actions_of(pa.array(words, pa.string()))
        if operation in columns:
            return rows, actions
        return [{name: value for name, value in row.items() if name != operation} for row in rows], actions
    rows = _as_table(rows)
    if operation not in rows.schema.names:
        raise InvalidArgument(
            f"the rows have no column {operation!r}", hint="name the column that says what happened to each row"
        )
    actions = actions_of(rows.column(operation).combine_chunks())
    return rows if operation in columns else rows.drop_columns([operation]), actions
