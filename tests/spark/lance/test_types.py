"""Columns of every type that Lance has: as Spark holds them, and back."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest

from frazil.errors import InvalidValue, Unsupported
from tests.lance.samples import every_type

lance = pytest.importorskip("lance")

EXACT = ("b", "i32", "i64", "f32", "f64", "s", "ls", "bin", "lbin", "fsb", "d128", "date", "ts_us")
WIDENED = ("i8", "i16", "u8", "u16", "u32", "f16", "fsl", "fsl_i8", "fsl_fsl", "list", "large_list", "list_struct")


@pytest.fixture(scope="module")
def every(spark, lake):
    """A table of pylance's with a column of every type that this Spark has."""
    times = [] if spark.version >= "4.1" else ["t32", "t64"]
    rows = every_type("2.2").drop_columns(["ts_tz", *times])  # PySpark has no type with nanoseconds
    lance.write_dataset(rows, f"{lake.catalog.warehouse}/db/every.lance")
    return rows, lake.catalog.warehouse + "/db/every.lance"


def test_what_spark_gets_is_what_was_written(spark, every):
    rows, place = every
    frame = spark.read.format("frazil").load(place)
    assert frame.columns == rows.schema.names
    found = frame.drop("t64").toArrow()
    for name in (*EXACT, *WIDENED, "dict", "struct", "map"):
        if name in rows.schema.names:
            assert found[name].to_pylist() == rows[name].to_pylist(), name
    assert frame.schema["u64"].dataType.simpleString() == "decimal(20,0)"
    assert found["u64"].to_pylist() == [decimal.Decimal(1), None, decimal.Decimal(2**64 - 1)]
    assert found["dur"].to_pylist() == [1, None, 2]
    assert frame.schema["f16"].dataType.simpleString() == "float"
    if "t64" in frame.columns:  # Spark counts no nanoseconds of a day
        with pytest.raises(InvalidValue, match="would lose data"):
            frame.select("t64").collect()


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("u64 = 18446744073709551615", 1),
        ("f16 >= 2", 2),
        ("dur > 1", 1),
        ("dict = 'x'", 2),
        ("d256 = '1.50'", 3),
        ("date64 = DATE '1970-01-02'", 1),
        ("i8 < 0", 1),
        ("ts_s > TIMESTAMP_NTZ '1970-01-01 00:00:01'", 1),
        ("struct.y.z = 'c'", 1),
        ("fsl[0] = 1.0", 3),
        ("uuid IS NULL", 1),
        ("array_contains(list, 1)", 1),
    ],
)
def test_filters_on_types_that_spark_lacks(spark, every, where, count):
    frame = spark.read.format("frazil").load(every[1])
    assert frame.where(where).count() == count
    assert frame.where(f"NOT ({where})").count() + count + frame.where(f"({where}) IS NULL").count() == 3


def test_rows_copied_by_spark_are_the_rows(spark, lake, every):
    """Read, written back into a table of the same exact types, and read by pylance."""
    rows, place = every
    kept = rows.drop_columns([name for name in ("null", "t32", "t64") if name in rows.schema.names])
    table = lake.create_table("db.copied", kept.schema, format="lance")
    frame = spark.read.format("frazil").load(place).select(*kept.schema.names)
    frame.writeTo("lake.db.copied").append()
    found = lance.dataset(table.location).to_table()
    assert found.schema == kept.schema
    assert found == kept


def test_vectors(spark, lake, name, dataset):
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, v ARRAY<FLOAT>) USING lance"
        " TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '3')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, array(1.0, 2.0, 3.0)), (2, NULL)")
    found = dataset(name).to_table()
    assert found.schema.field("v").type == pa.list_(pa.float32(), 3)
    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [{"id": 1, "v": [1, 2, 3]}, {"id": 2, "v": None}]
    with pytest.raises(InvalidValue, match="vectors of 3 values"):
        spark.sql(f"INSERT INTO {name} VALUES (3, array(1.0))")
    assert spark.table(name).count() == 2
    assert len(dataset(name).get_fragments()) == len(
        list((lake.table(name[5:]).store).list(f"{dataset(name).uri}/data"))
    )


def test_nanoseconds_where_spark_has_them(spark, lake, name):
    table = lake.create_table(name[5:], pa.schema({"t": pa.timestamp("ns", "Europe/Paris")}), format="lance")
    table.append(pa.table({"t": pa.array([1, None, 2_000_000_003], table.arrow_schema.field("t").type)}))
    if spark.version < "4.3":
        with pytest.raises(Unsupported, match="'t'"):
            spark.table(name)
    else:
        found = spark.sql(f"SELECT cast(t AS STRING) FROM {name} ORDER BY t").collect()
        assert [row[0] for row in found] == [None, "1970-01-01 00:00:00.000000001", "1970-01-01 00:00:02.000000003"]
