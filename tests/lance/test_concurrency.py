"""Several writers at once: nothing is lost, nothing comes back, and a lost answer removes nothing."""

from __future__ import annotations

import multiprocessing
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from frazil.errors import AlreadyExists, CommitConflict, CommitFailed, CommitStateUnknown, FrazilError, StoreError
from frazil.io.store import Stores
from frazil.lance.history import History
from frazil.lance.manifest_file import parse_manifest_file
from frazil.lance.operations.clean_up import clean_up
from frazil.lance.operations.delete import mark, matching_rows
from frazil.lance.table import LanceTable
from frazil.model.expression_parser import as_expression
from tests.faults import Fault, FaultyStore
from tests.lance.test_table import check, made, numbers, opened


def faulty(folder: Path, *plan: Fault) -> LanceTable:
    return LanceTable.open(FaultyStore(Stores(), plan), str(folder))


def _append(folder: str, writer: int, times: int) -> None:
    table = LanceTable.open(Stores({"file.fsync": "false"}), folder)
    for number in range(times):
        table.append(pa.table({"w": [writer], "n": [number]}))


def _started(folder: Path) -> None:
    made(folder, pa.table({"w": pa.array([], pa.int64()), "n": pa.array([], pa.int64())}))


def _check_appends(folder: Path, processes: int, times: int) -> None:
    found = check(folder)
    expected = [(writer, number) for writer in range(processes) for number in range(times)]
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == expected
    table = opened(folder)
    assert [version.version for version in table.snapshots] == list(range(1, processes * times + 2))
    counts = [table.scan(version=version.version).count() for version in table.snapshots]
    assert counts == list(range(processes * times + 1))  # one line of versions, each with one row more
    for writer in range(processes):
        mine = found.to_pandas().query(f"w == {writer}").n.tolist()
        assert mine == sorted(mine)


def test_four_threads_append(tmp_path: Path) -> None:
    _started(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(_append, str(tmp_path), writer, 5) for writer in range(4)]:
            done.result()
    _check_appends(tmp_path, 4, 5)


def test_threads_read_one_file(tmp_path: Path) -> None:
    """Readers are kept open and shared: pylance's own refuse a second thread ("Already borrowed")."""
    rows = pa.table({"id": range(2000)})
    made(tmp_path, rows)
    table = opened(tmp_path)

    def read(number: int) -> None:
        found = table.scan(columns=["id"]).to_arrow() if number % 2 else table.take(range(2000), columns=["id"])
        assert found.column("id").to_pylist() == rows.column("id").to_pylist()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(400)))


@pytest.mark.slow
def test_eight_processes_append_25_times_each(tmp_path: Path) -> None:
    _started(tmp_path)
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=_append, args=(str(tmp_path), writer, 25)) for writer in range(8)]
    for process in running:
        process.start()
    for process in running:
        process.join()
        assert process.exitcode == 0
    _check_appends(tmp_path, 8, 25)


def test_appends_by_both_writers_from_old_handles(tmp_path: Path) -> None:
    ours = made(tmp_path, numbers(1))
    theirs = lance.dataset(tmp_path)
    for start in (1, 2, 3):
        ours.append(numbers(1, start * 10))
        theirs.insert(numbers(1, start * 100))
    assert sorted(check(tmp_path).column("a").to_pylist()) == [0, 10, 20, 30, 100, 200, 300]


def test_deletes_of_one_fragment_are_merged(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(10))
    first, second, third = opened(tmp_path), opened(tmp_path), lance.dataset(tmp_path)
    first.delete("a = 1")
    second.delete("a = 2")
    third.delete("a = 3")
    fourth = table.delete("a >= 1 AND a <= 4")
    assert fourth.snapshot is not None
    assert check(tmp_path).column("a").to_pylist() == [0, 5, 6, 7, 8, 9]


def test_a_merged_delete_was_not_worked_out_again(tmp_path: Path) -> None:
    """The rows that are known go onto the newest bitmap: the data is not read a second time."""
    table = made(tmp_path, numbers(10))
    opened(tmp_path).delete("a = 1")
    (reader_calls,) = [_matching_calls(lambda: table.delete("a = 2"))]
    assert reader_calls == 1
    assert check(tmp_path).num_rows == 8


