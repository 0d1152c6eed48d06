"""The schema of a table: fields in depth-first order with ids, as a tree, as Arrow's schema, and as Frazil's.

`arrow_schema` is exact. `model_schema` has for each field the nearest type of Frazil's model, under the same id, so
that names are looked up, filters parsed and tables described as for any other table.

>>> fields = fields_of(pa.schema({"id": pa.int64(), "p": pa.struct({"x": pa.float16()})}))
>>> [(field.id, field.parent_id, field.name, field.logical_type) for field in fields]
[(0, -1, 'id', 'int64'), (1, -1, 'p', 'struct'), (2, 1, 'x', 'halffloat')]
>>> str(model_schema(tree(fields)).find("p.x").type)
'float'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from frazil.errors import InvalidSchema, MalformedMetadata, Unsupported
from frazil.lance.logical_types import NESTED, arrow_type, logical_type
from frazil.lance.proto.messages import Field
from frazil.model.arrow import schema_from_arrow
from frazil.model.schema import Schema
from frazil.model.types import (
    DecimalType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
    list_of,
)

MAX_DEPTH = 64
BLOB_V1, BLOB_V2 = "lance-encoding:blob", "lance.blob.v2"
EXTENSION_NAME, EXTENSION_METADATA = "ARROW:extension:name", "ARROW:extension:metadata"
_INNER_IDS = 1 << 30
"""Elements that are no fields in Lance, such as those of vectors, have their list's id above this in our model."""


@dataclass(frozen=True)
class Node:
    """A field and the fields in it."""

    field: Field
    children: tuple[Node, ...] = ()

    @property
    def id(self) -> int:
        return self.field.id

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def is_packed(self) -> bool:
        """Whether a file has one column for it, whatever is in it."""
        metadata = self.field.metadata
        packed = b"true" in (metadata.get("packed", b""), metadata.get("lance-encoding:packed", b""))
        return packed or self.is_blob

    @property
    def is_blob(self) -> bool:
        metadata = self.field.metadata
        return bool(metadata.get(BLOB_V1, b"") == b"true" or metadata.get(EXTENSION_NAME, b"") == BLOB_V2.encode())

    @cached_property
    def arrow(self) -> pa.Field:
        """The exact Arrow field, of an extension type where pyarrow knows it."""
        plain = _plain_field(self)
        if any(EXTENSION_NAME in node.field.metadata for node in self.walk()):
            return pa.ipc.read_schema(pa.schema([plain]).serialize()).field(0)
        return plain

    def walk(self) -> Iterator[Node]:
        """This node and all below it, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()


def tree(fields: Iterable[Field]) -> tuple[Node, ...]:
    """The top-level columns; MalformedMetadata if the fields make no tree."""
    below: dict[int, list[Field]] = {}
    known: set[int] = set()
    for field in fields:
        if field.id in known:
            raise _malformed(f"field id {field.id} is used twice")
        if field.parent_id != -1 and field.parent_id not in known:
            raise _malformed(f"field {field.id} comes before the field {field.parent_id} that it is in")
        known.add(field.id)
        below.setdefault(field.parent_id, []).append(field)

    def node(field: Field, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise _malformed(f"fields nest deeper than {MAX_DEPTH}")
        return Node(field, tuple(node(child, depth + 1) for child in below.get(field.id, ())))

    return tuple(node(field, 1) for field in below.get(-1, ()))


def flatten(nodes: Iterable[Node]) -> list[Field]:
    """All fields, depth first."""
    return [node.field for top in nodes for node in top.walk()]


def select(nodes: Iterable[Node], wanted: frozenset[int]) -> tuple[Node, ...]:
    """Only the fields with some ids and what is in them, and as much around them as is needed."""
    found = []
    for node in nodes:
        if node.id in wanted:
            found.append(node)
        elif inner := select(node.children, wanted):
            if node.is_packed or node.field.logical_type == "map" or node.field.logical_type.startswith("fixed_size"):
                inner = node.children  # not read in parts
            found.append(replace(node, children=inner))
    return tuple(found)


# To Arrow.


def arrow_schema(nodes: Sequence[Node], metadata: Mapping[str, bytes] | None = None) -> pa.Schema:
    """The exact Arrow schema, with extension types where pyarrow knows them."""
    return pa.schema([node.arrow for node in nodes], metadata=dict(metadata) if metadata else None)


def _plain_field(node: Node) -> pa.Field:
    """One field in Arrow's form; extension types are in its metadata only."""
    kind = _arrow_type(node)
    metadata = dict(node.field.metadata) or None
    return pa.field(node.name, kind, node.field.nullable, metadata)


def _arrow_type(node: Node) -> pa.DataType:
    name = node.field.logical_type
    if name == "struct":
        return pa.struct([_plain_field(child) for child in node.children])
    if name in NESTED or name.startswith("fixed_size_list:struct:"):
        if len(node.children) != 1:
            raise _malformed(f"the {name} {node.name!r} has {len(node.children)} fields in it, and not one")
        item = _plain_field(node.children[0])
        if name == "map":
            return _map_type(node.children[0])
        if name.startswith("fixed_size_list"):
            return pa.list_(item, int(name.rpartition(":")[2]))
        return pa.large_list(item) if name.startswith("large") else pa.list_(item)
    if node.children:
        raise _malformed(f"{node.name!r} of type {name} has fields in it")
    return arrow_type(name)


def _map_type(entries: Node) -> pa.DataType:
    if len(entries.children) != 2:
        raise _malformed(f"the entries of a map have {len(entries.children)} fields, and not two")
    key, value = map(_plain_field, entries.children)
    return pa.map_(key, value)


