"""Avro data files, written with field ids."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa

from frazil.errors import InvalidArgument
from frazil.io.avro import ContainerWriter
from frazil.io.avro_schema import avro_schema
from frazil.io.written_file import DataFileWriter, choice

_CODECS = {"gzip": "deflate", "deflate": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}


class AvroWriter(DataFileWriter):
    """Writes an Avro file; see the `write.avro.*` table properties."""

    file_format = "avro"

    def _start(self, properties: Mapping[str, str]) -> None:
        self._codec = choice(properties, "write.avro.compression-codec", "gzip", _CODECS)
        level = properties.get("write.avro.compression-level")
        if level is not None and not level.lstrip("-").isdigit():
            raise InvalidArgument(f"write.avro.compression-level is {level!r}", hint="a number such as 9")
        self._level = None if level is None or self._codec not in ("deflate", "zstandard") else int(level)

    def _open(self) -> None:
        document = json.dumps(self.stored_schema.to_json(), separators=(",", ":"))
        self._writer = ContainerWriter(
            self._sink, avro_schema(self.stored_schema), {"iceberg.schema": document}, self._codec, self._level
        )

    @property
    def estimated_bytes(self) -> int:
        return self._writer.bytes_written

    def _append(self, batch: pa.RecordBatch) -> None:
        self._writer.write(batch)

    def _finish(self) -> tuple[dict[int, int], tuple[int, ...]]:
        self._writer.close()
        return {}, ()
