"""Keys of texts and bytes that nobody selects are looked for on Parquet's pages, whoever wrote them and however."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.iceberg.data_file import DataFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from frazil.iceberg.table import IcebergTable
    from frazil.lake import Lake

ROWS = 150_000
"""More than two blocks of 65,536 positions."""

WAYS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "plain, second kind of pages": {"use_dictionary": False, "data_page_version": "2.0"},
    "dictionary": {},
    "dictionary, second kind of pages": {"data_page_version": "2.0"},
    "dictionary that becomes too large": {"dictionary_pagesize_limit": 20_000},
    "small pages": {"use_dictionary": False, "data_page_size": 777},
    "uncompressed": {"use_dictionary": False, "compression": "none"},
    "compressed by zstd": {"use_dictionary": False, "compression": "zstd", "data_page_size": 5_000},
    "compressed by zstd, dictionary and second kind of pages": {"compression": "zstd", "data_page_version": "2.0"},
    "compressed by gzip": {"use_dictionary": False, "compression": "gzip"},
    "row groups of odd sizes": {"use_dictionary": False, "row_group_size": 40_001},
    "deltas, which are Spark's to read": {"use_dictionary": False, "column_encoding": {"k": "DELTA_BYTE_ARRAY"}},
    "lengths apart, which are Spark's to read": {
        "use_dictionary": False,
        "column_encoding": {"k": "DELTA_LENGTH_BYTE_ARRAY"},
    },
}
KINDS = {"STRING": pa.string(), "BINARY": pa.binary()}
BY_SPARK = {way for way in WAYS if "Spark" in way}


def values(nulls: str) -> list[str | None]:
    """Short and long ones, empty ones, equal ones; in the middle a long row of nulls, or some everywhere."""
    gaps = {"none": range(0), "together": range(70_000, 80_000), "everywhere": range(3, ROWS, 5)}[nulls]
    keys: list[str | None] = [f"{i % 20_000}" + "é." * (i % 17) if i % 1000 else "" for i in range(ROWS)]
    for i in gaps:
        keys[i] = None
    return keys


@pytest.fixture
def found(spark: SparkSession, lake: Lake) -> Any:
    """The JVM's memory of rows that keys took, empty."""
    memory = spark._jvm.org.apache.spark.sql.connector.catalog.FrazilFound  # type: ignore[union-attr]
    memory.clear()
    return memory


@pytest.fixture
def opened(spark: SparkSession) -> Callable[[], int]:
    """Tells of how many files pages were looked at."""
    pages = spark._jvm.org.apache.spark.sql.connector.catalog.FrazilKeyPages  # type: ignore[union-attr]
    return lambda: int(pages.opened)


def filled(lake: Lake, name: str, kind: str, keys: list[Any], required: bool = False, **how: Any) -> IcebergTable:
    """A table with one file, which pyarrow wrote."""
    columns = f"k {kind}{' NOT NULL' if required else ''}, i INT"
    merge_on_read = {"write.delete.mode": "merge-on-read"}
    table: IcebergTable = lake.create_table(
        name.removeprefix("lake."), columns, format_version=2, properties=merge_on_read
    )
    numbered = [
        pa.field("k", KINDS[kind], nullable=not required, metadata={"PARQUET:field_id": "1"}),
        pa.field("i", pa.int32(), metadata={"PARQUET:field_id": "2"}),
    ]
    place = Path(table.location, "data", "there.parquet")
    place.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table([pa.array(keys, pa.string()).cast(KINDS[kind]), range(len(keys))], schema=pa.schema(numbered))
    pq.write_table(rows, place, **how)
    table.new_append().append_file(DataFile(str(place), "parquet", len(keys), place.stat().st_size)).commit()
    return table


def take(table: IcebergTable, keys: list[Any]) -> None:
    kind = KINDS[str(table.schema.find("k").type).upper()]
    table.upsert(pa.table({"k": pa.array(keys, pa.string()).cast(kind), "i": [-1] * len(keys)}), keys=["k"])


def check(spark: SparkSession, table: IcebergTable, name: str) -> int:
    """Spark has the rows that are there in-process, when keys are looked at and when they are known; how many."""
    expected = sorted(table.refresh().scan(columns=["i"]).to_arrow()["i"].to_pylist())
    for _ in range(2):
        assert sorted(row.i for row in spark.sql(f"SELECT i FROM {name}").collect()) == expected
    return len(expected)


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize(
    ("way", "nulls"),
    [
        *((way, "everywhere") for way in WAYS),
        ("plain", "none"),
        ("plain", "together"),
        ("plain, second kind of pages", "together"),
        ("dictionary", "together"),
        ("dictionary, second kind of pages", "none"),
    ],
)
def test_however_pages_are_written(
    lake: Lake, spark: SparkSession, name: str, opened: Callable[[], int], way: str, nulls: str
) -> None:
    keys = values(nulls)
    table = filled(lake, name, "STRING", keys, **WAYS[way])
    gone = ["", None, "12.no such key", *sorted({key for key in keys[5::700] if key})]
    take(table, gone)
    before = opened()
    left = check(spark, table, name)
    assert left == sum(key not in set(gone) for key in keys) + len(gone)
    assert (opened() == before) == (way in BY_SPARK)


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("required", [False, True])
def test_bytes_that_are_and_are_not_required(lake: Lake, spark: SparkSession, name: str, required: bool) -> None:
    keys = values("none")
    table = filled(lake, name, "BINARY", keys, required, use_dictionary=False)
    take(table, [key for key in keys[:9000:3] if key])
    check(spark, table, name)
    assert spark.sql(f"SELECT count(i) FROM {name} WHERE i = -1").collect()[0][0] == 2997


