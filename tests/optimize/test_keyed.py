"""Optimizing of keyed tables in this process: what becomes of files, who waits for whom, and when there is an end."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from frazil import ambient
from frazil.errors import CommitConflict
from frazil.iceberg.actions.append import FastAppend
from frazil.iceberg.data_file import DataFile
from frazil.mixed.commit import commit_changes
from frazil.mixed.keys import key_fields
from frazil.mixed.operations import Operation, all_of
from frazil.mixed.transactions import ENDED, TRANSACTION, ReadPoint, abandon_transaction
from frazil.mixed.writer import ChangeWriter
from frazil.model.conform import conform
from frazil.optimize import keyed
from frazil.optimize.change_expiry import expire_changes
from frazil.optimize.evaluate import Kind
from frazil.optimize.keyed import optimize_keyed
from frazil.optimize.settings import Settings
from frazil.optimize.tables import plan_mixed
from tests.mixed.tables import ids_of, new_table, row, rows_of
from tests.mixed.test_write import new_view
from tests.optimize.tables import iceberg_table, sorted_rows

AT_ONCE = replace(Settings(), minor_interval_ms=0)
LARGE = replace(AT_ONCE, target_size=1000)
"""Every base file counts as large enough."""
FAR = 10**15
DAY_MS = 86_400_000


def names(store: Any) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in store.scan().plan().file_paths)


def deletes(store: Any) -> list[str]:
    return sorted({one.file_path.rpartition("/")[2] for task in store.scan().plan().tasks() for one in task.deletes})


def test_changes_become_base_files_of_their_transaction() -> None:
    table = new_table()
    table.append([row(n) for n in range(8)])
    table.upsert([row(1, "b")])
    before = rows_of(table)
    outcome = optimize_keyed(table, AT_ONCE)
    assert (outcome.kind, outcome.data_files_removed) == (Kind.MINOR, 0)
    assert rows_of(table) == before
    assert table.scan().plan().has_change_deletes is False
    assert all(re.fullmatch(r"[4-7]-B-[13]-00000-0-\d+-\d{5}\.parquet", name) for name in names(table.base_store))
    assert dict(table.optimized.sequence) == {"": 4}
    assert set(table.optimized.time) == {""}
    summary = table.base_store.snapshots[-1].summary
    assert summary["snapshot.producer"] == "OPTIMIZE"
    assert not optimize_keyed(table, AT_ONCE)


def test_deletes_of_large_files_become_positions_and_then_the_files_are_rewritten() -> None:
    table = new_table(properties={"base.file-index.hash-bucket": "2"})
    table.append([row(n) for n in range(40)])
    optimize_keyed(table, LARGE)
    kept = names(table.base_store)
    table.delete("id = 3")
    outcome = optimize_keyed(table, LARGE)
    assert (outcome.kind, outcome.delete_files_added, outcome.data_files_removed) == (Kind.MINOR, 1, 0)
    assert names(table.base_store) == kept
    assert all(re.fullmatch(r"[23]-PD-1-00000-0-\d+-\d{5}\.parquet", name) for name in deletes(table.base_store))
    assert ids_of(table) == [n for n in range(40) if n != 3]
    assert not optimize_keyed(table, LARGE)
    table.delete("id > 20")
    optimize_keyed(table, LARGE)
    outcome = optimize_keyed(table, LARGE)
    assert (outcome.kind, outcome.delete_files_added) == (Kind.MAJOR, 0)
    assert deletes(table.base_store) == []
    assert ids_of(table) == [n for n in range(21) if n != 3]
    assert not optimize_keyed(table, LARGE)


def test_changes_that_cancel_each_other_are_done_with() -> None:
    """Amoro plans them again and again, since it makes no snapshot without files."""
    table = new_table()
    table.append([row(1), row(2)])
    table.delete("id < 5")
    assert optimize_keyed(table, AT_ONCE).kind is Kind.MINOR
    assert dict(table.optimized.sequence) == {"": 4}
    assert not optimize_keyed(table, AT_ONCE)
    assert rows_of(table) == []


def test_deletes_of_keys_that_no_row_has_are_done_with() -> None:
    table = new_table()
    table.delete_keys([{"id": 1}])
    outcome = optimize_keyed(table, AT_ONCE)
    assert (outcome.kind, outcome.data_files_added) == (Kind.MINOR, 0)
    assert dict(table.optimized.sequence) == {"": 2}
    assert not optimize_keyed(table, AT_ONCE)


def test_few_changes_wait_and_many_do_not() -> None:
    table = new_table()
    table.append([row(1)])
    assert not optimize_keyed(table, replace(AT_ONCE, minor_interval_ms=-1))
    assert not optimize_keyed(table, replace(Settings(), minor_interval_ms=10**12), now_ms=10**11)
    for number in range(2, 14):
        table.append([row(number)])
    assert optimize_keyed(table, replace(AT_ONCE, minor_interval_ms=-1)).kind is Kind.MINOR
    table.append([row(20)])
    assert not optimize_keyed(table, replace(AT_ONCE, enabled=False))
    assert optimize_keyed(table, replace(AT_ONCE, minor_interval_ms=-1, base_refresh_ms=0)).kind is Kind.MINOR


def test_only_partitions_with_changes_are_touched() -> None:
    """The work is that of the changes, not that of the table."""
    table = new_table(partition_by=("region",))
    table.append([row(n, region=f"r{n % 10}") for n in range(100)])
    optimize_keyed(table, LARGE)
    table.upsert([row(5, "b", "r5")])
    plan = plan_mixed(table.refresh(), LARGE).plan
    assert {task.partition.path for task in plan.tasks} == {"region=r5"}
    assert sum(task.bytes for task in plan.tasks) < sum(
        task.file.file_size_in_bytes for task in table.base_store.scan().plan().tasks()
    )


def test_what_comes_to_the_change_store_during_a_run_stays_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table()
    table.append([row(1), row(2)])
    commit = keyed.commit_keyed

    def late(*args: Any) -> Any:
        new_view(table).upsert([row(1, "late")])
        return commit(*args)

    monkeypatch.setattr(keyed, "commit_keyed", late)
    optimize_keyed(table, AT_ONCE)
    assert rows_of(table) == [row(1, "late"), row(2)]


@pytest.mark.parametrize("what", ["optimize", "overwrite"])
def test_of_two_who_change_the_base_store_one_comes_first(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    table = new_table()
    table.append([row(1), row(2)])
    commit = keyed.commit_keyed

    def second(*args: Any) -> Any:
        monkeypatch.setattr(keyed, "commit_keyed", commit)
        other = new_view(table)
        optimize_keyed(other, AT_ONCE) if what == "optimize" else other.overwrite_partitions([row(3)])
        return commit(*args)

    monkeypatch.setattr(keyed, "commit_keyed", second)
    with pytest.raises(CommitConflict):
        optimize_keyed(table, AT_ONCE)
    assert ids_of(table.refresh()) == ([1, 2] if what == "optimize" else [3])
    live = set(names(table.base_store))
    files = {one.location.rpartition("/")[2] for one in table.store.list(f"{table.base_store.location}/data")}
    assert {name for name in files if not name.endswith(".puffin")} <= live | set(deletes(table.base_store))


def test_nothing_is_optimized_past_a_transaction_that_may_still_come() -> None:
    table = new_table()
    table.append([row(1)])
    early = table.begin_transaction()
    table.upsert([row(1, "late")])
    outcome = optimize_keyed(table, AT_ONCE)
    assert outcome.plan is not None
    assert outcome.plan.to_sequence == {"": 2}
    assert not optimize_keyed(table, AT_ONCE)
    abandon_transaction(table.base_store, table._change_store, early)
    assert optimize_keyed(table, AT_ONCE).plan is not None
    assert dict(table.optimized.sequence) == {"": 5}
    assert rows_of(table) == [row(1, "late")]


def test_a_transaction_that_comes_after_its_partition_was_optimized_gets_a_new_id() -> None:
    """In Amoro old rows come back by it: see the golden table k_out_of_order_opt."""
    table = new_table()
    table.append([row(1)])
    early = table.begin_transaction()
    table.delete("id = 1")
    optimize_keyed(table, AT_ONCE, now_ms=FAR)  # so late that the transaction is taken for lost
    assert rows_of(table) == []
    change = table._change_store
    keys = key_fields(table.schema, table.primary_key)
    batch = next(iter(conform([row(1, "late")], table.schema)))

    def written(transaction: int) -> list[DataFile]:
        writer = ChangeWriter(change.metadata, change.store, keys, transaction)
        return writer.write([(batch, all_of(Operation.INSERT, 1))])

    read = ReadPoint.of(table.base_store.metadata, change.metadata)
    with pytest.raises(CommitConflict, match="was optimized up to"):  # what was read is to be read again
        commit_changes(table.base_store, change, written(early), early, read=read)
    snapshot, is_new = commit_changes(table.base_store, change, written(early), early)
    assert is_new
    assert int(snapshot.summary[TRANSACTION]) > table.optimized.sequence[""]
    assert rows_of(table.refresh()) == [row(1, "late")]


def test_changes_expire_by_their_sequence_number_when_they_are_in_the_base_store() -> None:
    table = new_table(partition_by=("region",))
    table.append([row(1), row(2, region="us")])
    optimize_keyed(table, AT_ONCE)
    table.append([row(3)])
    assert expire_changes(table) == 0  # a week has not passed
    assert expire_changes(table, older_than_ms=FAR) == 2
    assert ids_of(table) == [1, 2, 3]
    assert expire_changes(table, older_than_ms=FAR) == 0
    assert table.change.scan().count() == 1


def test_health_falls_with_small_files_and_deletes_and_says_why() -> None:
    table = new_table()
    for number in range(30):
        table.append([row(number)])
    settings = replace(Settings(), target_size=40_000)
    ill = plan_mixed(table, settings).plan.health
    assert ill.score < 100
    assert any("small files" in reason for reason in ill.reasons)
    table.delete("id < 25")
    worse = plan_mixed(table, settings).plan.health
    assert worse.equality_deletes < ill.equality_deletes
    assert any("25 deletes by key for 30 rows" in reason for reason in worse.reasons)
    while optimize_keyed(table, replace(settings, minor_interval_ms=0)):
        pass
    well = plan_mixed(table, settings).plan.health
    assert worse.score < ill.score < well.score
    assert (well.equality_deletes, well.position_deletes) == (40, 20)


def as_amoro(table: Any, rows: list[dict[str, Any]]) -> int:
    """A transaction of Amoro's Spark writer, which says when it begins and not when it ends."""
    begin = FastAppend(table.refresh().change_store._transaction()).set("tx.begin.signature", "")
    begin.commit()
    number: int = table.change_store.snapshot(begin.snapshot_id).sequence_number
    writer = ChangeWriter(table.change_store.metadata, table.store, key_fields(table.schema, ["id"]), number)
    files = writer.write([(one, all_of(Operation.INSERT, one.num_rows)) for one in conform(rows, table.schema)])
    FastAppend(table.change_store._transaction()).append_files(files).commit()
    table.refresh()
    return number


