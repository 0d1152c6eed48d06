"""Rows that fit a table, and rows that do not."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from frazil.errors import InvalidArgument, InvalidValue
from frazil.model.arrow import schema_from_anything, schema_to_arrow
from frazil.model.conform import conform
from frazil.model.schema import Schema
from frazil.model.types import (
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)
from frazil.model.variant import decode

SCHEMA = schema_from_anything(
    "id BIGINT NOT NULL, f FLOAT, n INT, s STRUCT<a: INT NOT NULL, b: STRING>, l ARRAY<INT NOT NULL>, "
    "m MAP<STRING, INT NOT NULL>, ts TIMESTAMP, t TIMESTAMP_NTZ, u uuid, d DECIMAL(4,1), x fixed[2], v VARIANT"
)


def one(rows: object, schema: Schema = SCHEMA) -> pa.RecordBatch:
    [batch] = conform(rows, schema)
    batch.validate(full=True)
    assert batch.schema.equals(schema_to_arrow(schema), check_metadata=True)
    return batch


def test_columns_go_by_name_and_missing_ones_are_null() -> None:
    batch = one(pa.table({"n": pa.array([1, None], pa.int8()), "id": [7, 8]}))
    assert batch.column("id").to_pylist() == [7, 8]
    assert batch.column("n").to_pylist() == [1, None]
    assert batch.column("s").null_count == 2


def test_an_unknown_column_is_refused_with_a_hint() -> None:
    with pytest.raises(InvalidArgument, match="no column 'z'") as caught:
        conform(pa.table({"id": [1], "z": [1]}), SCHEMA)
    assert "schema" in str(caught.value.hint)


def test_a_missing_required_column_is_refused_before_any_row_is_read() -> None:
    with pytest.raises(InvalidValue, match="'id'"):
        conform(pa.table({"n": [1]}), SCHEMA)


def test_a_missing_column_gets_its_write_default() -> None:
    point = StructType(
        (
            NestedField(3, "x", IntegerType(), required=True, write_default=0),
            NestedField(4, "y", DoubleType(), write_default=0.5),
        )
    )
    schema = Schema(
        (NestedField(1, "id", LongType(), required=True, write_default=0), NestedField(2, "p", point, write_default={}))
    )
    nothing = pa.RecordBatch.from_arrays([pa.array([{"y": 1.0}], pa.struct([("y", pa.float64())]))], names=["p"])
    assert one(nothing, schema).to_pylist() == [{"id": 0, "p": {"x": 0, "y": 1.0}}]
    assert one([{"id": 5}], schema).to_pylist() == [{"id": 5, "p": {"x": 0, "y": 0.5}}]


@pytest.mark.parametrize(
    ("column", "values", "name"),
    [
        ("id", pa.array([1, None]), "id"),
        ("s", pa.array([{"a": None, "b": "x"}], pa.struct([("a", pa.int32()), ("b", pa.string())])), "s.a"),
        ("l", pa.array([[1, None]]), "l.element"),
        ("m", pa.array([[("a", None)]], pa.map_(pa.string(), pa.int32())), "m.value"),
    ],
)
def test_nulls_in_required_columns_are_refused_by_name(column: str, values: pa.Array, name: str) -> None:
    columns = {"id": pa.array([1] * len(values)), column: values}
    with pytest.raises(InvalidValue, match=f"'{name}'"):
        list(conform(pa.table(columns), SCHEMA))


def test_nulls_below_a_null_parent_are_no_nulls_of_the_child() -> None:
    structs = pa.array([None, {"a": 1, "b": None}], pa.struct([("a", pa.int32()), ("b", pa.string())]))
    lists = pa.array([None, [1]])
    assert one(pa.table({"id": [1, 2], "s": structs, "l": lists})).column("s").null_count == 1


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("n", pa.array([2**31])),
        ("n", pa.array([1.5])),
        ("f", pa.array([0.1])),
        ("f", pa.array([1e300])),
        ("d", pa.array([12345])),
        ("x", pa.array([b"abc"])),
        ("u", pa.array(["not a uuid"])),
        ("t", pa.array([1], pa.timestamp("ns"))),
        ("l", pa.array([[2**40]])),
    ],
)
def test_values_that_would_change_are_refused(column: str, values: pa.Array) -> None:
    with pytest.raises(InvalidValue, match=f"'{column}"):
        list(conform(pa.table({"id": [1], column: values}), SCHEMA))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("n", pa.array(["1"])),
        ("id", pa.array([True])),
        ("t", pa.array([0], pa.timestamp("us", "UTC"))),
        ("s", pa.array([1])),
        ("l", pa.array([1])),
    ],
)
def test_other_kinds_of_values_are_refused(column: str, values: pa.Array) -> None:
    with pytest.raises(InvalidArgument, match=f"'{column}'"):
        list(conform(pa.table({"id": pa.array([1]), column: values}), SCHEMA))


def test_layouts_of_arrow_do_not_matter() -> None:
    batch = one(
        pa.table(
            {
                "id": pa.array([1, 2], pa.uint8()),
                "f": pa.array([1.5, float("nan")], pa.float64()),
                "l": pa.array([[1], None], pa.large_list(pa.int8())),
                "u": pa.array([str(uuid.UUID(int=5)), None]),
                "x": pa.array([b"ab", None]),
                "ts": pa.array([0, None], pa.timestamp("s", "Europe/Berlin")),
                "d": pa.array([3, None]),
                "s": pa.array([{"b": "x", "a": 1}, None]),
            }
        )
    )
    assert batch.column("u")[0].as_py() == uuid.UUID(int=5)
    assert batch.column("s").to_pylist() == [{"a": 1, "b": "x"}, None]
    assert batch.column("l").to_pylist() == [[1], None]


def test_slices_of_lists_keep_their_rows() -> None:
    table = pa.table({"id": [1, 2, 3], "l": [[1], [2, 3], None]}).slice(1)
    assert one(table).column("l").to_pylist() == [[2, 3], None]


def test_dicts_and_frames_are_rows_too() -> None:
    batch = one([{"id": 1, "v": {"k": [1, None]}, "s": {"a": 1}}, {"id": 2, "v": None}])
    stored = batch.column("v")[0].as_py()
    assert decode(stored["metadata"], stored["value"]) == {"k": [1, None]}
    assert batch.column("v").null_count == 1
    assert one(pd.DataFrame({"id": [1, 2]}, index=[5, 6])).num_rows == 2
    assert list(conform([], SCHEMA)) == []


def test_a_dict_with_a_bad_value_names_its_column() -> None:
    with pytest.raises(InvalidValue, match="'n'"):
        conform([{"id": 1, "n": "many"}], SCHEMA)
    with pytest.raises(InvalidArgument, match="'zz'"):
        conform([{"id": 1, "zz": 1}], SCHEMA)


@pytest.mark.parametrize("rows", [5, "text", {"id": [1]}])
def test_what_holds_no_rows_is_refused(rows: object) -> None:
    with pytest.raises(InvalidArgument):
        list(conform(rows, SCHEMA))


def test_fields_left_out_of_structs_get_their_write_defaults_from_dicts_as_from_arrow() -> None:
    def inner(first: int) -> StructType:
        return StructType(
            (
                NestedField(first, "a", IntegerType()),
                NestedField(first + 1, "day", DateType(), write_default=3),
                NestedField(first + 2, "z", DecimalType(9, 2), required=True, write_default=Decimal("7.00")),
            )
        )

    key, value = NestedField(5, "key", StringType(), required=True), NestedField(6, "value", inner(30))
    schema = Schema(
        (
            NestedField(1, "s", inner(10)),
            NestedField(2, "l", ListType(NestedField(3, "element", inner(20)))),
            NestedField(4, "m", MapType(key, value)),
        )
    )
    row = {"s": {"a": 1}, "l": [{"a": 2}, None], "m": {"k": {"a": 3, "z": "1.5"}}}
    day, seven = dt.date(1970, 1, 4), Decimal("7.00")
    expected = {
        "s": {"a": 1, "day": day, "z": seven},
        "l": [{"a": 2, "day": day, "z": seven}, None],
        "m": [("k", {"a": 3, "day": day, "z": Decimal("1.50")})],
    }
    assert one([row, {"s": None}], schema).to_pylist() == [expected, {"s": None, "l": None, "m": None}]


def test_a_required_field_left_out_of_a_dict_is_refused_by_its_full_name() -> None:
    schema = Schema((NestedField(1, "s", StructType((NestedField(2, "r", IntegerType(), required=True),))),))
    with pytest.raises(InvalidValue, match=r"required column 's\.r' is not given"):
        one([{"s": {}}], schema)
