from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import ColumnNotFound, InvalidExpression
from frazil.model.arrow_evaluator import filter_mask, to_arrow_filter
from frazil.model.binding import bind
from frazil.model.expression_parser import parse_expression
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, col
from frazil.model.schema import Schema
from frazil.model.types import FixedType, IntegerType, LongType, NestedField, StringType, StructType, UuidType
from tests.model.expression_strategies import COLUMNS, SCHEMA, batch_of, filters, rows_of

NESTED = Schema(
    (
        NestedField(
            1,
            "s",
            StructType(
                (
                    NestedField(
                        2,
                        "t",
                        StructType((NestedField(3, "x", LongType()), NestedField(4, "u", UuidType()))),
                    ),
                )
            ),
        ),
        NestedField(5, "name", StringType()),
        NestedField(6, "fx", FixedType(1)),
        NestedField(7, "i", IntegerType()),
    )
)


def matches(text: str, **columns: Any) -> list[bool]:
    result: list[bool] = filter_mask(bind(NESTED, parse_expression(text)), pa.record_batch(columns)).to_pylist()
    return result


def test_fields_of_structs_are_null_where_a_struct_around_them_is() -> None:
    rows = pa.array(
        [{"t": {"x": 1}}, {"t": None}, None, {"t": {"x": None}}], pa.struct({"t": pa.struct({"x": pa.int64()})})
    )
    assert matches("s.t.x = 1", s=rows) == [True, False, False, False]
    assert matches("s.t.x IS NULL", s=rows) == [False, True, True, True]
    assert matches("s.t IS NULL", s=rows) == [False, True, True, False]
    assert matches("NOT s.t.x > 5", s=rows) == [True, False, False, False]


def test_uuid_columns_compare_as_bytes_plain_or_in_structs() -> None:
    values = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), b"\xff" * 16, None], pa.binary(16)))
    inner = pa.StructArray.from_arrays([values], ["u"])
    outer = pa.StructArray.from_arrays([inner], ["t"])
    assert matches("s.t.u > '7f000000-0000-0000-0000-000000000000'", s=outer) == [False, True, False]
    listed = "('ffffffff-ffff-ffff-ffff-ffffffffffff', '00000000-0000-0000-0000-000000000001')"
    assert matches(f"s.t.u IN {listed}", s=outer) == [False, True, False]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_of_any_arrow_form_is_filtered(kind: pa.DataType) -> None:
    values = pa.array(["ab", "b", None, ""]).cast(kind)
    assert matches("name LIKE 'a%'", name=values) == [True, False, False, False]
    assert matches("name IN ('b', '')", name=values) == [False, True, False, True]
    assert matches("name > 'aa'", name=values) == [True, True, False, False]


def test_a_file_from_before_a_promotion_compares_with_the_wider_literal() -> None:
    narrow = Schema((NestedField(1, "n", LongType()),))
    batch = pa.record_batch({"n": pa.array([1, 2, None], pa.int32())})
    assert filter_mask(bind(narrow, col("n") < 2**40), batch).to_pylist() == [True, True, False]


def test_constants_fill_the_mask() -> None:
    batch = pa.record_batch({"i": pa.array([1, None])})
    assert filter_mask(AlwaysTrue(), batch).to_pylist() == [True, True]
    assert filter_mask(AlwaysFalse(), batch).to_pylist() == [False, False]


def test_missing_columns_and_unbound_filters_are_refused() -> None:
    batch = pa.record_batch({"s": pa.array([{"q": 1}])})
    with pytest.raises(ColumnNotFound):
        filter_mask(bind(NESTED, col("i") == 1), batch)
    with pytest.raises(ColumnNotFound):
        filter_mask(bind(NESTED, col("s.t.x") == 1), batch)
    with pytest.raises(InvalidExpression, match="bind"):
        filter_mask(col("i") == 1, batch)


def test_an_arrow_filter_leaves_out_what_it_cannot_say() -> None:
    schema = pa.schema({"i": pa.int32(), "name": pa.string(), "fx": pa.binary(1)})

    def pushed(text: str) -> Any:
        return to_arrow_filter(bind(NESTED, parse_expression(text)), schema)

    assert str(pushed("i > 1 AND s.t.x = 2")) == str(pushed("i > 1"))
    assert pushed("i > 1 OR s.t.x = 2") is None
    assert pushed("bucket(4, i) = 1") is None
    assert pushed("fx = X'00'") is None
    assert pushed("TRUE") is None
    assert pushed("FALSE") is not None


@settings(max_examples=60)
@given(st.data())
def test_rows_read_with_an_arrow_filter_include_all_that_match(data: st.DataObject) -> None:
    import pyarrow.parquet as pq

    name = data.draw(st.sampled_from(sorted(set(COLUMNS) - {"u"})))
    values = data.draw(rows_of(name))
    bound = bind(SCHEMA, data.draw(filters(name)))
    rows = pa.Table.from_batches([batch_of(**{name: values})])
    pushed = to_arrow_filter(bound, rows.schema)
    file = io.BytesIO()
    pq.write_table(rows, file, row_group_size=2)
    read = pq.read_table(file, filters=pushed) if pushed is not None else pq.read_table(file)
    wanted = rows.filter(filter_mask(bound, rows.to_batches()[0] if values else batch_of(**{name: []})))
    found = read.filter(filter_mask(bound, read.combine_chunks().to_batches()[0])) if read.num_rows else read
    assert found.num_rows == wanted.num_rows
