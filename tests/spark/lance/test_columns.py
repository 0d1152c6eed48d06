"""Columns of Lance tables on Spark: those of a DataFrame, and earlier versions read with later columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.errors import CommitConflict, InvalidArgument


@pytest.mark.parametrize("by", ["_rowaddr", "_rowid"])
@pytest.mark.parametrize("stable", ["false", "true"])
def test_the_columns_of_a_dataframe_come_to_their_rows(spark, lake, name, dataset, by, stable):
    plain = name.removeprefix("lake.")
    table = lake.create_table(
        plain, "id BIGINT, word STRING", format="lance", properties={"enable_stable_row_ids": stable}
    )
    for start in (0, 25, 50, 75):
        table.append([{"id": n, "word": f"w{n}"} for n in range(start, start + 25)])
    table.update({"word": "'moved'"}, "id IN (1, 60)")
    table.delete("id IN (3, 30, 31) OR (id >= 50 AND id < 75)")
    read = table.to_spark(spark, columns=[by, "id"])
    made = read.where("id % 3 <> 0").selectExpr(by, "id * 10 AS tens", "array(float(id), 1.5F) AS v", "struct(id) AS s")
    table.add_columns(made.orderBy("tens", ascending=False))
    found = table.scan().to_arrow()
    assert found.column_names == ["id", "word", "tens", "v", "s"]
    for row in found.to_pylist():
        n = row["id"]
        wanted = (n * 10, [n, 1.5], {"id": n}) if n % 3 else (None, None, None)
        assert (row["tens"], row["v"], row["s"]) == wanted
    dataset(name).validate()
    assert dataset(name).to_table() == found
    assert spark.table(name).where("tens IS NOT NULL").count() == sum(1 for row in found.to_pylist() if row["id"] % 3)


def test_a_dataframe_of_columns_is_refused_where_it_does_not_fit(spark, lake, made):
    table = made.table
    data = Path(table.location) / "data"
    before = len(list(data.iterdir()))
    read = table.to_spark(spark, columns=["_rowaddr", "id"])
    with pytest.raises(InvalidArgument, match="which rows"):
        table.add_columns(read.selectExpr("id AS c"))
    with pytest.raises(InvalidArgument, match="no columns"):
        table.add_columns(read.select("_rowaddr"))
    for expression, told in [
        ("CAST(NULL AS BIGINT) AS _rowaddr", "belongs to no row"),
        ("_rowaddr + (99L << 32) AS _rowaddr", "no row at address"),
        ("_rowaddr + 1000 AS _rowaddr", "no row at address"),
        ("0L AS _rowaddr", "given twice"),
    ]:
        with pytest.raises(Exception, match=told):
            table.add_columns(read.selectExpr(expression, "id AS c"))
    values = read.selectExpr("_rowaddr", "id AS c")
    lake.table(table.identifier).append([{"id": 1000}])
    with pytest.raises(CommitConflict):
        table.add_columns(values)
    assert len(list(data.iterdir())) == before + 1
    assert lake.table(table.identifier).arrow_schema.names == ["id", "word", "x"]


def test_an_earlier_version_is_read_without_values_of_a_dropped_column(spark, lake, made):
    table = made.table
    table.add_columns({"c": "id * 10"})
    then = table.version
    table.drop_columns("c")
    table.add_columns({"c": "id * 100"})
    table.rename_column("word", "text")
    rows = spark.read.option("snapshot-id", then).table(made.name)
    assert rows.columns == ["id", "text", "x", "c"]
    assert rows.where("c IS NOT NULL").count() == 0
    assert rows.where("text = 'w1'").count() == sum(n % 7 == 1 for n in made.ids)


def test_a_table_with_columns_that_are_called_like_metadata_columns_is_read(spark, lake, name):
    schema = pa.schema({"_rowid": pa.int64(), "_rowaddr": pa.string(), "a": pa.int64()})
    table = lake.create_table(name.removeprefix("lake."), schema, format="lance")
    table.append([{"_rowid": 7, "_rowaddr": "x", "a": 1}, {"_rowid": 8, "_rowaddr": "y", "a": 2}])
    assert [tuple(row) for row in spark.sql(f"SELECT * FROM {name} WHERE _rowid = 8").collect()] == [(8, "y", 2)]
    assert [tuple(row) for row in spark.sql(f"SELECT a, _rowoffset FROM {name} WHERE _rowaddr = 'x'").collect()] == [
        (1, 0)
    ]


def test_an_insert_overwrite_does_not_take_back_a_column(spark, lake, made):
    from frazil.spark.lance.append import write_frame

    late = lake.table(made.table.identifier)
    made.table.add_columns({"c": "id"})
    with pytest.raises(CommitConflict):
        write_frame(late, spark.sql("SELECT 1L AS id"), "truncate", None)
    assert made.table.refresh().scan().count() == len(made.ids)
