"""Rows into a table against `df.write.parquet`: `python -m benchmarks.spark_write ROWS ROUNDS`, answered as JSON.

Both sides write the same rows with the same codec and the same kind of timestamps, in one session, taking turns; a time
is the least of all rounds. Spark's own writer makes a file for each task and partition, ours a file for each partition.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import Line, seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 100
TASKS = 8
TARGET = 1.0
COLUMNS = "id BIGINT, part INT, amount DOUBLE, word STRING, at TIMESTAMP"
_CONF = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # a table may have no others
}


def made(spark: SparkSession, count: int) -> DataFrame:
    """Five columns, computed as they are written."""
    return spark.range(0, count, 1, TASKS).selectExpr(
        "id",
        f"cast(id * 7919 % {PARTITIONS} as int) AS part",
        "rand(1) AS amount",
        "concat('word-', cast(id * 31 % 1000 as string)) AS word",
        "timestamp_micros(1700000000000000 + id * 1000) AS at",
    )


def measure(folder: Path, count: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Seconds of ours and of Spark's own, for each question."""
    import frazil

    lake = frazil.connect(folder / "lake")
    spark = lake.spark(**_CONF)
    lake.create_namespace("db")
    rows, plain = made(spark, count), folder / "plain"

    def ours(partitioned: bool) -> Callable[[], None]:
        by = " PARTITIONED BY (part)" if partitioned else ""
        spark.sql("DROP TABLE IF EXISTS lake.db.t PURGE")
        spark.sql(f"CREATE TABLE lake.db.t ({COLUMNS}){by}")
        return lambda: rows.writeTo("lake.db.t").append()

    def theirs(partitioned: bool) -> Callable[[], None]:
        shutil.rmtree(plain, ignore_errors=True)
        writer = rows.write.partitionBy("part") if partitioned else rows.write
        return lambda: writer.parquet(str(plain))

    made(spark, 1_000).write.parquet(str(folder / "warm"))
    answers = {}
    for partitioned in (False, True):
        times: dict[Callable[[bool], Callable[[], None]], list[float]] = {ours: [], theirs: []}
        for _ in range(rounds):
            for side, taken in times.items():
                run = side(partitioned)
                start = time.perf_counter()
                run()
                taken.append(time.perf_counter() - start)
        if (found := spark.table("lake.db.t").count()) != count:
            raise RuntimeError(f"{found} rows of {count} were written")
        where = f", into {PARTITIONS} partitions" if partitioned else ""
        answers[f"write {count:,} rows by Spark{where} (df.write.parquet)"] = (min(times[ours]), min(times[theirs]))
    spark.stop()
    return answers


def lines(answer: str) -> Iterator[Line]:
    """The lines of what a process of this module answered."""
    for question, (ours, theirs) in json.loads(answer).items():
        share = ours / theirs
        yield Line(question, seconds(ours), seconds(theirs), f"{share:.2f}", f"<= {TARGET}", share <= TARGET)


def main(count: str, rounds: str) -> None:
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        json.dump(measure(Path(folder), int(count), int(rounds)), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
