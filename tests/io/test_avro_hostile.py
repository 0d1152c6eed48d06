"""Whatever a file says, reading it ends soon: with rows, or with a FrazilError."""

from __future__ import annotations

import json
import random
import tracemalloc
import zlib
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import FrazilError, MalformedMetadata, Unsupported
from frazil.io import avro
from frazil.io.avro.container import write_long as z

SYNC = b"0123456789abcdef"
Json = Any


def head(schema: Json, codec: str = "null") -> bytes:
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    pairs = {b"avro.schema": text, b"avro.codec": codec.encode()}
    body = b"".join(z(len(k)) + k + z(len(v)) + v for k, v in pairs.items())
    return b"Obj\x01" + z(len(pairs)) + body + z(0) + SYNC


def file(schema: Json, payload: bytes, count: int = 1, codec: str = "null") -> bytes:
    return head(schema, codec) + z(count) + z(len(payload)) + payload + SYNC


def row(kind: Json) -> Json:
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}


def array(items: Json) -> Json:
    return row({"type": "array", "items": items})


UUID_TEXT = row({"type": "string", "logicalType": "uuid"})
DECIMAL = row({"type": "fixed", "name": "d", "size": 20, "logicalType": "decimal", "precision": 4, "scale": 2})

VALUES: dict[str, tuple[Json, bytes]] = {
    "an array of 2^40 items": (array("int"), z(1 << 40) + b"\x02"),
    "an array of 2^60 items": (array("int"), z(1 << 60) + b"\x02"),
    "an array of -2^62 items": (array("int"), z(-(1 << 62)) + z(4) + b"\x02"),
    "an array of -2^63 items": (array("int"), z(-(1 << 63)) + z(4) + b"\x02"),
    "an array whose block is longer than the file": (array("int"), z(-1) + z(1 << 40) + b"\x02\x00"),
    "an array whose block has a negative size": (array("int"), z(-1) + z(-3) + b"\x02\x00"),
    "an array whose block ends elsewhere than told": (array("int"), z(-1) + z(2) + b"\x02\x00\x00"),
    "an array without an end": (array("int"), z(1) + z(7)),
    "a string of 2^40 bytes": (row("string"), z(1 << 40) + b"a"),
    "a string of -5 bytes": (row("string"), z(-5) + b"a"),
    "bytes of 2^62": (row("bytes"), z(1 << 62)),
    "a string that is not UTF-8": (row("string"), z(2) + b"\xff\xfe"),
    "half a character": (row("string"), z(1) + "é".encode()[:1]),
    "branch 7 of 2": (row(["null", "int"]), z(7)),
    "branch -1": (row(["null", "int"]), z(-1)),
    "a varint of 12 bytes": (row("long"), b"\xff" * 12),
    "a varint beyond 64 bits": (row("long"), b"\xff" * 9 + b"\x02"),
    "an int beyond 32 bits": (row("int"), z(1 << 31)),
    "an int below 32 bits": (row("int"), z(-(1 << 31) - 1)),
    "a double of 3 bytes": (row("double"), b"abc"),
    "a boolean of 2": (row("boolean"), b"\x02"),
    "a map of 2^50 entries": (row({"type": "map", "values": "int"}), z(1 << 50) + z(1) + b"a" + z(3)),
    "bytes behind the last row": (row("int"), z(1) + b"trailing"),
    "a fixed of 2^30 bytes": (row({"type": "fixed", "name": "f", "size": 1 << 30}), b"abc"),
    "symbol 3 of 2": (row({"type": "enum", "name": "e", "symbols": ["A", "B"]}), z(3)),
    "symbol -1": (row({"type": "enum", "name": "e", "symbols": ["A", "B"]}), z(-1)),
    "a UUID of 35 characters": (UUID_TEXT, z(35) + b"0" * 35),
    "a UUID without dashes": (UUID_TEXT, z(36) + b"0" * 36),
    "a UUID of other letters": (UUID_TEXT, z(36) + b"g0000000-0000-0000-0000-000000000000"),
    "a decimal of more digits than it has": (DECIMAL, (10_000).to_bytes(20, "big")),
    "a decimal beyond 128 bits": (DECIMAL, b"\x01" + bytes(19)),
    "a time after midnight": (row({"type": "long", "logicalType": "time-micros"}), z(86_400_000_000)),
    "no bytes at all": (row("int"), b""),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_damaged_value_is_refused(name: str) -> None:
    schema, payload = VALUES[name]
    with pytest.raises(MalformedMetadata) as error:
        avro.decode(avro.read_container(file(schema, payload)))
    assert error.value.hint


# What only matters to a value that somebody wants to have.
UNSEEN = (
    "a UUID",
    "a decimal",
    "a time",
    "symbol",
    "an int ",
    "a boolean",
    "half",
    "a string that",
    "an array whose block e",
)


@pytest.mark.parametrize("name", [name for name in VALUES if not name.startswith(UNSEEN)])
def test_damage_is_also_found_in_columns_that_are_stepped_over(name: str) -> None:
    schema, payload = VALUES[name]
    with pytest.raises(MalformedMetadata):
        avro.decode(avro.read_container(file(schema, payload)), ())


def nested(depth: int) -> Json:
    schema: Json = "int"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return row(schema)


def laughs(levels: int) -> Json:
    """Records of ten of the one before: small text, 10^levels nodes."""
    kind: Json = "int"
    for level in range(levels):
        first = {"name": "f0", "type": kind}
        last = kind if isinstance(kind, str) else kind["name"]
        fields = [first, *({"name": f"f{i}", "type": last} for i in range(1, 10))]
        kind = {"type": "record", "name": f"n{level}", "fields": fields}
    return kind


SELF = {"type": "record", "name": "s", "fields": [{"name": "s", "type": ["null", "s"]}]}
EMPTY = {"type": "record", "name": "e", "fields": [{"name": "n", "type": "null"}]}

SCHEMAS: dict[str, Json] = {
    "a record that contains itself": SELF,
    "a record that contains itself through a list": row({"type": "array", "items": "r"}),
    "arrays of null": array("null"),
    "arrays of records of nothing": array(EMPTY),
    "arrays in arrays, 70 deep": nested(70),
    "arrays in arrays, 5000 deep": b'{"type":"array","items":' * 5000,
    "brackets without end": b"[" * 500_000,
    "more than a megabyte": b'"' + b"x" * (1 << 20) + b'"',
    "ten to the eighth nodes": laughs(8),
    "an unknown type": row("decimal"),
    "a number for a type": row(5),
    "no type": {"type": "record", "name": "r", "fields": [{"name": "a"}]},
    "a field twice": {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}] * 2},
    "a name twice": {"type": "record", "name": "r", "fields": [{"name": "a", "type": row("int")}]},
    "a fixed of 0 bytes": row({"type": "fixed", "name": "f", "size": 0}),
    "a fixed of -1 bytes": row({"type": "fixed", "name": "f", "size": -1}),
    "a fixed of true bytes": row({"type": "fixed", "name": "f", "size": True}),
    "an enum of nothing": row({"type": "enum", "name": "e", "symbols": []}),
    "an empty union": row([]),
    "a union in a union": row([["null", "int"], "string"]),
    "null twice": row(["null", "null"]),
    "not a record": "int",
    "half a surrogate pair": b'{"type":"record","name":"r","fields":[{"name":"\\ud800","type":"int"}]}',
    "not JSON": b"{",
    "not UTF-8": b'"\xff"',
    "fields that are not a list": {"type": "record", "name": "r", "fields": {"a": 1}},
    "a name that is a list": {"type": "record", "name": ["r"], "fields": []},
    "null": None,
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_that_could_do_harm_is_refused(name: str) -> None:
    with pytest.raises(MalformedMetadata):
        avro.read_header(head(SCHEMAS[name]))


