"""Whatever a manifest or a file beside it says, reading ends in rows or in an error of ours."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import FrazilError, MalformedMetadata
from frazil.io.roaring import deserialize32, serialize32
from frazil.io.store import Stores
from frazil.lance.row_ids import decode_row_ids, decode_row_versions, encode_row_ids, encode_row_versions
from frazil.lance.table import LanceTable
from tests.lance.test_table import made, numbers


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "t"
    table = made(folder, numbers(20), stable_row_ids=True)
    table.delete("a < 3")
    table.update({"b": "'x'"}, "a = 7")
    table.create_tag("t")
    return folder


@settings(max_examples=150)
@given(
    kind=st.sampled_from(["manifest", "arrow", "json"]),
    position=st.integers(0, 5000),
    change=st.integers(1, 255),
    cut=st.booleans(),
)
def test_a_byte_of_any_file(sample: Path, kind: str, position: int, change: int, cut: bool) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "t"
        shutil.copytree(sample, folder)
        pattern = {"manifest": "_versions/*.manifest", "arrow": "_deletions/*", "json": "_refs/tags/*"}[kind]
        for file in folder.glob(pattern):
            data = bytearray(file.read_bytes())
            data[position % len(data)] ^= change
            file.write_bytes(data[: position % len(data)] if cut else data)
        try:
            table = LanceTable.open(Stores(), str(folder))
            table.scan(columns=["a", "_rowid", "_row_created_at_version"]).to_arrow()
            table.scan("a > 5", ref="t").count()
            table.take([0])
        except FrazilError as error:
            assert error.hint  # noqa: PT017


@given(st.lists(st.integers(0, 2**40), unique=True, max_size=200))
def test_row_ids_come_back(ids: list[int]) -> None:
    array = np.array(ids, np.uint64)
    assert decode_row_ids(encode_row_ids(array), len(ids)).tolist() == ids
    with pytest.raises(MalformedMetadata):
        decode_row_ids(encode_row_ids(array), len(ids) + 1)


@given(st.lists(st.integers(1, 5), max_size=200))
def test_row_versions_come_back(versions: list[int]) -> None:
    array = np.array(versions, np.uint64)
    assert decode_row_versions(encode_row_versions(array), len(versions)).tolist() == versions


@given(st.binary(max_size=60), st.integers(0, 100))
def test_row_ids_of_any_bytes(data: bytes, rows: int) -> None:
    for decode in (decode_row_ids, decode_row_versions):
        with suppress(MalformedMetadata):
            assert len(decode(data, rows)) == rows


@given(st.sets(st.integers(0, 2**32 - 1), max_size=300))
def test_bitmaps_are_those_of_the_c_library(positions: set[int]) -> None:
    import pyroaring

    ours = serialize32(np.array(sorted(positions), np.int64))
    assert set(pyroaring.BitMap.deserialize(ours)) == positions
    assert deserialize32(pyroaring.BitMap(positions).serialize()).tolist() == sorted(positions)
