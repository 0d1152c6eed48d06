"""Container files: header, blocks, codecs, the streaming writer, and what the encoder refuses."""

from __future__ import annotations

import decimal
import io
import threading
import uuid
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from frazil import ambient
from frazil.errors import InvalidArgument, InvalidValue, MalformedMetadata, Unsupported
from frazil.io import avro
from frazil.io.avro import build_wasm, codecs, runtime

LONG = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long", "field-id": 1}]}


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": list(fields)}


def column(kind: Any) -> dict[str, Any]:
    return record({"name": "a", "type": kind})


def test_the_sandboxed_code_was_built_from_the_source_beside_it() -> None:
    assert build_wasm.recorded_digest() == build_wasm.source_digest(), "run: make wasm"


def test_the_error_numbers_and_operations_are_those_of_the_c_source() -> None:
    source = build_wasm.SOURCE.read_text()
    names = [name.strip() for name in source.split("enum error {")[1].split("}")[0].split(",")]
    assert names.index("NO_MEMORY") == runtime.NO_MEMORY
    assert names.index("UNEXPECTED_NULL") == runtime.UNEXPECTED_NULL
    assert len(names) == len(runtime.REASONS) + 1


def test_the_header_can_be_read_from_the_beginning_of_a_file() -> None:
    data = avro.encode(pa.table({"a": range(10_000)}), LONG, {"format-version": "2", "raw": b"\x00\xff"})
    size = avro.read_header(data).size
    header = avro.read_header(data[:size])
    assert (header.metadata["format-version"], header.metadata["raw"]) == (b"2", b"\x00\xff")
    assert header.codec == "deflate"
    assert header.schema.root.fields[0].field_id == 1
    with pytest.raises(MalformedMetadata):
        avro.read_header(data[: size - 1])


@pytest.mark.parametrize("codec", codecs.CODECS)
def test_metadata_and_rows_are_read_by_fastavro_with_every_codec(codec: str) -> None:
    data = avro.encode(pa.table({"a": range(1000)}), LONG, {"k": "v"}, codec)
    reader = fastavro.reader(io.BytesIO(data))
    assert reader.metadata["k"] == "v"
    assert [row["a"] for row in reader] == list(range(1000))


def test_many_containers_with_one_schema_decode_in_one_pass() -> None:
    files = [avro.encode(pa.table({"a": [i] * i}, pa.schema({"a": pa.int64()})), LONG) for i in range(50)]
    containers = [avro.read_container(data) for data in files]
    table = avro.decode(containers)
    assert table["a"].to_pylist() == [i for i in range(50) for _ in range(i)]
    assert [c.num_rows for c in containers] == list(range(50))
    assert table["a"].num_chunks == 1


def test_containers_with_different_schemas_are_not_mixed() -> None:
    one = avro.read_container(avro.encode(pa.table({"a": [1]}), LONG))
    other = avro.read_container(avro.encode(pa.table({"a": [1]}), column("int")))
    with pytest.raises(InvalidArgument):
        avro.decode([one, other])
    with pytest.raises(InvalidArgument):
        avro.decode([])


def test_blocks_have_about_the_size_asked_for_and_batches_share_them() -> None:
    parts: list[bytes] = []
    with avro.ContainerWriter(parts.append, column("string"), codec="null", block_bytes=1000) as writer:
        for _ in range(100):
            writer.write(pa.record_batch({"a": ["x" * 49] * 3}))
    data = b"".join(parts)
    container = avro.read_container(data)
    assert [block.rows for block in container.blocks] == [20] * 15
    assert (writer.rows_written, writer.bytes_written) == (300, len(data))
    assert len(writer.block_offsets) == 15
    assert writer.block_offsets[0] == container.header.size
    # From each offset on, the rest of the file is again a list of whole blocks.
    for offset in writer.block_offsets:
        assert avro.read_container(data[: container.header.size] + data[offset:]).num_rows % 20 == 0


def test_a_writer_that_failed_or_was_closed_takes_no_more(tmp_path: Any) -> None:
    with (tmp_path / "f.avro").open("wb") as file:
        writer = avro.ContainerWriter(file, LONG)
        writer.write(pa.table({"a": [1, 2]}))
        writer.close()
        writer.close()
        with pytest.raises(InvalidArgument):
            writer.write(pa.table({"a": [3]}))
    assert avro.decode(avro.read_container((tmp_path / "f.avro").read_bytes()))["a"].to_pylist() == [1, 2]


