"""Several writers of a table, each stopped between any two of its steps while others go on: whatever the order is that
they come to their ends in, the table holds what a dictionary does after the same changes one by one, by their ids.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import CommitConflict, CommitFailed
from frazil.mixed import commit, overwrite, write
from frazil.mixed.closing import BarOverwrite, CloseOverwrite
from frazil.mixed.commit import AppendChanges
from frazil.mixed.overwrite import Overwrite
from frazil.mixed.table import MixedTable
from frazil.mixed.transactions import TRANSACTION
from frazil.optimize.change_expiry import expire_changes
from frazil.optimize.keyed import optimize_keyed
from frazil.optimize.settings import Settings
from tests.mixed.tables import new_table, row, rows_of
from tests.mixed.test_write import new_view

Rows = dict[int, dict[str, Any]]
REGIONS = ("eu", "us")
PATIENT = {"commit.retry.num-retries": "12", "commit.retry.min-wait-ms": "0", "commit.retry.max-wait-ms": "0"}
PARTITIONINGS = [(), ("bucket(2, id)",), ("region",)]
MOST_AT_ONCE = 3
FAR = 10**15


def at(key: int, name: str) -> dict[str, Any]:
    """A row whose partition follows from its key, however the table is partitioned."""
    return row(key, name, REGIONS[key % 2])


# One writer, step by step.


class Writer:
    """A thread that runs only when it is told to, from one of its stops to the next."""

    here = threading.local()

    def __init__(self, job: Callable[[], Any]) -> None:
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._job = job
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        Writer.here.writer = self
        self._go.acquire()
        try:
            self.result = self._job()
        except BaseException as error:  # noqa: BLE001 - told of where the writer is looked after
            self.error = error
        self.is_done = True
        self._stands.release()

    def stop(self) -> None:
        self._stands.release()
        self._go.acquire()

    def step(self) -> None:
        self._go.release()
        assert self._stands.acquire(timeout=60), "a writer waits for another one"


def stops(function: Callable[..., Any], *, after: bool = False) -> Callable[..., Any]:
    """A function before which, or after which, a writer stops; others go through."""

    def stopping(*arguments: Any, **options: Any) -> Any:
        writer = getattr(Writer.here, "writer", None)
        if writer is not None and not after:
            writer.stop()
        found = function(*arguments, **options)
        if writer is not None and after:
            writer.stop()
        return found

    return stopping


@contextmanager
def stepwise() -> Iterator[None]:
    """Writers stop before they begin, before they commit, and between looking at the table and the commit itself."""
    befores = [(one, "begin_transaction") for one in (write, overwrite, commit)]
    befores += [(write, "commit_changes"), (Overwrite, "_commit"), (Overwrite, "_replace")]
    afters = [(one, "stage") for one in (AppendChanges, CloseOverwrite, BarOverwrite, overwrite._InOrder)]
    with ExitStack() as stack:
        for place, name in [*befores, *afters]:
            found = stops(getattr(place, name), after=name == "stage")
            stack.enter_context(mock.patch.object(place, name, found))
        yield


# What writers do, to a table and to a dictionary.


@dataclass(frozen=True)
class Change:
    name: str
    do: Callable[[Any], Any]
    model: Callable[[Rows], Rows] = lambda rows: rows


def upsert(keys: list[int], name: str) -> Change:
    new = {key: at(key, name) for key in keys}
    return Change(f"upsert {keys}", lambda table: table.upsert(list(new.values())), lambda rows: {**rows, **new})


def append(key: int, name: str) -> Change:
    return Change(
        f"append {key}", lambda table: table.append([at(key, name)]), lambda rows: {**rows, key: at(key, name)}
    )


def delete(name: str) -> Change:
    return Change(
        f"delete {name}",
        lambda table: table.delete(f"name = '{name}'"),
        lambda rows: {key: one for key, one in rows.items() if one["name"] != name},
    )


def delete_keys(keys: list[int]) -> Change:
    return Change(
        f"delete keys {keys}",
        lambda table: table.delete_keys([{"id": key} for key in keys]),
        lambda rows: {key: one for key, one in rows.items() if key not in keys},
    )


def update(name: str) -> Change:
    """Rows of one name, wherever they are."""
    return Change(
        f"update {name}",
        lambda table: table.update({"name": "name || '!'"}, f"name >= '{name}'"),
        lambda rows: {
            key: {**one, "name": one["name"] + "!"} if one["name"] >= name else one for key, one in rows.items()
        },
    )


def merge(keys: list[int], name: str) -> Change:
    """Rows that are there are deleted, and others come."""
    new = {key: at(key, name) for key in keys}

    def do(table: Any) -> Any:
        return table.merge(list(new.values())).when_matched_delete().when_not_matched_insert_all().execute()

    def model(rows: Rows) -> Rows:
        kept = {key: one for key, one in rows.items() if key not in new}
        return {**kept, **{key: one for key, one in new.items() if key not in rows}}

    return Change(f"merge {keys}", do, model)


def overwrite_all(keys: list[int], name: str) -> Change:
    new = {key: at(key, name) for key in keys}
    return Change(f"overwrite by {keys}", lambda table: table.overwrite(list(new.values())), lambda rows: new)


def overwrite_region(keys: list[int], name: str) -> Change:
    """Whole partitions of some tables, single rows of others."""
    region = REGIONS[keys[0] % 2]
    new = {key: at(key, name) for key in keys if key % 2 == keys[0] % 2}
    return Change(
        f"overwrite {region} by {list(new)}",
        lambda table: table.overwrite(list(new.values()), f"region = '{region}'"),
        lambda rows: {**{key: one for key, one in rows.items() if one["region"] != region}, **new},
    )


def overwrite_partitions(keys: list[int], name: str, partition_of: Callable[[dict[str, Any]], Any]) -> Change:
    new = {key: at(key, name) for key in keys}
    gone = {partition_of(one) for one in new.values()}
    return Change(
        f"overwrite partitions of {keys}",
        lambda table: table.overwrite_partitions(list(new.values())),
        lambda rows: {**{key: one for key, one in rows.items() if partition_of(one) not in gone}, **new},
    )


def optimize(table: MixedTable) -> None:
    optimize_keyed(table, replace(Settings(), minor_interval_ms=0))


def expire(table: MixedTable) -> None:
    table.refresh()
    expire_changes(table, older_than_ms=FAR)
    for store in (table.base_store, table._change_store):
        store.refresh().expire_snapshots().older_than(FAR).retain_last(2).commit()


TRUNCATE = Change("truncate", lambda table: table.truncate(), lambda rows: {})
UPKEEP = [Change("optimize", optimize), Change("expire", expire)]


class Scene:
    """A table with writers, and what it should hold. It comes empty."""

    upkeep: Sequence[Change] = UPKEEP

    def __init__(self, table: MixedTable) -> None:
        self.table = table
        self.begin: Rows = {key: at(key, "a") for key in range(4)}
        self.table.append(list(self.begin.values()))
        self.writers: list[tuple[Change, Writer]] = []
        self.ended: list[tuple[int, Change]] = []
        self.told: list[str] = []
        self.count = 0

    def partition_of(self, one: dict[str, Any]) -> tuple[Any, ...]:
        schema = self.table.schema
        sources = [(part.transform, schema.field_by_id(part.source_id)) for part in self.table.spec.fields]
        return tuple(transform.apply(column.type, one[column.name]) for transform, column in sources if column)

    def some_change(self, number: int) -> Change:
        self.count += 1
        name = "abc"[number % 3]
        keys = sorted({number % 5, number % 7, (number * 3) % 6})
        changes = [
            upsert(keys, name),
            upsert(keys[:1], name),
            append(100 + self.count, name),
            delete(name),
            update(name),
            update("a"),
            merge(keys, name),
            delete_keys(keys),
            overwrite_all(keys, name),
            overwrite_region(keys, name),
            overwrite_partitions(keys[:1], name, self.partition_of),
            TRUNCATE,
            *self.upkeep,
        ]
        return changes[number % len(changes)]

    def start(self, number: int) -> None:
        change = self.some_change(number)
        view = new_view(self.table)
        self.writers.append((change, Writer(lambda: change.do(view))))
        self.told.append(f"start {change.name}")

    def step(self, number: int) -> None:
        change, writer = self.writers[number % len(self.writers)]
        writer.step()
        if writer.is_done:
            self.writers.remove((change, writer))
            self.finish(change, writer)
        else:
            self.told.append(f"step of {change.name}")

    def finish(self, change: Change, writer: Writer) -> None:
        if isinstance(writer.error, CommitConflict | CommitFailed):
            self.told.append(f"refused: {change.name}: {writer.error}")
        elif writer.error is not None:
            raise AssertionError("\n".join([*self.told, change.name])) from writer.error
        elif getattr(writer.result, "snapshot", None) is None or change in self.upkeep:
            self.told.append(f"nothing of {change.name}")
        else:
            number = int(writer.result.snapshot.summary[TRANSACTION])
            self.ended.append((number, change))
            self.told.append(f"{number} is {change.name}")
        self.check()

    def wanted(self) -> list[dict[str, Any]]:
        """What there should be: all that ended, one after the other by their ids."""
        rows = self.begin
        for _, change in sorted(self.ended, key=lambda pair: pair[0]):
            rows = change.model(rows)
        return sorted(rows.values(), key=repr)

    def check(self) -> None:
        assert rows_of(new_view(self.table)) == self.wanted(), "\n".join(self.told)


def agrees(scene: Scene, schedule: Iterable[tuple[int, int]]) -> None:
    with stepwise():
        for turn, number in schedule:
            is_new = not scene.writers or (turn % 3 == 0 and len(scene.writers) < MOST_AT_ONCE)
            (scene.start if is_new else scene.step)(number)
        while scene.writers:
            scene.step(0)


SCHEDULES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 419)), min_size=5, max_size=40)


@pytest.mark.parametrize("partition_by", PARTITIONINGS)
@settings(max_examples=12, deadline=None)
@given(schedule=SCHEDULES)
def test_writers_agree_with_a_dictionary_by_the_order_of_their_ids(
    partition_by: tuple[str, ...], schedule: list[tuple[int, int]]
) -> None:
    agrees(Scene(new_table(partition_by=partition_by, properties=PATIENT)), schedule)


@pytest.mark.slow
@pytest.mark.parametrize("partition_by", PARTITIONINGS)
@settings(max_examples=300, deadline=None)
@given(schedule=SCHEDULES)
def test_writers_agree_with_a_dictionary_by_the_order_of_their_ids_for_long(
    partition_by: tuple[str, ...], schedule: list[tuple[int, int]]
) -> None:
    agrees(Scene(new_table(partition_by=partition_by, properties=PATIENT)), schedule)
