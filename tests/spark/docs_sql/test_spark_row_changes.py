"""MERGE, DELETE and UPDATE as Iceberg's page "Spark Writes" (docs/docs/spark-writes.md) has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.spark.docs_sql.cases import Case, World

TARGET = (
    "CREATE TABLE prod.db.target (id bigint, count bigint, status string) USING iceberg;"
    " INSERT INTO prod.db.target VALUES (1, 10, 'ok'), (2, NULL, 'ok'), (3, 30, 'ok');"
    " CREATE TABLE prod.db.changes (id bigint, op string, count bigint, status string) USING iceberg;"
    " INSERT INTO prod.db.changes VALUES (1, 'delete', 0, 's'), (2, 'increment', 0, 's'), (3, 'increment', 0, 's'),"
    " (9, 'new', 90, 's')"
)
ROWS = "SELECT * FROM prod.db.target"
MERGE = "MERGE INTO prod.db.target t USING (SELECT * FROM prod.db.changes) s ON t.id = s.id"
UPDATES = (
    " WHEN MATCHED AND s.op = 'delete' THEN DELETE"
    " WHEN MATCHED AND t.count IS NULL AND s.op = 'increment' THEN UPDATE SET t.count = 0"
    " WHEN MATCHED AND s.op = 'increment' THEN UPDATE SET t.count = t.count + 1"
)
EVENTS = (
    "CREATE TABLE prod.db.all_events (id bigint, session_time bigint, ignored boolean) USING iceberg;"
    " INSERT INTO prod.db.all_events VALUES (1, 5, false), (2, 15, false), (3, 25, false);"
    " CREATE TABLE prod.db.good_events (session_time bigint) USING iceberg;"
    " INSERT INTO prod.db.good_events VALUES (15), (40)"
)
ORDERS = (
    "CREATE TABLE prod.db.orders (oid bigint, order_status string) USING iceberg;"
    " INSERT INTO prod.db.orders VALUES (1, 'sent'), (2, 'sent'), (3, 'sent');"
    " CREATE TABLE prod.db.returned_orders (oid bigint) USING iceberg; INSERT INTO prod.db.returned_orders VALUES (2)"
)
TIMES = (
    "CREATE TABLE prod.db.table (id bigint, ts timestamp, c1 string, c2 string) USING iceberg"
    " PARTITIONED BY (days(ts));"
    " INSERT INTO prod.db.table VALUES (1, timestamp '2020-04-30 23:00:00', 'a', 'b'),"
    " (2, timestamp '2020-05-01 00:00:00', 'a', 'b'), (3, timestamp '2020-05-31 23:59:59', 'a', 'b'),"
    " (4, timestamp '2020-06-01 00:00:00', 'a', 'b')"
)
MAY = "ts >= '2020-05-01 00:00:00' and ts < '2020-06-01 00:00:00'"
BRANCH = (
    "CREATE TABLE prod.db.table (id bigint, val string) USING iceberg;"
    " INSERT INTO prod.db.table VALUES (1, 'a'), (2, 'b'); ALTER TABLE prod.db.table CREATE BRANCH audit;"
    " CREATE TABLE prod.db.source (id bigint, val string) USING iceberg;"
    " INSERT INTO prod.db.source VALUES (2, 's'), (3, 't')"
)

CASES = [
    Case(
        "MERGE INTO",
        f"{MERGE}{UPDATES} WHEN NOT MATCHED THEN INSERT (id, count, status) VALUES (s.id, s.count, s.status)",
        [(2, 0, "ok"), (3, 31, "ok"), (9, 90, "s")],
        ROWS,
        TARGET,
    ),
    Case(
        "MERGE INTO, INSERT *",
        f"{MERGE} WHEN MATCHED AND s.op = 'delete' THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        [(2, None, "ok"), (3, 30, "ok"), (9, 90, "s")],
        ROWS,
        TARGET,
    ),
    Case(
        "MERGE INTO, inserts with a condition",
        f"{MERGE} WHEN NOT MATCHED AND s.count > 50 THEN INSERT (id, count) VALUES (s.id, 1)",
        [(1, 10, "ok"), (2, None, "ok"), (3, 30, "ok"), (9, 1, None)],
        ROWS,
        TARGET,
    ),
    Case(
        "MERGE INTO, not matched by source",
        "MERGE INTO prod.db.target t USING (SELECT * FROM prod.db.changes WHERE id <> 3) s ON t.id = s.id"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET status = 'invalid'",
        [(1, 10, "ok"), (2, None, "ok"), (3, 30, "invalid")],
        ROWS,
        TARGET,
    ),
    Case(
        "DELETE FROM",
        f"DELETE FROM prod.db.table WHERE {MAY}",
        [(1,), (4,)],
        "SELECT id FROM prod.db.table",
        TIMES,
    ),
    Case(
        "DELETE FROM, by a subquery",
        "DELETE FROM prod.db.all_events WHERE session_time < (SELECT min(session_time) FROM prod.db.good_events)",
        [(2,), (3,)],
        "SELECT id FROM prod.db.all_events",
        EVENTS,
    ),
    Case(
        "DELETE FROM, where exists",
        "DELETE FROM prod.db.orders AS t1 WHERE EXISTS (SELECT oid FROM prod.db.returned_orders WHERE t1.oid = oid)",
        [(1,), (3,)],
        "SELECT oid FROM prod.db.orders",
        ORDERS,
    ),
    Case(
        "UPDATE",
        f"UPDATE prod.db.table SET c1 = 'update_c1', c2 = 'update_c2' WHERE {MAY}",
        [(1, "a", "b"), (2, "update_c1", "update_c2"), (3, "update_c1", "update_c2"), (4, "a", "b")],
        "SELECT id, c1, c2 FROM prod.db.table",
        TIMES,
    ),
    Case(
        "UPDATE, by a subquery",
        "UPDATE prod.db.all_events SET session_time = 0, ignored = true"
        " WHERE session_time < (SELECT min(session_time) FROM prod.db.good_events)",
        [(1, 0, True), (2, 15, False), (3, 25, False)],
        "SELECT * FROM prod.db.all_events",
        EVENTS,
    ),
    Case(
        "UPDATE, where exists",
        "UPDATE prod.db.orders AS t1 SET order_status = 'returned'"
        " WHERE EXISTS (SELECT oid FROM prod.db.returned_orders WHERE t1.oid = oid)",
        [(1, "sent"), (2, "returned"), (3, "sent")],
        "SELECT * FROM prod.db.orders",
        ORDERS,
    ),
    Case(
        "Writing to branches, MERGE",
        "MERGE INTO prod.db.table.branch_audit t USING (SELECT * FROM prod.db.source) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [(1, "a"), (2, "s"), (3, "t")],
        "SELECT * FROM prod.db.table.branch_audit",
        BRANCH,
    ),
    Case(
        "Writing to branches, UPDATE",
        "UPDATE prod.db.table.branch_audit AS t1 SET val = 'c'",
        [(1, "c"), (2, "c")],
        "SELECT * FROM prod.db.table.branch_audit",
        BRANCH,
    ),
    Case(
        "Writing to branches, DELETE",
        "DELETE FROM prod.db.table.branch_audit WHERE id = 2",
        [(1, "a")],
        "SELECT * FROM prod.db.table.branch_audit",
        BRANCH,
    ),
]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_statement_of_the_page(case: Case, world: World, mode: str) -> None:
    properties = ", ".join(f"'write.{command}.mode' = '{mode}'" for command in ("delete", "update", "merge"))
    first = case.setup.split(";")[0]
    replace(case, setup=case.setup.replace(first, f"{first} TBLPROPERTIES ({properties})", 1)).run(world)
