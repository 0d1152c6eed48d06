"""ALTER TABLE and CALL on Lance tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.errors import AlreadyExists, FrazilError, InvalidArgument, InvalidSchema, RefNotFound, Unsupported

lance = pytest.importorskip("lance")


def test_columns(spark, made, dataset):
    name = made.name
    before = {file.path for one in dataset(name).get_fragments() for file in one.data_files()}
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (a INT COMMENT 'new', b STRING)")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN word TO term")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN b")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN id DROP NOT NULL")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN x COMMENT 'a quarter'")
    found = dataset(name)
    assert found.schema.names == ["id", "term", "x", "a"]
    assert found.schema.field("id").nullable
    assert {file.path for one in found.get_fragments() for file in one.data_files()} == before
    assert [(field.name, field.metadata.get("comment")) for field in spark.table(name).schema] == [
        ("id", None),
        ("term", None),
        ("x", "a quarter"),
        ("a", "new"),
    ]
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN a TYPE BIGINT")
    spark.sql(f"UPDATE {name} SET a = id * 2 WHERE id = 7")
    assert dataset(name).to_table(filter="a = 14")["term"].to_pylist() == ["w0"]
    with pytest.raises(Unsupported, match="default"):
        spark.sql(f"ALTER TABLE {name} ADD COLUMN c INT DEFAULT 3")
    with pytest.raises(FrazilError):
        spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD id")


def test_properties(spark, made, dataset, sql):
    sql(f"ALTER TABLE {made.name} SET TBLPROPERTIES ('k' = 'v', 'l' = 'w')")
    sql(f"ALTER TABLE {made.name} UNSET TBLPROPERTIES ('l')")
    assert dataset(made.name).config() == {"k": "v"}
    assert dict(sql(f"SHOW TBLPROPERTIES {made.name}"))["k"] == "v"
    with pytest.raises(Unsupported):
        sql(f"ALTER TABLE {made.name} SET TBLPROPERTIES ('format' = 'x')")


def test_tags_and_branches(spark, made, dataset, sql):
    name = made.name
    sql(f"ALTER TABLE {name} CREATE TAG one AS OF VERSION 2")
    sql(f"ALTER TABLE {name} CREATE TAG IF NOT EXISTS one AS OF VERSION 3")
    sql(f"ALTER TABLE {name} CREATE BRANCH side AS OF VERSION 3")
    assert dataset(name).tags.list()["one"]["version"] == 2
    assert "side" in dataset(name).branches.list()
    sql(f"ALTER TABLE {name} REPLACE TAG one AS OF VERSION 4")
    assert dataset(name).tags.list()["one"]["version"] == 4
    sql(f"ALTER TABLE {name} DROP TAG one")
    sql(f"ALTER TABLE {name} DROP BRANCH side")
    sql(f"ALTER TABLE {name} DROP TAG IF EXISTS one")
    assert not dataset(name).tags.list()
    with pytest.raises(RefNotFound):
        sql(f"ALTER TABLE {name} DROP TAG one")


def test_compaction(spark, made, dataset, sql):
    name = made.name
    sql(f"ALTER TABLE {name} CREATE TAG before")
    before = sorted(dataset(name).to_table().to_pylist(), key=str)
    assert sql(f"CALL lake.system.rewrite_data_files(table => '{name[5:]}')")[0][:2] == (4, 1)
    found = dataset(name)
    found.validate()
    assert len(found.get_fragments()) == 1
    assert sorted(found.to_table().to_pylist(), key=str) == before
    assert spark.table(f"{name}.tag_before").count() == 97
    assert sql(f"CALL lake.system.rewrite_data_files(table => '{name[5:]}')") == [(0, 0, 0, 0, 0)]


def test_compaction_of_some_groups(spark, made, dataset, sql):
    options = "map('target-rows', '40', 'deleted-share', '0.05')"
    assert sql(f"CALL lake.system.rewrite_data_files(table => '{made.name[5:]}', options => {options})")[0][:2] == (
        4,
        4,
    )
    assert sorted(one.physical_rows for one in dataset(made.name).get_fragments()) == [7, 10, 40, 40]
    with pytest.raises(FrazilError, match="no option"):
        sql(f"CALL lake.system.rewrite_data_files(table => '{made.name[5:]}', options => map('x', '1'))")


def test_going_back_and_cleaning_up(spark, made, dataset, sql):
    name, table = made.name, made.name[5:]
    assert sql(f"CALL lake.system.rollback_to_snapshot('{table}', 3)") == [(6, 7)]
    assert dataset(name).count_rows() == 50
    sql(f"ALTER TABLE {name} CREATE TAG kept AS OF VERSION 2")
    assert sql(f"CALL lake.system.set_current_snapshot(table => '{table}', ref => 'kept')") == [(7, 8)]
    assert spark.table(name).count() == 25
    assert [row[0] for row in sql(f"CALL lake.system.ancestors_of('{table}')")] == list(range(8, 0, -1))
    gone = sql(f"CALL lake.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '2100-01-01 00:00:00')")
    assert gone[0][3] == 6
    assert [row["version"] for row in dataset(name).versions()] == [2, 8]
    assert spark.table(f"{name}.tag_kept").count() == 25
    with pytest.raises(Unsupported, match="rewrite_manifests is not for lance"):
        sql(f"CALL lake.system.rewrite_manifests('{table}')")


def test_drop(spark, made, sql, lake):
    sql(f"DROP TABLE {made.name} PURGE")
    assert not lake.table_exists(made.name[5:])
    assert list(made.table.store.list(made.table.location)) == []


def test_rows_of_pylance_types_survive_an_update(spark, lake, name, dataset):
    rows = pa.table({"id": [1, 2], "v": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))})
    lake.create_table(name[5:], rows.schema, format="lance").append(rows)
    spark.sql(f"UPDATE {name} SET id = 20 WHERE id = 2")
    found = dataset(name).to_table().sort_by("id")
    assert found.schema == rows.schema
    assert found.to_pylist() == [{"id": 1, "v": [1, 2]}, {"id": 20, "v": [3, 4]}]


def test_a_new_column_has_the_type_that_create_table_gives(spark, lake, made, name):
    spark.sql(f"ALTER TABLE {made.name} ADD COLUMNS (l ARRAY<INT>, s STRUCT<a: INT>)")
    spark.sql(f"CREATE TABLE {name}_new (l ARRAY<INT>, s STRUCT<a: INT>) USING lance")
    added, created = (lake.table(one.removeprefix("lake.")).arrow_schema for one in (made.name, f"{name}_new"))
    for column in ("l", "s"):
        assert added.field(column).equals(created.field(column), check_metadata=True)
    for kind in ("VARIANT", "STRUCT<v: VARIANT>", "ARRAY<VARIANT>"):
        with pytest.raises(InvalidSchema, match="variant"):
            spark.sql(f"ALTER TABLE {made.name} ADD COLUMN v {kind}")
    spark.sql(f"ALTER TABLE {made.name} ALTER COLUMN x TYPE DOUBLE")


def test_vectors_are_told_by_properties_and_made_by_those_of_new_tables_only(spark, lake, made, name, sql):
    key = "e.arrow.fixed-size-list.size"
    sql(f"CREATE TABLE {name}_a (e ARRAY<FLOAT>) USING lance TBLPROPERTIES ('{key}' = '2')")
    assert dict(sql(f"SHOW TBLPROPERTIES {name}_a"))[key] == "2"
    sql(f"ALTER TABLE {made.name} ADD COLUMN e ARRAY<FLOAT>")
    with pytest.raises(InvalidArgument, match="new tables"):
        sql(f"ALTER TABLE {made.name} SET TBLPROPERTIES ('{key}' = '2')")
    with pytest.raises(InvalidArgument):
        sql(f"CREATE TABLE {name}_b (e ARRAY<STRING>) USING lance TBLPROPERTIES ('{key}' = '2')")
    with pytest.raises(InvalidSchema, match="backtick"):
        sql(f"CREATE TABLE {name}_c (`x``y` INT) USING lance")


def test_an_iceberg_table_does_not_replace_a_lance_table(spark, made, sql):
    with pytest.raises(Unsupported, match="format lance") as refused:
        sql(f"CREATE OR REPLACE TABLE {made.name} USING iceberg AS SELECT 1 AS a")
    assert "convert" in str(refused.value)
    assert spark.table(made.name).count() == len(made.ids)


def test_tags_and_branches_have_names_of_their_own_in_sql(made, sql):
    sql(f"ALTER TABLE {made.name} CREATE BRANCH side")
    with pytest.raises(AlreadyExists):
        sql(f"ALTER TABLE {made.name} CREATE TAG side")
    with pytest.raises(FrazilError):
        sql(f"ALTER TABLE {made.name} CREATE TAG main")
