"""Changes of rows, compaction and expiry beside Iceberg's own Spark runtime.

`python -m benchmarks.spark_java_changes [--quick] [--rows N]` is a part of `make bench-java`. Each side has a new table
before each call, with the same data files, or for expiry equal ones; a time is the least of several rounds, after some
that warm up, changes of rows on a smaller table. Afterwards each side reads the other's table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import frazil
from benchmarks import java, rows, spark_scan, spark_write
from benchmarks.java import SIDES
from benchmarks.report import Line
from benchmarks.spark_changes import MODES, changed, merge
from benchmarks.turns import in_turns
from benchmarks.twins import Fresh, checksum, empty, live_files, many_files, many_snapshots, twin
from frazil.iceberg.table import IcebergTable

VERSIONS = ("2", "3")
CHANGED = "id % 20 = 0"  # 5 %, everywhere in each file
_CODEC = {"write.parquet.compression-codec": "zstd"}
_LESS = 10
"""How much smaller tables are that warm up."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    rows: int = 5_000_000
    small_files: int = 2_000
    rows_of_small_files: int = 2_000_000
    snapshots: int = 100
    files_of_snapshots: int = 20
    rounds: int = 3
    warm: int = 2


QUICK = Sizes(8_000, small_files=20, rows_of_small_files=2_000, snapshots=5, files_of_snapshots=2, rounds=1, warm=1)

Make = Callable[[], IcebergTable]
Command = Callable[[str], str]
"""The statement of a side, given its catalog and table."""


class Bench:
    """The two sides in one session, over the warehouse in a folder."""

    def __init__(self, folder: Path, runtime: Path, sizes: Sizes) -> None:
        self.folder, self.sizes = folder, sizes
        self.lake = frazil.connect(folder)
        self.spark = java.session(self.lake, folder, runtime)
        self.cpu = spark_scan.cpu_of(self.spark)
        self.lake.create_namespace("db")

    def lines(self) -> Iterator[Line]:
        for count in (self.sizes.rows, self.sizes.rows // _LESS):
            source = changed(self.spark, count, self.folder / f"changed{count}")
            source.createOrReplaceTempView(f"changed{count}")
        for version in VERSIONS:
            yield from self.changes(version)
        yield from self.compaction()
        yield from self.expiry()

    def changes(self, version: str) -> Iterator[Line]:
        """DELETE, UPDATE and MERGE in both modes."""
        many, few = (self.filled(version, count) for count in (self.sizes.rows, self.sizes.rows // _LESS))
        for kind, what in (("delete", "5 %"), ("update", "5 %"), ("merge", "1 %")):
            for mode in MODES:
                modes = {f"write.{kind}.mode": mode}
                name = f"{kind.upper()} {what} of {self.sizes.rows:,} rows, v{version}, {mode}"
                full, warming = (
                    self.sides(self._twin(base, modes), _statement(kind, count)) for base, count in (many, few)
                )
                yield from self.measured(name, full, warming)
                self.check_rows(name, full)
                _drop(full, warming)

    def filled(self, version: str, count: int) -> tuple[IcebergTable, int]:
        name = f"db.v{version}_{count}"
        frame = spark_write.made(self.spark, count)
        table = self.lake.create_table(name, frame.schema, properties={"format-version": version, **_CODEC})
        frame.writeTo(f"lake.{name}").append()
        return table.refresh(), count

    def compaction(self) -> Iterator[Line]:
        """Small files of one table become one."""
        made = rows.made(self.sizes.rows_of_small_files)
        table = self.lake.create_table("db.small", made.schema, properties={"format-version": "2", **_CODEC})
        base = many_files(table, made, self.sizes.small_files)
        sides = self.sides(self._twin(base), lambda table: _call("rewrite_data_files", table))
        name = f"compaction of {self.sizes.small_files:,} files, {made.num_rows:,} rows"
        yield from self.measured(name, sides)
        self.check_rows(name, sides)
        left = {side: len(live_files(one.changed())) for side, one in sides.items()}
        if max(left.values()) > self.sizes.small_files // 10:
            raise RuntimeError(f"{name}: files that are left: {left}")
        _drop(sides)

    def expiry(self) -> Iterator[Line]:
        """All snapshots but the last go, with their files."""
        count, files = self.sizes.snapshots, self.sizes.files_of_snapshots
        made = rows.made(files * 10)
        like = self.lake.create_table("db.like", made.schema, properties={"format-version": "2", **_CODEC})
        make = lambda: many_snapshots(empty(self.lake, like), made, count, files)  # noqa: E731
        sides = self.sides(make, _expire)
        name = f"expiry of {count - 1} of {count} snapshots, {(count - 1) * files:,} files"
        yield from self.measured(name, sides)
        self.check_rows(name, sides)
        for side, one in sides.items():
            left = len(list(Path(one.changed().location, "data").rglob("*.parquet")))
            if (len(one.changed().snapshots), left) != (1, files):
                raise RuntimeError(f"{name}: {side} left {one.changed().snapshots} and {left} files")
        _drop(sides)

    # Sides

    def _twin(self, base: IcebergTable, properties: Mapping[str, str] | None = None) -> Make:
        return lambda: twin(self.lake, base, properties or {})

    def sides(self, make: Make, command: Command) -> dict[str, Fresh]:
        return {side: Fresh(make, self._run(side, command)) for side in SIDES}

    def _run(self, side: str, command: Command) -> Callable[[IcebergTable], object]:
        return lambda table: self.spark.sql(command(f"{side}.{table.identifier}")).collect()

    def measured(self, name: str, sides: dict[str, Fresh], warming: dict[str, Fresh] | None = None) -> Iterator[Line]:
        jobs, less = ({side: one.job(self.cpu) for side, one in some.items()} for some in (sides, warming or sides))
        best = in_turns(jobs, self.sizes.rounds, warm=self.sizes.warm, warming=less)
        yield from java.agreed(name, best, by_cpu=False)

    def check_rows(self, name: str, sides: dict[str, Fresh]) -> None:
        """Both tables have the same rows, whoever reads them."""
        tables = {side: one.changed().identifier for side, one in sides.items()}
        found = {
            f"{writer}'s, read by {reader}": checksum(self.spark.table(f"{reader}.{table}"))
            for writer, table in tables.items()
            for reader in SIDES
        }
        if len(set(found.values())) != 1:
            raise RuntimeError(f"{name}: the sides disagree: {found}")


def _statement(kind: str, count: int) -> Command:
    if kind == "merge":
        return lambda table: merge(table, f"changed{count}")
    if kind == "update":
        return lambda table: f"UPDATE {table} SET amount = amount + 1 WHERE {CHANGED}"
    return lambda table: f"DELETE FROM {table} WHERE {CHANGED}"


def _call(procedure: str, table: str, more: str = "") -> str:
    catalog, _, name = table.partition(".")
    return f"CALL {catalog}.system.{procedure}(table => '{name}'{more})"


def _expire(table: str) -> str:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return _call("expire_snapshots", table, f", older_than => TIMESTAMP '{now}', retain_last => 1")


def _drop(*those: dict[str, Fresh]) -> None:
    for sides in those:
        for one in sides.values():
            one.drop()


def run(folder: Path, runtime: Path, quick: bool, rows: int | None) -> Iterator[Line]:
    """All lines of the report, as they are found."""
    sizes = QUICK if quick else Sizes()
    bench = Bench(folder, runtime, replace(sizes, rows=rows or sizes.rows))
    try:
        yield from bench.lines()
    finally:
        bench.spark.stop()


if __name__ == "__main__":
    sys.exit(java.main("benchmarks.spark_java_changes", __doc__, run))
