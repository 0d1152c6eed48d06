"""Where the batches of a stream begin and end, without a Spark."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.errors import Malformed
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.write import RowWriter
from frazil.spark.streaming.history import History, StreamOptions
from frazil.spark.streaming.offsets import NOWHERE, Offset

_NUMBERS = itertools.count()


def new_table() -> IcebergTable:
    return frazil.connect(f"memory://streams{next(_NUMBERS)}").create_table("db.t", "id BIGINT", partition_by="id")


def paths(history: History, start: Offset, end: Offset) -> list[str]:
    """The files of a batch; each must be in the last snapshot of its run."""
    found: list[str] = []
    for run in history.runs(start, end):
        at_end = set(history.table.scan(version=run[-1].snapshot.snapshot_id).plan().file_paths)
        for step in run:
            files = history.files(step.snapshot, step.scan_all_files).paths.to_pylist()
            found += files[step.first : step.end]
            assert set(files[step.first : step.end]) <= at_end
    return found


def read_all(history: History) -> list[list[str]]:
    batches = []
    at = history.start()
    while (end := history.next(at, None, limited=True)) is not None:
        batches.append(paths(history, at, end))
        at = Offset.from_json(end.to_json())
    return batches


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    rewrites=st.sets(st.integers(0, 4)),
    max_files=st.none() | st.integers(1, 5),
    max_rows=st.none() | st.integers(1, 9),
    expired=st.booleans(),
)
def test_batches_have_each_file_once_and_keep_to_limits(
    sizes: list[int], rewrites: set[int], max_files: int | None, max_rows: int | None, expired: bool
) -> None:
    table = new_table()
    appended: list[str] = []
    for number, size in enumerate(sizes):
        before = set(table.scan().plan().file_paths)
        # one file per value, and two rows in every other file
        table.append([{"id": value} for value in range(size) for _ in range(1 + value % 2)])
        appended += sorted(set(table.scan().plan().file_paths) - before)
        if number in rewrites:
            old = [task.file for task in table.scan().plan().tasks()]
            table.new_rewrite().rewrite(
                old, RowWriter(table.metadata, table.store).write(table.scan().to_batches())
            ).commit()
    if expired:
        table.expire_snapshots().retain_last(1).older_than(2**52).commit()
        appended = sorted(table.scan().plan().file_paths)
    history = History(table, "main", StreamOptions(max_files=max_files, max_rows=max_rows))
    batches = read_all(history)
    assert sorted(path for batch in batches for path in batch) == sorted(appended)
    rows = {path: count for one in table.snapshots for path, count in _rows(history, one.snapshot_id).items()}
    for batch in batches:
        assert batch
        assert max_files is None or len(batch) <= max_files
        assert max_rows is None or len(batch) == 1 or sum(rows[path] for path in batch) <= max_rows
    unlimited = replace(history, options=StreamOptions())
    assert len(read_all(unlimited)) == 1


def _rows(history: History, snapshot_id: int) -> dict[str, int]:
    files = history.files(history.metadata.snapshot(snapshot_id), True)
    return dict(zip(files.paths.to_pylist(), files.rows.tolist(), strict=True))


def test_a_stream_stops_where_it_was_told_to() -> None:
    table = new_table()
    table.append([{"id": 1}])
    history = History(table, "main", StreamOptions())
    until = history.end()
    table.append([{"id": 2}])
    history = History(table, "main", StreamOptions())
    end = history.next(history.start(), until, limited=False)
    assert end is not None
    assert len(paths(history, history.start(), end)) == 1
    assert history.next(end, until, limited=False) is None


def test_there_is_nothing_in_an_empty_table() -> None:
    history = History(new_table(), "main", StreamOptions())
    assert history.start() == history.end() == NOWHERE
    assert history.next(NOWHERE, None, limited=False) is None
    assert history.runs(NOWHERE, NOWHERE) == []


@pytest.mark.parametrize("text", ["", "{}", "7", '{"version":2,"snapshot_id":1,"position":0,"scan_all_files":false}'])
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="no offset"):
        Offset.from_json(text)
