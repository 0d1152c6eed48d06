"""Queries of Spark on a lake's tables beside `spark.read.parquet` on the very same files.

`python -m benchmarks.spark_scan SIDE FOLDER REPEAT SLOW` measures the queries of one side in one session, and answers a
line of JSON for each; those over many files, which take the peer minutes, only if SLOW is 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import frazil
from benchmarks import rows
from benchmarks.probe import Job, Measured, measure
from benchmarks.report import Line, seconds
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.manifest_reader import SHARED_CACHE
from frazil.iceberg.table import IcebergTable
from frazil.lake import Lake
from frazil.spark.mixed import applied, source
from frazil.spark.scan import contents, deletes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FRAZIL, PARQUET = "frazil", "parquet"
ROOT = Path(__file__).parent.parent
PATHS = "paths.json"
MARK = 0x1122334455667788
"""A value that is found again in the bytes of a file."""

_FILES_OF_ROWS = 8
_BATCH = 500_000


Ask = Callable[["DataFrame"], int]


@dataclass(frozen=True)
class Query:
    """A question to both sides. `at_most` is how much longer ours may take, as a ratio."""

    name: str
    table: str
    at_most: float
    ask: Ask
    ask_peer: Ask | None = None
    """What the peer does instead, if not the same."""
    slow: bool = False
    """Takes the peer minutes: one call is enough to be fair."""


def summed(*expressions: str, where: str = "TRUE") -> Ask:
    """Ask for sums of the rows that match."""

    def ask(frame: DataFrame) -> int:
        (row,) = frame.filter(where).selectExpr(*expressions).collect()
        return int(sum(value or 0 for value in row))

    return ask


TWO = summed("sum(id)", "sum(customer)")
ALL = summed("sum(id)", "sum(customer)", "round(sum(amount))", "sum(length(word))", "sum(second(at))")
SELECTIVE = summed("sum(id)", "count(word)", where="customer < 5")


def queries(files: tuple[int, ...]) -> list[Query]:
    scans = [
        Query("2 of 5 columns", "rows", 1.05, TWO),
        Query("all columns", "rows", 1.05, ALL),
        Query("selective filter", "rows", 1.05, SELECTIVE),
        Query("one small file", "small", 1.5, SELECTIVE),
    ]
    many = [
        Query(
            f"plan and start, {count:,} files",
            f"files{count}",
            0.1,
            lambda frame, count=count: len(frame.filter(f"n = {count - 1}").head(1)),  # type: ignore[misc]
            lambda frame: len(frame.head(1)),
            slow=True,
        )
        for count in files
    ]
    return [*scans, *many]


# Tables


def prepare(folder: Path, count: int, files: tuple[int, ...]) -> None:
    """The tables of all queries, and the paths of their files."""
    lake = frazil.connect(folder)
    lake.create_namespace("db")
    paths = {}
    for name, size, parts in (("rows", count, _FILES_OF_ROWS), ("small", 1_000, 1)):
        paths[name] = filled(lake, name, size, parts).scan().plan().file_paths
    for number in files:
        paths[f"files{number}"] = _many(lake.create_table(f"db.files{number}", "n BIGINT"), number)
    (folder / PATHS).write_text(json.dumps(paths))


def filled(
    lake: Lake, name: str, count: int, parts: int = _FILES_OF_ROWS, properties: Mapping[str, str] = MappingProxyType({})
) -> IcebergTable:
    """A table of rows in some files."""
    codec = {"write.parquet.compression-codec": "zstd"}
    table = lake.create_table(f"db.{name}", rows.made(1).schema, properties={**codec, **properties})
    for _ in range(parts):
        table.append(rows.made(count // parts))
    return table


def _many(table: IcebergTable, count: int) -> list[str]:
    """Files of one row each, whose value is their number: one file, copied with other bytes in it."""
    data = Path(table.location) / "data"
    data.mkdir(parents=True, exist_ok=True)
    template = data / "template"
    kind = pa.schema([pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table({"n": [MARK]}, schema=kind), template, **plain)
    head, _, tail = template.read_bytes().partition(MARK.to_bytes(8, "little"))
    template.unlink()
    size = len(head) + 8 + len(tail)
    action, paths = table.new_append(), []
    for number in range(count):
        value = number.to_bytes(8, "little")
        place = data / f"{number:06d}.parquet"
        place.write_bytes(head + value + tail)
        bound = {1: value}
        file = DataFile(str(place), "parquet", 1, size, 0, (), value_counts={1: 1}, null_value_counts={1: 0})
        action.append_file(replace(file, lower_bounds=bound, upper_bounds=bound))
        paths.append(str(place))
    action.commit()
    return paths


# Sides


def session() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "3g")
    for key in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(key, "false")
    return builder.config("spark.log.level", "OFF").config("spark.sql.session.timeZone", "UTC").getOrCreate()


def forget() -> None:
    """Empty our caches of what tables consist of."""
    SHARED_CACHE.clear()
    contents.forget()
    deletes.forget()
    applied.forget()
    source.forget()


def probe(side: str, folder: Path, repeat: int, *, slow: bool) -> Iterator[tuple[str, Measured]]:
    """Measure the queries of one side in this process."""
    paths: dict[str, list[str]] = json.loads((folder / PATHS).read_text())
    spark = session()
    frazil.connect(folder).attach(spark)

    def frame(name: str) -> DataFrame:
        return spark.table(f"lake.db.{name}") if side == FRAZIL else spark.read.parquet(*paths[name])

    for query in queries(tuple(int(name[5:]) for name in paths if name.startswith("files"))):
        if query.slow and not slow:
            continue
        ask = query.ask if side == FRAZIL else query.ask_peer or query.ask
        for _ in range(3):  # warm up, on little
            query.ask(frame("small")) if query.table in ("rows", "small") else ask(frame(min(paths, key=_files(paths))))
        run = _on(ask, frame, query.table)
        calls = 1 if query.slow and side == PARQUET else repeat
        yield query.name, measure(Job(run, forget if query.slow else lambda: None, cpu_of(spark)), calls)
    spark.stop()


def _on(ask: Ask, frame: Callable[[str], DataFrame], table: str) -> Callable[[], int]:
    return lambda: ask(frame(table))


def _files(paths: dict[str, list[str]]) -> Callable[[str], int]:
    return lambda name: len(paths[name]) if name.startswith("files") else sys.maxsize


def cpu_of(spark: SparkSession) -> Callable[[], float]:
    """CPU seconds of this process and its JVM."""
    jvm: Any = spark.sparkContext._jvm
    stat = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/stat")
    tick = os.sysconf("SC_CLK_TCK")

    def seconds_used() -> float:
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        return time.process_time() + (int(user) + int(system)) / tick

    return seconds_used


# The report


def lines(folder: Path, count: int, files: tuple[int, ...], rounds: int, repeat: int) -> Iterator[Line]:
    """One line for each query: fresh processes, the sides taking turns, the best of each."""
    prepare(folder, count, files)
    best: dict[tuple[str, str], Measured] = {}
    for number in range(rounds):
        for side in (FRAZIL, PARQUET):
            for name, one in _fresh(side, folder, repeat, slow=number == 0):
                best[side, name] = one.better(best.get((side, name), one))
    for query in queries(files):
        ours, theirs = best[FRAZIL, query.name], best[PARQUET, query.name]
        if ours.answer != theirs.answer:
            raise RuntimeError(f"{query.name}: the sides disagree: {ours}, {theirs}")
        what = f"scan {count:,} rows, {query.name}" if query.table == "rows" else query.name
        wall, cpu = ours.wall / theirs.wall, ours.cpu / theirs.cpu
        met = min(wall, cpu) <= query.at_most
        target = f"<= {query.at_most}"
        name = f"Spark, to spark.read.parquet: {what}"
        yield Line(name, seconds(ours.wall), seconds(theirs.wall), f"{wall:.2f}", target, met)
        yield Line(f"{name}: CPU", seconds(ours.cpu), seconds(theirs.cpu), f"{cpu:.2f}")


def _fresh(side: str, folder: Path, repeat: int, *, slow: bool) -> Iterator[tuple[str, Measured]]:
    command = [sys.executable, "-m", "benchmarks.spark_scan", side, str(folder), str(repeat), str(int(slow))]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
    for line in told.splitlines():
        name, one = json.loads(line)
        yield name, Measured(**one)


def main(side: str, folder: str, repeat: str, slow: str) -> None:
    for name, one in probe(side, Path(folder), int(repeat), slow=slow == "1"):
        print(json.dumps([name, asdict(one)]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
