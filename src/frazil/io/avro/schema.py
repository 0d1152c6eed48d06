"""Avro schemas: JSON text to a validated tree.

Schemas come with files that anybody may have written, so everything that could make a reader work without end is
refused here: recursion, endless nesting, names that multiply, and arrays whose items take no bytes.

>>> schema = parse_schema('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int", "field-id": 1}]}')
>>> schema.root.fields[0].field_id
1
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from frazil.errors import MalformedMetadata

MAX_TEXT: Final = 1 << 20
MAX_DEPTH: Final = 64
MAX_NODES: Final = 200_000

# The fewest bytes that a value of each primitive type takes.
_PRIMITIVES: Final = {
    "null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1,
}  # fmt: skip
_STRUCTURE: Final = frozenset({"type", "name", "namespace", "fields", "items", "values", "symbols", "size", "aliases"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroType:
    """What all types have: custom attributes, and the measures that the limits are about."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    min_width: int = 0
    depth: int = 1
    nodes: int = 1

    @property
    def logical(self) -> str | None:
        """The logical type, if it is a name at all."""
        name = self.attributes.get("logicalType")
        return name if isinstance(name, str) else None

    def integer(self, key: str) -> int | None:
        """A custom attribute that must be an integer to count, such as an element-id."""
        value = self.attributes.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive(AvroType):
    """null, boolean, int, long, float, double, bytes or string."""

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(AvroType):
    """So many bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Enum(AvroType):
    """One of a list of symbols."""

    name: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Array(AvroType):
    """A list; with logical type `map` and two-field records, a map."""

    items: AvroType


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(AvroType):
    """A map from strings."""

    values: AvroType


@dataclass(frozen=True, slots=True, kw_only=True)
class Union(AvroType):
    """One of several types."""

    branches: tuple[AvroType, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    name: str
    type: AvroType
    attributes: Mapping[str, Any]

    @property
    def field_id(self) -> int | None:
        """Iceberg's id of the field."""
        value = self.attributes.get("field-id")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def column(self) -> str:
        """The name of the column: Iceberg keeps it apart where it is not a valid Avro name."""
        name = self.attributes.get("iceberg-field-name")
        return name if isinstance(name, str) else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(AvroType):
    """A row or struct."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """The schema of a file: its root record and the JSON text it came from. Equal texts are equal schemas."""

    text: str
    root: Record = field(compare=False)


def parse_schema(source: str | bytes | Mapping[str, Any]) -> AvroSchema:
    """The schema in a JSON text (or in what such a text parses to); `MalformedMetadata` if it is not a safe one."""
    if isinstance(source, Mapping):
        source = json.dumps(source, separators=(",", ":"))
    if isinstance(source, bytes):
        try:
            source = source.decode()
        except UnicodeDecodeError as error:
            raise _bad("the schema is not UTF-8 text") from error
    if len(source) > MAX_TEXT:
        raise _bad(f"the schema has {len(source)} characters, more than {MAX_TEXT}")
    return _parse_text(source)


@functools.lru_cache(maxsize=64)
def _parse_text(text: str) -> AvroSchema:
    # Cached because the 200 manifests of a table share one or two schemas.
    try:
        tree = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(tree, ensure_ascii=False).encode()  # half a surrogate pair is no name for a column
        root = _Parser().type(tree, "", 0)
    except RecursionError as error:
        raise _bad(f"the schema is nested more than {MAX_DEPTH} deep") from error
    except ValueError as error:
        raise _bad(f"the schema is not JSON: {error}") from error
    if not isinstance(root, Record):
        raise _bad("the schema of the rows is not a record")
    return AvroSchema(text, root)


def _bad(message: str) -> MalformedMetadata:
    return MalformedMetadata(f"Avro: {message}", hint="the file is damaged, or was not meant to be read as a table")


def _attributes(json_object: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in json_object.items() if key not in _STRUCTURE}


class _Parser:
    def __init__(self) -> None:
        self.names: dict[str, AvroType | None] = {}  # None while the type is being defined

    def type(self, tree: Any, namespace: str, depth: int) -> AvroType:
        if depth > MAX_DEPTH:
            raise _bad(f"the schema is nested more than {MAX_DEPTH} deep")
        if isinstance(tree, str):
            parsed = self.named(tree, namespace)
        elif isinstance(tree, list):
            parsed = self.union(tree, namespace, depth)
        elif isinstance(tree, dict):
            parsed = self.complex(tree, namespace, depth)
        else:
            raise _bad("a type is neither a name, a list nor an object")
        # A name may stand for a big type many times: what counts is the size of the whole, spelled out.
        if parsed.nodes > MAX_NODES:
            raise _bad(f"the schema has more than {MAX_NODES} nodes")
        if depth + parsed.depth > MAX_DEPTH + 1:
            raise _bad(f"the schema is nested more than {MAX_DEPTH} deep")
        return parsed

    def named(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return Primitive(kind=name, min_width=_PRIMITIVES[name])
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        key = full if full in self.names else name
        if key not in self.names:
            raise _bad(f"the schema has no type {name!r}")
        known = self.names[key]
        if known is None:
            raise _bad(f"the type {name!r} contains itself")
        return known

    def union(self, tree: list[Any], namespace: str, depth: int) -> Union:
        branches = tuple(self.type(branch, namespace, depth + 1) for branch in tree)
        if not branches or any(isinstance(branch, Union) for branch in branches):
            raise _bad("a union is empty or holds a union")
        if sum(_is_null(branch) for branch in branches) > 1:
            raise _bad("a union has null twice")
        return Union(
            branches=branches,
            min_width=1 + min(branch.min_width for branch in branches),
            depth=1 + max(branch.depth for branch in branches),
            nodes=1 + sum(branch.nodes for branch in branches),
        )

    def complex(self, tree: dict[str, Any], namespace: str, depth: int) -> AvroType:
        kind, attributes = tree.get("type"), _attributes(tree)
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return Primitive(kind=kind, attributes=attributes, min_width=_PRIMITIVES[kind])
        match kind:
            case "record" | "error":
                return self.record(tree, namespace, depth, attributes)
            case "array" | "map":
                inner = self.type(tree.get("items" if kind == "array" else "values"), namespace, depth + 1)
                if kind == "array" and inner.min_width == 0:
                    raise _bad("the items of an array take no bytes, so any number of them would fit")
                measures = {"min_width": 1, "depth": 1 + inner.depth, "nodes": 3 + inner.nodes}
                if kind == "array":
                    return Array(items=inner, attributes=attributes, **measures)
                return Map(values=inner, attributes=attributes, **measures)
            case "fixed":
                size = tree.get("size")
                if not isinstance(size, int) or isinstance(size, bool) or not 0 < size < 1 << 31:
                    raise _bad(f"a fixed type has the size {size!r}")
                name = self.full_name(tree, namespace)
                return self.define_leaf(name, Fixed(name=name, size=size, attributes=attributes, min_width=size))
            case "enum":
                symbols = tree.get("symbols")
                if not isinstance(symbols, list) or not symbols or not all(isinstance(s, str) for s in symbols):
                    raise _bad("an enum has no symbols")
                if len(set(symbols)) < len(symbols):
                    raise _bad("an enum has a symbol twice")
                name = self.full_name(tree, namespace)
                return self.define_leaf(
                    name, Enum(name=name, symbols=tuple(symbols), attributes=attributes, min_width=1)
                )
            case str() | list() | dict():
                return self.type(kind, namespace, depth + 1)
            case _:
                raise _bad(f"{kind!r} is not a type")

    def record(self, tree: dict[str, Any], namespace: str, depth: int, attributes: Mapping[str, Any]) -> Record:
        name = self.full_name(tree, namespace)
        if name in self.names:
            raise _bad(f"the type {name!r} is defined twice, or contains itself")
        self.names[name] = None
        inner_namespace = name.rpartition(".")[0]
        listed = tree.get("fields")
        if not isinstance(listed, list):
            raise _bad(f"the record {name!r} has no list of fields")
        fields: list[Field] = []
        seen: set[str] = set()
        nodes = 1
        for item in listed:
            label = item.get("name") if isinstance(item, dict) else None
            if not isinstance(label, str) or label in seen:
                raise _bad(f"the record {name!r} has a field without a name, or a name twice: {label!r}")
            seen.add(label)
            inner = self.type(item.get("type"), inner_namespace, depth + 1)
            nodes += inner.nodes
            if nodes > MAX_NODES:
                raise _bad(f"the schema has more than {MAX_NODES} nodes")
            fields.append(Field(label, inner, _attributes(item)))
        record = Record(
            name=name,
            fields=tuple(fields),
            attributes=attributes,
            min_width=sum(f.type.min_width for f in fields),
            depth=1 + max((f.type.depth for f in fields), default=0),
            nodes=nodes,
        )
        self.names[name] = record
        return record

    def define_leaf(self, name: str, leaf: AvroType) -> AvroType:
        # PyIceberg spells out the same fixed type at each use, which Avro forbids but which does no harm.
        if self.names.setdefault(name, leaf) != leaf:
            raise _bad(f"the type {name!r} is defined twice, differently")
        return leaf

    def full_name(self, tree: dict[str, Any], namespace: str) -> str:
        name, space = tree.get("name"), tree.get("namespace", namespace)
        if not isinstance(name, str) or not name or not isinstance(space, str):
            raise _bad("a record, enum or fixed type has no name")
        if name in _PRIMITIVES:
            raise _bad(f"a type is named like the primitive type {name!r}")
        return name if "." in name or not space else f"{space}.{name}"


def _is_null(avro: AvroType) -> bool:
    return isinstance(avro, Primitive) and avro.kind == "null"


def optional(avro: AvroType) -> tuple[int, AvroType]:
    """Where null stands in a union of null and one type (1: first, 2: second, 0: no such union), and that type."""
    if isinstance(avro, Union) and len(avro.branches) == 2:
        for position, branch in enumerate(avro.branches, 1):
            if _is_null(branch):
                return position, avro.branches[2 - position]
    return 0, avro


def entries(avro: AvroType) -> Record | None:
    """The key-value record of an array that stands for a map, or None."""
    if isinstance(avro, Array) and avro.logical == "map":
        item = avro.items
        return item if isinstance(item, Record) and len(item.fields) == 2 else None
    return None
