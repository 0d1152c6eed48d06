"""DELETE, UPDATE and MERGE by Spark: pylance finds what Spark says."""

from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.errors import FrazilError

lance = pytest.importorskip("lance")


def rows(dataset, columns=("id", "word")):
    dataset.validate()
    return sorted(tuple(row[name] for name in columns) for row in dataset.to_table().to_pylist())


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def table(request, spark, lake, name):
    """Thirty rows in three fragments; its name in Spark."""
    stable = {"enable_stable_row_ids": str(request.param).lower()}
    made = lake.create_table(name[5:], "id BIGINT, word STRING", format="lance", properties=stable)
    for start in (0, 10, 20):
        made.append([{"id": n, "word": "old"} for n in range(start, start + 10)])
    return name


def row_ids(dataset):
    found = dataset.to_table(columns=["id"], with_row_id=True)
    return dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))


def test_delete_by_a_filter(spark, table, dataset):
    spark.sql(f"DELETE FROM {table} WHERE id BETWEEN 5 AND 12")
    assert rows(dataset(table)) == [(n, "old") for n in range(30) if not 5 <= n <= 12]
    assert dataset(table).version == 5
    spark.sql(f"DELETE FROM {table} WHERE id > 1000")
    assert dataset(table).version == 5
    spark.sql(f"DELETE FROM {table} WHERE id >= 20")
    assert [fragment.fragment_id for fragment in dataset(table).get_fragments()] == [0, 1]
    spark.sql(f"DELETE FROM {table}")
    assert dataset(table).count_rows() == 0


def test_delete_by_a_subquery(spark, table, dataset):
    spark.sql(f"DELETE FROM {table} WHERE id IN (SELECT id + 1 FROM range(3)) OR word RLIKE 'n.+' OR id % 10 = 9")
    assert rows(dataset(table)) == [(n, "old") for n in range(30) if n not in (1, 2, 3) and n % 10 != 9]


def test_update(spark, table, dataset):
    before = row_ids(dataset(table))
    spark.sql(f"UPDATE {table} SET word = concat('new', id), id = id + 100 WHERE id % 7 = 0")
    changed = {n for n in range(30) if n % 7 == 0}
    expected = [(n + 100, f"new{n}") if n in changed else (n, "old") for n in range(30)]
    assert rows(dataset(table)) == sorted(expected)
    assert dataset(table).version == 5
    if dataset(table).has_stable_row_ids:
        after = row_ids(dataset(table))
        assert {n: after[n + 100 if n in changed else n] for n in range(30)} == before
        made_in = spark.sql(f"SELECT id, _row_created_at_version, _row_last_updated_at_version FROM {table}").collect()
        assert {tuple(row) for row in made_in} == {
            (n + 100, n // 10 + 2, 5) if n in changed else (n, n // 10 + 2, n // 10 + 2) for n in range(30)
        }


@pytest.mark.smoke
def test_merge(spark, lake, table, dataset):
    before = row_ids(dataset(table))
    source = spark.createDataFrame(
        [(3, "upd"), (14, None), (25, "upd"), (500, "ins"), (501, "ins")], "id BIGINT, w STRING"
    )
    source.createOrReplaceTempView("source")
    spark.sql(
        f"MERGE INTO {table} t USING source s ON t.id = s.id WHEN MATCHED AND s.w IS NULL THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET word = s.w WHEN NOT MATCHED THEN INSERT (id, word) VALUES (s.id, s.w)"
    )
    expected = {n: "old" for n in range(30) if n != 14} | {3: "upd", 25: "upd", 500: "ins", 501: "ins"}
    assert rows(dataset(table)) == sorted(expected.items())
    assert dataset(table).version == 5
    after = row_ids(dataset(table))
    assert len(set(after.values())) == len(after)
    if dataset(table).has_stable_row_ids:
        assert all(after[n] == before[n] for n in expected if n < 30)
        assert min(after[500], after[501]) > max(before.values())


def test_merge_from_python(spark, lake, table, dataset):
    made = lake.table(table[5:])
    changed = (
        made.merge([{"id": 1, "word": "m"}, {"id": 77, "word": "m"}], on="id", spark=spark)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("t.id >= 20")
        .execute()
    )
    assert (changed.rows_updated, changed.rows_inserted, changed.rows_deleted) == (1, 1, 10)
    assert changed.snapshot.version == made.version == 5
    assert rows(dataset(table)) == sorted([*((n, "old") for n in range(20) if n != 1), (1, "m"), (77, "m")])


def test_an_ambiguous_merge_is_refused(spark, table, dataset):
    with pytest.raises(FrazilError, match="MERGE_CARDINALITY_VIOLATION: 2 rows"):
        spark.sql(
            f"MERGE INTO {table} t USING (SELECT 3 AS id, explode(array('a', 'b')) AS w) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET word = s.w"
        )
    assert rows(dataset(table)) == [(n, "old") for n in range(30)]


def test_rows_changed_by_another_meanwhile(spark, lake, table, dataset, monkeypatch):
    """An UPDATE whose rows somebody else deletes before it commits is refused, and leaves nothing."""
    from frazil.lance.operations import row_changes

    found = row_changes.mark

    def late(store, version, gone):
        dataset(table).delete("id = 4")
        return found(store, version, gone)

    monkeypatch.setattr(row_changes, "mark", late)
    with pytest.raises(FrazilError, match="same rows"):
        spark.sql(f"UPDATE {table} SET word = 'mine' WHERE id IN (4, 5)")
    assert rows(dataset(table)) == [(n, "old") for n in range(30) if n != 4]
    referenced = {file.path for one in dataset(table).get_fragments() for file in one.data_files()}
    listed = lake.table(table[5:]).store.list(f"{lake.table(table[5:]).location}/data")
    assert {file.location.rpartition("/")[2] for file in listed} == referenced


def test_pylance_goes_on_from_what_spark_changed(spark, table, dataset):
    spark.sql(f"UPDATE {table} SET word = 'u' WHERE id < 15")
    found = dataset(table)
    found.delete("id = 2")
    found.update({"word": "'p'"}, where="id = 3")
    found.optimize.compact_files()
    found.insert(pa.table({"id": [40], "word": ["i"]}, schema=found.schema))
    spark.sql(f"DELETE FROM {table} WHERE word = 'p'")
    expected = [*((n, "u") for n in range(15) if n not in (2, 3)), *((n, "old") for n in range(15, 30)), (40, "i")]
    assert rows(dataset(table)) == expected
