"""Random schemas, rows, partition terms and filters; and what a filter means for one row, written down plainly.

A row is a dict of canonical values by field id, structs inside it likewise, so that a renamed column stays what it is.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from frazil.model.arrow import array_from_canonical, schema_to_arrow
from frazil.model.expressions import Expression, Reference, and_, not_, or_, predicate
from frazil.model.operations import Operation
from frazil.model.schema import Schema
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
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
    UnknownType,
    UuidType,
    VariantType,
)
from frazil.model.variant import encode as encode_variant

Row = dict[int, Any]

DAY = 86_400_000_000
LONGS = (-(2**63), 2**63 - 1)
MOMENTS = (0, 1, -1, DAY - 1, DAY, -DAY, -DAY - 1, 3_600_000_000, -3_600_000_001, 31 * DAY, 365 * DAY, -366 * DAY)
TEXTS = (
    "",
    "a",
    "aa",
    "aaa",
    "aab",
    "ab",
    "b",
    "A",
    "é",
    "日本語",
    "\U0010ffff",
    "\U0010ffff\U0010ffff",
    "a\U0010ffffb",
)
BYTES = (b"", b"\0", b"a", b"ab", b"abc", b"\x7f", b"\xff", b"\xff\xff", b"\xff\xff\xff", b"a\xff\xffb")
FLOATS = (0.0, -0.0, 1.5, -1.5, 2.0, math.inf, -math.inf, math.nan, 2.0**-149, 3.4028234663852886e38)
POINT = struct.pack("<BI2d", 1, 1, 1.0, 2.0)


def _decimals(scale: int, precision: int) -> list[Decimal]:
    most = 10**precision - 1
    return [
        Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))
        for number in (0, 1, -1, 10, 99, 100, -100, most, 99 - most)  # the very lowest cannot be truncated
    ]


_NS = tuple(moment * 1000 for moment in MOMENTS)
POOLS: dict[Type, Sequence[Any]] = {
    BooleanType(): (False, True),
    IntegerType(): (*range(-3, 4), 10, -10, 100, 2**31 - 1, -(2**31), -(2**31) + 1),
    LongType(): (*range(-3, 4), 10, -10, 100, *LONGS, LONGS[0] + 1),
    FloatType(): FLOATS,
    DoubleType(): (*FLOATS, 5e-324, 1.7976931348623157e308),
    DecimalType(9, 2): _decimals(2, 9),
    DecimalType(38, 10): _decimals(10, 38),
    DateType(): (0, 1, -1, 30, 31, -31, 365, -365, -366, 19000, -100_000, 2_000_000),
    TimeType(): (0, 1, DAY - 1, 3_600_000_000),
    TimestampType(): MOMENTS,
    TimestamptzType(): MOMENTS,
    StringType(): TEXTS,
    UuidType(): tuple(number.to_bytes(16) for number in (0, 1, 1 << 63, 1 << 127, (1 << 128) - 1)),
    FixedType(2): (b"\0\0", b"ab", b"\x7f\xff", b"\x80\0", b"\xff\xff"),
    BinaryType(): BYTES,
}
POOLS_V3: dict[Type, Sequence[Any]] = {
    TimestampNsType(): (*_NS, 1, -1, 999, *LONGS),
    TimestamptzNsType(): (*_NS, 1, -1, 999),
}
OPAQUE: dict[Type, Sequence[Any]] = {
    VariantType(): tuple(encode_variant(value) for value in (None, 1, "a", {"a": [1, 2.5]})),
    GeometryType(): (POINT,),
    UnknownType(): (None,),
}
"""Types of v3 that can only be tested for null."""

PROMOTIONS: dict[Type, Type] = {
    IntegerType(): LongType(),
    FloatType(): DoubleType(),
    DecimalType(9, 2): DecimalType(20, 2),
    DateType(): TimestampType(),
}
WIDER: dict[Type, Sequence[Any]] = {DecimalType(20, 2): _decimals(2, 20)}
COMPARABLE = {**POOLS, **POOLS_V3, **WIDER}
ALL_POOLS = {**COMPARABLE, **OPAQUE}


# Schemas


@st.composite
def schemas(draw: st.DrawFn, version: int, file_format: str = "parquet") -> Schema:
    """A required long `n`, and a few columns: primitives, structs of them two deep, sometimes a list or a map."""
    numbers = iter(range(1, 100))
    kinds = [*POOLS, *(POOLS_V3 if version >= 3 else ())]

    def column(name: str, type_: Type) -> NestedField:
        return NestedField(next(numbers), name, type_, required=False)

    def some(prefix: str, least: int, most: int) -> list[NestedField]:
        picked = draw(st.lists(st.sampled_from(kinds), min_size=least, max_size=most))
        return [column(f"{prefix}{at}", type_) for at, type_ in enumerate(picked)]

    fields = [NestedField(next(numbers), "n", LongType(), required=True), *some("c", 1, 3)]
    if draw(st.booleans()):
        inner = some("x", 1, 2)
        if draw(st.booleans()):
            inner.append(column("deep", StructType(tuple(some("y", 1, 2)))))
        required = draw(st.booleans())
        fields.append(NestedField(next(numbers), "st", StructType(tuple(inner)), required=required))
    if draw(st.integers(0, 3)) == 0:
        fields.append(column("li", ListType(NestedField(next(numbers), "element", IntegerType()))))
        key = NestedField(next(numbers), "key", StringType(), required=True)
        fields.append(column("ma", MapType(key, NestedField(next(numbers), "value", DoubleType()))))
    if version >= 3 and draw(st.booleans()):
        opaque = [VariantType(), UnknownType(), GeometryType()] if file_format == "parquet" else [UnknownType()]
        fields.append(column("o", draw(st.sampled_from(opaque))))
    return Schema(tuple(fields))


@dataclass(frozen=True)
class Leaf:
    """A column that a filter can name: by its dotted name, and where its value is in a row."""

    name: str
    path: tuple[int, ...]
    type: Type

    def of(self, row: Mapping[int, Any]) -> Any:
        value: Any = row
        for number in self.path:
            value = None if value is None else value.get(number)
        return value

    def put(self, row: dict[int, Any], value: Any) -> None:
        """Set the value, if the structs around it are there."""
        inside: Any = row
        for number in self.path[:-1]:
            inside = None if inside is None else inside.get(number)
        if inside is not None:
            inside[self.path[-1]] = value

    def drop(self, row: dict[int, Any]) -> None:
        inside: Any = row
        for number in self.path[:-1]:
            inside = None if inside is None else inside.get(number)
        if inside is not None:
            inside.pop(self.path[-1], None)


def leaves(schema: Schema) -> list[Leaf]:
    """Every column, also those inside structs."""
    found: list[Leaf] = []

    def walk(fields: Iterable[NestedField], names: tuple[str, ...], path: tuple[int, ...]) -> None:
        for column in fields:
            leaf = Leaf(".".join((*names, column.name)), (*path, column.id), column.type)
            found.append(leaf)
            if isinstance(column.type, StructType):
                walk(column.type.fields, (*names, column.name), leaf.path)

    walk(schema.fields, (), ())
    return found


# Rows


def values(type_: Type, file_format: str = "parquet") -> st.SearchStrategy[Any]:
    """A value of the type, or null."""
    if isinstance(type_, StructType):
        inner = {column.id: values(column.type, file_format) for column in type_.fields}
        return st.none() | st.fixed_dictionaries(inner)
    if isinstance(type_, ListType):
        return st.none() | st.lists(values(type_.element.type), max_size=3)
    if isinstance(type_, MapType):
        keys = st.lists(st.sampled_from(TEXTS), max_size=2, unique=True)
        return st.none() | keys.map(lambda names: [(name, None) for name in names])
    return st.none() | st.sampled_from([one for one in ALL_POOLS[type_] if _storable(type_, one, file_format)])


def _storable(type_: Type, value: Any, file_format: str) -> bool:
    """ORC takes no fractions of seconds before 1970."""
    units = {TimestampType: 10**6, TimestamptzType: 10**6, TimestampNsType: 10**9, TimestamptzNsType: 10**9}
    return file_format != "orc" or type(type_) not in units or value >= 0 or value % units[type(type_)] == 0


def rows(
    schema: Schema, file_format: str = "parquet", *, min_size: int = 0, max_size: int = 8
) -> st.SearchStrategy[list[Row]]:
    """Rows without `n`, which the caller counts."""
    columns = {}
    for column in schema.fields:
        if column.name != "n":
            drawn = values(column.type, file_format)
            columns[column.id] = drawn.filter(lambda value: value is not None) if column.required else drawn
    return st.lists(st.fixed_dictionaries(columns), min_size=min_size, max_size=max_size)


def batch_of(schema: Schema, made: Sequence[Row]) -> pa.RecordBatch:
    """Rows as Arrow."""
    arrays = [array_from_canonical(column.type, [row.get(column.id) for row in made]) for column in schema.fields]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_to_arrow(schema))


def rows_of(schema: Schema, table: pa.Table) -> list[Row]:
    """Arrow as rows."""
    columns = {column.id: _values(column.type, table.column(at)) for at, column in enumerate(schema.fields)}
    return [dict(zip(columns, parts, strict=True)) for parts in zip(*columns.values(), strict=True)]


def _values(type_: Type, array: Any) -> list[Any]:
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in _values(type_, chunk)]
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    present = array.is_valid().to_pylist()
    if isinstance(type_, StructType):
        parts = {column.id: _values(column.type, array.field(at)) for at, column in enumerate(type_.fields)}
        return [{key: part[at] for key, part in parts.items()} if ok else None for at, ok in enumerate(present)]
    if isinstance(type_, VariantType):
        names = [field.name for field in array.type]
        metadata, value = (array.field(names.index(name)).to_pylist() for name in ("metadata", "value"))
        return [(metadata[at], value[at]) if ok else None for at, ok in enumerate(present)]
    if isinstance(type_, ListType | MapType):
        return array.to_pylist()
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return array.to_pylist()


def key(value: Any) -> Any:
    """A hashable stand-in: equal for what is the same value, so -0.0 is not 0.0 and NaN is NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, dict):
        return tuple((number, key(item)) for number, item in sorted(value.items()))
    if isinstance(value, list | tuple):
        return tuple(key(item) for item in value)
    return value