def test_transactions_of_amoro_are_waited_for_until_their_files_are_there() -> None:
    table = new_table(properties={"change.data.ttl.minutes": "0"})
    for number in range(4):
        as_amoro(table, [row(number)])
        assert optimize_keyed(table, AT_ONCE).kind is Kind.MINOR
        expire_changes(table, older_than_ms=FAR)  # takes the files away that told it
        assert not optimize_keyed(table, AT_ONCE)
    assert ids_of(table) == [0, 1, 2, 3]
    ended = [one.summary.get(ENDED) for one in table.change_store.snapshots if ENDED in one.summary]
    assert ended == ["1", "4", "7", "10"]
    begin = FastAppend(table.change_store._transaction()).set("tx.begin.signature", "")
    begin.commit()
    as_amoro(table, [row(9)])
    assert not optimize_keyed(table, AT_ONCE)  # the one before it has not ended
    assert "commit waits for transaction" in plan_mixed(table, AT_ONCE).plan.reasons[-1]


def test_an_overwrite_is_known_to_have_ended_for_as_long_as_its_beginning_is_there() -> None:
    table = new_table(properties={"snapshot.keep.duration": "0"})
    table.append([row(1)], batch_id="one")  # which is kept for days
    table.overwrite([row(2)])
    for number in (3, 4, 5):
        table.append([row(number)], batch_id=f"{number}")
        result = table.optimize("minor")
        assert result.kind is Kind.MINOR, result
    assert ids_of(table) == [2, 3, 4, 5]
    plain = new_table(properties={"snapshot.keep.duration": "0"})
    plain.overwrite([row(2)])
    for number in (3, 4):
        plain.append([row(number)])
        told = plain.optimize("minor", dry_run=True).upkeep
        result = plain.optimize("minor")
        assert result.kind is Kind.MINOR
        assert len(result.upkeep) >= len(told)
    assert len(plain.base_store.snapshots) + len(plain.change_store.snapshots) <= 4  # type: ignore[union-attr]


