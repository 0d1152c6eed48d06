"""What the properties of this folder found, each as one small story."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from frazil.errors import CommitConflict, InvalidValue
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.read import TaskReader
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.write import RowWriter
from frazil.io.deletion_vector import DeletionVector
from frazil.model.conform import conform
from frazil.model.partition import parse_partition_by
from frazil.model.schema import Schema
from frazil.model.types import DecimalType, DoubleType, LongType, NestedField, StringType
from tests.properties.memory_table import another_handle, new_table
from tests.properties.row_deletes import deletion_vectors, equality_deletes

SCHEMA = Schema(
    (
        NestedField(1, "n", LongType(), required=True),
        NestedField(2, "cat", StringType()),
        NestedField(3, "d", DoubleType()),
    )
)


def write(table: IcebergTable, rows: list[dict[str, Any]]) -> list[DataFile]:
    return RowWriter(table.metadata, table.store).write(conform(rows, table.schema))


def numbers(table: IcebergTable) -> list[int]:
    return sorted(table.scan().to_arrow()["n"].to_pylist())


def compacted(table: IcebergTable) -> tuple[list[DataFile], list[DataFile]]:
    """All files of a table, and one that holds their rows."""
    tasks = list(table.scan().plan().tasks())
    deletes = DeleteReader(table.store, table.metadata)
    reader = TaskReader(table.store, table.metadata, table.schema, table.schema, deletes, 1000)
    batches = [batch for task in tasks for batch in reader.read(task)]
    return [task.file for task in tasks], RowWriter(table.metadata, table.store).write(batches)


def test_a_v1_table_merges_manifests_of_which_files_were_just_removed() -> None:
    properties = {"commit.manifest.min-count-to-merge": "2"}
    table, _ = new_table(SCHEMA, format_version=1, properties=properties)
    table.append([{"n": 1}])
    table.append([{"n": 2}])
    table.append([{"n": 3}])
    table.delete("n = 1")
    assert numbers(table) == [2, 3]
    table.overwrite([{"n": 4}], "n = 2")
    assert numbers(table) == [3, 4]


def test_replacing_the_unpartitioned_part_of_a_table_keeps_equality_deletes_for_the_rest() -> None:
    table, _ = new_table(SCHEMA)
    table.append([{"n": 1, "cat": "x"}])
    table.update_spec().add_field("cat").commit()
    table.append([{"n": 2, "cat": "x"}, {"n": 3, "cat": "y"}])
    table.new_row_delta().add_deletes(equality_deletes(table, Schema(SCHEMA.fields[:1]), [[2]], 0, ())).commit()
    table.update_spec().remove_field("cat").commit()
    table.new_replace_partitions().add_files(write(table, [{"n": 9}])).commit()
    assert numbers(table) == [3, 9]


def test_replacing_partitions_takes_nan_for_itself_and_zero_for_another_than_minus_zero() -> None:
    table, _ = new_table(SCHEMA, parse_partition_by(SCHEMA, ["d"]))
    table.append([{"n": 1, "d": math.nan}, {"n": 2, "d": 0.0}, {"n": 3, "d": -0.0}])
    table.new_replace_partitions().add_files(write(table, [{"n": 4, "d": math.nan}, {"n": 5, "d": 0.0}])).commit()
    assert numbers(table) == [3, 4, 5]


def test_a_vector_is_refused_when_its_data_file_was_deleted_meanwhile() -> None:
    table, pointer = new_table(SCHEMA, format_version=3)
    table.append([{"n": 1}, {"n": 2}])
    (task,) = table.scan().plan().tasks()
    (vector,) = deletion_vectors(table, [(task.file, DeletionVector.from_positions([0]))])
    other = another_handle(table)
    pointer.before_swap = lambda: other.delete("n < 10")
    with pytest.raises(CommitConflict):
        table.new_row_delta().add_deletes(vector).commit()
    assert table.refresh().scan().plan().delete_files == []


def test_a_compaction_begun_before_row_ids_is_refused_after_they_were_given_out() -> None:
    table, pointer = new_table(SCHEMA, format_version=2)
    table.append([{"n": 1}])
    table.append([{"n": 2}])
    table.upgrade_format_version().to(3).commit()
    old, new = compacted(table)
    base = table.current_snapshot
    assert base is not None
    other = another_handle(table)
    pointer.before_swap = lambda: other.append([{"n": 3}])
    with pytest.raises(CommitConflict, match="gave ids"):
        table.new_rewrite().validate_from(base.snapshot_id).rewrite(old, new).commit()
    assert sorted(table.refresh().scan(columns=["_row_id"]).to_arrow()["_row_id"].to_pylist()) == [0, 1, 2]


def test_a_partition_value_that_does_not_fit_its_type_is_refused_and_nothing_is_left() -> None:
    schema = Schema((NestedField(1, "x", DecimalType(9, 2)),))
    table, _ = new_table(schema, parse_partition_by(schema, ["truncate(2, x)"]))
    with pytest.raises(InvalidValue, match="x_trunc"):
        table.append([{"x": Decimal("-9999999.99")}])
    assert [file.location for file in table.store.list(table.location)] == [table.metadata_location]
