"""Deleted positions to vectors and position delete files: what is added, what is absorbed, what a failure leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.errors import InvalidArgument, Unsupported
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_writer import DeleteWriter, WrittenDeletes
from frazil.iceberg.merge_on_read import fill
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.table import IcebergTable
from frazil.io.data_files import read_data_file
from frazil.io.deletion_vector import BLOB_TYPE, DeletionVector
from frazil.io.puffin import read_metadata
from frazil.model.schema import DELETE_FILE_PATH, DELETE_POS, Schema
from tests.faults import Fault, FaultyStore, StoreError
from tests.iceberg.small_tables import equality_deletes, ids_of, new_table, position_deletes, rows, vector

BY_PARTITION = {"write.delete.granularity": "partition"}


def tasks(table: IcebergTable, **at: Any) -> list[FileScanTask]:
    """The data files, that with the least id first."""
    first = {row["_file"]: row["id"] for row in table.scan(columns=["id", "_file"], **at).to_arrow().to_pylist()[::-1]}
    return sorted(table.scan(**at).plan().tasks(), key=lambda task: first.get(task.file.file_path, -1))


def write(
    table: IcebergTable, work: Iterable[tuple[FileScanTask, list[int]]], properties: dict[str, str] | None = None
) -> WrittenDeletes:
    vectors = ((task, DeletionVector.from_positions(positions)) for task, positions in work)
    return DeleteWriter(table.metadata, table.store, properties=properties).write(vectors)


def delete(
    table: IcebergTable, *work: tuple[FileScanTask, list[int]], branch: str = "main", **properties: str
) -> WrittenDeletes:
    """Write deletes and commit them."""
    written = write(table, work, {key.replace("__", "."): text for key, text in properties.items()})
    fill(table.new_row_delta(), written, written.emptied).to_branch(branch).commit()
    return written


def live_deletes(table: IcebergTable, **at: Any) -> list[DataFile]:
    return list(table.scan(**at).plan().delete_files)


def pairs(table: IcebergTable, file: DataFile) -> list[tuple[str, int]]:
    """What a position delete file holds."""
    schema = Schema((DELETE_FILE_PATH, DELETE_POS))
    batches = read_data_file(table.store, file.file_path, file.file_format, schema)
    return [(row["file_path"], row["pos"]) for _, batch in batches for row in batch.to_pylist()]


def everything(table: IcebergTable) -> set[str]:
    return {file.location for file in table.store.list(table.location)}


def grown(version: int, *groups: list[int], partition_by: tuple[str, ...] = (), **properties: str) -> IcebergTable:
    """A table with a data file for each group of ids; the partition is that of the number of the group."""
    table = new_table(version, partition_by=partition_by, **properties)
    for number, group in enumerate(groups):
        table.append(rows(*group, part=number % 2))
    return table


# Vectors.


def test_vectors_of_many_files_are_in_one_puffin_file_as_the_specification_asks():
    table = grown(3, [1, 2, 3], [4, 5, 6], partition_by=("part",))
    one, two = tasks(table)
    written = delete(table, (one, [0, 2]), (two, [1]))
    assert ids_of(table) == [2, 4, 6]
    assert (written.removed, written.emptied, written.deleted_rows) == ([], [], 3)
    assert written.referenced == [one.file.file_path, two.file.file_path]
    assert len({file.file_path for file in written.added}) == 1
    [location] = {file.file_path for file in written.added}
    assert location.startswith(f"{table.location}/data/0")
    assert location.endswith("-deletes.puffin")
    blobs = read_metadata(table.store, location).blobs
    for file, blob, task, count in zip(written.added, blobs, (one, two), (2, 1), strict=True):
        assert (file.content, file.file_format) == (Content.POSITION_DELETES, "puffin")
        assert (file.spec_id, file.partition) == (task.file.spec_id, task.file.partition)
        assert file.referenced_data_file == task.file.file_path == blob.properties["referenced-data-file"]
        assert (file.content_offset, file.content_size_in_bytes) == (blob.offset, blob.length)
        assert file.record_count == count == int(blob.properties["cardinality"])
        assert file.file_size_in_bytes == table.store.size(location)
        assert (file.sort_order_id, file.lower_bounds, blob.type) == (None, None, BLOB_TYPE)


def test_puffin_files_are_rolled_by_size():
    table = grown(3, *([number, number + 1] for number in range(0, 20, 2)))
    target = {"write.delete.target-file-size-bytes": "1000"}
    written = write(table, [(task, [0]) for task in tasks(table)], target)
    sizes = {file.file_path: file.file_size_in_bytes for file in written.added}
    assert 1 < len(sizes) < len(written.added) == 10
    assert all(table.store.size(path) == size < 2500 for path, size in sizes.items())
    fill(table.new_row_delta(), written, []).commit()
    assert ids_of(table) == list(range(1, 20, 2))


def test_a_second_vector_takes_in_the_first():
    """C4 #11: delete twice."""
    table = grown(3, [1, 2, 3, 4])
    first = delete(table, (tasks(table)[0], [0]))
    second = delete(table, (tasks(table)[0], [0, 2]))
    assert ids_of(table) == [2, 4]
    assert [file.key for file in second.removed] == [file.key for file in first.added]
    assert second.deleted_rows == 1  # one of the two was gone already
    [live] = live_deletes(table)
    assert live.record_count == 2
    assert table.current_snapshot.summary["total-delete-files"] == "1"


