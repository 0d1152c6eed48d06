"""Statistics updates."""

from __future__ import annotations

import pytest

from frazil.errors import SnapshotNotFound
from frazil.iceberg.actions.update_statistics import UpdateStatistics
from frazil.iceberg.statistics import PartitionStatisticsFile, StatisticsFile
from tests.iceberg.memory_committer import Table


def update(table: Table) -> UpdateStatistics:
    return UpdateStatistics(table.transaction())


def test_statistics_are_set_replaced_and_removed():
    table = Table()
    first, second = table.append("a"), table.append("b")
    one, two = StatisticsFile(first, "s1", 1, 1), StatisticsFile(second, "s2", 1, 1)
    part = PartitionStatisticsFile(first, "p1", 1)
    update(table).set_statistics(one).set_statistics(two).set_partition_statistics(part).commit()
    assert table.metadata.statistics == (one, two)
    assert table.metadata.partition_statistics == (part,)
    better = StatisticsFile(first, "s1b", 2, 1)
    update(table).set_statistics(better).remove_statistics(second).remove_partition_statistics(first).commit()
    assert table.metadata.statistics == (better,)
    assert table.metadata.partition_statistics == ()


def test_the_last_call_for_a_snapshot_counts():
    table = Table()
    first = table.append("a")
    update(table).set_statistics(StatisticsFile(first, "s", 1, 1)).remove_statistics(first).commit()
    assert table.metadata.statistics == ()
    assert table.committer.commits == 1  # only the append


def test_statistics_of_a_snapshot_that_is_gone_are_refused():
    with pytest.raises(SnapshotNotFound):
        update(Table()).set_statistics(StatisticsFile(1, "s", 1, 1)).commit()
    with pytest.raises(SnapshotNotFound):
        update(Table()).set_partition_statistics(PartitionStatisticsFile(1, "s", 1)).commit()
