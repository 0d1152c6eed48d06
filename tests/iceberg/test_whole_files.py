"""`table.delete` where all rows of a file go: what is read for it, and how many rows it says went."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from frazil.errors import FileMissing, Unsupported
from frazil.iceberg.table import IcebergTable
from tests.iceberg.small_tables import (
    equality_deletes,
    ids_of,
    live_files,
    new_table,
    position_deletes,
    rows,
    vector,
)

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
MODES = pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])


def made(version: int, mode: str, schema: str = "id BIGINT NOT NULL, name STRING, part INT", **more: Any):
    return new_table(version, schema, **{"write.delete.mode": mode}, **more)


def lose_data(table: IcebergTable) -> None:
    """Whoever reads a data file now fails."""
    for file in live_files(table):
        table.store.delete(file.file_path)


def lose_deletes(table: IcebergTable) -> None:
    """Whoever reads a delete file now fails."""
    for file in table.scan().plan().delete_files:
        table.store.delete(file.file_path)


@VERSIONS
@MODES
@pytest.mark.parametrize(
    "where",
    [
        "id < 100",
        "id IN (1, 2, 3) OR id >= 1",
        "name >= 'n' AND part = 0",
        "name IS NOT NULL",
        "part != 5",
        "NOT (id > 3)",
    ],
)
def test_metrics_tell_that_all_rows_match(version: int, mode: str, where: str):
    table = made(version, mode)
    table.append(rows(1, 2, 3))
    lose_data(table)
    done = table.delete(where)
    assert (done.rows_deleted, done.data_files_removed, done.data_files_added) == (3, 1, 0)
    assert done.snapshot is not None
    assert done.snapshot.summary["operation"] == "delete"
    assert ids_of(table) == []


@MODES
def test_partition_and_metrics_together(mode: str):
    """What the partition leaves of the filter is up to the metrics."""
    table = made(2, mode, partition_by=("bucket(4, part)",), **{"write.metadata.metrics.column.part": "none"})
    table.append([*rows(1, 2, part=0), *rows(300, part=1)])
    lose_data(table)
    done = table.delete("part IS NOT NULL AND id < 500")
    assert (done.rows_deleted, ids_of(table)) == (3, [])


@MODES
@pytest.mark.parametrize(
    ("values", "where", "left"),
    [
        ([1.0, float("nan")], "x < 5", 1),
        ([1.0, None], "x < 5", 1),
        ([1.0, None], "x != 7", 1),
        ([1.0, None], "x IS NULL", 1),
        ([float("nan"), 1.0], "x IS NOT NULL", 0),
    ],
)
def test_nulls_and_nans_are_not_taken_for_matches(mode: str, values: list[Any], where: str, left: int):
    table = made(2, mode, "x DOUBLE")
    table.append([{"x": value} for value in values])
    done = table.delete(where)
    assert (done.rows_deleted, table.scan().count()) == (len(values) - left, left)


@MODES
def test_bounds_that_were_cut_are_no_values(mode: str):
    table = made(2, mode, "s STRING")
    table.append([{"s": "a" * 16 + "b"}, {"s": "a" * 16 + "c"}])
    assert table.delete(f"s = '{'a' * 16}'").snapshot is None
    assert table.delete(f"s < '{'a' * 16}bb'").rows_deleted == 1
    assert table.scan().to_arrow().to_pylist() == [{"s": "a" * 16 + "c"}]


@MODES
def test_a_column_that_was_added_later_tells_nothing_of_older_files(mode: str):
    table = made(3, mode)
    table.append(rows(1, 2))
    table.update_schema().add_column("more", "int").commit()
    table.append([{"id": 3, "more": 1}])
    assert table.delete("more >= 1").rows_deleted == 1
    assert ids_of(table) == [1, 2]


@MODES
def test_overwrite_by_metadata_alone(mode: str):
    table = made(2, mode)
    table.append(rows(1, 2))
    lose_data(table)
    table.overwrite(rows(7), "id < 5")
    assert ids_of(table) == [7]


def test_version_1_is_refused_only_for_rows_that_must_be_marked():
    table = made(1, "merge-on-read")
    table.append(rows(1, 3))
    assert table.delete("id = 2").snapshot is None  # within the bounds of the file
    with pytest.raises(Unsupported, match="version 1"):
        table.delete("id = 1")
    assert table.delete("id < 4").rows_deleted == 2


def delete_before(table: IcebergTable, kind: str) -> None:
    """Delete the second row of the table's one file, in some way."""
    (file,) = live_files(table)
    delta = table.new_row_delta()
    if kind == "vector":
        delta.add_deletes(vector(table, file, 1))
    if kind == "positions":
        delta.add_deletes(replace(position_deletes(table, (file.file_path, 1)), referenced_data_file=file.file_path))
    if kind == "partition":
        delta.add_deletes(position_deletes(table, (file.file_path, 1), ("memory://another/file.parquet", 0)))
    if kind == "twice":
        for _ in range(2):
            delta.add_deletes(position_deletes(table, (file.file_path, 1)))
    if kind in ("equality", "both"):
        delta.add_deletes(equality_deletes(table, [{"id": 2}, {"id": 70}], "id"))
    if kind == "both":
        delta.add_deletes(position_deletes(table, (file.file_path, 1), (file.file_path, 2)))
    delta.commit()


