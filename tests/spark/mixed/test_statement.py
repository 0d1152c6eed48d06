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
        ("CREATE TABLE t (PRIMARY KEY (id), id INT, x INT) USING mixed", 1, "id"),
        ("CREATE TABLE t (CONSTRAINT pk PRIMARY KEY (id, x) NOT ENFORCED RELY, id INT, x INT) USING mixed", 1, "id,x"),
        ("CREATE TABLE t (id INT, PRIMARY KEY (id), using INT) USING mixed", 1, "id"),
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
    ("columns", "left", "key"),
    [
        ("(id BIGINT PRIMARY KEY, v STRING)", "(id BIGINT, v STRING)", "id"),
        ("(PRIMARY KEY (id), id BIGINT, v STRING)", "(id BIGINT, v STRING)", "id"),
        ("(`odd id` INT primary key COMMENT 'PRIMARY KEY')", "(`odd id` INT COMMENT 'PRIMARY KEY')", "odd id"),
        ("(id INT PRIMARY KEY NOT NULL)", "(id INT NOT NULL)", "id"),
        ("(id INT NOT NULL CONSTRAINT pk PRIMARY KEY NOT ENFORCED NORELY)", "(id INT NOT NULL)", "id"),
        ("(constraint INT PRIMARY KEY)", "(constraint INT)", "constraint"),
        (
            "(s STRUCT<a: INT, b: MAP<INT, ARRAY<INT>>>, b BOOLEAN DEFAULT (1 < 2), id INT -- the key\n PRIMARY KEY)",
            "(s STRUCT<a: INT, b: MAP<INT, ARRAY<INT>>>, b BOOLEAN DEFAULT (1 < 2), id INT)",
            "id",
        ),
    ],
)
def test_a_key_may_stand_with_its_column_or_before_all(columns: str, left: str, key: str) -> None:
    found = keyed(f"CREATE TABLE t {columns} USING mixed")
    assert found is not None
    assert found.text == f"CREATE TABLE t {left} USING mixed TBLPROPERTIES ({PROPERTY}'{key}')"
    assert not found.is_keyed_twice


def test_a_list_of_nothing_but_the_key_goes_whole() -> None:
    found = keyed("CREATE TABLE t (PRIMARY KEY (id)) USING mixed AS SELECT 1 AS id")
    assert found is not None
    assert found.text == f"CREATE TABLE t  USING mixed TBLPROPERTIES ({PROPERTY}'id') AS SELECT 1 AS id"


@pytest.mark.parametrize(
    "columns",
    [
        "(id INT PRIMARY KEY, x INT PRIMARY KEY)",
        "(id INT PRIMARY KEY, x INT, PRIMARY KEY (x))",
        "(id INT PRIMARY KEY) PRIMARY KEY (id)",
    ],
)
def test_a_second_key_is_noticed(columns: str) -> None:
    found = keyed(f"CREATE TABLE t {columns} USING mixed")
    assert found is not None
    assert found.is_keyed_twice


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'CREATE TABLE t (id INT, PRIMARY KEY (id)) USING mixed'",
        "CREATE TABLE t (id INT) USING mixed COMMENT 'PRIMARY KEY (id)'",
        "CREATE TABLE t USING mixed AS SELECT 1 AS id, 'x' AS PRIMARY",
        "CREATE TABLE t (id INT, PRIMARY KEY (id))",
        "CREATE TABLE t (id INT, PRIMARY KEY ()) USING mixed",
        "CREATE TABLE t (id INT, PRIMARY KEY (id",
        "CREATE TABLE t (id INT PRIMARY KEY",
        "CREATE TABLE t (id INT PRIMARY) USING mixed",
        "CREATE TABLE t (s STRUCT<id: INT PRIMARY KEY>) USING mixed",
        "CREATE TABLE t (CONSTRAINT) USING mixed",
        "CREATE TABLE t () USING mixed",
        "CREATE TABLE t (id INT PRIMARY KEY) AS SELECT 1 AS id FROM a JOIN b USING (id)",
        "CREATE TABLE",
        "CREATE VIEW v AS SELECT 1",
        "",
    ],
)
def test_other_statements_are_left_as_they_are(text: str) -> None:
    assert keyed(text) is None
