"""What once gave wrong rows, or an error, when Spark's own reader was made to read a table. Found by the spikes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from frazil.iceberg.table import IcebergTable
from tests.interop.deletes import delete_rows, equality_deletes, live_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake

_NUMBERS = itertools.count(1)
Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def make(lake: Lake) -> Callable[..., IcebergTable]:
    """A new table `db.trap7`; `lake.` before its identifier is its name in SQL."""

    def create(schema: str, rows: list[dict[str, Any]], version: int = 3, **options: Any) -> IcebergTable:
        table = lake.create_table(f"db.trap{next(_NUMBERS)}", schema, format_version=version, **options)
        table.append(rows)
        return table

    return create


def name(table: IcebergTable) -> str:
    return f"lake.{table.identifier}"


def plan_of(spark: SparkSession, query: str) -> str:
    frame = spark.sql(query)
    frame.collect()
    return str(frame._jdf.queryExecution().executedPlan().toString())


def numbers(count: int) -> list[dict[str, Any]]:
    return [{"a": i, "b": i * 10} for i in range(count)]


# Names: files are read by field id, but filters are pushed down by name


def test_a_dropped_name_used_again_is_a_new_column(make: Callable[..., IcebergTable], sql: Sql) -> None:
    table = make("a BIGINT, b BIGINT", numbers(5))
    table.update_schema().drop_column("b").commit()
    table.update_schema().add_column("b", "long").commit()
    assert sql(f"SELECT count(*) FROM {name(table)} WHERE b IS NULL") == [(5,)]
    assert sql(f"SELECT count(*) FROM {name(table)} WHERE b = 10") == [(0,)]


def test_a_name_that_moved_to_a_new_column_is_that_one(make: Callable[..., IcebergTable], sql: Sql) -> None:
    table = make("a BIGINT, b BIGINT", numbers(5))
    table.update_schema().rename_column("b", "z").commit()
    table.update_schema().add_column("b", "string").commit()
    assert sql(f"SELECT count(*) FROM {name(table)} WHERE b IS NULL") == [(5,)]
    assert sql(f"SELECT a FROM {name(table)} WHERE z = 30") == [(3,)]


def test_a_new_column_of_an_old_name_has_its_default(make: Callable[..., IcebergTable], sql: Sql) -> None:
    table = make("a BIGINT, b BIGINT", numbers(5))
    table.update_schema().drop_column("b").commit()
    table.update_schema().add_column("b", "long", default=5).commit()
    assert sql(f"SELECT count(*) FROM {name(table)} WHERE b = 5") == [(5,)]


@pytest.mark.parametrize("kind", ["BIGINT", "STRING"])
def test_swapped_names_give_the_right_rows(make: Callable[..., IcebergTable], sql: Sql, kind: str) -> None:
    rows = [{"a": i, "b": i * 10 if kind == "BIGINT" else f"{i * 10}"} for i in range(5)]
    table = make(f"a BIGINT, b {kind}", rows)
    change = table.update_schema().rename_column("a", "t").rename_column("b", "a")
    change.commit()
    table.update_schema().rename_column("t", "b").commit()
    wanted = 30 if kind == "BIGINT" else "30"
    literal = "30" if kind == "BIGINT" else "'30'"
    assert sql(f"SELECT a, b FROM {name(table)} WHERE a = {literal}") == [(wanted, 3)]
    assert sql(f"SELECT a, b FROM {name(table)} WHERE b = 3") == [(wanted, 3)]


def test_swapped_names_inside_a_struct_give_the_right_rows(make: Callable[..., IcebergTable], sql: Sql) -> None:
    rows = [{"s": {"x": i, "y": f"{i * 10}"}, "l": [{"x": i, "y": f"{i * 10}"}]} for i in range(5)]
    table = make("s STRUCT<x: BIGINT, y: STRING>, l ARRAY<STRUCT<x: BIGINT, y: STRING>>", rows)
    for outer in ("s", "l.element"):
        table.update_schema().rename_column(f"{outer}.x", "t").rename_column(f"{outer}.y", "x").commit()
        table.update_schema().rename_column(f"{outer}.t", "y").commit()
    assert sql(f"SELECT s.x, s.y, l[0].x, l[0].y FROM {name(table)} WHERE s.x = '30'") == [("30", 3, "30", 3)]
    assert sql(f"SELECT count(*) FROM {name(table)} WHERE s.y = 3") == [(1,)]


def test_filters_on_a_renamed_column_still_skip_row_groups(
    make: Callable[..., IcebergTable], spark: SparkSession
) -> None:
    table = make("old BIGINT", [{"old": i} for i in range(5)])
    table.update_schema().rename_column("old", "new").commit()
    plan = plan_of(spark, f"SELECT * FROM {name(table)} WHERE new = 3")
    assert "EqualTo(old,3)" in plan


def test_names_that_differ_in_case_only_are_two_columns(
    make: Callable[..., IcebergTable], sql: Sql, spark: SparkSession
) -> None:
    table = make("a BIGINT, `A` BIGINT", [{"a": 1, "A": 2}])
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert sql(f"SELECT a, `A` FROM {name(table)} WHERE `A` = 2") == [(1, 2)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("vectorised", ["true", "false"])
def test_a_session_that_reads_by_name_does_not_make_renamed_columns_null(
    make: Callable[..., IcebergTable], sql: Sql, spark: SparkSession, vectorised: str
) -> None:
    table = make("a BIGINT, b BIGINT", numbers(3))
    table.update_schema().rename_column("a", "c").commit()
    table.update_schema().add_column("a", "long").commit()
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorised)
    try:
        assert sql(f"SELECT sum(c) FROM {name(table)}") == [(3,)]
    finally:
        spark.conf.unset("spark.sql.parquet.fieldId.read.enabled")
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def test_columns_named_like_those_we_add_are_the_tables(make: Callable[..., IcebergTable], sql: Sql) -> None:
    table = make(
        "_frazil_file STRING, _Frazil_Spec_Id BIGINT, _frazil_first_row_id BIGINT, x BIGINT",
        [{"_frazil_file": "f", "_Frazil_Spec_Id": 5, "_frazil_first_row_id": 70, "x": 7}],
    )
    assert sql(f"SELECT *, _file LIKE '%.parquet', _spec_id, _row_id FROM {name(table)}") == [
        ("f", 5, 70, 7, True, 0, 0)
    ]


def test_names_with_dots_quotes_and_spaces_are_read(make: Callable[..., IcebergTable], sql: Sql) -> None:
    number = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
    table = make("`a.b` BIGINT, `it's` UUID, `x y` BIGINT", [{"a.b": 1, "it's": number}])
    found = sql(f"SELECT `a.b`, `it's`, `x y` FROM {name(table)} WHERE `a.b` = 1 AND `x y` IS NULL")
    assert found == [(1, number, None)]


# Partitions: Spark hands a filter on constants over and forgets it


@pytest.fixture
def partitioned(make: Callable[..., IcebergTable]) -> IcebergTable:
    rows = [{"id": i, "p": None if i % 4 == 3 else f"p{i % 4}", "f": float("nan") if i % 4 else 1.0} for i in range(40)]
    return make("id BIGINT, p STRING, f DOUBLE", rows, partition_by=["p", "f"])


@pytest.mark.parametrize(
    "condition",
    [
        *("p = 'p1'", "p IS NULL", "p <> 'p1'", "NOT (p = 'p1' AND id > 3)", "p IN ('p0', 'p2', 'x')"),
        *("upper(p) = 'P1'", "p <=> null", "p LIKE '%1'", "isnan(f)", "f > 2", "f = 1.0", "p = 'p1' OR id < 5"),
    ],
)
def test_a_filter_on_partition_values_is_exact(partitioned: IcebergTable, sql: Sql, condition: str) -> None:
    query = f"SELECT id FROM {{}} WHERE {condition} ORDER BY id"
    sql(f"CREATE OR REPLACE TEMPORARY VIEW plain AS SELECT * FROM VALUES {_values(partitioned)} AS t(id, p, f)")
    assert sql(query.format(name(partitioned))) == sql(query.format("plain"))


def _values(table: IcebergTable) -> str:
    rows = table.scan().to_arrow().to_pylist()
    shown = [(row["id"], "NULL" if row["p"] is None else f"'{row['p']}'", f"double('{row['f']}')") for row in rows]
    return ", ".join(f"({number}L, {text}, {real})" for number, text, real in shown)


def test_partitions_are_pruned_by_what_a_join_brings(
    partitioned: IcebergTable, make: Callable[..., IcebergTable], sql: Sql, spark: SparkSession
) -> None:
    choice = make("p STRING, wanted INT", [{"p": "p1", "wanted": 1}, {"p": "p2", "wanted": 0}])
    join = f"{name(partitioned)} t JOIN {name(choice)} c ON t.p = c.p"
    query = f"SELECT t.id FROM {join} WHERE c.wanted = 1 ORDER BY t.id"
    assert sql(query) == [(i,) for i in range(1, 40, 4)]
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly", "false")
    try:
        assert "dynamicpruning" in plan_of(spark, query).lower()
    finally:
        spark.conf.unset("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly")


def test_files_of_several_specs_are_read_together(make: Callable[..., IcebergTable], sql: Sql) -> None:
    table = make("id BIGINT, p STRING", [{"id": 1, "p": "x"}, {"id": 2, "p": "y"}])
    table.update_spec().add_field("p").commit()
    table.append([{"id": 3, "p": "x"}, {"id": 4, "p": None}])
    table.update_spec().remove_field("p").add_field("bucket(4, id)").commit()
    table.append([{"id": 5, "p": "y"}])
    assert sql(f"SELECT id FROM {name(table)} WHERE p = 'x' ORDER BY id") == [(1,), (3,)]
    assert sql(f"SELECT count(*), max(_spec_id), count(DISTINCT _partition) FROM {name(table)}") == [(5, 2, 3)]


# Types


def test_widened_columns_read_old_and_new_files(make: Callable[..., IcebergTable], sql: Sql) -> None:
    table = make("i INT, f FLOAT, d DECIMAL(9,2)", [{"i": 1, "f": 0.5, "d": 1}])
    change = table.update_schema().update_column("i", "long").update_column("f", "double")
    change.update_column("d", "decimal(20,2)").commit()
    table.append([{"i": 2**40, "f": 1e300, "d": 10**15}])
    found = sql(f"SELECT i, f, cast(d AS string) FROM {name(table)} WHERE i >= 1 AND f > 0 AND d > 0 ORDER BY i")
    assert found == [(1, 0.5, "1.00"), (2**40, 1e300, "1000000000000000.00")]


@pytest.mark.parametrize(
    ("kind", "default", "shown"),
    [
        *(("long", 7, "7"), ("double", 0.5, "0.5"), ("float", float("inf"), "Infinity"), ("boolean", False, "false")),
        *(("string", "it's \\ ok", "it's \\ ok"), ("decimal(20,3)", "1.125", "1.125")),
        ("date", "2020-02-29", "2020-02-29"),
        *(("timestamp", "2020-01-01T00:00:00", "2020-01-01 00:00:00"), ("binary", b"\x01", "\x01")),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ],
)
def test_files_without_a_column_have_its_initial_default(
    make: Callable[..., IcebergTable], sql: Sql, kind: str, default: Any, shown: str
) -> None:
    table = make("a BIGINT", [{"a": 1}])
    table.update_schema().add_column("n", kind, default=default).commit()
    table.append([{"a": 2, "n": None}])
    assert sql(f"SELECT a, cast(n AS string) FROM {name(table)} ORDER BY a") == [(1, shown), (2, None)]
    assert sql(f"SELECT a FROM {name(table)} WHERE n IS NULL") == [(2,)]


# One scan, one key


def test_equal_scans_share_an_exchange(make: Callable[..., IcebergTable], spark: SparkSession) -> None:
    table = make("a BIGINT, b BIGINT", numbers(20))
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        one = f"(SELECT a, count(*) n FROM {name(table)} GROUP BY a)"
        plan = plan_of(spark, f"SELECT * FROM {one} x JOIN {one} y ON x.a = y.a")
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert "ReusedExchange" in plan or "ReusedQueryStage" in plan


def test_a_cached_table_is_not_read_again(make: Callable[..., IcebergTable], spark: SparkSession) -> None:
    table = make("a BIGINT, b BIGINT", numbers(20))
    frame = spark.table(name(table)).cache()
    try:
        assert frame.count() == 20
        assert "InMemoryTableScan" in plan_of(spark, f"SELECT * FROM {name(table)}")
    finally:
        frame.unpersist()


def test_a_small_table_is_broadcast(make: Callable[..., IcebergTable], spark: SparkSession) -> None:
    small, other = (make("a BIGINT, b BIGINT", numbers(20)) for _ in range(2))
    assert "BroadcastHashJoin" in plan_of(
        spark, f"SELECT count(*) FROM {name(small)} x JOIN {name(other)} y ON x.a = y.a"
    )


def test_the_optimizer_knows_how_many_rows_there_are(make: Callable[..., IcebergTable], spark: SparkSession) -> None:
    table = make("a BIGINT, b BIGINT", numbers(20))
    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        plan = spark.table(name(table))._jdf.queryExecution().optimizedPlan()
        assert "rowCount=20" in plan.stats().simpleString()
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")


# Deletes

MODES = {
    "vectorised": {},
    "small splits": {"spark.sql.files.maxPartitionBytes": "20000"},
    "off heap": {"spark.sql.columnVector.offheap.enabled": "true"},
    "small batches": {"spark.sql.parquet.columnarReaderBatchSize": "100"},
    "nested rows": {"spark.sql.parquet.enableNestedColumnVectorizedReader": "false"},
    "rows": {"spark.sql.parquet.enableVectorizedReader": "false"},
    "rows returned": {"spark.sql.codegen.maxFields": "2"},
    "no codegen": {"spark.sql.codegen.wholeStage": "false"},
}
COLUMNS = """id BIGINT, i INT, f FLOAT, d DOUBLE, o BOOLEAN, s STRING, g STRING, x BINARY, n9 DECIMAL(9,2),
    n18 DECIMAL(18,2), n38 DECIMAL(38,2), dt DATE, t TIMESTAMP, z TIMESTAMPTZ, st STRUCT<x: BIGINT, y: STRING>,
    l ARRAY<BIGINT>, m MAP<STRING, BIGINT>, ls ARRAY<STRUCT<p: BIGINT, q: STRING>>"""


@pytest.fixture(scope="module")
def deleted(lake: Lake, spark: SparkSession) -> IcebergTable:
    """Three files of many row groups: a third of one is deleted, a stretch of another, nothing of the last."""
    table = lake.create_table("db.deleted", COLUMNS, format_version=3)
    change = table.update_properties()
    change.set("write.parquet.row-group-size-bytes", "40000").set("write.parquet.page-row-limit", "500").commit()
    for start in range(0, 9000, 3000):
        table.append(_rows_of_all_types(spark, start, start + 3000))
    gone = {i for i in range(3000) if i % 3 == 0} | set(range(3500, 5200)) | {5999}
    delete_rows(table, "id", gone)
    return table


def _rows_of_all_types(spark: SparkSession, start: int, stop: int) -> pa.Table:
    frame = spark.range(start, stop).selectExpr(
        *("id", "cast(id AS int) i", "cast(id AS float) f", "sqrt(id) d", "id % 3 = 0 o"),
        *("if(id % 5 = 0, null, concat('s', id)) s", "concat('g', id % 10) g", "cast(concat('b', id) AS binary) x"),
        *("cast(id AS decimal(9,2)) n9", "cast(id AS decimal(18,2)) n18", "cast(id AS decimal(38,2)) n38"),
        *("date_add(date'2020-01-01', cast(id % 1000 AS int)) dt", "cast(timestamp_seconds(id) AS timestamp_ntz) t"),
        "timestamp_seconds(id) z",
        "if(id % 4 = 0, null, struct(nullif(id, -1) AS x, if(id % 6 = 0, null, concat('y', id)) AS y)) st",
        *("if(id % 9 = 0, null, array(id, id + 1)) l", "map(concat('m', id), id) m"),
        "array(struct(nullif(id, -1) AS p, nullif('q', 'r') AS q)) ls",
    )
    return frame.orderBy("id").toArrow()


@pytest.mark.parametrize("mode", MODES)
def test_deleted_rows_are_gone_and_the_others_are_whole(deleted: IcebergTable, spark: SparkSession, mode: str) -> None:
    gone = "(id < 3000 AND id % 3 = 0) OR (id >= 3500 AND id < 5200) OR id = 5999"
    expected = _view(spark, deleted).filter(f"NOT ({gone})")
    for key, value in MODES[mode].items():
        spark.conf.set(key, value)
    try:
        found = spark.table(name(deleted))
        assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))
        assert found.count() == expected.count() == 9000 - 1000 - 1701
        for condition in ("id >= 3400 AND id < 3600", "id = 77", "id % 2 = 0 AND id > 100", "id < 50 OR id > 8998"):
            columns = ["id", "s", "st", "n38"]
            some = found.filter(condition).select(*columns)
            wanted = expected.filter(condition).select(*columns)
            assert sorted(map(str, some.collect())) == sorted(map(str, wanted.collect()))
        assert found.filter("_pos <> id % 3000").count() == 0
    finally:
        for key in MODES[mode]:
            spark.conf.unset(key)


@pytest.mark.parametrize("batch", [64, 100, 4096, 4097])
def test_positions_of_every_kind_of_container_are_gone(
    make: Callable[..., IcebergTable], spark: SparkSession, batch: int
) -> None:
    """A vector has blocks of 65,536 positions: few of one, many, a run; none of the block between."""
    table = make("id BIGINT, w STRING", pa.table({"id": range(400_000), "w": ["a", "b"] * 200_000}))
    gone = {0, 63, 64, 65_535, 65_536, 131_071, 399_999, *range(70_000, 120_000, 3), *range(200_000, 262_145)}
    delete_rows(table, "id", gone)
    expected = [i for i in range(400_000) if i not in gone]
    spark.conf.set("spark.sql.parquet.columnarReaderBatchSize", str(batch))
    try:
        frame = spark.table(name(table))
        found = frame.toArrow()
        assert found["id"].to_pylist() == expected
        assert found["w"].to_pylist() == ["ab"[i % 2] for i in expected]
        some = frame.filter("id > 65530 AND id < 262200").select("id").toArrow()
        assert some["id"].to_pylist() == [i for i in expected if 65_530 < i < 262_200]
    finally:
        spark.conf.unset("spark.sql.parquet.columnarReaderBatchSize")


def _view(spark: SparkSession, table: IcebergTable) -> Any:
    files = [task.file.file_path for task in table.scan().plan().tasks()]
    return spark.read.parquet(*files)


def test_equality_deletes_follow_sequence_and_null_rules(make: Callable[..., IcebergTable], sql: Sql) -> None:
    table = make("a BIGINT, b STRING", [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"a": 2, "b": None}], version=2)
    gone = equality_deletes(table, "eq", [{"a": 1}, {"a": None}], ["a"])
    table.new_row_delta().add_deletes(gone).commit()
    table.append([{"a": 1, "b": "later"}])
    assert sql(f"SELECT a, b FROM {name(table)} ORDER BY a") == [(1, "later"), (2, None)]


@pytest.fixture(scope="module")
def upserted(lake: Lake, spark: SparkSession) -> IcebergTable:
    """Equality deletes by one column, by two, by one that was dropped; other keys per partition; vectors beside."""
    table = lake.create_table("db.upserted", f"{COLUMNS}, p STRING, old STRING", format_version=3, partition_by=["p"])
    change = table.update_properties()
    change.set("write.parquet.row-group-size-bytes", "40000").set("write.parquet.page-row-limit", "500").commit()
    for start in (0, 3000):
        rows = _rows_of_all_types(spark, start, start + 3000)
        rows = rows.append_column("p", pa.array([f"p{start // 3000}"] * 3000))
        table.append(rows.append_column("old", pa.array([f"o{i}" for i in range(start, start + 3000)])))
    by_partition = {file.partition: {"partition": file.partition} for file in live_files(table)}
    action = table.new_row_delta()
    for partition, members in by_partition.items():
        keys = [{"id": i} for i in range(0, 6000, 7)] if partition == ("p0",) else [{"id": 1}, {"id": 3001}]
        action.add_deletes(equality_deletes(table, f"id-{partition[0]}", keys, ["id"], **members))
        pairs = [{"g": f"g{i % 10}", "s": None if i % 5 == 0 else f"s{i}"} for i in (5, 11, 3005, 3011)]
        action.add_deletes(equality_deletes(table, f"gs-{partition[0]}", pairs, ["g", "s"], **members))
        olds = [{"old": "o20"}, {"old": "o3020"}]
        action.add_deletes(equality_deletes(table, f"old-{partition[0]}", olds, ["old"], **members))
    action.commit()
    delete_rows(table, "id", {30, 31, 3030, 5999})
    table.update_schema().drop_column("old").commit()
    return table


@pytest.mark.parametrize("mode", MODES)
def test_equality_deletes_of_all_kinds_take_their_rows(upserted: IcebergTable, spark: SparkSession, mode: str) -> None:
    kept = upserted.scan(columns=["id", "s", "st", "_pos"]).to_arrow().to_pylist()
    expected = [(row["id"], row["s"], None if row["st"] is None else row["st"]["y"], row["_pos"]) for row in kept]
    for key, value in MODES[mode].items():
        spark.conf.set(key, value)
    try:
        frame = spark.table(name(upserted))
        plan = frame._jdf.queryExecution().optimizedPlan().toString()
        assert "Frazil by Arrow" not in plan
        found = frame.selectExpr("id", "s", "st.y", "_pos", "p", "_file").collect()
        assert sorted((tuple(row)[:4] for row in found), key=str) == sorted(expected, key=str)
        assert len(frame.selectExpr("s", "p").collect()) == frame.count() == len(expected)
        some = frame.filter("id BETWEEN 2900 AND 3100 AND p = 'p1'").selectExpr("id", "p").collect()
        assert sorted(row.id for row in some) == sorted(row[0] for row in expected if 3000 <= row[0] <= 3100)
    finally:
        for key in MODES[mode]:
            spark.conf.unset(key)


def test_rows_keep_their_ids_through_deletes(make: Callable[..., IcebergTable], sql: Sql) -> None:
    table = make("a BIGINT, b BIGINT", numbers(6))
    delete_rows(table, "a", {0, 3})
    found = sql(f"SELECT a, _row_id, _last_updated_sequence_number, _pos FROM {name(table)} ORDER BY a")
    assert found == [(i, i, 1, i) for i in (1, 2, 4, 5)]


def test_hidden_columns_cost_nothing_when_not_asked_for(make: Callable[..., IcebergTable], spark: SparkSession) -> None:
    table = make("a BIGINT, b BIGINT", numbers(6))
    assert "row_index" not in plan_of(spark, f"SELECT a FROM {name(table)}")
    wanted = plan_of(spark, f"SELECT a, _pos FROM {name(table)}")
    assert "row_index" in wanted
    assert "file_path" not in wanted