def _matching_calls(run: Any) -> int:
    from frazil.lance import read

    calls = 0
    before = read.FragmentReader.matching

    def counted(self: Any, task: Any) -> Any:
        nonlocal calls
        calls += 1
        return before(self, task)

    read.FragmentReader.matching = counted  # type: ignore[method-assign]
    try:
        run()
    finally:
        read.FragmentReader.matching = before  # type: ignore[method-assign]
    return calls


@pytest.mark.parametrize("stable", [False, True])
def test_updates_of_the_same_row_come_one_after_the_other(tmp_path: Path, stable: bool) -> None:
    table = made(tmp_path, numbers(10), stable_row_ids=stable)
    first, second = opened(tmp_path), opened(tmp_path)
    first.update({"b": "b || '-first'"}, "a = 1")
    second.update({"b": "b || '-second'"}, "a IN (1, 2)")
    assert table.delete("b = '1-first-second'").snapshot is None  # at the version it was opened at there is none
    table.refresh().delete("b = '1-first-second'")
    found = check(tmp_path)
    assert sorted(found.column("b").to_pylist()) == sorted(["0", "2-second", *map(str, range(3, 10))])


def test_an_update_does_not_bring_back_a_deleted_row(tmp_path: Path) -> None:
    made(tmp_path, numbers(10))
    late = opened(tmp_path)
    opened(tmp_path).delete("a = 1")
    late.update({"b": "'new'"}, "a < 3")
    assert sorted(check(tmp_path).column("a").to_pylist()) == [0, 2, 3, 4, 5, 6, 7, 8, 9]


def test_bank_transfer_between_writers(tmp_path: Path) -> None:
    """Amounts move from one row to another by updates of old handles; none is made or lost."""
    made(tmp_path, pa.table({"id": [1, 2], "amount": [100, 100]}))
    handles = [opened(tmp_path) for _ in range(4)]
    for turn in range(8):
        handle = handles[turn % 4]
        handle.update({"amount": "CASE WHEN id = 1 THEN amount - 5 ELSE amount + 5 END"})
        assert sum(opened(tmp_path).scan(columns=["amount"]).to_arrow().column(0).to_pylist()) == 200
    assert dict(zip(*check(tmp_path).to_pydict().values(), strict=True)) == {1: 60, 2: 140}


def test_a_lost_answer_that_was_a_success(tmp_path: Path) -> None:
    made(tmp_path, numbers(1))
    table = faulty(tmp_path, Fault("put_if_absent", "after", StoreError("time-out"), match="_versions"))
    assert table.append(numbers(1)).version == 2
    assert check(tmp_path).num_rows == 2


def test_a_lost_answer_that_cannot_be_told_removes_nothing(tmp_path: Path) -> None:
    made(tmp_path, numbers(1))
    for at in ("before", "after"):
        lost = Fault("put_if_absent", at, StoreError("time-out"), match="_versions")
        blind = Fault("read", "before", StoreError("still down"), match="_versions", times=99, first=2)
        table = faulty(tmp_path, lost, blind)
        count = len(list((tmp_path / "data").iterdir()))
        with pytest.raises(CommitStateUnknown):
            table.append(numbers(1))
        assert len(list((tmp_path / "data").iterdir())) == count + 1
    check(tmp_path)


def test_a_version_that_nobody_could_look_around_from_is_not_told_as_committed(tmp_path: Path) -> None:
    made(tmp_path, numbers(1))
    table = faulty(tmp_path, Fault("list", "before", StoreError("down"), match="_versions", first=2))
    with pytest.raises(CommitStateUnknown):
        table.append(numbers(1))
    assert check(tmp_path).num_rows == 2  # nothing was removed


