"""Every statement of Iceberg's page "Spark DDL" (docs/docs/spark-ddl.md), by section; views are not tables.

Where the page leaves dots (`AS SELECT ...`) a query stands for them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.docs_sql.cases import (
    SAMPLE,
    Case,
    World,
    columns,
    comment,
    partitioning,
    refused,
    required,
    sample,
    shown,
    tables,
)

ROWS = "SELECT * FROM prod.db.sample"
SOURCE = "SELECT id, concat('d', id) AS data, id % 2 AS part FROM range(3)"
SOURCE_ROWS = [(0, "d0", 0), (1, "d1", 1), (2, "d2", 0)]

CREATE = [
    Case(
        "CREATE TABLE",
        "CREATE TABLE prod.db.sample (id bigint NOT NULL COMMENT 'unique id', data string) USING iceberg",
        (["id bigint: unique id", "data string"], ["id"]),
        lambda world: (columns(world), required(world)),
    ),
    Case(
        "CREATE TABLE",
        """CREATE TABLE prod.db.sample (id bigint) USING iceberg COMMENT 'table documentation'
        TBLPROPERTIES ('key' = 'value')""",
        ("table documentation", "value"),
        lambda world: (comment(world), shown("key")(world)),
    ),
    Case(
        "CREATE TABLE",
        "CREATE TABLE prod.db.sample (id bigint) USING orc",
        "iceberg/orc",
        shown("format"),
    ),
    Case(
        "PARTITIONED BY",
        """CREATE TABLE prod.db.sample (id bigint, data string, category string) USING iceberg
        PARTITIONED BY (category)""",
        ["category = identity(category)"],
        partitioning,
    ),
    Case(
        "PARTITIONED BY",
        """CREATE TABLE prod.db.sample (id bigint, data string, category string, ts timestamp) USING iceberg
        PARTITIONED BY (bucket(16, id), days(ts), category)""",
        ["id_bucket = bucket[16](id)", "ts_day = day(ts)", "category = identity(category)"],
        partitioning,
    ),
    *(
        Case(
            "PARTITIONED BY, supported transformations",
            f"CREATE TABLE prod.db.sample (i int, data string, ts timestamp) USING iceberg PARTITIONED BY ({term})",
            [field],
            partitioning,
        )
        for term, field in (
            ("year(ts)", "ts_year = year(ts)"),
            ("month(ts)", "ts_month = month(ts)"),
            ("day(ts)", "ts_day = day(ts)"),
            ("date(ts)", "ts_day = day(ts)"),
            ("hour(ts)", "ts_hour = hour(ts)"),
            ("date_hour(ts)", "ts_hour = hour(ts)"),
            ("bucket(4, data)", "data_bucket = bucket[4](data)"),
            ("truncate(10, i)", "i_trunc = truncate[10](i)"),
            ("years(ts)", "ts_year = year(ts)"),
            ("months(ts)", "ts_month = month(ts)"),
            ("days(ts)", "ts_day = day(ts)"),
            ("hours(ts)", "ts_hour = hour(ts)"),
        )
    ),
    Case(
        "PARTITIONED BY, supported transformations",
        "INSERT INTO prod.db.sample VALUES (0), (9), (10), (25), (30)",
        [(0,), (10,), (20,), (30,)],
        "SELECT partition.i_trunc FROM prod.db.sample.partitions",
        setup="CREATE TABLE prod.db.sample (i int) USING iceberg PARTITIONED BY (truncate(10, i))",
    ),
    Case(
        "CREATE TABLE ... AS SELECT",
        f"CREATE TABLE prod.db.sample USING iceberg AS {SOURCE}",
        SOURCE_ROWS,
        ROWS,
    ),
    Case(
        "CREATE TABLE ... AS SELECT",
        f"CREATE TABLE prod.db.sample USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('key'='value') AS {SOURCE}",
        (SOURCE_ROWS, ["part = identity(part)"], "value"),
        lambda world: (sorted(world.sql(ROWS)), partitioning(world), shown("key")(world)),
    ),
    Case(
        "CREATE TABLE ... AS SELECT, layout and properties of the source stay with it",
        "CREATE TABLE prod.db.copy USING iceberg AS SELECT * FROM prod.db.sample",
        ((), None),
        lambda world: (world.table("db.copy").spec.fields, world.table("db.copy").properties.get("key")),
        setup=f"CREATE TABLE prod.db.sample PARTITIONED BY (part) TBLPROPERTIES ('key'='value') AS {SOURCE}",
    ),
]

REPLACED = f"CREATE TABLE prod.db.sample TBLPROPERTIES ('kept'='1', 'key'='old') AS {SOURCE}"


def replaced(world: World) -> tuple[object, ...]:
    """Rows, partition fields, properties and how many snapshots there are."""
    properties = [shown(key)(world) for key in ("kept", "key")]
    return sorted(world.sql(ROWS)), partitioning(world), properties, len(world.table().snapshots)


REPLACE = [
    Case(
        "REPLACE TABLE ... AS SELECT",
        "REPLACE TABLE prod.db.sample USING iceberg AS SELECT id AS other FROM range(2)",
        ([(0,), (1,)], [], ["1", "old"], 2),
        replaced,
        setup=REPLACED,
    ),
    Case(
        "REPLACE TABLE ... AS SELECT",
        f"""REPLACE TABLE prod.db.sample USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('key'='value')
        AS {SOURCE}""",
        (SOURCE_ROWS, ["part = identity(part)"], ["1", "value"], 2),
        replaced,
        setup=REPLACED,
    ),
    Case(
        "REPLACE TABLE ... AS SELECT",
        f"CREATE OR REPLACE TABLE prod.db.sample USING iceberg AS {SOURCE}",
        (SOURCE_ROWS, [], ["1", "old"], 2),
        replaced,
        setup=REPLACED,
    ),
    Case(
        "REPLACE TABLE ... AS SELECT",
        f"CREATE OR REPLACE TABLE prod.db.sample USING iceberg AS {SOURCE}",
        (SOURCE_ROWS, [], [None, None], 1),
        replaced,
    ),
]

ALTER = [
    Case(
        "ALTER TABLE ... RENAME TO",
        "ALTER TABLE prod.db.sample RENAME TO prod.db.new_name",
        ["new_name"],
        tables,
        setup=SAMPLE,
    ),
    Case(
        "ALTER TABLE ... SET TBLPROPERTIES",
        "ALTER TABLE prod.db.sample SET TBLPROPERTIES ('read.split.target-size'='268435456')",
        "268435456",
        shown("read.split.target-size"),
        setup=SAMPLE,
    ),
    Case(
        "ALTER TABLE ... SET TBLPROPERTIES",
        "ALTER TABLE prod.db.sample UNSET TBLPROPERTIES ('read.split.target-size')",
        None,
        shown("read.split.target-size"),
        setup=f"{SAMPLE} TBLPROPERTIES ('read.split.target-size'='268435456')",
    ),
    Case(
        "ALTER TABLE ... SET TBLPROPERTIES",
        "ALTER TABLE prod.db.sample SET TBLPROPERTIES ('comment' = 'A table comment.')",
        "A table comment.",
        comment,
        setup=SAMPLE,
    ),
    Case(
        "ALTER TABLE ... ADD COLUMN",
        "ALTER TABLE prod.db.sample ADD COLUMNS (new_column string comment 'new_column docs')",
        ["id bigint", "new_column string: new_column docs"],
        columns,
        setup=sample("id bigint"),
    ),
    Case(
        "ALTER TABLE ... ADD COLUMN",
        "ALTER TABLE prod.db.sample ADD COLUMNS (one string, two int)",
        ["id bigint", "one string", "two int"],
        columns,
        setup=sample("id bigint"),
    ),
    Case(
        "ALTER TABLE ... ADD COLUMN",
        """ALTER TABLE prod.db.sample ADD COLUMN point struct<x: double, y: double>;
        ALTER TABLE prod.db.sample ADD COLUMN point.z double""",
        ["id bigint", "point struct<x:double,y:double,z:double>"],
        columns,
        setup=sample("id bigint"),
    ),
    Case(
        "ALTER TABLE ... ADD COLUMN",
        """ALTER TABLE prod.db.sample ADD COLUMN points array<struct<x: double, y: double>>;
        ALTER TABLE prod.db.sample ADD COLUMN points.element.z double""",
        ["id bigint", "points array<struct<x:double,y:double,z:double>>"],
        columns,
        setup=sample("id bigint"),
    ),
    Case(
        "ALTER TABLE ... ADD COLUMN",
        """ALTER TABLE prod.db.sample ADD COLUMN points map<struct<x: int>, struct<a: int>>;
        ALTER TABLE prod.db.sample ADD COLUMN points.value.b int""",
        ["id bigint", "points map<struct<x:int>,struct<a:int,b:int>>"],
        columns,
        setup=sample("id bigint"),
    ),
    Case(
        "ALTER TABLE ... ADD COLUMN",
        "ALTER TABLE prod.db.sample ADD COLUMN new_column bigint AFTER other_column",
        ["id bigint", "other_column int", "new_column bigint", "last int"],
        columns,
        setup=sample("id bigint, other_column int, last int"),
    ),
    Case(
        "ALTER TABLE ... ADD COLUMN",
        "ALTER TABLE prod.db.sample ADD COLUMN nested.new_column bigint FIRST",
        ["nested struct<new_column:bigint,a:int>"],
        columns,
        setup=sample("nested struct<a: int>"),
    ),
    Case(
        "ALTER TABLE ... RENAME COLUMN",
        """ALTER TABLE prod.db.sample RENAME COLUMN data TO payload;
        ALTER TABLE prod.db.sample RENAME COLUMN location.lat TO latitude""",
        ["payload string", "location struct<latitude:double,long:double>"],
        columns,
        setup=sample("data string, location struct<lat: double, long: double>"),
    ),
    Case(
        "ALTER TABLE ... ALTER COLUMN",
        "ALTER TABLE prod.db.sample ALTER COLUMN measurement TYPE double",
        ([(1.5,), (2.5,)], ["measurement double"]),
        lambda world: (
            world.sql("INSERT INTO prod.db.sample VALUES (2.5)") or sorted(world.sql(ROWS)),
            columns(world),
        ),
        setup=f"{sample('measurement float')}; INSERT INTO prod.db.sample VALUES (1.5)",
    ),
    *(
        Case(
            "ALTER TABLE ... ALTER COLUMN, safe updates",
            f"ALTER TABLE prod.db.sample ALTER COLUMN c TYPE {new}",
            [f"c {new}"],
            columns,
            setup=sample(f"c {old}"),
        )
        for old, new in (("int", "bigint"), ("float", "double"), ("decimal(5,2)", "decimal(9,2)"))
    ),
    Case(
        "ALTER TABLE ... ALTER COLUMN",
        """ALTER TABLE prod.db.sample ALTER COLUMN measurement TYPE double COMMENT 'unit is bytes per second'""",
        ["measurement double: unit is bytes per second"],
        columns,
        setup=sample("measurement float"),
    ),
    Case(
        "ALTER TABLE ... ALTER COLUMN",
        "ALTER TABLE prod.db.sample ALTER COLUMN measurement COMMENT 'unit is kilobytes per second'",
        ["measurement double: unit is kilobytes per second"],
        columns,
        setup=sample("measurement double COMMENT 'unit is bytes per second'"),
    ),
    Case(
        "ALTER TABLE ... ALTER COLUMN",
        "ALTER TABLE prod.db.sample ALTER COLUMN col FIRST",
        ["col int", "a int"],
        columns,
        setup=sample("a int, col int"),
    ),
    Case(
        "ALTER TABLE ... ALTER COLUMN",
        "ALTER TABLE prod.db.sample ALTER COLUMN nested.col AFTER other_col",
        ["nested struct<other_col:int,col:int,z:int>"],
        columns,
        setup=sample("nested struct<col: int, other_col: int, z: int>"),
    ),
    Case(
        "ALTER TABLE ... ALTER COLUMN",
        "ALTER TABLE prod.db.sample ALTER COLUMN id DROP NOT NULL",
        [],
        required,
        setup=sample("id bigint NOT NULL"),
    ),
    Case(
        "ALTER TABLE ... DROP COLUMN",
        "ALTER TABLE prod.db.sample DROP COLUMN id; ALTER TABLE prod.db.sample DROP COLUMN point.z",
        ["point struct<x:double,y:double>"],
        columns,
        setup=sample("id bigint, point struct<x: double, y: double, z: double>"),
    ),
]

CASES = [*CREATE, *REPLACE, *ALTER]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_statement_of_the_page(case: Case, world: World) -> None:
    case.run(world)


REFUSED = [
    ("ADD COLUMN points.key.y int", "a map's key cannot get columns", sample("points map<struct<x: int>, int>")),
    ("ALTER COLUMN id SET NOT NULL", "a column cannot become required", sample("id bigint")),
    ("ALTER COLUMN c TYPE decimal(9,3)", "the scale cannot change", sample("c decimal(5,2)")),
    ("ALTER COLUMN s TYPE struct<x: int>", "structs are changed by their fields", sample("s struct<x: int, y: int>")),
]


@pytest.mark.parametrize(("change", "setup"), [pytest.param(text, setup, id=why) for text, why, setup in REFUSED])
def test_what_the_page_says_cannot_be_is_refused(world: World, change: str, setup: str) -> None:
    refused(world, change, setup)


def test_create_table_location(world: World, tmp_path: Path) -> None:
    world.sql(f"CREATE TABLE prod.db.sample (id bigint) USING iceberg LOCATION 'file://{tmp_path}/there'")
    world.sql("INSERT INTO prod.db.sample VALUES (1)")
    assert world.sql(ROWS) == [(1,)]
    assert list((tmp_path / "there").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("statement", "left"), [("DROP TABLE prod.db.sample", True), ("DROP TABLE prod.db.sample PURGE", False)]
)
def test_drop_table(world: World, statement: str, left: bool) -> None:
    world.sql(f"CREATE TABLE prod.db.sample AS {SOURCE}")
    location = Path(world.table().location)
    world.sql(statement)
    assert tables(world) == []
    assert bool(list(location.rglob("*.parquet"))) is left
