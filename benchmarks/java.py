"""Iceberg's own Spark runtime beside ours: catalogs of one session and one warehouse, `lake` ours, `java` Iceberg's."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchmarks import spark_scan
from benchmarks.probe import Job, Measured
from benchmarks.report import Line, as_text, machine
from benchmarks.turns import compared, in_turns
from frazil.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS, JAVA = SIDES = ("lake", "java")
RUNTIME = "FRAZIL_ICEBERG_RUNTIME"
"""The environment variable that says where the jar of Iceberg's Spark runtime is."""

TARGET = 1.0
T = TypeVar("T")


def session(lake: Lake, folder: Path, runtime: Path) -> SparkSession:
    """A session with both catalogs over the warehouse in a folder."""
    return lake.spark(
        **{
            "spark.master": "local[2]",
            "spark.driver.memory": "3g",
            "spark.ui.enabled": "false",
            "spark.jars": str(runtime),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.java": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.java.type": "hadoop",
            "spark.sql.catalog.java.warehouse": str(folder),
        }
    )


@dataclass(frozen=True)
class Question:
    """The same to both sides: a function is given the side, which is the name of its catalog."""

    name: str
    ask: Callable[[str], int]
    before: Callable[[str], None] = lambda side: None
    calls: int = 1
    by_cpu: bool = True
    """Whether less CPU time meets the target too; not where work may be done in processes that are not looked at."""
    at_most: float | None = TARGET

    def jobs(self, spark: SparkSession) -> dict[str, Job]:
        cpu = spark_scan.cpu_of(spark)
        return {side: Job(_given(self.ask, side), _given(self.before, side), cpu) for side in SIDES}


def _given(function: Callable[[str], T], side: str) -> Callable[[], T]:
    return lambda: function(side)


def answered(spark: SparkSession, question: Question, rounds: int) -> Iterator[Line]:
    """Measure both sides, after a round that warms up."""
    best = in_turns(question.jobs(spark), rounds, calls=question.calls)
    yield from agreed(question.name, best, question.by_cpu, question.at_most)


def agreed(name: str, best: Mapping[str, Measured], by_cpu: bool, at_most: float | None = TARGET) -> Iterator[Line]:
    """What was measured of both sides, whose answers must be the same."""
    ours, theirs = (best[side] for side in SIDES)
    if ours.answer != theirs.answer:
        raise RuntimeError(f"{name}: the sides disagree: {ours}, {theirs}")
    yield from compared(name, ours, theirs, at_most, by_cpu=by_cpu)


Run = Callable[[Path, Path, bool, int | None], Iterator[Line]]
"""Given a folder, the runtime, whether to be quick, and how many rows there are to be: the lines, as they are found."""


def main(program: str, description: str | None, run: Run) -> int:
    """Measure and print; the exit code says if a target was missed."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: to see that everything runs")
    parser.add_argument("--rows", type=int, help="how many rows the tables have, instead of the default")
    options = parser.parse_args()
    runtime = Path(os.environ.get(RUNTIME, ""))
    if not runtime.is_file():
        parser.error(f"{RUNTIME} must name the jar of Iceberg's Spark runtime; `make bench-java` brings it")
    lines = []
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        for line in run(Path(folder), runtime, options.quick, options.rows):
            lines.append(line)
            sys.stderr.write(f"{line.question}: {line.frazil} {line.peer} {line.ratio} {line.verdict}\n")
    print(f"{machine()}, {runtime.stem}", as_text(lines, "Iceberg Java"), sep="\n\n")
    return 0 if options.quick or all(line.met is not False for line in lines) else 1
