"""An Avro schema compiled for ``avro.c``, together with the Arrow columns that its nodes fill.

A projection keeps what is selected and compiles the rest to nodes that only step over bytes. Values that take no bytes
(null, records of nothing) have no node at all.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.errors import Unsupported
from frazil.io.avro.schema import (
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    entries,
    optional,
)

# Words of a node in avro.c, by position.
OP, NULL_BRANCH, ARG, CHILDREN, NEXT, N, CAP, NULLS, DATA, VALID, OFFSETS, USED, ROOM, BASE, VALID_BIT, HINT = range(16)
WORDS: Final = 16


class Op(IntEnum):
    """Keep in step with `enum op` in avro.c."""

    RECORD = 0
    LIST = 1
    BOOLEAN = 2
    INT = 3
    LONG = 4
    FIXED = 5
    BYTES = 6
    DECIMAL_FIXED = 7
    DECIMAL_BYTES = 8
    UUID_TEXT = 9
    ENUM = 10
    FIXED_BYTES = 11
    SKIP_VARINT = 12
    SKIP_FIXED = 13
    SKIP_BYTES = 14
    SKIP_RECORD = 15
    SKIP_LIST = 16
    SKIP_UNION = 17


@dataclass(frozen=True, slots=True)
class Column:
    """How one Arrow array is made from a node. `node` is None for what takes no bytes; `op` is None for null."""

    op: Op | None
    node: int | None
    nullable: bool
    type: pa.DataType
    path: str
    arg: int = 0
    names: tuple[str, ...] = ()  # of the fields of a record; the symbols of an enum
    children: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """Nodes for avro.c, the column path of each node (for messages), and the columns they fill."""

    nodes: npt.NDArray[np.uint32]
    paths: tuple[str, ...]
    root: Column
    schema: pa.Schema
    min_width: int
    fixed_differs: bool  # whether `java_fixed` makes a difference

    @property
    def skips(self) -> bool:
        """Whether anything is stepped over rather than materialised."""
        return bool((self.nodes[:, OP] >= Op.SKIP_VARINT).any())


def compile_schema(
    schema: AvroSchema,
    columns: Collection[int | str] | None = None,
    *,
    utc_unless_told: bool = True,
    java_fixed: bool = False,
    some_keys: bool = False,
) -> Program:
    """The program that materialises `columns`: field ids, or paths of column names with dots; None means all.

    With `some_keys`, maps from int hold only the keys that the sandbox is told to keep.
    """
    return _compile(schema, None if columns is None else frozenset(columns), utc_unless_told, java_fixed, some_keys)


@functools.lru_cache(maxsize=128)
def _compile(
    schema: AvroSchema,
    columns: frozenset[int | str] | None,
    utc_unless_told: bool,
    java_fixed: bool,
    some_keys: bool,
) -> Program:
    compiler = _Compiler(columns, utc_unless_told, java_fixed, some_keys)
    root = compiler.record(schema.root, "", 0, columns is None)  # with a node even where the rows take no bytes
    nodes = np.array(compiler.nodes, np.uint32).reshape(-1, WORDS)
    nodes.flags.writeable = False
    return Program(
        nodes, tuple(compiler.paths), root, pa.schema(list(root.type)), schema.root.min_width, compiler.fixed_differs
    )


class _Compiler:
    def __init__(
        self, columns: frozenset[int | str] | None, utc_unless_told: bool, java_fixed: bool, some_keys: bool
    ) -> None:
        self.columns: frozenset[int | str] = frozenset() if columns is None else columns
        self.utc_unless_told = utc_unless_told
        self.java_fixed = java_fixed
        self.some_keys = some_keys
        self.fixed_differs = False
        self.nodes: list[list[int]] = []
        self.paths: list[str] = []

    # Nodes.

    def open(self, op: Op, path: str, null_branch: int = 0, arg: int = 0, children: int = 0) -> int:
        self.nodes.append([op, null_branch, arg, children, *[0] * (WORDS - 4)])
        self.paths.append(path)
        return len(self.nodes) - 1

    def close(self, node: int, children: int | None = None) -> None:
        self.nodes[node][NEXT] = len(self.nodes)
        if children is not None:
            self.nodes[node][CHILDREN] = children

    # Projection.

    def selects(self, path: str, field_id: int | None) -> bool:
        return path in self.columns or (field_id is not None and field_id in self.columns)

    def wanted(self, avro: AvroType, path: str) -> bool:
        """Whether anything below this type is selected."""
        if not self.columns:
            return False
        return any(
            self.selects(below, field_id) or self.wanted(child, below) for child, below, field_id in _parts(avro, path)
        )

    # Values.

    def value(self, avro: AvroType, path: str, *, whole: bool) -> Column:
        null_branch, inner = optional(avro)
        if inner.min_width == 0 and null_branch == 0:
            return self.empty(inner, path)
        match inner:
            case Record():
                return self.record(inner, path, null_branch, whole)
            case Array() if (pair := entries(inner)) is not None:
                return self.map(pair.fields[0], pair.fields[1], path, null_branch, whole)
            case Array():
                return self.list(inner, path, null_branch, whole)
            case Map():
                key = Field("key", Primitive(kind="string", min_width=1), {"field-id": inner.integer("key-id")})
                value = Field("value", inner.values, {"field-id": inner.integer("value-id")})
                return self.map(key, value, path, null_branch, whole)
            case Union():
                if len(inner.branches) == 1 and inner.branches[0].min_width == 0:
                    self.skip(inner, path)
                    return Column(None, None, True, pa.null(), path)
                raise Unsupported(
                    f"Avro: {path} is a union of {len(inner.branches)} types",
                    hint="only unions of null and one other type can be columns; leave this column out",
                )
            case _:
                op, arg, arrow = self.leaf(inner, path)
                node = self.open(op, path, null_branch, arg)
                self.close(node)
                symbols = inner.symbols if isinstance(inner, Enum) else ()
                return Column(op, node, null_branch > 0, arrow, path, arg, symbols)

    def empty(self, avro: AvroType, path: str) -> Column:
        if not isinstance(avro, Record):
            return Column(None, None, True, pa.null(), path)
        children = tuple(self.empty(f.type, _join(path, f.column)) for f in avro.fields)
        return self.struct(avro.fields, children, None, 0, path)

    def record(self, avro: Record, path: str, null_branch: int, whole: bool) -> Column:
        node = self.open(Op.RECORD, path, null_branch)
        kept: list[Field] = []
        children: list[Column] = []
        emitted = 0
        for f in avro.fields:
            below, before = _join(path, f.column), len(self.nodes)
            all_of_it = whole or self.selects(below, f.field_id)
            if all_of_it or self.wanted(f.type, below):
                kept.append(f)
                children.append(self.value(f.type, below, whole=all_of_it))
            else:
                self.skip(f.type, below)
            emitted += len(self.nodes) > before
        self.close(node, emitted)
        return self.struct(tuple(kept), tuple(children), node, null_branch, path)

    def struct(
        self, fields: tuple[Field, ...], children: tuple[Column, ...], node: int | None, null_branch: int, path: str
    ) -> Column:
        arrow = pa.struct([_field(f.column, c, f.field_id) for f, c in zip(fields, children, strict=True)])
        names = tuple(f.column for f in fields)
        return Column(Op.RECORD, node, null_branch > 0, arrow, path, names=names, children=children)

    def list(self, avro: Array, path: str, null_branch: int, whole: bool) -> Column:
        node, below, element_id = (
            self.open(Op.LIST, path, null_branch),
            _join(path, "element"),
            avro.integer("element-id"),
        )
        element = self.value(avro.items, below, whole=whole or self.selects(below, element_id))
        self.close(node)
        arrow = pa.list_(_field("element", element, element_id))
        return Column(Op.LIST, node, null_branch > 0, arrow, path, children=(element,))

    def map(self, key: Field, value: Field, path: str, null_branch: int, whole: bool) -> Column:
        node = self.open(Op.LIST, path, null_branch, arg=int(self.some_keys))
        entry = self.open(Op.RECORD, path, children=2)
        keys = self.value(key.type, _join(path, "key"), whole=True)
        if keys.nullable or keys.node is None:
            raise Unsupported(f"Avro: {path} is a map with null keys", hint="leave this column out")
        below = _join(path, "value")
        part = not whole and not self.selects(below, value.field_id) and self.wanted(value.type, below)
        before = len(self.nodes)
        values = self.value(value.type, below, whole=not part)
        self.close(entry, 2 if len(self.nodes) > before else 1)
        self.close(node)
        key_field, value_field = _field("key", keys, key.field_id), _field("value", values, value.field_id)
        pair = Column(
            Op.RECORD, entry, False, pa.struct([key_field, value_field]), path,
            names=("key", "value"), children=(keys, values),
        )  # fmt: skip
        return Column(Op.LIST, node, null_branch > 0, pa.map_(key_field, value_field), path, children=(pair,))

    def leaf(self, avro: AvroType, path: str) -> tuple[Op, int, pa.DataType]:
        logical = avro.logical
        match avro:
            case Enum():
                return Op.ENUM, len(avro.symbols), pa.dictionary(pa.int32(), pa.string())
            case Fixed():
                decimal = _decimal(avro, path)
                if decimal is not None:
                    return Op.DECIMAL_FIXED, avro.size, decimal
                return (Op.FIXED_BYTES if self.prefixed(avro) else Op.FIXED), avro.size, pa.binary(avro.size)
            case Primitive(kind="boolean"):
                return Op.BOOLEAN, 0, pa.bool_()
            case Primitive(kind="int"):
                return Op.INT, 0, {"date": pa.date32(), "time-millis": pa.time32("ms")}.get(logical or "", pa.int32())
            case Primitive(kind="long"):
                return Op.LONG, 0, self.long(avro, logical or "")
            case Primitive(kind="float"):
                return Op.FIXED, 4, pa.float32()
            case Primitive(kind="double"):
                return Op.FIXED, 8, pa.float64()
            case Primitive(kind="string"):
                return (Op.UUID_TEXT, 0, pa.binary(16)) if logical == "uuid" else (Op.BYTES, 0, pa.string())
            case _:
                decimal = _decimal(avro, path)
                return (Op.BYTES, 0, pa.binary()) if decimal is None else (Op.DECIMAL_BYTES, 0, decimal)

    def prefixed(self, avro: AvroType) -> bool:
        """Whether a fixed value has its length before it, as in the manifests of Iceberg's Java library."""
        plain = isinstance(avro, Fixed) and avro.logical not in ("decimal", "uuid")
        self.fixed_differs |= plain
        return plain and self.java_fixed

    def long(self, avro: AvroType, logical: str) -> pa.DataType:
        if logical == "time-micros":
            return pa.time64("us")
        kind, _, precision = logical.rpartition("-")
        unit = {"millis": "ms", "micros": "us", "nanos": "ns"}.get(precision)
        if unit is None or kind not in ("timestamp", "local-timestamp"):
            return pa.int64()
        told = avro.attributes.get("adjust-to-utc")
        utc = told if isinstance(told, bool) else self.utc_unless_told
        return pa.timestamp(unit, "UTC" if utc and kind == "timestamp" else None)

    # What is stepped over.

    def skip(self, avro: AvroType, path: str) -> None:
        """Emit a node that steps over a value, or none if it takes no bytes."""
        if avro.min_width > 0:
            self.skip_branch(avro, path)

    def skip_branch(self, avro: AvroType, path: str) -> None:
        match avro:
            case Record():
                node = self.open(Op.SKIP_RECORD, path)
                shown = [f.type for f in avro.fields if f.type.min_width > 0]
                for inner in shown:
                    self.skip_branch(inner, path)
                self.close(node, len(shown))
            case Array():
                node = self.open(Op.SKIP_LIST, path)
                self.skip_branch(avro.items, path)
                self.close(node)
            case Map():
                node = self.open(Op.SKIP_LIST, path)
                shown = [avro.values] if avro.values.min_width > 0 else []
                entry = self.open(Op.SKIP_RECORD, path, children=1 + len(shown))
                self.close(self.open(Op.SKIP_BYTES, path))
                for inner in shown:
                    self.skip_branch(inner, path)
                self.close(entry)
                self.close(node)
            case Union():
                node = self.open(Op.SKIP_UNION, path, arg=len(avro.branches))
                for branch in avro.branches:
                    self.skip_branch(branch, path)
                self.close(node)
            case _:
                op, arg = (Op.SKIP_BYTES, 0) if self.prefixed(avro) else _skip_leaf(avro)
                self.close(self.open(op, path, arg=arg))


