"""`table.upsert` in-process: keys of all kinds, and what is left when it fails. More is in tests/spark/changes."""

from __future__ import annotations

import uuid
from copy import copy
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import ColumnNotFound, CommitConflict, InvalidArgument, InvalidValue, StoreError, Unsupported
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.equality_writer import EqualityDeleteWriter
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.table import IcebergTable
from frazil.model.arrow import VARIANT_STORAGE
from frazil.model.variant import decode
from tests.iceberg.small_tables import ids_of, new_table, rows

VERSIONS = pytest.mark.parametrize("version", [2, 3])
NESTED = "st STRUCT<b: INT, a: STRING>, v INT"


def found(table: IcebergTable) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=str)


def files(table: IcebergTable) -> set[str]:
    return {file.location for file in table.store.list(f"{table.location}/data")}


@VERSIONS
def test_a_key_within_a_struct(version: int):
    table = new_table(version, NESTED)
    table.append([{"st": {"b": 1, "a": "x"}, "v": 1}, {"st": {"b": 1, "a": "y"}, "v": 2}, {"st": None, "v": 3}])
    table.upsert([{"st": {"b": 9, "a": "x"}, "v": 4}, {"st": {"b": 9, "a": None}, "v": 5}], ["st.a"])
    assert found(table) == [
        {"st": {"b": 1, "a": "y"}, "v": 2},
        {"st": {"b": 9, "a": "x"}, "v": 4},
        {"st": {"b": 9, "a": None}, "v": 5},  # a key in no struct is null: it went
    ]
    table.convert_equality_deletes()
    assert len(found(table)) == 3
    with pytest.raises(InvalidValue, match=r"key st\.a = 'z'"):
        table.upsert([{"st": {"b": 1, "a": "z"}, "v": 1}, {"st": {"b": 2, "a": "z"}, "v": 1}], ["st.a"])
    with pytest.raises(InvalidValue, match=r"key st\.a = None"):
        table.upsert([{"st": {"b": 1, "a": None}, "v": 1}, {"st": None, "v": 1}], ["st.a"])


@VERSIONS
def test_a_key_that_is_a_uuid(version: int):
    table = new_table(version, "u UUID, v INT")
    one, two = uuid.UUID(int=1), uuid.UUID(int=2)
    table.append([{"u": one, "v": 1}, {"u": two, "v": 2}])
    table.upsert([{"u": one, "v": 3}], ["u"])
    assert sorted(row["v"] for row in found(table)) == [2, 3]
    with pytest.raises(InvalidValue, match=str(two)):
        table.upsert([{"u": two, "v": 3}, {"u": two, "v": 4}], ["u"])


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("DECIMAL(20, 2)", ["1.50", "2.50"]),
        ("BINARY", [b"a", b"b"]),
        ("FIXED(3)", [b"abc", b"xyz"]),
        ("DATE", ["2024-01-01", "2024-01-02"]),
        ("TIME", [1, 2]),
        ("TIMESTAMPTZ", ["2024-01-01T00:00:00+00:00", "2024-01-02T00:00:00+00:00"]),
        ("BOOLEAN", [True, False]),
    ],
)
def test_keys_of_other_types(type_: str, values: list[Any]):
    import pyarrow as pa

    from frazil.model.arrow import schema_to_arrow

    table = new_table(2, f"k {type_}, v INT")
    key = schema_to_arrow(table.schema).field("k").type
    text = pa.array(values)
    column = text if text.type == key else text.cast(key)

    def batch(*places: int, v: int) -> pa.Table:
        return pa.table({"k": column.take(pa.array(places)), "v": pa.array([v] * len(places), pa.int32())})

    table.append(batch(0, 1, v=1))
    table.upsert(batch(1, v=2), ["k"])
    assert sorted(row["v"] for row in found(table)) == [1, 2]


def test_keys_in_another_case_are_hinted_at():
    table = new_table(2)
    with pytest.raises(ColumnNotFound, match="did you mean 'id'"):
        table.upsert(rows(1), ["ID"])


def test_the_writer_takes_only_the_keys_of_a_struct():
    table = new_table(2, NESTED)
    table.append([{"st": {"b": 1, "a": "x"}, "v": 1}])
    from frazil.model.conform import conform

    writer = EqualityDeleteWriter(table.metadata, table.store, [table.schema.find("st.a").id])
    (file,) = writer.write(conform([{"st": {"b": 5, "a": "x"}, "v": 7}], table.schema))
    table.new_row_delta().add_deletes(file).commit()
    assert (found(table), set(file.value_counts or ())) == ([], {table.schema.find("st.a").id})


