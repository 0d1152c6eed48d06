"""Manifest files: what we write pylance reads, and damaged ones are refused."""

from __future__ import annotations

import struct
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import FrazilError, MalformedMetadata
from frazil.lance.apply import WRITER
from frazil.lance.manifest_file import parse_manifest_file, render_manifest_file
from frazil.lance.proto.messages import IndexMetadata, IndexSection, Manifest, Transaction


def sample() -> bytes:
    indices = IndexSection(indices=[IndexMetadata(name="i")])
    return render_manifest_file(Manifest(version=7), indices, Transaction(read_version=6, uuid="u"))


def test_sections_come_back() -> None:
    found = parse_manifest_file(sample(), "here")
    assert found.manifest.version == 7
    assert found.indices.indices[0].name == "i"
    assert found.transaction == Transaction(read_version=6, uuid="u")


def test_both_numbers_of_the_transaction_section_are_read() -> None:
    body = Transaction(uuid="old").SerializeToString()
    manifest = Manifest(version=1)
    manifest.transaction_section_before_14 = 0
    framed = struct.pack("<I", len(body)) + body
    where = len(framed)
    message = manifest.SerializeToString()
    data = framed + struct.pack("<I", len(message)) + message + struct.pack("<QHH4s", where, 0, 1, b"LANC")
    found = parse_manifest_file(data, "here")
    assert found.transaction is not None
    assert found.transaction.uuid == "old"


def test_pylance_reads_a_manifest_that_we_framed(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"a": [1, 2, 3]}), tmp_path / "t")
    dataset.create_scalar_index("a", "BTREE")
    (file,) = [f for f in (tmp_path / "t/_versions").glob("*.manifest") if f.name.endswith("13.manifest")]
    found = parse_manifest_file(file.read_bytes(), str(file))
    assert found.transaction is not None
    file.write_bytes(render_manifest_file(found.manifest, found.indices, found.transaction))
    again = lance.dataset(tmp_path / "t")
    assert again.to_table() == dataset.to_table()
    assert [index.name for index in again.describe_indices()] == ["a_idx"]
    assert again.read_transaction(2).uuid == found.transaction.uuid


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "do not end"),
        (b"LANC", "do not end"),
        (sample()[:-1], "do not end"),
        (sample()[:-4] + b"LANX", "do not end"),
        (struct.pack("<QHH4s", 0, 0, 2, b"LANC"), "beyond its end"),
        (struct.pack("<QHH4s", 2**63, 0, 2, b"LANC"), "beyond its end"),
        (struct.pack("<I", 99) + struct.pack("<QHH4s", 0, 0, 2, b"LANC"), "ends beyond"),
        (struct.pack("<I", 3) + b"\xff\xff\xff" + struct.pack("<QHH4s", 0, 0, 2, b"LANC"), "decoded"),
    ],
)
def test_damage_is_told(data: bytes, told: str) -> None:
    with pytest.raises(MalformedMetadata, match=told):
        parse_manifest_file(data, "here")


@given(st.integers(0, len(sample()) - 1), st.integers(0, 255))
def test_a_changed_byte_is_no_other_error(position: int, value: int) -> None:
    data = bytearray(sample())
    data[position] = value
    try:
        parse_manifest_file(bytes(data), "here")
    except FrazilError as error:
        assert error.hint  # noqa: PT017


def test_manifests_say_who_made_them() -> None:
    assert WRITER.version == frazil.__version__