def test_nothing_is_written_where_nothing_is_new():
    for version in (2, 3):
        table = grown(version, [1, 2, 3])
        delete(table, (tasks(table)[0], [1]))
        before = everything(table)
        assert write(table, [(tasks(table)[0], [1])]) == WrittenDeletes()
        assert write(table, [(tasks(table)[0], [])]) == WrittenDeletes()
        assert write(table, []) == WrittenDeletes()
        assert everything(table) == before


def test_vectors_are_those_of_the_branch():
    """C4 #11 (presto#28182): a delete on a branch absorbs what the branch has, not what main has."""
    table = grown(3, [1, 2, 3, 4])
    table.manage_refs().create_branch("dev").commit()
    delete(table, (tasks(table)[0], [0]))
    delete(table, (tasks(table, ref="dev")[0], [1]), branch="dev")
    delete(table, (tasks(table, ref="dev")[0], [2]), branch="dev")
    assert (ids_of(table), ids_of(table, ref="dev")) == ([2, 3, 4], [1, 4])
    assert len(live_deletes(table, ref="dev")) == 1


@pytest.mark.parametrize("properties", [{}, BY_PARTITION], ids=["file", "partition"])
def test_a_vector_takes_in_position_deletes_of_version_2(properties: dict[str, str]):
    """Those of one file go; those of a partition stay, since another file needs them."""
    table = grown(2, [1, 2, 3, 4], [11, 12, 13, 14])
    old = write(table, [(task, [0]) for task in tasks(table)], properties)
    fill(table.new_row_delta(), old, []).commit()
    assert len(old.added) == (1 if properties else 2)
    table.upgrade_format_version().to(3).commit()
    written = delete(table, (tasks(table)[0], [1]))
    assert ids_of(table) == [3, 4, 12, 13, 14]
    [added] = written.added
    assert (added.is_deletion_vector, added.record_count, written.deleted_rows) == (True, 2, 1)
    mine = [] if properties else [file.key for file in old.added if file.target_path == added.referenced_data_file]
    assert [file.key for file in written.removed] == mine
    assert len(live_deletes(table)) == 2
    # once more: now there is a vector, and a reader looks at it alone
    delete(table, (tasks(table)[0], [2]))
    assert ids_of(table) == [4, 12, 13, 14]


def test_position_deletes_known_by_their_bounds_only_are_taken_in():
    """Older writers did not say which data file is meant."""
    table = grown(2, [1, 2, 3, 4])
    [task] = tasks(table)
    made = position_deletes(table, (task.file.file_path, 0))
    assert made.referenced_data_file is None
    whole = {DELETE_FILE_PATH.id: task.file.file_path.encode()}
    table.new_row_delta().add_deletes(replace(made, lower_bounds=whole, upper_bounds=whole)).commit()
    written = delete(table, (tasks(table)[0], [1]))
    assert [file.file_path for file in written.removed] == [made.file_path]
    assert (ids_of(table), len(live_deletes(table))) == ([3, 4], 1)


