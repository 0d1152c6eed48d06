"""Parquet data files, written with field ids and the specification's physical types."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import InvalidArgument
from frazil.io.parquet import row_group_offset
from frazil.io.parquet_footer import annotate
from frazil.io.parquet_stats import column_sizes
from frazil.io.resolve import file_fields
from frazil.io.written_file import DataFileWriter, OpenSink, choice, whole
from frazil.model.arrow import schema_to_arrow
from frazil.model.types import GeographyType, GeometryType, ListType, MapType, StructType, Type, VariantType

_CODECS = {
    "zstd": "zstd",
    "gzip": "gzip",
    "snappy": "snappy",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "brotli": "brotli",
    "uncompressed": "none",
    "none": "none",
}
_MAX_GROUP_ROWS = 1 << 20
_USUAL_SHARE = 0.5
_ENOUGH = 0.9
"""A file of this share of the size that is wanted is large enough: no small row group more."""
_BLOOM = "write.parquet.bloom-filter-enabled.column."
_DICTIONARY = "write.parquet.dict-encoding-enabled.column."


class ParquetWriter(DataFileWriter):
    """Writes a Parquet file one row group at a time; see the `write.parquet.*` table properties."""

    file_format = "parquet"

    def _start(self, properties: Mapping[str, str]) -> None:
        self._group_bytes = whole(properties, "write.parquet.row-group-size-bytes", 128 << 20)
        self._options = _writer_options(properties)
        self._plain = {
            key.removeprefix(_DICTIONARY)
            for key, value in properties.items()
            if key.startswith(_DICTIONARY) and value.lower() == "false"
        }
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._pending_rows = self._flushed_bytes = 0

    def _open(self) -> None:
        kinds = VariantType | GeometryType | GeographyType
        self._annotated = {
            column.id: column.type for column in self.stored_schema.all_fields() if isinstance(column.type, kinds)
        }
        if any(isinstance(type_, GeometryType | GeographyType) for type_ in self._annotated.values()):
            # the order of bytes means nothing for geometries
            self._options["write_statistics"] = [
                path for path, type_, _ in _paths(self.stored_schema.as_struct) if not isinstance(type_, _GEO)
            ]
        if self._plain:
            self._options["use_dictionary"] = [
                path for path, _, name in _paths(self.stored_schema.as_struct) if name not in self._plain
            ]
        self._tail = OpenSink(self._sink)
        self._collected: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            self._tail,
            schema_to_arrow(self.stored_schema),
            metadata_collector=self._collected,
            **self._options,
        )
        document = json.dumps(self.stored_schema.to_json(), separators=(",", ":"))
        self._writer.add_key_value_metadata({"iceberg.schema": document})

    @property
    def estimated_bytes(self) -> int:
        return self._sink.tell() + int(self._pending_bytes * self._share())

    @property
    def waiting_bytes(self) -> int:
        return self._pending_bytes // 2

    def _share(self) -> float:
        """How much is left of rows in memory after encoding and compression: as of the row groups so far."""
        return self._sink.tell() / self._flushed_bytes if self._flushed_bytes else _USUAL_SHARE

    def reaches(self, target: int) -> bool:
        if self.estimated_bytes < target:
            return False
        # what waits may become much smaller than it looks, and then there is room for more
        self._flush()
        return self._sink.tell() >= _ENOUGH * target

    def _append(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows > 0:
            per_row = max(1, batch.nbytes // batch.num_rows)
            room = max(1, (self._group_bytes - self._pending_bytes) // per_row)
            part = batch.slice(0, min(room, _MAX_GROUP_ROWS - self._pending_rows))
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self._pending_bytes += part.num_rows * per_row
            if self._pending_bytes >= self._group_bytes or self._pending_rows >= _MAX_GROUP_ROWS:
                self._flush()
            batch = batch.slice(part.num_rows)

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
            self._flushed_bytes += self._pending_bytes
            self._pending, self._pending_bytes, self._pending_rows = [], 0, 0

    def _finish(self) -> tuple[dict[int, int], tuple[int, ...]]:
        self._flush()
        self._tail.hold()
        self._writer.close()
        tail = self._tail.held()
        [metadata] = self._collected
        if self._annotated:
            start = len(tail) - 8 - int.from_bytes(tail[-8:-4], "little")
            tail = tail[:start] + annotate(tail[start:], self._annotated)
        self._sink.write(tail)
        offsets = tuple(row_group_offset(metadata, number) for number in range(metadata.num_row_groups))
        return column_sizes(metadata, file_fields(self.location, metadata.schema.to_arrow_schema())), offsets

    def abort(self) -> None:
        """Give up; nothing is left at the location."""
        super().abort()
        self._tail.drop()
        with contextlib.suppress(pa.ArrowException, RuntimeError):  # of a writer that failed
            self._writer.close()


_GEO = GeometryType | GeographyType


def _paths(type_: Type, path: str = "", name: str = "") -> Iterator[tuple[str, Type, str]]:
    """The dotted Parquet path of each physical column, its type, and the name of the field that it belongs to."""

    def within(inner: Type, at: str, called: str) -> Iterator[tuple[str, Type, str]]:
        return _paths(inner, f"{path}.{at}" if path else at, f"{name}.{called}" if name else called)

    if isinstance(type_, StructType):
        for column in type_.fields:
            yield from within(column.type, column.name, column.name)
    elif isinstance(type_, ListType):
        yield from within(type_.element.type, "list.element", "element")
    elif isinstance(type_, MapType):
        yield from within(type_.key.type, "key_value.key", "key")
        yield from within(type_.value.type, "key_value.value", "value")
    elif isinstance(type_, VariantType):
        yield from ((f"{path}.{part}", type_, name) for part in ("metadata", "value"))
    else:
        yield path, type_, name


def _writer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    codec = choice(properties, "write.parquet.compression-codec", "zstd", _CODECS)
    options: dict[str, Any] = {
        "compression": codec,
        "store_schema": False,
        "store_decimal_as_integer": True,
        "use_compliant_nested_type": True,
        "data_page_size": whole(properties, "write.parquet.page-size-bytes", 1 << 20),
        "dictionary_pagesize_limit": whole(properties, "write.parquet.dict-size-bytes", 2 << 20),
        "max_rows_per_page": whole(properties, "write.parquet.page-row-limit", 20_000),
    }
    if (level := properties.get("write.parquet.compression-level")) is not None:
        if not level.lstrip("-").isdigit():
            raise InvalidArgument(f"write.parquet.compression-level is {level!r}", hint="a number such as 3")
        if codec in ("zstd", "gzip", "brotli"):
            options["compression_level"] = int(level)
    blooms = {
        key.removeprefix(_BLOOM): _bloom(key.removeprefix(_BLOOM), properties)
        for key, value in properties.items()
        if key.startswith(_BLOOM) and value.lower() == "true"
    }
    if blooms:
        options["bloom_filter_options"] = blooms
    known = inspect.signature(pq.ParquetWriter.__init__).parameters
    return {name: value for name, value in options.items() if name in known}


def _bloom(column: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """As many distinct values as the largest filter allowed can hold, unless the property says how many there are."""
    fpp = float(properties.get(f"write.parquet.bloom-filter-fpp.column.{column}", "0.01"))
    if not 0 < fpp < 1:
        raise InvalidArgument(f"the bloom filter of {column!r} has a false positive rate of {fpp}", hint="0.01, say")
    most = whole(properties, "write.parquet.bloom-filter-max-bytes", 1 << 20)
    fits = int(-most * math.log(1 - fpp ** (1 / 8)))
    return {"ndv": min(fits, whole(properties, f"write.parquet.bloom-filter-ndv.column.{column}", fits)), "fpp": fpp}
