"""The block codecs of Avro: null, deflate, zstandard and snappy, with inflation that stops at a limit."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from frazil.errors import MalformedMetadata, Unsupported

# Where it is installed, isal inflates twice as fast as zlib, and deflates ten times as fast to the same size.
_zlib: Any = zlib
_ISAL_LEVEL: int | None = None
with contextlib.suppress(ImportError):
    from isal import isal_zlib

    _zlib, _ISAL_LEVEL = isal_zlib, 3

CODECS: Final = ("null", "deflate", "zstandard", "snappy")
_RAW_DEFLATE: Final = -15
_CRC_BYTES: Final = 4


def check_codec(name: str) -> str:
    """The name, if it is a codec we have."""
    if name not in CODECS:
        raise Unsupported(f"Avro: the codec {name!r} is not supported", hint=f"use one of {', '.join(CODECS)}")
    return name


def inflate(codec: str, data: memoryview, limit: int) -> bytes | memoryview:
    """The payload of a block, of at most `limit` bytes."""
    if codec == "null":
        payload: bytes | memoryview = data
    else:
        try:
            payload = _INFLATE[codec](data, limit)
        except (_zlib.error, zlib.error, pa.ArrowException, OSError, ValueError, EOFError) as error:
            raise _damaged(codec, str(error)) from error
    if len(payload) > limit:
        raise MalformedMetadata(
            f"Avro: a block inflates to more than {limit} bytes", hint="raise the limits if you trust the file"
        )
    return payload


def deflater(codec: str, level: int | None = None) -> Callable[[bytes], bytes]:
    """A function that compresses payloads."""
    match check_codec(codec):
        case "null":
            return bytes
        case "deflate":
            return lambda payload: _deflate(payload, level)
        case "zstandard":
            zstd = pa.Codec("zstd", compression_level=level)
            return lambda payload: bytes(zstd.compress(payload, asbytes=True))
        case _:
            snappy = pa.Codec("snappy")
            return lambda payload: bytes(snappy.compress(payload, asbytes=True)) + _crc(payload)


def _damaged(codec: str, why: str) -> MalformedMetadata:
    return MalformedMetadata(f"Avro: a {codec} block cannot be inflated: {why}", hint="the file is damaged")


def _deflate(payload: bytes, level: int | None) -> bytes:
    stream: Any
    if level is None and _ISAL_LEVEL is not None:
        stream = _zlib.compressobj(_ISAL_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
    else:
        stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _RAW_DEFLATE)
    return bytes(stream.compress(payload) + stream.flush())


def _inflate_deflate(data: memoryview, limit: int) -> bytes:
    stream: Any = _zlib.decompressobj(_RAW_DEFLATE)
    payload: bytes = stream.decompress(data, limit + 1)
    if not stream.eof and len(payload) <= limit:
        raise _damaged("deflate", "it is cut short")
    return payload


def _inflate_zstandard(data: memoryview, limit: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd") as stream:
        payload: bytes = stream.read(limit + 1)
    return payload


def _crc(payload: bytes) -> bytes:
    return zlib.crc32(payload).to_bytes(_CRC_BYTES, "big")


def _inflate_snappy(data: memoryview, limit: int) -> bytes:
    body, crc = data[:-_CRC_BYTES], bytes(data[-_CRC_BYTES:])
    size = shift = 0
    for byte in body[:5]:  # a snappy block begins with its size
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > limit:
        raise MalformedMetadata(f"Avro: a snappy block claims {size} bytes", hint="see Limits if you trust the file")
    payload: bytes = pa.Codec("snappy").decompress(pa.py_buffer(body), decompressed_size=size, asbytes=True)
    if _crc(payload) != crc:
        raise _damaged("snappy", "its checksum is wrong")
    return payload


_INFLATE: Final[dict[str, Callable[[memoryview, int], bytes]]] = {
    "deflate": _inflate_deflate,
    "zstandard": _inflate_zstandard,
    "snappy": _inflate_snappy,
}
