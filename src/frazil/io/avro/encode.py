"""Columns to rows: Arrow batches become an Avro object container file.

>>> import pyarrow as pa
>>> from frazil.io.avro import decode, read_container
>>> schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "long"]}]}
>>> data = encode(pa.table({"a": [1, None, 3]}), schema, {"made-by": "me"})
>>> decode(read_container(data)).to_pydict()
{'a': [1, None, 3]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias

import pyarrow as pa

from frazil import ambient
from frazil.errors import InvalidArgument, Unsupported
from frazil.io.avro.codecs import deflater
from frazil.io.avro.columns import load
from frazil.io.avro.container import MAGIC, write_long
from frazil.io.avro.program import compile_schema
from frazil.io.avro.runtime import sandbox
from frazil.io.avro.schema import AvroSchema, parse_schema

BLOCK_BYTES: Final = 64_000
_SLICE_BYTES: Final = 8 << 20
_MEMORY_BYTES: Final = (4 << 30) - 65_536

Rows: TypeAlias = pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]


class Sink(Protocol):
    """Anything that takes bytes in order: a file, or an upload."""

    def write(self, data: bytes, /) -> object:
        """Take the next bytes."""


def encode(
    rows: Rows,
    schema: AvroSchema | str | Mapping[str, Any],
    metadata: Mapping[str, str | bytes] | None = None,
    codec: str = "deflate",
    level: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    *,
    java_fixed: bool = False,
) -> bytes:
    """A whole file in memory. Columns are matched to the schema's fields by name, at every level.

    `java_fixed` is for manifests: see `decode`. Iceberg's Java library can read them in no other way.
    """
    parts: list[bytes] = []
    with ContainerWriter(parts.append, schema, metadata, codec, level, block_bytes, java_fixed=java_fixed) as writer:
        for batch in _batches(rows):
            writer.write(batch)
    return b"".join(parts)


class ContainerWriter:
    """Writes a file block by block, so that a large one is never in memory as a whole.

    `close` (or the end of a `with` block that did not fail) writes what is left; the sink stays open.
    """

    def __init__(
        self,
        sink: Sink | Callable[[bytes], object],
        schema: AvroSchema | str | Mapping[str, Any],
        metadata: Mapping[str, str | bytes] | None = None,
        codec: str = "deflate",
        level: int | None = None,
        block_bytes: int = BLOCK_BYTES,
        *,
        java_fixed: bool = False,
    ) -> None:
        self._put: Callable[[bytes], object] = sink if callable(sink) else sink.write
        self._schema = schema if isinstance(schema, AvroSchema) else parse_schema(schema)
        self._program = compile_schema(self._schema, java_fixed=java_fixed)
        if self._program.skips:
            raise Unsupported("Avro: a union of one or of several types cannot be written", hint="use [null, type]")
        if not 0 < block_bytes <= 1 << 30:
            raise InvalidArgument(f"Avro: blocks of {block_bytes} bytes", hint="64,000 is a good size")
        self._compress = deflater(codec, level)
        self._target = block_bytes
        self._sync = ambient.new_uuid().bytes
        self._pending: list[bytes] = []
        self._pending_bytes = self._pending_rows = 0
        self._closed = False
        self.bytes_written = 0
        self.rows_written = 0
        self.block_offsets: list[int] = []
        self._emit(self._header(metadata or {}, codec))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()

    def write(self, rows: Rows) -> None:
        """Append rows; blocks go out as they fill up."""
        if self._closed:
            raise InvalidArgument("Avro: the writer is closed", hint="open another one")
        for batch in _batches(rows):
            step = max(1, batch.num_rows * _SLICE_BYTES // max(batch.nbytes, 1))
            for start in range(0, batch.num_rows, step):
                self._write_slice(batch.slice(start, step))

    def close(self) -> None:
        """Write the last block. Closing twice does nothing."""
        if not self._closed:
            self._flush()
            self._closed = True

    def _write_slice(self, batch: pa.RecordBatch) -> None:
        rows, row = batch.num_rows, 0
        with sandbox(_MEMORY_BYTES) as box:
            load(box, self._program, batch)
            at = box.call("out") & 0xFFFF_FFFF
            while row < rows:
                packed = box.call("encode", row, rows, self._target - self._pending_bytes)
                if packed < 0:
                    raise box.failure(self._program.paths, writing=True)
                done, size = packed >> 32, packed & 0xFFFF_FFFF
                self._pending.append(box.memory()[at : at + size].tobytes())
                self._pending_bytes += size
                self._pending_rows += done
                row += done
                if self._pending_bytes >= self._target:
                    self._flush()

    def _flush(self) -> None:
        if self._pending_rows == 0:
            return
        payload = self._compress(b"".join(self._pending))
        self.block_offsets.append(self.bytes_written)
        self._emit(write_long(self._pending_rows) + write_long(len(payload)) + payload + self._sync)
        self.rows_written += self._pending_rows
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0

    def _emit(self, data: bytes) -> None:
        self._put(data)
        self.bytes_written += len(data)

    def _header(self, metadata: Mapping[str, str | bytes], codec: str) -> bytes:
        if any(key.startswith("avro.") for key in metadata):
            raise InvalidArgument("Avro: metadata keys that begin with 'avro.' are reserved", hint="use another key")
        pairs: dict[str, str | bytes] = {"avro.schema": self._schema.text, "avro.codec": codec, **metadata}
        out = [MAGIC, write_long(len(pairs))]
        for key, value in pairs.items():
            for text in (key, value):
                raw = text.encode() if isinstance(text, str) else text
                out += [write_long(len(raw)), raw]
        return b"".join([*out, write_long(0), self._sync])


def _batches(rows: Rows) -> Iterable[pa.RecordBatch]:
    if isinstance(rows, pa.Table):
        return tuple(rows.to_batches())
    return (rows,) if isinstance(rows, pa.RecordBatch) else rows
