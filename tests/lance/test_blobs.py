"""Blobs: in their first layout they are bytes to us; in the second they are refused, and the other columns are not."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from frazil.errors import Unsupported
from tests.lance.test_table import opened

BLOB = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
VALUES = [b"abc", None, b"", b"x" * 1000]
ROWS = pa.table([pa.array([1, 2, 3, 4]), VALUES], schema=pa.schema([pa.field("a", pa.int64()), BLOB]))


@pytest.mark.parametrize("file_version", ["2.0", "2.1"])
def test_first_layout(tmp_path: Path, file_version: str) -> None:
    lance.write_dataset(ROWS, tmp_path, data_storage_version=file_version)
    table = opened(tmp_path)
    assert table.scan().to_arrow().column("blob").to_pylist() == VALUES
    table.append(ROWS)
    table.delete("a = 1")
    table.compact()
    assert table.scan().to_arrow().column("blob").to_pylist() == [*VALUES[1:], *VALUES[1:]]
    dataset = lance.dataset(tmp_path)
    dataset.validate()
    found = [None if blob is None else blob.readall() for blob in dataset.take_blobs("blob", indices=range(6))]
    assert found == [*VALUES[1:], *VALUES[1:]]


def test_second_layout(tmp_path: Path) -> None:
    lance.write_dataset(ROWS, tmp_path, data_storage_version="2.2")
    table = opened(tmp_path)
    with pytest.raises(Unsupported, match="blob"):
        table.scan().to_arrow()
    with pytest.raises(Unsupported, match="blob"):
        table.append([{"a": 1}])
    assert table.scan("a > 2", ["a"]).to_arrow().to_pydict() == {"a": [3, 4]}
    table.delete("a = 4")
    table.add_columns({"b": "a * 2"})
    dataset = lance.dataset(tmp_path)
    dataset.validate()
    assert dataset.to_table(columns=["a", "b"]).to_pydict() == {"a": [1, 2, 3], "b": [2, 4, 6]}
    assert dataset.take_blobs("blob", indices=[0])[0].readall() == b"abc"
