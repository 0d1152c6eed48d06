"""Every trap that the experiments before this engine fell into, with the test that keeps us out of it.

The experiments are told in shared/spikes/SCAN.md, SQL.md and DELETES.md; traps bear the names of their sections there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from frazil.spark.attach import bridge_of
from tests.interop.deletes import delete_rows, mark_all_rows

HERE = Path(__file__).parent
SCAN, SQL, ERRORS, SESSION = "scan/test_traps.py", "test_traps_sql.py", "test_errors.py", "test_session.py"
CHANGED = "../conformance/test_tables.py"
MINE = "test_traps_list.py"

TRAPS = {
    "SCAN A, filters on constants are ours to apply": (SCAN, "test_a_filter_on_partition_values_is_exact"),
    "SCAN B, a dropped name used again": (SCAN, "test_a_dropped_name_used_again_is_a_new_column"),
    "SCAN B, a name that moved": (SCAN, "test_a_name_that_moved_to_a_new_column_is_that_one"),
    "SCAN B, such a name with a default": (SCAN, "test_a_new_column_of_an_old_name_has_its_default"),
    "SCAN B, swapped names": (SCAN, "test_swapped_names_give_the_right_rows"),
    "SCAN B, swapped names inside a struct": (SCAN, "test_swapped_names_inside_a_struct_give_the_right_rows"),
    "SCAN B, a renamed column skips row groups": (SCAN, "test_filters_on_a_renamed_column_still_skip_row_groups"),
    "SCAN B, a session that reads by name": (
        SCAN,
        "test_a_session_that_reads_by_name_does_not_make_renamed_columns_null",
    ),
    "SCAN C, threads of callbacks end": (
        SESSION,
        "test_connections_of_threads_that_the_jvm_started_end_with_the_answer",
    ),
    "SCAN D, exceptions arrive as themselves": (
        ERRORS,
        "test_a_python_exception_arrives_as_itself_with_its_traceback",
    ),
    "SCAN D, from everywhere": (ERRORS, "test_it_does_so_from_a_broadcast_thread_and_a_subquery_and_a_write"),
    "SCAN D, after newSession": (ERRORS, "test_try_except_around_a_python_error_in_a_new_session"),
    "SCAN D, a failed plan fails again": (ERRORS, "test_a_failed_plan_gives_the_same_error_again"),
    "SCAN D, explaining lists no files": (MINE, "test_explaining_a_query_lists_no_files"),
    "SCAN D, Ctrl-C": (ERRORS, "test_ctrl_c_in_a_callback_reaches_the_user_and_the_session_goes_on"),
    "SCAN E, large vectors": ("scan/test_goldens_spark.py", "test_vectors_of_many_positions_leave_the_right_rows"),
    "SCAN 1, equal scans are equal": (SQL, "test_equal_scans_are_equal_to_spark_and_others_are_not"),
    "SCAN 1, exchanges are reused": (SCAN, "test_equal_scans_share_an_exchange"),
    "SCAN 1, caches are hit": (SCAN, "test_a_cached_table_is_not_read_again"),
    "SCAN 2, pruning by a join lists files once": (MINE, "test_files_are_listed_once_for_pruning_by_a_join"),
    "SCAN 3, positions stay where row groups are skipped": (
        SCAN,
        "test_deleted_rows_are_gone_and_the_others_are_whole",
    ),
    "SCAN 4, null keys": (SCAN, "test_equality_deletes_follow_sequence_and_null_rules"),
    "SCAN 6, eight threads": (SESSION, "test_eight_threads_at_once_get_the_right_rows"),
    "SCAN 6, stopped and started again": (SESSION, "test_a_lake_makes_its_own_session_with_the_packaged_java"),
    "SCAN 7, the optimizer knows the size": (SCAN, "test_the_optimizer_knows_how_many_rows_there_are"),
    "SCAN 7, and joins by it": (SCAN, "test_a_small_table_is_broadcast"),
    "SCAN 8, names that differ in case": (SCAN, "test_names_that_differ_in_case_only_are_two_columns"),
    "SCAN 8, widening": (SCAN, "test_widened_columns_read_old_and_new_files"),
    "SCAN 8, defaults": (SCAN, "test_files_without_a_column_have_its_initial_default"),
    "SCAN 8, bytes and nested defaults, dates that became timestamps, files without ids": (
        CHANGED,
        "test_a_filter_on_a_table_that_changed",
    ),
    "SCAN 9, batches are no row groups": (MINE, "test_workers_write_row_groups_not_batches"),
    "SQL 5.1, commands run when they are executed": (SQL, "test_1_explaining_a_command_does_not_carry_it_out"),
    "SQL 5.2, a cached target": (SQL, "test_2_a_cached_table_is_still_deleted_from"),
    "SQL 5.3, stale caches": (SQL, "test_3_no_cache_goes_stale"),
    "SQL 5.4, replacing is atomic": (
        SQL,
        "test_4_a_failed_replacement_leaves_the_table_and_a_failed_creation_none",
    ),
    "SQL 5.4, a table replaced by itself": (SQL, "test_4_a_table_may_be_replaced_by_a_query_of_itself"),
    "SQL 5.5, dynamic overwrite": (SQL, "test_5_partitions_are_overwritten_dynamically"),
    "SQL 5.6, assignments": (SQL, "test_6_row_level_commands_that_fail_do_nothing"),
    "SQL 5.7, two defaults of one method": (SQL, "test_7_no_class_lacks_a_method_or_has_two_defaults_for_one"),
    "SQL 5.8, numbers": (SQL, "test_8_numbers_cross_the_bridge_whole"),
    "SQL 5.9, conditions are walked": (SQL, "test_9_conditions_are_walked_not_read_as_text"),
    "SQL 5.10, private fields": (SQL, "test_10_the_private_fields_are_set_once_for_all_lakes"),
    "SQL 3, views": (SQL, "test_views_see_the_newest_rows_or_those_they_were_made_with"),
    "SQL 3, two catalogs": (SESSION, "test_two_lakes_live_in_one_session"),
    "SQL 3, sessions made later": (SESSION, "test_sessions_made_later_have_the_lake_and_its_grammar"),
    "DELETES 1, values, not counts": (SCAN, "test_deleted_rows_are_gone_and_the_others_are_whole"),
    "DELETES 2, types that are packed": (MINE, "test_rows_of_rare_types_are_whole_after_deletes"),
    "DELETES 3, batches that are wholly deleted": (MINE, "test_a_file_of_which_all_but_the_last_row_is_deleted"),
    "DELETES 4, equality deletes of all kinds": (SCAN, "test_equality_deletes_of_all_kinds_take_their_rows"),
    "DELETES 5, internals of Spark": (MINE, "test_the_internals_of_spark_that_deletes_rest_on_are_there"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_has_its_test(trap: str) -> None:
    file, name = TRAPS[trap]
    module = ast.parse((HERE / file).read_text())
    assert name in {node.name for node in module.body if isinstance(node, ast.FunctionDef)}


# Traps that have no better place


@pytest.fixture
def listed(spark: Any, lake: Any, name: str) -> Iterator[list[str]]:
    """The scans whose files were listed."""
    spark.sql(f"CREATE TABLE {name}_first AS SELECT 1 AS id").collect()
    spark.table(f"{name}_first").collect()  # whoever answers for files is there now
    bridge = bridge_of(spark)
    asked, seen = bridge._handlers["listFiles"], []

    def spy(key: str, *arguments: Any) -> Any:
        seen.append(key)
        return asked(key, *arguments)

    bridge.on("listFiles", spy)
    yield seen
    bridge.on("listFiles", asked)


def test_explaining_a_query_lists_no_files(spark: Any, sql: Callable[..., Any], name: str, listed: list[str]) -> None:
    sql(f"CREATE TABLE {name} AS SELECT id, id % 2 AS p FROM range(3)")
    listed.clear()
    assert "Scan" in spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {name} WHERE id = 1").collect()[0][0]
    assert listed == []
    assert spark.sql(f"SELECT * FROM {name} WHERE id = 1").collect() == [(1, 1)]
    assert len(listed) == 1


def test_files_are_listed_once_for_pruning_by_a_join(
    sql: Callable[..., Any], spark: Any, lake: Any, name: str, listed: list[str]
) -> None:
    sql(f"CREATE TABLE {name} PARTITIONED BY (p) AS SELECT id, concat('p', id % 4) AS p FROM range(40)")
    sql(f"CREATE TABLE {name}_choice AS SELECT 'p1' AS p, 1 AS wanted UNION ALL SELECT 'p2', 0")
    listed.clear()
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly", "false")
    try:
        frame = spark.sql(f"SELECT t.id FROM {name} t JOIN {name}_choice c ON t.p = c.p WHERE c.wanted = 1")
        assert sorted(row.id for row in frame.collect()) == list(range(1, 40, 4))
    finally:
        spark.conf.unset("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly")
    table = lake.table(name.removeprefix("lake.")).metadata.table_uuid
    assert sum(key.startswith(table) for key in listed) == 1


def test_workers_write_row_groups_not_batches(sql: Callable[..., Any], spark: Any, lake: Any, name: str) -> None:
    """Rows come in batches of ten thousand: a row group for each would make files larger and slower."""
    import pyarrow.parquet as pq

    sql(f"CREATE TABLE {name} (id BIGINT)")
    spark.range(0, 45_000, 1, 1).writeTo(name).option("frazil.write", "arrow").append()
    [task] = lake.table(name.removeprefix("lake.")).scan().plan().tasks()
    assert pq.ParquetFile(task.file.file_path).metadata.num_row_groups == 1


RARE = {
    "v": "VARIANT",
    "t": "TIME",
    "u": "UUID",
    "fx": "FIXED[3]",
    "lm": "ARRAY<MAP<STRING, STRUCT<a: DECIMAL(30, 2)>>>",
}


def test_rows_of_rare_types_are_whole_after_deletes(sql: Callable[..., Any], spark: Any, lake: Any, name: str) -> None:
    from frazil.spark.types import Dialect

    dialect = Dialect.of_version(spark.version)
    kinds = {column: kind for column, kind in RARE.items() if dialect.time or column != "t"}
    if not dialect.v3_types_in_files:
        del kinds["v"]
    columns = ", ".join(f"{column} {kind}" for column, kind in kinds.items())
    table = lake.create_table(name.removeprefix("lake."), f"id BIGINT, {columns}", format_version=3)
    values = {
        "v": "parse_json(concat('{\"n\": ', id, '}'))",
        "t": "time'01:02:03' + make_dt_interval(0, 0, 0, id)",
        "u": "concat('00000000-0000-0000-0000-', lpad(id, 12, '0'))",
        "fx": "unhex(lpad(hex(id), 6, '0'))",
        "lm": "array(map(concat('k', id), named_struct('a', cast(id AS decimal(30, 2)))))",
    }
    source = spark.range(0, 60, 1, 1).selectExpr("id", *(f"{values[column]} AS {column}" for column in kinds))
    source.writeTo(name).append()
    gone = set(range(60)) - {0, 7, 8, 9, 33, 59}
    delete_rows(table.refresh(), "id", gone)
    shown = ["id", *(f"to_json(v) AS {column}" if column == "v" else f"CAST({column} AS STRING)" for column in kinds)]
    found = spark.read.option("frazil.scan", "native").table(name).selectExpr(*shown).collect()
    kept = [row for row in source.selectExpr(*shown).collect() if row.id not in gone]
    if "fx" in kinds:  # bytes that are no text look alike as texts
        shown = ["id", "hex(fx) AS fx"]
        assert sorted(spark.table(name).selectExpr(*shown).collect()) == sorted(
            row for row in source.selectExpr(*shown).collect() if row.id not in gone
        )
    assert sorted(found) == sorted(kept)


def test_a_file_of_which_all_but_the_last_row_is_deleted(
    sql: Callable[..., Any], spark: Any, lake: Any, name: str
) -> None:
    """Whole batches are gone: looking whether there is a next one must go past them."""
    table = lake.create_table(name.removeprefix("lake."), "id BIGINT, s STRING", format_version=3)
    spark.range(0, 20_000, 1, 1).selectExpr("id", "concat('s', id) AS s").writeTo(name).append()
    delete_rows(table.refresh(), "id", set(range(19_999)))
    assert sql(f"SELECT * FROM {name}") == [(19_999, "s19999")]
    assert sql(f"SELECT count(*), max(_pos) FROM {name} WHERE id >= 0") == [(1, 19_999)]
    [path] = table.refresh().scan().plan().file_paths
    mark_all_rows(table, path)
    assert sql(f"SELECT s FROM {name}") == []
    assert sql(f"SELECT count(*) FROM {name}") == [(0,)]


def test_the_internals_of_spark_that_deletes_rest_on_are_there(spark: Any) -> None:
    """The vectors of a file travel with it under names of their own, and a column has the position of each row."""
    jvm = spark.sparkContext._jvm
    sources = "org.apache.spark.sql.execution.datasources"
    file = jvm.java.lang.Class.forName(f"{sources}.PartitionedFile")
    assert "otherConstantMetadataColumnValues" in {method.getName() for method in file.getMethods()}
    status = jvm.java.lang.Class.forName(f"{sources}.FileStatusWithMetadata")
    kinds = [[kind.getName() for kind in made.getParameterTypes()] for made in status.getConstructors()]
    assert ["org.apache.hadoop.fs.FileStatus", "scala.collection.immutable.Map"] in kinds
    name = jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME()
    assert name == "_tmp_metadata_row_index"
