"""Spark on a lake's tables beside Iceberg's own Spark runtime: `python -m benchmarks.spark_java [--quick] [--rows N]`.

Both are catalogs of one session and one warehouse, and so read the very same files: `lake` is ours, `java` Iceberg's
Hadoop catalog. They take turns, and go first in turns; a time is the least of several rounds, of which the first warms
up and does not count. Each keeps in memory what it keeps by default: both the table, ours its manifests too, so plans
are told as well with nothing kept by us. `make bench-java` brings the runtime and the newest Spark that it is made for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import frazil
from benchmarks import java, spark_scan, spark_write
from benchmarks.java import JAVA, OURS, Question
from benchmarks.report import Line

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


class Bench:
    """The two sides in one session, over the warehouse in a folder."""

    def __init__(self, folder: Path, runtime: Path, sizes: Sizes) -> None:
        self.sizes = sizes
        spark_scan.prepare(folder, sizes.rows, sizes.files)
        lake = frazil.connect(folder)
        self.spark = java.session(lake, folder, runtime)
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
            yield from java.answered(self.spark, question, self.sizes.rounds)
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
                yield question
                cold = f"{query.name}, our caches empty"
                yield replace(question, name=cold, before=lambda side: spark_scan.forget(), at_most=None)
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
        question = Question(name, write, create, by_cpu=False)
        yield from java.answered(self.spark, question, self.sizes.rounds)
        expected = rows.selectExpr("count(*)", "sum(id)", "sum(part)").collect()
        for reader, writer in ((OURS, JAVA), (JAVA, OURS)):
            written = self.spark.table(f"{reader}.{table(writer)}")
            if (found := written.selectExpr("count(*)", "sum(id)", "sum(part)").collect()) != expected:
                raise RuntimeError(f"{name}: {writer} wrote {found} instead of {expected}, as {reader} reads it")


def _snake(name: str) -> str:
    return name.replace(" ", "_")


def run(folder: Path, runtime: Path, quick: bool, rows: int | None) -> Iterator[Line]:
    """All lines of the report, as they are found."""
    sizes = QUICK if quick else Sizes()
    bench = Bench(folder, runtime, replace(sizes, rows=rows or sizes.rows))
    try:
        yield from bench.lines()
    finally:
        bench.spark.stop()


if __name__ == "__main__":
    sys.exit(java.main("benchmarks.spark_java", __doc__, run))
