"""Programs that tests run in a process of their own, because this one has its session already."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import frazil

SMALL = '{"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}'
"""Settings of a small session, as Python text."""


def environment(**changes: str) -> dict[str, str]:
    """The environment of a program that finds what this process finds."""
    paths = [str(Path(frazil.__file__).parents[1]), str(Path(__file__).parents[2])]
    kept = {key: text for key, text in os.environ.items() if not key.startswith("SPARK_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "PYSPARK_PYTHON": sys.executable, **changes}


def start(text: str, *arguments: str, **changes: str) -> subprocess.Popen[str]:
    """Start a program that can be talked to; its output and errors come by one pipe."""
    return subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        env=environment(**changes),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(text: str, *arguments: str, seconds: float = 200, **changes: str) -> str:
    """What a program prints; it must end well."""
    program = start(text, *arguments, **changes)
    try:
        told, _ = program.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        program.kill()
        told, _ = program.communicate()
        raise AssertionError(f"not done after {seconds} s:\n{told[-4000:]}") from None
    assert program.returncode == 0, told[-6000:]
    return told