def multiset(made: Iterable[Row]) -> Counter[Any]:
    """Rows in no order."""
    return Counter(key(row) for row in made)


# Partitions

TRANSFORMS = ("identity", "bucket", "truncate", "years", "months", "days", "hours")
_TIMES = (DateType, TimestampType, TimestamptzType, TimestampNsType, TimestamptzNsType)
_SIZED = (IntegerType, LongType, DecimalType, StringType, BinaryType)


def _can(transform: str, type_: Type) -> bool:
    if not type_.is_primitive or isinstance(type_, GeometryType | UnknownType):
        return False
    match transform:
        case "identity":
            return True
        case "bucket":
            return not isinstance(type_, BooleanType | FloatType | DoubleType)
        case "truncate":
            return isinstance(type_, _SIZED)
        case "hours":
            return isinstance(type_, _TIMES) and not isinstance(type_, DateType)
    return isinstance(type_, _TIMES)


@st.composite
def partition_terms(draw: st.DrawFn, schema: Schema, most: int = 2) -> list[str]:
    """Terms such as `bucket(3, st.x0)`; no column twice, so that names and meanings cannot clash."""
    sources = [leaf for leaf in leaves(schema) if _can("identity", leaf.type)]
    picked = draw(st.lists(st.sampled_from(sources), max_size=most, unique_by=lambda leaf: leaf.name))
    terms = []
    for leaf in picked:
        transform = draw(st.sampled_from([name for name in TRANSFORMS if _can(name, leaf.type)]))
        match transform:
            case "identity":
                terms.append(leaf.name)
            case "bucket" | "truncate":
                terms.append(f"{transform}({draw(st.integers(1, 4))}, {leaf.name})")
            case _:
                terms.append(f"{transform}({leaf.name})")
    return terms


