"""Change data for keyed tables: the order of its changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import InvalidArgument, InvalidValue
from frazil.mixed.change_data import OneOrder
from frazil.mixed.commit import commit_changes
from frazil.mixed.keys import key_fields
from frazil.mixed.operations import Operation, actions_of, all_of
from frazil.mixed.transactions import (
    begin_transaction,
)
from frazil.mixed.writer import ChangeWriter
from frazil.model.conform import conform
from tests.mixed.tables import new_table, row, rows_of


def test_change_data_is_sorted_by_columns_that_say_when_it_happened() -> None:
    table = new_table()
    told = [
        {"op": "d", "at": 3, "ms": 0, **row(1, "b")},
        {"op": "c", "at": 1, "ms": 5, **row(1)},
        {"op": "u", "at": 2, "ms": 9, **row(1, "b")},
        {"op": "r", "at": 3, "ms": 1, **row(1, "c")},
    ]
    table.ingest(told, order=["at", "ms"])
    assert rows_of(table) == [row(1, "c")]
    with pytest.raises(InvalidArgument, match="no column 'when'"):
        table.ingest(told, order="when")


def test_changes_keep_the_columns_that_only_some_of_them_have() -> None:
    table = new_table(properties={"write.upsert.enabled": "true"})
    table.ingest([{"op": "d", "id": 1, "ts": 1}, {"op": "i", "ts": 2, **row(2, "x")}], order="ts")
    assert rows_of(table) == [row(2, "x")]


@pytest.mark.parametrize("given", [list, pa.Table.from_pylist])
def test_the_operation_stays_where_the_table_has_a_column_of_its_name(given: Callable[[Any], Any]) -> None:
    table = new_table("id BIGINT NOT NULL, op STRING, ts INT")
    told = [{"op": "c", "id": 1, "ts": 1}, {"op": "u", "id": 1, "ts": 2}, {"op": "r", "id": 2, "ts": 3}]
    table.ingest(given(told), order="ts")
    assert rows_of(table) == [{"id": 1, "op": "u", "ts": 2}, {"id": 2, "op": "r", "ts": 3}]
    table.ingest(given([{"what": "u", "op": "kept", "id": 2, "ts": 4}]), "what")
    assert rows_of(table)[1] == {"id": 2, "op": "kept", "ts": 4}


def test_changes_of_which_nobody_knows_when_they_happened_are_refused() -> None:
    table = new_table(properties={"write.upsert.enabled": "true"})
    told = [{"op": "i", "ts": None, **row(1, "none")}, {"op": "i", "ts": 5, **row(1, "five")}]
    for given in (told, pa.Table.from_pylist(told), [{"op": "i", **row(1)}, told[1]]):
        with pytest.raises(InvalidValue, match="a change has no ts"):
            table.ingest(given, order="ts")
    for times in ((1, "one"), (b"a", 2), ([1], "x")):
        with pytest.raises(InvalidValue, match="do not compare"):
            table.ingest([{"op": "i", "ts": time, **row(1)} for time in times], order="ts")
    with pytest.raises(InvalidArgument, match="cannot be sorted"):
        table.ingest([{"op": "i", "ts": [1], **row(1)}], order="ts")
    with pytest.raises(InvalidArgument, match="holds no changes"):
        table.ingest([1, 2], order="ts")
    assert rows_of(table) == []


def test_all_that_comes_can_come_after_all_that_goes_whoever_writes_it() -> None:
    """Two writers of one transaction: the first brings what the second deletes the old row of."""
    table = new_table()
    table.append([row(1), row(2)])
    base, change = table.base_store, table.change_store
    assert change is not None
    transaction = begin_transaction(base, change)
    keys = key_fields(table.schema, table.primary_key)
    files = []
    for going, coming in ((row(1), row(2, "from 1")), (row(2), row(1, "from 2"))):
        changes = [(next(conform([one], table.schema)), action) for one, action in ((going, 2), (coming, 3))]
        writer = ChangeWriter(change.metadata, change.store, keys, transaction, arrivals_last=True)
        files += writer.write((batch, all_of(Operation(action), 1)) for batch, action in changes)
    commit_changes(base, change, files, transaction)
    assert rows_of(table.refresh()) == [row(1, "from 2"), row(2, "from 1")]


def test_it_must_be_known_which_change_of_a_key_came_first() -> None:
    """Also where batches of rows meet."""
    first, second = actions_of(pa.array(["-U"])), actions_of(pa.array(["+U", "d"]))
    check = OneOrder(("id",), ("ts",))
    check.check(first, [pa.array([1])], [pa.array([5])])
    check.check(second, [pa.array([1, 2])], [pa.array([5, 5])])
    with pytest.raises(InvalidValue, match="two changes of the key id = 2 have the same ts"):
        check.check(first, [pa.array([2])], [pa.array([5])])
    with pytest.raises(InvalidValue, match="nothing says which came first"):
        OneOrder(("id",), ()).check(actions_of(pa.array(["c", "u"])), [pa.array([1, 1])], [])
