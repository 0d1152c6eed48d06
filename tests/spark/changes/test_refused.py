"""What cannot be done is refused, with the name at fault; then the table is as before and no file is left behind."""

from __future__ import annotations

import pytest

from frazil.errors import FrazilError
from tests.spark.changes.layouts import COPY, MERGE, WAYS, as_dicts, new

_DEFINITION = "id BIGINT NOT NULL, v INT, cat STRING NOT NULL, s STRUCT<a: INT NOT NULL, b: STRING>, d DECIMAL(4, 1)"
_ROWS = [(number, number * 10, "ab"[number % 2], {"a": number, "b": "x"}, None) for number in range(1, 5)]
_S = "(SELECT * FROM VALUES (1L, 5, 'q'), (9L, 6, 'r') AS s(id, v, cat)) s"
REFUSED: dict[str, tuple[str, str]] = {
    "two source rows": (
        (
            "MERGE INTO {t} t USING (SELECT id, n FROM VALUES (2L, 1), (2L, 2), (3L, 1) AS s(id, n)) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET v = n"
        ),
        r"MERGE_CARDINALITY_VIOLATION(?s:.*)id.*2",
    ),
    "two source rows, one to delete": (
        (
            "MERGE INTO {t} t USING (SELECT * FROM VALUES (2L, 1), (2L, 2) AS s(id, n)) s ON t.id = s.id"
            " WHEN MATCHED AND n = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = n"
        ),
        "MERGE_CARDINALITY_VIOLATION",
    ),
    "unknown column": ("UPDATE {t} SET nope = 1", "nope"),
    "unknown field": ("UPDATE {t} SET s.nope = 1", "nope"),
    "unknown column in condition": ("DELETE FROM {t} WHERE nope = 1", "nope"),
    "unknown column in merge": (
        f"MERGE INTO {{t}} t USING {_S} ON t.id = s.id WHEN MATCHED THEN UPDATE SET nope = 1",
        "nope",
    ),
    "unknown source column": (f"MERGE INTO {{t}} t USING {_S} ON t.id = s.nope WHEN MATCHED THEN DELETE", "nope"),
    "missing source column": (
        f"MERGE INTO {{t}} t USING {_S} ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "`?d`?|`?s`?",
    ),
    "column twice": ("UPDATE {t} SET v = 1, v = 2", "v"),
    "overflow": ("UPDATE {t} SET v = v + 2147483647 WHERE id = 3", "OVERFLOW|overflow"),
    "overflow in a cast": ("UPDATE {t} SET v = 3000000000 WHERE id = 3", "`v` due to an overflow"),
    "overflow of a decimal": ("UPDATE {t} SET d = 12345.6 WHERE id = 3", "`d` due to an overflow"),
    "overflow in merge": (
        f"MERGE INTO {{t}} t USING {_S} ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v + 2147483647",
        "OVERFLOW|overflow",
    ),
    "overflow in a cast of merge": (
        f"MERGE INTO {{t}} t USING {_S} ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.id + 3000000000",
        "`v` due to an overflow",
    ),
    "text for a number": ("UPDATE {t} SET v = '7' WHERE id = 3", "CANNOT_SAFELY_CAST(?s:.*)`v`"),
    "boolean for a number": ("UPDATE {t} SET v = true WHERE id = 3", "CANNOT_SAFELY_CAST(?s:.*)`v`"),
    "text for a number in merge": (
        f"MERGE INTO {{t}} t USING {_S} ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = '7'",
        "CANNOT_SAFELY_CAST(?s:.*)`v`",
    ),
    "struct of other fields": ("UPDATE {t} SET s = named_struct('no', 1, 'none', 'x')", "CANNOT_FIND_DATA(?s:.*)`s`"),
    "null": ("UPDATE {t} SET cat = NULL WHERE id = 3", r"NOT_NULL(?s:.*)cat"),
    "null of an expression": ("UPDATE {t} SET cat = nullif(cat, 'a') WHERE id > 0", r"NOT_NULL(?s:.*)cat"),
    "null of a field": ("UPDATE {t} SET s.a = CAST(NULL AS INT) WHERE id = 3", r"NOT_NULL(?s:.*)s\na"),
    "null in merge": (
        f"MERGE INTO {{t}} t USING {_S} ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
        "cat",
    ),
    "null by merge": (
        (
            f"MERGE INTO {{t}} t USING {_S} ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET cat = CASE WHEN s.v = 5 THEN CAST(NULL AS STRING) ELSE 'x' END"
        ),
        r"NOT_NULL(?s:.*)cat",
    ),
    "type": ("UPDATE {t} SET v = 'text'", "CAST_INVALID_INPUT|INCOMPATIBLE_DATA|`v`"),
    "type of a struct": ("UPDATE {t} SET s = 1", "`?s`?"),
    "condition is no truth": ("UPDATE {t} SET v = 1 WHERE id", "id|BOOLEAN"),
    "fails at one row": ("UPDATE {t} SET v = IF(id = 3, CAST(raise_error('boom') AS INT), 1)", "boom"),
    "fails in a condition": ("DELETE FROM {t} WHERE IF(id = 3, CAST(raise_error('boom') AS BOOLEAN), TRUE)", "boom"),
    "subquery in a clause": (
        f"MERGE INTO {{t}} t USING {_S} ON t.id = s.id WHEN MATCHED AND s.v = (SELECT 5) THEN DELETE",
        "UNSUPPORTED_MERGE_CONDITION",
    ),
    "ambiguous": (f"MERGE INTO {{t}} t USING {_S} ON id = id WHEN MATCHED THEN DELETE", "AMBIGUOUS_REFERENCE"),
    "unknown column in a subquery": ("UPDATE {t} SET v = 1 WHERE id IN (SELECT nope FROM range(3))", "nope"),
}


