"""The types of Iceberg v1 to v3, immutable, with the text and JSON forms of the specification.

>>> parse_type("decimal( 9, 2 )")
DecimalType(precision=9, scale=2)
>>> str(ListType(NestedField(3, "element", StringType(), required=True)))
'list<string>'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from frazil.errors import InvalidSchema

MAX_FIELD_ID = 2147483447
"""Ids above this one are reserved for metadata columns."""

MAX_TYPE_DEPTH = 64
"""Nesting deeper than this is refused: no table has it, and hostile JSON does."""

GEOGRAPHY_ALGORITHMS = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})
DEFAULT_CRS = "OGC:CRS84"


class Type:
    """A type of any kind."""

    __slots__ = ()
    added_in: ClassVar[int] = 1
    """The first format version that allows the type."""

    @property
    def is_primitive(self) -> bool:
        return isinstance(self, PrimitiveType)

    @property
    def is_nested(self) -> bool:
        return isinstance(self, StructType | ListType | MapType)


class PrimitiveType(Type):
    """A type without fields. `str()` gives the specification's name of it."""

    __slots__ = ()
    name: ClassVar[str]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class UnknownType(PrimitiveType):
    """A column whose type is not known yet: always null, in no data file."""

    name = "unknown"
    added_in = 3
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class BooleanType(PrimitiveType):
    """True or false."""

    name = "boolean"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class IntegerType(PrimitiveType):
    """32-bit signed integer."""

    name = "int"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class LongType(PrimitiveType):
    """64-bit signed integer."""

    name = "long"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class FloatType(PrimitiveType):
    """32-bit IEEE 754 floating point."""

    name = "float"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class DoubleType(PrimitiveType):
    """64-bit IEEE 754 floating point."""

    name = "double"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class DecimalType(PrimitiveType):
    """Fixed-point number of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= 38:
            raise InvalidSchema(
                f"decimal precision {self.precision} is outside 1..38", hint="use decimal(38, s) at most"
            )

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class DateType(PrimitiveType):
    """A day of the calendar."""

    name = "date"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class TimeType(PrimitiveType):
    """Time of day in microseconds."""

    name = "time"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class TimestampType(PrimitiveType):
    """Microseconds, without time zone."""

    name = "timestamp"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class TimestamptzType(PrimitiveType):
    """Microseconds, a point in time (UTC)."""

    name = "timestamptz"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class TimestampNsType(PrimitiveType):
    """Nanoseconds, without time zone."""

    name = "timestamp_ns"
    added_in = 3
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class TimestamptzNsType(PrimitiveType):
    """Nanoseconds, a point in time (UTC)."""

    name = "timestamptz_ns"
    added_in = 3
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class StringType(PrimitiveType):
    """UTF-8 text of any length."""

    name = "string"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class UuidType(PrimitiveType):
    """A universally unique identifier."""

    name = "uuid"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class FixedType(PrimitiveType):
    """Exactly `length` bytes."""

    length: int

    def __post_init__(self) -> None:
        if self.length < 0:
            raise InvalidSchema(f"fixed[{self.length}] has a negative length", hint="use fixed[n] with n >= 0")

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@dataclass(frozen=True, slots=True)
class BinaryType(PrimitiveType):
    """Bytes of any length."""

    name = "binary"
    __str__ = PrimitiveType.__str__


@dataclass(frozen=True, slots=True)
class GeometryType(PrimitiveType):
    """Planar features, stored as WKB, in the coordinate system `crs`."""

    crs: str = DEFAULT_CRS
    added_in = 3

    def __str__(self) -> str:
        return "geometry" if self.crs == DEFAULT_CRS else f"geometry({self.crs})"


@dataclass(frozen=True, slots=True)
class GeographyType(PrimitiveType):
    """Features on a globe, stored as WKB; edges follow `algorithm`."""

    crs: str = DEFAULT_CRS
    algorithm: str = "spherical"
    added_in = 3

    def __post_init__(self) -> None:
        if self.algorithm not in GEOGRAPHY_ALGORITHMS:
            raise InvalidSchema(
                f"unknown edge algorithm {self.algorithm!r}", hint=f"one of {', '.join(sorted(GEOGRAPHY_ALGORITHMS))}"
            )

    def __str__(self) -> str:
        if self.algorithm != "spherical":
            return f"geography({self.crs}, {self.algorithm})"
        return "geography" if self.crs == DEFAULT_CRS else f"geography({self.crs})"


@dataclass(frozen=True, slots=True)
class VariantType(Type):
    """Semi-structured values: neither primitive nor nested."""

    added_in = 3

    def __str__(self) -> str:
        return "variant"


@dataclass(frozen=True, slots=True)
class NestedField:
    """A named, numbered field of a struct; also the element of a list and the key and value of a map.

    Defaults are canonical values (see `model.values`); None means null. The default of a struct is None or `{}`.
    """

    id: int
    name: str
    type: Type
    required: bool = False
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None

    def __post_init__(self) -> None:
        named: object = self.name
        if not isinstance(named, str) or not isinstance(self.doc, str | None):
            raise InvalidSchema(
                f"a column is named {self.name!r}, with the comment {self.doc!r}", hint="names and comments are texts"
            )

    @property
    def optional(self) -> bool:
        return not self.required

    def __str__(self) -> str:
        return f"{self.id}: {self.name}: {'required' if self.required else 'optional'} {self.type}"


@dataclass(frozen=True, slots=True)
class StructType(Type):
    """Named fields in order."""

    fields: tuple[NestedField, ...]

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidSchema(f"two fields are named {twice!r}", hint="names must be unique within a struct")

    def field(self, name: str) -> NestedField | None:
        """The field of that name, or None."""
        return next((field for field in self.fields if field.name == name), None)

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"


@dataclass(frozen=True, slots=True)
class ListType(Type):
    """A sequence of one element type."""

    element: NestedField

    @property
    def fields(self) -> tuple[NestedField, ...]:
        return (self.element,)

    def __str__(self) -> str:
        return f"list<{self.element.type}>"


@dataclass(frozen=True, slots=True)
class MapType(Type):
    """Keys (required) to values."""

    key: NestedField
    value: NestedField

    @property
    def fields(self) -> tuple[NestedField, ...]:
        return (self.key, self.value)

    def __str__(self) -> str:
        return f"map<{self.key.type}, {self.value.type}>"


def list_of(element_id: int, element: Type, *, required: bool = False) -> ListType:
    """A list type, its element named as the specification names it."""
    return ListType(NestedField(element_id, "element", element, required))


def map_of(key_id: int, key: Type, value_id: int, value: Type, *, required: bool = False) -> MapType:
    """A map type; `required` is of the value, a key always is."""
    return MapType(NestedField(key_id, "key", key, True), NestedField(value_id, "value", value, required))


def children(type_: Type) -> tuple[NestedField, ...]:
    """The fields directly inside a type: none for a primitive or a variant."""
    return type_.fields if isinstance(type_, StructType | ListType | MapType) else ()


def walk(type_: Type) -> Iterator[NestedField]:
    """All fields inside a type, outer before inner."""
    for field in children(type_):
        yield field
        yield from walk(field.type)


SIMPLE_TYPES: Mapping[str, Type] = {
    "unknown": UnknownType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
    "timestamp_ns": TimestampNsType(),
    "timestamptz_ns": TimestamptzNsType(),
    "string": StringType(),
    "uuid": UuidType(),
    "binary": BinaryType(),
    "variant": VariantType(),
    "geometry": GeometryType(),
    "geography": GeographyType(),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_GEOMETRY = re.compile(r"geometry\(\s*([^,()\s][^,()]*?)\s*\)")
_GEOGRAPHY = re.compile(r"geography\(\s*([^,()\s][^,()]*?)\s*(?:,\s*(\w+)\s*)?\)")


def parse_type(text: str) -> Type:
    """A primitive or variant type from the specification's text form."""
    plain = text.strip().lower()
    if plain in SIMPLE_TYPES:
        return SIMPLE_TYPES[plain]
    if found := _DECIMAL.fullmatch(plain):
        return DecimalType(int(found[1]), int(found[2]))
    if found := _FIXED.fullmatch(plain):
        return FixedType(int(found[1]))
    if found := _GEOMETRY.fullmatch(text.strip()):
        return GeometryType(found[1])
    if found := _GEOGRAPHY.fullmatch(text.strip()):
        return GeographyType(found[1], (found[2] or "spherical").lower())
    raise InvalidSchema(f"unknown type {text!r}", hint="see the primitive types of the Iceberg specification")
