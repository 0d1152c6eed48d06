"""Equality deletes are skipped for a file only where no row of it can equal a key."""

from dataclasses import replace

import pytest

from frazil.iceberg.planning import ScanPlan
from tests.iceberg.small_tables import equality_deletes, new_table

NAN = float("nan")


def deleted(data, keys, *, without=()):
    """The ids that are left of rows with these values after a delete of these keys, and the plan."""
    table = new_table(2, schema="id BIGINT NOT NULL, d DOUBLE, f FLOAT")
    table.append([{"id": number, "d": value, "f": value} for number, value in enumerate(data)])
    file = equality_deletes(table, [{"d": value} for value in keys], "d")
    table.new_row_delta().add_deletes(replace(file, **dict.fromkeys(without))).commit()
    plan: ScanPlan = table.scan().plan()
    return sorted(table.scan(columns=["id"]).to_arrow().column(0).to_pylist()), plan


@pytest.mark.parametrize("without", [(), ("nan_value_counts",), ("nan_value_counts", "value_counts")])
def test_a_deleted_nan_is_gone_though_the_bounds_lie_apart(without):
    left, _ = deleted([NAN, 5.0], [NAN, 1.0], without=without)
    assert left == [1]


@pytest.mark.parametrize(("data", "keys"), [([NAN, 5.0], [1.0]), ([5.0], [NAN, 1.0]), ([5.0], [6.0])])
def test_a_delete_that_cannot_hit_is_not_read_where_one_side_is_without_nan(data, keys):
    left, plan = deleted(data, keys)
    assert left == list(range(len(data)))
    assert [len(task.deletes) for task in plan.tasks()] == [0]
