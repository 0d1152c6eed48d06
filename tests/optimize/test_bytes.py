"""Minor optimizing reads and writes bytes in proportion to the changes, not to the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from frazil import ambient
from frazil.catalog.definition import TableDefinition
from frazil.catalog.mixed_folder import create_mixed_table
from frazil.io.memory_store import MemoryStore
from frazil.model.arrow import schema_from_anything
from frazil.optimize.evaluate import Kind
from tests.faults import FaultyStore
from tests.mixed.tables import rows_of

SCHEMA = "id BIGINT NOT NULL, word STRING"
PROPERTIES = {
    "write.parquet.row-group-size-bytes": "65536",
    "self-optimizing.target-size": "16384",
    "base.file-index.hash-bucket": "2",
    "write.parquet.dict-size-bytes": "1024",
}


class Counting(FaultyStore):
    """Knows how many bytes of data files were read and written."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.read_bytes = self.written_bytes = 0

    def open_input(self, location: str) -> Any:
        return pa.PythonFile(_Input(self, super().open_input(location)), mode="r")

    def open_output(self, location: str) -> Any:
        sink = super().open_output(location)
        append = sink._append

        def counted(data: memoryview) -> None:
            self.written_bytes += len(data)
            append(data)

        sink._append = counted  # type: ignore[method-assign]
        return sink


class _Input:
    def __init__(self, store: Counting, inner: Any) -> None:
        self._store, self._inner = store, inner

    def read(self, count: int = -1) -> bytes:
        data: bytes = self._inner.read() if count < 0 else self._inner.read(count)
        self._store.read_bytes += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._inner.seek(offset, whence))

    def tell(self) -> int:
        return int(self._inner.tell())

    def close(self) -> None:
        self._inner.close()

    @property
    def closed(self) -> bool:
        return bool(self._inner.closed)


def made(rows: int) -> tuple[Any, Counting]:
    """A keyed table with as many rows in its base store."""
    name = f"bytes-{ambient.new_uuid()}"
    store = Counting(MemoryStore(name))
    definition = TableDefinition(schema_from_anything(SCHEMA), (), (), PROPERTIES)
    table = create_mixed_table(store, f"memory://{name}/db/t", definition, primary_key=["id"])
    table.overwrite_partitions(of(np.arange(rows)))
    return table, store


def of(ids: Any, word: str = "w") -> pa.Table:
    dice = np.random.default_rng(1)
    words = [f"{word}{number:x}" for number in dice.integers(0, 2**60, len(ids))]
    return pa.table({"id": pa.array(ids, pa.int64()), "word": words})


def minor(table: Any, store: Counting) -> tuple[int, int]:
    """What a minor one reads and writes."""
    before = rows_of(table)
    store.read_bytes = store.written_bytes = 0
    result = table.optimize("minor", upkeep=False)
    assert [run.kind for run in result.runs] == [Kind.MINOR]
    assert result.count("delete_files_added") > 0
    told = store.read_bytes, store.written_bytes
    assert rows_of(table) == before
    return told


def test_what_is_written_and_read_goes_with_the_changes() -> None:
    small, large = made(10_000), made(100_000)
    sizes = {}
    for table, store in (small, large):
        table.upsert(of(np.arange(1000, 1100), "new"))
        sizes[table] = minor(table, store)
    (read, written), (more_read, more_written) = sizes.values()
    total = sum(task.file.file_size_in_bytes for task in large[0].base_store.scan().plan().tasks())
    assert more_written < 1.2 * written
    assert more_written < total / 50
    assert more_read < 1.2 * read  # footers, and a row group of keys
    assert more_read < total / 4


def test_files_that_are_no_small_ones_are_left_to_major() -> None:
    """Two of a node that would fit into one file are not merged because a few rows changed."""
    table, store = made(600)
    table.append(of(np.arange(600, 1200)))
    table.optimize("minor", upkeep=False)
    large = {file for file, size in sizes_of(table).items() if size > 16384 // 8}
    assert len(large) == 6  # of two nodes of the base store, and of four where changes were
    table.upsert(of(np.arange(5), "new"))
    minor(table, store)
    assert large <= sizes_of(table).keys()
    assert not table.optimize("minor", upkeep=False).runs


def sizes_of(table: Any) -> dict[str, int]:
    """The data files of the base store."""
    tasks = table.refresh().base_store.scan().plan().tasks()
    return {task.file.file_path: task.file.file_size_in_bytes for task in tasks}


def test_of_keys_anywhere_only_the_column_of_keys_is_read() -> None:
    table, store = made(100_000)
    total = sum(task.file.file_size_in_bytes for task in table.base_store.scan().plan().tasks())
    table.upsert(of(np.arange(0, 100_000, 1_000), "new"))
    read, written = minor(table, store)
    assert written < total / 50
    assert read < total / 2


@pytest.mark.parametrize("schema", ["id STRING NOT NULL, word STRING", "id DATE NOT NULL, word STRING"])
def test_keys_of_other_types_are_found(schema: str) -> None:
    name = f"bytes-{ambient.new_uuid()}"
    definition = TableDefinition(schema_from_anything(schema), (), (), {"self-optimizing.target-size": "1000"})
    table = create_mixed_table(MemoryStore(name), f"memory://{name}/db/t", definition, primary_key=["id"])
    kind = table.schema.find("id").type

    def rows(numbers: Any, word: str) -> pa.Table:
        ids = pa.array(numbers, pa.int32()).cast(pa.date32()) if str(kind) == "date" else [f"k{n}" for n in numbers]
        return pa.table({"id": ids, "word": [word] * len(numbers)})

    table.overwrite_partitions(rows(range(400), "old"))
    table.upsert(rows(range(50, 60), "new"))
    before = rows_of(table)
    assert table.optimize("minor").count("delete_files_added") > 0
    assert rows_of(table) == before
    assert len(before) == 400
