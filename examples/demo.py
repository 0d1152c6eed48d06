"""``make demo``: a tour of a lake on local Spark, in a temporary warehouse: ingest, query, go back, evolve, vectors."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

import frazil

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.lance.table import LanceTable

DAYS = 7
ROWS_PER_DAY = 250_000
BAR = 28
PRODUCTS = 60_000
DIMENSIONS = 32


class Tour:
    """Numbered steps, each with what it shows and the time it took."""

    def __init__(self) -> None:
        self._number = 0

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Say what is done, and afterwards how long it took."""
        self._number += 1
        print(f"\n{self._number}. {what}", flush=True)
        began = time.perf_counter()
        yield
        print(f"   {time.perf_counter() - began:.1f} s", flush=True)

    @staticmethod
    def say(text: str) -> None:
        """A line of what came of a step."""
        print(f"   {text}", flush=True)

    @staticmethod
    def show(frame: DataFrame) -> None:
        """The rows of a query."""
        names = frame.columns
        rows = [[str(value) for value in row] for row in frame.collect()]
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        for row in (names, *rows):
            print("   " + "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())


@contextmanager
def quiet() -> Iterator[None]:
    """Without what a starting JVM says about itself; what goes wrong is an exception in Python."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def events(spark: SparkSession, day: int) -> DataFrame:
    """One day of made-up events."""
    first = day * ROWS_PER_DAY
    return spark.range(first, first + ROWS_PER_DAY).selectExpr(
        "id",
        f"timestampadd(MICROSECOND, (id - {first}) * {86_400_000_000 // ROWS_PER_DAY},"
        f" date_add(DATE'2026-11-01', {day})) AS ts",
        "element_at(array('view', 'view', 'view', 'click', 'buy'), int(hash(id) & 1023) % 5 + 1) AS kind",
        "cast(1 + pmod(hash(id, 7), 10000) / 100 AS DECIMAL(9, 2)) AS amount",
    )


def ingest(spark: SparkSession) -> None:
    """Append day after day, with a line of progress for each."""
    began = time.perf_counter()
    for day in range(DAYS):
        events(spark, day).writeTo("lake.shop.events").append()
        rows = (day + 1) * ROWS_PER_DAY
        done = "#" * (BAR * (day + 1) // DAYS)
        rate = rows / (time.perf_counter() - began)
        Tour.say(f"[{done:<{BAR}}] day {day + 1} of {DAYS}: {rows:>9,} rows, {rate:>9,.0f} rows/s")


def main() -> None:
    """The tour."""
    began = time.perf_counter()
    tour = Tour()
    with tempfile.TemporaryDirectory() as warehouse:
        lake = frazil.connect(warehouse)
        with tour.step("start Spark on this machine, with the lake as a catalog: no jar, no service"):
            with quiet():
                spark = lake.spark(**{"spark.ui.enabled": "false"})
            tour.say(f"Spark {spark.version}, {spark.sparkContext.defaultParallelism} cores")
        try:
            show(tour, lake, spark)
        finally:
            spark.stop()
    print(f"\nAll of it in {time.perf_counter() - began:.0f} s. Next: README.md, docs/architecture.md")


def show(tour: Tour, lake: frazil.Lake, spark: SparkSession) -> None:
    """What one table can do."""
    with tour.step("create an Iceberg table, partitioned by day"):
        spark.sql("CREATE NAMESPACE lake.shop")
        spark.sql(
            "CREATE TABLE lake.shop.events (id BIGINT NOT NULL, ts TIMESTAMP, kind STRING, amount DECIMAL(9, 2))"
            " PARTITIONED BY (days(ts)) TBLPROPERTIES ('format-version' = '3')"
        )
    with tour.step(f"ingest {DAYS} days, each one a commit"):
        ingest(spark)
    table = lake.table("shop.events")
    loaded = table.current_snapshot
    assert loaded is not None

    with tour.step("query it"):
        tour.show(
            spark.sql(
                "SELECT kind, count(*) AS events, sum(amount) AS amount"
                " FROM lake.shop.events WHERE ts >= '2026-11-06' GROUP BY kind ORDER BY kind"
            )
        )
        scan = table.scan("ts >= TIMESTAMP '2026-11-06 00:00:00+00:00'")
        tour.say(f"two days of {DAYS}: {len(scan.plan())} of {len(table.scan().plan())} files were read")

    with tour.step("delete the clicks of a day, then travel back in time"):
        spark.sql("DELETE FROM lake.shop.events WHERE kind = 'click' AND ts < '2026-11-02'")
        count = "SELECT count(*) AS n FROM lake.shop.events"
        now = spark.sql(count).first()
        then = spark.sql(f"{count} VERSION AS OF {loaded.snapshot_id}").first()
        assert now is not None
        assert then is not None
        tour.say(f"now {now.n:,} rows, before {then.n:,} rows")

    with tour.step("merge corrections, as deletion vectors and new rows, then compact what has too many"):
        spark.sql("ALTER TABLE lake.shop.events SET TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')")
        fixes = events(spark, 3).where("id % 100 = 0").selectExpr("id", "ts", "'fixed' AS kind", "amount")
        done = lake.table("shop.events").merge(fixes, ["id", "ts"]).when_matched_update_all().execute()
        tour.say(f"{done.rows_updated:,} rows updated by {done.data_files_added} data file and a vector")
        compact = "CALL lake.system.rewrite_data_files('shop.events', options => map('min-input-files', '2'))"
        made = spark.sql(compact).first()
        assert made is not None
        tour.say(f"{made.rewritten_data_files_count} files with their deletes became {made.added_data_files_count}")

    with tour.step("evolve the schema: a new column, a renamed one, finer partitions; no file is rewritten"):
        spark.sql("ALTER TABLE lake.shop.events ADD COLUMN country STRING AFTER kind")
        spark.sql("ALTER TABLE lake.shop.events RENAME COLUMN amount TO price")
        spark.sql("ALTER TABLE lake.shop.events ADD PARTITION FIELD country")
        new = events(spark, DAYS).withColumnRenamed("amount", "price").selectExpr("*", "'NL' AS country")
        new.writeTo("lake.shop.events").append()
        tour.show(
            spark.sql(
                "SELECT country, count(*) AS events, max(price) AS price"
                " FROM lake.shop.events GROUP BY country ORDER BY country"
            )
        )

    with tour.step("try something on a branch"):
        spark.sql("ALTER TABLE lake.shop.events CREATE BRANCH trial")
        spark.sql("DELETE FROM lake.shop.events.branch_trial WHERE kind = 'view'")
        tour.show(
            spark.sql(
                "SELECT 'main' AS branch, count(*) AS events FROM lake.shop.events UNION ALL"
                " SELECT 'trial', count(*) FROM lake.shop.events VERSION AS OF 'trial'"
            )
        )

    with tour.step("look inside"):
        tour.show(
            spark.sql(
                "SELECT committed_at, operation, summary['added-records'] AS added, summary['total-records'] AS total"
                " FROM lake.shop.events.snapshots ORDER BY committed_at"
            )
        )

    with tour.step("the same table without Spark: Arrow in this process"):
        table = lake.table("shop.events")
        rows = table.scan("id = 1000000", columns=["id", "ts", "kind", "price", "_row_id"]).to_arrow().to_pylist()
        tour.say(str(rows[0]) if rows else "no such row")

    show_lance(tour, lake, spark)


def show_lance(tour: Tour, lake: frazil.Lake, spark: SparkSession) -> None:
    """What a Lance table can do beside it: vectors, random access, columns that are added without rewriting."""
    with tour.step(
        f"a Lance table of products, each with an embedding of {DIMENSIONS} numbers; workers write the rows"
    ):
        spark.sql(
            "CREATE TABLE lake.shop.products (id BIGINT, name STRING, price DOUBLE, embedding ARRAY<FLOAT>)"
            f" USING lance TBLPROPERTIES ('embedding.arrow.fixed-size-list.size' = '{DIMENSIONS}')"
        )
        table = lake.table("shop.products", format="lance")
        table.append(products(spark))
        created = table.version
        tour.say(f"{table.scan().count():,} rows in {len(table.current_snapshot.fragments)} fragments")

    with tour.step("the nearest to one of them, and their rows by position: random access"):
        asked = PRODUCTS // 3
        began = time.perf_counter()
        nearest = closest(table, asked, 4)
        took = time.perf_counter() - began
        for row in table.take(nearest, ["id", "name", "price"]).to_pylist():
            tour.say(str(row))
        tour.say(f"found among all in {took * 1000:.0f} ms")
        began = time.perf_counter()
        table.take(list(range(7, PRODUCTS, PRODUCTS // 100)))
        tour.say(f"take of 100 rows anywhere: {(time.perf_counter() - began) * 1000:.0f} ms")

    with tour.step("add a column without rewriting the others, travel back in time, and let it be an Iceberg table"):
        files = set(table.inspect("files")["file_path"].to_pylist())
        table.add_columns({"sale": "price * 0.5"})
        kept = files & set(table.inspect("files")["file_path"].to_pylist())
        tour.say(f"{len(kept)} of {len(files)} data files are where they were")
        tour.show(spark.sql("SELECT id, price, sale FROM lake.shop.products WHERE id < 2 ORDER BY id"))
        before = spark.sql(f"SELECT * FROM lake.shop.products VERSION AS OF {created} LIMIT 1")
        tour.say(f"columns at version {created}: {', '.join(before.columns)}")
        spark.sql("CALL lake.system.convert(table => 'shop.products', to => 'iceberg')")
        tour.say(f"{lake.table('shop.products').format} now, with {spark.table('lake.shop.products').count():,} rows")


def products(spark: SparkSession) -> DataFrame:
    """Made-up products, whose embeddings say something about their number."""
    return spark.range(PRODUCTS).selectExpr(
        "id",
        "concat('product ', id) AS name",
        "cast(5 + pmod(hash(id), 1000) / 10 AS DOUBLE) AS price",
        f"transform(sequence(1, {DIMENSIONS}), i -> float(sin(id * i / 1000))) AS embedding",
    )


def closest(table: LanceTable, asked: int, count: int) -> list[int]:
    """The positions of the rows whose embeddings are nearest to that of one."""
    column = table.scan(columns=["embedding"]).to_arrow()["embedding"].combine_chunks()
    vectors = np.asarray(column.flatten()).reshape(-1, DIMENSIONS)
    [wanted] = table.take([asked], ["embedding"])["embedding"].to_pylist()
    distances = np.square(vectors - np.array(wanted, np.float32)).sum(axis=1)
    found: list[int] = np.argsort(distances, kind="stable")[:count].tolist()
    return found


if __name__ == "__main__":
    main()
