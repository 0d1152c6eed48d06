"""The benchmarks beside Iceberg's runtime run, check that both sides have the same rows, and answer every question."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_a_quick_run_of_changes_answers_every_question() -> None:
    command = [sys.executable, "-m", "benchmarks.spark_java_changes", "--quick"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert result.returncode == 0, result.stderr
    changes = {
        f"{change} of 8,000 rows, v{version}, {mode} "
        for change in ("DELETE 5 %", "UPDATE 5 %", "MERGE 1 %")
        for version in (2, 3)
        for mode in ("merge-on-read", "copy-on-write")
    }
    for question in (*changes, "compaction of 20 files, 2,000 rows ", "expiry of 4 of 5 snapshots, 8 files "):
        assert any(line.startswith(question) for line in result.stdout.splitlines()), question
