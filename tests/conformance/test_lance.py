"""Every Lance table has the same rows for Spark, in this process and for pylance."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from frazil.errors import FrazilError
from frazil.lance.values import to_model
from frazil.model.schema import Schema
from frazil.spark.scan.spark_arrow import for_spark
from tests.conformance.lance_tables import CASES, HISTORIES
from tests.conformance.ways import CATALOG
from tests.interop.cases import registered
from tests.interop.conftest import Built
from tests.spark.scan.golden_rows import columns_spark_lacks, counted, rows_in_process, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.lake import Lake
    from frazil.lance.table import LanceTable

lance = pytest.importorskip("lance")
INTEROP = registered()
SMOKE = {"types_parquet", "nested"}
REFUSED = {"defaults": "has a default"}
"""Tables with something that Lance has no place for, and how that is told."""


def frame(spark: SparkSession, table: LanceTable) -> DataFrame:
    return spark.table(f"{CATALOG}.{table.identifier}")


def in_process(rows: pa.Table, schema: Schema) -> Counter[str]:
    """Rows that were read without Spark, in the types that it has for them."""
    fields = schema.fields
    arrays = [for_spark(to_model(rows[field.name].combine_chunks(), field.type), field.type) for field in fields]
    return counted(pa.table(arrays, names=schema.columns), rows.num_rows)


def same_rows(spark: SparkSession, table: LanceTable, version: int | None = None) -> Counter[str]:
    """The rows, after Spark, the kernel and pylance gave the same ones."""
    at = table.at(version=version)
    expected = in_process(table.scan(version=version).to_arrow(), at.schema)
    theirs = lance.dataset(table.location, version=at.version).to_table()
    assert in_process(theirs, at.schema) == expected
    name = f"{CATALOG}.{table.identifier}"
    found = spark.sql(f"SELECT * FROM {name} {'' if version is None else f'VERSION AS OF {version}'}")
    assert rows_of(found) == expected
    return expected


@pytest.fixture(scope="module")
def own(lake: Lake) -> dict[str, LanceTable]:
    return {}


def _own(lake: Lake, made: dict[str, LanceTable], name: str) -> LanceTable:
    if name not in made:
        made[name] = CASES[name].build(lake, f"lance_{name}")
    return made[name]


def _marked(names: set[str], smoke: set[str]) -> list[object]:
    return [pytest.param(name, marks=[pytest.mark.smoke] if name in smoke else []) for name in sorted(names)]


@pytest.mark.parametrize("name", _marked(set(CASES), {name for name, one in CASES.items() if one.smoke}))
def test_a_table_and_filters_on_it(spark: SparkSession, lake: Lake, own: dict[str, LanceTable], name: str) -> None:
    """All filters in one query, which is faster: each as Spark has it and as the table's relation leaves it."""
    from functools import reduce

    from pyspark.sql.functions import lit

    case, table = CASES[name], _own(lake, own, name)
    assert same_rows(spark, table).total() == case.rows
    parts = [frame(spark, table).where(where).select(lit(at).alias("at")) for at, (where, _) in enumerate(case.filters)]
    found = Counter(row["at"] for row in reduce(lambda left, right: left.union(right), parts).collect())
    assert {where: found[at] for at, (where, _) in enumerate(case.filters)} == dict(case.filters)


@pytest.mark.parametrize("name", HISTORIES)
def test_every_version_of_a_table(spark: SparkSession, lake: Lake, own: dict[str, LanceTable], name: str) -> None:
    table = _own(lake, own, name)
    assert [same_rows(spark, table, one.version).total() for one in table.snapshots] == HISTORIES[name]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("_pos = 1", [1, 11]),
        ("_file = '1'", [10, 11, 12, 13, 14, 16, 17, 18, 19]),
        ("_file = '0' AND _pos > 7", [8, 9]),
        ("_rowaddr = 4294967298", [12]),
        ("_rowid < 3", [1, 2]),
        ("_rowoffset = 0", [1]),
        ("_rowoffset >= 14 AND p = 0", [18]),
    ],
)
def test_a_filter_on_hidden_columns(
    spark: SparkSession, lake: Lake, own: dict[str, LanceTable], where: str, expected: list[int]
) -> None:
    found = frame(spark, _own(lake, own, "deletion_files")).where(where)
    assert sorted(row.id for row in found.select("id").collect()) == expected


@pytest.mark.parametrize("name", _marked(set(INTEROP), SMOKE))
def test_a_table_of_the_interoperability_tests(spark: SparkSession, lake: Lake, built: Built, name: str) -> None:
    """As a Lance table, which it is converted to: the rows are those of the Iceberg table."""
    made, rows = built(name, INTEROP[name].versions[-1])
    taken = lake.register_table(f"db.lance_of_{name}", made.metadata_location)
    for branch in [branch for branch, ref in taken.refs.items() if ref.is_branch and branch != "main"]:
        taken.manage_refs().remove_branch(branch).commit()
    if name in REFUSED:
        with pytest.raises(FrazilError, match=REFUSED[name]):
            lake.convert_table(taken.identifier, "lance")
        return
    lake.convert_table(taken.identifier, "lance")
    table = lake.table(taken.identifier, format="lance")
    everything = rows_in_process(taken.scan())
    assert everything.total() == len(rows)
    assert in_process(table.scan().to_arrow(), table.schema) == everything
    lacking = columns_spark_lacks(spark.version, taken.schema)
    columns = [one for one in taken.schema.columns if one not in lacking]
    if lacking and columns:
        table.drop_columns(*lacking)
    expected = rows_in_process(taken.scan(columns=columns))
    spark.conf.set("spark.sql.caseSensitive", "true")  # one of them has names that differ in nothing else
    try:
        if columns:
            assert rows_of(frame(spark, table).select(*(f"`{column}`" for column in columns))) == expected
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
