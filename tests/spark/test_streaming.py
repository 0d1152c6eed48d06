"""Streams from tables and into tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil.errors import FrazilError, InvalidArgument, SnapshotNotFound, Unsupported
from frazil.iceberg.write import RowWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from frazil.lake import Lake

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture
def source(lake: Lake, name: str) -> str:
    """A table of numbers that came in three appends: 0-3, 4-7, 8-11."""
    table = lake.create_table(f"{name.removeprefix('lake.')}_in", "id BIGINT, word STRING")
    for first in (0, 4, 8):
        table.append([{"id": number, "word": f"w{number}"} for number in range(first, first + 4)])
    return f"{name}_in"


def append(lake: Lake, name: str, *numbers: int) -> None:
    lake.table(name.removeprefix("lake.")).append([{"id": number, "word": f"w{number}"} for number in numbers])


def run(frame: DataFrame, to: str, checkpoint: Path, **options: str) -> list[int]:
    """Let a stream take in what there is; how many rows each of its batches had."""
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).options(**options)
    return batches(writer.trigger(availableNow=True).toTable(to))


def batches(query: StreamingQuery) -> list[int]:
    try:
        query.awaitTermination(60)
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    finally:
        query.stop()


def ids(spark: SparkSession, name: str) -> list[int]:
    return sorted(row.id for row in spark.table(name).select("id").collect())


def forget_last_commit(checkpoint: Path) -> None:
    """As if the query was killed after a batch was written, and before Spark had noted that it was."""
    last = max((file for file in (checkpoint / "commits").iterdir() if file.name.isdigit()), key=lambda f: int(f.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_a_stream_reads_what_was_appended_and_goes_on_where_it_was(
    spark: SparkSession, lake: Lake, source: str, name: str, checkpoint: Path
) -> None:
    frame = spark.readStream.table(source)
    assert run(frame, name, checkpoint) == [12]
    assert run(frame, name, checkpoint) == []
    append(lake, source, 100, 101)
    assert run(frame, name, checkpoint) == [2]
    assert ids(spark, name) == [*range(12), 100, 101]


def test_a_batch_that_comes_again_is_written_once(
    spark: SparkSession, lake: Lake, source: str, name: str, checkpoint: Path
) -> None:
    frame = spark.readStream.table(source)
    run(frame, name, checkpoint)
    append(lake, source, 100)
    run(frame, name, checkpoint)
    forget_last_commit(checkpoint)
    run(frame, name, checkpoint)
    assert ids(spark, name) == [*range(12), 100]
    # others may have written meanwhile
    forget_last_commit(checkpoint)
    append(lake, name, 7)
    append(lake, source, 101)
    run(frame, name, checkpoint)
    assert ids(spark, name) == [0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11, 100, 101]
    summary = lake.table(name.removeprefix("lake.")).history[0].summary
    identity = json.loads((checkpoint / "metadata").read_text())["id"]
    assert (summary["spark.sql.streaming.queryId"], summary["spark.sql.streaming.epochId"]) == (identity, "2")


def test_another_query_writes_its_own_batches(spark: SparkSession, source: str, name: str, tmp_path: Path) -> None:
    run(spark.readStream.table(source), name, tmp_path / "one")
    run(spark.readStream.table(source), name, tmp_path / "two")
    assert ids(spark, name) == sorted([*range(12)] * 2)


def test_complete_mode_replaces_all_rows(
    spark: SparkSession, lake: Lake, source: str, name: str, checkpoint: Path
) -> None:
    def totals() -> list[tuple[Any, ...]]:
        counted = spark.readStream.table(source).groupBy((spark_col("id") % 2).alias("odd")).count()
        writer = counted.writeStream.outputMode("complete").option("checkpointLocation", str(checkpoint))
        batches(writer.trigger(availableNow=True).toTable(name))
        return sorted(tuple(row) for row in spark.table(name).collect())

    from pyspark.sql.functions import col as spark_col

    assert totals() == [(0, 6), (1, 6)]
    append(lake, source, 100)
    assert totals() == [(0, 7), (1, 6)]
    forget_last_commit(checkpoint)
    snapshots = len(lake.table(name.removeprefix("lake.")).snapshots)
    assert totals() == [(0, 7), (1, 6)]
    assert len(lake.table(name.removeprefix("lake.")).snapshots) == snapshots


def test_update_mode_is_refused_at_the_start(spark: SparkSession, source: str, name: str, checkpoint: Path) -> None:
    frame = spark.readStream.table(source)
    run(frame, name, checkpoint)
    writer = frame.writeStream.outputMode("update").option("checkpointLocation", f"{checkpoint}2")
    with pytest.raises(Unsupported, match="output mode update"):
        writer.toTable(name)


def test_streams_read_and_write_by_path(spark: SparkSession, source: str, tmp_path: Path) -> None:
    place = str(tmp_path / "plain" / "t")
    for path in (place, f"file:{place}"):  # made by the first, taken for the same by the second
        frame = spark.readStream.format("frazil").load(source).withColumn("part", spark_expr("id % 3"))
        writer = frame.writeStream.format("frazil").option("path", path).partitionBy("part")
        batches(writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start())
    table = frazil.open(place)
    assert table.scan().count() == 12
    assert [field.name for field in table.spec.fields] == ["part"]
    names = []
    query = (
        spark.readStream.format("iceberg")
        .load(place)
        .writeStream.foreachBatch(lambda rows, _number: names.extend(rows.select("word").collect()))
        .option("checkpointLocation", str(tmp_path / "ck2"))
        .trigger(availableNow=True)
        .start()
    )
    batches(query)
    assert len(names) == 12


@pytest.mark.parametrize("way", ["append", "table", "sql"])
def test_tables_are_used_inside_foreach_batch(
    spark: SparkSession, source: str, name: str, checkpoint: Path, way: str
) -> None:
    spark.sql(f"CREATE TABLE {name} (id BIGINT)")
    found = []

    def batch(rows: DataFrame, _number: int) -> None:
        if way == "append":
            rows.select("id").writeTo(name).append()
        elif way == "table":
            found.append(rows.join(rows.sparkSession.table(source), "id").count())
        else:
            found.append(rows.sparkSession.sql(f"SELECT count(*) FROM {source}").first()[0])

    stream = spark.readStream.option("streaming-max-files-per-micro-batch", "1").table(source)
    for _ in range(2):
        writer = stream.writeStream.foreachBatch(batch).option("checkpointLocation", str(checkpoint))
        batches(writer.trigger(availableNow=True).start())
    assert ids(spark, name) == ([*range(12)] if way == "append" else [])
    assert found == {"append": [], "table": [4, 4, 4], "sql": [12, 12, 12]}[way]


def test_a_listener_of_streams_reads_a_table(spark: SparkSession, source: str, name: str, checkpoint: Path) -> None:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    seen: list[Any] = []
    done = threading.Event()

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            try:
                seen.append(spark.table(source).count())
            except Exception as error:  # noqa: BLE001 - PySpark drops what a listener raises
                seen.append(error)

        def onQueryTerminated(self, event: Any) -> None:
            done.set()

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        assert run(spark.readStream.table(source), name, checkpoint) == [12]
        assert done.wait(30)
    finally:
        spark.streams.removeListener(listener)
    assert set(seen) == {12}


def spark_expr(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"streaming-max-files-per-micro-batch": "1"}, [4, 4, 4]),
        ({"streaming-max-files-per-micro-batch": "2"}, [8, 4]),
        ({"streaming-max-rows-per-micro-batch": "1"}, [4, 4, 4]),
        ({"streaming-max-rows-per-micro-batch": "11"}, [8, 4]),
        ({"streaming-max-rows-per-micro-batch": "100", "streaming-max-files-per-micro-batch": "2"}, [8, 4]),
    ],
)
def test_batches_have_the_size_that_was_asked_for(
    spark: SparkSession, source: str, name: str, checkpoint: Path, options: dict[str, str], expected: list[int]
) -> None:
    assert run(spark.readStream.options(**options).table(source), name, checkpoint) == expected
    assert ids(spark, name) == list(range(12))


def test_one_snapshot_can_be_several_batches(
    spark: SparkSession, lake: Lake, sql: Sql, name: str, checkpoint: Path
) -> None:
    sql(f"CREATE TABLE {name}_in (id BIGINT, part BIGINT) PARTITIONED BY (part)")
    sql(f"INSERT INTO {name}_in SELECT id, id % 3 FROM range(12)")
    frame = spark.readStream.option("streaming-max-files-per-micro-batch", "2").table(f"{name}_in")
    assert run(frame, name, checkpoint) == [8, 4]
    assert ids(spark, name) == list(range(12))


def test_a_stream_begins_where_it_is_told(
    spark: SparkSession, lake: Lake, source: str, name: str, tmp_path: Path
) -> None:
    second = lake.table(source.removeprefix("lake.")).history[1]
    for number, options in enumerate(
        (
            {"stream-from-timestamp": str(second.timestamp_ms)},
            {"stream-from-snapshot-id": str(second.snapshot_id)},
        )
    ):
        run(spark.readStream.options(**options).table(source), f"{name}_{number}", tmp_path / str(number))
        assert ids(spark, f"{name}_{number}") == list(range(4, 12))
    later = {"stream-from-timestamp": str(2**52)}
    assert run(spark.readStream.options(**later).table(source), f"{name}_later", tmp_path / "later") == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stream-from-timestamp": "soon"}, "stream-from-timestamp is 'soon'"),
        ({"streaming-max-files-per-micro-batch": "0"}, "streaming-max-files-per-micro-batch is 0"),
        ({"streaming-skip-delete-snapshots": "maybe"}, "streaming-skip-delete-snapshots is 'maybe'"),
        ({"stream-from-snapshot-id": "1", "stream-from-timestamp": "1"}, "both given"),
        ({"snapshot-id": "1"}, "snapshot-id chooses one snapshot"),
    ],
)
def test_bad_options_are_named(
    spark: SparkSession, source: str, name: str, checkpoint: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidArgument, match=said):
        run(spark.readStream.options(**options).table(source), name, checkpoint)


def test_a_snapshot_that_is_not_there_is_named(spark: SparkSession, source: str, name: str, checkpoint: Path) -> None:
    with pytest.raises(SnapshotNotFound, match="no snapshot 17"):
        run(spark.readStream.option("stream-from-snapshot-id", "17").table(source), name, checkpoint)


def test_deletes_and_overwrites_end_a_stream_unless_they_are_skipped(
    spark: SparkSession, lake: Lake, source: str, name: str, checkpoint: Path
) -> None:
    table = lake.table(source.removeprefix("lake."))
    frame = spark.readStream.table(source)
    run(frame, name, checkpoint)
    append(lake, source, 100)
    table.refresh().delete("id < 4")  # a whole file
    append(lake, source, 101)
    table.refresh().overwrite([{"id": 5, "word": "new"}], "id = 5")
    append(lake, source, 102)

    with pytest.raises(Unsupported, match=r"operation delete.*streaming-skip-delete-snapshots"):
        run(frame, name, checkpoint)
    assert ids(spark, name) == [*range(12), 100]  # what came before it was not lost
    skipping = spark.readStream.option("streaming-skip-delete-snapshots", "true")
    with pytest.raises(Unsupported, match=r"operation overwrite.*streaming-skip-overwrite-snapshots"):
        run(skipping.table(source), name, checkpoint)
    run(skipping.option("streaming-skip-overwrite-snapshots", "true").table(source), name, checkpoint)
    assert ids(spark, name) == [*range(12), 100, 101, 102]


def test_rewritten_files_are_no_news(spark: SparkSession, lake: Lake, source: str, name: str, checkpoint: Path) -> None:
    """Also in one batch with the rows that were rewritten: those are read where they were appended."""
    table = lake.table(source.removeprefix("lake."))
    old = [task.file for task in table.scan().plan().tasks()]
    new = RowWriter(table.metadata, table.store).write(table.scan().to_batches())
    table.new_rewrite().rewrite(old, new).commit()
    append(lake, source, 100)
    assert run(spark.readStream.table(source), name, checkpoint) == [13]
    assert ids(spark, name) == [*range(12), 100]


def test_a_stream_begins_with_all_rows_where_the_first_snapshots_have_expired(
    spark: SparkSession, lake: Lake, source: str, name: str, checkpoint: Path
) -> None:
    table = lake.table(source.removeprefix("lake."))
    table.expire_snapshots().retain_last(1).older_than(2**52).commit()
    append(lake, source, 100)
    limited = spark.readStream.option("streaming-max-files-per-micro-batch", "2").table(source)
    assert run(limited, name, checkpoint) == [8, 5]
    assert ids(spark, name) == [*range(12), 100]


def test_a_stream_whose_place_has_expired_says_so(
    spark: SparkSession, lake: Lake, source: str, name: str, checkpoint: Path
) -> None:
    frame = spark.readStream.table(source)
    run(frame, name, checkpoint)
    append(lake, source, 100)
    append(lake, source, 101)
    lake.table(source.removeprefix("lake.")).expire_snapshots().retain_last(1).older_than(2**52).commit()
    with pytest.raises(SnapshotNotFound, match="where the stream is"):
        run(frame, name, checkpoint)


def test_columns_are_followed_by_id(
    spark: SparkSession, lake: Lake, sql: Sql, source: str, name: str, checkpoint: Path
) -> None:
    run(spark.readStream.table(source), name, checkpoint)
    sql(f"ALTER TABLE {source} RENAME COLUMN word TO term")
    sql(f"ALTER TABLE {source} ADD COLUMN more INT")
    sql(f"INSERT INTO {source} VALUES (100, 'w100', 5)")
    started_before = spark.readStream.table(source)
    sql(f"ALTER TABLE {source} DROP COLUMN more")
    sql(f"INSERT INTO {source} VALUES (101, 'w101')")
    run(started_before.selectExpr("id", "term AS word"), name, checkpoint)
    assert [tuple(row) for row in spark.table(name).where("id >= 100").orderBy("id").collect()] == [
        (100, "w100"),
        (101, "w101"),
    ]


def test_a_stream_begins_on_an_empty_table_and_follows_a_branch(
    spark: SparkSession, lake: Lake, sql: Sql, name: str, tmp_path: Path
) -> None:
    sql(f"CREATE TABLE {name}_in (id BIGINT, word STRING)")
    frame = spark.readStream.table(f"{name}_in")
    assert run(frame, name, tmp_path / "main") == []
    append(lake, f"{name}_in", 1)
    sql(f"ALTER TABLE {name}_in CREATE BRANCH side")
    lake.table(f"{name}_in".removeprefix("lake.")).append([{"id": 2, "word": "x"}], branch="side")
    run(frame, name, tmp_path / "main")
    assert ids(spark, name) == [1]
    run(spark.readStream.option("branch", "side").table(f"{name}_in"), f"{name}_side", tmp_path / "side")
    assert ids(spark, f"{name}_side") == [1, 2]


def test_a_stream_writes_to_a_branch(
    spark: SparkSession, lake: Lake, sql: Sql, source: str, name: str, checkpoint: Path
) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT, word STRING)")
    sql(f"INSERT INTO {name} VALUES (1, 'a')")
    sql(f"ALTER TABLE {name} CREATE BRANCH side")
    run(spark.readStream.table(source), name, checkpoint, branch="side")
    forget_last_commit(checkpoint)
    run(spark.readStream.table(source), name, checkpoint, branch="side")
    table = lake.table(name.removeprefix("lake."))
    assert (table.scan().count(), table.scan(ref="side").count()) == (1, 13)


def test_a_stream_that_runs_takes_in_what_comes(
    spark: SparkSession, lake: Lake, source: str, name: str, checkpoint: Path
) -> None:
    writer = spark.readStream.table(source).where("id % 2 = 0").writeStream.trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", str(checkpoint)).toTable(name)
    try:
        query.processAllAvailable()
        assert ids(spark, name) == [0, 2, 4, 6, 8, 10]
        append(lake, source, 100, 101)
        query.processAllAvailable()
        assert ids(spark, name) == [0, 2, 4, 6, 8, 10, 100]
    finally:
        query.stop()


def test_rows_that_do_not_fit_end_the_stream(
    spark: SparkSession, sql: Sql, source: str, name: str, checkpoint: Path
) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT NOT NULL)")
    with pytest.raises(Exception, match="word"):
        run(spark.readStream.table(source), name, checkpoint)
    assert ids(spark, name) == []


def test_a_snapshot_of_a_table_is_no_stream(spark: SparkSession, lake: Lake, source: str) -> None:
    from pyspark.errors import AnalysisException

    first = lake.table(source.removeprefix("lake.")).history[-1].snapshot_id
    for name in (f"{source}.snapshot_id_{first}", f"{source}.snapshots"):
        with pytest.raises((AnalysisException, FrazilError), match=r"[Ss]tream|micro-batch"):
            spark.readStream.table(name).writeStream.format("noop").start()
