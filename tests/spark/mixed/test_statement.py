"""CREATE TABLE with PRIMARY KEY, in texts that people write."""

from __future__ import annotations

import pytest

from frazil.spark.mixed.statement import keyed

PROPERTY = "'primary-key' = "


@pytest.mark.parametrize(
    ("text", "table", "key"),
    [
        ("create table db.t (id int, primary key(id)) using mixed", ("db", "t"), "id"),
        ("CREATE TABLE IF NOT EXISTS lake.db.t (id INT, x INT, PRIMARY KEY (id, x)) USING mixed", 3, "id,x"),
        ("CREATE OR REPLACE TABLE `a b`.`c``d` (`odd id` INT, PRIMARY KEY (`odd id`)) USING MIXED", 2, "odd id"),
        ("REPLACE TABLE lake.db.t (id INT, PRIMARY KEY (id)) USING mixed TBLPROPERTIES ('a' = 'b')", 3, "id"),
        ("CREATE TABLE t (id INT, n STRUCT<a: INT, b: DECIMAL(3, 1)>, PRIMARY KEY (id)) USING mixed", 1, "id"),
        ("CREATE TABLE t PRIMARY KEY (id) USING mixed PARTITIONED BY (d) AS SELECT 1 AS id, 2 AS d", 1, "id"),
        ("-- PRIMARY KEY (a)\nCREATE /* x */ TABLE t (id INT, -- the key\n PRIMARY KEY (id)) USING mixed", 1, "id"),
        ("CREATE TABLE t (id INT, CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED) USING mixed", 1, "id"),
        ("CREATE TABLE t (id INT COMMENT 'it''s, PRIMARY KEY (b)', PRIMARY KEY (id)) USING mixed", 1, "id"),
    ],
)
def test_the_key_becomes_a_property(text: str, table: object, key: str) -> None:
    found = keyed(text)
    assert found is not None
    assert found.table == table or len(found.table) == table
    assert found.provider.lower() == "mixed"
    assert f"{PROPERTY}'{key}'" in found.text
    assert found.text.upper().count("PRIMARY KEY (") == text.upper().count("PRIMARY KEY (") - 1 or "key(id)" in text
    assert found.text.count("TBLPROPERTIES") == 1
    assert not any(word in found.text for word in ("CONSTRAINT", "ENFORCED", ",)"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'CREATE TABLE t (id INT, PRIMARY KEY (id)) USING mixed'",
        "CREATE TABLE t (id INT) USING mixed COMMENT 'PRIMARY KEY (id)'",
        "CREATE TABLE t USING mixed AS SELECT 1 AS id, 'x' AS PRIMARY",
        "CREATE TABLE t (id INT, PRIMARY KEY (id))",
        "CREATE TABLE t (id INT, PRIMARY KEY ()) USING mixed",
        "CREATE TABLE t (id INT, PRIMARY KEY (id",
        "CREATE TABLE",
        "CREATE VIEW v AS SELECT 1",
        "",
    ],
)
def test_other_statements_are_left_as_they_are(text: str) -> None:
    assert keyed(text) is None
