"""Every table that Amoro's library wrote gives the rows that this library reads from it, and the files it sees."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from frazil.errors import Unsupported
from frazil.iceberg.data_file import DataFile
from frazil.io import location as locations
from frazil.mixed.file_names import FilePlace, parse_base, parse_change
from frazil.mixed.plan import MixedPlan
from frazil.mixed.visible import PartitionPaths, is_visible
from tests.golden_values import encode_rows
from tests.mixed.goldens import WRITTEN_AT, cases, expected, golden

DOUBTFUL = {"k_year", "k_null_partition"}
"""Amoro wrote an optimized sequence that does not name the partitions it is of, and reads rows twice: we refuse."""
UNREADABLE = {"k_plain_change"}
"""Amoro fails where a plain file in the change store meets a delete: we read it, as the advice in the notes says."""
KEYED = [case for case in cases() if expected(case)["keyed"]]
READ = [case for case in cases() if case not in DOUBTFUL | UNREADABLE]


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps({name: unordered(value) for name, value in row.items()}, sort_keys=True) for row in rows)


def unordered(value: Any) -> Any:
    """The pairs of a map in one order."""
    is_map = isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
    return sorted(value, key=json.dumps) if is_map else value


def test_the_tables_that_amoro_reads_wrongly_are_those_we_know() -> None:
    assert {case for case in cases() if expected(case)["match"] != "must"} == DOUBTFUL | UNREADABLE


@pytest.mark.parametrize("case", READ)
def test_rows_are_those_amoro_reads(case: str) -> None:
    scan = golden(case).scan()
    rows = encode_rows(scan.to_arrow(), scan.output)
    assert counted(rows) == counted(expected(case)["rows"])
    assert scan.count() == len(rows)
    assert counted([row for batch in scan.to_batches() for row in encode_rows(batch, scan.output)]) == counted(rows)


@pytest.mark.parametrize("case", sorted(DOUBTFUL))
def test_an_optimized_sequence_that_names_no_partition_is_refused(case: str) -> None:
    with pytest.raises(Unsupported, match="optimized sequence"):
        golden(case).scan().to_arrow()
    table = golden(case)
    assert table.base_store.scan().count() > 0  # each store can still be read
    assert table.change.scan().count() == len(expected(case)["change_rows"])


def test_a_plain_file_in_the_change_store_is_older_than_every_offset() -> None:
    scan = golden("k_plain_change").scan()
    rows = encode_rows(scan.to_arrow(), scan.output)
    inserted = [row for row in expected("k_plain_change")["change_rows"] if row["_change_action"] == "INSERT"]
    left = [{key: row[key] for key in ("k", "name", "qty")} for row in inserted if row["k"] != -1]
    assert counted(rows) == counted(left)


@pytest.mark.parametrize("case", KEYED)
def test_change_rows_are_those_amoro_reads(case: str) -> None:
    change = golden(case).change
    scan = change.scan(columns=[*change.schema.columns, "_file"])
    rows = encode_rows(scan.to_arrow(), scan.output)
    for row in rows:
        row["_file"] = locations.name(row["_file"])
    assert counted(rows) == counted(expected(case)["change_rows"])


@pytest.mark.parametrize("case", KEYED)
def test_files_have_the_nodes_transactions_and_visibility_that_amoro_sees(case: str) -> None:
    table = golden(case)
    paths = PartitionPaths(table.base_store.metadata)

    def seen(store: str, file: DataFile, place: FilePlace) -> tuple[Any, ...]:
        path = locations.relative_to(file.file_path, WRITTEN_AT)
        known = (store, path, paths.of(file), file.data_sequence_number, file.record_count)
        visible = store == "base" or is_visible(file, paths.of(file), table.optimized)
        return (*known, place.type.value, place.node, place.transaction_id, visible)

    found = [
        seen("base", task.file, parse_base(task.file.file_path)) for task in table.base_store.scan().plan().tasks()
    ]
    for task in table._change_store.scan().plan().tasks():
        assert task.file.data_sequence_number is not None
        found.append(seen("change", task.file, parse_change(task.file.file_path, task.file.data_sequence_number)))
    keys = ("store", "path", "partition", "data_sequence_number", "record_count", "type", "node", "transaction_id")
    wanted = [
        (*(file[key] for key in keys), file["visible"]) for file in expected(case)["files"] if file["content"] == 0
    ]
    if case == "k_null_partition":  # Amoro tells null from the text in memory, and nobody can by the file
        found, wanted = ([row[:-1] for row in rows] for rows in (found, wanted))
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("case", cases())
def test_base_files_have_no_other_deletes_than_amoro_gives_them(case: str) -> None:
    """Amoro attaches every position delete file of the partition; those that name another file are left out here."""
    told = {file["path"]: set(file["deletes"]) for file in expected(case)["files"] if file.get("deletes")}
    named = {file["path"].rpartition("/")[2] for file in expected(case)["files"] if file["content"] != 0}
    attached = set()
    for task in golden(case).base_store.scan().plan().tasks():
        deletes = {locations.name(delete.file_path) for delete in task.deletes}
        assert deletes <= told.get(locations.relative_to(task.file.file_path, WRITTEN_AT) or "", set())
        attached |= deletes
    assert attached == named


@pytest.mark.parametrize("case", KEYED)
def test_the_optimized_sequence_is_that_in_the_files(case: str) -> None:
    table, told = golden(case), expected(case)
    if case in DOUBTFUL:  # Amoro reads partitions back from their paths, wrongly: what the file says counts
        texts = {puffin["snapshot_id"]: puffin["blobs"] for puffin in told["puffin"]}
        blobs = texts[table.base_store.metadata.current_snapshot_id]
        assert table.optimized.sequence == json.loads(blobs["optimized-sequence"])
        return
    assert table.optimized.sequence == told["optimized_sequence"]
    assert table.optimized.time == told["base_optimized_time"]


@pytest.mark.parametrize("case", [case for case in KEYED if "plan" in expected(case) and case not in DOUBTFUL])
def test_plans_have_the_files_of_amoros_plans(case: str) -> None:
    plan = golden(case).scan().plan()
    assert isinstance(plan, MixedPlan)
    assert _by_node(_tasks(plan)) == _by_node(expected(case)["plan"])


def _tasks(plan: MixedPlan) -> list[dict[str, Any]]:
    return [
        {
            "partition": task.partition_path,
            "node": task.node,
            "base": [locations.name(one.path) for one in task.base],
            "insert": [locations.name(one.path) for one in task.inserts],
            "change_deletes": [locations.name(one.path) for one in task.deletes],
            "position_deletes": [locations.name(d.file_path) for one in task.base for d in one.task.deletes],
        }
        for task in plan.tasks
    ]


def _by_node(tasks: list[dict[str, Any]]) -> dict[str, dict[str, set[str]]]:
    """How tasks are cut is not a must: which files meet in a node is."""
    nodes: dict[str, dict[str, set[str]]] = {}
    for task in tasks:
        node = nodes.setdefault(f"{task['partition']}#{task['node']}", {})
        for kind in ("base", "insert", "change_deletes"):
            node.setdefault(kind, set()).update(task[kind])
    return nodes
