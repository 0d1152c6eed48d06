import json
from dataclasses import replace

import lz4.frame
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.puffin import PuffinFile as PyIcebergPuffin

from frazil.errors import FrazilError, MalformedData, MalformedMetadata, Unsupported
from frazil.io import puffin
from frazil.io.deletion_vector import BLOB_TYPE, DeletionVector
from frazil.io.memory_store import MemoryStore
from frazil.io.puffin import PuffinFile, PuffinWriter, read_blob, read_metadata
from tests.faults import FaultyStore
from tests.golden_tables import expected, golden_store

AT = "memory://puffin-test/file"
STORE = MemoryStore("puffin-test")
CODECS = (None, "lz4", "zstd")


def made(*, compress_footer: bool = False) -> PuffinFile:
    writer = PuffinWriter()
    for number, codec in enumerate(CODECS):
        writer.add(
            f"kind-{number}",
            b"content %d " % number * 50,
            fields=[number, 7],
            snapshot_id=2**63 - 1,
            sequence_number=number,
            codec=codec,
            properties={"ndv": str(number)} if number else None,
        )
    return writer.finish({"created-by": "tést"}, compress_footer=compress_footer)


def footer_of(payload: object, *, flags: int = 0, blobs: bytes = b"") -> bytes:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return b"PFA1" + blobs + b"PFA1" + body + len(body).to_bytes(4, "little") + flags.to_bytes(4, "little") + b"PFA1"


@pytest.mark.parametrize("compress_footer", [False, True])
def test_blobs_of_every_codec_come_back(compress_footer: bool) -> None:
    file = made(compress_footer=compress_footer)
    STORE.write(AT, file.data)
    metadata = read_metadata(STORE, AT)
    assert metadata == file.metadata
    assert metadata.properties == {"created-by": "tést"}
    assert [read_blob(STORE, AT, blob) for blob in metadata.blobs] == [b"content %d " % n * 50 for n in range(3)]
    assert [blob.compression_codec for blob in metadata.blobs] == list(CODECS)
    assert metadata.blobs[0].snapshot_id == 2**63 - 1
    assert len(file.data) == metadata.blobs[-1].offset + metadata.blobs[-1].length + file.footer_size


def test_pyiceberg_reads_what_we_write() -> None:
    file = made()
    theirs = PyIcebergPuffin(file.data)
    assert [blob.model_dump(by_alias=True, exclude_none=True) for blob in theirs.footer.blobs] == [
        {"properties": {}} | blob.to_json() for blob in file.metadata.blobs
    ]
    assert theirs.get_blob_payload(theirs.footer.blobs[2]) == b"content 2 " * 50


@given(st.binary(max_size=300), st.integers(0, 3000))
def test_frames_state_their_content_size_and_are_read_by_the_reference_libraries(piece: bytes, times: int) -> None:
    data = piece * times
    for codec in ("lz4", "zstd"):
        writer = PuffinWriter()
        blob = writer.add("x", data, fields=[], snapshot_id=1, sequence_number=1, codec=codec)
        frame = writer.finish().data[blob.offset : blob.offset + blob.length]
        if codec == "lz4":
            # The lz4 package writes "not known" and "empty" alike.
            assert frame[4] & 0x08
            assert lz4.frame.get_frame_info(frame)["content_size"] == len(data)
            assert lz4.frame.decompress(frame) == data
        else:
            assert zstandard.get_frame_parameters(frame).content_size == len(data)
            assert zstandard.ZstdDecompressor().decompress(frame) == data


def test_frames_of_other_writers_are_read_with_and_without_content_size() -> None:
    data = b"some content " * 1000
    frames = {
        "lz4": [lz4.frame.compress(data, store_size=stated) for stated in (True, False)],
        "zstd": [zstandard.ZstdCompressor(write_content_size=stated).compress(data) for stated in (True, False)],
    }
    for codec, made_by_others in frames.items():
        for frame in made_by_others:
            blob = puffin.BlobMetadata("x", (), 1, 1, 4, len(frame), codec)
            STORE.write(AT, b"PFA1" + frame)
            assert read_blob(STORE, AT, blob) == data


@pytest.mark.parametrize("case", ["statistics", "statistics_v3"])
def test_java_statistics_files_are_read(case: str) -> None:
    store = golden_store()
    metadata_file = json.loads(store.read(expected(case)["metadata_file"]))
    assert metadata_file["statistics"]
    for entry in metadata_file["statistics"]:
        location = entry["statistics-path"]
        found = read_metadata(store, location, size=entry["file-size-in-bytes"])
        theirs = PyIcebergPuffin(store.read(location))
        keys = ("type", "snapshot-id", "sequence-number", "fields", "properties")
        assert [{key: blob.to_json()[key] for key in keys} for blob in found.blobs] == entry["blob-metadata"]
        assert "Iceberg" in found.properties["created-by"]
        for ours, other in zip(found.blobs, theirs.footer.blobs, strict=True):
            assert read_blob(store, location, ours) == theirs.get_blob_payload(other)
        blob_end = max(blob.offset + blob.length for blob in found.blobs)
        assert entry["file-size-in-bytes"] - blob_end == entry["file-footer-size-in-bytes"]


def test_java_files_are_rewritten_byte_for_byte() -> None:
    store = golden_store()
    files = [f.location for f in store.list("/golden_iceberg/db/dv_history/t/data") if f.location.endswith(".puffin")]
    assert len(files) > 3
    for location in files:
        metadata, writer = read_metadata(store, location), PuffinWriter()
        for blob in metadata.blobs:
            data = read_blob(store, location, blob)
            assert blob.type == BLOB_TYPE
            assert DeletionVector.from_blob(data, cardinality=int(blob.properties["cardinality"])).to_blob() == data
            written = writer.add(
                blob.type,
                data,
                fields=blob.fields,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                properties=blob.properties,
            )
            assert written == blob
        assert writer.finish(metadata.properties).data == store.read(location)


