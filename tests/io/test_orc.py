"""ORC: attributes, stripes, and timestamps beyond nanoseconds."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from frazil.errors import InvalidValue, MalformedData
from frazil.io.data_files import read_data_file, write_data_file
from frazil.io.orc_tail import read_tail
from frazil.io.orc_timestamps import decode_rle, read_stripe_in_microseconds
from frazil.model.arrow import schema_from_anything
from frazil.model.name_mapping import NameMapping
from frazil.model.schema import Schema
from frazil.model.types import NestedField, TimestampNsType, TimestampType
from tests.io.data_file_samples import EVERYTHING, FIRST, LAST, ROWS, batch_of, memory, read, write


def attributes(location: str) -> dict[str, dict[bytes, bytes]]:
    schema = orc.ORCFile(memory().open_input(location)).schema
    return {field.name: field.metadata for field in schema}


def test_ids_and_types_are_attributes() -> None:
    found = attributes(write("attributes", batch_of(EVERYTHING, ROWS), EVERYTHING, "orc").location)
    assert found["id"] == {b"iceberg.id": b"1", b"iceberg.required": b"true", b"iceberg.long-type": b"LONG"}
    assert found["time"][b"iceberg.long-type"] == b"TIME"
    assert found["ts"][b"iceberg.timestamp-unit"] == b"MICROS"
    assert found["nstz"][b"iceberg.timestamp-unit"] == b"NANOS"
    assert found["uuid"][b"iceberg.binary-type"] == b"UUID"
    assert found["fixed"][b"iceberg.length"] == b"3"
    assert found["variant"][b"iceberg.struct-type"] == b"VARIANT"
    assert found["geography"][b"iceberg.binary-type"] == b"GEOGRAPHY"
    assert "unknown" not in found


def stripes(rows: int = 60_000) -> str:
    location = "memory://samples/data/stripes.orc"
    schema = schema_from_anything("id BIGINT, name STRING")
    memory().delete(location)
    values = np.random.default_rng(0).integers(0, 2**60, rows)
    batches = [
        pa.record_batch({"id": np.arange(at, at + 1000), "name": values[at : at + 1000].astype(str)})
        for at in range(0, rows, 1000)
    ]
    write_data_file(memory(), location, "orc", schema, batches, {"write.orc.stripe-size-bytes": "65536"})
    return location


def test_positions_go_on_over_stripes_and_splits() -> None:
    location = stripes()
    schema = schema_from_anything("id BIGINT")
    tail = read_tail(memory().open_input(location))
    assert len(tail.stripes) > 2
    assert sum(stripe.rows for stripe in tail.stripes) == 60_000
    middle = tail.stripes[1].offset
    seen = []
    for split in ((0, middle), (middle, memory().size(location))):
        for first, batch in read_data_file(memory(), location, "orc", schema, split=split):
            assert batch.column("id").to_pylist() == list(range(first, first + batch.num_rows))
            seen += batch.column("id").to_pylist()
    assert seen == list(range(60_000))


@given(st.lists(st.none() | st.integers(FIRST, LAST).map(lambda v: v if v >= 0 else v // 10**6 * 10**6), max_size=50))
def test_timestamps_of_all_years_come_back(values: list[int | None]) -> None:
    schema = Schema((NestedField(1, "t", TimestampType()),))
    want = batch_of(schema, [{1: value} for value in values])
    got = read(write("years", want, schema, "orc").location, schema, "orc")
    assert got.column("t").combine_chunks().view(pa.int64()).to_pylist() == values


def test_nanoseconds_stay_exact_beside_years_that_they_cannot_reach() -> None:
    schema = Schema((NestedField(1, "t", TimestampType()), NestedField(2, "n", TimestampNsType())))
    rows = [{1: FIRST, 2: 2**63 - 1}, {1: None, 2: -9_223_372_036 * 10**9}, {1: LAST, 2: 1}]
    got = read(write("both", batch_of(schema, rows), schema, "orc").location, schema, "orc")
    assert got.column("n").combine_chunks().view(pa.int64()).to_pylist() == [row[2] for row in rows]


KINDS = {
    "random": lambda rng, n: rng.integers(FIRST // 10**6, LAST // 10**6, n) * 10**6 + rng.integers(0, 10**6, n),
    "growing": lambda rng, n: np.cumsum(rng.integers(0, 1000, n)) * 1000 + 10**15,
    "constant": lambda rng, n: np.full(n, 10**15 + 123_456),
    "outliers": lambda rng, n: np.where(rng.random(n) < 0.02, rng.integers(0, 10**6, n), 7) + 10**15,
    "falling": lambda rng, n: np.arange(n)[::-1] + 5 * 10**15,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "zstd"])
def test_every_encoding_of_nanoseconds_is_decoded(kind: str, codec: str) -> None:
    rng = np.random.default_rng(5)
    values = KINDS[kind](rng, 5000)
    values = np.where((values < 0) & (values > -(10**6)), 0, values)
    array = pa.array(values, mask=rng.random(5000) < 0.1).view(pa.timestamp("us"))
    lists = pa.ListArray.from_arrays(pa.array(range(0, 5001, 2), pa.int32()), array)
    data = io.BytesIO()
    with orc.ORCWriter(data, compression=codec) as writer:
        writer.write(pa.table({"l": lists, "n": range(2500)}))
    source = pa.BufferReader(data.getvalue())
    got = read_stripe_in_microseconds(source, orc.ORCFile(source).schema, 0, None)
    assert got.column("l").to_pylist() == lists.to_pylist()


@given(st.binary(max_size=40))
def test_no_bytes_break_the_run_decoder(data: bytes) -> None:
    with contextlib.suppress(MalformedData):
        decode_rle(data)


@pytest.mark.parametrize("value", [-1, -1_000_001, FIRST + 1])
def test_fractions_before_1970_which_pyarrow_would_write_wrongly_are_refused(value: int) -> None:
    schema = Schema((NestedField(1, "t", TimestampType()),))
    with pytest.raises(InvalidValue, match="1970"):
        write("second", batch_of(schema, [{1: value}]), schema, "orc")
    write("second", batch_of(schema, [{1: -1_000_000}, {1: 1}, {1: None}]), schema, "orc")


def test_files_without_ids_go_by_the_name_mapping() -> None:
    data = io.BytesIO()
    with orc.ORCWriter(data) as writer:
        writer.write(pa.table({"old": [1, 2], "s": [{"x": [1]}, None]}))
    memory().write("memory://samples/data/mapped.orc", data.getvalue())
    schema = schema_from_anything("a BIGINT, s STRUCT<x: ARRAY<BIGINT>>")
    mapping = NameMapping.from_json(
        '[{"field-id":1,"names":["a","old"]},{"field-id":2,"names":["s"],"fields":'
        '[{"field-id":3,"names":["x"],"fields":[{"field-id":4,"names":["element"]}]}]}]'
    )
    got = read("memory://samples/data/mapped.orc", schema, "orc", name_mapping=mapping)
    assert got.to_pylist() == [{"a": 1, "s": {"x": [1]}}, {"a": 2, "s": None}]
