import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from frazil.errors import ChecksumMismatch, InvalidValue, MalformedData
from frazil.io.deletion_vector import DeletionVector, add_deletion_vector
from frazil.io.memory_store import MemoryStore
from frazil.io.puffin import PuffinWriter, read_blob, read_metadata
from frazil.io.roaring import MAX_POSITION
from tests.golden_tables import expected, golden_store

BLOBS = expected("dv_blobs")["blobs"]


@pytest.mark.parametrize("case", BLOBS, ids=lambda case: Path(case["file"]).stem)
def test_java_blobs_are_read_and_written_byte_for_byte(case: dict) -> None:
    blob = golden_store().read("/golden_iceberg/db/" + case["file"])
    vector = DeletionVector.from_blob(blob, cardinality=case["cardinality"])
    ranges = [np.arange(first, last + 1, step) for first, last, step in case["positions"]]
    assert np.array_equal(vector.positions, np.concatenate([np.empty(0, np.int64), *ranges]))
    assert vector.cardinality == case["cardinality"]
    if case["file"] != "dv_blobs/sparse_keys.bin":
        # There Java writes an empty bitmap for each of the thousand keys between two; ours is a hundred times smaller.
        assert vector.to_blob() == blob
    assert DeletionVector.from_blob(vector.to_blob()) == vector


@given(st.lists(st.integers(0, 300_000)), st.lists(st.integers(0, MAX_POSITION)))
def test_a_blob_round_trips_and_union_is_of_sets(left: list[int], right: list[int]) -> None:
    one, two = DeletionVector.from_positions(left), DeletionVector.from_positions(right)
    assert one.positions.tolist() == sorted(set(left))
    assert one.union(two).positions.tolist() == sorted({*left, *right})
    assert one.union() == one
    assert DeletionVector.from_blob(one.to_blob(), cardinality=len(set(left))) == one
    assert hash(one) == hash(DeletionVector.from_positions(left[::-1]))


@given(st.sets(st.integers(0, 200)), st.integers(0, 210), st.integers(0, 50))
def test_a_mask_keeps_what_is_not_deleted(deleted: set[int], start: int, count: int) -> None:
    mask = DeletionVector.from_positions(list(deleted)).mask(start, count)
    assert mask.tolist() == [row not in deleted for row in range(start, start + count)]


def test_every_part_of_the_frame_is_checked() -> None:
    blob = DeletionVector.from_positions([1, 5]).to_blob()
    with pytest.raises(ChecksumMismatch):
        DeletionVector.from_blob(blob[:-1] + bytes([blob[-1] ^ 1]))
    with pytest.raises(ChecksumMismatch):
        DeletionVector.from_blob(blob[:20] + bytes([blob[20] ^ 1]) + blob[21:])
    with pytest.raises(MalformedData, match="starts with"):
        DeletionVector.from_blob(blob[:4] + b"XXXX" + blob[8:])
    with pytest.raises(MalformedData, match="expected"):
        DeletionVector.from_blob(blob, cardinality=3)
    for cut in range(len(blob)):
        with pytest.raises(MalformedData):
            DeletionVector.from_blob(blob[:cut])
    with pytest.raises(MalformedData):
        DeletionVector.from_blob(blob + b"\0")
    body = blob[4:8] + b"\xff" * 8
    with pytest.raises(MalformedData, match="roaring"):
        DeletionVector.from_blob(len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big"))


@pytest.mark.parametrize("positions", [[-1], [1.5], [2**63], ["1"], [[1]], [MAX_POSITION + 1]])
def test_what_is_no_position_is_refused(positions: list) -> None:
    with pytest.raises(InvalidValue):
        DeletionVector.from_positions(positions)


def test_positions_are_read_only() -> None:
    vector = DeletionVector.from_positions(np.array([1, 2], np.uint64))
    with pytest.raises(ValueError, match="read-only"):
        vector.positions[0] = 9


def test_vectors_in_a_puffin_file_are_read_by_pyiceberg_and_by_us() -> None:
    store, writer = MemoryStore("dv"), PuffinWriter()
    vectors = {f"/w/t/data/{n}.parquet": DeletionVector.from_positions([n, n + 70_000, 2**33]) for n in range(3)}
    for file, vector in vectors.items():
        add_deletion_vector(writer, vector, file)
    data = writer.finish().data
    store.write("memory://dv/x", data)
    blobs = read_metadata(store, "memory://dv/x").blobs
    ours = {
        blob.properties["referenced-data-file"]: DeletionVector.from_blob(
            read_blob(store, "memory://dv/x", blob), cardinality=int(blob.properties["cardinality"])
        )
        for blob in blobs
    }
    assert ours == vectors
    theirs = {
        vector.referenced_data_file: sorted(
            (key << 32) + low for key, bits in enumerate(vector._bitmaps) for low in bits
        )
        for vector in deletion_vectors_from_puffin_file(PuffinFile(data))
    }
    assert theirs == {file: vector.positions.tolist() for file, vector in vectors.items()}
    MemoryStore.forget("dv")


def test_vectors_have_the_blob_metadata_that_java_writes() -> None:
    store = golden_store()
    written = next(
        file.location for file in store.list("/golden_iceberg/db/dv_history/t/data") if "puffin" in file.location
    )
    java = read_metadata(store, written).blobs[0]
    ours = add_deletion_vector(PuffinWriter(), DeletionVector.from_positions([1]), "/x")
    same = ("type", "fields", "snapshot_id", "sequence_number", "compression_codec", "offset", "length")
    assert [getattr(java, name) for name in same] == [getattr(ours, name) for name in same]
    assert java.properties.keys() == ours.properties.keys()
