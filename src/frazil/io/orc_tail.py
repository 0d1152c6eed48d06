"""The tail of an ORC file and the footers of its stripes: the parts of ORC's metadata that pyarrow does not show.

Needed to split a file at its stripes, and to read timestamps that do not fit nanoseconds (`frazil.io.orc_timestamps`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from frazil.errors import MalformedData, Unsupported

_CODECS = ("none", "zlib", "snappy", "lzo", "lz4_raw", "zstd")
_MAX_FOOTER = 256 << 20

TIMESTAMP, LIST, MAP, STRUCT, TIMESTAMP_INSTANT = 9, 10, 11, 12, 18
LONG = 4


@dataclass(frozen=True, slots=True)
class Stripe:
    """Where a stripe and its parts lie in the file."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a column, at `offset` in the file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The postscript and footer of a file."""

    codec: str
    block_size: int
    stripes: tuple[Stripe, ...]
    kinds: tuple[int, ...]
    """The kind of each column, in the order ORC numbers them: a struct before its fields, depth first."""
    postscript: bytes
    footer: bytes
    footer_offset: int

    def decompress(self, data: bytes) -> bytes:
        """The bytes of a stream, which is stored in chunks with a three-byte header each."""
        if self.codec == "none":
            return data
        parts, at = [], 0
        while at < len(data):
            header = int.from_bytes(data[at : at + 3], "little")
            size = header >> 1
            chunk = data[at + 3 : at + 3 + size]
            if len(chunk) != size:
                raise _damaged("a compressed chunk is cut off")
            parts.append(chunk if header & 1 else self._inflate(chunk))
            at += 3 + size
        return b"".join(parts)

    def _inflate(self, chunk: bytes) -> bytes:
        try:
            if self.codec == "zlib":
                inflater = zlib.decompressobj(-15)
                return inflater.decompress(chunk, self.block_size)
            if self.codec == "snappy":
                size, _ = read_varint(chunk, 0)
                if size > self.block_size:
                    raise _damaged("a compressed chunk is larger than the file says")
                return bytes(pa.decompress(chunk, size, "snappy", asbytes=True))
            if self.codec == "zstd":
                with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
                    return bytes(stream.read(self.block_size))
        except (zlib.error, pa.ArrowException, OSError) as error:
            raise _damaged(f"a compressed chunk cannot be read: {error}") from error
        raise Unsupported(f"ORC streams compressed with {self.codec} cannot be read here", hint="rewrite with zstd")


def read_tail(source: pa.NativeFile) -> Tail:
    """Read the postscript and the footer."""
    size = source.size()
    if size < 16:
        raise _damaged("it is too short")
    last = source.read_at(min(size, 65_536), size - min(size, 65_536))
    length = last[-1]
    postscript = last[-1 - length : -1]
    fields = dict(_messages(postscript))
    codec, footer_length = _number(fields, 2), _number(fields, 1)
    if codec >= len(_CODECS) or fields.get(8000) != b"ORC" or not 0 < footer_length <= min(size, _MAX_FOOTER):
        raise _damaged("its postscript is not one of ORC")
    tail = Tail(
        _CODECS[codec], _number(fields, 3) or 1 << 18, (), (), postscript, b"", size - 1 - length - footer_length
    )
    footer = tail.decompress(source.read_at(footer_length, tail.footer_offset))
    stripes, kinds = [], []
    for number, value in _messages(footer):
        if number == 3 and isinstance(value, bytes):
            parts = dict(_messages(value))
            stripes.append(Stripe(*(_number(parts, part) for part in range(1, 6))))
        elif number == 4 and isinstance(value, bytes):
            kinds.append(_number(dict(_messages(value)), 1))
    return Tail(tail.codec, tail.block_size, tuple(stripes), tuple(kinds), postscript, footer, tail.footer_offset)


def read_streams(source: pa.NativeFile, tail: Tail, stripe: Stripe) -> tuple[list[Stream], list[int], str]:
    """The streams of a stripe, the encoding of each column, and the writer's time zone."""
    at = stripe.offset + stripe.index_length + stripe.data_length
    streams: list[Stream] = []
    encodings: list[int] = []
    zone = ""
    offset = stripe.offset
    for number, value in _messages(tail.decompress(source.read_at(stripe.footer_length, at))):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            parts = dict(_messages(value))
            stream = Stream(_number(parts, 1), _number(parts, 2), offset, _number(parts, 3))
            streams.append(stream)
            offset += stream.length
        elif number == 2:
            encodings.append(_number(dict(_messages(value)), 1))
        elif number == 3:
            zone = value.decode("utf-8", "replace")
    return streams, encodings, zone


def with_longs_for_timestamps(tail: Tail) -> bytes:
    """A tail that calls the timestamps of the file longs: read like that, they are seconds from the start of 2015."""
    parts = []
    for number, value in _messages(tail.footer):
        if number == 4 and isinstance(value, bytes):
            inner = [(key, item) for key, item in _messages(value) if key != 1]
            kind = _number(dict(_messages(value)), 1)
            kind = LONG if kind in (TIMESTAMP, TIMESTAMP_INSTANT) else kind
            parts.append(_field(4, b"".join([_field(1, kind), *(_field(key, item) for key, item in inner)])))
        elif number != 7:  # statistics of timestamps are not those of longs
            parts.append(_field(number, value))
    footer = b"".join(parts)
    if tail.codec != "none":  # as chunks that say of themselves that they are not compressed
        step = min(tail.block_size, (1 << 23) - 1)
        chunks = [footer[at : at + step] for at in range(0, len(footer), step)]
        footer = b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)
    # without the metadata section (5), whose statistics of stripes would not fit either
    kept = [(key, len(footer) if key == 1 else value) for key, value in _messages(tail.postscript) if key != 5]
    postscript = b"".join(_field(key, value) for key, value in [*kept[:-1], (5, 0), kept[-1]])
    return footer + postscript + bytes([len(postscript)])


# Protocol buffers, as far as ORC uses them.


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned base-128 number and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _damaged("a number is cut off")
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def _messages(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of the fields of a message: numbers, and bytes for everything with a length."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = read_varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = read_varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise _damaged("its metadata has an unknown wire type")
        if at + size > len(data):
            raise _damaged("its metadata is cut off")
        yield key >> 3, data[at : at + size]
        at += size


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(fields: dict[int, int | bytes], key: int) -> int:
    value = fields.get(key, 0)
    if not isinstance(value, int):
        raise _damaged("its metadata has bytes where a number belongs")
    return value


def _damaged(why: str) -> MalformedData:
    return MalformedData(f"malformed ORC file: {why}", hint="restore the file from a backup")
