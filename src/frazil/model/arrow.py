"""Schemas and arrays between Iceberg and Arrow.

Field ids travel in the field metadata `PARQUET:field_id`, where pyarrow's Parquet reader and writer look for them.
Types that Arrow has no name for (variant, geometry, geography) keep theirs in `iceberg.type`.

>>> from frazil.model.types import LongType, NestedField, StringType
>>> columns = (NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
>>> schema_to_arrow(Schema(columns)).types
[DataType(int64), DataType(string)]
>>> schema_from_arrow(schema_to_arrow(Schema(columns))).columns
['id', 'name']
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidSchema, InvalidValue
from frazil.model.ddl import parse_ddl
from frazil.model.fresh_ids import number_type
from frazil.model.schema import Schema, type_from_json
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
    UnknownType,
    UuidType,
    VariantType,
    parse_type,
    walk,
)

FIELD_ID_KEY = b"PARQUET:field_id"
DOC_KEY = b"doc"
TYPE_KEY = b"iceberg.type"

VARIANT_STORAGE = pa.struct(
    [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
)

_LEAVES: dict[type[Type], pa.DataType] = {
    UnknownType: pa.null(),
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", "UTC"),
    TimestampNsType: pa.timestamp("ns"),
    TimestamptzNsType: pa.timestamp("ns", "UTC"),
    StringType: pa.string(),
    UuidType: pa.uuid(),
    BinaryType: pa.binary(),
    GeometryType: pa.binary(),
    GeographyType: pa.binary(),
    VariantType: VARIANT_STORAGE,
}


def type_to_arrow(type_: Type) -> pa.DataType:
    """The Arrow type of an Iceberg type.

    >>> type_to_arrow(DecimalType(9, 2))
    Decimal128Type(decimal128(9, 2))
    """
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, FixedType):
        return pa.binary(type_.length)
    if isinstance(type_, StructType):
        return pa.struct([field_to_arrow(column) for column in type_.fields])
    if isinstance(type_, ListType):
        return pa.list_(field_to_arrow(type_.element))
    if isinstance(type_, MapType):
        return pa.map_(field_to_arrow(type_.key), field_to_arrow(type_.value))
    return _LEAVES[type(type_)]


def field_to_arrow(column: NestedField) -> pa.Field:
    """The Arrow field of an Iceberg field, with its id and doc as metadata."""
    metadata = {FIELD_ID_KEY: str(column.id).encode()}
    if column.doc is not None:
        metadata[DOC_KEY] = column.doc.encode()
    if isinstance(column.type, VariantType | GeometryType | GeographyType):
        metadata[TYPE_KEY] = str(column.type).encode()
    return pa.field(column.name, type_to_arrow(column.type), nullable=column.optional, metadata=metadata)


def schema_to_arrow(schema: Schema) -> pa.Schema:
    """The Arrow schema of an Iceberg schema."""
    return pa.schema([field_to_arrow(column) for column in schema.fields])


def field_id_of(field: pa.Field) -> int | None:
    """The field id in an Arrow field's metadata, if there is one."""
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    try:
        number = int(text) if text is not None else -1
    except ValueError:
        return None
    return number if number >= 0 else None


def schema_from_arrow(arrow: pa.Schema) -> Schema:
    """An Iceberg schema for Arrow data: with its field ids if every field has one, else with fresh ids from 1."""
    numbers = itertools.count(-1, -1)  # stand-ins while some ids may be missing
    columns = [_field_from_arrow(field, numbers) for field in arrow]
    every = list(walk(StructType(tuple(columns))))
    if all(column.id > 0 for column in every) and len({column.id for column in every}) == len(every):
        return Schema(tuple(columns))
    return _numbered(columns)


def _numbered(columns: Sequence[NestedField]) -> Schema:
    numbers = itertools.count(1)
    struct = number_type(StructType(tuple(columns)), lambda _: next(numbers))
    assert isinstance(struct, StructType)
    return Schema(struct.fields)


