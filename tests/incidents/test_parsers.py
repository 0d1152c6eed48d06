"""Hostile files inside an otherwise good table: an error with a name, never a crash, a hang or somebody's code."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.errors import FrazilError, Malformed, MalformedMetadata, Unsupported
from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.manifest_list import ManifestFile, serialize_manifest_list
from frazil.iceberg.manifest_reader import SHARED_CACHE
from frazil.iceberg.table import IcebergTable
from frazil.io.avro.container import write_long as z
from tests.incidents.lakes import (
    Place,
    data_files,
    equality_deletes,
    new_table,
    place,
    position_deletes,
    vector,
)

Json = Any
SYNC = b"0123456789abcdef"


class Victim:
    """A table with data and deletes whose metadata files can be exchanged for others."""

    def __init__(self, version: int) -> None:
        self.at: Place = place()
        self.version = version
        self.table = new_table(self.at, "id BIGINT, name STRING, p INT", version=version, partition_by=["p"])
        self.table.append([{"id": 1, "name": "a", "p": 0}, {"id": 2, "name": "b", "p": 1}])
        file = next(one for one in data_files(self.table) if one.partition == (0,))
        if version == 2:
            delta = self.table.new_row_delta().add_deletes(position_deletes(self.table, file, [0]))
            delta.add_deletes(equality_deletes(self.table, "id", 2, spec_id=file.spec_id, partition=(1,))).commit()
        if version == 3:
            self.table.new_row_delta().add_deletes(vector(self.table, file, [0])).commit()
        current = self.table.current_snapshot
        assert current is not None
        self.list_location = str(current.manifest_list)
        self.manifests = Context(self.table.metadata, self.table.store).manifests(current)
        self.list = self.at.store.read(self.list_location)

    def put_list(self, data: bytes) -> None:
        self.at.store.inner.write(self.list_location, data)
        SHARED_CACHE.clear()

    def put_manifest(self, manifest: ManifestFile, data: bytes) -> None:
        """Exchange a manifest; the list tells its new length, so that only the contents are wrong."""
        self.at.store.inner.write(manifest.manifest_path, data)
        known = [replace(one, manifest_length=len(data)) if one == manifest else one for one in self.manifests]
        self.put_list(serialize_manifest_list(known, {}, self.version))

    def attempts(self) -> Iterator[FrazilError | None]:
        """What comes of reading: None where it worked. Any other error than ours ends the test."""
        reads: list[Callable[[], Any]] = [
            lambda: list(self.table.scan("id = 1 AND p = 0").plan().tasks()),
            lambda: self.table.scan().to_arrow(),
        ]
        for read in reads:
            try:
                read()
                yield None
            except FrazilError as error:
                yield error

    def check_refused(self, kind: type[FrazilError] = MalformedMetadata) -> None:
        for outcome in self.attempts():
            assert isinstance(outcome, kind), outcome
            assert outcome.hint

    def check_survived(self) -> None:
        for outcome in self.attempts():
            assert outcome is None or outcome.hint


@pytest.fixture(params=[1, 2, 3])
def victim(request: pytest.FixtureRequest) -> Victim:
    return Victim(request.param)


# Bombs.


def container(schema: Json, payload: bytes, count: int, codec: str = "null") -> bytes:
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    pairs = {b"avro.schema": text, b"avro.codec": codec.encode()}
    head = b"".join(z(len(key)) + key + z(len(value)) + value for key, value in pairs.items())
    return b"Obj\x01" + z(len(pairs)) + head + z(0) + SYNC + z(count) + z(len(payload)) + payload + SYNC


def record(kind: Json, name: str = "r", **members: Any) -> Json:
    return {"type": "record", "name": name, "fields": [{"name": "a", "type": kind, **members}]}


def nested(depth: int) -> bytes:
    return b'{"type":"array","items":' * depth + b'"int"' + b"}" * depth


def zeros(size: int) -> bytes:
    packed = zlib.compressobj(9, wbits=-15)
    return packed.compress(bytes(size)) + packed.flush()


BOMBS = {
    "a record inside itself": container(record(["null", "r"], "r"), b"\x02" * 5000 + b"\x00", 1),
    "a record inside itself without an end": container(record("r", "r"), b"\x00", 1),
    "30 million nulls in 100 bytes": container(record({"type": "array", "items": "null"}), z(30_000_000) + z(0), 1),
    "2^60 rows without bytes": container({"type": "record", "name": "r", "fields": []}, b"", 1 << 60),
    "10 thousand levels": container(nested(10_000), b"\x00", 1),
    "64 megabytes of zeros in 64 kilobytes": container(record("long"), zeros(64 << 20), 64 << 20, "deflate"),
    "a path of 2^40 bytes": container(record("string"), z(1 << 40) + b"a", 1),
    "an unknown codec": container(record("long"), b"\x00", 1, "brotli"),
    "a schema that is no JSON": container(b'{"x', b"", 0),
    "another kind of file": b"PAR1" + bytes(100) + b"PAR1",
    "an empty file": b"",
    "only a magic": b"Obj\x01",
}


@pytest.mark.parametrize("name", BOMBS)
def test_an_avro_bomb_for_a_manifest_list_is_refused(name: str):
    """C4 #35: fastavro dies of a recursive record of 5 KB; 177 bytes of array<null> decode to 30 million items."""
    victim = Victim(2)
    victim.put_list(BOMBS[name])
    victim.check_refused(Unsupported if name == "an unknown codec" else MalformedMetadata)


