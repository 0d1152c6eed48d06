"""ORC data files, written with field ids and Iceberg's types as ORC type attributes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from frazil.errors import InvalidValue
from frazil.io.written_file import DataFileWriter, OpenSink, choice, whole
from frazil.model.arrow import VARIANT_STORAGE, rebuild_list, rebuild_map, rebuild_struct, type_to_arrow
from frazil.model.schema import Schema
from frazil.model.types import (
    BinaryType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UuidType,
    VariantType,
)

_CODECS = {"zlib": "zlib", "zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "none": "uncompressed"}
_USUAL_SHARE = 0.5
_SAMPLE_ROWS = 100_000
_MAGIC_BYTES = 3
"""What a file begins with, before any stripe."""
_PER_SECOND = {"us": 10**6, "ns": 10**9}


class OrcWriter(DataFileWriter):
    """Writes an ORC file; see the `write.orc.*` table properties."""

    file_format = "orc"

    def _start(self, properties: Mapping[str, str]) -> None:
        self._options = {
            "compression": choice(properties, "write.orc.compression-codec", "zlib", _CODECS),
            "compression_strategy": choice(
                properties, "write.orc.compression-strategy", "speed", {"speed": "speed", "compression": "compression"}
            ),
            "stripe_size": whole(properties, "write.orc.stripe-size-bytes", 64 << 20),
        }
        self._orc_schema = orc_schema(self.stored_schema)
        self._waiting = self._stored = 0
        self._share: float | None = None

    def _open(self) -> None:
        self._output = OpenSink(self._sink)
        self._writer = orc.ORCWriter(self._output, **self._options)
        self._written = False

    @property
    def estimated_bytes(self) -> int:
        share = self._sink.tell() / self._stored if self._stored else self._share or _USUAL_SHARE
        return self._sink.tell() + int(self._waiting * share)

    @property
    def waiting_bytes(self) -> int:
        return self._waiting // 2

    def reaches(self, target: int) -> bool:
        if self.estimated_bytes < target:
            return False
        if not self._stored and self._share is None:  # a stripe cannot be ended early: some rows tell how small it gets
            sample = pa.BufferOutputStream()
            with orc.ORCWriter(sample, **self._options) as writer:
                writer.write(self._last)
            self._share = sample.getvalue().size / max(1, self._last.nbytes)
        return self.estimated_bytes >= target

    def _append(self, batch: pa.RecordBatch) -> None:
        arrays = [
            _whole(_storage(array, column.type, field.type))
            for array, column, field in zip(batch.columns, self.stored_schema.fields, self._orc_schema, strict=True)
        ]
        before = self._sink.tell()
        rows = pa.Table.from_arrays(arrays, schema=self._orc_schema)
        self._writer.write(rows)
        self._written = True
        self._last = rows.slice(0, _SAMPLE_ROWS)
        self._waiting += batch.nbytes
        if self._sink.tell() - before > _MAGIC_BYTES:
            self._stored, self._waiting = self._stored + self._waiting, 0

    def _finish(self) -> tuple[dict[int, int], tuple[int, ...]]:
        if not self._written:
            self._writer.write(self._orc_schema.empty_table())
        self._writer.close()
        return {}, ()

    def abort(self) -> None:
        """Give up; nothing is left at the location."""
        super().abort()
        self._output.drop()


def orc_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema that pyarrow writes as the ORC schema, its field metadata becoming type attributes."""
    return pa.schema([_field(column) for column in schema.fields])


def _field(column: NestedField, name: str | None = None) -> pa.Field:
    attributes = {"iceberg.id": str(column.id), "iceberg.required": "true" if column.required else "false"}
    attributes.update(_attributes(column.type))
    return pa.field(name or column.name, _type(column.type), nullable=column.optional, metadata=attributes)


def _attributes(type_: Type) -> dict[str, str]:
    match type_:
        case LongType():
            return {"iceberg.long-type": "LONG"}
        case TimeType():
            return {"iceberg.long-type": "TIME"}
        case TimestampType() | TimestamptzType():
            return {"iceberg.timestamp-unit": "MICROS"}
        case TimestampNsType() | TimestamptzNsType():
            return {"iceberg.timestamp-unit": "NANOS"}
        case BinaryType():
            return {"iceberg.binary-type": "BINARY"}
        case UuidType():
            return {"iceberg.binary-type": "UUID"}
        case FixedType():
            return {"iceberg.binary-type": "FIXED", "iceberg.length": str(type_.length)}
        case GeometryType():
            return {"iceberg.binary-type": "GEOMETRY"}
        case GeographyType():
            return {"iceberg.binary-type": "GEOGRAPHY"}
        case VariantType():
            return {"iceberg.struct-type": "VARIANT"}
    return {}


def _type(type_: Type) -> pa.DataType:
    match type_:
        case StructType():
            return pa.struct([_field(column) for column in type_.fields])
        case ListType():
            return pa.list_(_field(type_.element))
        case MapType():
            return pa.map_(_field(type_.key), _field(type_.value))
        case TimeType():
            return pa.int64()
        case UuidType() | FixedType():
            return pa.binary()
        case VariantType():
            return VARIANT_STORAGE
    return type_to_arrow(type_)


def _whole(array: pa.Array) -> pa.Array:
    """The array as one of its own: of a slice of structs pyarrow would write the rows before it."""
    return array.take(pa.array(np.arange(len(array)))) if pa.types.is_nested(array.type) else array


def _storage(array: pa.Array, type_: Type, target: pa.DataType) -> pa.Array:
    """The array as ORC stores its type."""
    match type_:
        case StructType():
            parts = [
                _storage(array.field(index), column.type, target.field(index).type)
                for index, column in enumerate(type_.fields)
            ]
            return rebuild_struct(array, parts, target)
        case ListType():
            return rebuild_list(array, _storage(array.values, type_.element.type, target.value_type), target)
        case MapType():
            keys = _storage(array.keys, type_.key.type, target.key_type)
            return rebuild_map(array, keys, _storage(array.items, type_.value.type, target.item_type), target)
        case TimeType():
            return array.view(pa.int64())
        case UuidType():
            return array.storage.cast(pa.binary())
        case FixedType():
            return array.cast(pa.binary())
        case TimestampType() | TimestamptzType() | TimestampNsType() | TimestamptzNsType():
            _check_fractions(array)
    return array


def _check_fractions(array: pa.Array) -> None:
    """pyarrow writes such values with a negative fraction, which it reads back and nobody else does."""
    ticks = array.view(pa.int64())
    second = pa.scalar(_PER_SECOND[array.type.unit], pa.int64())
    whole = pc.equal(pc.multiply(pc.divide(ticks, second), second), ticks)
    bad = pc.and_not(pc.less(ticks, pa.scalar(0, pa.int64())), whole)
    if bad.true_count:
        raise InvalidValue(
            "ORC files cannot be written with fractions of seconds before 1970: other readers would misread them",
            hint="write this table as Parquet or Avro, or round the timestamps to seconds",
        )
