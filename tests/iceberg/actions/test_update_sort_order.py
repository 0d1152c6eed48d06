"""Sort order updates."""

from __future__ import annotations

import pytest

from frazil.errors import ColumnNotFound, InvalidArgument
from frazil.iceberg.actions.update_sort_order import UpdateSortOrder
from tests.iceberg.memory_committer import Table


def update(table: Table) -> UpdateSortOrder:
    return UpdateSortOrder(table.transaction())


def keys(table: Table) -> list[str]:
    return [str(key) for key in table.metadata.default_sort_order.fields]


def test_the_order_is_replaced_key_by_key():
    table = Table()
    update(table).asc("days(ts)", nulls="last").desc("id").by("bucket(4, id)", "name DESC NULLS FIRST").commit()
    assert keys(table) == [
        "day(2) asc nulls-last",
        "identity(1) desc nulls-last",
        "bucket[4](1) asc nulls-first",
        "identity(3) desc nulls-first",
    ]
    assert table.metadata.default_sort_order_id == 2


def test_without_keys_the_table_is_unsorted():
    table = Table()
    update(table).asc("id").unsorted().commit()
    assert table.metadata.default_sort_order_id == 0
    assert keys(table) == []


def test_an_order_the_table_had_keeps_its_id():
    table = Table()
    update(table).asc("id").commit()
    update(table).asc("ts").commit()
    assert table.metadata.default_sort_order_id == 1
    assert len(table.metadata.sort_orders) == 2


def test_the_same_order_commits_nothing():
    table = Table()
    update(table).by("ts").commit()
    assert table.committer.commits == 0


def test_the_last_of_two_writers_wins():
    table = Table()
    change = update(table).asc("id")
    table.in_between(lambda: update(table).asc("name").commit())
    change.commit()
    assert keys(table) == ["identity(1) asc nulls-first"]
    assert len(table.metadata.sort_orders) == 3


@pytest.mark.parametrize(
    ("key", "error"), [("nope", ColumnNotFound), ("id AS x", InvalidArgument), ("", InvalidArgument)]
)
def test_keys_that_mean_nothing_are_refused(key: str, error: type[Exception]):
    table = Table()
    with pytest.raises(error):
        update(table).by(key).commit()
    assert table.committer.commits == 0
