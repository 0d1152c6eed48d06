"""Decoding and encoding agree with fastavro on any supported schema."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import itertools
import json
import uuid
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.errors import Unsupported
from frazil.io import avro
from frazil.io.avro.container import write_long

Json = Any

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
text = st.text(max_size=12)


def decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    top = 10**precision - 1
    context = decimal.Context(prec=50)
    return st.integers(-top, top).map(lambda n: decimal.Decimal(n).scaleb(-scale, context))


def micros(aware: bool) -> st.SearchStrategy[dt.datetime]:
    zone = st.just(dt.UTC) if aware else st.none()
    return st.datetimes(timezones=zone)


@st.composite
def leaves(draw: st.DrawFn, names: itertools.count[int]) -> tuple[Json, st.SearchStrategy[Any]]:
    """A leaf type and a strategy for its values, as fastavro takes them."""
    name = f"t{next(names)}"
    options: list[tuple[Json, st.SearchStrategy[Any]]] = [
        ("boolean", st.booleans()),
        ("int", ints),
        ("long", longs),
        ("float", st.floats(width=32, allow_nan=False)),
        ("double", st.floats(allow_nan=False)),
        ("bytes", st.binary(max_size=100)),
        ("string", text),
        ({"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3)),
        ({"type": "enum", "name": name, "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")),
        ({"type": "int", "logicalType": "date"}, st.dates()),
        ({"type": "long", "logicalType": "time-micros"}, st.times()),
        ({"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}, micros(True)),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, micros(False)),
        ({"type": "string", "logicalType": "uuid"}, st.uuids()),
        (
            {"type": "fixed", "name": name, "size": 16, "logicalType": "decimal", "precision": 38, "scale": 4},
            decimals(38, 4),
        ),
        (
            {"type": "fixed", "name": name, "size": 5, "logicalType": "decimal", "precision": 11, "scale": 2},
            decimals(11, 2),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}, decimals(20, 0)),
    ]
    return draw(st.sampled_from(options))


@st.composite
def types(draw: st.DrawFn, names: itertools.count[int], depth: int) -> tuple[Json, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["leaf"] * 4 + (["record", "array", "map", "pairs"] if depth else [])))
    avro_type: Json
    if kind == "leaf":
        avro_type, values = draw(leaves(names))
    elif kind == "record":
        avro_type, values = draw(records(names, depth - 1))
    else:
        inner, inner_values = draw(types(names, depth - 1))
        avro_type, values = containers(draw, names, kind, inner, inner_values)
    match draw(st.sampled_from(["plain", "null first", "null last"])):
        case "null first":
            return ["null", avro_type], st.none() | values
        case "null last":
            return [avro_type, "null"], st.none() | values
    return avro_type, values


def containers(
    draw: st.DrawFn, names: itertools.count[int], kind: str, inner: Json, values: st.SearchStrategy[Any]
) -> tuple[Json, st.SearchStrategy[Any]]:
    if kind == "array":
        return {"type": "array", "items": inner, "element-id": next(names)}, st.lists(values, max_size=4)
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(text, values, max_size=4)
    key, keys = draw(st.sampled_from([("int", ints), ("string", text), ("long", longs)]))
    fields = [{"name": "key", "type": key, "field-id": next(names)}, {"name": "value", "type": inner}]
    record = {"type": "record", "name": f"t{next(names)}", "fields": fields}
    pairs = st.lists(st.fixed_dictionaries({"key": keys, "value": values}), max_size=4)
    return {"type": "array", "logicalType": "map", "items": record}, pairs


@st.composite
def records(draw: st.DrawFn, names: itertools.count[int], depth: int) -> tuple[Json, st.SearchStrategy[Any]]:
    fields, values = [], {}
    for i in range(draw(st.integers(1, 4))):
        avro_type, strategy = draw(types(names, depth))
        fields.append({"name": f"f{i}", "type": avro_type, "field-id": next(names)})
        values[f"f{i}"] = strategy
    return {"type": "record", "name": f"t{next(names)}", "fields": fields}, st.fixed_dictionaries(values)


@st.composite
def files(draw: st.DrawFn) -> tuple[Json, list[Any]]:
    schema, rows = draw(records(itertools.count(1), 3))
    return schema, draw(st.lists(rows, max_size=8))


def as_arrow(avro_type: Json, value: Any) -> Any:
    """What `to_pylist` gives for a value that fastavro read."""
    if isinstance(avro_type, list):
        return None if value is None else as_arrow(next(b for b in avro_type if b != "null"), value)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if not isinstance(avro_type, dict):
        return value
    match avro_type["type"]:
        case "record":
            return {f["name"]: as_arrow(f["type"], value[f["name"]]) for f in avro_type["fields"]}
        case "array" if "logicalType" in avro_type:
            kind = avro_type["items"]["fields"][1]["type"]
            return [(item["key"], as_arrow(kind, item["value"])) for item in value]
        case "array":
            return [as_arrow(avro_type["items"], item) for item in value]
        case "map":
            return [(key, as_arrow(avro_type["values"], item)) for key, item in value.items()]
    return value


def fast_write(schema: Json, rows: list[Any], codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec=codec, sync_interval=200)
    return out.getvalue()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files(), st.sampled_from(["null", "deflate", "zstandard", "snappy"]))
def test_what_fastavro_writes_we_read_and_what_we_write_fastavro_reads(
    file: tuple[Json, list[Any]], codec: str
) -> None:
    schema, rows = file
    expected = list(fastavro.reader(io.BytesIO(fast_write(schema, rows))))
    container = avro.read_container(fast_write(schema, rows, codec))
    table = avro.decode(container)
    table.validate(full=True)
    assert container.num_rows == len(rows)
    assert table.to_pylist() == [as_arrow(schema, row) for row in expected]
    ours = avro.encode(table, schema, {"k": "v"}, codec, block_bytes=150)
    assert list(fastavro.reader(io.BytesIO(ours))) == expected
    assert avro.decode(avro.read_container(ours)).equals(table)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files(), st.data())
def test_a_projection_gives_the_same_values_as_reading_everything(
    file: tuple[Json, list[Any]], data: st.DataObject
) -> None:
    schema, rows = file
    container = avro.read_container(fast_write(schema, rows))
    table = avro.decode(container)
    names = data.draw(st.sets(st.sampled_from(table.column_names), min_size=1))
    ids = {f["field-id"] for f in schema["fields"] if f["name"] in names}
    expected = table.select([name for name in table.column_names if name in names])
    assert avro.decode(container, ids).equals(expected)
    assert avro.decode(container, names).equals(expected)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files(), st.data())
def test_slices_of_tables_are_written_as_their_rows(file: tuple[Json, list[Any]], data: st.DataObject) -> None:
    schema, rows = file
    table = avro.decode(avro.read_container(fast_write(schema, rows * 3)))
    start = data.draw(st.integers(0, len(rows) * 3))
    part = table.slice(start, data.draw(st.integers(0, len(rows) * 3)))
    assert avro.decode(avro.read_container(avro.encode(part, schema))).to_pylist() == part.to_pylist()


def record(*fields: Json) -> Json:
    return {"type": "record", "name": "r", "fields": list(fields)}


def test_nested_columns_can_be_selected_by_id_and_by_path() -> None:
    inner = {"type": "record", "name": "n", "fields": [
        {"name": "x", "type": "int", "field-id": 3}, {"name": "y", "type": "string", "field-id": 4}]}  # fmt: skip
    schema = record(
        {"name": "a", "type": "long", "field-id": 1},
        {"name": "l", "type": ["null", {"type": "array", "items": inner, "element-id": 5}], "field-id": 2},
        {"name": "m", "type": {"type": "map", "values": "n", "key-id": 7, "value-id": 8}, "field-id": 6},
    )
    item = {"x": 1, "y": "one"}
    container = avro.read_container(fast_write(schema, [{"a": 9, "l": [item], "m": {"k": item}}]))
    assert avro.decode(container, {4}).to_pylist() == [{"l": [{"y": "one"}], "m": [("k", {"y": "one"})]}]
    assert avro.decode(container, ["l.element.x"]).to_pylist() == [{"l": [{"x": 1}]}]
    assert avro.decode(container, {7}).to_pylist() == [{"m": [("k", item)]}]
    assert avro.decode(container, {5}).to_pylist() == [{"l": [item]}]


def test_selecting_nothing_still_counts_and_checks_the_rows() -> None:
    container = avro.read_container(fast_write(record({"name": "a", "type": "long"}), [{"a": 1}] * 5))
    batches = list(avro.iter_batches(container, ()))
    assert sum(batch.num_rows for batch in batches) == container.num_rows == 5


def test_field_ids_are_in_the_metadata_of_the_arrow_fields() -> None:
    schema = record(
        {"name": "l", "field-id": 1, "type": {"type": "array", "items": "int", "element-id": 2}},
        {"name": "m", "field-id": 3, "type": {"type": "map", "values": "int", "key-id": 4, "value-id": 5}},
    )
    arrow = avro.decode(avro.read_container(fast_write(schema, []))).schema
    found = [
        arrow.field("l"), arrow.field("l").type.value_field,
        arrow.field("m"), arrow.field("m").type.key_field, arrow.field("m").type.item_field,
    ]  # fmt: skip
    assert [f.metadata[b"PARQUET:field_id"] for f in found] == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("unit", ["millis", "micros", "nanos"])
@pytest.mark.parametrize(("told", "default", "zone"), [
    (True, False, "UTC"), (False, True, None), (None, True, "UTC"), (None, False, None)])  # fmt: skip
def test_timestamps_have_a_zone_as_the_schema_or_the_caller_says(
    unit: str, told: bool | None, default: bool, zone: str | None
) -> None:
    kind = {"type": "long", "logicalType": f"timestamp-{unit}"} | ({} if told is None else {"adjust-to-utc": told})
    container = avro.read_container(fast_write(record({"name": "t", "type": "long"}), [{"t": 1}]))
    payload = next(container.payloads())[1]
    assert payload == b"\x02"
    schema = record({"name": "t", "type": kind})
    column = avro.decode(avro.read_container(avro.encode(pa.table({"t": [1]}), schema)), utc_unless_told=default)["t"]
    assert column.type == pa.timestamp({"millis": "ms", "micros": "us", "nanos": "ns"}[unit], zone)
    assert column.cast(pa.int64()).to_pylist() == [1]


def test_values_that_mean_false_are_values() -> None:
    schema = record(*({"name": n, "type": ["null", t]} for n, t in zip("abcde", ["int", "string", "bytes", "boolean",
                    {"type": "array", "items": "int"}], strict=True)))  # fmt: skip
    row = {"a": 0, "b": "", "c": b"", "d": False, "e": []}
    assert avro.decode(avro.read_container(fast_write(schema, [row]))).to_pylist() == [row]


def test_null_columns_and_empty_records_take_no_bytes_and_come_back() -> None:
    nothing = {"type": "record", "name": "n", "fields": []}
    schema = record({"name": "u", "type": "null"}, {"name": "e", "type": nothing}, {"name": "o", "type": ["null", "n"]})
    rows = [{"u": None, "e": {}, "o": None}, {"u": None, "e": {}, "o": {}}]
    table = avro.decode(avro.read_container(fast_write(schema, rows)))
    assert table.to_pylist() == rows
    assert list(fastavro.reader(io.BytesIO(avro.encode(table, schema)))) == rows
    empty = record({"name": "u", "type": "null"})
    assert avro.decode(avro.read_container(fast_write(empty, [{"u": None}] * 7))).num_rows == 7


def test_arrays_in_the_form_with_byte_sizes_are_read() -> None:
    schema = record({"name": "l", "type": {"type": "array", "items": "int"}}, {"name": "b", "type": "int"})
    # Two blocks: -2 items in 2 bytes, then 1 item without a size; then the end.
    payload = bytes([3, 4, 2, 4, 2, 6, 0, 8])
    data = frame(schema, payload, 1)
    assert avro.decode(avro.read_container(data)).to_pylist() == [{"l": [1, 2, 3], "b": 4}]
    assert avro.decode(avro.read_container(data), ["b"]).to_pylist() == [{"b": 4}]


def frame(schema: Json, payload: bytes, count: int) -> bytes:
    header = avro.encode(pa.table({}), schema if isinstance(schema, str) else json.dumps(schema), codec="null")
    return header + write_long(count) + write_long(len(payload)) + payload + header[-16:]


def test_unions_of_several_types_can_be_stepped_over_but_not_read() -> None:
    schema = record({"name": "u", "type": ["null", "int", "string"]}, {"name": "a", "type": "int"})
    container = avro.read_container(fast_write(schema, [{"u": v, "a": i} for i, v in enumerate([None, 5, "five"])]))
    assert avro.decode(container, ["a"])["a"].to_pylist() == [0, 1, 2]
    with pytest.raises(Unsupported):
        avro.decode(container)
