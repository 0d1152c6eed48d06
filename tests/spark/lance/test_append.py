"""`table.append(df)`: the rows of a DataFrame are written by workers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.errors import FrazilError, InvalidArgument
from frazil.lance.write import FragmentWriter

lance = pytest.importorskip("lance")


@pytest.fixture
def not_here(monkeypatch):
    """No data file is written, and no rows are gathered, in this process."""

    def refuse(*_args, **_options):
        raise AssertionError("rows came to the driver")

    monkeypatch.setattr(FragmentWriter, "write", refuse)


@pytest.mark.smoke
def test_rows_are_written_by_workers(spark, lake, name, dataset, not_here):
    schema = pa.schema([("id", pa.int64()), ("word", pa.string()), ("v", pa.list_(pa.float32(), 2))])
    table = lake.create_table(name[5:], schema, format="lance")
    rows = spark.range(0, 100, 1, 4).selectExpr("array(float(id), 1f) AS v", "id")  # by name; what is absent is null
    made = table.append(rows, snapshot_properties={"who": "me"})
    assert (made.version, table.version) == (2, 2)
    found = dataset(name)
    assert found.count_rows() == 100
    assert len(found.get_fragments()) == 4
    assert found.to_table(filter="id = 7").to_pylist() == [{"id": 7, "word": None, "v": [7.0, 1.0]}]
    assert found.read_transaction(2).transaction_properties["who"] == "me"
    table.overwrite(rows.where("id < 3"))
    assert sorted(dataset(name).to_table()["id"].to_pylist()) == [0, 1, 2]


def test_rows_that_do_not_fit(spark, lake, name):
    table = lake.create_table(
        name[5:], pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 2))]), format="lance"
    )
    with pytest.raises(InvalidArgument, match="no column 'other'"):
        table.append(spark.range(3).selectExpr("id", "id AS other"))
    with pytest.raises(FrazilError, match="vectors of 2 values"):
        table.append(spark.range(3).selectExpr("id", "array(1f) AS v"))
    assert table.refresh().version == 1
    assert list(table.store.list(f"{table.location}/data")) == []


def test_a_large_fragment_is_read_in_parts(spark, lake, name, monkeypatch):
    """One fragment, by several tasks: each has its rows, whatever was deleted, and whatever is asked for."""
    from frazil.spark.lance import scan

    monkeypatch.setattr(scan, "PART_ROWS", 1000)
    rows = pa.table({"id": pa.array(range(10_000)), "word": pa.array([f"w{n % 13}" for n in range(10_000)])})
    table = lake.create_table(name[5:], rows.schema, format="lance")
    table.append(rows)
    table.delete("id IN (0, 2499, 5000, 9999)")
    table.add_columns({"twice": "id * 2"})
    assert len(table.current_snapshot.manifest.fragments) == 1
    frame = spark.table(name)
    parts = frame.selectExpr("spark_partition_id() AS part", "id").groupBy("part").count().collect()
    assert len(parts) > 1
    assert sum(row["count"] for row in parts) == 9996
    left = set(range(10_000)) - {0, 2499, 5000, 9999}
    assert {row.id for row in frame.select("id").collect()} == left
    assert {row.id for row in frame.where("word = 'w3'").select("id").collect()} == {n for n in left if n % 13 == 3}
    assert [tuple(row) for row in frame.where("id = 5001").select("twice", "_pos", "_rowoffset").collect()] == [
        (10_002, 5001, 4998)
    ]
    spark.sql(f"DELETE FROM {name} WHERE word = 'w3'")
    assert lance.dataset(table.location).count_rows() == sum(n % 13 != 3 for n in left)
