"""Puffin files: blobs (theta sketches, deletion vectors, anything) and a footer that says what they are.

>>> writer = PuffinWriter()
>>> blob = writer.add("my-blob", b"hello", fields=[1], snapshot_id=5, sequence_number=2, codec="zstd")
>>> file = writer.finish({"created-by": "an example"})
>>> from frazil.io.store import store_for
>>> store = store_for("memory://puffin/x"); store.write("memory://puffin/x", file.data)
>>> metadata = read_metadata(store, "memory://puffin/x")
>>> metadata.blobs[0].type, read_blob(store, "memory://puffin/x", metadata.blobs[0])
('my-blob', b'hello')
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import InvalidArgument, Malformed, MalformedData, MalformedMetadata, Unsupported
from frazil.io import puffin_codec
from frazil.io.store import Store

MAGIC = b"PFA1"
MAX_FOOTER_BYTES = 64 * 1024 * 1024
"""Larger footers are refused, compressed or not."""

MAX_BLOB_BYTES = 1024 * 1024 * 1024
"""Larger blobs are refused, unless the caller sets another limit."""

_TAIL_BYTES = 12  # payload size, flags, magic
_FIRST_READ = 64 * 1024
_COMPRESSED_FOOTER = 1
_BLOB_KEYS = frozenset(
    {"type", "fields", "snapshot-id", "sequence-number", "offset", "length", "compression-codec", "properties"}
)


@dataclass(frozen=True, slots=True)
class BlobMetadata:
    """What the footer says about one blob. ``extra`` keeps the fields this library does not know."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The object in the footer, in the order Java writes it."""
        known = {
            "type": self.type,
            "fields": list(self.fields),
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "offset": self.offset,
            "length": self.length,
            "compression-codec": self.compression_codec,
            "properties": dict(self.properties) or None,
        }
        return {name: value for name, value in known.items() if value is not None} | dict(self.extra)


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """The footer: every blob, and properties of the file."""

    blobs: tuple[BlobMetadata, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The footer's payload."""
        payload: dict[str, Any] = {"blobs": [blob.to_json() for blob in self.blobs]}
        if self.properties:
            payload["properties"] = dict(self.properties)
        return payload | dict(self.extra)


@dataclass(frozen=True, slots=True)
class PuffinFile:
    """A finished file: its bytes, its footer, and the footer's size as table metadata records it."""

    data: bytes = field(repr=False)
    metadata: FileMetadata
    footer_size: int


class PuffinWriter:
    """Gathers blobs, then makes the file. Offsets are known as blobs are added."""

    def __init__(self) -> None:
        self._data = bytearray(MAGIC)
        self._blobs: list[BlobMetadata] = []
        self._footer_bytes = 0

    def add(
        self,
        blob_type: str,
        data: bytes,
        *,
        fields: Sequence[int],
        snapshot_id: int,
        sequence_number: int,
        codec: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> BlobMetadata:
        """Append a blob, compressed with ``codec`` (None, ``lz4`` or ``zstd``; Java reads no ``lz4``)."""
        stored = data if codec is None else puffin_codec.compress(codec, data)
        blob = BlobMetadata(
            blob_type,
            tuple(fields),
            snapshot_id,
            sequence_number,
            len(self._data),
            len(stored),
            codec,
            dict(properties or {}),
        )
        self._data += stored
        self._blobs.append(blob)
        self._footer_bytes += len(_compact(blob.to_json()))
        return blob

    @property
    def estimated_bytes(self) -> int:
        """About how large the file would be if it were finished now."""
        return len(self._data) + self._footer_bytes

    def finish(self, properties: Mapping[str, str] | None = None, *, compress_footer: bool = False) -> PuffinFile:
        """The whole file, with ``properties`` (such as ``created-by``) in its footer."""
        metadata = FileMetadata(tuple(self._blobs), dict(properties or {}))
        payload = _compact(metadata.to_json())
        if compress_footer:
            payload = puffin_codec.compress("lz4", payload)
        if len(payload) > MAX_FOOTER_BYTES:
            raise InvalidArgument(f"a Puffin footer of {len(payload)} bytes", hint="put fewer blobs into one file")
        flags = _COMPRESSED_FOOTER if compress_footer else 0
        footer = MAGIC + payload + len(payload).to_bytes(4, "little") + flags.to_bytes(4, "little") + MAGIC
        return PuffinFile(bytes(self._data + footer), metadata, len(footer))


def _compact(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def read_metadata(store: Store, location: str, *, size: int | None = None) -> FileMetadata:
    """The footer of a Puffin file, checked: magic at every end, blobs inside the file. One or two ranged reads.

    ``size`` is the file's length, when the table's metadata has it.
    """
    length = store.size(location) if size is None else size
    if length < 2 * len(MAGIC) + _TAIL_BYTES:
        raise _malformed(location, f"it has only {length} bytes")
    start = max(0, length - _FIRST_READ)
    tail = store.read_range(location, start, length - start)
    if tail[-4:] != MAGIC:
        raise _malformed(location, f"it ends with {tail[-4:].hex()}")
    payload_size = int.from_bytes(tail[-12:-8], "little", signed=True)
    flags = int.from_bytes(tail[-8:-4], "little")
    if flags & ~_COMPRESSED_FOOTER:
        raise Unsupported(
            f"{location}: the Puffin flags {flags:#x} are unknown", hint="a newer library wrote this file"
        )
    if not 0 <= payload_size <= min(MAX_FOOTER_BYTES, length - 2 * len(MAGIC) - _TAIL_BYTES):
        raise _malformed(location, f"its footer claims {payload_size} bytes of {length}")
    footer_start = length - _TAIL_BYTES - payload_size - len(MAGIC)
    if footer_start < start:
        tail = store.read_range(location, footer_start, start - footer_start) + tail
        start = footer_start
    head = tail[:4] if start == 0 else store.read_range(location, 0, 4)
    footer = tail[footer_start - start :]
    if head != MAGIC or footer[:4] != MAGIC:
        raise _malformed(location, "the magic bytes are missing at the start of the file or of the footer")
    payload = footer[4 : 4 + payload_size]
    if flags & _COMPRESSED_FOOTER:
        try:
            payload = puffin_codec.decompress("lz4", payload, MAX_FOOTER_BYTES)
        except Malformed as error:
            raise _malformed(location, f"its footer cannot be decompressed: {error.message}") from error
    return _file_metadata(location, payload, footer_start)


def read_blob(store: Store, location: str, blob: BlobMetadata, *, max_bytes: int = MAX_BLOB_BYTES) -> bytes:
    """A blob's bytes, decompressed. The type does not matter: blobs of unknown type are bytes like any other."""
    if blob.length > max_bytes:
        raise _malformed(location, f"a blob claims {blob.length} bytes, more than the limit of {max_bytes}")
    stored = store.read_range(location, blob.offset, blob.length)
    if blob.compression_codec is None:
        return stored
    try:
        return puffin_codec.decompress(blob.compression_codec, stored, max_bytes)
    except Malformed as error:
        raise MalformedData(f"{location}: the blob at {blob.offset}: {error.message}", hint=error.hint) from error


def _file_metadata(location: str, payload: bytes, footer_start: int) -> FileMetadata:
    try:
        parsed = json.loads(payload.decode())
    except (ValueError, RecursionError) as error:
        raise _malformed(location, "its footer is not JSON") from error
    if not isinstance(parsed, dict) or not isinstance(parsed.get("blobs"), list):
        raise _malformed(location, "its footer has no list of blobs")
    blobs = tuple(_blob_metadata(location, item, footer_start) for item in parsed["blobs"])
    extra = {name: value for name, value in parsed.items() if name not in ("blobs", "properties")}
    return FileMetadata(blobs, _properties(location, parsed), extra)


def _blob_metadata(location: str, item: Any, footer_start: int) -> BlobMetadata:
    if not isinstance(item, dict):
        raise _malformed(location, "a blob's metadata is not an object")
    offset, length = _integer(location, item.get("offset")), _integer(location, item.get("length"))
    if offset < len(MAGIC) or length < 0 or offset + length > footer_start:
        raise _malformed(location, f"a blob at {offset}+{length} is outside the file's {footer_start} bytes of blobs")
    fields, codec = item.get("fields"), item.get("compression-codec")
    if not isinstance(item.get("type"), str) or not isinstance(fields, list) or not isinstance(codec, str | None):
        raise _malformed(location, "a blob's type, fields or codec is missing or of the wrong kind")
    return BlobMetadata(
        type=item["type"],
        fields=tuple(_integer(location, value) for value in fields),
        snapshot_id=_integer(location, item.get("snapshot-id")),
        sequence_number=_integer(location, item.get("sequence-number")),
        offset=offset,
        length=length,
        compression_codec=codec,
        properties=_properties(location, item),
        extra={name: value for name, value in item.items() if name not in _BLOB_KEYS},
    )


def _integer(location: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise _malformed(location, f"a field of a blob's metadata is {value!r:.40}, not a number")
    return value


def _properties(location: str, item: Mapping[str, Any]) -> dict[str, str]:
    properties = item.get("properties")
    if properties is None:
        return {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise _malformed(location, "properties are not an object of strings")
    return properties


def _malformed(location: str, what: str) -> MalformedMetadata:
    return MalformedMetadata(f"{location} is not a sound Puffin file: {what}", hint="the file is damaged or cut short")
