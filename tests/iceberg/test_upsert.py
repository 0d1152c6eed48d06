"""`table.upsert` in-process: keys of all kinds, and what is left when it fails. More is in tests/spark/changes."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import ColumnNotFound, InvalidArgument, InvalidValue, StoreError
from frazil.iceberg.equality_writer import EqualityDeleteWriter
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
