"""The two codecs of Puffin: single LZ4 or Zstandard frames that state their content size."""

from __future__ import annotations

import pyarrow as pa

from frazil.errors import MalformedData, Unsupported


def compress(codec: str, data: bytes) -> bytes:
    """One frame with the content size in its header."""
    _refuse_unknown(codec)
    frame: bytes = pa.Codec(codec).compress(data, asbytes=True)
    return frame if codec == "zstd" else _with_content_size(frame, len(data))


def decompress(codec: str, data: bytes, limit: int) -> bytes:
    """The frame's content; MalformedData when it is damaged or larger than ``limit``."""
    _refuse_unknown(codec)
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            # Never more than the limit, whatever the frame claims.
            content: bytes = stream.read(limit + 1)
    except (pa.ArrowException, OSError) as error:
        raise MalformedData(f"bad {codec} frame: {error}", hint="the file is damaged") from error
    if len(content) > limit:
        raise MalformedData(
            f"a {codec} frame expands to more than {limit} bytes", hint="raise the limit if you trust it"
        )
    return content


def _refuse_unknown(codec: str) -> None:
    if codec not in ("lz4", "zstd"):
        raise Unsupported(f"Puffin has no codec {codec!r}", hint="the codecs of Puffin are lz4 and zstd")


def _with_content_size(frame: bytes, size: int) -> bytes:
    """The same LZ4 frame with its content size, which Puffin requires and Arrow's encoder leaves out."""
    descriptor = bytes([frame[4] | 0x08, frame[5]]) + size.to_bytes(8, "little")
    checksum = _xxh32(descriptor) >> 8 & 0xFF
    return frame[:4] + descriptor + bytes([checksum]) + frame[7:]


def _xxh32(data: bytes) -> int:
    """XXH32 with seed 0 for less than 16 bytes: what the header of an LZ4 frame is checked with."""
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    mask = 0xFFFFFFFF
    value = (prime5 + len(data)) & mask
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        value = (value + int.from_bytes(data[start : start + 4], "little") * prime3) & mask
        value = ((value << 17 | value >> 15) * prime4) & mask
    for byte in data[whole:]:
        value = (value + byte * prime5) & mask
        value = ((value << 11 | value >> 21) * prime1) & mask
    value = ((value ^ value >> 15) * prime2) & mask
    value = ((value ^ value >> 13) * prime3) & mask
    return value ^ value >> 16
