"""Lance's names of types, and the Arrow types that they stand for.

>>> arrow_type("timestamp:us:UTC"), logical_type(pa.list_(pa.float32(), 4))
(TimestampType(timestamp[us, tz=UTC]), 'fixed_size_list:float:4')
"""

from __future__ import annotations

import pyarrow as pa

from frazil.errors import InvalidSchema, Unsupported

JSON = "json"

_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    **{f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    JSON: pa.large_binary(),
}
_NAMES = {kind: name for name, kind in _SIMPLE.items() if name != JSON} | {
    pa.string_view(): "string",
    pa.binary_view(): "binary",
}
NESTED = frozenset({"struct", "list", "list.struct", "large_list", "large_list.struct", "map"})
"""Types whose fields are fields of their own."""


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a logical type without fields; Unsupported if there is none."""
    if name in _SIMPLE:
        return _SIMPLE[name]
    kind, _, rest = name.partition(":")
    try:
        match kind:
            case "decimal":
                width, precision, scale = map(int, rest.split(":"))
                return (pa.decimal256 if width == 256 else pa.decimal128)(precision, scale)
            case "timestamp":
                unit, _, zone = rest.partition(":")
                return pa.timestamp(unit, None if zone in ("-", "") else zone)
            case "time32":
                return pa.time32(rest)
            case "time64":
                return pa.time64(rest)
            case "duration":
                return pa.duration(rest)
            case "fixed_size_binary":
                return pa.binary(int(rest))
            case "fixed_size_list":
                item, _, size = rest.rpartition(":")
                return pa.list_(pa.field("item", arrow_type(item)), int(size))
            case "dict":
                # the value type may have colons of its own: dict:<values>:<keys>:<ordered>
                values, keys, ordered = rest.rsplit(":", 2)
                return pa.dictionary(arrow_type(keys), arrow_type(values), ordered == "true")
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise Unsupported(
            f"the Lance type {name!r} makes no sense: {error}", hint="the table's schema is damaged"
        ) from error
    raise Unsupported(f"the Lance type {name!r} is not known", hint="a newer release of frazil may know it")


def logical_type(kind: pa.DataType) -> str:
    """The logical type of an Arrow type; an InvalidSchema for one that Lance cannot hold."""
    if isinstance(kind, pa.BaseExtensionType):
        return logical_type(kind.storage_type)
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal128(kind) or pa.types.is_decimal256(kind):
        return f"decimal:{kind.bit_width}:{kind.precision}:{kind.scale}"
    if pa.types.is_timestamp(kind):
        return f"timestamp:{kind.unit}:{kind.tz or '-'}"
    if pa.types.is_time(kind):
        return f"time{kind.bit_width}:{kind.unit}"
    if pa.types.is_duration(kind):
        return f"duration:{kind.unit}"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed_size_binary:{kind.byte_width}"
    if pa.types.is_dictionary(kind):
        return f"dict:{logical_type(kind.value_type)}:{logical_type(kind.index_type)}:false"
    if pa.types.is_struct(kind):
        return "struct"
    if pa.types.is_map(kind):
        return "map"
    if pa.types.is_fixed_size_list(kind):
        return f"fixed_size_list:{logical_type(kind.value_type)}:{kind.list_size}"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        large = "large_" if pa.types.is_large_list(kind) else ""
        return f"{large}list{'.struct' if pa.types.is_struct(kind.value_type) else ''}"
    raise InvalidSchema(f"Lance has no type for Arrow's {kind}", hint="cast the column to another type first")
