"""Transactions that are committed in another order than they began in: the table is as if each had come at its turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import frazil.mixed.write as writes
from frazil.errors import CommitConflict
from frazil.iceberg.snapshot import Snapshot
from frazil.mixed.closing import BARRED
from frazil.mixed.file_names import transaction_of
from frazil.mixed.keys import columns_of_changes
from frazil.mixed.looked_at import looked_at, told
from frazil.mixed.overwrite import Overwrite
from frazil.mixed.table import MixedTable
from frazil.mixed.transactions import READS, TRANSACTION, ReadPoint, open_transactions, told_by_changes
from frazil.model.binding import bind
from frazil.model.expression_parser import as_expression, parse_expression
from frazil.model.expressions import AlwaysTrue
from tests.mixed.tables import new_table, row, rows_of
from tests.mixed.test_write import new_view

UPSERTS = {"write.upsert.enabled": "true"}


def beside(monkeypatch: pytest.MonkeyPatch, *others: Callable[[], object]) -> None:
    """Let others come after the next changes have begun and been written, before each attempt to commit them."""
    commit = writes.commit_changes
    waiting = list(others)

    def late(*arguments: Any, **options: Any) -> Any:
        if waiting:
            waiting.pop(0)()
        return commit(*arguments, **options)

    monkeypatch.setattr(writes, "commit_changes", late)


def nothing_is_left(table: MixedTable) -> None:
    """No transaction is open, and no file is in a store that no snapshot has."""
    table.refresh()
    base, change = table.base_store, table._change_store
    assert not open_transactions(base.metadata, change.metadata, 0, 10**15)
    for store in (base, change):
        plans = [store.scan(version=one.snapshot_id).plan() for one in store.snapshots]
        live = {task.file.file_path.rpartition("/")[2] for plan in plans for task in plan.tasks()}
        files = {one.location.rpartition("/")[2] for one in store.store.list(f"{store.location}/data")}
        assert {one for one in files if not one.endswith(".puffin")} == live


@pytest.mark.parametrize("partition_by", [(), ("bucket(2, id)",)])
@pytest.mark.parametrize(
    "quick",
    [
        lambda other: other.update({"name": "name || '!'"}, "id = 1"),
        lambda other: other.delete("name = 'a'"),
        lambda other: other.merge([row(1, "merged")]).when_matched_update_all().execute(),
    ],
)
def test_an_upsert_is_not_lost_to_a_quicker_command_that_did_not_see_it(
    quick: Callable[[Any], object], partition_by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(partition_by=partition_by)
    table.append([row(1)])
    other = new_view(table)
    beside(monkeypatch, lambda: quick(other))
    done = table.upsert([row(1, "upserted"), row(2, "upserted")])
    assert (done.rows_inserted, done.snapshot is not None) == (2, True)
    assert rows_of(table) == [row(1, "upserted"), row(2, "upserted")]
    nothing_is_left(table)


def test_change_data_that_comes_late_is_applied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table()
    table.append([row(1)])
    other = new_view(table)
    beside(monkeypatch, lambda: other.update({"name": "'updated'"}, "id = 1"))
    rows = [{"op": "u", **row(1, "told")}, {"op": "i", **row(2)}]
    for _ in range(2):
        table.ingest(rows, batch_id="q/1")
    assert rows_of(table) == [row(1, "told"), row(2)]
    nothing_is_left(table)


def test_a_transaction_that_is_overtaken_again_and_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from frazil.mixed.commit import AppendChanges

    table = new_table(properties={"commit.retry.num-retries": "2"})
    table.append([row(1)])
    other = new_view(table)
    stage = AppendChanges.stage

    def overtaken(self: AppendChanges, context: Any) -> Any:
        if self._rows_of is None:
            other.update({"name": "name || '!'"})
        return stage(self, context)

    monkeypatch.setattr(AppendChanges, "stage", overtaken)
    with pytest.raises(CommitConflict, match="read the table without transaction"):
        table.upsert([row(1, "late")])
    monkeypatch.undo()
    [found] = rows_of(table.refresh())
    assert found["name"].startswith("a!")
    nothing_is_left(table)


def read_only(monkeypatch: pytest.MonkeyPatch, table: MixedTable, text: str) -> None:
    """Let commands say that they looked at some rows only, as those of Spark do."""
    change = table._change_store
    where = told_by_changes(bind(table.schema, parse_expression(text)), columns_of_changes(change.spec, [1]))
    whole = ReadPoint.of
    monkeypatch.setattr(ReadPoint, "of", lambda *stores: replace(whole(*stores), where=where))


def test_blind_changes_and_what_looked_at_other_rows_leave_a_transaction_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = new_table(partition_by=("region",))
    table.append([row(1), row(2, region="us")])
    other = new_view(table)
    read_only(monkeypatch, table, "region = 'us'")

    def others() -> None:
        other.append([row(3)])
        other.update({"name": "'b'"}, "region = 'us'")

    beside(monkeypatch, others)
    table.append([row(4)])
    change = table._change_store
    [last] = [one for one in change.snapshots if one.snapshot_id == change.metadata.current_snapshot_id]
    assert last.summary[TRANSACTION] == "3"
    ended = [(one.summary[TRANSACTION], READS in one.summary) for one in change.snapshots if TRANSACTION in one.summary]
    assert ended == [("1", False), ("4", False), ("6", True), ("3", False)]
    names = {transaction_of(task.file.file_path) for task in change.scan().plan().tasks()}
    assert names == {1, 3, 4, 6}


def test_what_looked_for_rows_that_come_late_comes_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it changed none of their partition: else there would be no order for all three."""
    table = new_table(partition_by=("bucket(2, id)",))
    table.append([row(1), row(3)])
    [one, two] = [task.file.partition for task in table._change_store.scan().plan().tasks()]
    assert one != two
    other = new_view(table)

    def others() -> None:
        other.upsert([row(3, "b")])
        other.update({"name": "'found'"}, "name = 'a'")

    beside(monkeypatch, others)
    table.upsert([row(3, "a"), row(5, "a")])
    assert rows_of(table) == [row(1, "found"), row(3, "a"), row(5, "a")]