def test_an_interrupt_after_the_commit_removes_nothing(tmp_path: Path) -> None:
    made(tmp_path, numbers(1))
    table = faulty(tmp_path, Fault("put_if_absent", "after", KeyboardInterrupt(), match="_versions"))
    with pytest.raises(KeyboardInterrupt):
        table.append(numbers(1))
    assert check(tmp_path).num_rows == 2


def test_trouble_after_the_commit_does_not_look_like_failure(tmp_path: Path) -> None:
    made(tmp_path, numbers(1))
    table = faulty(
        tmp_path,
        Fault("list", "before", StoreError("down"), match="_versions", first=3, times=9),
        Fault("write", "before", StoreError("down"), match="hint", times=9),
    )
    assert table.append(numbers(1)).version == 2


def test_a_refused_commit_leaves_no_files(tmp_path: Path) -> None:
    made(tmp_path, numbers(1))
    before = {str(file) for file in tmp_path.rglob("*")}
    refused = StoreError("no space", applied="no")
    table = faulty(tmp_path, Fault("put_if_absent", "before", refused, match="_versions"))
    with pytest.raises(StoreError):
        table.append(numbers(1))
    left = {str(file) for file in tmp_path.rglob("*") if file.is_file()} - before
    assert all("_transactions" in name for name in left)


def test_a_writer_stalled_over_a_clean_up_cannot_bring_a_version_back(tmp_path: Path) -> None:
    made(tmp_path, numbers(1))

    def meanwhile(_: str) -> None:
        table = opened(tmp_path)
        for start in (1, 2, 3):
            table.append(numbers(1, start))
        clean_up(Stores(), str(tmp_path), older_than_ms=1 << 50)
        assert list(History(Stores(), str(tmp_path)).files()) == [4]

    table = faulty(tmp_path, Fault("put_if_absent", "before", hook=meanwhile, match="_versions"))
    with pytest.raises(CommitConflict):
        table.append(numbers(1, 50))
    assert list(History(Stores(), str(tmp_path)).files()) == [4]
    assert check(tmp_path).column("a").to_pylist() == [0, 1, 2, 3]
    table.refresh().append(numbers(1, 50))
    assert check(tmp_path).column("a").to_pylist() == [0, 1, 2, 3, 50]


def test_a_version_without_a_transaction_stops_who_comes_late(tmp_path: Path) -> None:

    table = made(tmp_path, numbers(1))
    opened(tmp_path).append(numbers(1))
    (file,) = (tmp_path / "_versions").glob("*613.manifest")
    manifest = parse_manifest_file(file.read_bytes(), "").manifest
    for name in ("transaction_section", "transaction_file"):
        manifest.ClearField(name)
    body = manifest.SerializeToString()
    file.write_bytes(struct.pack("<I", len(body)) + body + struct.pack("<QHH4s", 0, 0, 2, b"LANC"))
    with pytest.raises(CommitConflict):
        table.append(numbers(1))
    opened(tmp_path).append(numbers(1))


def test_known_rows_are_marked_with_those_already_deleted(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(10))
    table.delete("a = 3")
    at = table.current_snapshot
    found = {task.fragment_id: offsets for _, task, offsets in matching_rows(Stores(), at, as_expression("a < 5"))}
    assert found[0].tolist() == [0, 1, 2, 4]
    marked = mark(Stores(), at, found)
    assert (marked.count, marked.updated[0].deletion_file.num_deleted_rows) == (4, 5)


def test_creating_a_table_twice(tmp_path: Path) -> None:
    hook = Fault("put_if_absent", "before", hook=lambda _: made(tmp_path, numbers(3)) and None, match="_versions")
    with pytest.raises(AlreadyExists):
        LanceTable.create(FaultyStore(Stores(), [hook]), str(tmp_path), numbers(1).schema, numbers(1))
    assert check(tmp_path).num_rows == 3
    assert len(list((tmp_path / "data").iterdir())) == 1


def test_errors_say_whether_to_try_again(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(3))
    opened(tmp_path).overwrite(numbers(1))
    with pytest.raises(FrazilError) as error:
        table.append(numbers(1))
    assert isinstance(error.value, CommitConflict)
    assert not error.value.retryable
    assert CommitFailed.retryable