@pytest.mark.parametrize("error", [StoreError("the disk is full"), OSError("the disk is full"), KeyboardInterrupt()])
def test_rows_are_not_left_behind_if_the_deletes_fail(monkeypatch: pytest.MonkeyPatch, error: BaseException):
    table = new_table(2)
    table.append(rows(1))
    before = files(table)

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(EqualityDeleteWriter, "write", fail)
    with pytest.raises(type(error)):
        table.upsert(rows(1, 2), ["id"])
    assert (files(table), ids_of(table)) == (before, [1])


def test_new_rows_are_not_left_behind_if_old_ones_cannot_be_read():
    table = new_table(2)
    table.append(rows(1, 2))
    (data,) = files(table)
    table.store.delete(data)
    with pytest.raises(Exception, match="no file"):
        table.overwrite(rows(7), "id = 1")
    assert files(table) == set()


def test_a_struct_is_no_key():
    with pytest.raises(InvalidArgument, match="'st'"):
        new_table(2, NESTED).upsert([{"st": None, "v": 1}], ["st"])


class Kept:
    """A table, and what must be in it."""

    def __init__(self, version: int, partition_by: tuple[str, ...]) -> None:
        self.table = new_table(version, "id BIGINT, kind STRING, v INT", partition_by=partition_by)
        self.wanted: dict[int, int] = {}
        self._turn = 0

    def put(self, *ids: int) -> RowChanges:
        self._turn += 1
        done = self.table.upsert([{"id": n, "kind": "a", "v": self._turn} for n in ids], ["id"])
        self.wanted.update(dict.fromkeys(ids, self._turn))
        read = self.table.scan(columns=["id", "v"]).to_arrow().to_pylist()
        assert sorted((row["id"], row["v"]) for row in read) == sorted(self.wanted.items())
        return done

    def specs_of_deletes(self, done: RowChanges) -> set[int]:
        """The specs that the keys of an upsert were written for."""
        assert done.snapshot is not None
        entries = self.table.inspect("entries").to_pylist()
        mine = [one["data_file"] for one in entries if one["snapshot_id"] == done.snapshot.snapshot_id]
        return {file["spec_id"] for file in mine if file["content"] == Content.EQUALITY_DELETES}


@VERSIONS
@pytest.mark.parametrize(
    ("before", "remove", "add", "specs"),
    [
        (("bucket(4, id)",), "id_bucket", "bucket(8, id)", {0, 1}),
        ((), None, "bucket(8, id)", {0}),  # without partitions it reaches all files
        (("bucket(4, id)",), "id_bucket", None, {1}),
        (("id",), "id", "bucket(8, id)", {0, 1}),
        (("bucket(4, id)",), None, "truncate(10, id)", {0, 1}),
    ],
    ids=str,
)
def test_upserts_go_on_after_a_change_of_partitioning(
    version: int, before: tuple[str, ...], remove: str | None, add: str | None, specs: set[int]
):
    kept = Kept(version, before)
    kept.put(*range(12))
    kept.put(3, 4, 20)
    change = kept.table.update_spec()
    if remove is not None:
        change.remove_field(remove)
    if add is not None:
        change.add_field(add)
    change.commit()
    assert kept.specs_of_deletes(kept.put(4, 5, 21)) == specs
    assert kept.specs_of_deletes(kept.put(4, 5, 6, 20, 22)) == specs
    kept.put(*range(0, 30, 3))
    assert kept.table.scan().count() == len(kept.wanted)


@VERSIONS
def test_keys_are_written_for_specs_that_have_files_only(version: int):
    kept = Kept(version, ("bucket(4, id)",))
    kept.put(1, 2, 3)
    kept.table.update_spec().remove_field("id_bucket").add_field("bucket(8, id)").commit()
    kept.table.overwrite([{"id": n, "kind": "a", "v": 1} for n in (1, 2, 3)])
    assert kept.specs_of_deletes(kept.put(2)) == {1}
    kept.table.update_spec().remove_field("id_bucket_8").add_field("bucket(2, id)").commit()
    kept.table.update_spec().remove_field("id_bucket_2").add_field("bucket(3, id)").commit()
    assert kept.specs_of_deletes(kept.put(2, 3)) == {1, 3}


@VERSIONS
def test_a_branch_has_files_of_its_own_specs(version: int):
    kept = Kept(version, ("bucket(4, id)",))
    kept.put(1, 2)
    table = kept.table
    table.manage_refs().create_branch("old").commit()
    table.update_spec().remove_field("id_bucket").add_field("bucket(8, id)").commit()
    table.overwrite([{"id": n, "kind": "a", "v": 1} for n in (1, 2)])
    table.upsert([{"id": 1, "kind": "b", "v": 7}], ["id"], branch="old")
    assert sorted(row["v"] for row in table.scan(ref="old").to_arrow().to_pylist()) == [1, 7]
    assert kept.specs_of_deletes(kept.put(2)) == {1}


