"""Rows by their position in the table, or by their address: random access."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.errors import InvalidArgument
from frazil.lance.deletions import read_deletions
from frazil.lance.plan import FragmentTask
from frazil.lance.read import FragmentReader, threads

Numbers = npt.NDArray[np.int64]


def take_positions(reader: FragmentReader, positions: Sequence[int]) -> pa.Table:
    """The rows at some positions, counted over the rows that are not deleted; in the order asked, also twice."""
    asked = _numbers(positions, "position")
    tasks, ends = reader.plan.fragments, reader.plan.ends
    total = int(ends[-1]) if len(ends) else 0
    if len(asked) and int(asked.max()) >= total:
        raise InvalidArgument(f"there is no row {int(asked.max())}: the table has {total}", hint="rows count from 0")
    which = np.searchsorted(ends, asked, side="right")

    def offsets(number: int, wanted: Numbers) -> Numbers:
        task = tasks[number]
        return _offsets(reader, task, wanted - (ends[number] - task.rows))

    return _gathered(reader, tasks, which, asked, offsets)


def take_addresses(reader: FragmentReader, addresses: Sequence[int]) -> pa.Table:
    """The rows at some addresses (`_rowaddr`), in the order asked; InvalidArgument where none is left."""
    asked = _numbers(addresses, "row address")
    tasks = reader.plan.fragments
    known = {task.fragment_id: number for number, task in enumerate(tasks)}
    which = np.array([known.get(int(fragment), -1) for fragment in asked >> 32], np.int64)

    def offsets(number: int, wanted: Numbers) -> Numbers:
        task = tasks[number]
        found = wanted & 0xFFFFFFFF
        gone = np.isin(found, read_deletions(reader.store, task.deletions)) | (found >= task.physical_rows)
        if gone.any():
            raise _no_row(int(wanted[gone][0]))
        return found

    if (which < 0).any():
        raise _no_row(int(asked[which < 0][0]))
    return _gathered(reader, tasks, which, asked, offsets)


def _gathered(
    reader: FragmentReader,
    tasks: Sequence[FragmentTask],
    which: Numbers,
    asked: Numbers,
    offsets: Callable[[int, Numbers], Numbers],
) -> pa.Table:
    if len(asked) == 1:
        number = int(which[0])
        return reader.rows(tasks[number], offsets(number, asked))
    wanted: list[tuple[FragmentTask, Numbers]] = []
    order = np.empty(len(asked), np.int64)
    before = 0
    for number in np.unique(which).tolist():
        mine = np.flatnonzero(which == number)
        rows, inverse = np.unique(offsets(number, asked[mine]), return_inverse=True)
        wanted.append((tasks[number], rows))
        order[mine] = inverse + before
        before += len(rows)
    if not wanted:
        return reader.output.empty_table()
    if len(wanted) == 1:
        parts = [reader.rows(*wanted[0])]
    else:
        parts = list(threads().map(lambda one: reader.rows(*one), wanted))
    found = pa.concat_tables(parts)
    return found if (order == np.arange(len(order))).all() else found.take(order)


def _offsets(reader: FragmentReader, task: FragmentTask, positions: Numbers) -> Numbers:
    """Where in a fragment the rows are that come so many after its first, deleted ones not counted."""
    deleted = read_deletions(reader.store, task.deletions)
    if not len(deleted):
        return positions
    # the n-th deleted row has `deleted[n] - n` rows before it that are left
    return positions + np.searchsorted(deleted - np.arange(len(deleted)), positions, side="right")


def _numbers(given: Sequence[int], what: str) -> Numbers:
    try:
        asked = np.asarray(given)
        numbers = asked.astype(np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgument(f"a {what} is no whole number: {error}", hint="give a list of integers") from error
    if asked.ndim != 1 or (len(asked) and asked.dtype.kind not in "iu") or _has_bools(given):
        raise InvalidArgument(f"not each {what} is a whole number", hint="give a list of integers")
    if asked.dtype.kind == "u" and (numbers < 0).any():
        raise InvalidArgument(f"there is no {what} {int(asked.max())}", hint="rows count from 0")
    if len(numbers) and int(numbers.min()) < 0:
        raise InvalidArgument(f"{what} {int(numbers.min())} is negative", hint="rows count from 0")
    return numbers


def _has_bools(given: Sequence[int]) -> bool:
    """numpy takes True for 1 where there are numbers beside it."""
    return isinstance(given, list | tuple) and any(isinstance(one, bool) for one in given)


def _no_row(address: int) -> InvalidArgument:
    return InvalidArgument(f"there is no row at address {address}", hint="addresses change when a table is compacted")