def _field_from_arrow(field: pa.Field, numbers: Iterator[int], name: str | None = None) -> NestedField:
    metadata = field.metadata or {}
    if TYPE_KEY in metadata:
        type_ = parse_type(metadata[TYPE_KEY].decode())
    elif metadata.get(b"ARROW:extension:name") == b"arrow.parquet.variant":
        type_ = VariantType()
    else:
        type_ = _type_from_arrow(field, numbers)
    doc = metadata.get(DOC_KEY)
    required = not field.nullable and not isinstance(type_, UnknownType)
    number = field_id_of(field)
    return NestedField(
        next(numbers) if number is None else number,
        field.name if name is None else name,
        type_,
        required,
        None if doc is None else doc.decode("utf-8", "replace"),
    )


_FROM_ARROW: Sequence[tuple[Callable[[pa.DataType], bool], Type]] = (
    (pa.types.is_null, UnknownType()),
    (pa.types.is_boolean, BooleanType()),
    (lambda kind: kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), IntegerType()),
    (lambda kind: kind in (pa.int64(), pa.uint32()), LongType()),
    (lambda kind: kind in (pa.float16(), pa.float32()), FloatType()),
    (pa.types.is_float64, DoubleType()),
    (pa.types.is_date, DateType()),
    (pa.types.is_time, TimeType()),
    (pa.types.is_large_string, StringType()),
    (pa.types.is_string, StringType()),
    (pa.types.is_string_view, StringType()),
    (pa.types.is_large_binary, BinaryType()),
    (pa.types.is_binary, BinaryType()),
    (pa.types.is_binary_view, BinaryType()),
)


def _type_from_arrow(field: pa.Field, numbers: Iterator[int]) -> Type:
    kind = field.type
    if isinstance(kind, pa.UuidType):
        return UuidType()
    if isinstance(kind, pa.BaseExtensionType):
        return _type_from_arrow(field.with_type(kind.storage_type), numbers)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _type_from_arrow(field.with_type(kind.value_type), numbers)
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return FixedType(kind.byte_width)
    if pa.types.is_timestamp(kind):
        if kind.unit == "ns":
            return TimestampNsType() if kind.tz is None else TimestamptzNsType()
        return TimestampType() if kind.tz is None else TimestamptzType()
    if pa.types.is_struct(kind):
        return StructType(tuple(_field_from_arrow(child, numbers) for child in kind))
    if pa.types.is_map(kind):
        key = _field_from_arrow(kind.key_field.with_nullable(False), numbers, "key")
        return MapType(key, _field_from_arrow(kind.item_field, numbers, "value"))
    if is_arrow_list(kind):
        return ListType(_field_from_arrow(kind.value_field, numbers, "element"))
    for accepts, type_ in _FROM_ARROW:
        if accepts(kind):
            return type_
    raise InvalidSchema(
        f"column {field.name!r} has the Arrow type {kind}, which Iceberg has no type for",
        hint="cast it first, for example uint64 to decimal(20, 0) or duration to int64",
    )