def test_unknown_fields_and_types_are_kept() -> None:
    blob = {"type": "from-the-future", "fields": [], "snapshot-id": 1, "sequence-number": 1, "offset": 4, "length": 2}
    payload = {"blobs": [blob | {"new": [1]}], "newer": {"a": None}}
    STORE.write(AT, footer_of(payload, blobs=b"hi"))
    metadata = read_metadata(STORE, AT)
    assert read_blob(STORE, AT, metadata.blobs[0]) == b"hi"
    assert metadata.to_json() == payload


def test_a_footer_takes_one_read_and_a_large_one_a_few() -> None:
    STORE.write(AT, made().data)
    store = FaultyStore(STORE)
    read_metadata(store, AT, size=STORE.size(AT))
    assert [verb for verb, _ in store.calls] == ["read_range"]
    STORE.write(AT, footer_of({"blobs": [], "properties": {"x": "y" * 100_000}}, blobs=bytes(100_000)))
    store = FaultyStore(STORE)
    assert len(read_metadata(store, AT).properties["x"]) == 100_000
    assert [verb for verb, _ in store.calls] == ["size", "read_range", "read_range", "read_range"]


GOOD = {"type": "t", "fields": [1], "snapshot-id": 1, "sequence-number": 1, "offset": 4, "length": 0}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        [],
        {},
        {"blobs": None},
        {"blobs": [1]},
        {"blobs": [{}]},
        *({"blobs": [{name: value for name, value in GOOD.items() if name != missing}]} for missing in GOOD),
        {"blobs": [GOOD | {"offset": 3}]},
        {"blobs": [GOOD | {"offset": 5}]},
        {"blobs": [GOOD | {"length": 1}]},
        {"blobs": [GOOD | {"length": -1}]},
        {"blobs": [GOOD | {"offset": 2**63}]},
        {"blobs": [GOOD | {"offset": "4"}]},
        {"blobs": [GOOD | {"offset": True}]},
        {"blobs": [GOOD | {"fields": ["a"]}]},
        {"blobs": [GOOD | {"compression-codec": 5}]},
        {"blobs": [GOOD | {"properties": {"a": 1}}]},
        {"blobs": [], "properties": []},
    ],
    ids=lambda payload: repr(payload)[:60],
)
def test_bad_footers_are_refused(payload: object) -> None:
    STORE.write(AT, footer_of(payload))
    with pytest.raises(MalformedMetadata):
        read_metadata(STORE, AT)


@given(st.data())
def test_damaged_files_are_refused_or_read_and_never_crash(data: st.DataObject) -> None:
    good = made(compress_footer=data.draw(st.booleans())).data
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[-data.draw(st.integers(1, len(good)))] ^= data.draw(st.integers(1, 255))
    for content in (bytes(damaged), good[: data.draw(st.integers(0, len(good) - 1))]):
        STORE.write(AT, content)
        try:
            for blob in read_metadata(STORE, AT).blobs:
                read_blob(STORE, AT, blob)
        except FrazilError:
            pass


def test_flags_and_codecs_of_the_future_are_refused() -> None:
    for flags in (2, 1 << 31):
        STORE.write(AT, footer_of({"blobs": []}, flags=flags))
        with pytest.raises(Unsupported):
            read_metadata(STORE, AT)
    STORE.write(AT, made().data)
    blob = replace(read_metadata(STORE, AT).blobs[0], compression_codec="brotli")
    with pytest.raises(Unsupported):
        read_blob(STORE, AT, blob)
    with pytest.raises(Unsupported):
        PuffinWriter().add("t", b"", fields=[], snapshot_id=1, sequence_number=1, codec="gzip")


def test_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = PuffinWriter()
    writer.add("bomb", bytes(10_000_000), fields=[], snapshot_id=1, sequence_number=1, codec="zstd")
    file = writer.finish()
    STORE.write(AT, file.data)
    with pytest.raises(MalformedData, match="more than"):
        read_blob(STORE, AT, file.metadata.blobs[0], max_bytes=1_000_000)
    with pytest.raises(MalformedMetadata, match="limit"):
        read_blob(STORE, AT, replace(file.metadata.blobs[0], length=2**40))
    monkeypatch.setattr(puffin, "MAX_FOOTER_BYTES", 1000)
    bomb = lz4.frame.compress(b'{"blobs":[]' + b" " * 2000 + b"}")
    STORE.write(AT, footer_of(bomb, flags=1))
    with pytest.raises(MalformedMetadata, match="more than"):
        read_metadata(STORE, AT)
    STORE.write(AT, footer_of(b" " * 2000))
    with pytest.raises(MalformedMetadata, match="claims"):
        read_metadata(STORE, AT)


def test_a_wrong_size_in_the_table_metadata_is_noticed() -> None:
    file = made()
    STORE.write(AT, file.data)
    with pytest.raises(MalformedMetadata):
        read_metadata(STORE, AT, size=len(file.data) - 1)
    with pytest.raises(MalformedData):
        read_metadata(STORE, AT, size=len(file.data) + 1)


def test_cut_off_frames_are_refused() -> None:
    for codec in ("lz4", "zstd"):
        frame = pa.Codec(codec).compress(bytes(range(256)) * 100, asbytes=True)
        STORE.write(AT, b"PFA1" + frame[:-20])
        with pytest.raises(MalformedData):
            read_blob(STORE, AT, puffin.BlobMetadata("x", (), 1, 1, 4, len(frame) - 20, codec))
