"""Spark on a lake's tables beside Iceberg's own Spark runtime: `python -m benchmarks.spark_java [--quick] [--rows N]`.

Each side has a session of its own, as its users have, in which nothing of the other is: `lake` is our catalog, `java`
Iceberg's Hadoop catalog over the same warehouse, and so the very same files. The sessions stay, and the sides take
turns, and go first in turns; a time is the least of several rounds, of which the first ones warm up and do not count.
Each keeps in memory what it keeps by default: both the table, ours its manifests too, so plans are told as well with
nothing kept by us. `make bench-java` brings the runtime and the newest Spark that it is made for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import frazil
from benchmarks import java, spark_scan, spark_write
from benchmarks.java import JAVA, OURS, SIDES
from benchmarks.probe import Job, Measured, measure
from benchmarks.report import Line
from benchmarks.turns import in_turns_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELETED = "id % 20 = 0"  # 5 %, everywhere in each file
_DELETES = {"deletion vectors": ("3", "PUFFIN"), "position deletes": ("2", "PARQUET")}
"""Kinds of deletes, the version of the format in which Iceberg writes them, and the kind of file that they are in."""
_WHOLE = spark_scan.summed("count(*)", "sum(id)", "sum(part)")
_MADE = "the rows themselves"


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    rows: int = 20_000_000
    files: tuple[int, ...] = (10_000, 100_000)
    rounds: int = 5
    warm: int = 2
    calls: int = 5
    """How often a short question is asked in each turn."""


QUICK = Sizes(rows=8_000, files=(20, 40), rounds=1, warm=1, calls=1)


@dataclass(frozen=True)
class Question:
    """What a side is asked."""

    name: str
    ask: Callable[[], int]
    before: Callable[[], None] = lambda: None
    calls: int = 1
    by_cpu: bool = True
    """Whether less CPU time meets the target too; not where work may be done in processes that are not looked at."""
    at_most: float | None = java.TARGET


class Asked:
    """The questions as one side hears them; whoever only wants to know which there are needs no session."""

    def __init__(self, sizes: Sizes, side: str = "", folder: Path = Path(), runtime: Path = Path()) -> None:
        self.sizes, self.side = sizes, side
        self._spark = java.session_of(side, folder, runtime) if side else None

    @property
    def spark(self) -> SparkSession:
        assert self._spark is not None
        return self._spark

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
                yield replace(question, name=cold, before=spark_scan.forget, at_most=None)
        for kind in _DELETES:
            for columns, ask in (("2 of 5 columns", spark_scan.TWO), ("all columns", spark_scan.ALL)):
                yield Question(f"scan {count}, 5 % {kind}, {columns}", self._on(ask, _snake(kind)))

    def _on(self, ask: spark_scan.Ask, table: str) -> Callable[[], int]:
        return lambda: ask(self.spark.table(f"{self.side}.db.{table}"))

    def writes(self) -> Iterator[Question]:
        """Each side writes tables of its own."""
        yield self._write(f"write {self.sizes.rows:,} rows", "none", "")
        where = f"into {spark_write.PARTITIONS} partitions"
        yield self._write(f"write {self.sizes.rows:,} rows, {where}", "hash", "PARTITIONED BY (part)")

    def _write(self, name: str, mode: str, by: str) -> Question:
        properties = {
            "format-version": "2",
            "write.parquet.compression-codec": "zstd",
            "write.distribution-mode": mode,
        }
        told = ", ".join(f"'{key}' = '{text}'" for key, text in properties.items())
        table = f"{self.side}.{_table(name, self.side)}"

        def create() -> None:
            self.spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")
            self.spark.sql(f"CREATE TABLE {table} ({spark_write.COLUMNS}) USING iceberg {by} TBLPROPERTIES ({told})")

        def write() -> int:
            spark_write.made(self.spark, self.sizes.rows).writeTo(table).append()
            return self.sizes.rows

        return Question(name, write, create, by_cpu=False)

    def checks(self) -> Iterator[Question]:
        """What the other side wrote, and what it should have written."""
        for one in self.writes():
            for writer in SIDES:
                yield Question(_table(one.name, writer), self._on(_WHOLE, _table(one.name, writer).removeprefix("db.")))
        yield Question(_MADE, lambda: _WHOLE(spark_write.made(self.spark, self.sizes.rows)))

    def serve(self) -> None:
        """Answer what the lines of stdin ask for; nothing else gets into the answers."""
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        known = {one.name: one for some in (self.reads(), self.writes(), self.checks()) for one in some}
        cpu = spark_scan.cpu_of(self.spark)
        for line in sys.stdin:
            name, calls = json.loads(line)
            found = measure(Job(known[name].ask, known[name].before, cpu), calls)
            answers.write(f"{json.dumps(asdict(found))}\n")
            answers.flush()
        self.spark.stop()


class Side:
    """The process of a side."""

    def __init__(self, side: str, folder: Path, runtime: Path, sizes: Sizes) -> None:
        told = json.dumps([side, str(folder), str(runtime), asdict(sizes)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark_java", "--side", told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def measure(self, question: str, calls: int) -> Measured:
        """Ask for so many calls."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps([question, calls])}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{question}: the process ended with {self._process.wait()}")
        return Measured(**json.loads(answer))


