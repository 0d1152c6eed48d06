"""Overwrites, truncation and dropped partitions, with changes before and after them."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.errors import CommitConflict, FileMissing, InvalidArgument, InvalidValue, Malformed, MalformedMetadata
from frazil.mixed.optimized import SEQUENCE, MoveOptimized
from tests.mixed.tables import ids_of, new_table, row, rows_of


def filled(**how: Any) -> Any:
    table = new_table(partition_by=("region",), **how)
    table.append([row(n, region=region) for n, region in enumerate(["eu", "us", "ap", "eu"])])
    table.upsert([row(0, "b")])
    return table


def test_partitions_that_rows_belong_to_are_replaced() -> None:
    table = filled()
    done = table.overwrite_partitions([row(10), row(11, region="xx")])
    assert rows_of(table) == [row(1, region="us"), row(10), row(11, region="xx"), row(2, region="ap")]
    assert (done.rows_inserted, done.data_files_added) == (2, 2)
    table.upsert([row(10, "after")])
    table.delete("id = 1")
    assert ids_of(table) == [2, 10, 11]
    table.overwrite_partitions([row(12)])
    assert ids_of(table) == [2, 11, 12]


def test_partitions_that_a_filter_means_are_replaced() -> None:
    table = filled()
    table.overwrite([row(10, region="us")], "region IN ('us', 'ap')")
    assert ids_of(table) == [0, 3, 10]
    assert dict(table.optimized.sequence) == {"region=us": 5, "region=ap": 5}
    table.overwrite([], "region = 'eu'")
    assert ids_of(table) == [10]


def test_rows_that_are_not_whole_partitions_are_replaced_by_key() -> None:
    table = filled()
    table.overwrite([row(10, region="us")], "id IN (0, 1)")
    assert ids_of(table) == [2, 3, 10]
    assert table.optimized.sequence == {}


def test_all_rows_are_replaced_or_removed() -> None:
    table = filled()
    table.overwrite([row(10)])
    assert ids_of(table) == [10]
    table.append([row(11)])
    assert table.truncate().snapshot is not None
    assert rows_of(table) == []
    assert table.append([row(12)]).rows_inserted == 1
    assert ids_of(table) == [12]


def test_truncating_a_table_that_has_no_rows_changes_nothing() -> None:
    table = new_table()
    assert table.truncate().snapshot is None
    assert table.current_snapshot.base is None
    assert table.current_snapshot.change is None


def test_partitions_are_dropped_and_parts_of_them_are_not() -> None:
    table = filled()
    with pytest.raises(InvalidArgument, match="whole partitions"):
        table.drop_partition("region = 'eu' AND id = 0")
    table.drop_partition("region = 'eu'")
    assert ids_of(table) == [1, 2]


def test_an_unpartitioned_table_is_one_partition() -> None:
    table = new_table()
    table.append([row(1), row(2)])
    table.overwrite_partitions([row(3)])
    assert ids_of(table) == [3]
    assert dict(table.optimized.sequence) == {"": 3}
    with pytest.raises(InvalidArgument, match="whole partitions"):
        table.drop_partition("id = 3")


def test_changes_committed_during_an_overwrite_stay() -> None:
    """What is committed after the overwriting transaction began is on top of it."""
    from frazil.mixed.overwrite import Overwrite

    table = filled()
    job = Overwrite(table)
    begun = job._write

    def write_and_let_others_in(rows: Any, signature: str) -> Any:
        found = begun(rows, signature)
        table.append([row(20)])
        return found

    job._write = write_and_let_others_in  # type: ignore[method-assign]
    job.dynamic([row(10)])
    assert ids_of(table.refresh()) == [1, 2, 10, 20]


def test_a_partition_that_was_optimized_beyond_an_overwrite_is_a_conflict() -> None:
    table = filled()
    table.overwrite_partitions([row(10)])
    tx = table.base_store.transaction()
    tx.new_append().set("optimized-sequence.exist", "true").commit()
    with pytest.raises(CommitConflict, match="optimized up to"):
        MoveOptimized(tx, {SEQUENCE: {"region=eu": 1}}).commit()
    assert ids_of(table) == [1, 2, 10]


def test_an_optimized_sequence_that_is_missing_is_an_error_and_no_guess() -> None:
    table = filled()
    table.overwrite_partitions([row(10)])
    (file,) = table.base_store.metadata.statistics
    table.store.delete(file.statistics_path)
    with pytest.raises(FileMissing, match="which changes are in the base store"):
        table.scan().to_arrow()
    table.store.write(file.statistics_path, b"PFA1 but not much more than that")
    with pytest.raises(Malformed):
        table.scan().to_arrow()
    table.base_store.update_statistics().remove_statistics(file.snapshot_id).commit()
    with pytest.raises(MalformedMetadata, match="0 statistics files"):
        table.scan().to_arrow()


def test_unkeyed_tables_are_overwritten_as_iceberg_tables_are() -> None:
    table = new_table(primary_key=(), partition_by=("region",))
    table.append([row(1), row(1), row(2, region="us")])
    assert ids_of(table) == [1, 1, 2]
    table.overwrite_partitions([row(3)])
    assert ids_of(table) == [2, 3]
    table.delete("id = 3")
    table.overwrite([row(4, region="us")], "region = 'us'")
    assert ids_of(table) == [4]
    table.append([row(5)])
    table.drop_partition("region = 'us'")
    assert ids_of(table) == [5]
    table.truncate()
    assert ids_of(table) == []


def test_rows_for_other_partitions_than_those_overwritten_leave_what_is_there() -> None:
    table = new_table(partition_by=("region",))
    table.append([row(1), row(2, region="us"), row(3, region="us")])
    table.delete("id = 3")
    table.overwrite([row(4, "new", "us"), row(5, "new", "ap")], "region = 'eu'")
    assert rows_of(table) == [row(2, region="us"), row(4, "new", "us"), row(5, "new", "ap")]
    table.upsert([row(4, "newer", "us")])
    assert rows_of(table) == [row(2, region="us"), row(4, "newer", "us"), row(5, "new", "ap")]


def test_in_tables_that_upsert_rows_that_replace_others_have_each_its_key() -> None:
    table = new_table(partition_by=("region",), properties={"write.upsert.enabled": "true"})
    table.append([row(1), row(2, region="us")])
    before, snapshots = rows_of(table), len(table.base_store.snapshots)
    twice = [row(5), row(6), row(5, "b", "us")]
    for overwrite in (table.overwrite, table.overwrite_partitions):
        with pytest.raises(InvalidValue, match="id = 5"):
            overwrite(twice)
    assert (rows_of(table), len(table.refresh().base_store.snapshots)) == (before, snapshots)
    table.overwrite(twice[:2])
    assert ids_of(table) == [5, 6]
    plain = new_table(partition_by=("region",))
    plain.overwrite(twice)  # the format lets them be
    assert ids_of(plain) == [5, 5, 6]
