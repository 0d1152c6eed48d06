"""Lance's columns in the types of Frazil's model, which other engines and formats know, and back.

Lance has all of Arrow's types: vectors are lists there and back again, dictionaries their values, unsigned numbers the
next wider ones, durations numbers of their unit.

>>> from frazil.model.types import FloatType, list_of
>>> vectors = pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2))
>>> to_model(vectors, list_of(1, FloatType())).to_pylist()
[[1.0, 2.0], None]
>>> from_model(pa.array([[1.0, 2.0], None], pa.list_(pa.float32())), pa.field("v", vectors.type)) == vectors
True
"""

from __future__ import annotations

import pyarrow as pa

from frazil.errors import InvalidValue
from frazil.lance.lists import as_list, plain_list
from frazil.lance.rows import array_as
from frazil.model.arrow import is_arrow_list, rebuild_list, rebuild_map, rebuild_struct, type_to_arrow
from frazil.model.types import ListType, MapType, StructType, Type, UnknownType, UuidType


def to_model(array: pa.Array, type_: Type) -> pa.Array:
    """Values as read, in the Arrow type that stands for the model's; InvalidValue if one does not fit."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(type_, UnknownType | UuidType):
        return array
    if isinstance(type_, StructType):
        parts = [to_model(array.field(number), field.type) for number, field in enumerate(type_.fields)]
        fields = [pa.field(field.name, part.type) for field, part in zip(type_.fields, parts, strict=True)]
        return rebuild_struct(array, parts, pa.struct(fields))
    if isinstance(type_, ListType):
        plain = plain_list(array)
        values = to_model(plain.values, type_.element.type)
        return rebuild_list(plain, values, pa.list_(pa.field("element", values.type)))
    if isinstance(type_, MapType):
        keys, items = to_model(array.keys, type_.key.type), to_model(array.items, type_.value.type)
        return rebuild_map(array, keys, items, pa.map_(keys.type, pa.field("value", items.type)))
    wanted = type_to_arrow(type_)
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except pa.ArrowException as error:
        raise InvalidValue(
            f"a value of type {array.type} does not fit {type_}: {error}",
            hint="read it as Lance has it: scan().to_arrow()",
        ) from error


def from_model(array: pa.Array, field: pa.Field) -> pa.Array:
    """Values in the model's Arrow type, in that of a Lance column; InvalidValue if one does not fit."""
    wanted = field.type
    if isinstance(wanted, pa.BaseExtensionType):
        plain = array.storage if isinstance(array, pa.ExtensionArray) else array
        return pa.ExtensionArray.from_storage(wanted, from_model(plain, field.with_type(wanted.storage_type)))
    if pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        parts = [from_model(array.field(number), inner) for number, inner in enumerate(wanted)]
        return rebuild_struct(array, parts, wanted)
    if pa.types.is_map(wanted):
        keys, items = from_model(array.keys, wanted.key_field), from_model(array.items, wanted.item_field)
        return rebuild_map(array, keys, items, wanted)
    if is_arrow_list(wanted):
        values = from_model(array.values, wanted.value_field.with_nullable(True))
        return as_list(rebuild_list(array, values, pa.list_(wanted.value_field)), field)
    if (pa.types.is_decimal(array.type) and pa.types.is_uint64(wanted)) or pa.types.is_duration(wanted):
        return _cast(array, field)
    if pa.types.is_string(array.type) and pa.types.is_decimal256(wanted):
        return _cast(array, field)
    return array_as(array, field)


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return array.cast(field.type)
    except pa.ArrowException as error:
        raise InvalidValue(
            f"column {field.name!r} of type {field.type}: {error}", hint="check its values", column=field.name
        ) from error