def prepare(folder: Path, runtime: Path, sizes: Sizes) -> None:
    """The tables, and deletes that Iceberg's runtime writes."""
    spark_scan.prepare(folder, sizes.rows, sizes.files)
    lake = frazil.connect(folder)
    spark = java.session(lake, folder, runtime)
    for kind, (version, file_format) in _DELETES.items():
        table = _snake(kind)
        modes = {"format-version": version, "write.delete.mode": "merge-on-read"}
        spark_scan.filled(lake, table, sizes.rows, properties=modes)
        spark.sql(f"DELETE FROM java.db.{table} WHERE {_DELETED}")
        found = set(lake.table(f"db.{table}").inspect("delete_files").column("file_format").to_pylist())
        if found != {file_format}:
            raise RuntimeError(f"{kind} should be in files of {file_format}, not {found}")
    spark.stop()


def _lines(sides: dict[str, Side], sizes: Sizes) -> Iterator[Line]:
    asked = Asked(sizes)
    for question in (*asked.reads(), *asked.writes()):
        name = question.name

        def ask(side: Side, calls: int, name: str = name) -> Measured:
            return side.measure(name, calls)

        best = in_turns_by(ask, sides, sizes.rounds, calls=question.calls, warm=sizes.warm)
        yield from java.agreed(name, best, question.by_cpu, question.at_most)
    _check(sides, asked)


def _check(sides: dict[str, Side], asked: Asked) -> None:
    """Each side reads what the other wrote."""
    expected = sides[OURS].measure(_MADE, 1).answer
    for question in asked.writes():
        for reader, writer in ((OURS, JAVA), (JAVA, OURS)):
            if (found := sides[reader].measure(_table(question.name, writer), 1).answer) != expected:
                raise RuntimeError(f"{question.name}: {writer} wrote {found}, not {expected}, as {reader} reads it")


def _snake(name: str) -> str:
    return name.replace(" ", "_")


def _table(question: str, writer: str) -> str:
    return f"db.{'hash' if 'partitions' in question else 'none'}_by_{writer}"


def run(folder: Path, runtime: Path, quick: bool, rows: int | None) -> Iterator[Line]:
    """All lines of the report, as they are found."""
    sizes = QUICK if quick else Sizes()
    sizes = replace(sizes, rows=rows or sizes.rows)
    prepare(folder, runtime, sizes)
    with ExitStack() as stack:
        sides = {side: stack.enter_context(Side(side, folder, runtime, sizes)) for side in SIDES}
        yield from _lines(sides, sizes)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        side, folder, runtime, sizes = json.loads(sys.argv[2])
        Asked(Sizes(**{**sizes, "files": tuple(sizes["files"])}), side, Path(folder), Path(runtime)).serve()
        sys.exit()
    sys.exit(java.main("benchmarks.spark_java", __doc__, run))
