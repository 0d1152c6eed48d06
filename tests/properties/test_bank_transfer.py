"""Money moves between accounts through several writers at once: none of it is made or lost in any snapshot."""

from __future__ import annotations

import random
import threading

import pytest

from frazil.errors import CommitConflict, CommitFailed
from frazil.iceberg.table import IcebergTable
from frazil.model.partition import parse_partition_by
from frazil.model.schema import Schema
from frazil.model.types import LongType, NestedField
from tests.properties.memory_table import another_handle, forget, new_table

SCHEMA = Schema((NestedField(1, "account", LongType(), required=True), NestedField(2, "amount", LongType())))
ACCOUNTS, OPENING, WRITERS, TRANSFERS = 6, 100, 3, 4
PROPERTIES = {
    "commit.retry.num-retries": "50",
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "5",
    "commit.manifest.min-count-to-merge": "3",
}


def transfer(table: IcebergTable, source: int, target: int, amount: int) -> None:
    """Read both balances, write both; refused if anybody changed either of them in between."""
    while True:
        table.refresh()
        where = f"account IN ({source}, {target})"
        balances = {row["account"]: row["amount"] for row in table.scan(where).to_arrow().to_pylist()}
        rows = [
            {"account": source, "amount": balances[source] - amount},
            {"account": target, "amount": balances[target] + amount},
        ]
        try:
            table.overwrite(rows, where)
        except (CommitConflict, CommitFailed):
            continue
        return


def balance(table: IcebergTable, account: int) -> int:
    return int(table.scan(f"account = {account}").to_arrow()["amount"][0].as_py())


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("terms", [[], ["bucket(3, account)"]])
def test_transfers_by_several_writers_keep_the_total_at_every_snapshot(version: int, terms: list[str]) -> None:
    spec = parse_partition_by(SCHEMA, terms)
    table, pointer = new_table(SCHEMA, spec, format_version=version, properties=PROPERTIES)
    table.append([{"account": number, "amount": OPENING} for number in range(ACCOUNTS)])
    moved = [0] * ACCOUNTS
    failures: list[BaseException] = []

    def work(seed: int, handle: IcebergTable) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(TRANSFERS):
                source, target = chance.sample(range(ACCOUNTS), 2)
                amount = chance.randint(1, 50)
                transfer(handle, source, target, amount)
                with lock:
                    moved[source] -= amount
                    moved[target] += amount
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            failures.append(error)

    lock = threading.Lock()
    threads = [threading.Thread(target=work, args=(seed, another_handle(table))) for seed in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    table.refresh()
    assert len(table.snapshots) == 1 + WRITERS * TRANSFERS
    assert len(pointer.states) == 2 + WRITERS * TRANSFERS
    for snapshot in table.snapshots:
        rows = table.scan(version=snapshot.snapshot_id).to_arrow().to_pylist()
        assert sorted(row["account"] for row in rows) == list(range(ACCOUNTS))
        assert sum(row["amount"] for row in rows) == ACCOUNTS * OPENING
    assert [balance(table, number) for number in range(ACCOUNTS)] == [OPENING + change for change in moved]
    forget(table)
