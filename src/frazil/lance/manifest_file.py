"""The bytes of a manifest file: index section, transaction, manifest, each behind its length, and a trailer.

[u32 length][indices] [u32 length][transaction] [u32 length][manifest] [u64 where][u16 0][u16 2] "LANC"
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeVar

from frazil.errors import MalformedMetadata
from frazil.lance.proto.messages import DecodeError, IndexSection, Manifest, Transaction

MAGIC = b"LANC"
MAX_BYTES = 1 << 30
"""Protobuf itself takes no message above 2 GB; more than this is no manifest."""

_TRAILER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")

Message = TypeVar("Message", Manifest, Transaction, IndexSection)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A version of a table as its file has it. The messages are not to be changed: copy them first."""

    manifest: Manifest
    indices: IndexSection
    transaction: Transaction | None
    """What the version did, if that is written in the manifest's own file."""


def parse_manifest_file(data: bytes, where: str) -> ManifestFile:
    """Take the bytes apart; MalformedMetadata for anything that is not exactly such a file."""
    if len(data) < _TRAILER.size or not data.endswith(MAGIC):
        raise _malformed(where, f"its {len(data)} bytes do not end in {MAGIC.decode()}")
    if len(data) > MAX_BYTES:
        raise _malformed(where, f"it has {len(data)} bytes, more than the limit of {MAX_BYTES}")
    position, _, _, _ = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
    body = memoryview(data)[: -_TRAILER.size]
    manifest = _section(Manifest, body, position, where)
    indices, transaction = IndexSection(), None
    if manifest.HasField("index_section"):
        indices = _section(IndexSection, body, manifest.index_section, where)
    for name in ("transaction_section", "transaction_section_before_14"):
        if manifest.HasField(name):
            transaction = _section(Transaction, body, getattr(manifest, name), where)
            break
    return ManifestFile(manifest, indices, transaction)


def _section(kind: type[Message], body: memoryview, position: int, where: str) -> Message:
    name = kind.__name__
    if position + _LENGTH.size > len(body):
        raise _malformed(where, f"its {name} would be at byte {position}, beyond its end")
    (length,) = _LENGTH.unpack_from(body, position)
    start = position + _LENGTH.size
    if start + length > len(body):
        raise _malformed(where, f"its {name} of {length} bytes at {position} ends beyond its end")
    try:
        found: Message = kind.FromString(bytes(body[start : start + length]))
    except DecodeError as error:
        raise _malformed(where, f"its {name} cannot be decoded: {error}") from error
    return found


def render_manifest_file(manifest: Manifest, indices: IndexSection, transaction: Transaction) -> bytes:
    """The bytes of a manifest file; where its sections are is set in the manifest."""
    parts: list[bytes] = []
    manifest.ClearField("index_section")
    manifest.ClearField("transaction_section_before_14")
    if indices.indices:
        manifest.index_section = _add(parts, indices.SerializeToString(deterministic=True))
    manifest.transaction_section = _add(parts, transaction.SerializeToString(deterministic=True))
    position = _add(parts, manifest.SerializeToString(deterministic=True))
    return b"".join([*parts, _TRAILER.pack(position, 0, 2, MAGIC)])


def _add(parts: list[bytes], data: bytes) -> int:
    position = sum(map(len, parts))
    parts += [_LENGTH.pack(len(data)), data]
    return position


def _malformed(where: str, what: str) -> MalformedMetadata:
    return MalformedMetadata(
        f"{where} is no Lance manifest: {what}", hint="the file is damaged; open an earlier version of the table"
    )
