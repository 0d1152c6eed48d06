"""Tables on S3, through the same code; and what one may not read is not found in another's memory."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from frazil.errors import AlreadyExists, FrazilError, Unsupported
from frazil.io.store import Stores
from frazil.lance.read import read_task
from frazil.lance.table import LanceTable
from tests.lance.test_table import made, numbers
from tests.s3_service import S3Bucket


def test_a_table_on_s3(s3_bucket: S3Bucket) -> None:
    store, root = Stores(s3_bucket.properties), f"{s3_bucket.location}/db/t"
    table = LanceTable.create(store, root, numbers(10).schema, numbers(10))
    table.append(numbers(5, 10))
    table.delete("a = 3")
    table.update({"b": "'x'"}, "a = 4")
    other = LanceTable.open(store, root)
    other.append(numbers(1, 100))
    table.compact()
    table.create_tag("t")
    expected = sorted([*(n for n in range(15) if n != 3), 100])
    assert sorted(table.scan().to_arrow().column("a").to_pylist()) == expected
    first = table.scan(limit=5).to_arrow()
    assert table.take(range(5)).combine_chunks() == first.combine_chunks()
    options = {
        "aws_endpoint": s3_bucket.properties["s3.endpoint"],
        "aws_region": "us-east-1",
        "aws_access_key_id": s3_bucket.properties["s3.access-key-id"],
        "aws_secret_access_key": s3_bucket.properties["s3.secret-access-key"],
        "allow_http": "true",
    }
    dataset = lance.dataset(root, storage_options=options)
    dataset.validate()
    assert dataset.to_table().combine_chunks() == table.scan().to_arrow().combine_chunks()
    lance.write_dataset(numbers(1, 200), root, mode="append", storage_options=options)
    assert table.refresh().scan("a = 200").count() == 1
    table.clean_up(older_than=1 << 50)
    assert [version.version for version in table.snapshots] == [6, 7]  # the tagged one, and the newest
    with pytest.raises(AlreadyExists):
        LanceTable.create(store, root, numbers(1).schema)


def test_data_files_need_a_place_that_pylance_can_reach() -> None:
    with pytest.raises(Unsupported):
        LanceTable.create(Stores(), "memory://lance/t", pa.schema({"a": pa.int32()}), pa.table({"a": [1]}))


def test_a_confined_store_does_not_see_what_was_read_without(tmp_path: Path) -> None:
    table = made(tmp_path / "t", numbers(10))
    table.delete("a = 1")
    plan = table.scan().plan()
    assert table.scan().to_arrow().num_rows == 9
    (tmp_path / "other").mkdir()
    with pytest.raises(FrazilError):
        list(read_task(Stores({"file.root": str(tmp_path / "other")}), plan, 0))
