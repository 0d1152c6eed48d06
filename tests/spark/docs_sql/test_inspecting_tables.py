"""Iceberg's section "Inspecting tables" (docs/docs/spark-queries.md): all sixteen metadata tables.

Columns are those of Iceberg 1.12, by name, order and type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from frazil.errors import InvalidArgument
from frazil.iceberg.metadata_tables import METADATA_TABLES
from frazil.iceberg.table import IcebergTable
from tests.interop.deletes import delete_rows, equality_deletes, live_files
from tests.spark.docs_sql.cases import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake

COUNTS, BOUNDS = "map<int,bigint>", "map<int,binary>"


def metrics(kind: str) -> str:
    """The type of one column in readable_metrics."""
    counts = ",".join(
        f"{name}:bigint" for name in ("column_size", "value_count", "null_value_count", "nan_value_count")
    )
    return f"struct<{counts},lower_bound:{kind},upper_bound:{kind}>"


READABLE = f"struct<category:{metrics('string')},data:{metrics('string')},id:{metrics('bigint')}>"
DATA_FILE = {
    "content": "int",
    "file_path": "string",
    "file_format": "string",
    "spec_id": "int",
    "partition": "struct<category:string>",
    "record_count": "bigint",
    "file_size_in_bytes": "bigint",
    "column_sizes": COUNTS,
    "value_counts": COUNTS,
    "null_value_counts": COUNTS,
    "nan_value_counts": COUNTS,
    "lower_bounds": BOUNDS,
    "upper_bounds": BOUNDS,
    "key_metadata": "binary",
    "split_offsets": "array<bigint>",
    "equality_ids": "array<int>",
    "sort_order_id": "int",
    "first_row_id": "bigint",
    "referenced_data_file": "string",
    "content_offset": "bigint",
    "content_size_in_bytes": "bigint",
}
FILES = {**DATA_FILE, "readable_metrics": READABLE}
ENTRIES = {
    "status": "int",
    "snapshot_id": "bigint",
    "sequence_number": "bigint",
    "file_sequence_number": "bigint",
    "data_file": f"struct<{','.join(f'{name}:{kind}' for name, kind in DATA_FILE.items())}>",
    "readable_metrics": READABLE,
}
MANIFESTS = {
    "content": "int",
    "path": "string",
    "length": "bigint",
    "partition_spec_id": "int",
    "added_snapshot_id": "bigint",
    "added_data_files_count": "int",
    "existing_data_files_count": "int",
    "deleted_data_files_count": "int",
    "added_delete_files_count": "int",
    "existing_delete_files_count": "int",
    "deleted_delete_files_count": "int",
    "partition_summaries": (
        "array<struct<contains_null:boolean,contains_nan:boolean,lower_bound:string,upper_bound:string>>"
    ),
}
COLUMNS = {
    "history": {
        "made_current_at": "timestamp",
        "snapshot_id": "bigint",
        "parent_id": "bigint",
        "is_current_ancestor": "boolean",
    },
    "metadata_log_entries": {
        "timestamp": "timestamp",
        "file": "string",
        "latest_snapshot_id": "bigint",
        "latest_schema_id": "int",
        "latest_sequence_number": "bigint",
    },
    "snapshots": {
        "committed_at": "timestamp",
        "snapshot_id": "bigint",
        "parent_id": "bigint",
        "operation": "string",
        "manifest_list": "string",
        "summary": "map<string,string>",
    },
    "refs": {
        "name": "string",
        "type": "string",
        "snapshot_id": "bigint",
        "max_reference_age_in_ms": "bigint",
        "min_snapshots_to_keep": "int",
        "max_snapshot_age_in_ms": "bigint",
    },
    "partitions": {
        "partition": "struct<category:string>",
        "spec_id": "int",
        "record_count": "bigint",
        "file_count": "int",
        "total_data_file_size_in_bytes": "bigint",
        "position_delete_record_count": "bigint",
        "position_delete_file_count": "int",
        "equality_delete_record_count": "bigint",
        "equality_delete_file_count": "int",
        "last_updated_at": "timestamp",
        "last_updated_snapshot_id": "bigint",
    },
    "position_deletes": {
        "file_path": "string",
        "pos": "bigint",
        "row": "struct<id:bigint,data:string,category:string>",
        "partition": "struct<category:string>",
        "spec_id": "int",
        "delete_file_path": "string",
    },
    "manifests": MANIFESTS,
    "all_manifests": {**MANIFESTS, "reference_snapshot_id": "bigint", "key_metadata": "binary"},
    "entries": ENTRIES,
    "all_entries": ENTRIES,
    **{f"{scope}{kind}": FILES for scope in ("", "all_") for kind in ("files", "data_files", "delete_files")},
}


@pytest.fixture(scope="module")
def table(spark: SparkSession, prod: Lake) -> Iterator[IcebergTable]:
    """prod.db.table: appended twice, one row deleted by position and one by equality, a snapshot rolled back, a tag."""
    world = World(spark, prod)
    world.sql(
        """CREATE TABLE prod.db.table (id BIGINT, data STRING, category STRING) USING iceberg PARTITIONED BY (category)
        TBLPROPERTIES ('format-version' = '2')"""
    )
    world.sql("INSERT INTO prod.db.table VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')")
    first = prod.table("db.table").current_snapshot
    assert first is not None
    world.sql("INSERT INTO prod.db.table VALUES (9, 'no', 'z')")
    world.sql(f"CALL prod.system.rollback_to_snapshot('db.table', {first.snapshot_id})")
    world.sql("INSERT INTO prod.db.table VALUES (4, 'd', 'y')")
    made = prod.table("db.table")
    delete_rows(made, "id", {1})
    where = next(file for file in live_files(made) if file.partition == ("y",))
    gone = equality_deletes(made, "equality", [{"id": 3}], ["id"], spec_id=where.spec_id, partition=where.partition)
    made.new_row_delta().add_deletes(gone).commit()
    world.sql(f"ALTER TABLE prod.db.table CREATE TAG testTag AS OF VERSION {first.snapshot_id} RETAIN 10 DAYS")
    yield made.refresh()
    prod.drop_table("db.table", purge=True)


@pytest.fixture
def ask(spark: SparkSession, prod: Lake) -> Any:
    return World(spark, prod).sql


def ids(table: IcebergTable) -> list[int]:
    """The snapshots: first, rolled back, second, position deletes, equality deletes."""
    return [snapshot.snapshot_id for snapshot in table.snapshots]


def test_the_rows_are_those_the_metadata_tells_of(ask: Any, table: IcebergTable) -> None:
    assert sorted(ask("SELECT * FROM prod.db.table")) == [(2, "b", "x"), (4, "d", "y")]


def test_there_are_sixteen_of_them() -> None:
    assert set(COLUMNS) == set(METADATA_TABLES)
    assert len(COLUMNS) == 16


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_are_those_of_iceberg(ask: Any, table: IcebergTable, spark: SparkSession, kind: str) -> None:
    """As DESCRIBE tells them, and as rows have them."""
    assert [row[:2] for row in ask(f"DESCRIBE prod.db.table.{kind}")] == list(COLUMNS[kind].items())
    frame = spark.sql(f"SELECT * FROM prod.db.table.{kind}")
    assert {field.name: field.dataType.simpleString() for field in frame.schema.fields} == COLUMNS[kind]
    assert len(frame.collect()) == frame.count() > 0


def test_history(ask: Any, table: IcebergTable) -> None:
    first, lost, second, positions, equality = ids(table)
    found = ask(
        "SELECT snapshot_id, parent_id, is_current_ancestor FROM prod.db.table.history ORDER BY made_current_at"
    )
    assert found == [
        (first, None, True),
        (lost, first, False),
        (first, None, True),
        (second, first, True),
        (positions, second, True),
        (equality, positions, True),
    ]


def test_metadata_log_entries(ask: Any, table: IcebergTable) -> None:
    found = ask("SELECT * FROM prod.db.table.metadata_log_entries ORDER BY timestamp")
    assert found[0][2:] == (None, None, None)
    assert found[-1][1:4] == (table.metadata_location, ids(table)[-1], 0)
    assert found[-1][4] == table.metadata.last_sequence_number
    assert len({row[1] for row in found}) == len(found)


def test_snapshots(ask: Any, table: IcebergTable) -> None:
    found = ask("SELECT * FROM prod.db.table.snapshots ORDER BY committed_at")
    assert [row[1] for row in found] == ids(table)
    assert [row[3] for row in found] == ["append", "append", "append", "delete", "delete"]
    assert [row[4] for row in found] == [snapshot.manifest_list for snapshot in table.snapshots]
    assert found[0][5]["added-records"] == "3"
    assert found[0][0].timestamp() == table.snapshots[0].timestamp_ms / 1000


def test_snapshots_joined_to_history(ask: Any, spark: SparkSession, table: IcebergTable) -> None:
    found = ask(
        """select h.made_current_at, s.operation, h.snapshot_id, h.is_current_ancestor, s.summary['spark.app.id']
        from prod.db.table.history h join prod.db.table.snapshots s on h.snapshot_id = s.snapshot_id
        order by made_current_at"""
    )
    assert [row[1:4] for row in found][:3] == [
        ("append", ids(table)[0], True),
        ("append", ids(table)[1], False),
        ("append", ids(table)[0], True),
    ]
    assert {row[4] for row in found} == {spark.sparkContext.applicationId, None}


def test_entries(ask: Any, table: IcebergTable) -> None:
    found = ask(
        """SELECT status, snapshot_id, sequence_number, file_sequence_number, data_file.content,
        data_file.record_count, data_file.partition.category, readable_metrics.id.lower_bound
        FROM prod.db.table.entries"""
    )
    first, _, second, positions, equality = ids(table)
    numbers = {snapshot.snapshot_id: snapshot.sequence_number for snapshot in table.snapshots}
    expected = {
        (first, 0, 2, "x", 1),
        (first, 0, 1, "y", 3),
        (second, 0, 1, "y", 4),
        (positions, 1, 1, "x", None),
        (equality, 2, 1, "y", 3),
    }
    assert {(row[1], *row[4:]) for row in found} == expected
    assert all(row[2] == row[3] == numbers[row[1]] for row in found)
    assert {row[0] for row in found} <= {0, 1}


def test_files(ask: Any, table: IcebergTable) -> None:
    found = ask(
        """SELECT content, record_count, partition.category, equality_ids, value_counts[1], null_value_counts[2],
        readable_metrics.id.upper_bound, readable_metrics.data.lower_bound, file_size_in_bytes > 0
        FROM prod.db.table.files"""
    )
    assert sorted(found, key=repr) == sorted(
        [
            (0, 2, "x", None, 2, 0, 2, "a", True),
            (0, 1, "y", None, 1, 0, 3, "c", True),
            (0, 1, "y", None, 1, 0, 4, "d", True),
            (1, 1, "x", None, None, None, None, None, True),
            (2, 1, "y", [1], 1, None, 3, None, True),
        ],
        key=repr,
    )


@pytest.mark.parametrize(
    ("kind", "contents"),
    [
        ("data_files", [0, 0, 0]),
        ("delete_files", [1, 2]),
        ("files", [0, 0, 0, 1, 2]),
        ("all_data_files", [0, 0, 0, 0]),
        ("all_delete_files", [1, 2]),
        ("all_files", [0, 0, 0, 0, 1, 2]),
    ],
)
def test_files_by_their_content(ask: Any, table: IcebergTable, kind: str, contents: list[int]) -> None:
    """The all_ ones may tell of a file once for each snapshot it is in."""
    found = ask(f"SELECT DISTINCT file_path, content FROM prod.db.table.{kind}")
    assert sorted(row[1] for row in found) == contents


def test_manifests(ask: Any, table: IcebergTable) -> None:
    found = ask(
        """SELECT content, added_snapshot_id, added_data_files_count + existing_data_files_count,
        added_delete_files_count, partition_summaries[0].lower_bound, partition_summaries[0].upper_bound,
        partition_summaries[0].contains_null
        FROM prod.db.table.manifests"""
    )
    assert sum(row[2] for row in found) == 3
    assert [row[3] for row in found if row[0] == 1] == [1, 1]
    assert {row[4] for row in found} == {"x", "y"}
    assert not any(row[6] for row in found)
    referenced = {row[0] for row in ask("SELECT reference_snapshot_id FROM prod.db.table.all_manifests")}
    assert referenced == set(ids(table))


def test_partitions(ask: Any, table: IcebergTable) -> None:
    found = ask(
        """SELECT partition.category, spec_id, record_count, file_count, position_delete_record_count,
        position_delete_file_count, equality_delete_record_count, equality_delete_file_count, last_updated_snapshot_id
        FROM prod.db.table.partitions ORDER BY 1"""
    )
    *_, positions, equality = ids(table)
    assert found == [("x", 0, 2, 1, 1, 1, 0, 0, positions), ("y", 0, 2, 2, 0, 0, 1, 1, equality)]


def test_partitions_of_a_table_without_partitions_have_no_partition(world: World) -> None:
    world.sql("CREATE TABLE prod.db.plain AS SELECT id FROM range(3)")
    names = [row[0] for row in world.sql("DESCRIBE prod.db.plain.partitions")]
    assert names == [name for name in COLUMNS["partitions"] if name not in ("partition", "spec_id")]
    assert world.sql("SELECT record_count, position_delete_file_count FROM prod.db.plain.partitions") == [(3, 0)]
    assert "partition" not in [row[0] for row in world.sql("DESCRIBE prod.db.plain.files")]


def test_position_deletes(ask: Any, table: IcebergTable) -> None:
    [(path, position, row, partition, spec_id, by)] = ask("SELECT * FROM prod.db.table.position_deletes")
    assert (position, row, partition, spec_id) == (0, None, ("x",), 0)
    assert by.endswith("-deletes.parquet")
    assert ask("SELECT DISTINCT _file FROM prod.db.table WHERE id = 2") == [(path,)]


def test_position_deletes_of_vectors_tell_where_they_are(world: World) -> None:
    world.sql("CREATE TABLE prod.db.v3 (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    world.sql("INSERT INTO prod.db.v3 SELECT id FROM range(0, 5, 1, 1)")
    delete_rows(world.table("db.v3"), "id", {1, 3})
    found = world.sql("SELECT pos, content_offset > 0, content_size_in_bytes > 0 FROM prod.db.v3.position_deletes")
    assert sorted(found) == [(1, True, True), (3, True, True)]


def test_references(ask: Any, table: IcebergTable) -> None:
    first, *_, last = ids(table)
    assert ask("SELECT * FROM prod.db.table.refs ORDER BY name") == [
        ("main", "BRANCH", last, None, None, None),
        ("testTag", "TAG", first, 10 * 86_400_000, None, None),
    ]


def test_inspecting_with_data_frames(spark: SparkSession, table: IcebergTable) -> None:
    assert spark.table("prod.db.table.files").count() == 5
    assert spark.read.format("frazil").load("prod.db.table.files").count() == 5
    assert spark.read.format("frazil").load(f"{table.location}#files").count() == 5


def test_time_travel_with_metadata_tables(ask: Any, spark: SparkSession, table: IcebergTable) -> None:
    first, _, second, *_ = table.snapshots
    when = spark.sql(f"SELECT timestamp_millis({second.timestamp_ms})").collect()[0][0]
    assert len(ask(f"SELECT * FROM prod.db.table.manifests TIMESTAMP AS OF '{when}'")) == 2
    found = ask(
        f"SELECT partition.category, record_count FROM prod.db.table.partitions VERSION AS OF {first.snapshot_id}"
    )
    assert sorted(found) == [("x", 2), ("y", 1)]
    assert ask("SELECT count(*) FROM prod.db.table.files VERSION AS OF 'testTag'") == [(2,)]
    assert spark.read.option("snapshot-id", first.snapshot_id).table("prod.db.table.files").count() == 2
    by_name = spark.read.format("frazil").option("snapshot-id", first.snapshot_id).load("prod.db.table.files")
    assert by_name.count() == 2


@pytest.mark.parametrize("kind", ["history", "snapshots", "refs", "metadata_log_entries", "all_files", "all_manifests"])
def test_tables_about_all_snapshots_are_not_those_of_one(ask: Any, table: IcebergTable, kind: str) -> None:
    with pytest.raises(InvalidArgument, match="all snapshots"):
        ask(f"SELECT * FROM prod.db.table.{kind} VERSION AS OF {ids(table)[0]}")


def test_metadata_tables_join_each_other_and_the_table(ask: Any, table: IcebergTable) -> None:
    found = ask(
        """SELECT f.partition.category, count(*) FROM prod.db.table t JOIN prod.db.table.files f
        ON t._file = f.file_path GROUP BY 1 ORDER BY 1"""
    )
    assert found == [("x", 1), ("y", 1)]
    found = ask(
        """SELECT s.operation, count(*) FROM prod.db.table.entries e JOIN prod.db.table.snapshots s
        ON e.snapshot_id = s.snapshot_id WHERE e.data_file.content = 0 GROUP BY 1"""
    )
    assert found == [("append", 3)]


def test_metadata_tables_of_an_empty_table_are_empty(world: World) -> None:
    world.sql("CREATE TABLE prod.db.empty (id BIGINT) USING iceberg")
    for kind in COLUMNS:
        expected = 1 if kind == "metadata_log_entries" else 0
        assert len(world.sql(f"SELECT * FROM prod.db.empty.{kind}")) == expected, kind