# Filters


@dataclass(frozen=True)
class Test:
    """One predicate; literals are canonical values."""

    __test__ = False
    leaf: Leaf
    operation: Operation
    literals: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Group:
    """`and`, `or`, or `not` with one member."""

    kind: str
    members: tuple[Filter, ...]


Filter = Test | Group
_NULL_TESTS = (Operation.IS_NULL, Operation.NOT_NULL)
_NAN_TESTS = (Operation.IS_NAN, Operation.NOT_NAN)
_PREFIX_TESTS = (Operation.STARTS_WITH, Operation.NOT_STARTS_WITH)
_COMPARISONS = (
    *(Operation.LT, Operation.LT_EQ, Operation.GT, Operation.GT_EQ, Operation.EQ, Operation.NOT_EQ),
    *(Operation.IN, Operation.NOT_IN),
)


@st.composite
def tests(draw: st.DrawFn, leaf: Leaf) -> Test:
    operations = [*_NULL_TESTS]
    if leaf.type in COMPARABLE:
        operations += [*_COMPARISONS] * 2
    if isinstance(leaf.type, FloatType | DoubleType):
        operations += _NAN_TESTS
    if isinstance(leaf.type, StringType):
        operations += _PREFIX_TESTS
    operation = draw(st.sampled_from(operations))
    if operation.is_unary:
        return Test(leaf, operation)
    pool = [value for value in ALL_POOLS[leaf.type] if expressible(leaf.type, value)]
    count = draw(st.integers(2, 4)) if operation.is_set else 1
    return Test(leaf, operation, tuple(draw(st.sampled_from(pool)) for _ in range(count)))


