"""Avro schemas of Iceberg schemas (Appendix A of the specification): ids as properties, optional fields as unions.

>>> from frazil.model.types import LongType, NestedField
>>> avro_schema(Schema((NestedField(1, "id", LongType()),)))["fields"]
[{'name': 'id', 'type': ['null', 'long'], 'default': None, 'field-id': 1}]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frazil.model.schema import Schema
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
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


def _long(logical: str, **more: Any) -> dict[str, Any]:
    return {"type": "long", "logicalType": logical, **more}


_PLAIN: Mapping[type[Type], str | dict[str, Any]] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    GeometryType: "bytes",
    GeographyType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimeType: _long("time-micros"),
    TimestampType: _long("timestamp-micros", **{"adjust-to-utc": False}),
    TimestamptzType: _long("timestamp-micros", **{"adjust-to-utc": True}),
    TimestampNsType: _long("timestamp-nanos", **{"adjust-to-utc": False}),
    TimestamptzNsType: _long("timestamp-nanos", **{"adjust-to-utc": True}),
}


def avro_schema(schema: Schema, name: str = "table") -> dict[str, Any]:
    """The Avro record of a schema. Columns of type unknown must have been left out."""
    return _Names().record(schema.as_struct, name)


def decimal_bytes(precision: int) -> int:
    """The fewest bytes that hold every decimal of the precision.

    >>> decimal_bytes(9), decimal_bytes(38)
    (4, 16)
    """
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


class _Names:
    """Avro defines a named type once and refers to it by name after that."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def record(self, struct: StructType, name: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [self.field(column) for column in struct.fields]}

    def field(self, column: NestedField) -> dict[str, Any]:
        result: dict[str, Any] = {"name": avro_name(column.name), "type": self.optional(column)}
        if column.optional:
            result["default"] = None
        if result["name"] != column.name:
            result["iceberg-field-name"] = column.name
        if column.doc is not None:
            result["doc"] = column.doc
        return {**result, "field-id": column.id}

    def optional(self, column: NestedField) -> Any:
        inner = self.type(column)
        return inner if column.required else ["null", inner]

    def type(self, column: NestedField) -> Any:
        type_ = column.type
        if isinstance(type_, StructType):
            return self.record(type_, f"r{column.id}")
        if isinstance(type_, VariantType):
            parts = [{"name": part, "type": "bytes"} for part in ("metadata", "value")]
            return {"type": "record", "logicalType": "variant", "name": f"r{column.id}", "fields": parts}
        if isinstance(type_, ListType):
            return {"type": "array", "items": self.optional(type_.element), "element-id": type_.element.id}
        if isinstance(type_, MapType):
            return self.map(type_)
        if isinstance(type_, DecimalType):
            more = {"logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
            return self.fixed(f"decimal_{type_.precision}_{type_.scale}", decimal_bytes(type_.precision), more)
        if isinstance(type_, UuidType):
            return self.fixed("uuid_fixed", 16, {"logicalType": "uuid"})
        if isinstance(type_, FixedType):
            return self.fixed(f"fixed_{type_.length}", type_.length, {})
        return _PLAIN[type(type_)]

    def map(self, type_: MapType) -> dict[str, Any]:
        key, value = type_.key, type_.value
        if isinstance(key.type, StringType):
            return {"type": "map", "values": self.optional(value), "key-id": key.id, "value-id": value.id}
        pair = StructType((key, value))
        return {"type": "array", "logicalType": "map", "items": self.record(pair, f"k{key.id}_v{value.id}")}

    def fixed(self, name: str, size: int, more: dict[str, Any]) -> str | dict[str, Any]:
        if name in self._seen:
            return name
        self._seen.add(name)
        return {"type": "fixed", "name": name, "size": size, **more}


def avro_name(name: str) -> str:
    """The name with everything that Avro forbids replaced, as Java does it.

    >>> avro_name("a b"), avro_name("1st"), avro_name("ok_1")
    ('a_x20b', '_1st', 'ok_1')
    """
    parts = []
    for index, character in enumerate(name):
        if character == "_" or (character.isascii() and character.isalpha()):
            parts.append(character)
        elif character.isascii() and character.isdigit():
            parts.append(character if index else f"_{character}")
        else:
            parts.append("".join(f"_x{unit:X}" for unit in _utf16(character)))
    return "".join(parts)


def _utf16(character: str) -> list[int]:
    data = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
