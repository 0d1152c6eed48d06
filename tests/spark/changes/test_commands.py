"""DELETE, UPDATE and MERGE on tables of every make: what is left are the rows that a SELECT gives from those before."""

from __future__ import annotations

import pytest

from tests.spark.changes.conftest import of_all
from tests.spark.changes.layouts import LAYOUTS, WAYS


def _update(condition: str, **given: str) -> tuple[str, str]:
    """An UPDATE, and the SELECT of what it leaves."""
    columns = [
        f"CASE WHEN {condition} THEN {given[column]} ELSE {column} END AS {column}" if column in given else column
        for column in ("id", "cat", "v", "x", "ts")
    ]
    assignments = ", ".join(f"{column} = {value}" for column, value in given.items())
    return f"UPDATE {{t}} SET {assignments} WHERE {condition}", f"SELECT {', '.join(columns)} FROM old"


_UPSERTED = "SELECT * FROM old WHERE id NOT IN (SELECT id FROM src) UNION ALL SELECT * FROM src"
STATEMENTS: dict[str, tuple[str, str]] = {
    # DELETE
    "delete": ("DELETE FROM {t} WHERE v > 40 OR x < 0", "SELECT * FROM old WHERE (v > 40 OR x < 0) IS NOT TRUE"),
    "delete expression": ("DELETE FROM {t} WHERE v % 20 = 0", "SELECT * FROM old WHERE (v % 20 = 0) IS NOT TRUE"),
    "delete nulls": ("DELETE FROM {t} WHERE v IS NULL", "SELECT * FROM old WHERE v IS NOT NULL"),
    "delete alias": ("DELETE FROM {t} AS o WHERE o.id = 3 AND o.cat = 'a'", "SELECT * FROM old WHERE id <> 3"),
    "delete partition": ("DELETE FROM {t} WHERE cat = 'a'", "SELECT * FROM old WHERE cat IS DISTINCT FROM 'a'"),
    "delete in": (
        "DELETE FROM {t} WHERE id IN (SELECT id FROM src WHERE v IS NOT NULL)",
        "SELECT * FROM old WHERE id NOT IN (2, 3)",
    ),
    "delete not in null": ("DELETE FROM {t} WHERE v NOT IN (SELECT v FROM src)", "SELECT * FROM old"),
    "delete not in": (
        "DELETE FROM {t} WHERE id NOT IN (SELECT id FROM src)",
        "SELECT * FROM old WHERE id IN (2, 3, 5)",
    ),
    "delete exists": (
        "DELETE FROM {t} o WHERE EXISTS (SELECT 1 FROM src WHERE src.id = o.id AND src.cat = o.cat)",
        "SELECT * FROM old WHERE id <> 2",
    ),
    "delete not exists": (
        "DELETE FROM {t} o WHERE NOT EXISTS (SELECT 1 FROM src WHERE src.id = o.id)",
        "SELECT * FROM old WHERE id IN (2, 3, 5)",
    ),
    "delete scalar": (
        "DELETE FROM {t} WHERE id = (SELECT min(id) FROM src) OR v = (SELECT max(v) FROM {t})",
        "SELECT * FROM old WHERE id NOT IN (2, 8)",
    ),
    "delete hidden": (
        "DELETE FROM {t} WHERE _pos >= 0 AND id < 3",
        "SELECT * FROM old WHERE id >= 3",
    ),
    "delete everything": ("DELETE FROM {t}", "SELECT * FROM old WHERE FALSE"),
    # UPDATE
    "update": _update("v > 40", v="v * 2", x="NULL"),
    "update several": _update("cat = 'a' AND id < 7", v="id + v", x="coalesce(x, 0) + 1", cat="upper(cat)"),
    "update all": ("UPDATE {t} SET v = -id", "SELECT id, cat, -id AS v, x, ts FROM old"),
    "update moves": _update("cat = 'a' OR cat IS NULL", cat="'moved'", ts="TIMESTAMP '2025-05-05 05:05:05'"),
    "update key": _update("id IN (1, 8)", id="id + 1000"),
    "update swaps": (
        "UPDATE {t} SET v = id, x = v WHERE id > 2",
        "SELECT id, cat, IF(id > 2, id, v) AS v, IF(id > 2, CAST(v AS DOUBLE), x) AS x, ts FROM old",
    ),
    "update alias": (
        "UPDATE {t} AS o SET o.v = o.id WHERE o.id = 4",
        "SELECT id, cat, IF(id = 4, id, v) AS v, x, ts FROM old",
    ),
    "update in": _update("id IN (SELECT id FROM src)", v="0L"),
    "update scalar": (
        "UPDATE {t} SET v = 0 WHERE id > (SELECT avg(id) FROM src WHERE id < 10)",
        "SELECT id, cat, IF(id > 3, 0L, v) AS v, x, ts FROM old",
    ),
    "update by a subquery": (
        "UPDATE {t} SET v = (SELECT max(id) FROM src) WHERE x IS NULL",
        "SELECT id, cat, IF(x IS NULL, 21L, v) AS v, x, ts FROM old",
    ),
    "update default": (
        "UPDATE {t} SET cat = DEFAULT WHERE id < 3",
        "SELECT id, IF(id < 3, NULL, cat) AS cat, v, x, ts FROM old",
    ),
    "update nothing": ("UPDATE {t} SET v = 0 WHERE id = 99", "SELECT * FROM old"),
    "update null": ("UPDATE {t} SET v = 0 WHERE CAST(NULL AS BOOLEAN)", "SELECT * FROM old"),
    # MERGE
    "merge upsert": (
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        _UPSERTED,
    ),
    "merge update": (
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.v = s.v + t.v, x = s.x",
        (
            "SELECT o.id, o.cat, IF(s.id IS NULL, o.v, s.v + o.v) AS v, IF(s.id IS NULL, o.x, s.x) AS x, o.ts"
            " FROM old o LEFT JOIN src s ON o.id = s.id"
        ),
    ),
    "merge delete": (
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "SELECT * FROM old WHERE id NOT IN (2, 3, 5)",
    ),
    "merge insert": (
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "SELECT * FROM old UNION ALL SELECT * FROM src WHERE id >= 20",
    ),
    "merge insert some": (
        (
            "MERGE INTO {t} USING src s ON {t}.id = s.id WHEN NOT MATCHED AND s.cat = 'a' THEN INSERT (v, id) "
            "VALUES (s.id, s.v)"
        ),
        "SELECT * FROM old UNION ALL SELECT 200L, NULL, 20L, NULL, NULL",
    ),
    "merge clauses": (
        (
            "MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED AND s.v IS NULL THEN DELETE"
            " WHEN MATCHED AND t.cat = 'b' THEN UPDATE SET v = s.v WHEN MATCHED THEN UPDATE SET cat = s.cat"
            " WHEN NOT MATCHED AND s.id = 20 THEN INSERT (id) VALUES (s.id)"
            " WHEN NOT MATCHED THEN INSERT (id, cat) VALUES (s.id + 1, 'other')"
        ),
        (
            "SELECT id, IF(id = 3, 'c', cat) AS cat, IF(id = 2, 21L, v) AS v, x, ts FROM old WHERE id <> 5"
            " UNION ALL SELECT * FROM VALUES (20L, NULL, NULL, NULL, NULL), (22L, 'other', NULL, NULL, NULL)"
        ),
    ),
    "merge by source": (
        (
            "MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
            " WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id > 6 THEN DELETE"
            " WHEN NOT MATCHED BY SOURCE AND t.cat = 'a' THEN UPDATE SET v = -1"
        ),
        (
            "SELECT o.id, o.cat, CASE WHEN s.id IS NOT NULL THEN s.v WHEN o.cat = 'a' THEN -1 ELSE o.v END, o.x, o.ts"
            " FROM old o LEFT JOIN src s ON o.id = s.id WHERE s.id IS NOT NULL OR o.id <= 6"
            " UNION ALL SELECT * FROM src WHERE id >= 20"
        ),
    ),
    "merge by source only": (
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE",
        "SELECT * FROM old WHERE id IN (2, 3, 5)",
    ),
    "merge itself": (
        (
            "MERGE INTO {t} t USING (SELECT id + 1 AS id, v FROM {t} WHERE id IN (1, 4, 8)) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
        ),
        (
            "SELECT id, cat, CASE id WHEN 2 THEN 10L WHEN 5 THEN 40L ELSE v END AS v, x, ts FROM old"
            " UNION ALL SELECT 9L, NULL, 80L, NULL, NULL"
        ),
    ),
    "merge with": (
        (
            "WITH w AS (SELECT id AS k, v, 'more' AS more FROM src WHERE id < 21)"
            " MERGE INTO {t} t USING w ON t.id = w.k WHEN MATCHED THEN UPDATE SET cat = w.more"
            " WHEN NOT MATCHED THEN INSERT (id, cat) VALUES (k, more)"
        ),
        (
            "SELECT id, IF(id IN (2, 3, 5), 'more', cat) AS cat, v, x, ts FROM old"
            " UNION ALL SELECT 20L, 'more', NULL, NULL, NULL"
        ),
    ),
    "merge extra": (
        (
            "MERGE INTO {t} t USING (SELECT *, 1 AS extra FROM src) s ON t.id = s.id AND s.extra = 1"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ),
        _UPSERTED,
    ),
    "merge other order": (
        (
            "MERGE INTO {t} t USING (SELECT ts, x, CAST(v AS INT) AS v, cat, CAST(id AS INT) AS ID FROM src) s"
            " ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ),
        _UPSERTED,
    ),
    "merge partition": (
        (
            "MERGE INTO {t} t USING src s ON t.id = s.id AND t.cat = 'b' AND t.ts IS NOT NULL"
            " WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.id < 6 THEN INSERT (id, v) VALUES (s.id * 100, 1)"
        ),
        (
            "SELECT * FROM old WHERE id <> 2 UNION ALL"
            " SELECT * FROM VALUES (300L, NULL, 1L, NULL, NULL), (500L, NULL, 1L, NULL, NULL)"
        ),
    ),
    "merge false": (
        "MERGE INTO {t} t USING src s ON FALSE WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        "SELECT * FROM old UNION ALL SELECT * FROM src",
    ),
    "merge true": (
        (
            "MERGE INTO {t} t USING (SELECT 7 AS n) s ON TRUE WHEN MATCHED AND t.id = s.n THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET v = n"
        ),
        "SELECT id, cat, 7L AS v, x, ts FROM old WHERE id <> 7",
    ),
    "merge nulls": (
        (
            "MERGE INTO {t} t USING (SELECT CAST(NULL AS STRING) AS cat, 1000L AS id) s ON t.cat = s.cat"
            " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
        ),
        "SELECT * FROM old UNION ALL SELECT 1000L, NULL, NULL, NULL, NULL",
    ),
    "merge null safe": (
        (
            "MERGE INTO {t} t USING (SELECT CAST(NULL AS STRING) AS cat) s ON t.cat <=> s.cat"
            " WHEN MATCHED THEN UPDATE SET cat = 'none'"
        ),
        "SELECT id, coalesce(cat, 'none') AS cat, v, x, ts FROM old",
    ),
    "merge nothing": (
        (
            "MERGE INTO {t} t USING (SELECT * FROM src WHERE FALSE) s ON t.id = s.id"
            " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
        ),
        "SELECT * FROM old",
    ),
    "merge nothing, by source": (
        (
            "MERGE INTO {t} t USING (SELECT * FROM src WHERE FALSE) s ON t.id = s.id"
            " WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.id < 3 THEN DELETE"
        ),
        "SELECT * FROM old WHERE id >= 3",
    ),
    "merge expression keys": (
        "MERGE INTO {t} t USING src s ON t.id = s.id + 1 AND t.id * 1 = s.id + 1 WHEN MATCHED THEN UPDATE SET v = s.v",
        "SELECT id, cat, CASE id WHEN 3 THEN 21L WHEN 4 THEN 31L WHEN 6 THEN NULL ELSE v END AS v, x, ts FROM old",
    ),
    "merge twice by one delete": (
        (
            "MERGE INTO {t} t USING (SELECT * FROM src UNION ALL SELECT * FROM src) s ON t.id = s.id"
            " WHEN MATCHED THEN DELETE"
        ),
        "SELECT * FROM old WHERE id NOT IN (2, 3, 5)",
    ),
}
_EVERY = [(layout, *way) for layout in LAYOUTS for way in WAYS]


def _some() -> list[object]:
    """Each statement on one make of table, and each make by some statement; the others are slow."""
    cases: list[object] = []
    for number, what in enumerate(STATEMENTS):
        for index, (layout, version, mode) in enumerate(_EVERY):
            now = number * 7 % len(_EVERY) == index
            marks = () if now else pytest.mark.slow
            cases.append(
                pytest.param(what, layout, version, mode, id=f"{what}-{layout}-v{version}-{mode}", marks=marks)
            )
    return cases


@pytest.mark.parametrize(("what", "layout", "version", "mode"), _some())
def test_a_statement_leaves_the_rows_that_a_select_gives(
    spark, lake, name, rows, wanted, no_file_is_left, what, layout, version, mode
):
    statement, expected = STATEMENTS[what]
    LAYOUTS[layout](lake, name, version, mode)
    spark.sql(statement.format(t=name))
    assert of_all(rows()) == of_all(wanted(expected))