@VERSIONS
def test_partitions_that_the_key_does_not_tell(version: int):
    """Refused as long as there are such files, unless deletes can be written that reach all partitions."""
    kept = Kept(version, ("kind",))
    table = kept.table
    table.append([{"id": 1, "kind": "a", "v": 0}])
    table.update_spec().remove_field("kind").add_field("bucket(4, id)").commit()
    with pytest.raises(Unsupported, match=r"files from when it was partitioned by 'kind'.*rewrite_data_files"):
        kept.put(1)
    table.overwrite([{"id": 1, "kind": "a", "v": 0}])
    kept.put(1, 2)
    table.update_spec().add_field("kind").commit()
    with pytest.raises(Unsupported, match="the table is partitioned by 'kind'"):
        kept.put(1)
    table.update_spec().remove_field("kind").remove_field("id_bucket_4").commit()
    kept.put(1, 3)


@VERSIONS
def test_deletes_without_partitions_reach_rows_of_any(version: int):
    kept = Kept(version, ())
    kept.put(1, 2)
    kept.table.update_spec().add_field("kind").commit()
    kept.put(2, 3)
    kept.table.upsert([{"id": 3, "kind": "z", "v": 9}], ["id"])
    kept.wanted[3] = 9
    kept.put(1)


@VERSIONS
@pytest.mark.parametrize("how", ["rows of a stale writer", "a change back", "a rollback"])
def test_files_of_a_known_spec_that_come_meanwhile_are_a_conflict(version: int, how: str):
    """The spec had no files when the keys were written, so that none were for it."""
    kept = Kept(version, ("bucket(4, id)",))
    table = kept.table
    first = kept.put(1).snapshot
    assert first is not None
    writer = copy(table)
    table.update_spec().remove_field("id_bucket").add_field("bucket(8, id)").commit()
    table.overwrite([{"id": 1, "kind": "a", "v": 1}])
    stale = copy(table)
    if how == "rows of a stale writer":
        writer.append([{"id": 2, "kind": "a", "v": 1}])
    if how == "a change back":
        table.update_spec().remove_field("id_bucket_8").add_field("bucket(4, id)", "id_bucket").commit()
        assert table.spec.spec_id == 0
        table.append([{"id": 2, "kind": "a", "v": 1}])
    if how == "a rollback":
        table.rollback_to_snapshot(first.snapshot_id)
    before, present = found(table.refresh()), files(table)
    with pytest.raises(CommitConflict, match="partitioned in another way"):
        stale.upsert([{"id": 1, "kind": "b", "v": 5}, {"id": 2, "kind": "b", "v": 5}], ["id"])
    assert (found(table.refresh()), files(table)) == (before, present)
    table.upsert([{"id": 1, "kind": "b", "v": 5}, {"id": 2, "kind": "b", "v": 5}], ["id"])
    assert [(row["id"], row["v"]) for row in found(table)] == [(1, 5), (2, 5)]


@VERSIONS
def test_no_keys_are_left_behind_if_those_of_another_spec_fail(version: int, monkeypatch: pytest.MonkeyPatch):
    kept = Kept(version, ("bucket(4, id)",))
    kept.put(1, 2)
    kept.table.update_spec().remove_field("id_bucket").add_field("bucket(8, id)").commit()
    before, write = files(kept.table), EqualityDeleteWriter.write

    def fail(writer: EqualityDeleteWriter, batches: Any) -> list[DataFile]:
        if writer.spec.spec_id == 1:
            raise StoreError("the disk is full")
        return write(writer, batches)

    monkeypatch.setattr(EqualityDeleteWriter, "write", fail)
    with pytest.raises(StoreError):
        kept.put(1)
    assert files(kept.table) == before


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_variant_column_that_files_and_rows_do_not_have_is_null(mode: str):
    table = new_table(3, "id BIGINT", write__delete__mode=mode)
    table.append([{"id": 1}, {"id": 2}])
    table.update_schema().add_column("v", "variant").commit()
    table.delete("id = 2")
    table.upsert(pa.table({"id": [3]}), keys=["id"])
    table.upsert([{"id": 4}], keys=["id"])
    table.append(pa.table({"id": [5]}))
    table.append(pa.table({"id": [6], "v": pa.nulls(1)}))
    table.append(pa.table({"id": [7], "v": pa.nulls(1, VARIANT_STORAGE)}))
    table.append([{"id": 8}, {"id": 9, "v": None}, {"id": 10, "v": "told"}])
    values = {row["id"]: row["v"] for row in found(table)}
    assert values.keys() == {1, *range(3, 11)}
    assert decode(*values.pop(10).values()) == "told"
    assert set(values.values()) == {None}
    table.overwrite(table.scan("id < 9").to_arrow())
    assert {row["v"] for row in found(table)} == {None}