@st.composite
def filters(draw: st.DrawFn, schema: Schema, depth: int = 2) -> Filter:
    """Predicates on any column, joined by AND, OR and NOT."""
    kind = draw(st.sampled_from(["test", "test", "and", "or", "not"])) if depth else "test"
    if kind == "test":
        return draw(tests(draw(st.sampled_from(leaves(schema)))))
    count = 1 if kind == "not" else draw(st.integers(2, 3))
    return Group(kind, tuple(draw(filters(schema, depth - 1)) for _ in range(count)))


EPOCH = dt.datetime(1970, 1, 1)


def expressible(type_: Type, value: Any) -> bool:
    """Whether a filter may have the value as a literal: Python has it, and it is not NaN, which has its own tests."""
    if isinstance(value, float):
        return not math.isnan(value)
    if isinstance(type_, DateType):
        return -700_000 < value < 2_900_000
    if isinstance(type_, TimestampType | TimestamptzType):
        return abs(value) < 2**55
    if isinstance(type_, TimestampNsType | TimestamptzNsType):
        return value % 1000 == 0 and abs(value) < 2**62
    return True


def literal(type_: Type, value: Any) -> Any:
    """A canonical value as a person would write it in Python."""
    match type_:
        case DateType():
            return EPOCH.date() + dt.timedelta(days=value)
        case TimeType():
            return (EPOCH + dt.timedelta(microseconds=value)).time()
        case TimestampType():
            return EPOCH + dt.timedelta(microseconds=value)
        case TimestamptzType():
            return (EPOCH + dt.timedelta(microseconds=value)).replace(tzinfo=dt.UTC)
        case TimestampNsType():
            return EPOCH + dt.timedelta(microseconds=value // 1000)
        case TimestamptzNsType():
            return (EPOCH + dt.timedelta(microseconds=value // 1000)).replace(tzinfo=dt.UTC)
        case UuidType():
            return uuid.UUID(bytes=value)
    return value


def expression(where: Filter) -> Expression:
    """The filter as Frazil takes it."""
    if isinstance(where, Group):
        members = [expression(member) for member in where.members]
        return {"and": and_, "or": or_, "not": not_}[where.kind](*members)
    values_ = (literal(where.leaf.type, value) for value in where.literals)
    return predicate(where.operation, Reference(where.leaf.name), *values_)


def truth(where: Filter, row: Row) -> bool | None:
    """True, False, or None for unknown: SQL's logic; NaN equals nothing and is not ordered."""
    if isinstance(where, Group):
        parts = [truth(member, row) for member in where.members]
        if where.kind == "not":
            return None if parts[0] is None else not parts[0]
        decisive = where.kind == "or"
        return decisive if decisive in parts else None if None in parts else not decisive
    value, operation = where.leaf.of(row), where.operation
    if operation in _NULL_TESTS:
        return (value is None) is (operation is Operation.IS_NULL)
    if value is None:
        return None
    if operation in _NAN_TESTS:
        return math.isnan(value) is (operation is Operation.IS_NAN)
    first = where.literals[0]
    match operation:
        case Operation.LT:
            return bool(value < first)
        case Operation.LT_EQ:
            return bool(value <= first)
        case Operation.GT:
            return bool(value > first)
        case Operation.GT_EQ:
            return bool(value >= first)
        case Operation.EQ:
            return bool(value == first)
        case Operation.NOT_EQ:
            return bool(value != first)
        case Operation.IN:
            return any(value == each for each in where.literals)
        case Operation.NOT_IN:
            return all(value != each for each in where.literals)
        case Operation.STARTS_WITH:
            return bool(value.startswith(first))
    return not value.startswith(first)