def _skip_leaf(avro: AvroType) -> tuple[Op, int]:
    match avro:
        case Fixed():
            return Op.SKIP_FIXED, avro.size
        case Primitive(kind="int" | "long") | Enum():
            return Op.SKIP_VARINT, 0
        case Primitive(kind="string" | "bytes"):
            return Op.SKIP_BYTES, 0
        case _:  # null has no bytes, boolean one, float and double four and eight: just their least width
            return Op.SKIP_FIXED, avro.min_width


def _parts(avro: AvroType, path: str) -> list[tuple[AvroType, str, int | None]]:
    _, inner = optional(avro)
    match inner:
        case Record():
            return [(f.type, _join(path, f.column), f.field_id) for f in inner.fields]
        case Array() if (pair := entries(inner)) is not None:
            return [
                (f.type, _join(path, name), f.field_id) for f, name in zip(pair.fields, ("key", "value"), strict=True)
            ]
        case Array():
            return [(inner.items, _join(path, "element"), inner.integer("element-id"))]
        case Map():
            key = Primitive(kind="string")
            return [
                (key, _join(path, "key"), inner.integer("key-id")),
                (inner.values, _join(path, "value"), inner.integer("value-id")),
            ]
        case _:
            return []


def _decimal(avro: AvroType, path: str) -> pa.DataType | None:
    precision, scale = avro.integer("precision"), avro.integer("scale")
    if avro.logical != "decimal" or precision is None:
        return None
    if not 0 < precision <= 38 or not 0 <= (scale or 0) <= precision:
        raise Unsupported(f"Avro: {path} is a decimal({precision}, {scale})", hint="38 digits are the most")
    return pa.decimal128(precision, scale or 0)


def _field(name: str, column: Column, field_id: int | None) -> pa.Field:
    metadata: dict[Any, Any] | None = None if field_id is None else {"PARQUET:field_id": str(field_id)}
    return pa.field(name, column.type, nullable=column.nullable, metadata=metadata)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
