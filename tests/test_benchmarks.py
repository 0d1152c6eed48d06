"""The benchmarks run, and answer every question. What they measure is for `make bench` to tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from benchmarks.probe import Job, Measured
from benchmarks.turns import compared, in_turns
from benchmarks.twins import Fresh, empty, live_files, many_files, many_snapshots, own_bytes, twin

ROOT = Path(__file__).parent.parent

QUESTIONS = (
    "no filter ",
    "no filter: memory ",
    "filter on metrics ",
    "filter on partitions, none pruned ",
    "filter on partitions, all but one pruned ",
    "no filter, again ",
    "no filter, an object for each ",
    "memory in all ",
    "of that, the manifest list ",
    "the rest, to that of ",
    "append 500 files (PyIceberg: fast_append) ",
    "import frazil ",
    "loads of pyspark, pandas, pylance ",
    "append 10,000 rows ",
    "read 10,000 rows ",
    "upsert stream, 400 changes in 4 commits into 4,000 rows: first read ",
    "slowest read, optimized ",
    "minor optimizing: bytes written to bytes of changes ",
    "write 8,000 rows by Spark (df.write.parquet) ",
    "write 8,000 rows by Spark, into 100 partitions (df.write.parquet) ",
    "Spark, 20 small files made into few: optimizing to rewrite_data_files ",
    *(f"scan 8,000 rows, {query} " for query in ("2 of 5 columns", "all columns", "selective filter")),
    *(f"scan 8,000 rows of a v3 table without deletes, {columns} " for columns in ("2 of 5 columns", "all columns")),
    *(f"scan 8,000 rows, {share} % deleted by vectors, all columns " for share in (1, 5, 20)),
    "1 %, 5 %, 20 % deleted, all columns: the last to the first (flat) ",
    *(
        f"scan 8,000 rows, 400 equality deletes, {key}, {which} "
        for key in (
            "key selected",
            "key not selected",
            "two keys, selected",
            "two keys, not selected",
            "string key, selected",
            "string key, not selected but all other columns",
            "string key, not selected but two numbers",
        )
        for which in ("first scan", "again")
    ),
    "merge-on-read to copy-on-write: MERGE of 1 % into 8,000 rows ",
    "merge-on-read to copy-on-write: MERGE of 1 % into 8,000 rows: bytes ",
    "upsert 400 rows into 4,000, from Spark ",
    *(f"upsert 80 rows into 800, from {source} " for source in ("Spark", "Arrow")),
    "all rows read after it, to Arrow ",
    *(
        f"scan 4,000 rows, 5 % changed, {what} "
        for what in ("2 of 5 columns", "all columns", "key not selected", "key of text, selected")
    ),
    *(f"8,000 rows of a Lance table (to Iceberg by Arrow), {query} " for query in ("2 of 5 columns", "all columns")),
    *("parquet: one small file ", "plan and start, 20 files ", "plan and start, 40 files "),
)


@pytest.mark.interop
def test_a_quick_run_answers_every_question() -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    for question in QUESTIONS:
        assert any(question in line for line in lines), f"no answer to {question!r} in\n{result.stdout}"


def test_sides_take_turns_after_they_are_warm() -> None:
    called: list[str] = []

    def job(name: str) -> Job:
        return Job(lambda: called.append(name) or 7, lambda: called.append(f"before {name}"))

    best = in_turns({"a": job("a"), "b": job("b")}, 2, warm=1, warming={"a": job("warm a"), "b": job("warm b")})
    turns = [name for name in called if not name.startswith("before")]
    assert turns == ["warm b", "warm a", "a", "b", "b", "a"]
    assert called[::2] == [f"before {name}" for name in turns]
    assert {side: one.answer for side, one in best.items()} == {"a": 7, "b": 7}


@pytest.mark.parametrize(
    ("wall", "cpu", "by_cpu", "met"), [(1, 9, False, True), (3, 1, False, False), (3, 1, True, True)]
)
def test_a_target_is_met_by_wall_time_or_where_it_may_by_cpu_time(
    wall: float, cpu: float, by_cpu: bool, met: bool
) -> None:
    line, of_cpu = compared("q", Measured(wall, cpu, 0, 0, 0), Measured(2, 2, 0, 0, 0), 1.0, by_cpu=by_cpu)
    assert (line.ratio, line.met) == (f"{wall / 2:.2f}", met)
    assert of_cpu.met is None


def test_a_twin_has_the_same_files_and_its_own_changes(tmp_path: Path) -> None:
    lake = frazil.connect(tmp_path)
    rows = pa.table({"id": range(100)})
    base = many_files(lake.create_table("db.base", rows.schema, format_version=3), rows, 4)
    side = Fresh(lambda: twin(lake, base, {"write.delete.mode": "merge-on-read"}), lambda table: table.delete("id < 3"))
    for _ in range(2):
        side.before()
        assert side.run() == 0
    changed = side.changed()
    paths = {file.file_path for file in live_files(base)}
    assert len(paths) == 4
    assert changed.format_version == 3
    assert changed.scan().to_arrow().num_rows == 97
    [added] = [file for file in live_files(changed) if file.file_path not in paths]
    assert own_bytes(changed) == added.file_size_in_bytes > 0
    side.drop()
    assert not Path(changed.location).exists()
    assert base.refresh().scan().to_arrow().num_rows == 100


def test_every_snapshot_has_files_of_its_own(tmp_path: Path) -> None:
    lake = frazil.connect(tmp_path)
    rows = pa.table({"id": range(6)})
    table = many_snapshots(empty(lake, lake.create_table("db.like", rows.schema)), rows, 4, 3)
    found = [set(table.scan(version=one.snapshot_id).plan().file_paths) for one in table.snapshots]
    assert [len(paths) for paths in found] == [3] * 4
    assert len(set().union(*found)) == 12
    table.expire_snapshots().older_than(table.snapshots[-1].timestamp_ms + 1).retain_last(1).commit()
    assert len(list(Path(table.location, "data").rglob("*.parquet"))) == 3
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(6))
