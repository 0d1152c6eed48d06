"""The past of a keyed table: any snapshot of either store, and any time."""

from __future__ import annotations

import pytest

from frazil import ambient
from frazil.errors import InvalidArgument, SnapshotNotFound
from frazil.mixed.closing import CLOSING
from frazil.mixed.pair import BASE_SNAPSHOT, CHANGE_SNAPSHOT, NONE
from tests.mixed.goldens import expected, golden
from tests.mixed.tables import ids_of, new_table, row


def test_every_snapshot_gives_the_rows_that_the_table_had() -> None:
    with ambient.replaced(ambient.Ambient(seed=5, start_ms=1_000_000)):
        table = new_table(partition_by=("region",))
        past = []

        def remember() -> None:
            pair = table.current_snapshot
            newest = max((one for one in (pair.base, pair.change) if one), key=lambda one: one.timestamp_ms)
            past.append((newest, ids_of(table)))

        table.append([row(1), row(2, region="us")])
        remember()
        table.upsert([row(1, "b", "us")])
        remember()
        table.overwrite_partitions([row(5, region="us")])
        remember()
        table.append([row(6)])
        remember()
        table.truncate()
        remember()
        table.append([row(7)])
        remember()
        assert [ids for _, ids in past] == [[1, 2], [1, 2], [5], [5, 6], [], [7]]
        for snapshot, ids in past:
            assert ids_of(table, version=snapshot.snapshot_id) == ids
            assert ids_of(table, as_of=snapshot.timestamp_ms) == ids
        with pytest.raises(SnapshotNotFound):
            table.scan(as_of=past[0][0].timestamp_ms - 1_000)


def test_snapshots_say_which_one_the_other_store_was_at() -> None:
    table = new_table()
    table.append([row(1)])
    table.overwrite_partitions([row(2)])
    table.append([row(3)])
    assert table.change_store is not None
    begun, first, *_, last = table.change_store.snapshots
    (base,) = table.base_store.snapshots
    assert {begun.summary[BASE_SNAPSHOT], first.summary[BASE_SNAPSHOT]} == {NONE}
    assert last.summary[BASE_SNAPSHOT] == str(base.snapshot_id)
    [closing] = [one for one in table.change_store.snapshots if CLOSING in one.summary]
    assert base.summary[CHANGE_SNAPSHOT] == str(closing.snapshot_id)
    assert sorted(one.timestamp_ms for one in table.snapshots) == [one.timestamp_ms for one in table.snapshots]


def test_the_schema_is_that_of_the_time() -> None:
    table = new_table()
    table.append([row(1)])
    before = table.current_snapshot.change
    assert before is not None
    table.update_schema().drop_column("name").add_column("n", "int").commit()
    table.append([{"id": 2, "region": "eu", "n": 4}])
    assert table.scan(version=before.snapshot_id).to_arrow().to_pylist() == [row(1)]
    assert table.scan().to_arrow().column_names == ["id", "region", "n"]


def test_a_pair_of_which_one_has_expired_is_not_found() -> None:
    table = new_table()
    table.append([row(1)])
    table.overwrite_partitions([row(2)])
    old = table.current_snapshot.base
    table.overwrite_partitions([row(3)])
    assert old is not None
    assert table.change_store is not None
    gone = int(old.summary[CHANGE_SNAPSHOT])
    table.change_store.expire_snapshots().expire_ids([gone]).commit()
    with pytest.raises(SnapshotNotFound, match="which is gone"):
        table.scan(version=old.snapshot_id)
    assert ids_of(table) == [3]


def test_snapshots_of_amoro_are_paired_by_time() -> None:
    """Its steps are states in between: reading the end as of their snapshots gives their rows."""
    end = golden("k_overwrite")
    for step in ("k_overwrite/s1", "k_overwrite/s2", "k_overwrite/s3"):
        pair = golden(step).current_snapshot
        newest = max((one for one in (pair.base, pair.change) if one), key=lambda one: one.timestamp_ms)
        assert end.scan(version=newest.snapshot_id).count() == len(expected(step)["rows"])


def test_what_names_no_moment_is_refused() -> None:
    table = new_table()
    table.append([row(1)])
    with pytest.raises(SnapshotNotFound, match="neither store"):
        table.scan(version=1)
    with pytest.raises(InvalidArgument, match="branch or tag"):
        table.scan(ref="main")
    with pytest.raises(InvalidArgument, match="one of them"):
        table.scan(version=1, as_of=1)
