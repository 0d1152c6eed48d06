"""Merged reads of mixed tables on Spark: `python -m benchmarks.mixed_spark ROWS ROUNDS [--json]`.

A keyed table whose rows are in the base store, and 5 % of them again in the change store with other values, in some
commits. What it is compared with is the base store alone: the same files without anything to merge. The first query
after a change has to read the changed keys as well: that is said too, with our caches emptied before each query.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import frazil
from benchmarks import spark_write
from benchmarks.probe import Job
from benchmarks.report import Line, tell
from benchmarks.spark_scan import Ask, cpu_of, forget, summed
from benchmarks.turns import compared, in_turns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AT_MOST = 2.0
COMMITS = 5
EVERY = 20
"""One row of so many has changed."""
WARM = 6
"""Rounds after which the JVM has compiled the loops of both sides: before, times are those of its compiler."""

_BASE, _MERGED = "base", "merged"
_CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
}


class Bench:
    """All questions, in one session over a warehouse in a folder."""

    def __init__(self, folder: Path, count: int, rounds: int) -> None:
        self.count, self.rounds = count, rounds
        self.warm = WARM if rounds > 1 else 0
        self.lake = frazil.connect(folder / "lake")
        self.spark = self.lake.spark(**_CONF)
        self.cpu = cpu_of(self.spark)
        self.lake.create_namespace("db")

    def lines(self) -> Iterator[Line]:
        """The report."""
        self._make("by_id", "id")
        two, every = ("sum(id)", "sum(part)"), ("sum(id)", "sum(part)", "sum(length(word))", "sum(second(at))")
        other = ("sum(part)", "sum(length(word))")
        yield from self._scans("by_id", "2 of 5 columns", two)
        yield from self._scans("by_id", "all columns", every)
        yield from self._scans("by_id", "key not selected", other)
        yield from self._scans("by_id", "2 of 5 columns, joined", two, joined=True)
        self._make("by_code", "code", "concat('code-', cast(id as string)) AS code")
        yield from self._scans("by_code", "key of text, selected", ("sum(part)", "sum(length(code))"))

    def _make(self, name: str, key: str, more: str | None = None) -> None:
        """A table, and changes of some of its rows."""
        spark = self.spark
        made = spark_write.made(spark, self.count)
        if more is not None:
            made = made.selectExpr("*", more).drop("id")
        made.writeTo(f"lake.db.{name}").using("mixed").tableProperty("primary-key", key).create()
        table = self.lake.table(f"db.{name}", format="mixed")
        where = f"pmod(xxhash64({key}), {EVERY}) = 0"
        old = spark.table(f"lake.db.{name}").where(where).toArrow()
        size = -(-old.num_rows // COMMITS)
        for start in range(0, old.num_rows, size):
            table.ingest(_updates(old.slice(start, size)))

    def _frame(self, name: str, side: str, joined: bool) -> DataFrame:
        if side == _BASE:
            return self.spark.table(f"lake.db.{name}.base")
        return self.spark.read.option("frazil.merge", "shuffle" if joined else "auto").table(f"lake.db.{name}")

    def _scans(self, name: str, what: str, sums: tuple[str, ...], *, joined: bool = False) -> Iterator[Line]:
        ask = summed(*sums)
        self._check(name, what, joined)
        question = f"Spark, to the base store alone: scan {self.count:,} rows, 5 % changed, {what}"
        for also, before, at_most in (("", _nothing, AT_MOST), (", our caches empty", forget, None)):
            jobs = {side: Job(self._asked(ask, name, side, joined), before, self.cpu) for side in (_BASE, _MERGED)}
            best = in_turns(jobs, self.rounds, warm=self.warm)
            yield from compared(f"{question}{also}", best[_MERGED], best[_BASE], None if joined else at_most)

    def _asked(self, ask: Ask, name: str, side: str, joined: bool) -> Callable[[], int]:
        return lambda: ask(self._frame(name, side, joined))

    def _check(self, name: str, what: str, joined: bool) -> None:
        """Changed rows have another `part`: the sum of all moves by as much, and the number of rows not at all."""
        asked = ("count(*)", "sum(part)")
        before, after = (self._frame(name, side, joined).selectExpr(*asked).collect()[0] for side in (_BASE, _MERGED))
        changed = self.spark.table(f"lake.db.{name}.change").where("_change_action = 'INSERT'").count()
        if after[0] != before[0] or after[1] != before[1] + changed:
            raise RuntimeError(f"{what}: {after} instead of {before} and {changed} changes")


def _nothing() -> None:
    """What is done before a query that finds everything as the last one left it."""


def _updates(old: pa.Table) -> pa.Table:
    """Pairs of a row as it was, and with one more in `part`."""
    places = [place for row in range(old.num_rows) for place in (row, row + old.num_rows)]
    raised = pa.compute.add(old.column("part"), 1).cast(old.schema.field("part").type)
    new = old.set_column(old.schema.get_field_index("part"), "part", raised)
    both = pa.concat_tables([old, new.cast(old.schema)]).take(pa.array(places))
    operations = pa.array(["update_before", "update_after"] * old.num_rows)
    return both.append_column("op", operations)


def main(count: str, rounds: str, form: str = "") -> int:
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        bench = Bench(Path(folder), int(count), int(rounds))
        code = tell(bench.lines(), form)
        bench.spark.stop()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