# Position delete files.


def test_a_file_for_each_data_file_unless_told():
    table = grown(2, [1, 2, 3], [4, 5, 6], partition_by=("part",))
    one, two = tasks(table)
    written = delete(table, (two, [2, 1]), (one, [1]))
    assert ids_of(table) == [1, 3, 4]
    assert (written.removed, written.emptied, written.deleted_rows) == ([], [], 3)
    for file, task, positions in zip(written.added, (two, one), ([1, 2], [1]), strict=True):
        path = task.file.file_path
        assert pairs(table, file) == [(path, position) for position in positions]
        assert (file.content, file.referenced_data_file) == (Content.POSITION_DELETES, path)
        assert (file.spec_id, file.partition) == (task.file.spec_id, task.file.partition)
        assert (file.record_count, file.sort_order_id, file.equality_ids) == (len(positions), None, None)
        assert file.file_path.startswith(f"{table.location}/data/part={file.partition[0]}/")
        assert file.file_path.endswith("-deletes.parquet")
        assert file.lower_bounds[DELETE_FILE_PATH.id] == file.upper_bounds[DELETE_FILE_PATH.id] == path.encode()
        assert file.lower_bounds[DELETE_POS.id] == np.int64(positions[0]).tobytes()
        assert file.upper_bounds[DELETE_POS.id] == np.int64(positions[-1]).tobytes()


def test_field_ids_of_a_position_delete_file(tmp_path):
    table = frazil.connect(tmp_path).create_table("db.t", "id BIGINT", format_version=2)
    table.append([{"id": 1}, {"id": 2}])
    [file] = write(table, [(tasks(table)[0], [1])]).added
    schema = pq.read_schema(file.file_path.removeprefix("file://"))
    found = {
        field.name: (str(field.type), field.nullable, int(field.metadata[b"PARQUET:field_id"])) for field in schema
    }
    assert found == {"file_path": ("string", False, 2147483546), "pos": ("int64", False, 2147483545)}


def test_a_second_file_takes_the_place_of_the_first():
    table = grown(2, [1, 2, 3, 4], [5, 6])
    first = delete(table, *((task, [0]) for task in tasks(table)))
    second = delete(table, (tasks(table)[0], [3]))
    assert ids_of(table) == [2, 3, 6]
    assert [file.file_path for file in second.removed] == [first.added[0].file_path]
    assert pairs(table, second.added[0]) == [(tasks(table)[0].file.file_path, position) for position in (0, 3)]
    assert (second.deleted_rows, len(live_deletes(table))) == (1, 2)


def test_one_file_for_each_partition_if_told():
    table = grown(2, [1, 2, 3], [4, 5, 6], [7, 8, 9], partition_by=("part",), **BY_PARTITION)
    written = delete(table, *((task, [2, 0]) for task in reversed(tasks(table))))
    assert ids_of(table) == [2, 5, 8]
    by_partition = {file.partition: file for file in written.added}
    assert len(by_partition) == len(written.added) == 2
    even, odd = by_partition[(0,)], by_partition[(1,)]
    both = sorted(task.file.file_path for task in tasks(table) if task.file.partition == (0,))
    assert pairs(table, even) == [(path, position) for path in both for position in (0, 2)]
    assert (even.referenced_data_file, even.target_path) == (None, None)
    assert even.lower_bounds[DELETE_FILE_PATH.id] == both[0].encode()
    assert even.upper_bounds[DELETE_FILE_PATH.id] == both[1].encode()
    assert odd.referenced_data_file == odd.target_path == pairs(table, odd)[0][0]