def is_arrow_list(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a list in any of its layouts."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def schema_from_anything(given: Any) -> Schema:
    """A schema from what people have: a Schema, a pyarrow schema, DDL text, or a Spark StructType.

    >>> schema_from_anything("id BIGINT NOT NULL, tags ARRAY<STRING>").find("tags").type
    ListType(element=NestedField(id=3, name='element', type=StringType(), required=False, ...))
    """
    if isinstance(given, Schema):
        return given
    if isinstance(given, pa.Schema):
        return schema_from_arrow(given)
    if isinstance(given, str):
        return _numbered(parse_ddl(given))
    if isinstance(given, Sequence) and given and all(isinstance(column, NestedField) for column in given):
        return Schema(tuple(given))
    if callable(getattr(given, "jsonValue", None)):
        return schema_from_spark(given.jsonValue())
    if isinstance(getattr(given, "schema", None), pa.Schema):
        return schema_from_arrow(given.schema)
    raise InvalidSchema(
        f"{type(given).__name__} is not a schema",
        hint="give a frazil Schema, a pyarrow schema, a Spark StructType or DDL text such as 'id BIGINT, name STRING'",
    )


def schema_from_spark(document: Any) -> Schema:
    """A schema from the JSON form of a Spark StructType (`StructType.jsonValue()`).

    >>> spark = {"type": "struct", "fields": [{"name": "t", "type": "timestamp_ntz", "nullable": False}]}
    >>> schema_from_spark(spark).find("t")
    NestedField(id=1, name='t', type=TimestampType(), required=True, ...)
    """
    try:
        columns = [_field_from_spark(column) for column in document["fields"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidSchema(f"not a Spark schema: {error!r}", hint="pass the StructType itself") from error
    return _numbered(columns)


def _field_from_spark(column: Any) -> NestedField:
    type_ = _type_from_spark(column["type"])
    comment = (column.get("metadata") or {}).get("comment")
    return NestedField(0, column["name"], type_, not column["nullable"] and not isinstance(type_, UnknownType), comment)


def _type_from_spark(document: Any) -> Type:
    if isinstance(document, str):
        [column] = parse_ddl(f"x {'void' if document == 'null' else document}")
        return column.type
    kind = document["type"]
    if kind == "struct":
        return StructType(tuple(_field_from_spark(column) for column in document["fields"]))
    if kind == "array":
        element = _type_from_spark(document["elementType"])
        return ListType(NestedField(0, "element", element, not document["containsNull"]))
    if kind == "map":
        key, value = _type_from_spark(document["keyType"]), _type_from_spark(document["valueType"])
        return MapType(
            NestedField(0, "key", key, True), NestedField(0, "value", value, not document["valueContainsNull"])
        )
    if kind == "udt":
        return _type_from_spark(document["sqlType"])
    return type_from_json(document)


# Arrays.


def rebuild_struct(array: pa.StructArray, children: Sequence[pa.Array], type_: pa.StructType) -> pa.StructArray:
    """A struct array of other children with the nulls of `array`."""
    mask = array.is_null() if array.null_count else None
    if not children:
        return pa.array([None if null else {} for null in mask.to_pylist()] if mask else [{}] * len(array), type_)
    if mask is not None:
        children = [_without_masked_nulls(child, field, mask) for child, field in zip(children, type_, strict=True)]
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)


def _without_masked_nulls(child: pa.Array, field: pa.Field, mask: pa.Array) -> pa.Array:
    """A required child whose nulls all lie below a null parent, without them: pyarrow's Parquet writer insists."""
    if field.nullable or not child.null_count or pc.and_not(child.is_null(), mask).true_count:
        return child
    return _without_nulls(child)


def _without_nulls(array: pa.Array) -> pa.Array:
    if not array.null_count:
        return array
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(array.type, _without_nulls(array.storage))
    if pa.types.is_struct(array.type):
        fields = list(array.type)
        parts = [array.field(index) for index in range(len(fields))]
        parts = [part if field.nullable else _without_nulls(part) for field, part in zip(fields, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields)
    children = None
    if pa.types.is_list(array.type):
        children = [array.values]
    elif pa.types.is_map(array.type):
        fields = [array.type.key_field, array.type.item_field]
        children = [pa.StructArray.from_arrays([array.keys, array.items], fields=fields)]
    buffers = [None, *array.buffers()[1 : 2 if children else None]]
    return pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset, children)


def rebuild_list(array: pa.ListArray, values: pa.Array, type_: pa.ListType) -> pa.ListArray:
    """A list array over other values (as many as `array.values`), with the offsets and nulls of `array`."""
    return pa.Array.from_buffers(type_, len(array), array.buffers()[:2], offset=array.offset, children=[values])


def rebuild_map(array: pa.MapArray, keys: pa.Array, items: pa.Array, type_: pa.MapType) -> pa.MapArray:
    """A map array over other keys and items, with the offsets and nulls of `array`."""
    entries = pa.StructArray.from_arrays([keys, items], fields=[type_.key_field, type_.item_field])
    return pa.Array.from_buffers(type_, len(array), array.buffers()[:2], offset=array.offset, children=[entries])


def array_from_canonical(type_: Type, values: Sequence[Any]) -> pa.Array:
    """An Arrow array of canonical values, of the type that `type_to_arrow` gives.

    >>> array_from_canonical(DateType(), [0, None]).to_pylist()
    [datetime.date(1970, 1, 1), None]
    """
    arrow = type_to_arrow(type_)
    if isinstance(type_, StructType):
        children = [
            array_from_canonical(column.type, [None if value is None else value.get(column.id) for value in values])
            for column in type_.fields
        ]
        return rebuild_struct(_marks(values), children, arrow)
    if isinstance(type_, VariantType):
        parts = [
            pa.array([b"" if value is None else value[part] for value in values], pa.binary()) for part in range(2)
        ]
        return rebuild_struct(_marks(values), parts, arrow)
    if isinstance(type_, ListType):
        inner = array_from_canonical(type_.element.type, [item for value in values for item in value or ()])
        return rebuild_list(_lengths(values), inner, arrow)
    if isinstance(type_, MapType):
        pairs = [pair for value in values for pair in value or ()]
        keys = array_from_canonical(type_.key.type, [key for key, _ in pairs])
        items = array_from_canonical(type_.value.type, [item for _, item in pairs])
        return rebuild_map(_lengths(values), keys, items, arrow)
    try:
        if isinstance(type_, UuidType):
            return pa.ExtensionArray.from_storage(arrow, pa.array(values, arrow.storage_type))
        return pa.array(values, arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(f"not a value of type {type_}: {error}", hint="check the values of the column") from error


def _marks(values: Sequence[Any]) -> pa.StructArray:
    """A struct array without fields, null where the values are None."""
    present = pa.array([None if value is None else True for value in values], pa.bool_())
    return pa.StructArray.from_arrays([present], names=["present"], mask=present.is_null())


def _lengths(values: Sequence[Any]) -> pa.ListArray:
    """A list array with the lengths and nulls of the values."""
    return pa.array([None if value is None else [None] * len(value) for value in values], pa.list_(pa.null()))


def null_array(arrow: pa.DataType, length: int) -> pa.Array:
    """Nulls of an Arrow type. Required fields of structs, and both parts of variants, have values below the nulls:
    pyarrow's Parquet writer insists.

    >>> null_array(VARIANT_STORAGE, 2).field("value").to_pylist()
    [b'', b'']
    """
    nulls = pa.nulls(length, arrow)
    if not pa.types.is_struct(arrow) or not arrow.num_fields:
        return nulls
    return rebuild_struct(nulls, [null_array(field.type, length) for field in arrow], arrow)


def constant_array(type_: Type, value: Any, length: int) -> pa.Array:
    """An array of one canonical value, repeated. A null is of the right type as well."""
    if value is None:
        return null_array(type_to_arrow(type_), length)
    if not type_.is_nested and not isinstance(type_, VariantType | UuidType):
        return pa.repeat(array_from_canonical(type_, [value])[0], length)
    return array_from_canonical(type_, [value]).take(pa.repeat(pa.scalar(0, pa.int64()), length))


def canonical_from_scalar(type_: Type, scalar: pa.Scalar) -> Any:
    """The canonical value of an Arrow scalar of a primitive type."""
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.ExtensionScalar):
        return scalar.value.as_py()
    if pa.types.is_temporal(scalar.type):
        return scalar.value
    return scalar.as_py()
