"""Variants: the binary encoding of semi-structured values (Parquet's VariantEncoding), read, built and checked.

A variant is two byte strings, the metadata (a dictionary of field names) and the value. Decoded it is a `Node`, which
keeps the physical type, or a plain Python value.

>>> metadata, value = encode({"a": 1, "b": [True, None, "x"]})
>>> decode(metadata, value)
{'a': 1, 'b': [True, None, 'x']}
>>> to_json(metadata, value)
'{"a":1,"b":[true,null,"x"]}'
>>> read_node(metadata, value).value["a"]
Node(kind='int8', value=1)
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import itertools
import json
import math
import struct
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from frazil.errors import InvalidValue, MalformedData
from frazil.model.temporal import format_date, format_time, format_timestamp

MAX_DEPTH = 128
"""Values that nest deeper are refused: no data do, and hostile bytes may."""

EMPTY_METADATA = b"\x01\x00\x00"
NULL = b"\x00"

KINDS = (
    *("null", "true", "false", "int8", "int16", "int32", "int64", "double", "decimal4", "decimal8", "decimal16"),
    *("date", "timestamptz", "timestampntz", "float", "binary", "string", "time"),
    *("timestamptz_nanos", "timestampntz_nanos", "uuid"),
)
"""Names of the primitive types, by their number in the encoding."""
_NUMBER = {name: number for number, name in enumerate(KINDS)}
_FIXED = {
    "int8": "<b",
    "int16": "<h",
    "int32": "<i",
    "int64": "<q",
    "double": "<d",
    "float": "<f",
    "date": "<i",
    "timestamptz": "<q",
    "timestampntz": "<q",
    "time": "<q",
    "timestamptz_nanos": "<q",
    "timestampntz_nanos": "<q",
}
_DECIMAL_BYTES = {"decimal4": 4, "decimal8": 8, "decimal16": 16}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Node(NamedTuple):
    """A decoded value with its physical type.

    `kind` is one of null, boolean, the names in `KINDS` but true and false, array (a list of nodes), or object (a dict
    of nodes). Dates are days, times and timestamps micro- or nanoseconds, as integers.
    """

    kind: str
    value: Any


# Reading.


def read_metadata(metadata: bytes) -> list[str]:
    """The field names of the dictionary, in its order."""
    names, end = _read_dictionary(metadata)
    if end > len(metadata):
        raise _damaged("the dictionary ends after its bytes do")
    return names


def metadata_size(data: bytes) -> int:
    """How many bytes the metadata at the start of `data` takes (bounds store metadata and value in one string)."""
    return _read_dictionary(data)[1]


def _read_dictionary(metadata: bytes) -> tuple[list[str], int]:
    if not metadata or metadata[0] & 0x0F != 1:
        raise _damaged("it is not version 1")
    width = (metadata[0] >> 6) + 1
    count = _unsigned(metadata, 1, width)
    start = 1 + width * (count + 2)
    if start > len(metadata):
        raise _damaged(f"it claims {count} field names")
    offsets = [_unsigned(metadata, 1 + width * (index + 1), width) for index in range(count + 1)]
    if offsets[0] != 0 or any(a > b for a, b in itertools.pairwise(offsets)):
        raise _damaged("the offsets of its field names do not ascend")
    if start + offsets[-1] > len(metadata):
        raise _damaged("its field names end after its bytes do")
    try:
        names = [str(metadata[start + a : start + b], "utf-8") for a, b in itertools.pairwise(offsets)]
    except UnicodeDecodeError as error:
        raise _damaged("a field name is not UTF-8") from error
    return names, start + offsets[-1]


def read_node(metadata: bytes, value: bytes) -> Node:
    """Decode a variant, keeping physical types. Anything malformed is a MalformedData."""
    return _read(read_metadata(metadata), value, 0, len(value), 0)


def _read(names: Sequence[str], data: bytes, at: int, end: int, depth: int) -> Node:
    if at >= end:
        raise _damaged("a value is empty")
    if depth > MAX_DEPTH:
        raise _damaged(f"it nests deeper than {MAX_DEPTH}")
    basic, header = data[at] & 3, data[at] >> 2
    if basic == 0:
        return _read_primitive(data, at + 1, end, header)
    if basic == 1:
        return Node("string", _text(data, at + 1, header, end))
    if basic == 3:
        return Node("array", [_read(names, data, a, b, depth + 1) for a, b in _elements(data, at, end)])
    fields: dict[str, Node] = {}
    for number, a, b in object_fields(data, at, end):
        if number >= len(names):
            raise _damaged(f"field id {number} is not in its dictionary")
        if names[number] in fields:
            raise _damaged(f"field {names[number]!r} stands in one object twice")
        fields[names[number]] = _read(names, data, a, b, depth + 1)
    return Node("object", fields)


def _elements(data: bytes, at: int, end: int) -> list[tuple[int, int]]:
    """Where the elements of the array at `at` begin, and where they must end."""
    header = data[at] >> 2
    width, large = (header & 3) + 1, header >> 2 & 1
    count = _unsigned(data, at + 1, 4 if large else 1, end)
    offsets_at = at + 1 + (4 if large else 1)
    start = offsets_at + width * (count + 1)
    if start > end:
        raise _damaged(f"an array claims {count} elements")
    offsets = [_unsigned(data, offsets_at + width * index, width) for index in range(count + 1)]
    if any(a > b for a, b in itertools.pairwise(offsets)) or start + offsets[-1] > end:
        raise _damaged("the offsets of an array are out of range")
    return [(start + a, start + b) for a, b in itertools.pairwise(offsets)]


def object_fields(data: bytes, at: int, end: int) -> list[tuple[int, int, int]]:
    """(dictionary id, start, end) of the fields of the object at `at`, in the order it lists them."""
    header = data[at] >> 2
    width, id_width, large = (header & 3) + 1, (header >> 2 & 3) + 1, header >> 4 & 1
    count = _unsigned(data, at + 1, 4 if large else 1, end)
    ids_at = at + 1 + (4 if large else 1)
    offsets_at = ids_at + id_width * count
    start = offsets_at + width * (count + 1)
    if start > end:
        raise _damaged(f"an object claims {count} fields")
    ids = [_unsigned(data, ids_at + id_width * index, id_width) for index in range(count)]
    offsets = [_unsigned(data, offsets_at + width * index, width) for index in range(count + 1)]
    if any(offset > offsets[-1] for offset in offsets) or start + offsets[-1] > end:
        raise _damaged("the offsets of an object are out of range")
    # values may lie in any order: each ends where the next one begins
    ends = dict(zip(ordered := sorted(offsets), [*ordered[1:], offsets[-1]], strict=True))
    return [(number, start + a, start + ends[a]) for number, a in zip(ids, offsets[:-1], strict=True)]


def _read_primitive(data: bytes, at: int, end: int, number: int) -> Node:
    if number >= len(KINDS):
        raise _damaged(f"primitive type {number} is unknown")
    kind = KINDS[number]
    if kind == "null":
        return Node("null", None)
    if kind in ("true", "false"):
        return Node("boolean", kind == "true")
    if kind in _FIXED:
        [value] = struct.unpack(_FIXED[kind], _slice(data, at, struct.calcsize(_FIXED[kind]), end))
        return Node(kind, value)
    if kind in _DECIMAL_BYTES:
        scale = _unsigned(data, at, 1, end)
        unscaled = int.from_bytes(_slice(data, at + 1, _DECIMAL_BYTES[kind], end), "little", signed=True)
        if scale > 38:
            raise _damaged(f"a decimal has scale {scale}")
        return Node(kind, Decimal(unscaled).scaleb(-scale, _EXACT))
    if kind == "uuid":
        return Node(kind, _slice(data, at, 16, end))
    size = _unsigned(data, at, 4, end)
    if kind == "binary":
        return Node(kind, _slice(data, at + 4, size, end))
    return Node("string", _text(data, at + 4, size, end))


_EXACT = decimal.Context(prec=60)


def _text(data: bytes, at: int, size: int, end: int) -> str:
    try:
        return _slice(data, at, size, end).decode()
    except UnicodeDecodeError as error:
        raise _damaged("a string is not UTF-8") from error


def _slice(data: bytes, at: int, size: int, end: int) -> bytes:
    if at + size > end:
        raise _damaged("a value ends after its bytes do")
    return data[at : at + size]


def _unsigned(data: bytes, at: int, width: int, end: int | None = None) -> int:
    if at + width > (len(data) if end is None else end):
        raise _damaged("it is truncated")
    return int.from_bytes(data[at : at + width], "little")


def _damaged(why: str) -> MalformedData:
    return MalformedData(f"malformed variant: {why}", hint="the file is damaged, or was written by a faulty writer")


# To Python and JSON.


def decode(metadata: bytes, value: bytes) -> Any:
    """A variant as Python values: dict, list, str, int, float, Decimal, bool, None, date, datetime, UUID, bytes.

    Times that Python's types cannot hold exactly (nanoseconds, the year 10000) become their ISO text.
    """
    return _python(read_node(metadata, value))


def _python(node: Node) -> Any:
    kind, value = node
    if kind == "object":
        return {name: _python(inner) for name, inner in value.items()}
    if kind == "array":
        return [_python(inner) for inner in value]
    if kind == "uuid":
        return uuid.UUID(bytes=value)
    try:
        if kind == "date":
            return _EPOCH.date() + dt.timedelta(days=value)
        if kind == "time":
            return (_EPOCH + dt.timedelta(microseconds=value)).time()
        if kind.startswith("timestamp"):
            micros, rest = divmod(value, 1000) if kind.endswith("nanos") else (value, 0)
            if not rest:
                moment = _EPOCH + dt.timedelta(microseconds=micros)
                return moment if kind.startswith("timestamptz") else moment.replace(tzinfo=None)
    except OverflowError:
        return _plain(node)
    return _plain(node) if kind.startswith("timestamp") else value


def to_json(metadata: bytes, value: bytes) -> str:
    """A variant as JSON text: times as ISO text, binary as base64, NaN and infinities as text."""
    return _json(read_node(metadata, value))


def _json(node: Node) -> str:
    kind, value = node
    if kind == "object":
        return "{" + ",".join(f"{json.dumps(name)}:{_json(inner)}" for name, inner in value.items()) + "}"
    if kind == "array":
        return "[" + ",".join(map(_json, value)) + "]"
    if kind in _DECIMAL_BYTES:
        return f"{value:f}"  # JSON numbers may have any number of digits
    if kind == "float":
        return json.dumps(_plain(node)) if not math.isfinite(value) else f"{value:.9g}"
    return json.dumps(_plain(node))


def _plain(node: Node) -> Any:
    kind, value = node
    if kind == "date":
        return format_date(value)
    if kind == "time":
        return format_time(value)
    if kind.startswith("timestamp"):
        text = format_timestamp(value, 9 if kind.endswith("nanos") else 6)
        return text + "+00:00" if kind.startswith("timestamptz") else text
    if kind == "binary":
        return base64.b64encode(value).decode()
    if kind == "uuid":
        return str(uuid.UUID(bytes=value))
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


# Building.


def encode(value: Any) -> tuple[bytes, bytes]:
    """A variant (metadata, value) of a Python value or a `Node`. Whole numbers take the smallest type that holds them.

    >>> encode(None)
    (b'\\x01\\x00\\x00', b'\\x00')
    """
    names: set[str] = set()
    _collect(value, names, 0)
    ordered = sorted(names, key=str.encode)
    return write_metadata(ordered), write_value(value, {name: number for number, name in enumerate(ordered)})


def _collect(value: Any, names: set[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidValue(f"the value nests deeper than {MAX_DEPTH}", hint="flatten it")
    inner = value.value if isinstance(value, Node) else value
    if isinstance(inner, Mapping):
        for name, item in inner.items():
            if not isinstance(name, str):
                raise InvalidValue(f"{name!r} cannot name a field of a variant", hint="use text for keys")
            names.add(name)
            _collect(item, names, depth + 1)
    elif isinstance(inner, list | tuple):
        for item in inner:
            _collect(item, names, depth + 1)


def write_metadata(names: Sequence[str]) -> bytes:
    """The dictionary of these field names; marked as sorted, which they must be."""
    encoded = [name.encode() for name in names]
    total = sum(map(len, encoded))
    width = _width(max(total, len(encoded)))
    parts = [bytes([1 | 1 << 4 | width - 1 << 6]) if encoded else b"\x01", len(encoded).to_bytes(width, "little")]
    offset = 0
    for text in encoded:
        parts.append(offset.to_bytes(width, "little"))
        offset += len(text)
    return b"".join([*parts, total.to_bytes(width, "little"), *encoded])


def write_value(value: Any, dictionary: Mapping[str, int]) -> bytes:
    """The value bytes of a Python value or a `Node`, its field names numbered by the dictionary."""
    kind, plain = value if isinstance(value, Node) else _kind_of(value)
    if kind == "object":
        return write_object({name: write_value(item, dictionary) for name, item in plain.items()}, dictionary)
    if kind == "array":
        return write_array([write_value(item, dictionary) for item in plain])
    return write_primitive(kind, plain)


def write_object(fields: Mapping[str, bytes], dictionary: Mapping[str, int]) -> bytes:
    """An object of encoded fields."""
    ordered = sorted(fields.items(), key=lambda pair: pair[0].encode())
    try:
        ids = [dictionary[name] for name, _ in ordered]
    except KeyError as error:
        raise _damaged(f"field {error.args[0]!r} is not in its dictionary") from error
    payload = [data for _, data in ordered]
    total = sum(map(len, payload))
    width, id_width, large = _width(total), _width(max(ids, default=0)), len(ids) > 255
    header = 2 | (width - 1) << 2 | (id_width - 1) << 4 | large << 6
    head = bytes([header]) + len(ids).to_bytes(4 if large else 1, "little")
    return b"".join(
        [head, *(number.to_bytes(id_width, "little") for number in ids), _offsets(payload, width), *payload]
    )


def write_array(elements: Sequence[bytes]) -> bytes:
    """An array of encoded elements."""
    width, large = _width(sum(map(len, elements))), len(elements) > 255
    head = bytes([3 | (width - 1) << 2 | large << 4]) + len(elements).to_bytes(4 if large else 1, "little")
    return b"".join([head, _offsets(elements, width), *elements])


def _offsets(parts: Sequence[bytes], width: int) -> bytes:
    offsets, total = [(0).to_bytes(width, "little")], 0
    for part in parts:
        total += len(part)
        offsets.append(total.to_bytes(width, "little"))
    return b"".join(offsets)


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)


def write_primitive(kind: str, value: Any) -> bytes:
    """A primitive of the named physical type (the kinds of `Node`)."""
    if kind == "boolean":
        kind = "true" if value else "false"
    if kind == "string":
        text = value.encode()
        return bytes([1 | len(text) << 2]) + text if len(text) < 64 else _sized(kind, text)
    head = bytes([_NUMBER[kind] << 2])
    if kind in ("null", "true", "false"):
        return head
    if kind in _FIXED:
        return head + struct.pack(_FIXED[kind], value)
    if kind in _DECIMAL_BYTES:
        scale = -value.as_tuple().exponent
        unscaled = int(value.scaleb(scale, _EXACT))
        return head + bytes([scale]) + unscaled.to_bytes(_DECIMAL_BYTES[kind], "little", signed=True)
    return head + value if kind == "uuid" else _sized(kind, value)


def _sized(kind: str, data: bytes) -> bytes:
    return bytes([_NUMBER[kind] << 2]) + len(data).to_bytes(4, "little") + data


def _kind_of(value: Any) -> Node:
    if value is None:
        return Node("null", None)
    if isinstance(value, bool):
        return Node("boolean", value)
    if isinstance(value, int):
        for bits in (8, 16, 32, 64):
            if -(1 << bits - 1) <= value < 1 << bits - 1:
                return Node(f"int{bits}", value)
        value = Decimal(value)
    if isinstance(value, Decimal) and value.is_finite():
        return _decimal_node(value)
    simple: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (float, "double"),
        (str, "string"),
        (bytes, "binary"),
        (Mapping, "object"),
        ((list, tuple), "array"),
    )
    for accepted, kind in simple:
        if isinstance(value, accepted):
            return Node(kind, value)
    if isinstance(value, uuid.UUID):
        return Node("uuid", value.bytes)
    if isinstance(value, dt.datetime):
        kind = "timestampntz" if value.tzinfo is None else "timestamptz"
        moment = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
        return Node(kind, (moment - _EPOCH) // dt.timedelta(microseconds=1))
    if isinstance(value, dt.date):
        return Node("date", (value - _EPOCH.date()).days)
    if isinstance(value, dt.time):
        return Node("time", ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond)
    raise InvalidValue(f"{value!r} cannot be stored in a variant", hint="use JSON-like values, dates, UUIDs or bytes")


def _decimal_node(value: Decimal) -> Node:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    if exponent > 0:
        value, exponent = value.quantize(Decimal(1), context=_EXACT), 0
    digits = max(len(value.as_tuple().digits), -exponent)
    for limit, kind in ((9, "decimal4"), (18, "decimal8"), (38, "decimal16")):
        if digits <= limit:
            return Node(kind, value)
    raise InvalidValue(f"{value} has more than 38 digits", hint="a variant holds decimals of 38 digits at most")
