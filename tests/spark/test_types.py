"""Schemas as Spark's and back. No session is needed."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType as SparkStructType

from frazil.errors import InvalidSchema, Unsupported
from frazil.model.arrow import schema_from_anything
from frazil.model.schema import Schema
from frazil.model.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UuidType,
)
from frazil.spark.types import Dialect, default_sql, schema_from_struct, spark_struct, spark_type, type_from_spark

ALL = """
    a BOOLEAN, b INT NOT NULL, c BIGINT, d FLOAT, e DOUBLE, f DECIMAL(38, 10), g DATE, h TIMESTAMP, i TIMESTAMP_NTZ,
    j STRING COMMENT 'text', k BINARY, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, BIGINT>, n STRUCT<p: STRUCT<q: STRING>>,
    o VARIANT
"""


def test_every_common_type_goes_there_and_back():
    schema = schema_from_anything(ALL)
    document = spark_struct(schema)
    assert schema_from_struct(document) == schema
    # pyspark understands it, and says the same
    assert schema_from_struct(SparkStructType.fromJson(document).jsonValue()) == schema


def test_field_ids_are_put_on_all_levels_and_never_taken_back():
    schema = schema_from_anything("s STRUCT<x: INT>, l ARRAY<STRUCT<y: INT>>")
    document = spark_struct(schema, field_ids=True)
    assert document["fields"][0]["metadata"] == {"parquet.field.id": 1}
    assert document["fields"][0]["type"]["fields"][0]["metadata"] == {"parquet.field.id": schema.find("s.x").id}
    shuffled = {"type": "struct", "fields": list(reversed(document["fields"]))}
    assert [column.id for column in schema_from_struct(shuffled).fields] == [1, 2]


@pytest.mark.parametrize(
    ("text", "spark"),
    [("uuid", "string"), ("fixed[4]", "binary"), ("time", "time(6)"), ("timestamp_ns", "timestamp_ntz(9)")],
)
def test_types_that_spark_names_otherwise(text, spark):
    [column] = schema_from_anything(f"x {text}").fields
    assert spark_type(column.type) == spark


@pytest.mark.parametrize(
    ("spark", "text"),
    [
        ("time(6)", "time"),
        ("time(0)", "time"),
        ("timestamp_ntz(9)", "timestamp_ns"),
        ("timestamp_ntz(7)", "timestamp_ns"),
        ("timestamp_ltz(9)", "timestamptz_ns"),
        ("timestamp_ntz(6)", "timestamp"),
    ],
)
def test_times_are_taken_with_the_digits_that_spark_says(spark, text):
    assert str(type_from_spark(spark)) == text


@pytest.mark.parametrize("text", ["time", "timestamp_ns", "timestamptz_ns", "geometry", "geography"])
def test_types_that_an_old_spark_lacks_are_refused_by_name(text):
    schema = schema_from_anything(f"s STRUCT<x: {text}>")
    with pytest.raises(Unsupported, match=r"'s\.x'"):
        spark_struct(schema, dialect=Dialect.of_version("4.0.1"))


def test_edges_that_no_spark_knows_are_refused():
    with pytest.raises(Unsupported, match="karney"):
        spark_type(GeographyType("OGC:CRS84", "karney"))


@pytest.mark.parametrize("kind", ["interval day to second", "calendar_interval"])
def test_types_that_tables_cannot_hold_are_refused_by_name(kind):
    inner = {"type": "struct", "fields": [{"name": "x", "type": kind, "nullable": True, "metadata": {}}]}
    with pytest.raises(InvalidSchema, match=r"'s\.x'"):
        schema_from_struct({"type": "struct", "fields": [{"name": "s", "type": inner, "nullable": True}]})


def test_comments_and_nullability_are_kept():
    schema = schema_from_anything("id BIGINT NOT NULL COMMENT 'key', s STRUCT<x: INT COMMENT 'inner'>")
    document = spark_struct(schema)
    assert document["fields"][0] == {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "key"}}
    assert schema_from_struct(document).find("s.x").doc == "inner"


def test_defaults_are_told_as_sql():
    column = NestedField(1, "n", LongType(), initial_default=5, write_default=7)
    metadata = spark_struct(Schema((column,)))["fields"][0]["metadata"]
    assert metadata == {"CURRENT_DEFAULT": "7", "EXISTS_DEFAULT": "5"}
    unset = NestedField(1, "n", LongType(), initial_default=5)
    assert spark_struct(Schema((unset,)))["fields"][0]["metadata"]["CURRENT_DEFAULT"] == "NULL"


def test_a_type_alone_has_no_ids():
    found = type_from_spark({"type": "array", "elementType": "long", "containsNull": False})
    assert found == ListType(NestedField(0, "element", LongType(), required=True))


@given(st.text())
def test_any_name_survives(name):
    if not name:
        return
    schema = Schema((NestedField(1, name, StringType()),))
    assert schema_from_struct(json.loads(json.dumps(spark_struct(schema)))) == schema


_DEFAULTS = [
    (StringType(), "it's \\ a \n 'test' \"q\" é"),
    (LongType(), -(2**63)),
    (DoubleType(), float("inf")),
    (DoubleType(), -1e-300),
    (FloatType(), 1.5),
    (DecimalType(38, 10), Decimal("-1234567890.0123456789")),
    (DateType(), -1),
    (TimestampType(), -1),
    (TimestamptzType(), 1_700_000_000_123_456),
    (BinaryType(), b"\x00'\xff"),
    (UuidType(), bytes(range(16))),
]


@pytest.mark.parametrize(("type_", "value"), _DEFAULTS, ids=lambda one: str(one)[:20])
def test_spark_reads_a_default_as_the_value_it_was(spark, lake, type_, value):
    from frazil.spark.attach import bridge_of
    from frazil.spark.defaults import default_value

    assert default_value(bridge_of(spark), "x", default_sql(type_, value), type_) == value