# From Arrow.

DICTIONARY = 3
_VAR_BINARY = frozenset({"string", "large_string", "binary", "large_binary", "json"})


def fields_of(schema: pa.Schema, first_id: int = 0) -> list[Field]:
    """The flattened fields of an Arrow schema, numbered depth first."""
    found: list[Field] = []
    for field in schema:
        _flatten_arrow(field, -1, first_id, found, 1)
    return found


def _flatten_arrow(field: pa.Field, parent: int, first_id: int, found: list[Field], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidSchema(f"types nest deeper than {MAX_DEPTH}", hint="flatten the schema")
    if not field.name and parent == -1:
        raise InvalidSchema("a column has an empty name", hint="name every column")
    if parent == -1 and "." in field.name:
        raise InvalidSchema(f"column {field.name!r} has a dot in its name", hint="Lance allows none: rename it")
    kind = field.type
    made = Field(
        name=field.name,
        id=first_id + len(found),
        parent_id=parent,
        logical_type=logical_type(kind),
        nullable=field.nullable,
    )
    for key, value in _field_metadata(field).items():
        made.metadata[key] = value
    made.extension_name = made.metadata.get(EXTENSION_NAME, b"").decode("utf-8", "replace")
    made.encoding = _encoding(made.logical_type)
    if made.encoding == DICTIONARY:
        made.dictionary.SetInParent()
    found.append(made)
    for child in _children(kind):
        _flatten_arrow(child, made.id, first_id, found, depth + 1)


def _field_metadata(field: pa.Field) -> dict[str, bytes]:
    """An Arrow field's metadata; an extension type is told in it, as Arrow does when it sends a schema."""
    metadata = {key.decode(): value for key, value in (field.metadata or {}).items()}
    if isinstance(field.type, pa.BaseExtensionType):
        metadata[EXTENSION_NAME] = field.type.extension_name.encode()
        serialize = getattr(field.type, "__arrow_ext_serialize__", bytes)
        metadata[EXTENSION_METADATA] = serialize()
    return metadata


def _children(kind: pa.DataType) -> Sequence[pa.Field]:
    if isinstance(kind, pa.BaseExtensionType):
        return _children(kind.storage_type)
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        entries = pa.struct([kind.key_field.with_nullable(False), kind.item_field])
        return [pa.field("entries", entries, nullable=False)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [kind.value_field]
    if pa.types.is_fixed_size_list(kind) and pa.types.is_struct(kind.value_type):
        return [kind.value_field]
    return []


def _encoding(name: str) -> int:
    """What older readers look at: none for structs, variable binary, dictionary, plain."""
    if name in ("struct", "null"):
        return 0
    return 2 if name in _VAR_BINARY else DICTIONARY if name.startswith("dict:") else 1


# To Frazil's model.


def model_schema(nodes: Sequence[Node], schema_id: int = 0) -> Schema:
    """The nearest schema of Frazil's model, with Lance's field ids."""
    return Schema(tuple(_model_field(node) for node in nodes), schema_id)


def _model_field(node: Node, name: str | None = None) -> NestedField:
    doc = node.field.metadata.get("doc", b"").decode("utf-8", "replace") or None
    type_ = _model_type(node)
    required = not node.field.nullable and str(type_) != "unknown"
    return NestedField(node.id, node.name if name is None else name, type_, required, doc)


def _model_type(node: Node) -> Type:
    name = node.field.logical_type
    if name == "struct":
        return StructType(tuple(map(_model_field, node.children)))
    if name == "map":
        key, value = node.children[0].children
        return MapType(_model_field(key, "key"), _model_field(value, "value"))
    if node.children:
        return ListType(_model_field(node.children[0], "element"))
    return _nearest(arrow_type(name), node.id, node.field.metadata.get(EXTENSION_NAME, b"") == b"arrow.uuid")


def _nearest(kind: pa.DataType, number: int, is_uuid: bool = False) -> Type:
    if pa.types.is_fixed_size_list(kind):
        return list_of(_INNER_IDS | number, _nearest(kind.value_type, _INNER_IDS // 2 | number))
    if pa.types.is_dictionary(kind):
        return _nearest(kind.value_type, number)
    if pa.types.is_uint64(kind):
        return DecimalType(20, 0)
    if pa.types.is_duration(kind):
        return LongType()
    if pa.types.is_decimal256(kind) and kind.precision > 38:
        return StringType()
    return schema_from_arrow(pa.schema([pa.field("x", pa.uuid() if is_uuid else kind)])).fields[0].type


# Files.


def column_entries(nodes: Iterable[Node], file_version: tuple[int, int]) -> list[int]:
    """The ids of the fields that have columns in a data file, in the order of those columns.

    From 2.1 on only leaves have; in 2.0 structs and lists have columns as well.
    """
    found: list[int] = []
    for node in nodes:
        if file_version == (2, 0) and node.field.logical_type.startswith("fixed_size_list:struct"):
            raise Unsupported(
                f"{node.name!r} is a fixed-size list of structs, which files of version 2.0 are not read with",
                hint="use data files of version 2.2",
            )
        inner = () if node.is_packed else node.children
        if not inner or file_version == (2, 0):
            found.append(node.id)
        found += column_entries(inner, file_version)
    return found


def _malformed(what: str) -> MalformedMetadata:
    return MalformedMetadata(f"the schema of the Lance table: {what}", hint="the manifest is damaged")
