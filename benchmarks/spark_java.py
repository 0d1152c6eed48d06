"""Spark on a lake's tables beside Iceberg's own Spark runtime: `python -m benchmarks.spark_java [--quick] [--rows N]`.

Both are catalogs of one session and one warehouse, and so read the very same files: `lake` is ours, `java` Iceberg's
Hadoop catalog. They take turns, and go first in turns; a time is the least of several rounds, of which the first warms
up and does not count. `make bench-java` brings the runtime and the newest Spark that it is made for.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import frazil
from benchmarks import spark_scan, spark_write
from benchmarks.probe import Job, Measured, measure
from benchmarks.report import Line, as_text, machine, seconds

OURS, JAVA = SIDES = ("lake", "java")
RUNTIME = "FRAZIL_ICEBERG_RUNTIME"
"""The environment variable that says where the jar of Iceberg's Spark runtime is."""

T = TypeVar("T")
TARGET = 1.0
_DELETED = "id % 20 = 0"  # 5 %, everywhere in each file
_DELETES = {"deletion vectors": ("3", "PUFFIN"), "position deletes": ("2", "PARQUET")}
"""Kinds of deletes, the version of the format in which Iceberg writes them, and the kind of file that they are in."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    rows: int = 20_000_000
    files: tuple[int, ...] = (10_000, 100_000)
    rounds: int = 5
    calls: int = 5
    """How often a short question is asked in each turn."""


QUICK = Sizes(rows=8_000, files=(20, 40), rounds=1, calls=1)


@dataclass(frozen=True)
class Question:
    """The same to both sides: a function is given the side, which is the name of its catalog."""

    name: str
    ask: Callable[[str], int]
    before: Callable[[str], None] = lambda side: None
    calls: int = 1
    by_cpu: bool = True
    """Whether less CPU time meets the target too; not where work may be done in processes that are not looked at."""


class Bench:
    """The two sides in one session, over the warehouse in a folder."""

    def __init__(self, folder: Path, runtime: Path, sizes: Sizes) -> None:
        self.sizes = sizes
        spark_scan.prepare(folder, sizes.rows, sizes.files)
        lake = frazil.connect(folder)
        self.spark = lake.spark(
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
        for kind, (version, file_format) in _DELETES.items():
            table = _snake(kind)
            modes = {"format-version": version, "write.delete.mode": "merge-on-read"}
            spark_scan.filled(lake, table, sizes.rows, properties=modes)
            self.spark.sql(f"DELETE FROM java.db.{table} WHERE {_DELETED}")
            found = set(lake.table(f"db.{table}").inspect("delete_files").column("file_format").to_pylist())
            if found != {file_format}:
                raise RuntimeError(f"{kind} should be in files of {file_format}, not {found}")

    def lines(self) -> Iterator[Line]:
        for question in self.reads():
            yield from self.compared(question)
        for partitioned in (False, True):
            yield from self.writes(partitioned)

    def reads(self) -> Iterator[Question]:
        count = f"{self.sizes.rows:,} rows"
        for query in spark_scan.queries(self.sizes.files):
            question = Question(query.name, self._on(query.ask, query.table), calls=self.sizes.calls)
            if query.table == "rows":
                yield replace(question, name=f"scan {count}, {query.name}", calls=1)
            elif query.table == "small":
                yield question
            else:
                yield replace(question, before=lambda side: spark_scan.forget())
        for kind in _DELETES:
            for columns, ask in (("2 of 5 columns", spark_scan.TWO), ("all columns", spark_scan.ALL)):
                yield Question(f"scan {count}, 5 % {kind}, {columns}", self._on(ask, _snake(kind)))

    def _on(self, ask: spark_scan.Ask, table: str) -> Callable[[str], int]:
        return lambda side: ask(self.spark.table(f"{side}.db.{table}"))

    def writes(self, partitioned: bool) -> Iterator[Line]:
        """Each side writes a table of its own, which the other must read."""
        rows = spark_write.made(self.spark, self.sizes.rows)
        where, mode = (f", into {spark_write.PARTITIONS} partitions", "hash") if partitioned else ("", "none")
        properties = {
            "format-version": "2",
            "write.parquet.compression-codec": "zstd",
            "write.distribution-mode": mode,
        }
        told = ", ".join(f"'{key}' = '{text}'" for key, text in properties.items())
        by = "PARTITIONED BY (part)" if partitioned else ""

        def table(side: str) -> str:
            return f"db.{mode}_by_{side}"

        def create(side: str) -> None:
            name = f"{side}.{table(side)}"
            self.spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")
            self.spark.sql(f"CREATE TABLE {name} ({spark_write.COLUMNS}) USING iceberg {by} TBLPROPERTIES ({told})")

        def write(side: str) -> int:
            rows.writeTo(f"{side}.{table(side)}").append()
            return self.sizes.rows

        name = f"write {self.sizes.rows:,} rows{where}"
        yield from self.compared(Question(name, write, create, by_cpu=False))
        expected = rows.selectExpr("count(*)", "sum(id)", "sum(part)").collect()
        for reader, writer in ((OURS, JAVA), (JAVA, OURS)):
            written = self.spark.table(f"{reader}.{table(writer)}")
            if (found := written.selectExpr("count(*)", "sum(id)", "sum(part)").collect()) != expected:
                raise RuntimeError(f"{name}: {writer} wrote {found} instead of {expected}, as {reader} reads it")

    def compared(self, question: Question) -> Iterator[Line]:
        best = self.measured(question)
        ours, theirs = (best[side] for side in SIDES)
        if ours.answer != theirs.answer:
            raise RuntimeError(f"{question.name}: the sides disagree: {ours}, {theirs}")
        wall, cpu = ours.wall / theirs.wall, ours.cpu / theirs.cpu
        met = (min(wall, cpu) if question.by_cpu else wall) <= TARGET
        yield Line(question.name, seconds(ours.wall), seconds(theirs.wall), f"{wall:.2f}", f"<= {TARGET}", met)
        yield Line(f"{question.name}: CPU", seconds(ours.cpu), seconds(theirs.cpu), f"{cpu:.2f}")

    def measured(self, question: Question) -> dict[str, Measured]:
        cpu = spark_scan.cpu_of(self.spark)
        best: dict[str, Measured] = {}
        for number in range(self.sizes.rounds + 1):
            for side in SIDES if number % 2 else reversed(SIDES):
                job = Job(_given(question.ask, side), _given(question.before, side), cpu)
                one = measure(job, question.calls)
                if number > 0:
                    best[side] = one.better(best.get(side, one))
        return best


def _given(function: Callable[[str], T], side: str) -> Callable[[], T]:
    return lambda: function(side)


def _snake(name: str) -> str:
    return name.replace(" ", "_")


def run(runtime: Path, sizes: Sizes) -> Iterator[Line]:
    """All lines of the report, as they are found."""
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        bench = Bench(Path(folder), runtime, sizes)
        try:
            yield from bench.lines()
        finally:
            bench.spark.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_java", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: to see that everything runs")
    parser.add_argument("--rows", type=int, help="how many rows to read and write, instead of 20 million")
    options = parser.parse_args()
    runtime = Path(os.environ.get(RUNTIME, ""))
    if not runtime.is_file():
        parser.error(f"{RUNTIME} must name the jar of Iceberg's Spark runtime; `make bench-java` brings it")
    sizes = QUICK if options.quick else Sizes()
    lines = []
    for line in run(runtime, replace(sizes, rows=options.rows or sizes.rows)):
        lines.append(line)
        sys.stderr.write(f"{line.question}: {line.frazil} {line.peer} {line.ratio} {line.verdict}\n")
    print(f"{machine()}, {runtime.stem}", as_text(lines, "Iceberg Java"), sep="\n\n")
    return 0 if options.quick or all(line.met is not False for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