def test_parts_of_a_file_and_readers_of_rows(
    lake: Lake, spark: SparkSession, name: str, found: Any, opened: Callable[[], int]
) -> None:
    """Each task finds the rows of its row groups, and positions that vectors have come beside."""
    keys = values("together")
    table = filled(lake, name, "STRING", keys, use_dictionary=False, row_group_size=20_011, compression="none")
    take(table, [None, *(key for key in keys[:9000:3] if key)])
    spark.sql(f"DELETE FROM {name} WHERE i % 100 = 77")
    settings = {"spark.sql.files.maxPartitionBytes": "200000", "spark.sql.parquet.enableVectorizedReader": "false"}
    for setting, value in settings.items():
        kept = spark.conf.get(setting)
        spark.conf.set(setting, value)
        found.clear()
        before = opened()
        try:
            check(spark, table, name)
        finally:
            spark.conf.set(setting, kept)
        assert opened() > before
    assert opened() > len(settings)  # a file in parts


def test_only_what_a_limit_needs_is_looked_at(lake: Lake, spark: SparkSession, name: str, found: Any) -> None:
    keys = values("none")
    table = filled(lake, name, "STRING", keys, use_dictionary=False)
    take(table, [keys[-1]])
    assert len(spark.sql(f"SELECT i FROM {name} WHERE i >= 0 LIMIT 3").collect()) == 3
    assert len(spark.sql(f"SELECT i FROM {name} LIMIT 3").collect()) == 3
    assert all(bitmap.getCardinality() > 0 for bitmap in found.kept().values())
    check(spark, table, name)


@pytest.mark.smoke
@pytest.mark.usefixtures("found")
def test_keys_that_are_newer_than_rows_and_keys_that_are_not(lake: Lake, spark: SparkSession, name: str) -> None:
    table = filled(lake, name, "STRING", [f"k{i}" for i in range(1000)])
    take(table, ["k1", "k2"])
    take(table.refresh(), ["k2", "k3"])
    assert check(spark, table, name) == 1000
    assert spark.sql(f"SELECT count(i) FROM {name} WHERE i = -1").collect()[0][0] == 3


@pytest.mark.usefixtures("found")
def test_columns_that_a_file_has_not_and_that_a_table_has_no_more(lake: Lake, spark: SparkSession, name: str) -> None:
    table: IcebergTable = lake.create_table(name.removeprefix("lake."), "i INT", format_version=2)
    table.append([{"i": 1}, {"i": 2}])
    table.update_schema().add_column("k", "string").commit()
    table.refresh().append([{"i": 3, "k": "a"}, {"i": 4, "k": "b"}, {"i": 5, "k": None}])
    take(table.refresh(), ["a", None])
    assert check(spark, table, name) == 3
    table.refresh().update_schema().rename_column("k", "other").commit()
    assert check(spark, table, name) == 3
    table.refresh().update_schema().drop_column("other").commit()
    assert check(spark, table, name) == 3
    table.refresh().update_schema().add_column("k", "string").commit()  # another one, of the same name
    assert check(spark, table, name) == 3


@pytest.mark.usefixtures("found")
def test_a_damaged_page_is_an_error(lake: Lake, spark: SparkSession, name: str) -> None:
    table = filled(lake, name, "STRING", [f"key {i}" for i in range(1000)], use_dictionary=False, compression="none")
    take(table, ["key 7"])
    place = Path(table.location, "data", "there.parquet")
    data = bytearray(place.read_bytes())
    data[data.index(b"key 500") - 4] = 255
    place.write_bytes(data)
    with pytest.raises(Exception, match=r"ends too soon|Error while reading file|FAILED_READ_FILE"):
        spark.sql(f"SELECT sum(i) FROM {name}").collect()


@pytest.mark.usefixtures("found")
def test_a_file_that_is_missing_is_told_as_one(lake: Lake, spark: SparkSession, name: str) -> None:
    table = filled(lake, name, "STRING", ["a", "b"])
    take(table, ["a"])
    Path(table.location, "data", "there.parquet").unlink()
    for columns in ("i", "i, k"):
        with pytest.raises(Exception, match="FILE_NOT_EXIST"):
            spark.sql(f"SELECT {columns} FROM {name}").collect()
