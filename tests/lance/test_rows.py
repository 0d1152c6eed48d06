"""Rows on their way in: what is stored is what was given, or it is refused with the column's name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from frazil.errors import InvalidArgument, InvalidValue
from frazil.io.store import Stores
from frazil.lance.rows import array_as
from frazil.lance.table import LanceTable
from tests.lance.test_table import check, made

NOON = dt.datetime(2024, 1, 1, 12)
POINT = pa.struct({"x": pa.int32(), "y": pa.string()})
VECTOR = pa.list_(pa.float32(), 2)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 1.9),
        (pa.int64(), np.float64(2.5)),
        (pa.int64(), float("inf")),
        (pa.int64(), Decimal("1.5")),
        (pa.int64(), True),
        (pa.int64(), "5"),
        (pa.int8(), 300),
        (pa.timestamp("s"), NOON.replace(microsecond=999_999)),
        (pa.timestamp("ms"), NOON.replace(microsecond=1)),
        (pa.timestamp("us"), pd.Timestamp("2024-01-01 00:00:00.000000001")),
        (pa.time32("s"), dt.time(1, 2, 3, 4)),
        (pa.duration("s"), dt.timedelta(milliseconds=5)),
        (pa.date32(), NOON),
        (pa.decimal128(5, 2), Decimal("1.239")),
        (pa.list_(pa.int32()), [1.7]),
        (pa.list_(pa.list_(pa.int32(), 1)), [[1.7]]),
        (pa.list_(pa.int32()), ["1"]),
        (POINT, {"x": 1, "zzz": "lost"}),
        (POINT, {"x": 1.5}),
        (pa.list_(POINT), [{"x": 1, "zzz": "lost"}]),
        (pa.map_(pa.string(), pa.int32()), {"a": 1.5}),
        (pa.dictionary(pa.int8(), pa.int32()), 1.5),
        (VECTOR, [1.0, 2.0, 3.0]),
    ],
)
def test_a_python_value_that_would_be_changed_is_refused(tmp_path: Path, kind: pa.DataType, value: Any) -> None:
    table = LanceTable.create(Stores(), str(tmp_path), pa.schema({"n": pa.int64(), "c": kind}), [{"n": 1}])
    with pytest.raises(InvalidValue):
        table.append([{"n": 1}, {"n": 2, "c": value}])
    if not isinstance(value, str):
        with pytest.raises(InvalidArgument):
            table.update({"c": value})
    assert check(tmp_path)["c"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (pa.int64(), 2.0, 2),
        (pa.int64(), np.int32(2), 2),
        (pa.float32(), 0.1, np.float32(0.1)),
        (pa.timestamp("s"), NOON, NOON),
        (pa.timestamp("ms"), NOON.replace(microsecond=1000), NOON.replace(microsecond=1000)),
        (pa.date32(), dt.date(2024, 1, 1), dt.date(2024, 1, 1)),
        (POINT, {"x": 1}, {"x": 1, "y": None}),
        (VECTOR, np.array([0.5, 0.1]), [0.5, np.float32(0.1)]),
        (VECTOR, (1, 2), [1, 2]),
        (pa.list_(pa.int32()), [1, 2.0], [1, 2]),
        (pa.map_(pa.string(), pa.int32()), {"a": 1}, [("a", 1)]),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)], [("a", 1)]),
        (pa.uuid(), b"0" * 16, None),
    ],
)
def test_a_python_value_that_fits_is_stored(tmp_path: Path, kind: pa.DataType, value: Any, stored: Any) -> None:
    table = LanceTable.create(Stores(), str(tmp_path), pa.schema({"c": kind}))
    table.append([{"c": value}, {"c": None}])
    found = check(tmp_path)["c"].to_pylist()
    assert found[1] is None
    assert stored is None or found[0] == stored


REQUIRED = pa.struct([pa.field("x", pa.int32(), nullable=False)])


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (pa.int64(), pa.array([1.5])),
        (pa.float32(), pa.array([0.1])),
        (pa.struct({"x": pa.float32()}), pa.array([{"x": 0.1}])),
        (pa.list_(pa.float32()), pa.array([[0.1]])),
        (POINT, pa.array([{"x": 1, "zzz": "lost"}])),
        (POINT, pa.array([{"x": "12"}])),
        (POINT, pa.array([1])),
        (pa.list_(pa.int32()), pa.array([["1"]])),
        (pa.list_(pa.int32()), pa.array([1])),
        (pa.int32(), pa.array([[1]])),
        (VECTOR, pa.array([[1.0, 2.0, 3.0]])),
        (VECTOR, pa.array([[1.0]], pa.list_(pa.float64(), 1))),
        (pa.map_(pa.string(), pa.int32()), pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))),
        (REQUIRED, pa.array([{"x": None}], pa.struct({"x": pa.int32()}))),
        (REQUIRED, pa.array([{"x": None}], REQUIRED)),
        (REQUIRED, pa.array([{}], pa.struct([]))),
        (pa.list_(pa.field("item", pa.int32(), nullable=False)), pa.array([[None, 1]])),
        (pa.list_(REQUIRED), pa.array([[{"x": None}]])),
        (
            pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False)),
            pa.array([[("a", None)]], pa.map_(pa.string(), pa.int32())),
        ),
    ],
)
def test_a_column_that_would_be_changed_is_refused(kind: pa.DataType, given: pa.Array) -> None:
    with pytest.raises((InvalidValue, InvalidArgument)) as refused:
        array_as(given, pa.field("c", kind))
    assert "'c" in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (POINT, pa.array([{"y": "s", "x": 5}, None], pa.struct({"y": pa.large_string(), "x": pa.int64()}))),
        (POINT, pa.array([{"x": 5}, None])),
        (VECTOR, pa.array([[0.5, 0.1], None])),
        (VECTOR, pa.array([[0.5, 0.1], None], pa.list_(pa.float64(), 2))),
        (VECTOR, pa.array([[0.5, 0.1], None], pa.large_list(pa.float32()))),
        (pa.list_(VECTOR), pa.array([[[0.5, 0.1]], [None]])),
        (pa.large_list(pa.int32()), pa.array([[1], None], pa.list_(pa.int64()))),
        (pa.list_(pa.int32()), pa.array([[1], None], pa.large_list(pa.int64()))),
        (pa.list_(pa.int64()), pa.array([[1, 2], None], pa.list_(pa.int32(), 2))),
        (pa.map_(pa.string(), pa.int32()), pa.array([[("a", 1)], None], pa.map_(pa.large_string(), pa.int64()))),
        (pa.struct([pa.field("l", pa.list_(REQUIRED))]), pa.array([{"l": [{"x": 1}]}, None])),
        (pa.dictionary(pa.int8(), pa.string()), pa.array(["a", None])),
        (pa.string(), pa.array(["a", None]).dictionary_encode()),
        (pa.struct({"a": pa.null()}), pa.nulls(2)),
    ],
)
@pytest.mark.parametrize("sliced", [False, True])
def test_a_column_that_fits_is_cast_at_any_depth(kind: pa.DataType, given: pa.Array, sliced: bool) -> None:
    array = pa.concat_arrays([given, given])[1:] if sliced else given
    found = array_as(array, pa.field("c", kind))
    found.validate(full=True)
    assert found.type == kind
    assert len(found) == len(array)
    if kind == VECTOR:
        assert found.drop_null().to_pylist() == [[0.5, np.float32(0.1)]] * len(found.drop_null())


def test_a_null_in_a_null_is_no_null() -> None:
    for kind in (pa.struct({"x": pa.int64()}), REQUIRED):
        array = pa.array([{"x": 1}, None], kind)
        assert array_as(array, pa.field("c", REQUIRED)).to_pylist() == [{"x": 1}, None]


def test_a_struct_does_not_lose_its_fields_by_a_change_of_its_type(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"p": pa.array([{"a": 1}, None])}))
    with pytest.raises(InvalidArgument):
        table.change_column_type("p", pa.struct({"b": pa.int64()}))
    table.change_column_type("p", pa.struct({"a": pa.int32(), "b": pa.int64()}))
    assert check(tmp_path)["p"].to_pylist() == [{"a": 1, "b": None}, None]
