"""Reads while changes stream in: `python -m benchmarks.mixed_stream [ROWS [CHANGES [COMMITS]]] [--json]`.

The shape of Amoro's published benchmark: a keyed table takes in upserts, commit after commit, and is read now and then.
Two tables get the same changes; one is optimized between commits as its properties say, the other never. A read sums a
column over all rows; a time is the least of some calls. The answers of both must be the same, with as many rows as the
changes made. Rows are wide enough for files that are worth leaving alone.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import frazil
from benchmarks.probe import Job, measure
from benchmarks.report import Line, megabytes, seconds, tell
from frazil.iceberg.table import IcebergTable
from frazil.mixed.table import MixedTable
from frazil.optimize.evaluate import Kind
from frazil.optimize.inputs import DeleteKind
from frazil.optimize.plan import RewriteTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.lake import Lake

READ_AT_MOST = 1.3
TOUCHED_AT_MOST = 4.0
"""Bytes that a minor optimizing writes, to those of the changes that it moves."""
READS = 8
CALLS = 3
_NEW = 10
"""One in so many changes brings a new key."""
_SPREAD = 2_654_435_761
_MORE = ("concat('word-', id % 5003) AS word", "id / 3.0D AS x", "md5(cast(id AS string)) AS code")
_CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
}


@dataclass
class Side:
    """A table that takes in the changes."""

    table: MixedTable
    optimizes: bool
    reads: list[float] = field(default_factory=list)
    answers: list[tuple[int, ...]] = field(default_factory=list)
    moved: int = 0
    """Bytes of changes that minor optimizing moved to the base store."""
    written: int = 0
    """Bytes that it wrote."""


class Bench:
    """All of it in one session over a warehouse in a folder."""

    def __init__(self, folder: Path, rows: int, changes: int, commits: int) -> None:
        self.rows, self.commits = rows, commits
        self.per_commit = max(1, changes // commits)
        self.lake: Lake = frazil.connect(folder)
        self.spark = self.lake.spark(**_CONF)
        self.lake.create_namespace("db")

    def lines(self) -> Iterator[Line]:
        """Let both tables take in the changes, and say how long reads of them took."""
        sides = [Side(self._made("optimized"), True), Side(self._made("left"), False)]
        for side in sides:
            self._read(side)
        every = max(1, self.commits // READS)
        for number in range(self.commits):
            changes = self._changes(number)
            for side in sides:
                side.table.upsert(changes)
                if side.optimizes:
                    self._optimize(side)
                if (number + 1) % every == 0:
                    self._read(side)
            if (number + 1) % every == 0:
                self._check(*sides, self.rows + (number + 1) * (self.per_commit // _NEW))
        yield from self._told(*sides)

    def _told(self, ours: Side, left: Side) -> Iterator[Line]:
        what = f"{self.per_commit * self.commits:,} changes in {self.commits:,} commits into {self.rows:,} rows"
        first, last, worst = ours.reads[0], ours.reads[-1], max(ours.reads[1:])
        yield Line(f"upsert stream, {what}: first read", seconds(first), seconds(left.reads[0]))
        for name, at, beside in (("slowest read", worst, max(left.reads[1:])), ("last read", last, left.reads[-1])):
            ratio = at / first
            yield Line(
                f"  {name}, optimized (beside: never optimized, {beside / left.reads[0]:.2f} of its first)",
                seconds(at),
                seconds(beside),
                f"{ratio:.2f}",
                f"<= {READ_AT_MOST}",
                ratio <= READ_AT_MOST,
            )
        share = ours.written / max(ours.moved, 1)
        size = _bytes(ours.table.base_store)
        yield Line(
            f"  minor optimizing: bytes written to bytes of changes (the table has {megabytes(size)})",
            megabytes(ours.written),
            megabytes(ours.moved),
            f"{share:.2f}",
            f"<= {TOUCHED_AT_MOST:.3g}",
            0 < share <= TOUCHED_AT_MOST,
        )

    def _made(self, name: str) -> MixedTable:
        self._rows(0, self.rows, 0).createOrReplaceTempView("made")
        self.spark.sql(
            f"CREATE TABLE lake.db.{name} USING mixed TBLPROPERTIES ('primary-key' = 'id') AS SELECT * FROM made"
        )
        found: MixedTable = self.lake.table(f"db.{name}")  # type: ignore[assignment]
        return found

    def _rows(self, first: int, end: int, version: int) -> DataFrame:
        return self.spark.range(first, end).selectExpr("id", f"pmod(id * {version + 7}, 1000) AS amount", *_MORE)

    def _changes(self, number: int) -> DataFrame:
        """Other amounts for rows all over the table, and some new rows."""
        new = self.per_commit // _NEW
        first = self.rows + number * new
        fresh = self._rows(first, first + new, number)
        old = self.spark.range(self.per_commit - new).selectExpr(
            f"pmod((id + {number * self.per_commit}) * {_SPREAD}, {self.rows}) AS id"
        )
        known = old.dropDuplicates(["id"]).selectExpr("id", f"{number} AS amount", *_MORE)
        return known.unionAll(fresh)

    def _optimize(self, side: Side) -> None:
        """What is due; of minor runs it is counted how much they wrote."""
        before = {one.snapshot_id for one in side.table.base_store.snapshots}
        done = side.table.optimize(upkeep=False)
        if done.kind is not Kind.MINOR:
            return
        new = [one for one in side.table.refresh().base_store.snapshots if one.snapshot_id not in before]
        side.written += sum(int(one.summary.get("added-files-size", "0")) for one in new)
        side.moved += sum(_change_bytes(task) for run in done.runs if run.plan for task in run.plan.tasks)

    def _read(self, side: Side) -> None:
        def ask() -> int:  # a new query each time: of one that is asked again Spark keeps what it has shuffled
            rows = self.spark.table(f"lake.{side.table.identifier}")
            (found,) = rows.selectExpr("count(*)", "sum(amount)", "sum(length(code))").collect()
            side.answers.append(tuple(found))
            return len(found)

        side.reads.append(measure(Job(ask), CALLS).wall)

    def _check(self, ours: Side, left: Side, count: int) -> None:
        if ours.answers != left.answers or ours.answers[-1][0] != count:
            raise RuntimeError(f"the tables disagree: {ours.answers[-1]}, {left.answers[-1]}, not {count} rows")


def _change_bytes(task: RewriteTask) -> int:
    """Of the files that a task reads, those of the change store."""
    inserts = sum(file.file.file_size_in_bytes for file in task.rewrite if file.is_change)
    return inserts + sum(one.file.file_size_in_bytes for one in task.deletes if one.kind is DeleteKind.CHANGE)


def _bytes(store: IcebergTable) -> int:
    snapshot = store.current_snapshot
    return 0 if snapshot is None else int(snapshot.summary.get("total-files-size", "0"))


def lines(folder: Path, rows: int, changes: int, commits: int) -> Iterator[Line]:
    """The lines of a run."""
    bench = Bench(folder, rows, changes, commits)
    try:
        yield from bench.lines()
    finally:
        bench.spark.stop()


def main() -> int:
    """Measure and print; the exit code says if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=10_000_000)
    parser.add_argument("changes", type=int, nargs="?", default=1_000_000)
    parser.add_argument("commits", type=int, nargs="?", default=100)
    parser.add_argument("--json", dest="form", action="store_const", const="--json", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        return tell(lines(Path(folder), given.rows, given.changes, given.commits), given.form)


if __name__ == "__main__":
    raise SystemExit(main())