@pytest.mark.parametrize("name", BOMBS)
def test_an_avro_bomb_for_a_manifest_is_refused(name: str):
    """C4 #35: one bad manifest among good ones."""
    victim = Victim(2)
    victim.put_manifest(victim.manifests[0], BOMBS[name])
    victim.check_refused(Unsupported if name == "an unknown codec" else MalformedMetadata)


def test_a_manifest_of_another_length_than_told_is_refused(victim: Victim):
    """C4 #35: cut short or replaced, and still a valid file."""
    manifest = victim.manifests[0]
    victim.at.store.inner.write(manifest.manifest_path, victim.at.store.read(manifest.manifest_path) + b" ")
    SHARED_CACHE.clear()
    victim.check_refused()


def test_every_cut_of_a_manifest_is_refused(victim: Victim):
    """C4 #35: truncated anywhere. (Cut between blocks it would be a valid file: hence the length in the list.)"""
    for manifest in victim.manifests:
        whole = victim.at.store.read(manifest.manifest_path)
        for cut in range(0, len(whole) - 1, len(whole) // 6):
            victim.put_manifest(manifest, whole[:cut])
            with pytest.raises(MalformedMetadata):
                victim.table.scan().to_arrow()
        victim.put_manifest(manifest, whole)
    for cut in range(0, len(victim.list) - 1, len(victim.list) // 12):
        victim.put_list(victim.list[:cut])
        with pytest.raises(MalformedMetadata):
            victim.table.scan().to_arrow()


def test_flipped_bytes_crash_nothing(victim: Victim):
    """C4 #35: rows or an error of ours, whatever byte is wrong."""
    dice = random.Random(35)
    for _ in range(20):
        manifest = dice.choice(victim.manifests)
        whole = bytearray(victim.at.store.read(manifest.manifest_path))
        for _ in range(dice.choice([1, 1, 4])):
            whole[dice.randrange(len(whole))] = dice.randrange(256)
        original = victim.at.store.read(manifest.manifest_path)
        victim.put_manifest(manifest, bytes(whole))
        victim.check_survived()
        victim.put_manifest(manifest, original)
        damaged = bytearray(victim.list)
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        victim.put_list(bytes(damaged))
        victim.check_survived()


# Right shape, wrong types and values.


def rewritten(data: bytes, name: str, kind: Json, value: Any) -> bytes:
    """The same Avro file, with one field (of the entry or of its data file) of another type, or left out."""
    source = fastavro.reader(io.BytesIO(data))
    schema, rows = json.loads(json.dumps(source.writer_schema)), list(source)
    kept = {key: text for key, text in source.metadata.items() if not key.startswith("avro.")}

    def change(fields: list[Json], members: list[dict[str, Any]]) -> None:
        for index, field in enumerate(fields):
            if field["name"] != name:
                continue
            if kind == "drop":
                del fields[index]
                [row.pop(name) for row in members]
                return
            if kind is not None:
                field["type"] = kind
                field.pop("default", None)
            [row.__setitem__(name, value) for row in members]

    change(schema["fields"], rows)
    inner = next((field["type"] for field in schema["fields"] if field["name"] == "data_file"), None)
    if isinstance(inner, dict) and "fields" in inner:
        change(inner["fields"], [row["data_file"] for row in rows])
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, metadata=kept)
    return out.getvalue()


WRONG_TYPES: dict[str, tuple[Json, Any]] = {
    "text": ("string", "zzz"),
    "bytes": ("bytes", b"\x00\xff"),
    "a number": ("long", -5),
    "a boolean": ("boolean", True),
    "a fraction": ("double", 1.5),
    "a list": ({"type": "array", "items": "int"}, [1]),
    "null": (["null", "string"], None),
    "nothing": ("drop", None),
}


@pytest.mark.parametrize("wrong", WRONG_TYPES)
@pytest.mark.parametrize("version", [2, 3])
def test_fields_of_wrong_types_crash_nothing(version: int, wrong: str):
    """C4 #35: valid Avro with the right field ids, written by somebody who means harm."""
    victim = Victim(version)
    kind, value = WRONG_TYPES[wrong]
    for field in fastavro.reader(io.BytesIO(victim.list)).writer_schema["fields"]:
        victim.put_list(rewritten(victim.list, field["name"], kind, value))
        victim.check_survived()
    manifest = victim.manifests[-1]
    whole = victim.at.store.read(manifest.manifest_path)
    schema = fastavro.reader(io.BytesIO(whole)).writer_schema
    inner = next(field["type"]["fields"] for field in schema["fields"] if field["name"] == "data_file")
    for name in [*(field["name"] for field in schema["fields"]), *(field["name"] for field in inner)]:
        victim.put_manifest(manifest, rewritten(whole, name, kind, value))
        victim.check_survived()


@pytest.mark.parametrize("name", ["manifest_path", "manifest_length", "partition_spec_id"])
@pytest.mark.parametrize("wrong", ["bytes", "a list", "null", "nothing"])
def test_a_list_without_what_it_must_have_is_refused(name: str, wrong: str):
    """C4 #35: the three fields that nothing can be done without."""
    victim = Victim(2)
    victim.put_list(rewritten(victim.list, name, *WRONG_TYPES[wrong]))
    victim.check_refused()


VALUES = {
    "status": [3, -1],
    "content": [3, -1],
    "record_count": [-1, -(2**63)],
    "file_format": ["exe", ""],
    "content_offset": [-1, 2**62],
    "content_size_in_bytes": [-1, 2**62, 0],
    "equality_ids": [[99], []],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in VALUES.items() for value in values])
