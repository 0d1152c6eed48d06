"""The second half of Iceberg's page "Spark DDL": extensions of ALTER TABLE that Spark does not have.

Where the page leaves dots (`AS SELECT ...`) a query stands for them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.spark.docs_sql.cases import (
    SAMPLE,
    Case,
    World,
    add_field,
    columns,
    identifiers,
    partitioned,
    partitioning,
    refused,
    sample,
    write_order,
)

PARTITION_FIELDS = [
    *(
        Case("ALTER TABLE ... ADD PARTITION FIELD", add_field(term), [field], partitioning, setup=partitioned())
        for term, field in (
            ("catalog", "catalog = identity(catalog)"),
            ("bucket(16, id)", "id_bucket_16 = bucket[16](id)"),
            ("truncate(4, data)", "data_trunc_4 = truncate[4](data)"),
            ("year(ts)", "ts_year = year(ts)"),
            ("bucket(16, id) AS shard", "shard = bucket[16](id)"),
        )
    ),
    Case(
        "ALTER TABLE ... ADD PARTITION FIELD, old files have null for it",
        f"{add_field('category')}; INSERT INTO prod.db.sample VALUES (2, 'b', 'c2', null)",
        [(None, 1), ("c2", 1)],
        "SELECT partition.category, record_count FROM prod.db.sample.files",
        setup=f"{SAMPLE}; INSERT INTO prod.db.sample VALUES (1, 'a', 'c1', null)",
    ),
    *(
        Case(
            "ALTER TABLE ... DROP PARTITION FIELD",
            f"ALTER TABLE prod.db.sample DROP PARTITION FIELD {old}",
            ([], ["id bigint", "data string", "category string", "ts timestamp", "catalog string"]),
            lambda world: (partitioning(world), columns(world)),
            setup=partitioned(term),
        )
        for old, term in (
            ("catalog", "catalog"),
            ("bucket(16, id)", "bucket(16, id)"),
            ("truncate(4, data)", "truncate(4, data)"),
            ("year(ts)", "year(ts)"),
            ("shard", "bucket(16, id) AS shard"),
        )
    ),
    Case(
        "ALTER TABLE ... REPLACE PARTITION FIELD",
        "ALTER TABLE prod.db.sample REPLACE PARTITION FIELD ts_day WITH hour(ts)",
        ["ts_hour = hour(ts)"],
        partitioning,
        setup=partitioned("day(ts)"),
    ),
    Case(
        "ALTER TABLE ... REPLACE PARTITION FIELD",
        "ALTER TABLE prod.db.sample REPLACE PARTITION FIELD ts_day WITH day(ts)",
        ["ts_day = day(ts)"],
        partitioning,
        setup=partitioned("day(ts)"),
    ),
    Case(
        "ALTER TABLE ... REPLACE PARTITION FIELD",
        "ALTER TABLE prod.db.sample REPLACE PARTITION FIELD ts_day WITH day(ts) AS day_of_ts",
        ["day_of_ts = day(ts)"],
        partitioning,
        setup=partitioned("day(ts)"),
    ),
]

ORDERED = "ALTER TABLE prod.db.sample WRITE ORDERED BY category, id"
WRITE_ORDER = [
    *(
        Case(section, f"ALTER TABLE prod.db.sample {change}", expected, write_order, setup=setup)
        for section, change, expected, setup in (
            (
                "ALTER TABLE ... WRITE ORDERED BY",
                "WRITE ORDERED BY category, id",
                ("category ASC NULLS FIRST, id ASC NULLS FIRST", "range"),
                SAMPLE,
            ),
            (
                "ALTER TABLE ... WRITE ORDERED BY",
                "WRITE ORDERED BY category ASC, id DESC",
                ("category ASC NULLS FIRST, id DESC NULLS LAST", "range"),
                SAMPLE,
            ),
            (
                "ALTER TABLE ... WRITE ORDERED BY",
                "WRITE ORDERED BY category ASC NULLS LAST, id DESC NULLS FIRST",
                ("category ASC NULLS LAST, id DESC NULLS FIRST", "range"),
                SAMPLE,
            ),
            (
                "ALTER TABLE ... WRITE ORDERED BY",
                "WRITE LOCALLY ORDERED BY category, id",
                ("category ASC NULLS FIRST, id ASC NULLS FIRST", None),
                SAMPLE,
            ),
            ("ALTER TABLE ... WRITE ORDERED BY", "WRITE UNORDERED", (None, "none"), f"{SAMPLE}; {ORDERED}"),
            (
                "ALTER TABLE ... WRITE DISTRIBUTED BY PARTITION",
                "WRITE DISTRIBUTED BY PARTITION",
                (None, "hash"),
                f"{SAMPLE}; {ORDERED}",
            ),
            (
                "ALTER TABLE ... WRITE DISTRIBUTED BY PARTITION",
                "WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY category, id",
                ("category ASC NULLS FIRST, id ASC NULLS FIRST", "hash"),
                SAMPLE,
            ),
        )
    ),
    Case(
        "ALTER TABLE ... WRITE ORDERED BY, rows may be ordered by the query itself",
        """INSERT INTO prod.db.sample SELECT id, data, category, ts
        FROM VALUES (2, 'b', 'c', null), (1, 'a', 'c', null) AS another_table(id, data, category, ts)
        ORDER BY ts, category""",
        [(1,), (2,)],
        "SELECT id FROM prod.db.sample",
        setup=SAMPLE,
    ),
]

KEYS = sample("id bigint NOT NULL, data string NOT NULL, other int")
IDENTIFIERS = [
    *(
        Case(
            "ALTER TABLE ... SET IDENTIFIER FIELDS",
            f"ALTER TABLE prod.db.sample {change}",
            left,
            identifiers,
            setup=KEYS,
        )
        for change, left in (("SET IDENTIFIER FIELDS id", {"id"}), ("SET IDENTIFIER FIELDS id, data", {"id", "data"}))
    ),
    Case(
        "ALTER TABLE ... SET IDENTIFIER FIELDS, the later statement counts",
        "ALTER TABLE prod.db.sample SET IDENTIFIER FIELDS data",
        {"data"},
        identifiers,
        setup=f"{KEYS}; ALTER TABLE prod.db.sample SET IDENTIFIER FIELDS id",
    ),
    *(
        Case(
            "ALTER TABLE ... DROP IDENTIFIER FIELDS",
            f"ALTER TABLE prod.db.sample {change}",
            (left, ["id bigint", "data string", "other int"]),
            lambda world: (identifiers(world), columns(world)),
            setup=f"{KEYS}; ALTER TABLE prod.db.sample SET IDENTIFIER FIELDS id, data",
        )
        for change, left in (("DROP IDENTIFIER FIELDS id", {"data"}), ("DROP IDENTIFIER FIELDS id, data", set()))
    ),
]

DAY = 86_400_000
SNAPSHOTS = (1234, 4567)
TWO_SNAPSHOTS = ";".join([SAMPLE, *(f"INSERT INTO prod.db.sample VALUES ({n}, 'a', 'c', null)" for n in (1, 2))])
ALL_REFS = "SELECT * FROM prod.db.sample.refs WHERE name <> 'main'"


def ref(kind: str, snapshot: int, *retention: int | None) -> list[tuple[object, ...]]:
    """The one branch or tag beside main, as metadata table `refs` has it."""
    name = "audit-branch" if kind == "BRANCH" else "historical-tag"
    return [(name, kind, snapshot, *retention, *[None] * (3 - len(retention)))]


def at(kind: str) -> str:
    """The two snapshots, and the ref at the first of them."""
    name = "audit-branch" if kind == "BRANCH" else "historical-tag"
    return f"{TWO_SNAPSHOTS}; ALTER TABLE prod.db.sample CREATE {kind} `{name}` AS OF VERSION 1234"


REFS = [
    *(
        Case(section, f"ALTER TABLE prod.db.sample {change}", expected, ALL_REFS, setup=setup)
        for section, change, expected, setup in (
            ("ALTER TABLE ... CREATE BRANCH", "CREATE BRANCH `audit-branch`", ref("BRANCH", 4567), TWO_SNAPSHOTS),
            (
                "ALTER TABLE ... CREATE BRANCH",
                "CREATE BRANCH IF NOT EXISTS `audit-branch`",
                ref("BRANCH", 4567),
                TWO_SNAPSHOTS,
            ),
            (
                "ALTER TABLE ... CREATE BRANCH",
                "CREATE BRANCH IF NOT EXISTS `audit-branch`",
                ref("BRANCH", 1234),
                at("BRANCH"),
            ),
            (
                "ALTER TABLE ... CREATE BRANCH",
                "CREATE OR REPLACE BRANCH `audit-branch`",
                ref("BRANCH", 4567),
                at("BRANCH"),
            ),
            (
                "ALTER TABLE ... CREATE BRANCH",
                "CREATE BRANCH `audit-branch` AS OF VERSION 1234",
                ref("BRANCH", 1234),
                TWO_SNAPSHOTS,
            ),
            (
                "ALTER TABLE ... CREATE BRANCH",
                """CREATE BRANCH `audit-branch` AS OF VERSION 1234 RETAIN 30 DAYS
                WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS""",
                ref("BRANCH", 1234, 30 * DAY, 3, 2 * DAY),
                TWO_SNAPSHOTS,
            ),
            ("ALTER TABLE ... CREATE TAG", "CREATE TAG `historical-tag`", ref("TAG", 4567), TWO_SNAPSHOTS),
            (
                "ALTER TABLE ... CREATE TAG",
                "CREATE TAG IF NOT EXISTS `historical-tag`",
                ref("TAG", 1234),
                at("TAG"),
            ),
            (
                "ALTER TABLE ... CREATE TAG",
                "CREATE OR REPLACE TAG `historical-tag`",
                ref("TAG", 4567),
                at("TAG"),
            ),
            (
                "ALTER TABLE ... CREATE TAG",
                "CREATE TAG `historical-tag` AS OF VERSION 1234",
                ref("TAG", 1234),
                TWO_SNAPSHOTS,
            ),
            (
                "ALTER TABLE ... CREATE TAG",
                "CREATE TAG `historical-tag` AS OF VERSION 1234 RETAIN 365 DAYS",
                ref("TAG", 1234, 365 * DAY),
                TWO_SNAPSHOTS,
            ),
            (
                "ALTER TABLE ... REPLACE BRANCH",
                "REPLACE BRANCH `audit-branch` AS OF VERSION 4567 RETAIN 60 DAYS",
                ref("BRANCH", 4567, 60 * DAY),
                at("BRANCH"),
            ),
            (
                "ALTER TABLE ... REPLACE TAG",
                "REPLACE TAG `historical-tag` AS OF VERSION 4567 RETAIN 60 DAYS",
                ref("TAG", 4567, 60 * DAY),
                at("TAG"),
            ),
            ("ALTER TABLE ... DROP BRANCH", "DROP BRANCH `audit-branch`", [], at("BRANCH")),
            ("ALTER TABLE ... DROP TAG", "DROP TAG `historical-tag`", [], at("TAG")),
        )
    ),
]

CASES = [*PARTITION_FIELDS, *WRITE_ORDER, *IDENTIFIERS, *REFS]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_statement_of_the_page(case: Case, world: World, snapshot_ids: Callable[..., None]) -> None:
    snapshot_ids(*SNAPSHOTS)
    case.run(world)


@pytest.mark.parametrize("change", [pytest.param("SET IDENTIFIER FIELDS other", id="identifier fields are NOT NULL")])
def test_what_the_page_says_cannot_be_is_refused(world: World, change: str) -> None:
    refused(world, change, KEYS)
