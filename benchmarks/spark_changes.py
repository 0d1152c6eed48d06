"""Rows that change, and reading them after: `python -m benchmarks.spark_changes ROWS ROUNDS [--json]`.

Everything is in one session, the sides taking turns; a time is the least of all rounds after some that warm up. Tables
of one question have the same data files; commands get a new table before each call. What it is compared with is named
in the question.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import frazil
from benchmarks import rows, spark_write
from benchmarks.probe import Job, Measured
from benchmarks.pyiceberg_jobs import new_catalog
from benchmarks.report import Line, megabytes, seconds, tell
from benchmarks.spark_deletes import DeletedReads
from benchmarks.spark_scan import cpu_of
from benchmarks.turns import compared, in_turns
from benchmarks.twins import Fresh, checksum, own_bytes, twin
from frazil.iceberg.table import IcebergTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODES = ("merge-on-read", "copy-on-write")
TIME_AT_MOST, BYTES_AT_MOST = 1 / 3, 1 / 20
UPSERT_AT_LEAST = 20
KEYS = 100_000
PEER_ROWS = 500_000
"""Into how many rows PyIceberg upserts a tenth as many, which takes it about half a minute."""

_CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
}
_PROPERTIES = {"format-version": "3", "write.parquet.compression-codec": "zstd"}


def changed(spark: SparkSession, count: int, folder: Path) -> DataFrame:
    """Rows for MERGE, in plain Parquet: 1 % of all with another amount, and 0.1 % new ones."""
    made = spark_write.made(spark, count + count // 1_000).where(f"id % 100 = 0 OR id >= {count}")
    made.selectExpr("id", "part", "-1.0D AS amount", "word", "at").coalesce(2).write.parquet(str(folder))
    return spark.read.parquet(str(folder))


def merge(table: str, source: str) -> str:
    return (
        f"MERGE INTO {table} t USING {source} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


class Bench:
    """All questions, in one session over a warehouse in a folder."""

    def __init__(self, folder: Path, count: int, rounds: int) -> None:
        self.folder, self.count, self.rounds = folder, count, rounds
        self.warm = 2 if rounds > 1 else 0
        self.lake = frazil.connect(folder / "lake")
        self.spark = self.lake.spark(**_CONF)
        self.cpu = cpu_of(self.spark)
        self.lake.create_namespace("db")

    def lines(self) -> Iterator[Line]:
        base = self.filled("base", spark_write.made(self.spark, self.count))
        reads = DeletedReads(self.lake, self.spark, self.count, self.rounds, 3 * self.warm)
        yield from reads.vectors(base)
        keyed = self.filled("keyed", self.frame(base).selectExpr("*", "concat('code-', id) AS code"))
        yield from reads.keys(keyed, min(KEYS, self.count // 20))
        yield from self.merging(base)
        yield from self.upserts()

    def filled(self, name: str, frame: DataFrame) -> IcebergTable:
        table = self.lake.create_table(f"db.{name}", frame.schema, properties=_PROPERTIES)
        frame.writeTo(f"lake.db.{name}").append()
        return table.refresh()

    def frame(self, table: IcebergTable) -> DataFrame:
        return self.spark.table(f"lake.{table.identifier}")

    def merging(self, base: IcebergTable) -> Iterator[Line]:
        """MERGE of few rows, everywhere in the table, in both modes."""
        source = changed(self.spark, self.count, self.folder / "changed")
        source.createOrReplaceTempView("changed")
        sides = {mode: self.command(base, mode) for mode in MODES}
        best = in_turns({mode: side.job(self.cpu) for mode, side in sides.items()}, self.rounds, warm=self.warm)
        expected = checksum(self.frame(base).join(source, "id", "left_anti").unionByName(source))
        for mode, side in sides.items():
            if (found := checksum(self.frame(side.changed()))) != expected:
                raise RuntimeError(f"MERGE, {mode}: {found} instead of {expected}")
        ours, theirs = (best[mode] for mode in MODES)
        name = f"Spark, merge-on-read to copy-on-write: MERGE of 1 % into {self.count:,} rows"
        yield from compared(name, ours, theirs, TIME_AT_MOST, by_cpu=False)
        few, many = (own_bytes(side.changed()) for side in sides.values())
        share, target = few / many, f"<= {BYTES_AT_MOST}"
        yield Line(f"{name}: bytes", megabytes(few), megabytes(many), f"{share:.3f}", target, share <= BYTES_AT_MOST)

    def command(self, base: IcebergTable, mode: str) -> Fresh:
        return Fresh(
            lambda: twin(self.lake, base, {"write.merge.mode": mode}),
            lambda table: self.spark.sql(merge(f"lake.{table.identifier}", "changed")),
        )

    def upserts(self) -> Iterator[Line]:
        """A large one, and one that PyIceberg can do; it is rows in a second that are compared."""
        count = min(PEER_ROWS, self.count // 10)
        PyIcebergUpsert(self.folder / "warm", 100).run()
        peer = PyIcebergUpsert(self.folder / "pyiceberg", count)
        theirs = in_turns({"PyIceberg": peer.job()}, 1, warm=0)["PyIceberg"]  # it takes long: one call is fair
        yield self.large_upsert(self.count // 2, self.count // 20, peer.speed(theirs))
        yield from self.same_upsert(peer, peer.speed(theirs))

    def large_upsert(self, count: int, given: int, their_speed: float) -> Line:
        """Of the rows a half is new."""
        base = self.filled("upserted", spark_write.made(self.spark, count))
        first = count - given // 2
        news = spark_write.made(self.spark, first + given).where(f"id >= {first}")
        side = Fresh(lambda: twin(self.lake, base), lambda table: table.upsert(news, keys=["id"]))
        ours = in_turns({"ours": side.job(self.cpu)}, self.rounds, warm=self.warm)["ours"]
        if (found := self.frame(side.changed()).count()) != first + given:
            raise RuntimeError(f"upsert: {found} rows instead of {first + given}")
        return _speeds(f"upsert {given:,} rows into {count:,}, from Spark", ours, given, their_speed)

    def same_upsert(self, peer: PyIcebergUpsert, their_speed: float) -> Iterator[Line]:
        """The rows that PyIceberg upserted, from Spark and from Arrow; both tables are read."""
        base = self.lake.create_table("db.small", peer.rows.schema, properties=_PROPERTIES)
        base.append(peer.rows)
        news = self.spark.createDataFrame(peer.news)
        sides = {
            "Spark": Fresh(lambda: twin(self.lake, base), lambda table: table.upsert(news, keys=["id"])),
            "Arrow": Fresh(lambda: twin(self.lake, base), lambda table: table.upsert(peer.news, keys=["id"])),
        }
        best = in_turns({name: side.job(self.cpu) for name, side in sides.items()}, self.rounds, warm=self.warm)
        given, expected = peer.news.num_rows, _in_order(peer.read(), peer.rows.schema)
        for name, side in sides.items():
            if not _in_order(side.changed().scan().to_arrow(), peer.rows.schema).equals(expected):
                raise RuntimeError(f"upsert from {name}: PyIceberg's table has other rows")
            question = f"upsert {given:,} rows into {peer.rows.num_rows:,}, from {name}"
            # starting Spark's jobs is most of what so few rows take
            yield _speeds(question, best[name], given, their_speed, aimed=name == "Arrow")
        after = sides["Arrow"].changed()
        readers = {"ours": Job(lambda: after.scan().to_arrow().num_rows), "theirs": Job(lambda: peer.read().num_rows)}
        best = in_turns(readers, self.rounds)
        ours, theirs = best["ours"].wall, best["theirs"].wall
        yield Line("  all rows read after it, to Arrow", seconds(ours), seconds(theirs), f"{theirs / ours:.1f} x")


class PyIcebergUpsert:
    """PyIceberg's upsert of a tenth as many rows, of which a half is new, into a new table before each call."""

    def __init__(self, folder: Path, count: int) -> None:
        given = count // 10
        made = rows.made(count + given // 2)
        self.rows, self.news = made.slice(0, count), _with_amount(made.slice(count - given // 2, given), -1.0)
        self._catalog = new_catalog(folder)
        self.table = self._catalog.create_table("n.t", made.schema)

    def before(self) -> None:
        self._catalog.drop_table("n.t")
        self.table = self._catalog.create_table("n.t", self.rows.schema)
        self.table.append(self.rows)

    def run(self) -> int:
        self.table.upsert(self.news, join_cols=["id"])
        return 0

    def job(self) -> Job:
        return Job(self.run, self.before)

    def speed(self, taken: Measured) -> float:
        """Rows in a second."""
        return float(self.news.num_rows / taken.wall)

    def read(self) -> pa.Table:
        return self.table.scan().to_arrow()


def _with_amount(table: pa.Table, amount: float) -> pa.Table:
    return table.set_column(table.schema.get_field_index("amount"), "amount", pa.array([amount] * table.num_rows))


def _in_order(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(schema.names).cast(schema.remove_metadata()).sort_by("id")


def _speeds(question: str, ours: Measured, given: int, theirs: float, *, aimed: bool = True) -> Line:
    faster = given / ours.wall / theirs
    line = Line(question, f"{given / ours.wall:,.0f} rows/s", f"{theirs:,.0f} rows/s", f"{faster:.1f} x")
    return replace(line, target=f">= {UPSERT_AT_LEAST} x", met=faster >= UPSERT_AT_LEAST) if aimed else line


def main(count: str, rounds: str, form: str = "") -> int:
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        bench = Bench(Path(folder), int(count), int(rounds))
        code = tell(bench.lines(), form)
        bench.spark.stop()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
