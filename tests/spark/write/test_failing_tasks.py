"""Tasks that fail and are retried, and tasks that Spark runs twice at once, add their rows once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import frazil
from tests.spark.write.failing_tasks import FAILING, ROWS, SLOW


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of this machine")
def test_retried_and_speculative_tasks_add_their_rows_once_and_leave_nothing_else(tmp_path):
    script = Path(__file__).with_name("failing_tasks.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(frazil.__file__).parents[1])}
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for writer, found in json.loads(done.stdout).items():
        assert {f"{FAILING}-0", f"{FAILING}-1", f"{SLOW}-0", f"{SLOW}-1"} <= set(found["attempts"]), writer
        assert sorted(found["ids"]) == list(range(ROWS)), writer
        assert found["on disk"] == found["referenced"], writer
