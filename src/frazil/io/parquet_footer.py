"""Logical types that pyarrow cannot write yet, put into the footer of a Parquet file before it is written out.

Readers find variants, geometries and geographies by the logical type of their schema element. The footer is a Thrift
struct (compact protocol) whose second field is the list of schema elements; each gets one more field at its end, and
nothing else changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from frazil.errors import Unsupported
from frazil.model.types import GEOGRAPHY_ALGORITHMS, GeographyType, GeometryType, Type, VariantType

MAGIC = b"PAR1"
_EDGES = ("spherical", "vincenty", "thomas", "andoyer", "karney")
assert set(_EDGES) == GEOGRAPHY_ALGORITHMS

_BYTE, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 3, 4, 5, 6, 8, 9, 12
_SCHEMA, _FIELD_ID, _LOGICAL_TYPE = 2, 9, 10


def annotate(tail: bytes, types: Mapping[int, Type]) -> bytes:
    """The end of a Parquet file, from the footer on, with the logical types of these fields (by id) added."""
    footer = tail[:-8]
    if tail[-4:] != MAGIC or int.from_bytes(tail[-8:-4], "little") != len(footer):
        raise Unsupported("pyarrow wrote a footer in more pieces than expected", hint="report this with its version")
    reader = _Reader(footer)
    parts: list[bytes] = []
    copied = 0
    number = 0
    while True:
        number, kind = reader.field(number)
        if number == _SCHEMA and kind == _LIST:
            break
        reader.skip(kind)
    count, _ = reader.list_header()
    for _ in range(count):
        last, field_id, has_type = reader.schema_element()
        if field_id is not None and field_id in types and not has_type:
            end = reader.at - 1  # before the byte that ends the struct
            parts += [footer[copied:end], bytes([_LOGICAL_TYPE - last << 4 | _STRUCT]), _logical_type(types[field_id])]
            copied = end
    new = b"".join([*parts, footer[copied:]])
    return new + len(new).to_bytes(4, "little") + MAGIC


def _logical_type(type_: Type) -> bytes:
    """The union LogicalType with one member set, as a Thrift struct."""
    if isinstance(type_, VariantType):
        return _union(16, bytes([1 << 4 | _BYTE, 1, 0]))  # specification_version = 1
    if isinstance(type_, GeometryType):
        return _union(17, _text(1, type_.crs) + b"\x00")
    assert isinstance(type_, GeographyType)
    algorithm = bytes([1 << 4 | _I32]) + _varint(_EDGES.index(type_.algorithm) << 1)
    return _union(18, _text(1, type_.crs) + algorithm + b"\x00")


def _union(member: int, struct: bytes) -> bytes:
    # ids above 15 do not fit the short field header: type, then the id as a zigzag varint
    return bytes([_STRUCT]) + _varint(member << 1) + struct + b"\x00"


def _text(delta: int, text: str) -> bytes:
    data = text.encode()
    return bytes([delta << 4 | _BINARY]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class _Reader:
    """Just enough of Thrift's compact protocol to walk over a footer that pyarrow wrote."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def field(self, last: int) -> tuple[int, int]:
        """(id, type) of the next field of a struct; type 0 at its end."""
        head = self._byte()
        if head == 0:
            return last, 0
        number = last + (head >> 4)
        if head >> 4 == 0:
            raw = self._varint()
            number = raw >> 1 ^ -(raw & 1)
        return number, head & 0x0F

    def list_header(self) -> tuple[int, int]:
        head = self._byte()
        return (self._varint() if head >> 4 == 15 else head >> 4), head & 0x0F

    def schema_element(self) -> tuple[int, int | None, bool]:
        """Steps over a SchemaElement: the last field id in it, the column's field id, whether it has a logical type."""
        last, column, has_type = 0, None, False
        while True:
            number, kind = self.field(last)
            if kind == 0:
                return last, column, has_type
            last = number
            if number == _FIELD_ID and kind == _I32:
                raw = self._varint()
                column = raw >> 1 ^ -(raw & 1)
                continue
            has_type = has_type or number == _LOGICAL_TYPE
            self.skip(kind)

    def skip(self, kind: int) -> None:
        """Step over a value."""
        if kind in (1, 2):  # booleans live in their header
            return
        if kind == _BYTE:
            self.at += 1
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _BINARY:
            size = self._varint()
            self.at += size
        elif kind == _STRUCT:
            number = 0
            while True:
                number, inner = self.field(number)
                if inner == 0:
                    return
                self.skip(inner)
        else:
            raise Unsupported(f"a Parquet footer has a Thrift type {kind} in its schema", hint="report this")
