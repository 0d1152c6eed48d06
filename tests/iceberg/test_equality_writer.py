"""Keys to equality delete files: by partition, by size, and which columns can be keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import InvalidArgument, Unsupported
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.equality_writer import EqualityDeleteWriter
from frazil.iceberg.table import IcebergTable
from frazil.model.values import to_bytes
from tests.faults import Fault, FaultyStore, StoreError
from tests.iceberg.small_tables import ids_of, new_table, rows


def keys_of(table: IcebergTable, *columns: str) -> tuple[int, ...]:
    return tuple(table.schema.find(column).id for column in columns)


def write(table: IcebergTable, gone: list[dict[str, Any]], *columns: str, **options: Any) -> list[DataFile]:
    writer = EqualityDeleteWriter(table.metadata, table.store, keys_of(table, *columns), **options)
    return writer.write([pa.RecordBatch.from_pylist(gone)])


def commit(table: IcebergTable, files: list[DataFile]) -> None:
    action = table.new_row_delta()
    for file in files:
        action.add_deletes(file)
    action.commit()


@pytest.mark.parametrize("version", [2, 3])
def test_keys_delete_rows_of_earlier_commits_in_all_files(version: int):
    table = new_table(version)
    table.append(rows(1, 2, 3))
    table.append(rows(2, 4))
    files = write(table, [{"id": 2}, {"id": 9}], "id")
    commit(table, files)
    assert ids_of(table) == [1, 3, 4]
    table.append(rows(2))
    assert ids_of(table) == [1, 2, 3, 4]
    [file] = files
    assert (file.content, file.equality_ids) == (Content.EQUALITY_DELETES, keys_of(table, "id"))
    assert (file.record_count, file.sort_order_id, file.spec_id, file.partition) == (2, 0, 0, ())
    number, type_ = table.schema.find("id").id, table.schema.find("id").type
    assert file.lower_bounds == {number: to_bytes(type_, 2)}
    assert file.upper_bounds == {number: to_bytes(type_, 9)}
    assert file.file_path.startswith(f"{table.location}/data/")
    assert file.file_path.endswith("-deletes.parquet")


def test_keys_of_several_columns_with_nulls():
    table = new_table(2)
    table.append([{"id": 1, "name": None, "part": 0}, {"id": 1, "name": "a", "part": 0}, {"id": 2, "name": "a"}])
    commit(table, write(table, [{"name": None, "id": 1}, {"name": "a", "id": 2}], "id", "name"))
    assert [(row["id"], row["name"]) for row in table.scan().to_arrow().to_pylist()] == [(1, "a")]


def test_keys_inside_a_struct():
    table = new_table(2, "id BIGINT, s STRUCT<k: BIGINT, v: STRING>")
    table.append([{"id": n, "s": {"k": n, "v": "x"}} for n in (1, 2)])
    commit(table, write(table, [{"s": {"k": 1}}], "s.k"))
    assert ids_of(table) == [2]


def test_keys_are_split_by_partition():
    table = new_table(2, partition_by=("part",))
    table.append([*rows(1, 2, 3, part=0), *rows(1, 2, 3, part=1)])
    gone = [{"id": 1, "part": 0}, {"id": 2, "part": 1}, {"id": 3, "part": 0}]
    files = write(table, gone, "id")
    commit(table, files)
    found = [(row["id"], row["part"]) for row in table.scan().to_arrow().to_pylist()]
    assert sorted(found) == [(1, 1), (2, 0), (3, 1)]
    assert sorted((file.partition, file.record_count) for file in files) == [((0,), 2), ((1,), 1)]
    assert all(file.equality_ids == keys_of(table, "id") for file in files)
    assert all(f"/data/part={file.partition[0]}/" in file.file_path for file in files)


def test_rows_must_have_the_columns_of_the_partition_and_may_have_others():
    """A missing value would count as null, and the key be lost in another partition."""
    table = new_table(2, partition_by=("part",))
    table.append(rows(1, 2, part=0))
    with pytest.raises(InvalidArgument, match="'part'"):
        write(table, [{"id": 1}], "id")
    writer = EqualityDeleteWriter(table.metadata, table.store, keys_of(table, "id"))
    assert writer.schema.columns == ["id", "part"]
    commit(table, writer.write([pa.RecordBatch.from_pylist(rows(1, part=0))]))
    assert ids_of(table) == [2]


def test_deletes_reach_files_of_every_spec_or_are_refused():
    table = new_table(2)
    table.append(rows(1, 2))
    table.update_spec().add_field("part").commit()
    table.append(rows(1, 3))
    files = write(table, [{"id": 1}], "id")
    commit(table, files)
    assert ids_of(table) == [2, 3]
    assert [file.spec_id for file in files] == [0]
    table = new_table(2, partition_by=("part",))
    table.update_spec().add_field("bucket(4, id)").commit()
    with pytest.raises(InvalidArgument, match="partitioning of the table has changed"):
        write(table, rows(1), "id")
    [file] = write(table, rows(1), "id", spec=table.spec)
    assert file.spec_id == table.spec.spec_id


def test_files_are_rolled_by_their_own_size_and_in_no_order():
    table = new_table(2)
    table.update_sort_order().asc("id").commit()
    writer = EqualityDeleteWriter(
        table.metadata,
        table.store,
        keys_of(table, "id"),
        properties={"write.delete.target-file-size-bytes": "1", "write.delete.format.default": "avro"},
    )
    files = writer.write([pa.RecordBatch.from_pylist([{"id": 5}, {"id": 1}]), pa.RecordBatch.from_pylist([{"id": 3}])])
    assert [(file.file_format, file.record_count, file.sort_order_id) for file in files] == [
        ("avro", 2, 0),
        ("avro", 1, 0),
    ]


@pytest.mark.parametrize("column", ["f", "d", "s", "l", "l.element", "m.value"])
def test_columns_that_cannot_be_keys(column: str):
    table = new_table(2, "id BIGINT, f FLOAT, d DOUBLE, s STRUCT<k: INT>, l ARRAY<INT>, m MAP<STRING, INT>")
    with pytest.raises(InvalidArgument, match="cannot be a key"):
        EqualityDeleteWriter(table.metadata, table.store, keys_of(table, column))


def test_keys_must_be_named_and_there():
    table = new_table(2)
    with pytest.raises(InvalidArgument, match="no column"):
        EqualityDeleteWriter(table.metadata, table.store, ())
    with pytest.raises(InvalidArgument, match="no field 77"):
        EqualityDeleteWriter(table.metadata, table.store, (77,))
    with pytest.raises(Unsupported, match="version 1"):
        EqualityDeleteWriter(new_table(1).metadata, table.store, (1,))


def test_nothing_is_left_if_anything_fails():
    table = new_table(2, partition_by=("part",))
    before = [file.location for file in table.store.list(table.location)]
    store = FaultyStore(table.store, [Fault("close", "before", StoreError("gone"), match="-deletes.", first=2)])
    writer = EqualityDeleteWriter(table.metadata, store, keys_of(table, "id"))
    with pytest.raises(StoreError, match="gone"):
        writer.write([pa.RecordBatch.from_pylist([{"id": 1, "part": 0}, {"id": 2, "part": 1}, {"id": 3, "part": 2}])])
    assert [file.location for file in table.store.list(table.location)] == before
