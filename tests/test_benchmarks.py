"""The benchmarks run, and answer every question. What they measure is for `make bench` to tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
    "write 8,000 rows by Spark (df.write.parquet) ",
    "write 8,000 rows by Spark, into 100 partitions (df.write.parquet) ",
    *(f"scan 8,000 rows, {query} " for query in ("2 of 5 columns", "all columns", "selective filter")),
    *("parquet: one small file ", "plan and start, 20 files ", "plan and start, 40 files "),
)


@pytest.mark.interop
def test_a_quick_run_answers_every_question() -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    for question in QUESTIONS:
        assert any(question in line for line in lines), f"no answer to {question!r} in\n{result.stdout}"
