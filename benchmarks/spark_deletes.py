"""Scans of tables with deleted rows beside the same scans of the same files without deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.probe import Job, Measured
from benchmarks.report import Line, seconds
from benchmarks.spark_scan import Ask, cpu_of, forget, summed
from benchmarks.turns import compared, in_turns
from benchmarks.twins import twin
from frazil.iceberg.equality_writer import EqualityDeleteWriter
from frazil.iceberg.table import IcebergTable
from frazil.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLEAN, PARQUET, FIRST, AGAIN = "clean", "parquet", "first", "again"
SHARES = {"1 %": "id % 100 = 0", "5 %": "id % 20 = 0", "20 %": "id % 5 = 0"}
"""Rows that are deleted: everywhere in each file."""

TWO = summed("sum(id)", "sum(part)")
ALL = summed("sum(id)", "sum(part)", "round(sum(amount))", "sum(length(word))", "sum(second(at))")
VECTORS_AT_MOST = 1.15
SCANS = 3
"""So many scans in a round: each takes less than a second, and something else on the machine may take a part of it."""
FLAT_AT_MOST = 1.1
"""How much longer the scan with most deletes may take than the one with fewest: each has its own noise."""

NOTHING_AT_MOST = 1.05
"""What a scan without deletes may cost, to Spark's own of the same files."""


@dataclass(frozen=True)
class Keyed:
    """A scan of a table with equality deletes of some key."""

    name: str
    key: tuple[str, ...]
    at_most: float
    ask: Ask


SELECTED, NOT_SELECTED = 1.6, 2.3
KEYED = (
    Keyed("key selected", ("id",), SELECTED, TWO),
    Keyed("key not selected", ("id",), NOT_SELECTED, summed("sum(part)", "sum(length(word))")),
    Keyed("two keys, selected", ("id", "part"), SELECTED, TWO),
    Keyed("two keys, not selected", ("id", "part"), NOT_SELECTED, summed("round(sum(amount))", "sum(length(word))")),
    Keyed("string key, selected", ("code",), SELECTED, summed("sum(part)", "sum(length(code))")),
    Keyed("string key, not selected but all other columns", ("code",), NOT_SELECTED, ALL),
    Keyed("string key, not selected but two numbers", ("code",), NOT_SELECTED, TWO),
)


class DeletedReads:
    """Questions about reading, in the session of a lake."""

    def __init__(self, lake: Lake, spark: SparkSession, count: int, rounds: int, warm: int) -> None:
        self.lake, self.spark, self.count = lake, spark, count
        self.rounds, self.warm = rounds, warm

    def vectors(self, base: IcebergTable) -> Iterator[Line]:
        """Deletion vectors of some shares; none at all is compared with Spark's own scan."""
        tables = {share: self._deleted(base, where) for share, where in SHARES.items()}
        for columns, ask in (("2 of 5 columns", TWO), ("all columns", ALL)):
            for share, where in SHARES.items():
                self._check_rows(f"{share} {columns}", ask, tables[share], base, where)
            best = self._measured(ask, {CLEAN: base, **tables}, base.scan().plan().file_paths)
            _check(columns, best[CLEAN].answer, best[PARQUET].answer)
            name = f"Spark, to spark.read.parquet: scan {self.count:,} rows of a v3 table without deletes, {columns}"
            yield from compared(name, best[CLEAN], best[PARQUET], NOTHING_AT_MOST)
            for share in SHARES:
                name = f"Spark, to no deletes: scan {self.count:,} rows, {share} deleted by vectors, {columns}"
                yield from compared(name, best[share], best[CLEAN], VECTORS_AT_MOST)
            yield _flat(columns, [best[share] for share in SHARES])

    def keys(self, base: IcebergTable, keys: int) -> Iterator[Line]:
        """Equality deletes of keys that are everywhere in each file."""
        where = f"id % {self.count // keys} = 0"
        for key in dict.fromkeys(one.key for one in KEYED):
            table = self._without_keys(base, key, where)
            for one in KEYED:
                if one.key != key:
                    continue
                self._check_rows(one.name, one.ask, table, base, where)
                best = self._measured(one.ask, {CLEAN: base, FIRST: table, AGAIN: table})
                _check(one.name, best[FIRST].answer, best[AGAIN].answer)
                name = f"Spark, to no deletes: scan {self.count:,} rows, {keys:,} equality deletes, {one.name}"
                yield from compared(f"{name}, first scan", best[FIRST], best[CLEAN], one.at_most)
                yield from compared(f"{name}, again", best[AGAIN], best[CLEAN], one.at_most)

    def _frame(self, table: IcebergTable) -> DataFrame:
        return self.spark.table(f"lake.{table.identifier}")

    def _deleted(self, base: IcebergTable, where: str) -> IcebergTable:
        table = twin(self.lake, base, {"write.delete.mode": "merge-on-read"})
        self.spark.sql(f"DELETE FROM lake.{table.identifier} WHERE {where}")
        found = {file.file_format for file in table.refresh().scan().plan().delete_files}
        if found != {"puffin"}:
            raise RuntimeError(f"rows should be deleted by vectors, not by {found or 'rewriting files'}")
        return table

    def _without_keys(self, base: IcebergTable, key: Sequence[str], where: str) -> IcebergTable:
        table, keys = twin(self.lake, base), self._frame(base).where(where).select(*key).toArrow()
        writer = EqualityDeleteWriter(table.metadata, table.store, [table.schema.find(name).id for name in key])
        action = table.new_row_delta()
        for file in writer.write(keys.to_batches()):
            action.add_deletes(file)
        action.commit()
        return table

    def _check_rows(self, what: str, ask: Ask, table: IcebergTable, base: IcebergTable, gone: str) -> None:
        _check(what, ask(self._frame(table)), ask(self._frame(base).where(f"NOT ({gone})")))

    def _measured(self, ask: Ask, tables: Mapping[str, IcebergTable], paths: Sequence[str] = ()) -> dict[str, Measured]:
        """Ask of tables, nothing of which is remembered in this process, and of Parquet files if there are paths."""
        cpu = cpu_of(self.spark)
        found = self.spark._jvm.org.apache.spark.sql.connector.catalog.FrazilFound  # type: ignore[union-attr]

        def before(name: str) -> None:
            forget()
            if name == FIRST:
                found.clear()

        jobs = {name: Job(self._asked(ask, table), partial(before, name), cpu) for name, table in tables.items()}
        if paths:
            jobs[PARQUET] = Job(lambda: ask(self.spark.read.parquet(*paths)), cpu=cpu)
        return in_turns(jobs, SCANS * self.rounds, warm=self.warm)

    def _asked(self, ask: Ask, table: IcebergTable) -> Callable[[], int]:
        return lambda: ask(self._frame(table))


def _flat(columns: str, shares: Sequence[Measured]) -> Line:
    most, least = shares[-1], shares[0]
    wall, cpu = most.wall / least.wall, most.cpu / least.cpu
    name = f"  {', '.join(SHARES)} deleted, {columns}: the last to the first (flat)"
    told = (seconds(most.wall), seconds(least.wall), f"{wall:.2f}", f"<= {FLAT_AT_MOST}")
    return Line(name, *told, min(wall, cpu) <= FLAT_AT_MOST)


def _check(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise RuntimeError(f"{what}: {found} instead of {expected}")
