"""Writers that fail: nobody waits for them, unless what they wrote may be in the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from frazil import ambient
from frazil.errors import CommitFailed, CommitStateUnknown, StoreError
from frazil.mixed.table import MixedTable
from frazil.mixed.transactions import open_transactions
from tests.mixed.tables import ids_of, new_table, row


class Failing:
    """Rows that come until something happens."""

    def __init__(self, error: BaseException) -> None:
        self.schema = pa.schema({"id": pa.int64()})
        self._error = error

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": [7]}, schema=self.schema)
        raise self._error


def waited_for(table: MixedTable) -> set[int]:
    table.refresh()
    assert table.change_store is not None
    return open_transactions(table.base_store.metadata, table.change_store.metadata, ambient.now_ms(), 10**9)


@pytest.mark.parametrize("error", [RuntimeError("x"), MemoryError(), KeyboardInterrupt(), StoreError("x", hint="y")])
def test_a_writer_that_fails_before_its_commit_is_not_waited_for(error: BaseException) -> None:
    table = new_table()
    table.append([row(1)])
    with pytest.raises(type(error)):
        table.append(Failing(error))
    assert waited_for(table) == set()
    table.append([row(2)])
    assert table.optimize("minor", upkeep=False).runs
    assert table.change_store is not None
    assert set(table.optimized.sequence.values()) == {table.change_store.metadata.last_sequence_number}
    assert ids_of(table) == [1, 2]


@pytest.mark.parametrize(
    ("error", "is_abandoned"),
    [
        (TypeError("x"), True),
        (CommitFailed("x", hint="y"), True),
        (CommitStateUnknown("x", hint="y"), False),
        (StoreError("x", hint="y"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_a_commit_that_may_be_in_is_waited_for(
    error: BaseException, is_abandoned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    table = new_table()
    with monkeypatch.context() as patched:
        patched.setattr("frazil.mixed.commit.AppendChanges.stage", fail)
        with pytest.raises(type(error)):
            table.append([row(1)])
    assert (waited_for(table) == set()) is is_abandoned


def test_an_overwrite_that_fails_to_write_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise StoreError("the disk is full", hint="make room")

    table = new_table()
    table.append([row(1)])
    with monkeypatch.context() as patched:
        patched.setattr("frazil.mixed.writer.BaseWriter.write", fail)
        with pytest.raises(StoreError):
            table.overwrite([row(2)])
    assert waited_for(table) == set()


def test_evaluation_says_which_transaction_is_waited_for() -> None:
    table = new_table()
    table.append([row(0)])
    table.optimize("minor", upkeep=False)
    lost = table.begin_transaction("lost")
    for number in (1, 2, 3):
        table.append([row(number)])
    for kind in (None, "minor", "full"):
        told = table.optimize(kind, dry_run=True)
        assert told.kind is None
        [reason] = [one for one in told.reasons if "wait for" in one]
        assert reason.startswith(f"3 commits wait for transaction {lost}, begun 20")
        assert "frazil.transaction.timeout-ms" in reason
    table.update_properties().set("frazil.transaction.timeout-ms", 0).commit()
    table.append([row(4)])
    assert table.optimize("minor", upkeep=False).runs
    assert not any("wait for" in one for one in table.optimize(dry_run=True).reasons)
