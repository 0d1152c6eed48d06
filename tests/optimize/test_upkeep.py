"""Upkeep: what expires, and what must not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from frazil import ambient
from frazil.errors import InvalidArgument
from frazil.mixed.transactions import abandon_transaction
from frazil.optimize.change_expiry import expire_changes
from frazil.optimize.data_expiry import expire_data
from frazil.optimize.keyed import optimize_keyed
from frazil.optimize.run import Request, optimize_table
from frazil.optimize.settings import Settings
from frazil.optimize.upkeep import Upkeep, keep_up
from tests.mixed.tables import ids_of, new_table, row, rows_of
from tests.mixed.test_write import new_view
from tests.optimize.tables import deletes_of, iceberg_table, sorted_rows

AT_ONCE = replace(Settings(), minor_interval_ms=0)
DAY_MS = 86_400_000
FAR = 10**15
TIMES = "id BIGINT NOT NULL, ts TIMESTAMP, name STRING"
OLD, NEW = "2020-01-01T00:00:00", "2020-03-01T00:00:00"


def optimized_then_not() -> Any:
    """A table whose newest base snapshots are not those of optimizing."""
    table = new_table()
    table.append([row(n) for n in range(6)])
    optimize_keyed(table, AT_ONCE)
    for _ in range(3):
        table.base_store.new_append().set("snapshot.producer", "CLEAN_DANGLING_DELETE").commit()
    return table.refresh()


def test_the_snapshot_that_has_the_optimized_sequence_does_not_expire() -> None:
    """Without it the rows of the change store come back beside those of the base store."""
    table = optimized_then_not()
    before = rows_of(table)
    table.base_store.expire_snapshots().older_than(FAR).retain_last(1).commit()
    assert rows_of(new_view(table)) == before
    assert dict(table.refresh().optimized.sequence) == {"": 2}
    table.upsert([row(1, "b")])
    optimize_keyed(table, AT_ONCE)
    newest = table.base_store.expire_snapshots().older_than(FAR).commit().result
    assert len(newest.expired_snapshot_ids) == 4  # now another one has it
    assert newest.deleted_statistics_files_count == 1
    assert ids_of(new_view(table)) == list(range(6))


def test_the_snapshot_that_has_the_optimized_sequence_cannot_be_named_to_expire() -> None:
    table = optimized_then_not()
    history = table.base_store.history
    for one in (history[-1], history[1]):
        with pytest.raises(InvalidArgument, match="optimized changes"):
            table.base_store.expire_snapshots().expire_ids([one.snapshot_id]).commit()


def test_a_tag_keeps_what_it_needs_to_be_read() -> None:
    table = optimized_then_not()
    tagged = table.base_store.history[1]
    table.base_store.manage_refs().create_tag("kept", tagged.snapshot_id).commit()
    table.upsert([row(1, "b")])
    optimize_keyed(table, AT_ONCE)
    table.base_store.expire_snapshots().older_than(FAR).commit()
    kept = table.refresh().base_store.metadata.ancestors_of(tagged.snapshot_id)
    assert any("optimized-sequence.exist" in one.summary for one in kept)


@pytest.mark.parametrize("layout", ["nested", "sibling"])
def test_orphan_removal_keeps_the_optimized_sequence(layout: str) -> None:
    table: Any = new_table(layout=layout)
    table.append([row(1), row(2)])
    optimize_keyed(table, AT_ONCE)
    later = ambient.now_ms() + 30 * DAY_MS
    with ambient.replaced(ambient.Ambient(seed=1, start_ms=later)):
        for store in (table.base_store, table.change_store):
            assert len(store.remove_orphan_files(older_than=later - 2 * DAY_MS)) == 0
    assert dict(new_view(table).optimized.sequence) == {"": 2}
    assert ids_of(new_view(table)) == [1, 2]


def times(**more: str) -> dict[str, str]:
    return {
        "data-expire.enabled": "true",
        "data-expire.field": "ts",
        "data-expire.retention-time": "30d",
        "data-expire.base-on-rule": "CURRENT_TIME",
        **more,
    }


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def of(number: int, ts: str | None, name: str = "a") -> dict[str, Any]:
    return {"id": number, "ts": None if ts is None else datetime.fromisoformat(ts), "name": name}


def test_partitions_go_when_all_of_their_rows_are_old() -> None:
    table = iceberg_table(schema=TIMES, partition_by=("name",), properties=times())
    table.append([of(1, OLD), of(2, OLD, "b")])
    table.append([of(3, NEW, "b")])
    assert expire_data(table, now_ms=at("2020-03-10T00:00:00"), dry_run=True) == 1
    assert len(sorted_rows(table)) == 3
    assert expire_data(table, now_ms=at("2020-03-10T00:00:00")) == 1
    assert [one["id"] for one in sorted_rows(table)] == [2, 3]
    assert table.current_snapshot.summary["snapshot.producer"] == "DATA_EXPIRATION"
    assert expire_data(table, now_ms=at("2020-03-10T00:00:00")) == 0


def test_files_go_one_by_one_where_the_table_says_so() -> None:
    table = iceberg_table(schema=TIMES, partition_by=("name",), properties=times(**{"data-expire.level": "file"}))
    table.append([of(1, OLD), of(2, OLD, "b")])
    table.append([of(3, NEW, "b"), of(4, None)])
    assert expire_data(table, now_ms=at("2020-03-10T00:00:00")) == 2
    assert [one["id"] for one in sorted_rows(table)] == [3, 4]
    assert expire_data(table, now_ms=at("2021-03-10T00:00:00")) == 1
    assert [one["id"] for one in sorted_rows(table)] == [4]  # a row without a time is not old


@pytest.mark.parametrize(
    ("kind", "values", "more"),
    [
        ("BIGINT", [at(OLD), at(NEW)], {}),
        ("BIGINT", [at(OLD) // 1000, at(NEW) // 1000], {"data-expire.datetime-number-format": "TIMESTAMP_S"}),
        ("STRING", ["2020-01-01", "2020-03-01"], {}),
        ("STRING", ["20200101 00", "20200301 00"], {"data-expire.datetime-string-pattern": "yyyyMMdd HH"}),
        ("DATE", ["2020-01-01", "2020-03-01"], {}),
        ("TIMESTAMP_NTZ", [OLD, NEW], {}),
    ],
)
def test_the_age_of_rows_is_told_by_columns_of_several_types(kind: str, values: list[Any], more: Any) -> None:
    from datetime import date, datetime

    parse = {"DATE": date.fromisoformat, "TIMESTAMP_NTZ": datetime.fromisoformat}.get(kind, lambda value: value)
    table = iceberg_table(schema=f"id BIGINT, ts {kind}", properties=times(**{"data-expire.level": "file", **more}))
    for number, value in enumerate(values):
        table.append([{"id": number, "ts": parse(value)}])
    assert expire_data(table, now_ms=at("2020-03-10T00:00:00")) == 1
    assert [one["id"] for one in sorted_rows(table)] == [1]


def test_what_tells_no_age_is_refused() -> None:
    told = times(**{"data-expire.field": "name"})
    for properties, match in (
        ({**told, "data-expire.datetime-string-pattern": "EEE"}, "pattern"),
        ({**told, "data-expire.retention-time": "long"}, "span of time"),
        ({**told, "data-expire.field": "flag"}, "tells no age"),
    ):
        table = iceberg_table(schema="name STRING, flag BOOLEAN", properties=properties)
        table.append([{"name": "a", "flag": True}])
        with pytest.raises(InvalidArgument, match=match):
            expire_data(table)
    without = {name: text for name, text in told.items() if name != "data-expire.field"}
    with pytest.raises(InvalidArgument, match=r"data-expire\.field is not set"):
        expire_data(iceberg_table(properties=without))


def test_age_counts_from_the_last_commit_of_rows() -> None:
    """A table that nobody writes to keeps its rows, and upkeep does not make them older."""
    told = times(**{"data-expire.base-on-rule": "LAST_COMMIT_TIME", "data-expire.retention-time": "1d"})
    table = iceberg_table(schema="id BIGINT, ts BIGINT", properties={**told, "data-expire.level": "file"})
    now = ambient.now_ms()
    table.append([{"id": 1, "ts": now - 2 * DAY_MS}])
    table.append([{"id": 2, "ts": now}])
    assert expire_data(table, now_ms=now + 100 * DAY_MS) == 1
    assert expire_data(table, now_ms=now + 100 * DAY_MS) == 0
    assert [one["id"] for one in sorted_rows(table)] == [2]


@pytest.mark.parametrize("level", ["partition", "file"])
def test_old_rows_of_a_keyed_table_go_from_both_stores(level: str) -> None:
    told = times(**{"data-expire.level": level, "base.file-index.hash-bucket": "1"})
    table = new_table(TIMES, properties={**told, "change.file-index.hash-bucket": "1"})
    table.append([of(1, OLD)])
    optimize_keyed(table, AT_ONCE)
    table.append([of(2, OLD)])
    assert expire_data(table, now_ms=at("2020-03-10T00:00:00")) == 3  # one change file is in the base store already
    assert rows_of(table) == []
    table.append([of(3, NEW)])
    table.append([of(4, OLD)])
    assert expire_data(table, now_ms=at("2020-03-10T00:00:00")) == (0 if level == "partition" else 1)


def test_an_update_to_an_older_row_does_not_bring_the_former_one_back() -> None:
    """The delete of the former one is of the same age as the new one, and must outlive it."""
    told = times(**{"data-expire.level": "file"})
    table = new_table(TIMES, properties=told)
    table.append([of(1, NEW)])
    table.upsert([of(1, OLD)])
    assert expire_data(table, now_ms=at("2020-03-10T00:00:00")) == 1
    assert rows_of(table) == []
    optimize_keyed(table, AT_ONCE)
    expire_changes(table, older_than_ms=FAR)
    assert rows_of(new_view(table)) == []


def test_deletes_that_apply_to_nothing_go() -> None:
    table = iceberg_table()
    table.append([row(n) for n in range(5)])
    table.upsert([row(9)], ["id"])
    table.overwrite([row(1)])
    assert table.current_snapshot.summary["total-equality-deletes"] != "0"
    assert [str(one) for one in keep_up(table, dry_run=True)] == ["1 dangling delete"]
    assert [str(one) for one in keep_up(table)] == ["1 dangling delete"]
    assert table.current_snapshot.summary["total-equality-deletes"] == "0"
    assert deletes_of(table) == set()
    assert keep_up(table) == []
    assert sorted_rows(table) == [row(1)]


def test_upkeep_of_a_keyed_table_comes_to_an_end_and_loses_nothing() -> None:
    table = new_table(properties={"change.data.ttl.minutes": "0", "snapshot.keep.duration": "0"})
    for number in range(4):
        table.upsert([row(number % 2, str(number)), row(number + 5)])
        optimize_keyed(table, AT_ONCE)
    wanted = rows_of(table)
    later = ambient.now_ms() + 10 * DAY_MS
    done = {one.what: one.count for one in keep_up(table, now_ms=later)}
    assert done.keys() == {"optimized change file", "expired snapshot"}
    assert rows_of(new_view(table)) == wanted
    keep_up(table, now_ms=later)  # what removed the change files is a snapshot as well
    assert keep_up(table, now_ms=later) == []
    assert table.change.scan().count() == 0
    assert list(table.store.list(f"{table.change_store.location}/data")) == []


def test_snapshots_that_somebody_may_ask_for_do_not_expire() -> None:
    table = new_table(properties={"snapshot.keep.duration": "0"})
    table.append([row(1)], batch_id="stream/1")
    table.append([row(2)], batch_id="stream/2")
    early = table.begin_transaction()
    table.append([row(3)])
    keep_up(table, now_ms=ambient.now_ms() + 1000)
    table.append([row(2)], batch_id="stream/2")
    assert ids_of(table) == [1, 2, 3]
    assert optimize_keyed(table, AT_ONCE).plan.to_sequence == {"": 4}  # not past the transaction
    assert early == 5


@pytest.mark.parametrize("key", [("id",), ()])
def test_batches_of_any_names_are_known_for_the_time_that_is_promised(key: tuple[str, ...]) -> None:
    table = new_table(primary_key=key)
    names = ["2026-11-16", "2026-11-17", "s3://in/day/a.csv", "s3://in/day/b.csv", "10:05"]

    def bring_all() -> None:
        for number, name in enumerate(names):
            table.append([row(number)], batch_id=name)

    bring_all()
    for hours in (13, 24 * 6):
        optimize_table(table, Request(now_ms=ambient.now_ms() + hours * 3_600_000))
        bring_all()
        assert ids_of(table) == [0, 1, 2, 3, 4]
    table.update_properties().set("frazil.batch.retention-ms", 0).commit()
    assert any(one.what == "expired snapshot" for one in keep_up(table, now_ms=ambient.now_ms() + DAY_MS))


def test_of_each_stream_the_last_batch_is_kept() -> None:
    table = new_table(properties={"snapshot.keep.duration": "0"})
    for number in range(4):
        told = {"spark.sql.streaming.queryId": f"query {number // 3}", "spark.sql.streaming.epochId": str(number)}
        table.append([row(number)], batch_id=f"query:{number}", snapshot_properties=told)
    keep_up(table, now_ms=ambient.now_ms() + DAY_MS)
    kept = {one.summary.get("spark.sql.streaming.epochId") for one in table.refresh().snapshots}
    assert {"2", "3"} <= kept
    assert not {"0", "1"} & kept


def test_what_fails_does_not_keep_the_rest_from_being_done() -> None:
    table = iceberg_table(properties={"data-expire.enabled": "true", "data-expire.retention-time": "1d"})
    table.append([row(1)])
    table.upsert([row(9)], ["id"])
    table.overwrite([row(1)])
    done = keep_up(table)
    assert [one.what for one in done] == ["file of expired rows", "dangling delete"]
    assert "data-expire.field is not set" in str(done[0])


def test_what_is_done_is_counted_in_words() -> None:
    told = [str(Upkeep("file of expired rows", count)) for count in (1, 5, 1200)]
    assert told == ["1 file of expired rows", "5 files of expired rows", "1,200 files of expired rows"]
    assert str(Upkeep("expired snapshot", 2)) == "2 expired snapshots"


def test_writers_that_fail_make_no_rows_old() -> None:
    """Rows grow old by what comes after them."""
    rule = {"data-expire.base-on-rule": "LAST_COMMIT_TIME", "data-expire.level": "file"}
    table: Any = new_table(TIMES, properties=times(**rule))

    def now(number: int) -> dict[str, Any]:
        return {"id": number, "ts": datetime.fromtimestamp(ambient.now_ms() / 1000, UTC), "name": "b"}

    table.append([now(1)])
    with ambient.replaced(ambient.Ambient(seed=1, start_ms=ambient.now_ms() + 60 * DAY_MS)):
        abandon_transaction(table.base_store, table.change_store, table.begin_transaction())
        for _ in range(2):
            assert not any("rows" in one.what for one in keep_up(table))
        assert ids_of(table) == [1]
        table.append([now(2)])
        assert expire_data(table) == 1
        assert ids_of(table) == [2]


@pytest.mark.parametrize("name", ["snapshot.keep.duration", "snapshot.keep.flink.checkpoint-retention"])
def test_less_than_no_time_is_refused(name: str) -> None:
    table = new_table(properties={name: "-1"})
    table.append([row(1)])
    table.append([row(2)])
    before = len(table.snapshots)
    assert any("less than no time" in str(one) for one in keep_up(table, now_ms=FAR))
    assert len(table.refresh().snapshots) == before