def test_values_that_cannot_be_meant_are_refused(name: str, value: Any):
    """C4 #35: in range for the type, out of range for the format."""
    kind = {"content_offset": 3, "content_size_in_bytes": 3}.get(name, 2)
    victim = Victim(kind)
    manifest = next(one for one in victim.manifests if one.content == 1)
    victim.put_manifest(manifest, rewritten(victim.at.store.read(manifest.manifest_path), name, None, value))
    with pytest.raises((Malformed, Unsupported)) as error:
        victim.table.scan().to_arrow()
    assert error.value.hint


@pytest.mark.parametrize(("name", "value"), [("content", 2), ("partition_spec_id", 7), ("partition_spec_id", -1)])
def test_a_manifest_of_unknown_content_or_spec_is_refused(name: str, value: int):
    """C4 #35: left out, its files would silently be missing."""
    victim = Victim(2)
    victim.put_list(rewritten(victim.list, name, None, value))
    victim.check_refused()


def test_deletes_in_a_data_manifest_are_not_read_as_rows():
    """C4 #35: an entry must be of the kind that its manifest is for."""
    victim = Victim(2)
    data = next(one for one in victim.manifests if one.content == 0)
    deletes = next(one for one in victim.manifests if one.content == 1)
    for swapped in ([data, replace(deletes, content=0)], [replace(data, content=1), deletes]):
        victim.put_list(serialize_manifest_list(swapped, {}, 2))
        victim.check_refused()