def test_earlier_deletes_of_a_partition_stay_and_are_not_written_again():
    table = grown(2, [1, 2, 3], [4, 5, 6], **BY_PARTITION)
    first = delete(table, *((task, [0]) for task in tasks(table)))
    second = delete(table, *((task, [0, 1]) for task in tasks(table)))
    assert ids_of(table) == [3, 6]
    assert [position for _, position in pairs(table, second.added[0])] == [1, 1]
    assert (second.removed, second.deleted_rows) == ([], 2)
    assert {file.file_path for file in live_deletes(table)} == {
        file.file_path for file in (*first.added, *second.added)
    }


def test_files_by_partition_are_rolled_by_size():
    table = grown(2, *([number, number + 1] for number in range(0, 20, 2)), **BY_PARTITION)
    size = len(tasks(table)[0].file.file_path) + 8
    properties = {"write.delete.target-file-size-bytes": str(3 * size - 1), **BY_PARTITION}
    written = write(table, [(task, [0]) for task in tasks(table)], properties)
    found = [[path for path, _ in pairs(table, file)] for file in written.added]
    assert [len(paths) for paths in found] == [3, 3, 3, 1]
    assert [path for paths in found for path in paths] == sorted(written.referenced)
    fill(table.new_row_delta(), written, []).commit()
    assert ids_of(table) == list(range(1, 20, 2))


def test_many_positions_are_written_in_order():
    table = new_table(2, "id BIGINT")
    table.append([{"id": number} for number in range(200_000)])
    [task] = tasks(table)
    gone = np.flatnonzero(np.arange(200_000) % 7 > 0)
    delete(table, (task, gone[::-1].tolist()))
    assert ids_of(table) == list(range(0, 200_000, 7))
    [file] = live_deletes(table)
    assert [position for _, position in pairs(table, file)] == gone.tolist()


@pytest.mark.parametrize("kind", ["avro", "orc"])
def test_the_format_of_delete_files_is_that_of_data_unless_told(kind: str):
    table = grown(2, [1, 2, 3], **{"write.format.default": kind})
    assert write(table, [(tasks(table)[0], [1])]).added[0].file_path.endswith(f"-deletes.{kind}")
    table = grown(2, [1, 2, 3], **{"write.delete.format.default": kind})
    [file] = delete(table, (tasks(table)[0], [1])).added
    assert (file.file_format, file.target_path) == (kind, tasks(table)[0].file.file_path)
    assert (ids_of(table), pairs(table, file)) == ([1, 3], [(tasks(table)[0].file.file_path, 1)])


def codec(table: IcebergTable, properties: dict[str, str]) -> str:
    [file] = write(table, [(tasks(table)[0], [1])], properties).added
    found = pq.ParquetFile(table.store.open_input(file.file_path)).metadata.row_group(0).column(1).compression
    return str(found)


def test_compression_of_delete_files_is_that_of_data_unless_told():
    table = grown(2, [1, 2, 3])
    assert codec(table, {}) == "ZSTD"
    assert codec(table, {"write.parquet.compression-codec": "gzip"}) == "GZIP"
    both = {"write.parquet.compression-codec": "gzip", "write.delete.parquet.compression-codec": "snappy"}
    assert codec(table, both) == "SNAPPY"


# Files without a row left.


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("properties", [{}, BY_PARTITION], ids=["file", "partition"])
def test_a_file_without_a_row_left_goes_with_its_deletes(version: int, properties: dict[str, str]):
    table = grown(version, [1, 2, 3], [4, 5], **properties)
    first = delete(table, (tasks(table)[0], [0, 2]))
    file = tasks(table)[0].file
    second = delete(table, (tasks(table)[0], [1]))
    assert (ids_of(table), second.added, second.deleted_rows) == ([4, 5], [], 1)
    assert [one.file_path for one in second.emptied] == [file.file_path]
    assert [one.key for one in second.removed] == [one.key for one in first.added]
    assert (live_deletes(table), len(tasks(table)), second.referenced) == ([], 1, [])
    told = table.current_snapshot.summary
    assert (told["operation"], told["deleted-data-files"], told["total-delete-files"]) == ("delete", "1", "0")