def test_rows_of_no_bytes_are_bounded_in_number() -> None:
    with pytest.raises(MalformedMetadata):
        avro.decode(avro.read_container(file(EMPTY, b"", 1 << 40)))
    with pytest.raises(MalformedMetadata):
        avro.decode(avro.read_container(file(row("int"), b"\x00" * 10, 1 << 40)))


def deflated(size: int) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join([*(stream.compress(bytes(1 << 20)) for _ in range(size >> 20)), stream.flush()])


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy"])
def test_a_decompression_bomb_is_stopped_at_the_limit(codec: str) -> None:
    size = 64 << 20
    payload = {
        "deflate": lambda: deflated(size),
        "zstandard": lambda: pa.Codec("zstd").compress(bytes(size), asbytes=True),
        "snappy": lambda: pa.Codec("snappy").compress(bytes(size), asbytes=True) + b"0000",
    }[codec]()
    data = file(array("int"), payload, 1, codec)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMetadata):
            avro.decode(avro.read_container(data, avro.Limits(block_bytes=20 << 20)))
        if codec != "snappy":  # which cannot shrink by more than a factor of 21
            with pytest.raises(MalformedMetadata):
                avro.decode(avro.read_container(data, avro.Limits(ratio=250)))
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_a_small_file_cannot_fill_memory_with_nulls() -> None:
    # One byte says that a struct of 2,000 columns is null, and each column then has a null: 16,000 times the bytes.
    wide = {"type": "record", "name": "w", "fields": [{"name": f"c{i}", "type": "long"} for i in range(2000)]}
    data = file(row(["null", wide]), bytes(100_000), 100_000)
    with pytest.raises(MalformedMetadata, match="memory"):
        avro.decode(avro.read_container(data, avro.Limits(memory_bytes=64 << 20)))
    few = file(row(["null", wide]), bytes(2_000), 2_000)
    with pytest.raises(MalformedMetadata, match="columns take"):
        avro.decode(avro.read_container(few, avro.Limits(total_bytes=16 << 20)))
    assert avro.decode(avro.read_container(few)).num_rows == 2_000


