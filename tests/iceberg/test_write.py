"""Rows to files: how many are open at a time, and what folders are called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.catalog.folder_table import FolderCommitter
from frazil.iceberg import write
from frazil.iceberg.data_locations import data_location
from frazil.iceberg.new_table import new_table_metadata
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.write import RowWriter
from frazil.io.local_store import LocalStore
from frazil.model.arrow import schema_from_anything
from frazil.model.partition import PartitionField, PartitionSpec
from frazil.model.transforms import parse_transform


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """An empty table, partitioned by a text."""
    schema = schema_from_anything("p STRING, id BIGINT")
    spec = PartitionSpec(0, (PartitionField((1,), 1000, "p", parse_transform("identity")),))
    store = LocalStore(fsync=False)
    (tmp_path / "metadata").mkdir()
    committer = FolderCommitter(store, str(tmp_path))
    made = new_table_metadata(schema, spec, location=str(tmp_path), format_version=2)
    return IcebergTable("t", store, committer, committer.create(made))


def _batch(*keys: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"p": list(keys), "id": pa.array(range(len(keys)), pa.int64())})


def test_a_partition_with_a_long_text_has_a_folder(table: IcebergTable) -> None:
    texts = ["ü" * 500 + "a", "ü" * 500 + "b", "x" * 252, "x" * 253, "%" * 300]
    table.append(pa.Table.from_batches([_batch(*texts)]))
    files = [task.file for task in table.scan().plan().tasks()]
    folders = {file.partition[0]: Path(file.file_path).parent.name for file in files}
    assert sorted(folders) == sorted(texts)
    assert len(set(folders.values())) == len(texts)
    assert all(len(name) <= 255 for name in folders.values())
    assert folders["x" * 252] == f"p={'x' * 252}"[:255]
    assert sorted(table.scan().to_arrow()["p"].to_pylist()) == sorted(texts)


def test_a_shortened_folder_ends_no_escape_in_the_middle(table: IcebergTable) -> None:
    for start in range(3):
        name = data_location(table.metadata, "p=" + "x" * start + "%C3" * 200, "f").split("/")[-2]
        assert name.rpartition("-")[0].removeprefix("p=").lstrip("x").replace("%C3", "") == ""


def test_few_files_are_open_at_a_time_and_all_rows_are_written(
    table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "OPEN_FILES", 3)
    monkeypatch.setattr(write, "CHUNK_BYTES", 1)
    writer = RowWriter(table.metadata, table.store)
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for keys in ("abcdefg", "gfedcba", "ggg"):
            yield _batch(*keys)
            most = max(most, len(writer._open))

    files = writer.write(batches())
    assert most == 3
    assert sum(file.record_count for file in files) == 17
    assert [file.partition[0] for file in files].count("a") == 2
    assert [file.partition[0] for file in files].count("e") == 1


def test_what_waits_in_memory_is_bounded(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "WAITING_BYTES", 100)
    monkeypatch.setattr(write, "CHUNK_BYTES", 1)
    writer = RowWriter(table.metadata, table.store)
    files = writer.write([_batch(*["a"] * 50, "b"), _batch("a", *["b"] * 50)])
    assert len(files) > 2
    assert sum(file.record_count for file in files) == 102


def test_rows_that_come_by_partition_need_one_open_file(table: IcebergTable) -> None:
    writer = RowWriter(table.metadata, table.store, arranged=True)
    files = writer.write([_batch("b", "b", "a"), _batch("a", "c")])
    assert [(file.partition[0], file.record_count) for file in files] == [("b", 2), ("a", 2), ("c", 1)]
    assert len({file.file_path for file in files}) == 3


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_slices_of_nested_columns_are_written_as_they_are(file_format: str) -> None:
    rows = [
        {
            "n": n,
            "st": None if n % 4 == 0 else {"x": n % 2 == 0, "deep": None if n % 5 == 0 else {"y": str(n)}},
            "l": None if n % 3 == 0 else [{"k": n % 2 == 0}, None],
            "m": [("a", n % 2 == 0)],
        }
        for n in range(20)
    ]
    kinds = {
        "n": pa.int64(),
        "st": pa.struct({"x": pa.bool_(), "deep": pa.struct({"y": pa.string()})}),
        "l": pa.list_(pa.struct({"k": pa.bool_()})),
        "m": pa.map_(pa.string(), pa.bool_()),
    }
    part = pa.Table.from_pylist(rows, pa.schema(kinds)).slice(7, 9)
    schema = (
        "n BIGINT, st STRUCT<x: BOOLEAN, deep: STRUCT<y: STRING>>, l ARRAY<STRUCT<k: BOOLEAN>>, m MAP<STRING, BOOLEAN>"
    )
    table = frazil.connect("memory:").create_table("db.t", schema, properties={"write.format.default": file_format})
    table.append(part)
    assert table.scan().to_arrow().sort_by("n").to_pylist() == part.to_pylist()
