"""Incident 9: several processes append to one table, and no acknowledged row is lost or doubled."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

import frazil
from tests.catalog.appending import append_rows

WRITERS = {"folder": (8, 25), "folder with cleaning": (5, 12), "sqlite": (8, 25), "postgresql": (8, 25)}
"""How many processes, and how many appends of each."""
PATIENT = {
    "commit.retry.num-retries": "10000",
    "commit.retry.min-wait-ms": "20",
    "commit.retry.max-wait-ms": "300",
}
CLEANING = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "3"}


@pytest.mark.parametrize("kind", WRITERS)
def test_appends_of_many_processes_are_all_in_the_table_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    warehouse = str(tmp_path / "warehouse")
    if kind.startswith("folder"):
        uri, place = warehouse, None
    elif kind == "sqlite":
        uri, place = f"sqlite:///{tmp_path}/lake.db", warehouse
    else:
        uri, place = request.getfixturevalue("postgres_url"), warehouse
    lake = frazil.connect(uri) if place is None else frazil.connect(uri, warehouse=place)
    properties = {**PATIENT, **CLEANING} if kind == "folder with cleaning" else PATIENT
    lake.create_table("db.t", "id BIGINT", properties=properties)
    lake.close()  # the connections are this process's
    processes, appends = WRITERS[kind]
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=append_rows, args=(uri, place, n, appends)) for n in range(processes)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(240)
    assert [writer.exitcode for writer in writers] == [0] * processes
    table = lake.table("db.t")
    rows = sorted(table.scan().to_arrow()["id"].to_pylist())
    assert rows == sorted(writer * 1000 + number for writer in range(processes) for number in range(appends))
    sequence_numbers = [snapshot.sequence_number for snapshot in table.snapshots]
    assert sequence_numbers == list(range(1, processes * appends + 1))
    assert len(table.history) == processes * appends
    lake.close()
