"""Row lineage of format 3: a row keeps its id for as long as it lives, and knows which commit updated it last."""

from __future__ import annotations

import pytest

from tests.spark.changes.layouts import COPY, MERGE, modes, new

_COLUMNS = "id, _row_id, _last_updated_sequence_number"


@pytest.fixture
def lineage(spark, table, name):
    """By id the row id and the sequence number, which all ways of reading agree about."""

    def read():
        scan = table().scan(columns=["id", "_row_id", "_last_updated_sequence_number"])
        found = {row["id"]: tuple(row.values())[1:] for row in scan.to_arrow().to_pylist()}
        for way in ("auto", "arrow"):
            rows = spark.read.option("frazil.scan", way).table(name).selectExpr(*_COLUMNS.split(", ")).collect()
            assert {row[0]: tuple(row)[1:] for row in rows} == found, way
        ids = [row_id for row_id, _ in found.values()]
        assert len(set(ids)) == len(ids)
        return found

    return read


def _rows(*ids):
    return [{"id": number, "v": number, "p": number % 2} for number in ids]


@pytest.fixture(params=[COPY, MERGE])
def made(request, lake, name):
    """A table with two files of rows 0 to 7, in each of its two partitions."""
    table = new(lake, name, 3, request.param, ["p"], "id BIGINT, v BIGINT, p INT")
    table.append(_rows(0, 1, 2, 3))
    table.append(_rows(4, 5, 6, 7))
    return table


def _sequence(table):
    return table().current_snapshot.sequence_number


def test_update_keeps_ids(spark, made, name, table, lineage):
    before = lineage()
    spark.sql(f"UPDATE {name} SET v = v + 1 WHERE id IN (1, 4)")
    now = lineage()
    assert now == {**before, 1: (before[1][0], _sequence(table)), 4: (before[4][0], _sequence(table))}
    spark.sql(f"UPDATE {name} SET p = 5 WHERE id >= 4")  # rows move to another partition, one a second time
    assert lineage() == {**now, **{number: (before[number][0], _sequence(table)) for number in (4, 5, 6, 7)}}


def test_delete_leaves_the_others_as_they_are(spark, made, name, lineage):
    before = lineage()
    spark.sql(f"DELETE FROM {name} WHERE id IN (0, 5) OR id + 0 = 6")
    assert lineage() == {number: found for number, found in before.items() if number not in (0, 5, 6)}
    spark.sql(f"DELETE FROM {name} WHERE id % 7 = 2")
    assert lineage() == {number: before[number] for number in (1, 3, 4, 7)}


def test_merge_keeps_ids_of_updated_rows_and_gives_new_ones_to_inserted_rows(spark, made, name, table, lineage):
    before, fresh = lineage(), made.metadata.next_row_id
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT * FROM VALUES (1L, 0L), (2L, 1L), (100L, 0L), (101L, 0L) AS s(id, gone)) s"
        " ON t.id = s.id WHEN MATCHED AND gone = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = -1"
        " WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, 0, CAST(s.id % 2 AS INT))"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 7 THEN UPDATE SET v = -7"
    )
    now, number = lineage(), _sequence(table)
    inserted = {one: now.pop(one) for one in (100, 101)}
    assert now == {
        **{one: before[one] for one in (0, 3, 4, 5, 6)},
        1: (before[1][0], number),
        7: (before[7][0], number),
    }
    assert all(row_id >= fresh and at == number for row_id, at in inserted.values())
    assert table().metadata.next_row_id > max(row_id for row_id, _ in inserted.values())


def test_a_merge_that_only_inserts(spark, made, name, table, lineage):
    before, fresh = lineage(), made.metadata.next_row_id
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT id FROM range(6, 10)) s ON t.id = s.id"
        " WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, 1)"
    )
    now = lineage()
    assert {number: now[number] for number in before} == before
    assert {now[8], now[9]} == {(fresh, _sequence(table)), (fresh + 1, _sequence(table))}


@pytest.mark.parametrize("mode", [COPY, MERGE])
def test_rows_of_an_upgraded_table_have_ids_that_stay(spark, lake, name, table, lineage, mode):
    made = new(lake, name, 2, mode, columns="id BIGINT, v BIGINT, p INT")
    made.append(_rows(0, 1, 2, 3))
    spark.sql(f"DELETE FROM {name} WHERE id = 0 OR id * 2 = 0")
    table().upgrade_format_version().to(3).commit()
    spark.sql(f"UPDATE {name} SET v = 9 WHERE id = 1")
    first = lineage()
    assert first[1][1] == _sequence(table)
    assert all(row_id is not None for row_id, _ in first.values())
    spark.sql(f"UPDATE {name} SET v = 10 WHERE id IN (1, 2)")
    number = _sequence(table)
    assert lineage() == {1: (first[1][0], number), 2: (first[2][0], number), 3: first[3]}
    table().update_properties().set_all(modes(COPY if mode == MERGE else MERGE)).commit()
    spark.sql(f"DELETE FROM {name} WHERE id % 2 = 1 AND v = 10")
    assert lineage() == {2: (first[2][0], number), 3: first[3]}
