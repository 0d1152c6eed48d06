"""Geometries as WKB and as WKT (ISO, with Z and M), and the points that bound them in manifests.

>>> wkb_to_wkt(wkt_to_wkb("LINESTRING Z (1 2 3, 4 5 6.5)"))
'LINESTRING Z (1 2 3, 4 5 6.5)'
"""

from __future__ import annotations

import math
import re
import struct

from frazil.errors import InvalidValue

_KINDS = ("POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION")
_DIMENSIONS = (("", 2), (" Z", 3), (" M", 3), (" ZM", 4))
_TOKEN = re.compile(r"\s*([A-Za-z]+|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[(),])")
_MAX_DEPTH = 32


def geo_bound_to_bytes(x: float, y: float, z: float | None = None, m: float | None = None) -> bytes:
    """The bound of a geometry or geography column: x:y[:z[:m]], with NaN for a z that is not set though m is."""
    point = [x, y]
    if z is not None or m is not None:
        point.append(math.nan if z is None else z)
    if m is not None:
        point.append(m)
    return struct.pack(f"<{len(point)}d", *point)


def geo_bound_from_bytes(data: bytes) -> tuple[float, float, float | None, float | None]:
    """x, y, z and m of a bound; what is not set is None.

    >>> geo_bound_from_bytes(geo_bound_to_bytes(1.0, 2.0, m=4.0))
    (1.0, 2.0, None, 4.0)
    """
    if len(data) not in (16, 24, 32):
        raise InvalidValue(f"a geo bound of {len(data)} bytes", hint="it must be 2, 3 or 4 doubles")
    x, y, *rest = struct.unpack(f"<{len(data) // 8}d", data)
    z = rest[0] if rest and not math.isnan(rest[0]) else None
    return x, y, z, rest[1] if len(rest) == 2 else None


def wkb_to_wkt(data: bytes) -> str:
    """The text form of a geometry; InvalidValue if the bytes are not one."""
    text, end = _read_geometry(data, 0, 0)
    if end != len(data):
        raise InvalidValue(f"{len(data) - end} bytes follow the geometry", hint="the value is not WKB")
    return text


def wkt_to_wkb(text: str) -> bytes:
    """The binary form (little-endian ISO WKB) of a geometry given as text."""
    tokens = []
    position = 0
    stripped = text.strip()
    while position < len(stripped):
        found = _TOKEN.match(stripped, position)
        if found is None:
            raise _not_wkt(text)
        tokens.append(found[1].upper())
        position = found.end()
    parser = _WktParser(text, tokens)
    result = parser.geometry(0)
    if parser.position != len(tokens):
        raise _not_wkt(text)
    return result


def _not_wkt(text: str) -> InvalidValue:
    return InvalidValue(f"{text[:80]!r} is not WKT", hint="write a geometry as POINT (30 10)")


def _number(value: float) -> str:
    return repr(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)


def _read_geometry(data: bytes, at: int, depth: int) -> tuple[str, int]:
    try:
        order = {0: ">", 1: "<"}[data[at]]
        (code,) = struct.unpack_from(f"{order}I", data, at + 1)
        kind, (suffix, size) = _KINDS[code % 1000 - 1], _DIMENSIONS[code // 1000]
        if code % 1000 == 0 or depth > _MAX_DEPTH:
            raise IndexError
        body, at = _read_body(data, at + 5, order, code % 1000, size, depth)
    except (IndexError, KeyError, struct.error) as error:
        raise InvalidValue("the value is not a WKB geometry", hint="it is damaged, or not ISO WKB") from error
    return f"{kind}{suffix} {body}", at


def _read_body(data: bytes, at: int, order: str, kind: int, size: int, depth: int) -> tuple[str, int]:
    if kind == 1:
        point = struct.unpack_from(f"{order}{size}d", data, at)
        body = "EMPTY" if all(map(math.isnan, point)) else f"({' '.join(map(_number, point))})"
        return body, at + 8 * size
    (count,) = struct.unpack_from(f"{order}I", data, at)
    at += 4
    if count > len(data) - at:
        raise IndexError
    parts = []
    for _ in range(count):
        if kind == 2:
            parts.append(" ".join(map(_number, struct.unpack_from(f"{order}{size}d", data, at))))
            at += 8 * size
        elif kind == 3:
            ring, at = _read_body(data, at, order, 2, size, depth)
            parts.append(ring)
        else:
            member, at = _read_geometry(data, at, depth + 1)
            # members of a MULTI geometry do not repeat their kind
            parts.append(member if kind == 7 else member[member.index(" ") + 1 :].removeprefix(_suffix(size, member)))
    return (f"({', '.join(parts)})" if parts else "EMPTY"), at


def _suffix(size: int, member: str) -> str:
    word = member.split(" ", 2)[1]
    return f"{word} " if size > 2 and word in ("Z", "M", "ZM") else ""


class _WktParser:
    """Reads tokens of a WKT text and writes WKB."""

    def __init__(self, text: str, tokens: list[str]) -> None:
        self.text = text
        self.tokens = tokens
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self, *expected: str) -> str:
        token = self.peek()
        if not token or (expected and token not in expected):
            raise _not_wkt(self.text)
        self.position += 1
        return token

    def geometry(self, depth: int) -> bytes:
        if depth > _MAX_DEPTH:
            raise _not_wkt(self.text)
        kind = _KINDS.index(self.take(*_KINDS)) + 1
        suffix = f" {self.take()}" if self.peek() in ("Z", "M", "ZM") else ""
        dimension = [name for name, _ in _DIMENSIONS].index(suffix)
        return self.body(kind, dimension, depth)

    def body(self, kind: int, dimension: int, depth: int) -> bytes:
        head = struct.pack("<BI", 1, kind + 1000 * dimension)
        size = _DIMENSIONS[dimension][1]
        if kind == 1:
            if self.peek() == "EMPTY":
                self.take()
                return head + struct.pack(f"<{size}d", *[math.nan] * size)
            self.take("(")
            point = self.point(size)
            self.take(")")
            return head + point
        return head + self.members(kind, dimension, depth)

    def members(self, kind: int, dimension: int, depth: int) -> bytes:
        if self.peek() == "EMPTY":
            self.take()
            return struct.pack("<I", 0)
        self.take("(")
        parts = [self.member(kind, dimension, depth)]
        while self.take(",", ")") == ",":
            parts.append(self.member(kind, dimension, depth))
        return struct.pack("<I", len(parts)) + b"".join(parts)

    def member(self, kind: int, dimension: int, depth: int) -> bytes:
        size = _DIMENSIONS[dimension][1]
        if kind == 2:
            return self.point(size)
        if kind == 3:
            return self.members(2, dimension, depth)
        if kind == 7:
            return self.geometry(depth + 1)
        if kind == 4 and self.peek() not in ("(", "EMPTY"):  # MULTIPOINT (1 2, 3 4) is also written
            return struct.pack("<BI", 1, 1 + 1000 * dimension) + self.point(size)
        return self.body(kind - 3, dimension, depth)

    def point(self, size: int) -> bytes:
        try:
            return struct.pack(f"<{size}d", *(float(self.take()) for _ in range(size)))
        except ValueError as error:
            raise _not_wkt(self.text) from error
