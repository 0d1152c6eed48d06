"""table.update, table.merge and table.delete from Python, on tables that the session knows and on others."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyspark
import pytest

import frazil
from frazil import col
from frazil.errors import (
    ColumnNotFound,
    CommitConflict,
    FrazilError,
    InvalidArgument,
    InvalidExpression,
    Unsupported,
)
from frazil.iceberg.transaction import Transaction

needs_evolution = pytest.mark.skipif(pyspark.__version__ < "4.1", reason="no MERGE WITH SCHEMA EVOLUTION before 4.1")


@pytest.fixture
def table(lake, name):
    made = lake.create_table(name.removeprefix("lake."), "id BIGINT, a STRING, b DOUBLE, d DATE, s STRUCT<x: INT>")
    made.append([{"id": n, "a": str(n), "b": n * 1.0, "d": None, "s": {"x": n}} for n in range(6)])
    return made


def rows(table, *columns):
    return sorted(tuple(row.values()) for row in table.scan(columns=columns).to_arrow().to_pylist())


def test_update_gives_columns_values(spark, table):
    day = datetime.date(2024, 5, 6)
    done = table.update({"a": "concat(t.a, '!')", "b": 7, "d": day, "s.x": "s.x * 10"}, "id >= 4", spark=spark)
    assert (done.rows_updated, done.rows_inserted, done.rows_deleted) == (2, 0, 0)
    assert done.snapshot == table.current_snapshot
    assert rows(table, "id", "a", "b", "d", "s")[4:] == [
        (4, "4!", 7.0, day, {"x": 40}),
        (5, "5!", 7.0, day, {"x": 50}),
    ]
    assert rows(table, "a")[:4] == [("0",), ("1",), ("2",), ("3",)]


@pytest.mark.parametrize(
    ("value", "read"), [(None, None), (2.5, 2.5), (float("inf"), float("inf")), ("1e3 + 1", 1001.0), (3, 3.0)]
)
def test_values_are_sql_or_themselves(spark, table, value, read):
    table.update({"b": value}, spark=spark)
    assert {row["b"] for row in table.scan().to_arrow().to_pylist()} == {read}


def test_an_update_that_matches_nothing_makes_no_snapshot(spark, table):
    before = table.current_snapshot
    done = table.update({"a": "'x'"}, "id = 99", spark=spark)
    assert done.snapshot is None
    assert not any(done.counts().values())
    assert table.refresh().current_snapshot == before


def test_delete_by_spark_takes_any_condition(spark, table):
    done = table.delete("id % 2 = 1 AND exists(array(t.id), x -> x > 2)", spark=spark)
    assert (done.rows_deleted, rows(table, "id")) == (2, [(0,), (1,), (2,), (4,)])


@pytest.mark.parametrize("source", ["frame", "arrow", "list", "pandas"])
def test_merge_upserts(spark, table, source):
    given = [{"id": 5, "a": "five", "b": 5.5}, {"id": 6, "a": "six", "b": 6.5}]
    arrow = pa.Table.from_pylist(given)
    made = {"frame": spark.createDataFrame(arrow), "arrow": arrow, "list": given, "pandas": arrow.to_pandas()}[source]
    values = {"id": "s.id", "a": "s.a", "b": "s.b"}
    merge = table.merge(made, "id", spark=spark).when_not_matched_insert(values).when_matched_update(values)
    done = merge.execute()
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    assert rows(table, "id", "a", "b")[5:] == [(5, "five", 5.5), (6, "six", 6.5)]


def test_merge_of_all_columns(spark, table):
    source = table.to_spark(spark).where("id > 3").selectExpr("id + 1 AS id", "'m' AS a", "b", "d", "s")
    merge = table.merge(source, ["id"], spark=spark).when_matched_update_all().when_not_matched_insert_all()
    done = merge.execute()
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    assert rows(table, "id", "a")[4:] == [(4, "4"), (5, "m"), (6, "m")]


def test_merge_with_every_clause(spark, table):
    source = spark.createDataFrame([(1, "x"), (2, "gone"), (50, "new"), (51, "no")], "id BIGINT, a STRING")
    done = (
        table.merge(source, "t.id = s.id", spark=spark)
        .when_not_matched_by_source_delete("t.id = 0")
        .when_not_matched_by_source_update({"a": "'left'"}, "t.id > 3")
        .when_not_matched_insert({"id": "s.id", "a": "upper(s.a)"}, "s.a = 'new'")
        .when_matched_delete("s.a = 'gone'")
        .when_matched_update({"a": "s.a"})
        .execute()
    )
    assert rows(table, "id", "a") == [(1, "x"), (3, "3"), (4, "left"), (5, "left"), (50, "NEW")]
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (1, 3, 2)


def test_a_merge_can_be_looked_at_and_done_later(spark, table, capsys):
    merge = table.merge([{"id": 3, "a": "m"}], "id", spark=spark).when_matched_update({"a": "s.a"})
    before = table.current_snapshot
    merge.explain()
    told = capsys.readouterr().out
    assert told.startswith(f"MERGE of {table.identifier}")
    assert "MergeRows" in told
    assert table.refresh().current_snapshot == before
    merge.execute()
    assert (3, "m") in rows(table, "id", "a")
    assert not [view.name for view in spark.catalog.listTables() if view.name.startswith("frazil_")]


@needs_evolution
def test_schema_evolution(spark, table):
    source = spark.createDataFrame([(1, "n", 9), (77, "m", 8)], "id BIGINT, a STRING, extra INT")
    merge = table.merge(source, "id", spark=spark).with_schema_evolution()
    merge.when_matched_update({"a": "s.a"}).when_not_matched_insert_all().execute()
    table.refresh()
    assert table.schema.columns[-1] == "extra"
    assert (77, "m", 8) in rows(table, "id", "a", "extra")


def _evolving(spark, table, *given):
    source = spark.createDataFrame(list(given), "id BIGINT, a STRING, extra INT")
    return table.merge(source, "id", spark=spark).with_schema_evolution().when_matched_update_all()


@needs_evolution
def test_columns_of_an_evolving_merge_come_with_its_rows(spark, table):
    before = table.metadata_location
    _evolving(spark, table, (1, "n", 9)).execute()
    files = table.refresh().metadata.metadata_log
    assert files[-1].metadata_file == before, "one commit"
    assert (1, "n", 9) in rows(table, "id", "a", "extra")


@needs_evolution
def test_an_evolving_merge_that_only_inserts(spark, table):
    source = spark.createDataFrame([(1, 9), (77, 8)], "id BIGINT, extra INT")
    merge = table.merge(source, "id", spark=spark).with_schema_evolution().when_not_matched_insert_all()
    assert merge.execute().rows_inserted == 1
    assert rows(table.refresh(), "id", "extra")[-1] == (77, 8)


@needs_evolution
def test_an_evolving_merge_that_changes_no_row_adds_its_columns(spark, table):
    assert _evolving(spark, table, (404, "n", 9)).execute().snapshot is None
    assert table.refresh().schema.columns[-1] == "extra"


@needs_evolution
def test_a_refused_merge_adds_no_columns(spark, table):
    before = table.metadata_location
    with pytest.raises(Exception, match="id = 1"):
        _evolving(spark, table, (1, "n", 9), (1, "m", 8)).execute()
    assert table.refresh().metadata_location == before


@needs_evolution
def test_an_evolving_merge_that_is_explained_adds_no_columns(spark, table, capsys):
    before = table.metadata_location
    _evolving(spark, table, (1, "n", 9)).explain()
    assert "extra" in capsys.readouterr().out
    assert table.refresh().metadata_location == before


@needs_evolution
def test_an_evolving_merge_by_sql(spark, lake, table):
    name, before = f"lake.{table.identifier}", table.metadata_location
    text = (
        f"MERGE WITH SCHEMA EVOLUTION INTO {name} t USING (SELECT 1L AS id, 'n' AS a, 9 AS extra) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *"
    )
    spark.sql(f"EXPLAIN {text}").collect()
    assert table.refresh().metadata_location == before
    spark.sql(text)
    assert spark.sql(f"SELECT id, a, extra FROM {name} WHERE id < 2 ORDER BY id").collect() == [
        (0, "0", None),
        (1, "n", 9),
    ]
    spark.sql(f"ALTER TABLE {name} ADD COLUMN later INT")
    assert spark.table(name).columns[-2:] == ["extra", "later"]


@needs_evolution
def test_a_column_that_another_adds_meanwhile_is_a_conflict(spark, table, monkeypatch):
    merge = _evolving(spark, table, (1, "n", 9))
    plain = Transaction.commit

    def commit(transaction):
        monkeypatch.setattr(Transaction, "commit", plain)
        table.refresh().update_schema().add_column("other", "string").commit()
        return plain(transaction)

    monkeypatch.setattr(Transaction, "commit", commit)
    with pytest.raises(CommitConflict, match="schema"):
        merge.execute()
    assert table.refresh().schema.columns[-1] == "other"
    assert (1, "1") in rows(table, "id", "a")


def test_rows_of_a_list_may_have_different_columns(spark, table):
    merge = table.merge([{"id": 1}, {"a": "given", "id": 2}], "id", spark=spark)
    merge.when_matched_update({"a": "s.a"}).execute()
    assert {(1, None), (2, "given")} <= set(rows(table, "id", "a"))


def test_on_a_branch(spark, table):
    table.manage_refs().create_branch("b").commit()
    table.update({"a": "'x'"}, spark=spark, branch="b")
    table.merge([{"id": 0}], "id", spark=spark, branch="b").when_matched_delete().execute()
    assert rows(table, "a")[0] == ("0",)
    on_branch = table.scan(ref="b").to_arrow().to_pylist()
    assert {row["a"] for row in on_branch} == {"x"}
    assert len(on_branch) == 5


def test_a_table_of_no_lake_of_the_session(spark, lake, tmp_path):
    other = frazil.connect(tmp_path)
    made = other.create_table("db.elsewhere", "id BIGINT, a STRING", partition_by=["bucket(3, id)"])
    made.append([{"id": n, "a": "a"} for n in range(9)])
    for table in (made, frazil.open(tmp_path / "db" / "elsewhere")):
        assert table.refresh().update({"a": "concat(a, 'b')"}, "id < 3", spark=spark).rows_updated == 3
    assert sorted(row["a"] for row in made.refresh().scan().to_arrow().to_pylist())[:7] == ["a"] * 6 + ["abb"]


def test_bad_input(spark, table):
    before = table.current_snapshot
    with pytest.raises(InvalidArgument, match="does nothing"):
        table.merge([{"id": 1}], "id", spark=spark).execute()
    with pytest.raises(InvalidArgument, match="no column is given"):
        table.update({}, spark=spark)
    with pytest.raises(InvalidArgument, match="is no value"):
        table.update({"a": object()}, spark=spark)
    with pytest.raises(InvalidArgument, match="nothing to match"):
        table.merge([{"id": 1}], [], spark=spark)
    with pytest.raises(ColumnNotFound, match="nope"):
        table.merge([{"id": 1}], ["id", "nope"], spark=spark)
    with pytest.raises(Exception, match="nope"):
        table.update({"nope": 1}, spark=spark)
    assert table.refresh().current_snapshot == before


def test_columns_go_by_their_names_whatever_those_are(spark, lake, name):
    columns = "id BIGINT, `dot.ted` INT, st STRUCT<`x.y`: INT, z: INT>, `c``d` INT"
    table = lake.create_table(name.removeprefix("lake."), columns)
    table.append([{"id": 1, "dot.ted": 1, "st": {"x.y": 1, "z": 1}}])
    table.update({"dot.ted": 5, "ST.z": 6, "st.`x.y`": 7, "c`d": 8}, "ID = 1", spark=spark)
    assert rows(table, "dot.ted", "st", "c`d") == [(5, {"x.y": 7, "z": 6}, 8)]
    merge = table.merge([{"id": 1, "dot.ted": 8}], "ID", spark=spark)
    assert merge.when_matched_update({"dot.ted": "s.`dot.ted`"}).execute().rows_updated == 1
    assert table.merge([], ["id"], spark=spark).when_matched_delete().execute().snapshot is None
    with pytest.raises(ColumnNotFound, match="nowhere"):
        table.update({"nowhere": 1}, spark=spark)


@pytest.mark.parametrize(
    ("where", "left"),
    [
        (col("a") == "b\\'", {1, 2, 3, 4}),
        (col("a").isin(["x%", "b\\'"]), {2, 3, 4}),
        (col("a").startswith("x"), {0, 2, 3, 4}),
        (~(col("n") > 2) | (col("a") == "y"), {3, 4}),
        (col("f").is_nan() & (col("w.x") == 1), {0, 1, 2, 4}),
        (col("at") >= datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), {1, 2, 4}),
        (col("a").is_null(), {0, 1, 2, 3}),
    ],
)
def test_expressions_mean_the_same_to_spark(spark, lake, name, where, left):
    table = lake.create_table(
        name.removeprefix("lake."), "n INT, a STRING, f DOUBLE, `w.x` INT, at TIMESTAMP_LTZ, s STRUCT<x: INT>"
    )
    late = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    table.append(
        [
            {"n": n, "a": a, "f": float("nan") if n == 3 else 1.0, "w.x": n % 2, "at": late if n in (0, 3) else None}
            for n, a in enumerate(["b\\'", "x%", "y", "z", None])
        ]
    )
    assert {n for (n,) in rows(table, "n")} - {n for (n,) in matching(table, where)} == left
    table.delete(where, spark=spark)
    assert {n for (n,) in rows(table, "n")} == left


def matching(table, where):
    return [(n,) for n in table.scan(where, columns=["n"]).to_arrow()["n"].to_pylist()]


@pytest.mark.parametrize("where", [col("d") == "2024-01-01", col("b").isin([float("nan"), 1.0]), col("id") == "1"])
def test_what_spark_may_take_otherwise_is_refused(spark, table, where):
    with pytest.raises(InvalidArgument, match="as SQL text"):
        table.delete(where, spark=spark)
    assert len(rows(table, "id")) == 6


def test_a_table_that_was_loaded_before_is_changed_as_it_is_now(spark, lake, table):
    old = {how: lake.table(table.identifier) for how in ("delete", "update", "merge", "here")}
    table.append([{"id": 100 + n, "a": "new"} for n in range(4)])
    assert old["delete"].delete("id = 100", spark=spark).rows_deleted == 1
    assert old["update"].update({"a": "'newer'"}, "id = 101", spark=spark).rows_updated == 1
    assert old["merge"].merge([{"id": 102}], "id", spark=spark).when_matched_delete().execute().rows_deleted == 1
    assert old["here"].delete("id = 103").rows_deleted == 1
    assert rows(table.refresh(), "id", "a")[6:] == [(101, "newer")]


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_rows_that_came_before_a_command_are_never_missed_by_it(spark, lake, table, isolation):
    for command in ("delete", "update", "merge"):
        table.update_properties().set(f"write.{command}.isolation-level", isolation).commit()
    old = {how: lake.table(table.identifier) for how in ("delete", "update", "merge", "here")}
    table.append([{"id": 100 + n, "a": "new"} for n in range(4)])
    given = [{"id": 1, "a": "m"}, {"id": 100, "a": "m"}, {"id": 200, "a": "m"}]
    merge = old["merge"].merge(given, "id", spark=spark).when_matched_update({"a": "s.a"})
    done = merge.when_not_matched_insert({"id": "s.id", "a": "s.a"}).execute()
    assert (done.rows_updated, done.rows_inserted) == (2, 1)
    assert old["update"].update({"a": "'u'"}, "id IN (2, 101)", spark=spark).rows_updated == 2
    assert old["delete"].delete("id IN (3, 102)", spark=spark).rows_deleted == 2
    assert old["here"].delete("id IN (4, 103)").rows_deleted == 2
    found = dict(rows(table.refresh(), "id", "a"))
    assert {key: found[key] for key in (1, 2, 100, 101, 200)} == {1: "m", 2: "u", 100: "m", 101: "u", 200: "m"}
    assert not {3, 4, 102, 103} & found.keys()


def test_a_source_without_the_key_is_refused_whatever_the_table_has(spark, lake, name):
    """A struct `s` of the table is not the source."""
    spark.sql(f"CREATE TABLE {name}_s (id BIGINT, s STRUCT<id: BIGINT, x: INT>)")
    spark.sql(f"INSERT INTO {name}_s VALUES (1, struct(1, 1)), (2, struct(7, 2))")
    table = lake.table(f"{name}_s".removeprefix("lake."))
    with pytest.raises(ColumnNotFound, match="the source has no column 'id'"):
        table.merge([{"key": 99}], "id", spark=spark).when_matched_delete().execute()
    assert table.refresh().scan().count() == 2
    assert table.merge([{"ID": 2}], "id", spark=spark).when_matched_delete().execute().rows_deleted == 1


def test_an_upsert_needs_its_keys(spark, table):
    before = table.current_snapshot
    for given in (
        [{"a": "x"}],
        [{"id": 1}, {"a": "x"}],
        pa.table({"a": ["x"]}),
        [pa.record_batch({"a": ["x"]})],
        spark.sql("SELECT 'x' AS a"),
    ):
        with pytest.raises(InvalidArgument, match="no column 'id', which is a key"):
            table.upsert(given, keys=["id"])
    assert table.refresh().current_snapshot == before


def test_keys_are_asked_only_of_rows_that_may_match(spark, lake, name, table):
    values = "VALUES ('x', '1'), ('y', 'abc') AS v(kind, txt)"
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT * FROM {values}) s ON s.kind = 'x' AND t.id = CAST(s.txt AS BIGINT) "
        "WHEN MATCHED THEN UPDATE SET a = 'hit'"
    )
    assert ("hit",) in rows(table.refresh(), "a")


def test_explain_shows_what_is_read(spark, table, capsys):
    merge = table.merge([{"id": 2, "a": "x"}, {"id": 3, "a": "y"}], "id", spark=spark).when_matched_delete()
    merge.explain()
    told = capsys.readouterr().out
    assert f"MERGE of {table.identifier}: reads these rows" in told
    assert "id#" in told
    assert ">= 2" in told
    assert "<= 3" in told


# What a reviewer tried.


@pytest.mark.parametrize("where", [None, False, 5, ""])
def test_a_condition_that_was_forgotten_deletes_nothing(spark, table, where):
    for given in ({}, {"spark": spark}):
        with pytest.raises(FrazilError):
            table.delete(where, **given)
    if where is None:
        with pytest.raises(InvalidArgument, match="which rows"):
            table.transaction().delete(where)
    assert len(rows(table, "id")) == 6


def test_an_expression_is_taken_for_what_it_says(spark, table):
    table.append([{"id": 9, "a": r"a\b", "b": None, "d": None, "s": None}])
    assert table.update({"id": "id + 10"}, col("a") == r"a\b", spark=spark).rows_updated == 1
    assert rows(table, "id")[-1] == (19,)
    with pytest.raises(InvalidArgument, match="5"):
        table.update({"id": 1}, 5, spark=spark)


@pytest.mark.parametrize(("source", "on"), [(5, "id"), ([(1, "a")], "id"), ("nope", "id"), ([{"id": 1}], None)])
def test_a_merge_of_something_else_is_refused(spark, table, source, on):
    with pytest.raises(InvalidArgument):
        table.merge(source, on, spark=spark).when_matched_delete().execute()
    assert len(rows(table, "id")) == 6


def test_keys_are_a_list(table):
    with pytest.raises(InvalidArgument, match=r"\['id'\]"):
        table.upsert([{"id": 1}], keys="id")


def numbered(lake, name):
    table = lake.create_table(name.removeprefix("lake."), "id INT, price INT")
    table.append([{"id": i, "price": i} for i in range(5)])
    return table


@pytest.mark.parametrize("end", ["-- the new price", "/* the new price */"])
def test_a_comment_ends_with_its_value(spark, lake, name, end):
    """The condition and the clauses that come after it still hold."""
    table = numbered(lake, name)
    assert table.update({"price": f"100 {end}", "id": "id"}, f"id = 1 {end}").rows_updated == 1
    merge = table.refresh().merge(
        [{"id": 3, "price": 1}, {"id": 77, "price": 7}, {"id": 78, "price": 8}], f"t.id = s.id {end}"
    )
    merge = merge.when_matched_update({"price": f"5 {end}"}, f"true {end}")
    merge = merge.when_not_matched_insert({"id": f"s.id {end}", "price": f"s.price {end}"}, f"s.id = 77 {end}")
    merge.execute()
    rows = {row["id"]: row["price"] for row in table.refresh().scan().to_arrow().to_pylist()}
    assert rows == {0: 0, 1: 100, 2: 2, 3: 5, 4: 4, 77: 7}


@pytest.mark.parametrize("value", ["9 WHERE id = 4 --", "1, id = 7", "", "1 /*", "id <"])
def test_more_than_an_expression_is_refused(spark, lake, name, value):
    table = numbered(lake, name)
    before = table.current_snapshot.snapshot_id
    source = [{"id": 3, "price": 1}]
    for refused in (
        lambda: table.update({"price": value}, "id = 3"),
        lambda: table.update({"price": 1}, value),
        lambda: table.merge(source, "id").when_matched_update({"price": value}).execute(),
        lambda: table.merge(source, "id").when_matched_delete(value).execute(),
        lambda: table.merge(source, "id").when_not_matched_insert({"id": value}).execute(),
    ):
        with pytest.raises((InvalidExpression, InvalidArgument)):
            refused()
    assert table.refresh().current_snapshot.snapshot_id == before


@needs_evolution
def test_numbers_of_python_widen_no_column(spark, lake, name):
    table = lake.create_table(name.removeprefix("lake."), "id INT, f FLOAT, big INT")
    table.append([{"id": 1, "f": 1.5, "big": 1}])
    row = {"id": 1, "f": 2.5, "big": 2**40, "new": "x"}
    table.merge([row], "id").when_matched_update_all().with_schema_evolution().execute()
    table.refresh()
    assert [str(field.type) for field in table.schema.fields] == ["int", "float", "long", "string"]
    assert table.scan().to_arrow().to_pylist() == [row]


@needs_evolution
@pytest.mark.parametrize("made", ["USING lance", "PRIMARY KEY (id) USING mixed"])
def test_a_table_that_cannot_evolve_says_so(spark, lake, name, made):
    """Spark alone would leave the new columns out, and say nothing."""
    spark.sql(f"CREATE TABLE {name} {made} AS SELECT id, 1 AS v FROM range(3)")
    source = "(SELECT 1L AS id, 5 AS v, 'new' AS n)"
    with pytest.raises(Unsupported, match="takes no columns by MERGE WITH SCHEMA EVOLUTION"):
        spark.sql(
            f"MERGE WITH SCHEMA EVOLUTION INTO {name} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
        )
    merge = lake.table(name.removeprefix("lake.")).merge(spark.sql(source[1:-1]), "id")
    with pytest.raises(Unsupported, match="takes no columns"):
        merge.with_schema_evolution().when_matched_update_all().execute()
    assert spark.table(name).columns == ["id", "v"]
    assert spark.sql(f"SELECT sum(v) FROM {name}").collect()[0][0] == 3


@needs_evolution
def test_columns_come_with_the_rows_of_a_mixed_table_without_a_key(spark, lake, name):
    spark.sql(f"CREATE TABLE {name} USING mixed AS SELECT id, 1 AS v FROM range(3)")
    merge = f"MERGE WITH SCHEMA EVOLUTION INTO {name} t USING new s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    spark.sql("SELECT 1L AS id, 5 AS v, 'new' AS n FROM range(2)").createOrReplaceTempView("new")
    with pytest.raises(FrazilError):  # two rows match one
        spark.sql(merge)
    assert spark.table(name).columns == ["id", "v"]
    spark.sql("SELECT 1L AS id, 5 AS v, 'new' AS n").createOrReplaceTempView("new")
    spark.sql(merge)
    assert sorted(map(tuple, spark.table(name).collect())) == [(0, 1, None), (1, 5, "new"), (2, 1, None)]