def test_what_was_looked_at_is_told_and_read_again() -> None:
    table = new_table("id BIGINT NOT NULL, day DATE, price DOUBLE", partition_by=("day",))
    change = table._change_store
    for text, same in (
        ("id > 5 AND day = '2026-11-17'", True),
        ("id IN (1, 2) OR day IS NULL", True),
        ("price > 2.5", False),
        (f"id IN ({', '.join(map(str, range(1000)))})", False),
    ):
        where = bind(table.schema, parse_expression(text))
        kept = replace(Snapshot(1), summary={READS: told(where)}, schema_id=change.metadata.current_schema_id)
        assert looked_at(change.metadata, kept) == (where if same else AlwaysTrue())
        assert looked_at(change.metadata, replace(kept, schema_id=77)) == AlwaysTrue()
        assert looked_at(change.metadata, replace(kept, summary={READS: "?"})) == AlwaysTrue()
        assert looked_at(change.metadata, replace(kept, summary={})) is None


def test_a_late_transaction_whose_history_has_expired_gets_a_new_id(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table()
    table.append([row(1)])
    other = new_view(table)

    def others() -> None:
        other.delete("id = 1")
        other._change_store.expire_snapshots().older_than(10**15).retain_last(1).commit()

    beside(monkeypatch, others)
    table.upsert([row(1, "late")])
    assert rows_of(table) == [row(1, "late")]


# Overwrites.


def replaced(table: MixedTable, new: list[dict[str, Any]], meanwhile: Callable[[], object], where: str = "") -> None:
    """Overwrite what matches, or all, or with '*' the partitions of the rows; others come before it is committed."""
    job = Overwrite(table)
    write = job._write

    def written(*arguments: Any) -> Any:
        files = write(*arguments)
        meanwhile()
        return files

    job._write = written  # type: ignore[method-assign]
    if where == "*":
        job.dynamic(new)
        return
    condition = as_expression(where or None)
    partitions = job.matching(condition)
    assert partitions is not None
    job.by_filter(new or None, condition, partitions)


@pytest.mark.parametrize("where", ["", "*"])
def test_an_overwrite_comes_after_a_quicker_command_that_did_not_see_it(where: str) -> None:
    table = new_table()
    table.append([row(1), row(2)])
    other = new_view(table)
    replaced(table, [row(1, "overwritten")], lambda: other.update({"name": "name || '!'"}), where)
    assert rows_of(table) == [row(1, "overwritten")]
    nothing_is_left(table)


def test_a_truncated_table_has_no_rows_though_one_was_updated_meanwhile() -> None:
    table = new_table()
    table.append([row(1), row(2)])
    other = new_view(table)
    replaced(table, [], lambda: other.update({"name": "'b'"}, "id = 1"))
    assert rows_of(table) == []
    nothing_is_left(table)


@pytest.mark.parametrize("quick_first", [True, False])
def test_a_slow_upsert_beside_an_overwrite_leaves_one_row_of_a_key(
    quick_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(properties=UPSERTS)
    table.append([row(1), row(2)])
    other = new_view(table)
    job = Overwrite(other)
    partitions = job.matching(AlwaysTrue())
    assert partitions is not None
    end: list[Callable[[], object]] = []

    def overwrite() -> None:
        begun = job.begin()
        files = job._write(job._checked([row(1, "overwritten")]), begun)
        end.append(lambda: job.replace_matching(begun, files, AlwaysTrue(), partitions))
        if quick_first:
            end.pop()()

    beside(monkeypatch, overwrite)
    table.upsert([row(1, "upserted")])
    for one in end:
        one()
    assert rows_of(table.refresh()) == [row(1, "upserted")]
    nothing_is_left(table)


def test_what_comes_between_the_choice_of_partitions_and_the_overwrite_is_replaced() -> None:
    table = new_table(partition_by=("region",), properties=UPSERTS)
    job = Overwrite(table)
    partitions = job.matching(AlwaysTrue())
    assert partitions == {}
    table.upsert([row(1, "upserted"), row(2, "upserted", "us")])
    job.by_filter([row(1, "overwritten")], AlwaysTrue(), partitions)
    assert rows_of(table) == [row(1, "overwritten")]


def test_blind_changes_and_what_looked_at_other_rows_leave_an_overwrite_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = new_table(partition_by=("region",))
    table.append([row(1), row(2, region="us")])
    other = new_view(table)
    read_only(monkeypatch, table, "region = 'us'")

    def others() -> None:
        other.update({"name": "'b'"}, "region = 'us'")
        other.append([row(4)])

    replaced(table, [row(3)], others, "region = 'eu'")
    assert rows_of(table) == [row(2, "b", "us"), row(3), row(4)]
    assert dict(table.optimized.sequence) == {"region=eu": 3}


@pytest.mark.parametrize("where", ["", "*"])
def test_of_two_overwrites_that_which_is_committed_last_has_the_last_word(where: str) -> None:
    table = new_table()
    table.append([row(1)])
    other = new_view(table)
    replaced(table, [row(2, "slow")], lambda: other.overwrite([row(3, "quick")]), where)
    assert rows_of(table) == [row(2, "slow")]
    nothing_is_left(table)


def test_rows_that_are_read_while_an_overwrite_is_committed_keep_it_from_being_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has closed, and is not in the base store yet: who reads then bars it, and it comes after that."""
    table = new_table()
    table.append([row(1), row(2)])
    other = new_view(table)
    carry_out = Overwrite._replace
    barring = [lambda: other.update({"name": "'updated'"}, "id = 1")]

    def late(self: Overwrite, *arguments: Any) -> Any:
        if barring:
            barring.pop()()
        return carry_out(self, *arguments)

    monkeypatch.setattr(Overwrite, "_replace", late)
    table.overwrite([row(1, "overwritten")])
    assert rows_of(table) == [row(1, "overwritten")]
    assert sum(BARRED in one.summary for one in table.base_store.snapshots) == 1
    other.refresh().update({"name": "'last'"}, "id = 1")
    assert rows_of(other) == [row(1, "last")]
    assert sum(BARRED in one.summary for one in other.base_store.snapshots) == 1
    nothing_is_left(other)


def test_an_overwrite_that_died_while_it_closed_is_in_nobodys_way(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table()
    table.append([row(1), row(2)])

    def dies(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Overwrite, "_replace", dies)
    with pytest.raises(KeyboardInterrupt):
        table.overwrite([row(1, "overwritten")])
    monkeypatch.undo()
    table = new_view(table)
    for number in range(3):
        table.update({"name": f"'{number}'"}, "id = 1")
    assert rows_of(table) == [row(1, "2"), row(2)]
    assert sum(BARRED in one.summary for one in table.base_store.snapshots) == 1