def test_an_inline_manifest_of_a_spec_that_is_no_number_is_refused():
    """C4 #35: snapshots of old v1 tables name manifests themselves, and the spec is text in the manifest's header."""
    victim = Victim(1)
    (manifest,) = victim.manifests
    whole = victim.at.store.read(manifest.manifest_path)
    metadata = victim.table.metadata
    inline = replace(metadata.snapshots[0], manifest_list=None, manifests=(manifest.manifest_path,))
    for text in ("x", "-1", "7", "9" * 30, "ÿ", ""):
        source = fastavro.reader(io.BytesIO(whole))
        kept = {key: value for key, value in source.metadata.items() if not key.startswith("avro.")}
        out = io.BytesIO()
        fastavro.writer(out, source.writer_schema, list(source), metadata={**kept, "partition-spec-id": text})
        victim.at.store.inner.write(manifest.manifest_path, out.getvalue())
        with pytest.raises(MalformedMetadata, match="partition spec"):
            Context(metadata, victim.at.store).manifests(inline)


def test_a_vector_that_claims_more_rows_than_its_file_has_is_not_counted():
    """C4 #35: a count from metadata alone would be negative."""
    victim = Victim(3)
    manifest = next(one for one in victim.manifests if one.content == 1)
    victim.put_manifest(manifest, rewritten(victim.at.store.read(manifest.manifest_path), "record_count", None, 10**9))
    with pytest.raises(Malformed):
        victim.table.scan().count()


# Code in data files.

EXECUTED: list[str] = []


class Payload:
    """What a pickle does when somebody loads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (EXECUTED.append, ("pickle",))


class Announcing(pa.ExtensionType):
    """An extension type that tells when it is made from a file's schema."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.announcing")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"x"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> pa.ExtensionType:
        return cls()


def extension_file(name: str, payload: bytes) -> bytes:
    """A Parquet file whose ARROW:schema names an extension type."""
    field = pa.field(
        "id",
        pa.int64(),
        metadata={"PARQUET:field_id": "1", "ARROW:extension:name": name, "ARROW:extension:metadata": payload},
    )
    out = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([1, 2])}, schema=pa.schema([field])), out, store_schema=True)
    assert b"ARROW:schema" in out.getvalue()
    return out.getvalue()


def with_file(data: bytes) -> IcebergTable:
    table = new_table(schema="id BIGINT")
    path = f"{table.location}/data/x.parquet"
    table.store.write(path, data)
    table.new_append().append_file(DataFile(path, "parquet", 2, len(data))).commit()
    return table


@pytest.mark.parametrize("name", ["arrow.py_extension_type", "arrow.unknown", "tests.announcing", "arrow.opaque"])
def test_an_extension_type_in_a_parquet_file_runs_no_code(name: str):
    """C4 #30 (CVE-2023-47248, CVE-2025-30065): the schema in the file says what to load; nobody loads it."""
    EXECUTED.clear()
    payload = pickle.dumps(Payload())
    with suppress(Malformed):  # where Arrow itself looks into the payload, as of "opaque", it finds no sense in it
        found = with_file(extension_file(name, payload)).scan().to_arrow()
        assert found["id"].to_pylist() == [1, 2]
    assert EXECUTED == []


def test_a_registered_extension_type_is_read_as_its_storage():
    """C4 #30: even where the process knows the type, the table's schema says what the column is."""
    pa.register_extension_type(Announcing())
    try:
        found = with_file(extension_file("tests.announcing", b"x")).scan().to_arrow()
    finally:
        pa.unregister_extension_type("tests.announcing")
    assert found["id"].type == pa.int64()
    assert found["id"].to_pylist() == [1, 2]


def test_no_module_loads_pickles_or_registers_extension_types():
    """C4 #30: nothing in the package evaluates what it reads."""
    forbidden = re.compile(
        r"\bpickle\.loads?\b|^\s*(?:import|from) (?:pickle|marshal|shelve|dill|cloudpickle)\b|\bPyExtensionType\b"
        r"|\bregister_extension_type\b|(?<![\w.])eval\(|(?<![\w.])exec\(|\b__import__\(|allow_pickle=True",
        re.MULTILINE,
    )
    root = Path(os.fspath(frazil.__file__)).parent
    parts = ("model", "io", "iceberg", "catalog")
    files = [path for part in parts for path in (root / part).rglob("*.py")] + list(root.glob("*.py"))
    assert len(files) > 50
    assert [str(path) for path in files if forbidden.search(path.read_text())] == []


def test_rows_are_still_read_after_all_that(victim: Victim):
    """The table itself is good: only what was put in its place was not."""
    victim.put_list(BOMBS["an empty file"])
    victim.check_refused()
    victim.put_list(victim.list)
    assert victim.table.scan().count() == {1: 2, 2: 0, 3: 1}[victim.version]