def test_health_is_that_of_all_small_files_whatever_is_asked_for() -> None:
    """As Amoro has it: files that rest until more comes are small too."""
    properties = {"self-optimizing.target-size": "100000", "base.file-index.hash-bucket": "16"}
    table = new_table(properties=properties)
    dice = Random(1)
    table.append([row(number, "".join(dice.choices("abcdefghij", k=40))) for number in range(4000)])
    table.optimize("full")
    sizes = [task.file.file_size_in_bytes for task in table.base_store.scan().plan().tasks()]
    assert (len(sizes), max(sizes) < 100_000 / 8) == (16, True)
    enough = 75_000
    small = math.ceil(40 - 40 * min(sum(sizes), enough) / enough * (1 - sum(sizes) // 16 / enough))
    for kind in (None, "minor", "full"):
        told = table.optimize(kind, dry_run=True)
        assert told.kind is None
        assert (told.health.small_files, told.health.score) == (small, small + 60)


@pytest.mark.parametrize("is_keyed", [True, False])
def test_a_full_optimizing_comes_once_in_an_interval_also_where_snapshots_expire(is_keyed: bool) -> None:
    properties = {"self-optimizing.full.trigger.interval": str(7 * DAY_MS), "snapshot.keep.duration": "60"}
    table: Any = new_table(properties=properties) if is_keyed else iceberg_table(properties=properties)
    start = 2_000_000_000_000
    full = []
    for hour in range(0, 24 * 15, 6):
        with ambient.replaced(ambient.Ambient(seed=hour, start_ms=start + hour * 3_600_000)):
            table.append([row(hour), row(hour + 1)])
            full += [hour // 24 for run in table.optimize("minor" if hour % 24 else None).runs if run.kind is Kind.FULL]
            assert len(table.snapshots) < 10
    assert full == [0, 7, 14]
    assert len(rows_of(table) if is_keyed else sorted_rows(table)) == 120
