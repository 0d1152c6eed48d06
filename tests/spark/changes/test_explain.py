"""EXPLAIN of row-level commands shows what they read, in every mode of Spark's, and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from frazil.lake import Lake

COMMANDS = {
    "DELETE": "DELETE FROM {t} WHERE id = 3",
    "UPDATE": "UPDATE {t} SET a = 'x' WHERE id < 3",
    "MERGE": "MERGE INTO {t} t USING (SELECT 3L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
}


@pytest.fixture
def explained(lake: Lake, name: str) -> str:
    made = lake.create_table(name.removeprefix("lake."), "id BIGINT, a STRING", properties={"format-version": "3"})
    made.append([{"id": 1, "a": "a"}, {"id": 3, "a": "b"}])
    return name


@pytest.mark.parametrize("mode", ["", "EXTENDED", "FORMATTED", "COST", "CODEGEN"])
@pytest.mark.parametrize("kind", COMMANDS)
def test_the_rows_that_change_are_planned(spark: Any, explained: str, kind: str, mode: str) -> None:
    found = spark.sql(f"EXPLAIN {mode} {COMMANDS[kind].format(t=explained)}")
    assert found.columns == ["plan"]
    told = found.collect()[0][0]
    assert told.startswith(
        f"{kind} of {explained.removeprefix('lake.')}: reads these rows, and rewrites the files that they are in"
    )
    assert ("WholeStageCodegen" if mode == "CODEGEN" else "Scan parquet ") in told
    assert sorted(map(tuple, spark.table(explained).collect())) == [(1, "a"), (3, "b")]


def test_the_mode_of_the_table_is_told(spark: Any, explained: str) -> None:
    spark.sql(f"ALTER TABLE {explained} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    told = spark.sql(f"EXPLAIN {COMMANDS['DELETE'].format(t=explained)}").collect()[0][0]
    assert "writes deletes beside their files" in told


def test_keyed_tables_tell_what_they_do(spark: Any, lake: Lake, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id BIGINT, a STRING, PRIMARY KEY (id)) USING mixed")
    told = spark.sql(f"EXPLAIN {COMMANDS['UPDATE'].format(t=name)}").collect()[0][0]
    assert told.startswith(
        f"UPDATE of {name.removeprefix('lake.')}: reads these rows, and writes deletes of their keys"
    )


def test_what_is_wrong_with_a_command_is_told_as_by_spark(spark: Any, explained: str) -> None:
    told = spark.sql(f"EXPLAIN EXTENDED UPDATE {explained} SET nope = 1").collect()[0][0]
    assert "UNRESOLVED_COLUMN" in told
    assert "nope" in told


def test_other_statements_are_explained_by_spark(spark: Any, explained: str) -> None:
    told = spark.sql(f"EXPLAIN SELECT * FROM {explained}").collect()[0][0]
    assert told.startswith("== Physical Plan ==")