def test_an_unknown_codec_is_unsupported() -> None:
    with pytest.raises(Unsupported):
        avro.read_container(file(row("int"), z(1), codec="lzo"))


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy"])
def test_blocks_that_are_not_compressed_as_told_are_refused(codec: str) -> None:
    for payload in (b"", b"\x00", b"garbage that is no stream at all", b"\xff" * 40):
        with pytest.raises(MalformedMetadata):
            avro.decode(avro.read_container(file(row("int"), payload, codec=codec)))


def sample(codec: str) -> bytes:
    inner = {"type": "record", "name": "i", "fields": [
        {"name": "k", "type": "int"}, {"name": "v", "type": ["null", "bytes"]}]}  # fmt: skip
    schema = {"type": "record", "name": "r", "fields": [
        {"name": "s", "type": ["null", "string"], "field-id": 1},
        {"name": "m", "type": {"type": "map", "values": "long"}},
        {"name": "l", "type": ["null", {"type": "array", "items": ["null", inner]}]},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
    ]}  # fmt: skip
    rows = [
        {"s": "é", "m": [("a", 1), ("b", -(1 << 40))], "l": [{"k": 1, "v": b"x"}, None], "d": 1, "e": "B"},
        {"s": None, "m": [], "l": None, "d": -12345, "e": "A"},
    ]
    kinds = avro.decode(avro.read_container(avro.encode(pa.table({}), schema))).schema
    return avro.encode(pa.Table.from_pylist(rows, kinds), schema, codec=codec)


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "snappy"])
def test_every_beginning_of_a_file_is_refused(codec: str) -> None:
    data = sample(codec)
    header = avro.read_header(data).size
    for end in range(len(data)):
        if end == header:
            assert avro.decode(avro.read_container(data[:end])).num_rows == 0
            continue
        with pytest.raises(FrazilError):
            avro.decode(avro.read_container(data[:end]))


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "snappy"])
def test_any_byte_may_change_and_nothing_but_a_frazil_error_is_raised(codec: str) -> None:
    data, dice, refused = sample(codec), random.Random(5), 0
    header = avro.read_header(data).size
    for i in range(1500):
        changed = bytearray(data)
        for _ in range(dice.choice([1, 1, 2, 5])):
            # Half of the changes in the blocks, which are the smaller part.
            at = dice.randrange(header, len(data)) if i % 2 else dice.randrange(len(data))
            changed[at] = dice.choice([0, 1, 2, 127, 128, 255, dice.randrange(256)])
        try:
            table = avro.decode(avro.read_container(bytes(changed), avro.Limits(memory_bytes=64 << 20)))
            table.validate(full=True)
        except FrazilError:
            refused += 1
    assert refused > 300


@pytest.mark.parametrize("seed", range(4))
def test_random_payloads_never_do_worse_than_a_frazil_error(seed: int) -> None:
    header = sample("null")
    header = header[: avro.read_header(header).size]
    dice, stopped = random.Random(seed), 0
    for _ in range(500):
        payload = bytes(dice.choice([0, 1, 2, 3, 4, 128, 255, dice.randrange(256)]) for _ in range(dice.randrange(60)))
        data = header + z(dice.randrange(4)) + z(len(payload)) + payload + header[-16:]
        for columns in (None, (), {1}):
            try:
                avro.decode(avro.read_container(data), columns).validate(full=True)
            except FrazilError as error:
                stopped += "sandbox" in error.message
    assert stopped == 0
