"""Spark's scans of a Lance table beside those of the same rows in an Iceberg table: `python -m benchmarks.lance_scan`.

Arguments: ROWS (10,000,000) and ROUNDS (3), and --json for `python -m benchmarks`. Both tables are read by Python
workers through Arrow, in one session, the two taking turns. Beside them stands, without a target, the Iceberg table as
Spark's own Parquet reader reads it. CPU seconds are those of the JVM and of all workers.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import frazil
from benchmarks import rows
from benchmarks.probe import Job
from benchmarks.report import Line, seconds, tell
from benchmarks.spark_scan import ALL, SELECTIVE, TWO, Ask, session
from benchmarks.turns import compared, in_turns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, ROUNDS = 10_000_000, 3
AT_MOST = 1.2
PARTS = 10
QUERIES: tuple[tuple[str, Ask], ...] = (
    ("2 of 5 columns", TWO),
    ("all columns", ALL),
    ("selective filter", SELECTIVE),
)
_LANCE, _ICEBERG, _NATIVE = "lance", "iceberg", "native"


def prepare(folder: Path, count: int, parts: int = PARTS) -> None:
    """The same rows in a table of each format, in as many fragments as there are files."""
    lake = frazil.connect(folder)
    made = rows.made(count // parts)
    codec = {"write.parquet.compression-codec": "zstd"}
    for table in (
        lake.create_table("db.iceberg", made.schema, properties=codec),
        lake.create_table("db.lance", made.schema, format="lance"),
    ):
        for _ in range(parts):
            table.append(made)


def measured(spark: SparkSession, count: int, rounds: int) -> Iterator[Line]:
    """One line for each question, with one for CPU seconds, and one for Spark's own reader."""

    def frame(side: str) -> DataFrame:
        if side == _LANCE:
            return spark.table("lake.db.lance")
        return spark.read.option("frazil.scan", "arrow" if side == _ICEBERG else "native").table("lake.db.iceberg")

    cpu = cpu_with_workers(spark)
    for name, ask in QUERIES:
        jobs = {side: Job(_on(ask, frame, side), cpu=cpu) for side in (_LANCE, _ICEBERG, _NATIVE)}
        best = in_turns(jobs, rounds)
        if len({one.answer for one in best.values()}) != 1:
            raise RuntimeError(f"{name}: the sides disagree: {best}")
        question = f"Spark scan of {count:,} rows of a Lance table (to Iceberg by Arrow), {name}"
        yield from compared(question, best[_LANCE], best[_ICEBERG], AT_MOST)
        yield Line("  the same from Iceberg by Spark's own reader", "", seconds(best[_NATIVE].wall))


def _on(ask: Ask, frame: Callable[[str], DataFrame], side: str) -> Callable[[], int]:
    return lambda: ask(frame(side))


def cpu_with_workers(spark: SparkSession) -> Callable[[], float]:
    """CPU seconds of the JVM, and of the Python workers that it started."""
    jvm: Any = spark.sparkContext._jvm
    root = int(jvm.java.lang.ProcessHandle.current().pid())
    tick = os.sysconf("SC_CLK_TCK")

    def used() -> float:
        found: dict[int, tuple[int, int]] = {}
        for place in Path("/proc").glob("[0-9]*/stat"):
            try:
                told = place.read_text().rpartition(")")[2].split()
            except OSError:  # gone since it was listed
                continue
            found[int(place.parent.name)] = (int(told[1]), sum(map(int, told[11:15])))
        return sum(ticks for pid, (_, ticks) in found.items() if _below(pid, root, found)) / tick

    return used


def _below(pid: int, root: int, known: dict[int, tuple[int, int]]) -> bool:
    while pid != root:
        if pid not in known:
            return False
        pid = known[pid][0]
    return True


def main(count: str = str(ROWS), rounds: str = str(ROUNDS), form: str = "") -> int:
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        prepare(Path(folder), int(count))
        spark = session()
        frazil.connect(folder).attach(spark)
        code = tell(measured(spark, int(count), int(rounds)), form)
        spark.stop()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
