"""Every golden table, written by Iceberg's Java library, gives what that library reads from it."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context
from frazil.iceberg.committer import ReadOnly, TableState
from frazil.iceberg.data_file import Status
from frazil.iceberg.manifest import ALL_COLUMNS
from frazil.iceberg.metadata_json import parse_metadata
from frazil.iceberg.scan import Scan
from frazil.iceberg.table import IcebergTable
from frazil.io import location as locations
from frazil.model.arrow_evaluator import filter_mask
from frazil.model.binding import bind
from frazil.model.expression_json import expression_from_json
from tests.golden_tables import WRITTEN_AT, cases, expected, golden_store
from tests.golden_values import encode_rows

LATER = {"encrypted", "view", "dv_blobs"}
TABLES = [case for case in cases() if case not in LATER]
LINEAGE = ("_row_id", "_last_updated_sequence_number")


@cache
def golden(case: str) -> tuple[IcebergTable, dict[str, Any]]:
    told = expected(case)
    store = golden_store()
    state = TableState(parse_metadata(store.read(told["metadata_file"])), told["metadata_file"])
    return IcebergTable(case, store, ReadOnly(state), state), told


def file_numbers(told: dict[str, Any], paths: list[str]) -> list[int]:
    numbers = {name: number for number, name in enumerate(told["file_list"])}
    return [numbers[locations.relative_to(path, WRITTEN_AT)] for path in paths]


def check_rows(scan: Scan, told: dict[str, Any], *, lineage: bool) -> None:
    if "rows" not in told:
        assert scan.count() == told["row_count"]
        return
    scan = scan.select(*scan.schema.columns, *(LINEAGE if lineage else ()))
    rows = encode_rows(scan.to_arrow(), scan.output)
    found = Counter()
    for row in rows:
        ids_of_row = [row.pop(name) for name in LINEAGE] if lineage else None
        found[json.dumps([row, ids_of_row], sort_keys=True)] += 1
    of_rows = told.get("lineage") or [[None, None]] * len(told["rows"])
    wanted = Counter(
        json.dumps([row, list(pair) if lineage else None], sort_keys=True)
        for row, pair in zip(told["rows"], of_rows, strict=True)
    )
    assert found == wanted
    assert scan.count() == told["row_count"] == len(told["rows"])


@pytest.mark.parametrize("case", TABLES)
def test_current_rows_are_those_java_reads(case: str) -> None:
    table, told = golden(case)
    check_rows(table.scan(), told, lineage=told["format_version"] >= 3)


@pytest.mark.parametrize("case", TABLES)
def test_rows_at_every_snapshot_are_those_java_reads(case: str) -> None:
    table, told = golden(case)
    assert {snapshot.snapshot_id for snapshot in table.snapshots} == {s["snapshot_id"] for s in told["snapshots"]}
    for snapshot in told["snapshots"]:
        contents = {**told, **snapshot} if snapshot.get("same_as_current") else snapshot
        scan = table.scan(version=snapshot["snapshot_id"])
        check_rows(scan, contents, lineage=told["format_version"] >= 3)
        plan = scan.plan()
        assert len(plan) == snapshot["data_files"]
        assert sum(len(task.deletes) for task in plan.tasks()) == snapshot["delete_files_applied"]


@pytest.mark.parametrize("case", [case for case in TABLES if "file_pos" in expected(case)])
def test_files_and_positions_of_rows_are_those_java_reads(case: str) -> None:
    table, told = golden(case)
    scan = table.scan(columns=["_file", "_pos"])
    found = scan.to_arrow()
    numbers = file_numbers(told, found.column(0).to_pylist())
    assert sorted(zip(numbers, found.column(1).to_pylist(), strict=True)) == sorted(map(tuple, told["file_pos"]))


@pytest.mark.parametrize("case", TABLES)
def test_an_unfiltered_plan_has_the_files_and_deletes_of_javas_plan(case: str) -> None:
    table, told = golden(case)
    found = {}
    for task in table.scan().plan().tasks():
        number = file_numbers(told, [task.file.file_path])[0]
        found[number] = sorted(file_numbers(told, [delete.file_path for delete in task.deletes]))
    assert found == {task["file"]: sorted(task["deletes"]) for task in told["plan"]}


@cache
def rows_with_files(case: str) -> pa.RecordBatch:
    """All rows, read without a filter, and the file that each is in."""
    table, _ = golden(case)
    rows = table.scan(columns=[*table.schema.columns, "_file"]).to_arrow().combine_chunks()
    return rows.to_batches()[0] if rows.num_rows else pa.RecordBatch.from_pylist([], rows.schema)


def filters() -> list[Any]:
    return [
        pytest.param(case, number, id=f"{case}-{number}")
        for case in TABLES
        for number in range(len(expected(case).get("filters", [])))
    ]


@pytest.mark.parametrize(("case", "number"), filters())
def test_a_filter_plans_no_more_files_than_java_and_finds_all_rows(case: str, number: int) -> None:
    table, told = golden(case)
    wanted = told["filters"][number]
    where = expression_from_json(wanted["expr"])
    scan = table.scan(where)
    planned = set(file_numbers(told, scan.plan().file_paths))
    rows = rows_with_files(case)
    matching = rows.filter(filter_mask(bind(table.schema, where), rows)).column("_file").to_pylist()
    right = set(file_numbers(told, matching))
    assert right <= planned
    # where Java leaves out a file that has matching rows, we may plan that one too, and no other
    assert planned <= set(wanted["planned"]) | (right if wanted.get("java_over_prunes") else set())
    assert scan.count() == len(matching) == wanted.get("row_count_sql", wanted["row_count_java"])


@pytest.mark.parametrize("case", TABLES)
def test_entries_inherit_what_java_says_they_do(case: str) -> None:
    table, told = golden(case)
    context = Context(table.metadata, table.store)
    found = []
    for manifest in context.manifests(table.current_snapshot):
        entries = context.reader.read_one(manifest, ALL_COLUMNS)
        status = entries.numpy(ids.STATUS)
        for row, file in enumerate(entries.iter_files()):
            found.append(
                (
                    Status(int(status[row])).name.lower(),
                    file_numbers(told, [file.file_path])[0],
                    entries.column(ids.SNAPSHOT_ID)[row].as_py(),
                    file.data_sequence_number,
                    file.file_sequence_number,
                    file.first_row_id,
                    file.record_count,
                    file.file_size_in_bytes,
                )
            )
    keys = ("status", "file", "snapshot_id", "data_sequence_number", "file_sequence_number", "first_row_id")
    wanted = [
        tuple(entry.get(key) for key in (*keys, "record_count", "file_size_in_bytes")) for entry in told["entries"]
    ]
    assert sorted(map(str, found)) == sorted(map(str, wanted))
