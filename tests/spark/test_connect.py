"""Spark Connect: tables are read by the server's Python workers; a catalog cannot be attached, and that is said."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import frazil
from frazil.errors import Unsupported
from frazil.spark.frame import table_frame
from tests.spark.programs import run

_PROGRAM = """
import sys
import frazil
from frazil.errors import Unsupported
from frazil.spark.session import find_java
find_java()
from pyspark.sql import SparkSession
from tests.iceberg.test_goldens import golden
from tests.spark.scan.golden_rows import columns_spark_lacks, counted, rows_in_process

spark = SparkSession.builder.remote("local[2]").config("spark.sql.timeType.enabled", "true").getOrCreate()
lake = frazil.connect(sys.argv[1])
try:
    lake.attach(spark)
except Unsupported as error:
    assert "to_spark" in str(error), error
    print("refused")

table = lake.table("db.t")
assert [row.n for row in table.to_spark(spark).groupBy().count().withColumnRenamed("count", "n").collect()] == [100]
some = table.to_spark(spark, where="id >= 90 AND what = 'even'", columns=["id", "_pos", "ts"])
assert some.columns == ["id", "_pos", "ts"]
assert sorted(row.id for row in some.collect()) == [90, 92, 94, 96, 98]
assert table.to_spark(spark, version=int(sys.argv[2])).count() == 50
print("read", table.to_spark(spark).join(spark.range(10), "id").count())

for case in ("eq_and_pos_deletes", "dv_history", "types_parquet", "nested_avro"):
    known = golden(case)[0]
    lacking = columns_spark_lacks(spark.version, known.schema)
    held = [column for column in known.schema.columns if column not in lacking]
    found = known.to_spark(spark, columns=held).toArrow()
    assert counted(found, found.num_rows) == rows_in_process(known.scan(columns=held)), case
    print("golden", case)

vectors = lake.table("db.vectors").to_spark(spark, where="id < 5", columns=["id", "v"]).collect()
assert sorted((row.id, row.v) for row in vectors) == [(id, [id, id]) for id in range(5)], vectors
print("lance", lake.table("db.vectors").to_spark(spark, version=1).count())
more = spark.range(100, 140, 1, 2).selectExpr("array(float(id), 0f) AS v", "id")
assert lake.table("db.vectors").append(more, snapshot_properties={"who": "me"}).version == 3
assert lake.table("db.vectors").scan("id = 139").to_arrow().to_pylist() == [{"id": 139, "v": [139.0, 0.0]}]
done = lake.convert_table("db.vectors", "iceberg", spark=spark)
print("converted", done.format, done.rows)

keyed = lake.table("db.keyed")
assert sorted(tuple(row) for row in keyed.to_spark(spark, where="id < 4").collect()) == [(0, "a"), (1, "b"), (3, "a")]
print("mixed", keyed.to_spark(spark, columns=["name"]).count(), keyed.to_spark(spark, version=int(sys.argv[3])).count())

sent = spark.range(200, 203).selectExpr("id", "timestamp_ntz'2026-11-03 00:00:00' AS ts", "'sent' AS what")
table.append(sent.toArrow())
print("appended", table.to_spark(spark, where="what = 'sent'").count())
spark.stop()
"""


def test_a_session_of_spark_connect_reads_tables(tmp_path):
    pytest.importorskip("grpc")
    lake = frazil.connect(tmp_path)
    table = lake.create_table("db.t", "id BIGINT, ts TIMESTAMP_NTZ, what STRING", partition_by=["what"])
    for start in (0, 50):
        numbers = range(start, start + 50)
        whats = ["odd" if number % 2 else "even" for number in numbers]
        times = [dt.datetime(2026, 11, 1) + dt.timedelta(hours=number) for number in numbers]
        table.append(pa.table({"id": list(numbers), "ts": times, "what": whats}))
    rows = pa.table({"id": range(9), "v": pa.array([[n, n] for n in range(9)], pa.list_(pa.float32(), 2))})
    lake.create_table("db.vectors", rows.schema, format="lance").append(rows)
    first = min(table.history, key=lambda one: one.sequence_number)
    keyed = lake.create_table("db.keyed", "id BIGINT, name STRING", format="mixed", primary_key=["id"])
    keyed.overwrite([{"id": number, "name": "a"} for number in range(9)])
    before = keyed.base_store.snapshots[-1].snapshot_id
    keyed.upsert([{"id": 1, "name": "b"}])
    keyed.delete("id = 2")
    told = run(_PROGRAM, str(tmp_path), str(first.snapshot_id), str(before))
    lines = ("refused", "read 10", "golden types_parquet", "lance 0", "converted iceberg 49", "mixed 8 9", "appended 3")
    for line in lines:
        assert line in told.splitlines(), told


def test_a_table_in_this_process_cannot_go_to_a_server():
    class Session:
        version = "4.3.0"

    table = frazil.connect("memory:").create_table("db.t", "id INT")
    with pytest.raises(Unsupported, match="createDataFrame"):
        table_frame(table, Session())