def test_the_same_seed_writes_the_same_bytes() -> None:
    def once() -> bytes:
        with ambient.replaced(ambient.Ambient(seed=3, start_ms=0)):
            return avro.encode(pa.table({"a": [1]}), LONG)

    assert once() == once()


def test_a_large_value_makes_one_large_block() -> None:
    table = pa.table({"a": [b"x" * 3_000_000, b"", b"y" * 5_000_000]})
    container = avro.read_container(avro.encode(table, column("bytes"), codec="zstandard"))
    assert len(container.blocks) == 2
    assert avro.decode(container).equals(avro.decode(avro.read_container(avro.encode(table, column("bytes")))))
    assert avro.decode(container)["a"].to_pylist() == table["a"].to_pylist()


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        ("string", pa.array(["a", None], pa.large_string())),
        ("string", pa.array(["a", None]).dictionary_encode()),
        ("string", pa.array(["a", None], pa.string_view())),
        ("bytes", pa.array([b"a", None], pa.large_binary())),
        ("long", pa.array([1, None], pa.int8())),
        ("int", pa.array([1, None], pa.int64())),
        ("double", pa.array([1.5, None], pa.float32())),
        ({"type": "array", "items": "int"}, pa.array([[1, 2], None], pa.large_list(pa.int32()))),
        ({"type": "array", "items": "int"}, pa.array([[1, 2], None], pa.list_(pa.int32(), 2))),
        ({"type": "enum", "name": "e", "symbols": ["b", "a"]}, pa.array(["a", None])),
        ("int", pa.nulls(2)),
        ({"type": "array", "items": "int"}, pa.nulls(2)),
        ({"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"},
         pa.array([uuid.UUID(int=5).bytes, None], pa.uuid())),
    ],
)  # fmt: skip
def test_arrow_types_that_hold_the_same_values_are_taken(kind: Any, array: pa.Array) -> None:
    data = avro.encode(pa.table({"a": array}), column(["null", kind]))
    expected = [value.bytes if isinstance(value, uuid.UUID) else value for value in array.to_pylist()]
    assert avro.decode(avro.read_container(data))["a"].to_pylist() == expected


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        ("long", pa.array([1, None])),
        ("int", pa.array([1 << 40])),
        ("int", pa.array(["1"])),
        ("string", pa.array([1])),
        ("null", pa.array([1])),
        ({"type": "array", "items": "int"}, pa.array([1])),
        ({"type": "array", "items": "int"}, pa.array([[1, None]])),
        ({"type": "map", "values": "int"}, pa.array([1])),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array(["B"])),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array([1])),
        ({"type": "fixed", "name": "f", "size": 2}, pa.array([b"abc"])),
        ({"type": "record", "name": "n", "fields": [{"name": "x", "type": "int"}]}, pa.array([{"y": 1}])),
        ({"type": "record", "name": "n", "fields": [{"name": "x", "type": "int"}]}, pa.array([1])),
        ({"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 9, "scale": 0},
         pa.array([decimal.Decimal(128)])),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_the_schema_are_refused_by_name(kind: Any, array: pa.Array) -> None:
    with pytest.raises(InvalidValue, match=r"\ba\b"):
        avro.encode(pa.table({"a": array}), column(kind))


def test_a_null_struct_may_hide_nulls_in_its_required_fields() -> None:
    inner = {"type": "record", "name": "n", "fields": [{"name": "x", "type": "int"}]}
    data = avro.encode(pa.table({"a": [None, {"x": 1}]}), column(["null", inner]))
    assert avro.decode(avro.read_container(data))["a"].to_pylist() == [None, {"x": 1}]


def test_missing_columns_are_null_if_they_may_be() -> None:
    schema = record({"name": "a", "type": ["null", "int"]}, {"name": "b", "type": "int"})
    assert avro.decode(avro.read_container(avro.encode(pa.table({"b": [1]}), schema))).to_pylist() == [
        {"a": None, "b": 1}
    ]
    with pytest.raises(InvalidValue, match=r"\bb\b"):
        avro.encode(pa.table({"a": [1]}), schema)


def test_names_that_avro_forbids_come_from_icebergs_attribute() -> None:
    schema = record({"name": "a_x20b", "type": "int", "iceberg-field-name": "a b"})
    assert avro.decode(avro.read_container(avro.encode(pa.table({"a b": [1]}), schema))).column_names == ["a b"]


def test_options_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        avro.encode(pa.table({"a": [1]}), LONG, {"avro.codec": "null"})
    with pytest.raises(InvalidArgument):
        avro.encode(pa.table({"a": [1]}), LONG, block_bytes=0)
    with pytest.raises(Unsupported):
        avro.encode(pa.table({"a": [1]}), LONG, codec="lzo")
    with pytest.raises(Unsupported):
        avro.encode(pa.table({"a": [1]}), column(["int", "string"]))


@pytest.mark.parametrize("java", [True, False])
def test_manifests_may_have_plain_fixed_values_with_a_length_as_java_writes_them(java: bool) -> None:
    schema = record(
        {"name": "f", "type": ["null", {"type": "fixed", "name": "f5", "size": 5}], "field-id": 1},
        {"name": "b", "type": ["null", "bytes"], "field-id": 2},
    )
    table = pa.table({"f": pa.array([b"12345", None], pa.binary(5)), "b": [b"", None]})
    data = avro.encode(table, schema, codec="null", java_fixed=java)
    assert (b"\x02\x0a12345" in data) == java
    container = avro.read_container(data)
    for columns in (None, {2}):
        rows = avro.decode([container, container], columns, java_fixed=True).to_pylist()
        expected = table.to_pylist() if columns is None else table.select(["b"]).to_pylist()
        assert rows == expected * 2
    if java:
        with pytest.raises(MalformedMetadata):
            avro.decode(container)


def test_a_fixed_type_may_be_spelled_out_twice_if_both_are_the_same() -> None:
    fixed = {"type": "fixed", "name": "f", "size": 3}
    schema = record({"name": "a", "type": fixed}, {"name": "b", "type": fixed})
    assert len(avro.parse_schema(schema).root.fields) == 2
    with pytest.raises(MalformedMetadata):
        avro.parse_schema(record({"name": "a", "type": fixed}, {"name": "b", "type": {**fixed, "size": 4}}))


def test_names_resolve_in_their_namespaces() -> None:
    schema = avro.parse_schema({"type": "record", "name": "x.y.r", "fields": [
        {"name": "a", "type": {"type": "fixed", "name": "f", "size": 2}},
        {"name": "b", "type": "f"}, {"name": "c", "type": "x.y.f"},
        {"name": "d", "type": {"type": "record", "name": "s", "namespace": "z", "fields": [
            {"name": "e", "type": {"type": "enum", "name": "f", "symbols": ["A"]}}, {"name": "g", "type": "f"}]}},
    ]})  # fmt: skip
    kinds = avro.decode(avro.read_container(avro.encode(pa.table({}), schema))).schema
    assert kinds.field("b").type == kinds.field("c").type == pa.binary(2)
    assert kinds.field("d").type.field("g").type == pa.dictionary(pa.int32(), pa.string())


def test_threads_decode_and_encode_at_the_same_time() -> None:
    tables = [pa.table({"a": np.arange(i * 1000, i * 1000 + 50_000)}) for i in range(6)]
    results: list[bool] = []

    def work(table: pa.Table) -> None:
        for _ in range(3):
            container = avro.read_container(avro.encode(table, LONG))
            results.append(avro.decode(container)["a"].combine_chunks().equals(table["a"].combine_chunks()))

    threads = [threading.Thread(target=work, args=(table,)) for table in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 18


def test_without_isal_the_standard_library_deflates(monkeypatch: pytest.MonkeyPatch) -> None:
    import zlib

    ours = avro.encode(pa.table({"a": range(5000)}), LONG)
    monkeypatch.setattr(codecs, "_zlib", zlib)
    monkeypatch.setattr(codecs, "_ISAL_LEVEL", None)
    theirs = avro.encode(pa.table({"a": range(5000)}), LONG)
    assert avro.decode(avro.read_container(ours)).equals(avro.decode(avro.read_container(theirs)))
    with pytest.raises(MalformedMetadata):
        avro.decode(avro.read_container(avro.encode(pa.table({"a": [1]}), LONG)[:-20]))
