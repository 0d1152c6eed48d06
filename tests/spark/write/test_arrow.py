"""Files that Python workers write: other formats, and types that Spark's writer does not write as tables need them."""

from __future__ import annotations

import uuid

import pytest

from tests.spark.write.disk import parquet


@pytest.mark.parametrize("file_format", ["orc", "avro", "parquet"])
def test_formats_by_table_property(spark, sql, name, table, files, metrics, on_disk, file_format):
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, s STRING, a ARRAY<STRUCT<x: INT>>, m MAP<STRING, DOUBLE>)"
        f" PARTITIONED BY (bucket(3, id)) TBLPROPERTIES ('write.format.default' = '{file_format}')"
    )
    rows = spark.range(0, 1000, 1, 4).selectExpr(
        "id", "cast(id as string) AS s", "array(named_struct('x', int(id))) AS a", "map('k', double(id)) AS m"
    )
    rows.writeTo(name).append()
    assert {file.file_format for file in files()} == {file_format}
    assert sorted(file.partition[0] for file in files()) == [0, 1, 2]
    assert sorted(row[0] for row in sql(f"SELECT id FROM {name}")) == list(range(1000))
    assert sql(f"SELECT a, m FROM {name} WHERE id = 7")[0] == ([(7,)], {"k": 7.0})
    assert len(on_disk()) == 3
    assert all(row["null_value_counts"].get(1) == 0 for row in metrics())
    if file_format == "parquet":
        kind = parquet(files()[0]).schema_arrow.field("a").type.value_field
        assert b"PARQUET:field_id" in kind.metadata


def test_types_that_spark_holds_as_others(spark, sql, lake, name, table, files):
    if spark.version < "4.3":
        pytest.skip("this Spark has not all of these types")
    short = name.removeprefix("lake.")
    lake.create_table(
        short,
        "u UUID, f FIXED(3), t TIME, ns TIMESTAMP_NS, v VARIANT, id BIGINT",
        partition_by=["bucket(4, u)"],
        format_version=3,
    )
    key = str(uuid.UUID(int=77))
    sql(
        f"INSERT INTO {name} SELECT '{key}', X'010203', TIME'12:34:56.789012', null,"
        " parse_json('{\"a\": 1}'), 1L UNION ALL SELECT null, null, null, null, null, 2L"
    )
    found = sql(f"SELECT u, f, t, v:a::int, id FROM {name} ORDER BY id")
    assert found[0][0] == key
    assert bytes(found[0][1]) == b"\x01\x02\x03"
    assert found[0][3:] == (1, 1)
    assert found[0][2].isoformat() == "12:34:56.789012"
    [kernel] = table().scan("id = 1").to_arrow().select(["u", "f"]).to_pylist()
    assert uuid.UUID(bytes=bytes(kernel["u"])) if isinstance(kernel["u"], bytes) else str(kernel["u"]) == key
    assert sorted(file.partition[0] is None for file in files()) == [False, True]


def test_a_value_that_does_not_fit_is_refused_by_name(spark, sql, lake, name, on_disk):
    lake.create_table(name.removeprefix("lake."), "id BIGINT, f FIXED(3)")
    with pytest.raises(Exception, match="column 'f'"):
        sql(f"INSERT INTO {name} VALUES (1L, X'01')")
    assert on_disk() == []


def test_a_sorted_table_is_sorted_by_workers_too(spark, name, table, files):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, a ARRAY<INT>)")
    spark.sql(f"ALTER TABLE {name} WRITE ORDERED BY id DESC")
    spark.range(0, 10_000, 1, 2).selectExpr("(id * 7919) % 10000 AS id", "array(1) AS a").writeTo(name).append()
    for file in files():
        ids = parquet(file).read().column("id").to_pylist()
        assert ids == sorted(ids, reverse=True)
        assert file.sort_order_id == table().sort_order.order_id


def test_a_retried_task_adds_its_rows_once(spark, sql, name, lake, on_disk, files, tmp_path, monkeypatch):
    """The first attempt of a task writes its file and then dies; the answer of the second is the one that counts."""
    from frazil.spark.catalog import current
    from frazil.spark.write.arrow import WriteRows
    from frazil.spark.write.job import Job
    from frazil.spark.write.settings import settings_of

    spark.sql(f"CREATE TABLE {name} (id BIGINT, a ARRAY<INT>)")
    table = lake.table(name.removeprefix("lake."))
    settings = settings_of(current(table), {}, lambda _: None)
    job = Job.start(spark, table.store, table.metadata, table.schema, settings)
    writer = WriteRows(job.store, job.for_workers(), job.schema, settings.target_bytes)
    rows = spark.range(10).selectExpr("id", "array(1) AS a").toArrow().to_batches()
    lost, kept = writer.write(rows), writer.write(rows)
    assert {file.file_path for file in lost}.isdisjoint(file.file_path for file in kept)
    job.clear(keep=frozenset(file.file_path for file in kept))
    assert len(on_disk()) == len(kept)
