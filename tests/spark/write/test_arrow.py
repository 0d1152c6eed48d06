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
    assert kernel == {"u": uuid.UUID(key), "f": b"\x01\x02\x03"}
    assert sorted(file.partition[0] is None for file in files()) == [False, True]


def test_nanoseconds_are_kept(spark, sql, lake, name, table, files):
    if spark.version < "4.3":
        pytest.skip("this Spark has no nanoseconds")
    lake.create_table(
        name.removeprefix("lake."),
        "ns TIMESTAMP_NS, tz TIMESTAMPTZ_NS, id BIGINT",
        partition_by=["day(ns)"],
        format_version=3,
    )
    sql(
        f"INSERT INTO {name} VALUES (CAST('2024-02-29 23:59:59.123456789' AS TIMESTAMP_NTZ(9)),"
        " CAST('1969-12-31 23:59:59.999999999Z' AS TIMESTAMP_LTZ(9)), 1L), (null, null, 2L)"
    )
    found = table().scan("id = 1").to_arrow()
    assert found["ns"].cast("int64").to_pylist() == [1_709_251_199_123_456_789]
    assert found["tz"].cast("int64").to_pylist() == [-1]
    assert {file.partition for file in files()} == {(19782,), (None,)}


def test_geometries_are_kept(spark, sql, lake, name, table):
    if spark.version < "4.1":
        pytest.skip("this Spark has no geometries")
    lake.create_table(
        name.removeprefix("lake."), "id BIGINT, g GEOMETRY, many ARRAY<STRUCT<g: GEOMETRY>>", format_version=3
    )
    point = "ST_GeomFromWKB(X'0101000000000000000000F03F0000000000000040')"
    wkb = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    point = f"ST_SetSrid({point}, 4326)"
    sql(f"INSERT INTO {name} SELECT 1L, {point}, array(named_struct('g', {point})) UNION ALL SELECT 2L, null, null")
    found = table().scan("id = 1").to_arrow().to_pylist()
    assert found == [{"id": 1, "g": wkb, "many": [{"g": wkb}]}]
    assert sql(f"SELECT id, hex(ST_AsBinary(g)) FROM {name} ORDER BY id") == [(1, wkb.hex().upper()), (2, None)]


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
