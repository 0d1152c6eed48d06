"""`table.convert_equality_deletes`: the same rows without equality deletes, and what others may do meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import CommitConflict, InvalidArgument, MalformedMetadata
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_conversion import Conversion
from frazil.iceberg.equality_writer import EqualityDeleteWriter
from frazil.iceberg.rewritten import ConvertedDeleteFiles
from frazil.iceberg.table import IcebergTable
from frazil.model.expressions import AlwaysTrue
from tests.iceberg.delete_kinds import (
    again,
    deletes_of,
    files_in_store,
    kinds_of,
    rows_at,
    rows_at_all,
    same_rows,
)
from tests.iceberg.small_tables import equality_deletes, ids_of, live_files, new_table, rows, vector, write_files
from tests.properties.modelled_table import Inside

BOTH = pytest.mark.parametrize("version", [2, 3])
KINDS = pytest.mark.parametrize(
    ("version", "properties"),
    [(2, {}), (2, {"write.delete.granularity": "partition"}), (3, {})],
    ids=["v2-file", "v2-partition", "v3"],
)
MERGE = {"write.delete.mode": "merge-on-read"}


def delete_keys(table: IcebergTable, keys: list[dict[str, Any]], *columns: str, **options: Any) -> None:
    ids = [table.schema.find(column).id for column in columns]
    writer = EqualityDeleteWriter(table.metadata, table.store, ids, **options)
    action = table.new_row_delta()
    for file in writer.write([pa.RecordBatch.from_pylist(keys, _types(table, keys))]):
        action.add_deletes(file)
    action.commit()


def _types(table: IcebergTable, keys: list[dict[str, Any]]) -> pa.Schema:
    types = {"id": pa.int64(), "name": pa.string(), "part": pa.int32()}
    return pa.schema([(name, types[name]) for name in keys[0]])


def convert(table: IcebergTable, **arguments: Any) -> ConvertedDeleteFiles:
    """Convert, twice: no row may come or go, and the second time there is nothing to do."""
    before, now = rows_at_all(table), rows_at(table)
    result = table.convert_equality_deletes(**arguments)
    same_rows(table, before, now)
    snapshot = table.current_snapshot
    assert table.convert_equality_deletes(**arguments) == ConvertedDeleteFiles()
    assert table.current_snapshot == snapshot
    return result


@KINDS
def test_keys_become_positions(version: int, properties: dict[str, str]):
    table = new_table(version, **properties)
    table.append(rows(1, 2, 3))
    table.append(rows(2, 4, 5))
    delete_keys(table, [{"id": 2}, {"id": 9}], "id")
    table.append(rows(2))
    assert convert(table) == ConvertedDeleteFiles(1, 1 if properties else 2)
    assert ids_of(table) == [1, 2, 3, 4, 5]
    assert set(kinds_of(table)) == {"vector" if version == 3 else "positions"}
    snapshot = table.current_snapshot
    assert snapshot is not None
    assert snapshot.summary["operation"] == "delete"
    assert snapshot.summary["removed-equality-delete-files"] == "1"
    assert snapshot.summary["total-equality-deletes"] == "0"


@KINDS
def test_earlier_positions_are_kept(version: int, properties: dict[str, str]):
    table = new_table(version, **properties, **MERGE)
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20)))
    table.delete("id IN (1, 11)")
    delete_keys(table, [{"id": 1}, {"id": 2}], "id")
    table.delete("id = 3")
    delete_keys(table, [{"id": 5}], "id")
    assert convert(table).converted_delete_files_count == 2
    assert ids_of(table) == [0, 4, 6, 7, 8, 9, 10, *range(12, 20)]


@KINDS
def test_null_keys_and_keys_of_several_columns(version: int, properties: dict[str, str]):
    table = new_table(version, **properties)
    names = [None, "a", "b"]
    table.append([{"id": n, "name": name, "part": p} for n in (1, 2) for name in names for p in (None, 1)])
    delete_keys(table, [{"name": None, "part": 1}, {"name": "a", "part": None}], "name", "part")
    delete_keys(table, [{"id": 2, "name": None}], "id", "name")
    delete_keys(table, [{"part": None}], "part")
    assert convert(table).converted_delete_files_count == 3
    left = [(row["id"], row["name"], row["part"]) for row in rows_at(table)]
    assert sorted(left) == [(1, "a", 1), (1, "b", 1), (2, "a", 1), (2, "b", 1)]


@KINDS
def test_a_key_column_that_was_dropped(version: int, properties: dict[str, str]):
    table = new_table(version, **properties)
    table.append(rows(1, 2, 3))
    delete_keys(table, [{"name": "n2"}], "name")
    table.update_schema().drop_column("name").add_column("name", "string").commit()
    table.append([{"id": 2, "part": 0, "name": "n2"}])
    assert convert(table) == ConvertedDeleteFiles(1, 1)
    assert ids_of(table) == [1, 2, 3]


@KINDS
def test_partitions_have_deletes_of_their_own(version: int, properties: dict[str, str]):
    table = new_table(version, partition_by=("part",), **properties)
    table.append([*rows(1, 2, part=0), *rows(1, 2, part=1), *rows(1, 2, part=None)])
    delete_keys(table, [{"id": 1, "part": 0}, {"id": 2, "part": None}], "id")
    assert convert(table) == ConvertedDeleteFiles(2, 2)
    assert sorted((row["id"], row["part"]) for row in rows_at(table) if row["part"] is not None) == [
        (1, 1),
        (2, 0),
        (2, 1),
    ]


@KINDS
def test_global_deletes_reach_files_of_all_specs(version: int, properties: dict[str, str]):
    table = new_table(version, **properties)
    table.append(rows(1, 2, 7))
    unpartitioned = table.spec
    table.update_spec().add_field("part").commit()
    table.append([*rows(1, 3), *rows(1, 4, part=1)])
    delete_keys(table, [{"id": 1}], "id", spec=unpartitioned)
    delete_keys(table, [{"id": 3, "part": 0}, {"id": 7, "part": 0}], "id", spec=table.spec)  # not the file of spec 0
    table.append(rows(1, part=5))
    assert convert(table).converted_delete_files_count == 2
    assert ids_of(table) == [1, 2, 4, 7]
    assert {file.spec_id for file in deletes_of(table)} <= {0, 1}


@BOTH
@pytest.mark.parametrize("distance", [-1, 0, 1])
def test_only_older_files_are_hit(version: int, distance: int):
    table = new_table(version)
    table.append(rows(0))
    start = table.metadata.last_sequence_number
    [old] = write_files(table, rows(1, 2))
    action = table.new_row_delta().add_deletes(
        replace(equality_deletes(table, [{"id": 1}], "id"), data_sequence_number=start)
    )
    action.add_rows(replace(old, data_sequence_number=start + distance)).commit()
    assert ids_of(table) == ([0, 2] if distance < 0 else [0, 1, 2])
    assert convert(table) == ConvertedDeleteFiles(1, 1 if distance < 0 else 0)
    assert kinds_of(table) == (["vector" if version == 3 else "positions"] if distance < 0 else [])


@BOTH
def test_keys_that_hit_nothing_just_go(version: int):
    table = new_table(version)
    table.append(rows(1, 5))
    delete_keys(table, [{"id": 3}], "id")  # within the bounds
    delete_keys(table, [{"id": 300}], "id")
    assert convert(table) == ConvertedDeleteFiles(2, 0)
    snapshot = table.current_snapshot
    assert snapshot is not None
    assert snapshot.summary["operation"] == "replace"
    assert kinds_of(table) == []


@BOTH
def test_a_file_without_a_row_left_goes(version: int):
    table = new_table(version, **MERGE)
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    table.delete("id = 1")
    delete_keys(table, [{"id": 2}, {"id": 3}], "id")
    assert convert(table) == ConvertedDeleteFiles(1, 1)
    assert (ids_of(table), len(live_files(table)), len(deletes_of(table))) == ([4], 1, 1)


@BOTH
def test_what_also_applies_elsewhere_stays(version: int):
    table = new_table(version, partition_by=("part",))
    table.append([*rows(1, 2, part=0), *rows(1, 2, part=1)])
    delete_keys(table, [{"id": 1, "part": 0}], "id")
    table.update_spec().remove_field("part").commit()
    delete_keys(table, [{"id": 2}], "id")
    assert convert(table, where="part = 0") == ConvertedDeleteFiles(1, 0)  # all rows of the file are gone
    assert (rows_at(table)[0]["part"], len(live_files(table))) == (1, 1)
    assert kinds_of(table) == ["keys"]
    assert convert(table, where="part = 1") == ConvertedDeleteFiles(1, 1)
    assert kinds_of(table) == ["vector" if version == 3 else "positions"]


@BOTH
def test_a_part_of_the_files_at_a_time(version: int):
    table = new_table(version)
    table.append(rows(1, 2))
    table.append(rows(11, 12))
    delete_keys(table, [{"id": 1}, {"id": 11}], "id")
    assert convert(table, where="id < 10") == ConvertedDeleteFiles(0, 1)
    assert len(kinds_of(table)) == 2
    assert "keys" in kinds_of(table)
    assert convert(table, where="id > 100") == ConvertedDeleteFiles()
    assert convert(table) == ConvertedDeleteFiles(1, 1)
    assert "keys" not in kinds_of(table)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_nothing_to_do(version: int):
    table = new_table(version)
    assert convert(table) == ConvertedDeleteFiles()
    table.append(rows(1, 2))
    assert convert(table) == ConvertedDeleteFiles()


@BOTH
def test_a_branch_of_its_own(version: int):
    table = new_table(version)
    table.append(rows(1, 2))
    delete_keys(table, [{"id": 1}], "id")
    table.manage_refs().create_branch("dev").commit()
    assert table.convert_equality_deletes(branch="dev") == ConvertedDeleteFiles(1, 1)
    assert (kinds_of(table), ids_of(table)) == (["keys"], [2])
    assert "keys" not in kinds_of(table, ref="dev")
    assert ids_of(table, ref="dev") == [2]


def test_options():
    table = new_table(3)
    for number in (1, 2):
        table.append(rows(number, 10))
    delete_keys(table, [{"id": 10}], "id")
    with pytest.raises(InvalidArgument, match="'target'"):
        table.convert_equality_deletes(options={"target": "1"})
    table.convert_equality_deletes(options={"target-file-size-bytes": "1"})
    assert len({file.file_path for file in deletes_of(table)}) == 2  # else one file has both vectors


def test_a_manifest_that_tells_too_few_rows_is_refused():
    table = new_table(3)
    [file] = write_files(table, rows(1, 2, 3))
    table.new_append().append_file(replace(file, record_count=2)).commit()
    delete_keys(table, [{"id": 1}], "id")
    with pytest.raises(MalformedMetadata, match="more rows"):
        table.convert_equality_deletes()


# Others, meanwhile.


def started(table: IcebergTable) -> Callable[[], ConvertedDeleteFiles]:
    """A conversion that was worked out from the table as it is, and is yet to be committed."""
    writer = again(table)
    work = Conversion.of(writer, AlwaysTrue(), {}, "main")
    assert work is not None
    return lambda: work.commit(work.read())


def refused(table: IcebergTable, finish: Callable[[], Any]) -> None:
    before, files, newest = rows_at(again(table)), files_in_store(table), again(table).current_snapshot
    with pytest.raises(CommitConflict):
        finish()
    assert (rows_at(again(table)), again(table).current_snapshot) == (before, newest)
    assert files_in_store(table) == files


def upserted(version: int, **properties: str) -> IcebergTable:
    table = new_table(version, **properties)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5))
    delete_keys(table, [{"id": 2}], "id")
    return table


def rewrite(table: IcebergTable, files: list[DataFile], number: int, *ids: int) -> Any:
    """A compaction of files, read at a sequence number; not yet committed."""
    action = table.new_rewrite().rewrite(files, write_files(table, rows(*ids)))
    current = table.current_snapshot
    return action.data_sequence_number(number).validate_from(None if current is None else current.snapshot_id)


@KINDS
def test_appends_and_upserts_do_not_matter(version: int, properties: dict[str, str]):
    table = upserted(version, **properties)
    finish = started(table)
    table.append(rows(2))
    delete_keys(table, [{"id": 1}, {"id": 2}], "id")
    table.append(rows(1))
    assert finish() == ConvertedDeleteFiles(1, 1)
    assert ids_of(again(table)) == [1, 3, 4, 5]
    assert kinds_of(table).count("keys") == 1


@BOTH
def test_a_file_that_is_empty_may_get_further_keys(version: int):
    table = upserted(version)
    delete_keys(table, [{"id": 4}, {"id": 5}], "id")
    finish = started(table)
    delete_keys(table, [{"id": 5}, {"id": 1}], "id")
    finish()
    assert (ids_of(again(table)), len(live_files(again(table)))) == ([3], 1)


@KINDS
def test_a_compaction_that_relies_on_the_keys_is_a_conflict(version: int, properties: dict[str, str]):
    """It began before the keys were there, and its file keeps the number of then: they delete its row 2."""
    table = new_table(version, **properties)
    table.append(rows(1, 2, 3))
    compaction = rewrite(again(table), live_files(table), table.metadata.last_sequence_number, 1, 2, 3)
    delete_keys(table, [{"id": 2}], "id")
    finish = started(table)
    compaction.commit()
    assert ids_of(again(table)) == [1, 3]
    refused(table, finish)


@KINDS
def test_a_compaction_that_relies_on_keys_which_are_gone_is_refused(version: int, properties: dict[str, str]):
    """The other way round: its row 2 would come back."""
    table = new_table(version, **properties)
    table.append(rows(1, 2, 3))
    compaction = rewrite(again(table), live_files(table), table.metadata.last_sequence_number, 1, 2, 3)
    delete_keys(table, [{"id": 2}], "id")
    assert started(table)() == ConvertedDeleteFiles(1, 1)
    with pytest.raises(CommitConflict):
        compaction.commit()
    assert ids_of(again(table)) == [1, 3]


@BOTH
def test_a_compaction_of_a_file_that_the_keys_empty_is_refused(version: int):
    table = new_table(version)
    table.append(rows(1, 2))
    compaction = rewrite(again(table), live_files(table), table.metadata.last_sequence_number, 1, 2)
    delete_keys(table, [{"id": 1}, {"id": 2}], "id")
    started(table)()
    with pytest.raises(CommitConflict):
        compaction.commit()
    assert ids_of(again(table)) == []


@BOTH
def test_an_older_file_that_the_keys_apply_to_is_a_conflict(version: int):
    table = upserted(version)
    finish = started(table)
    [file] = write_files(table, rows(2, 6))
    table.new_append().append_file(file).commit()
    ids = ids_of(again(table))
    table = again(table)
    moved = table.new_rewrite().rewrite([live_files_with(table, file)], write_files(table, rows(2, 6)))
    moved.data_sequence_number(1).commit()
    assert ids_of(again(table)) == [number for number in ids if number != 2]
    refused(table, finish)


def live_files_with(table: IcebergTable, file: DataFile) -> DataFile:
    return next(one for one in live_files(table) if one.file_path == file.file_path)


@pytest.mark.parametrize("deletes", ["positions", "rewrite"])
@BOTH
def test_other_changes_of_the_same_file_are_conflicts(version: int, deletes: str):
    table = upserted(version, **(MERGE if deletes == "positions" else {}))
    finish = started(table)
    table.delete("id = 1")
    refused(table, finish)
    assert ids_of(again(table)) == [3, 4, 5]


@BOTH
def test_deletes_in_other_files_do_not_matter(version: int):
    table = upserted(version, **MERGE)
    finish = started(table)
    table.delete("id = 4")
    finish()
    assert ids_of(again(table)) == [1, 3, 5]
    assert "keys" not in kinds_of(table)


def test_a_vector_that_began_before_is_refused():
    table = upserted(3)
    other = again(table)
    file = next(one for one in live_files(other) if one.record_count == 3)
    base = other.current_snapshot
    assert base is not None
    action = other.new_row_delta().add_deletes(vector(other, file, 0)).validate_from(base.snapshot_id)
    started(table)()
    with pytest.raises(CommitConflict):
        action.commit()
    assert ids_of(again(table)) == [1, 3, 4, 5]


@BOTH
def test_two_conversions_at_once(version: int):
    table = upserted(version)
    first, second = started(table), started(table)
    first()
    refused(table, second)


@BOTH
def test_a_rollback_is_a_conflict(version: int):
    table = upserted(version)
    finish = started(table)
    table.rollback_to_snapshot(table.history[1].snapshot_id)
    refused(table, finish)
    assert ids_of(again(table)) == [1, 2, 3, 4, 5]


@BOTH
def test_in_a_transaction_that_others_came_before(version: int):
    """The keys are younger then than the other's row, which they delete: without them it would come back."""
    table = new_table(version)
    table.append(rows(1, 2))
    changes = table.transaction()
    inside = Inside(table, changes)
    delete_keys(inside, [{"id": 2}], "id")
    assert inside.convert_equality_deletes() == ConvertedDeleteFiles(1, 1)
    again(table).append(rows(2, 3))
    with pytest.raises(CommitConflict):
        changes.commit()
    assert ids_of(again(table)) == [1, 2, 2, 3]


@BOTH
def test_in_a_transaction(version: int):
    table = new_table(version)
    table.append(rows(1, 2))
    with table.transaction() as changes:
        inside = Inside(table, changes)
        delete_keys(inside, [{"id": 2}], "id")
        inside.convert_equality_deletes()
    assert (ids_of(again(table)), "keys" in kinds_of(table)) == ([1], False)
