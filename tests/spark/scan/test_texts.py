"""Words of dictionaries are made once for a column chunk: the next one may have others under the same numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from frazil.lake import Lake

COUNT = 30_000
WORDS = {
    "few, in another order in each row group": "concat('w', (id + id div 1000) % 7)",
    "with nulls": "if(id % 3 = 0, null, concat('w', id div 900 + id % 5))",
    "first a dictionary, then plain": "if(id < 15000, concat('w', id % 3), md5(string(id)))",
    "more than are kept": "concat('word ', id)",
    "one": "'always'",
    "none": "cast(null AS string)",
    "empty, and of several bytes": "element_at(array('', 'ä', '水', 'a'), cast(id % 4 + 1 AS int))",
}
MODES: dict[str, dict[str, str]] = {
    "as it is": {},
    "off heap": {"spark.sql.columnVector.offheap.enabled": "true"},
    "small batches": {"spark.sql.parquet.columnarReaderBatchSize": "100"},
    "rows": {"spark.sql.parquet.enableVectorizedReader": "false"},
    "no codegen": {"spark.sql.codegen.wholeStage": "false"},
}


@pytest.fixture(scope="module")
def tables(lake: Lake, spark: SparkSession) -> dict[str, str]:
    """Files of many small row groups, with all their rows and with some deleted."""
    rows = spark.range(0, COUNT, 1, 1).selectExpr("id", *(f"{sql} AS c{n}" for n, sql in enumerate(WORDS.values())))
    rows.createOrReplaceTempView("words")
    for name in ("whole", "deleted"):
        spark.sql(
            f"CREATE TABLE lake.db.{name} TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read',"
            " 'write.parquet.row-group-size-bytes' = '60000', 'write.parquet.page-row-limit' = '700',"
            " 'write.parquet.dict-size-bytes' = '20000') AS SELECT * FROM words"
        )
    spark.sql("DELETE FROM lake.db.deleted WHERE id % 11 = 0")
    return {"whole": "TRUE", "deleted": "id % 11 <> 0"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["whole", "deleted"])
def test_words_are_those_that_were_written(spark: SparkSession, tables: dict[str, str], name: str, mode: str) -> None:
    for key, value in MODES[mode].items():
        spark.conf.set(key, value)
    try:
        found = spark.table(f"lake.db.{name}")
        expected = spark.table("words").where(tables[name])
        assert _sums(found) == _sums(expected)
        some = "c0 = 'w3' AND c1 IS NOT NULL AND c6 <> ''"
        assert _sums(found.where(some)) == _sums(expected.where(some))
        assert sorted(map(tuple, found.groupBy("c0", "c6").count().collect())) == sorted(
            map(tuple, expected.groupBy("c0", "c6").count().collect())
        )
    finally:
        for key in MODES[mode]:
            spark.conf.unset(key)


def test_the_next_row_group_has_words_of_its_own(
    spark: SparkSession, lake: Lake, name: str, sql: Callable[..., Any]
) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT, w STRING) TBLPROPERTIES ('write.parquet.row-group-size-bytes' = '20000')")
    spark.range(0, 20_000, 1, 1).selectExpr("id", "concat('group ', id div 1000)").toDF("id", "w").writeTo(
        name
    ).append()
    assert spark.table(name).where("w <> concat('group ', id div 1000)").count() == 0
    assert spark.table(name).select("w").distinct().count() == 20


def _sums(frame: Any) -> tuple[Any, ...]:
    """A number for each column that no other rows have, likely."""
    parts = [f"sum(xxhash64(id, c{number}) % 1000003)" for number in range(len(WORDS))]
    lengths = [f"sum(length(c{number}))" for number in range(len(WORDS))]
    return tuple(frame.selectExpr("count(*)", *parts, *lengths).collect()[0])
