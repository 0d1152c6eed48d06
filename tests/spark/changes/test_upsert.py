"""table.upsert: rows in the place of those with the same keys, by equality deletes; in this process and on Spark."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlparse

import pyarrow as pa
import pytest

from frazil.errors import CommitConflict, InvalidArgument, InvalidValue, Unsupported
from frazil.iceberg.data_file import Content
from frazil.iceberg.write import RowWriter
from frazil.model.conform import conform

COLUMNS = "id BIGINT, day STRING, v DOUBLE"
_ARROW = pa.schema({"id": pa.int64(), "day": pa.string(), "v": pa.float64()})


@pytest.fixture(params=["frame", "arrow"])
def put(spark, request):
    """Upsert rows (id, day, v), by Spark or in this process."""

    def upsert(table, rows, keys=("id",), **more):
        given = pa.Table.from_pylist([dict(zip(_ARROW.names, row, strict=True)) for row in rows], _ARROW)
        return table.upsert(spark.createDataFrame(given) if request.param == "frame" else given, keys, **more)

    return upsert


@pytest.fixture
def made(lake, name):
    def make(version=3, partition_by=(), **more):
        return lake.create_table(
            name.removeprefix("lake."), COLUMNS, partition_by=list(partition_by), format_version=version, **more
        )

    return make


def rows(spark, table):
    """All rows, which every way of reading must agree about."""
    found = sorted((tuple(row.values()) for row in table.scan().to_arrow().to_pylist()), key=str)
    for way in ("native", "arrow"):
        frame = spark.read.option("frazil.scan", way).table(f"lake.{table.identifier}")
        assert sorted(map(tuple, frame.collect()), key=str) == found
    return found


def files_of(table):
    return {path for path in Path(urlparse(table.location).path).rglob("*") if path.suffix == ".parquet"}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partition_by", [(), ("bucket(3, id)",)], ids=str)
def test_rows_of_the_same_key_are_replaced(spark, made, put, version, partition_by):
    table = made(version, partition_by)
    first = put(table, [(n, "a", 1.0) for n in range(6)])
    assert (first.rows_inserted, first.delete_files_added) == (6, 0)  # there was nothing to delete
    done = put(table, [(4, "b", 2.0), (5, "b", 2.0), (6, "b", 2.0)])
    assert done.delete_files_added > 0
    put(table, [(6, "c", 3.0)])
    assert rows(spark, table) == [*((n, "a", 1.0) for n in range(4)), (4, "b", 2.0), (5, "b", 2.0), (6, "c", 3.0)]
    kinds = set(table.inspect("delete_files")["content"].to_pylist())
    assert kinds == {int(Content.EQUALITY_DELETES)}


def test_null_is_a_key_like_others(spark, made, put):
    table = made()
    for v in (1.0, 2.0):
        put(table, [(None, "a", v), (1, None, v)], keys=("id", "day"))
    assert rows(spark, table) == [(1, None, 2.0), (None, "a", 2.0)]


def test_keys_are_the_identifier_fields(spark, made, put):
    table = made()
    table.update_schema().allow_incompatible_changes().require_column("id").set_identifier_fields(["id"]).commit()
    put(table, [(1, "a", 1.0)], keys=None)
    put(table, [(1, "a", 2.0)], keys=None)
    assert rows(spark, table) == [(1, "a", 2.0)]


def test_on_a_branch_with_properties(spark, made, put):
    table = made()
    put(table, [(1, "a", 1.0)])
    table.manage_refs().create_branch("b").commit()
    done = put(table, [(1, "a", 2.0)], branch="b", snapshot_properties={"batch": "7"})
    assert done.snapshot.summary["batch"] == "7"
    assert rows(spark, table) == [(1, "a", 1.0)]
    assert table.scan(ref="b", columns=["v"]).to_arrow().to_pylist() == [{"v": 2.0}]


def test_several_rows_of_one_key_are_refused(spark, made, put):
    table = made()
    put(table, [(1, "a", 1.0)])
    before = files_of(table)
    with pytest.raises(InvalidValue, match=r"key id = 2"):
        put(table, [(1, "a", 1.0), (2, "a", 1.0), (2, "b", 1.0)])
    assert files_of(table) == before
    assert rows(spark, table) == [(1, "a", 1.0)]


def test_what_cannot_be_upserted(made, put, lake, name):
    table = made(partition_by=["day"])
    with pytest.raises(Unsupported, match="partitioned by 'day'"):
        put(table, [(1, "a", 1.0)])
    with pytest.raises(InvalidArgument, match="no key columns"):
        put(table, [(1, "a", 1.0)], keys=None)
    with pytest.raises(InvalidArgument, match="nope"):
        put(table, [(1, "a", 1.0)], keys=["nope"])
    with pytest.raises(InvalidArgument, match="'v'"):
        put(table, [(1, "a", 1.0)], keys=["day", "v"])
    old = lake.create_table(f"{name.removeprefix('lake.')}_v1", COLUMNS, format_version=1)
    with pytest.raises(Unsupported, match="version 1"):
        put(old, [(1, "a", 1.0)])


def test_a_stream_of_upserts(spark, made, tmp_path):
    from pyspark.sql import functions

    table = made()
    for number in range(3):
        batch = pa.Table.from_pylist([{"id": n, "day": "d", "v": float(number)} for n in range(number, number + 3)])
        spark.createDataFrame(batch).write.mode("append").parquet(str(tmp_path / "in"))
    source = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    newest = source.groupBy("id").agg(functions.max("day").alias("day"), functions.max("v").alias("v"))

    def upsert(frame, number):
        table.upsert(frame, ["id"], snapshot_properties={"batch": str(number)})

    query = (
        newest.writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(upsert)
        .start()
    )
    query.awaitTermination()
    assert rows(spark, table) == [(n, "d", float(min(n, 2))) for n in range(5)]


@pytest.mark.parametrize("version", [2, 3])
def test_two_upserts_of_an_empty_table_do_not_both_commit(lake, made, put, version):
    """The first has no keys to delete, as far as it knows."""
    table = made(version)
    other = lake.table(table.identifier)
    put(other, [(1, "a", 1.0)])
    with pytest.raises(CommitConflict):
        put(table, [(1, "b", 2.0)])
    assert table.refresh().scan().to_arrow().to_pylist() == [{"id": 1, "day": "a", "v": 1.0}]


def test_rows_of_a_branch_are_replaced_though_main_is_empty(made, put):
    table = made()
    files = RowWriter(table.metadata, table.store).write(conform([{"id": 1, "day": "a", "v": 1.0}], table.schema))
    table.new_append().append_files(files).to_branch("dev").commit()
    put(table, [(1, "b", 2.0)], branch="dev")
    assert table.scan(ref="dev").to_arrow().to_pylist() == [{"id": 1, "day": "b", "v": 2.0}]


def test_a_key_within_a_struct(spark, lake, name):
    columns = "st STRUCT<b: INT, a: STRING>, v INT"
    table = lake.create_table(name.removeprefix("lake."), columns, format_version=2)
    table.append([{"st": {"b": 1, "a": "x"}, "v": 1}, {"st": {"b": 1, "a": "y"}, "v": 2}, {"st": None, "v": 3}])
    table.upsert(spark.createDataFrame([((9, "x"), 4), ((9, None), 5)], columns), ["st.a"])
    read = spark.table(f"lake.{table.identifier}").selectExpr("st.b", "st.a", "v").orderBy("v").collect()
    assert list(map(tuple, read)) == [(1, "y", 2), (9, "x", 4), (9, None, 5)]
    assert sorted(row["v"] for row in table.scan().to_arrow().to_pylist()) == [2, 4, 5]
    with pytest.raises(InvalidValue, match=r"key st\.a = None"):
        table.upsert(spark.createDataFrame([(None, 4), ((9, None), 5)], columns), ["st.a"])


def test_a_key_that_is_a_uuid(spark, lake, name):
    from uuid import UUID

    table = lake.create_table(name.removeprefix("lake."), "u UUID, v INT", format_version=2)
    one, two = str(UUID(int=1)), str(UUID(int=2))
    table.append([{"u": UUID(one), "v": 1}, {"u": UUID(two), "v": 2}])
    table.upsert(spark.createDataFrame([(one, 3)], "u STRING, v INT"), ["u"])
    assert list(map(tuple, spark.table(f"lake.{table.identifier}").orderBy("v").collect())) == [(two, 2), (one, 3)]


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_were_replaced_do_not_count_when_their_file_goes(spark, made, put, version):
    table = made(version)
    put(table, [(1, "a", 1.0), (2, "a", 1.0)])
    put(table, [(1, "a", 2.0)])
    table.convert_equality_deletes()
    done = table.delete("id < 100", spark=spark)
    assert (done.rows_deleted, done.data_files_added) == (2, 0)
    assert rows(spark, table) == []


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("how", ["sql", "python", "here"])
def test_whole_files_go_unread_though_equality_deletes_apply(spark, made, version, how):
    table = made(version, ("bucket(2, id)", "day"))
    for last, v in ((5, 1.0), (2, 2.0)):
        table.upsert([{"id": n, "day": "a", "v": v} for n in range(last + 1)], ["id", "day"])
    table.append([{"id": 7, "day": "b", "v": 1.0}])
    lost = [path for path in files_of(table) if "day=a" in path.parts]
    assert len(lost) > 2
    for path in lost:
        path.unlink()
    if how == "sql":
        spark.sql(f"DELETE FROM lake.{table.identifier} WHERE day = 'a'")
    else:
        done = table.delete("day = 'a'", spark=spark if how == "python" else None)
        assert (done.rows_deleted, done.data_files_added) == (None, 0)
    assert table.refresh().current_snapshot.summary["deleted-records"] == "9"
    assert rows(spark, table) == [(7, "b", 1.0)]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("before", [("bucket(4, id)",), (), ("id",)], ids=str)
def test_upserts_go_on_after_a_change_of_partitioning(spark, made, put, version, before):
    table = made(version, before)
    wanted = {}

    def check(day, v, *ids):
        put(table, [(n, day, v) for n in ids])
        wanted.update({n: (n, day, v) for n in ids})
        assert rows(spark, table) == sorted(wanted.values())

    check("a", 1.0, *range(6))
    change = table.update_spec()
    for field in table.spec.fields:
        change.remove_field(field.name)
    change.add_field("bucket(8, id)").commit()
    check("b", 2.0, 4, 5, 6)
    check("c", 3.0, 0, 4, 6, 7)
    specs = {file["spec_id"] for file in table.inspect("delete_files").to_pylist()}
    assert specs == ({0, 1} if before else {0})


def test_the_hint_about_files_of_an_older_partitioning_can_be_followed(spark, made, put):
    table = made(partition_by=["day"])
    table.append([{"id": 1, "day": "a", "v": 1.0}])
    table.update_spec().remove_field("day").add_field("bucket(8, id)").commit()
    with pytest.raises(Unsupported, match=r"partitioned by 'day'.*rewrite_data_files"):
        put(table, [(1, "b", 2.0)])
    spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table.identifier}', options => map('rewrite-all', 'true'))"
    )
    table.refresh()
    put(table, [(1, "b", 2.0)])
    assert rows(spark, table) == [(1, "b", 2.0)]
