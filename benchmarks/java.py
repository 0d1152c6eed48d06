"""Iceberg's own Spark runtime beside ours: catalogs `lake` and `java` over one warehouse, in one session or in two."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.probe import Measured
from benchmarks.report import Line, as_text, machine
from benchmarks.turns import compared
from frazil.lake import Lake, connect
from frazil.spark.session import CONF, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS, JAVA = SIDES = ("lake", "java")
RUNTIME = "FRAZIL_ICEBERG_RUNTIME"
"""The environment variable that says where the jar of Iceberg's Spark runtime is."""

TARGET = 1.0


_CONF = {"spark.master": "local[2]", "spark.driver.memory": "3g", "spark.ui.enabled": "false"}


def _runtime_conf(folder: Path, runtime: Path) -> dict[str, str]:
    return {
        "spark.jars": str(runtime),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.java": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.java.type": "hadoop",
        "spark.sql.catalog.java.warehouse": str(folder),
    }


def session(lake: Lake, folder: Path, runtime: Path) -> SparkSession:
    """A session with both catalogs over the warehouse in a folder."""
    return lake.spark(**_CONF, **_runtime_conf(folder, runtime))


def session_of(side: str, folder: Path, runtime: Path) -> SparkSession:
    """A session with the catalog of one side and nothing of the other, with the same settings else."""
    if side == OURS:
        return connect(folder).spark(**_CONF)
    from pyspark.sql import SparkSession

    find_java()
    builder = SparkSession.builder
    for key, value in {**CONF, **_CONF, **_runtime_conf(folder, runtime)}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


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