def _cases() -> list[object]:
    cases: list[object] = []
    for number, what in enumerate(REFUSED):
        for index, (version, mode) in enumerate(WAYS):
            marks = () if number % len(WAYS) == index else pytest.mark.slow
            cases.append(pytest.param(what, version, mode, id=f"{what}-v{version}-{mode}", marks=marks))
    return cases


@pytest.mark.parametrize(("what", "version", "mode"), _cases())
def test_what_is_refused_leaves_nothing(spark, lake, name, table, on_disk, what, version, mode):
    from pyspark.errors import PySparkException

    new(lake, name, version, mode, columns=_DEFINITION).append(as_dicts(_ROWS, ("id", "v", "cat", "s", "d")))
    before, files = table().metadata_location, on_disk()
    statement, at_fault = REFUSED[what]
    with pytest.raises((PySparkException, FrazilError), match=at_fault) as error:
        spark.sql(statement.format(t=name))
    assert "INTERNAL_ERROR" not in str(error.value)
    assert table().metadata_location == before
    assert on_disk() == files


@pytest.mark.parametrize("mode", [COPY, MERGE])
def test_only_branches_of_tables_are_changed(spark, lake, name, table, on_disk, mode):
    new(lake, name, 2, mode, columns="id BIGINT, v INT").append([{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    table().manage_refs().create_tag("v1").commit()
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW on_top AS SELECT * FROM {name}")
    at = table().current_snapshot.snapshot_id
    before, files = table().metadata_location, on_disk()
    for target in (f"{name}.tag_v1", f"{name}.snapshot_id_{at}", f"{name}.files", f"{name}.snapshots", "on_top"):
        key = {"files": "record_count", "snapshots": "snapshot_id"}.get(target.rsplit(".", 1)[-1], "id")
        for statement in (
            f"DELETE FROM {target} WHERE {key} % 2 = 1",
            f"UPDATE {target} SET {key} = 7",
            f"MERGE INTO {target} t USING (SELECT 1L AS k) s ON t.{key} = s.k WHEN MATCHED THEN DELETE",
        ):
            with pytest.raises(Exception, match=r"cannot be changed|EXPECT_TABLE_NOT_VIEW.*`on_top`"):
                spark.sql(statement)
    spark.sql("DROP VIEW on_top")
    assert table().metadata_location == before
    assert on_disk() == files


def test_version_1_has_no_deletes_beside_files(spark, lake, name, table, on_disk):
    new(lake, name, 1, MERGE, columns="id BIGINT, v INT").append([{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    files = on_disk()
    for statement in (
        "DELETE FROM {t} WHERE id % 2 = 1",
        "UPDATE {t} SET v = 3 WHERE id = 1",
        "MERGE INTO {t} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 0",
    ):
        with pytest.raises(FrazilError, match="format version 1"):
            spark.sql(statement.format(t=name))
    assert on_disk() == files
    spark.sql(f"DELETE FROM {name}")  # whole files go by metadata alone, in any version
    assert table().scan().to_arrow().num_rows == 0