@MODES
@pytest.mark.parametrize("kind", ["vector", "positions", "partition", "twice"])
def test_rows_that_were_deleted_before_do_not_count(mode: str, kind: str):
    table = made(3 if kind == "vector" else 2, mode)
    table.append(rows(1, 2, 3, 4, 5))
    delete_before(table, kind)
    lose_data(table)
    if kind in ("vector", "positions"):
        lose_deletes(table)
    assert table.delete("id < 100").rows_deleted == 4
    assert ids_of(table) == []


@MODES
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["equality", "both"])
def test_rows_are_not_counted_where_equality_deletes_apply(version: int, mode: str, kind: str):
    table = made(version, mode)
    table.append(rows(1, 2, 3, 4, 5))
    delete_before(table, "equality" if version == 3 else kind)
    table.append(rows(201, 202))
    lose_data(table)
    lose_deletes(table)
    done = table.delete("id < 100")
    assert (done.rows_deleted, done.data_files_removed, done.data_files_added) == (None, 1, 0)
    assert done.snapshot is not None
    assert (done.snapshot.summary["operation"], done.snapshot.summary["deleted-records"]) == ("delete", "5")
    assert "rows_deleted=unknown" in repr(done)
    assert "<th>rows_deleted</th><td>unknown</td>" in done._repr_html_()
    assert "rows_deleted" not in done.counts()
    assert table.delete("id > 100").rows_deleted == 2  # keys that cannot hit a file do not apply to it


@MODES
def test_some_rows_that_can_be_counted_and_some_that_cannot(mode: str):
    table = made(2, mode)
    table.append(rows(1, 2))
    table.new_row_delta().add_deletes(equality_deletes(table, [{"id": 2}], "id")).commit()
    table.append(rows(3, 4, 9))
    done = table.delete("id < 5")
    assert (done.rows_deleted, ids_of(table)) == (None, [9])


@MODES
def test_without_a_row_left_there_is_no_snapshot(mode: str):
    table = made(2, mode)
    table.append(rows(1, 2))
    (file,) = live_files(table)
    table.new_row_delta().add_deletes(position_deletes(table, (file.file_path, 0), (file.file_path, 1))).commit()
    assert table.delete("id < 100").snapshot is None


@MODES
def test_files_go_though_keys_may_have_left_no_row(mode: str):
    table = made(2, mode)
    table.append(rows(1, 2))
    table.new_row_delta().add_deletes(equality_deletes(table, [{"id": 1}, {"id": 2}], "id")).commit()
    done = table.delete("id < 100")
    assert (done.rows_deleted, done.data_files_removed, live_files(table)) == (None, 1, [])


@MODES
def test_overwrite_reads_nothing_where_equality_deletes_apply(mode: str):
    table = made(2, mode)
    table.append(rows(1, 2))
    delete_before(table, "equality")
    lose_data(table)
    lose_deletes(table)
    table.overwrite(rows(7), "id < 5")
    assert ids_of(table) == [7]


def test_rows_that_metrics_do_not_tell_of_are_read():
    table = made(2, "copy-on-write")
    table.append(rows(1, 2, 3))
    lose_data(table)
    with pytest.raises(FileMissing):
        table.delete("id < 3")