def test_rows_hidden_by_equality_deletes_count_as_there():
    """Their positions are not known: a file is never removed for more than what positions tell."""
    table = grown(3, [1, 2, 3])
    table.new_row_delta().add_deletes(equality_deletes(table, [{"id": 1}], "id")).commit()
    written = delete(table, (tasks(table)[0], [1, 2]))
    assert (ids_of(table), written.emptied, written.deleted_rows) == ([], [], 2)
    assert len(live_deletes(table)) == 2


def test_positions_beyond_the_file_do_not_make_it_seem_empty():
    """Another writer's vector names rows that are not there."""
    table = grown(3, [1, 2, 3])
    table.new_row_delta().add_deletes(vector(table, tasks(table)[0].file, 0, 7)).commit()
    written = delete(table, (tasks(table)[0], [1]))
    assert (ids_of(table), written.emptied) == ([3], [])


# What is refused, and what is left then.


def test_version_1_has_no_deletes():
    table = grown(1, [1, 2, 3])
    with pytest.raises(Unsupported, match="version 1") as error:
        DeleteWriter(table.metadata, table.store)
    assert "copy-on-write" in str(error.value.hint)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("properties", [{}, BY_PARTITION], ids=["file", "partition"])
def test_bad_positions_are_refused_and_nothing_is_left(version: int, properties: dict[str, str]):
    table = grown(version, [1, 2, 3], [4, 5, 6], **properties)
    one, two = tasks(table)
    before = everything(table)
    small = {"write.delete.target-file-size-bytes": "1"}
    with pytest.raises(InvalidArgument, match="position 3 is not in"):
        write(table, [(one, [0]), (two, [3])], small)
    with pytest.raises(InvalidArgument, match="given twice"):
        write(table, [(one, [0]), (one, [1])], small)
    assert everything(table) == before


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("properties", [{}, BY_PARTITION], ids=["file", "partition"])
@pytest.mark.parametrize("at", ["before", "after"])
def test_what_was_written_is_removed_if_anything_fails(version: int, properties: dict[str, str], at: Any):
    """Also a file whose writing failed although it was written."""
    table = grown(version, [1, 2, 3], [4, 5, 6], [7, 8, 9], **properties)
    before = everything(table)
    verb = "write" if version == 3 else "close"
    store = FaultyStore(table.store, [Fault(verb, at, StoreError("gone"), match="-deletes.", first=2)])
    writer = DeleteWriter(table.metadata, store, properties={"write.delete.target-file-size-bytes": "1"})
    with pytest.raises(StoreError, match="gone"):
        writer.write((task, DeletionVector.from_positions([0])) for task in tasks(table))
    assert any("-deletes." in location for call, location in store.calls if call == "delete")
    assert everything(table) == before


def test_work_that_fails_itself_leaves_nothing():
    table = grown(3, [1, 2, 3])
    before = everything(table)

    def work() -> Iterator[tuple[FileScanTask, DeletionVector]]:
        yield tasks(table)[0], DeletionVector.from_positions([0])
        raise KeyboardInterrupt

    writer = DeleteWriter(table.metadata, table.store, properties={"write.delete.target-file-size-bytes": "1"})
    with pytest.raises(KeyboardInterrupt):
        writer.write(work())
    assert everything(table) == before


def test_deletes_of_a_partition_are_read_once_if_work_comes_by_partition():
    table = grown(2, *([number, number + 1, number + 2] for number in range(0, 24, 3)), partition_by=("part",))
    old = write(table, [(task, [0]) for task in tasks(table)], BY_PARTITION)
    fill(table.new_row_delta(), old, []).commit()
    table.upgrade_format_version().to(3).commit()
    store = FaultyStore(table.store)
    work = sorted(tasks(table), key=lambda task: task.file.partition)
    DeleteWriter(table.metadata, store).write((task, DeletionVector.from_positions([1])) for task in work)
    opened = [location for verb, location in store.calls if verb == "open_input"]
    assert sorted(opened) == sorted(file.file_path for file in old.added)
    assert len(opened) == 2
