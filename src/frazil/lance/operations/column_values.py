"""Columns whose values were computed elsewhere: an Arrow table, a pandas frame, or files that workers wrote.

Values belong to rows of one version. If another writer was faster, their places may be other rows by now: so there is
one attempt, on the version that the caller holds, and a CommitConflict otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.errors import CommitConflict, CommitFailed, InvalidArgument
from frazil.lance.deletions import read_deletions
from frazil.lance.feature_flags import check_writable
from frazil.lance.field_ids import next_field_id
from frazil.lance.history import History
from frazil.lance.new_columns import new_fields
from frazil.lance.operations.columns import check_free, merged, with_files
from frazil.lance.operations.retry import Attempt, commit_attempt, listed
from frazil.lance.plan import ROW_ADDRESS, ROW_ID, FragmentTask
from frazil.lance.proto.messages import DataFile, DataFragment, Field
from frazil.lance.read import FragmentReader
from frazil.lance.scan import LanceScan
from frazil.lance.version import LanceVersion
from frazil.model.conform import opened

Addresses = npt.NDArray[np.uint64]


def add_column_values(history: History, version: LanceVersion, rows: Any) -> LanceVersion:
    """Add columns of a table or frame.

    Its rows are in the order of the table's, or a column `_rowaddr` or `_rowid` says which they belong to.
    """
    check_writable(version.manifest)
    given = _as_table(rows)
    by = row_column(given.schema.names)
    values = given.drop_columns([by]) if by is not None else given
    if not values.num_columns:
        raise InvalidArgument("there are no columns to add", hint="give at least one")
    plan = LanceScan(history.store, version, columns=(ROW_ID,) if by == ROW_ID else ()).plan()
    places = None
    if by is not None:
        places = _checked(given.column(by), by)
        if by == ROW_ID:
            places = _addresses(FragmentReader(history.store, plan), places)
        _check_there(history, plan.fragments, places)
    elif given.num_rows != (live := sum(task.rows for task in plan.tasks())):
        raise InvalidArgument(
            f"{given.num_rows} rows are given for a table of {live}",
            hint="give one for each row, or say by a column _rowaddr which rows they belong to",
        )
    values = values.combine_chunks()

    def compute(reader: FragmentReader, task: FragmentTask) -> Iterator[pa.RecordBatch]:
        index = np.full(task.physical_rows, -1, np.int64)
        if places is None:
            left = np.delete(np.arange(task.physical_rows), read_deletions(reader.store, task.deletions))
            index[left] = np.arange(task.first_position, task.first_position + len(left))
        else:
            mine = np.flatnonzero(places >> np.uint64(32) == task.fragment_id)
            index[(places[mine] & np.uint64(0xFFFFFFFF)).astype(np.int64)] = mine
        taken = values.take(pa.array(index, mask=index < 0))
        yield from taken.to_batches(max_chunksize=reader.plan.batch_rows)

    schema = pa.schema([field.with_nullable(True) for field in values.schema])
    fields = new_fields(schema, next_field_id(version))
    check_free(version, fields)
    fragments, written = with_files(history, version, fields, [], compute)
    return _once(history, merged(version, fields, fragments, written))


def _as_table(rows: Any) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    names, batches = opened(rows)
    found = [] if names is None else list(batches)
    if not found:
        raise InvalidArgument(
            f"columns cannot be added from {type(rows).__name__}",
            hint="give SQL by name, an Arrow table, a DataFrame, or an Arrow schema",
        )
    return pa.Table.from_batches(found)


def row_column(names: Sequence[str]) -> str | None:
    """The column that says which rows values belong to, if there is one."""
    found = [name for name in (ROW_ADDRESS, ROW_ID) if name in names]
    if len(found) > 1:
        raise InvalidArgument(f"both {ROW_ADDRESS} and {ROW_ID} are given", hint="one of them says which rows")
    return found[0] if found else None


def add_column_files(
    history: History, version: LanceVersion, fields: Sequence[Field], files: Mapping[int, DataFile]
) -> LanceVersion:
    """Add columns that were written elsewhere: a file for each fragment, all made from `version`."""
    fragments = listed(version.manifest.fragments)
    for fragment in fragments:
        if fragment.id in files:
            fragment.files.append(files[fragment.id])
    return _once(history, merged(version, fields, fragments, [DataFragment(files=files.values())]))


def _once(history: History, attempt: Attempt) -> LanceVersion:
    try:
        made = commit_attempt(history, attempt)
    except CommitFailed as error:
        raise CommitConflict(
            f"the values belong to rows of another version: {error.message}",
            hint="open the table again, and compute them for its rows as they are now",
        ) from error
    assert made is not None
    return made


def _checked(column: pa.ChunkedArray, name: str) -> Addresses:
    if not pa.types.is_integer(column.type):
        raise InvalidArgument(f"{name} is given as {column.type}", hint="read it from the table: it is a whole number")
    if column.null_count:
        raise InvalidArgument(f"{name} has {column.null_count} nulls", hint="say of each value which row it belongs to")
    numbers = np.asarray(column)
    if len(numbers) and int(numbers.min()) < 0:
        raise InvalidArgument(f"{name} {int(numbers.min())} is negative", hint="read it from the table")
    places = numbers.astype(np.uint64)
    if len(np.unique(places)) < len(places):
        raise InvalidArgument("a row is given twice", hint=f"each {name} may stand once")
    return places


def _addresses(reader: FragmentReader, ids: Addresses) -> Addresses:
    """Where the rows with some ids are; the ids themselves in a table whose rows have no others."""
    known, at = [], []
    for task in reader.plan.tasks():
        of_rows = reader.row_ids(task)
        if of_rows is None:
            return ids
        left = np.delete(np.arange(task.physical_rows), read_deletions(reader.store, task.deletions))
        known.append(of_rows[left])
        at.append(left.astype(np.uint64) + np.uint64(task.fragment_id << 32))
    every = np.concatenate([np.empty(0, np.uint64), *known])
    order = np.argsort(every)
    found = np.searchsorted(every, ids, sorter=order)
    missing = found == len(every)
    missing[~missing] = every[order[found[~missing]]] != ids[~missing]
    if missing.any():
        raise InvalidArgument(f"there is no row with id {int(ids[missing][0])}", hint="read the ids from this version")
    return np.concatenate([np.empty(0, np.uint64), *at])[order[found]]


def _check_there(history: History, tasks: Sequence[FragmentTask], places: Addresses) -> None:
    fragments = (places >> np.uint64(32)).astype(np.int64)
    unknown = ~np.isin(fragments, [task.fragment_id for task in tasks])
    for task in tasks:
        mine = fragments == task.fragment_id
        unknown |= mine & gone(history, task, places & np.uint64(0xFFFFFFFF))
    if unknown.any():
        raise no_such_row(int(places[unknown][0]))


def gone(history: History, task: FragmentTask, offsets: Addresses) -> npt.NDArray[np.bool_]:
    """Which offsets are no rows of a fragment, or deleted ones."""
    deleted = read_deletions(history.store, task.deletions)
    found: npt.NDArray[np.bool_] = (offsets >= task.physical_rows) | np.isin(offsets, deleted.astype(np.uint64))
    return found


def no_such_row(address: int) -> InvalidArgument:
    """Nothing is there to give a value to."""
    return InvalidArgument(
        f"there is no row at address {address}", hint="read _rowaddr from the version that the values are for"
    )
