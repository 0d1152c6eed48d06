"""Avro object container files: header, blocks and sync markers, read without trusting any length in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from frazil.errors import MalformedMetadata
from frazil.io.avro.codecs import check_codec, inflate
from frazil.io.avro.schema import AvroSchema, parse_schema

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
_RATIO_FLOOR: Final = 16 << 20  # below this many bytes any ratio is harmless


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a file may ask for. The defaults suit files from strangers; raise them for your own."""

    header_bytes: int = 64 << 20
    block_bytes: int = 256 << 20
    total_bytes: int = 4 << 30
    ratio: int = 250
    memory_bytes: int = 2 << 30
    empty_rows: int = 10_000_000


class Block(NamedTuple):
    """Where one block lies: its row count, and the place of its compressed payload."""

    rows: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Header:
    """The head of a file: schema, metadata, codec, sync marker, and where the blocks begin."""

    schema: AvroSchema
    metadata: dict[str, bytes]
    codec: str
    sync: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Container:
    """A file whose block structure was checked. Payloads are inflated only when they are asked for."""

    header: Header
    blocks: tuple[Block, ...]
    data: memoryview = field(repr=False)
    limits: Limits = Limits()

    @property
    def schema(self) -> AvroSchema:
        """The schema of the rows."""
        return self.header.schema

    @property
    def metadata(self) -> dict[str, bytes]:
        """The key-value metadata, those of Avro (avro.schema, avro.codec) among them."""
        return self.header.metadata

    @property
    def num_rows(self) -> int:
        """The number of rows, as the blocks tell it; decoding makes sure that it is so."""
        return sum(block.rows for block in self.blocks)

    def payloads(self) -> Iterator[tuple[int, bytes | memoryview]]:
        """(row count, inflated payload) of each block."""
        total = 0
        for count, offset, size in self.blocks:
            room = min(self.limits.block_bytes, self.limits.total_bytes - total)
            room = min(room, max(_RATIO_FLOOR, size * self.limits.ratio))
            payload = inflate(self.header.codec, self.data[offset : offset + size], room)
            total += len(payload)
            yield count, payload


def read_header(data: bytes | memoryview, limits: Limits | None = None) -> Header:
    """Schema and metadata only; the beginning of a file is enough."""
    view, limits = memoryview(data).cast("B"), limits or Limits()
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise MalformedMetadata("Avro: the file does not begin with Avro's magic bytes", hint="it is not an Avro file")
    position, metadata = len(MAGIC), dict[str, bytes]()
    while True:
        count, position = _long(view, position)
        if count < 0:
            count = -count
            _, position = _long(view, position)
        if count > len(view) - position:
            raise _truncated()
        if count == 0:
            break
        for _ in range(count):
            key, position = _bytes(view, position)
            value, position = _bytes(view, position)
            if position > limits.header_bytes:
                raise MalformedMetadata(f"Avro: the header exceeds {limits.header_bytes} bytes", hint="see Limits")
            metadata[key.decode(errors="replace")] = value
    if position + SYNC_BYTES > len(view):
        raise _truncated()
    if "avro.schema" not in metadata:
        raise MalformedMetadata("Avro: the file has no schema", hint="the file is damaged")
    codec = check_codec(metadata.get("avro.codec", b"null").decode(errors="replace") or "null")
    sync = bytes(view[position : position + SYNC_BYTES])
    return Header(parse_schema(metadata["avro.schema"]), metadata, codec, sync, position + SYNC_BYTES)


def read_container(data: bytes | memoryview, limits: Limits | None = None) -> Container:
    """The whole file, with every block's place and sync marker checked and nothing inflated yet."""
    view, limits = memoryview(data).cast("B"), limits or Limits()
    header = read_header(view, limits)
    position, end, blocks = header.size, len(view), list[Block]()
    while position < end:
        count, position = _long(view, position)
        size, position = _long(view, position)
        if count < 0 or size < 0 or size > limits.block_bytes:
            raise MalformedMetadata(f"Avro: a block claims {count} rows in {size} bytes", hint="the file is damaged")
        if position + size + SYNC_BYTES > end:
            raise _truncated()
        if count or size:
            blocks.append(Block(count, position, size))
        position += size
        if view[position : position + SYNC_BYTES] != header.sync:
            raise MalformedMetadata("Avro: a block is not followed by the sync marker", hint="the file is damaged")
        position += SYNC_BYTES
    return Container(header, tuple(blocks), view, limits)


def write_long(value: int) -> bytes:
    """A long as Avro writes it."""
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _truncated() -> MalformedMetadata:
    return MalformedMetadata("Avro: the file is cut short", hint="it was not written or copied completely")


def _long(view: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(view):
            raise _truncated()
        byte = view[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise MalformedMetadata("Avro: a number in the file's frame is too long", hint="the file is damaged")
    return (value >> 1) ^ -(value & 1), position


def _bytes(view: memoryview, position: int) -> tuple[bytes, int]:
    size, position = _long(view, position)
    if size < 0:
        raise MalformedMetadata("Avro: a length in the header is negative", hint="the file is damaged")
    if position + size > len(view):
        raise _truncated()
    return bytes(view[position : position + size]), position + size
