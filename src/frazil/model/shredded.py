"""Shredded variants (Parquet's VariantShredding): typed columns put back together into (metadata, value)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import MalformedData, Unsupported
from frazil.model.arrow import VARIANT_STORAGE, is_arrow_list
from frazil.model.variant import (
    MAX_DEPTH,
    NULL,
    object_fields,
    read_metadata,
    write_array,
    write_object,
    write_primitive,
)

Dictionary = Mapping[str, int]


def assemble(group: pa.StructArray) -> pa.StructArray:
    """The variant column of a file, shredded or not, as struct<metadata, value>."""
    if not pa.types.is_struct(group.type) or group.type.get_field_index("metadata") < 0:
        raise MalformedData(
            f"the file has {group.type} where variant was expected", hint="the file is of another table"
        )
    mask = group.is_null() if group.null_count else None
    metadata = _bytes(group, "metadata")
    if group.type.get_field_index("typed_value") < 0 and group.type.get_field_index("value") >= 0:
        value = _bytes(group, "value")
        if pc.struct_field(group, group.type.get_field_index("value")).null_count == group.null_count:
            return pa.StructArray.from_arrays([metadata, value], fields=list(VARIANT_STORAGE), mask=mask)
    present = group.drop_null() if group.null_count else group
    known: dict[bytes, tuple[list[str], Dictionary]] = {}
    rows = []
    for data in _bytes(present, "metadata").to_pylist():
        if data is None:
            raise MalformedData("a variant has no metadata", hint="the file was written by a faulty writer")
        if data not in known:
            names = read_metadata(data)
            known[data] = names, {name: number for number, name in enumerate(names)}
        rows.append(known[data])
    values = pa.array([NULL if value is None else value for value in _values(present, rows, 0)], pa.binary())
    if mask is not None:
        values = pc.replace_with_mask(pa.repeat(pa.scalar(NULL), len(group)), group.is_valid(), values)
    return pa.StructArray.from_arrays([metadata, values], fields=list(VARIANT_STORAGE), mask=mask)


def _bytes(group: pa.StructArray, name: str) -> pa.Array:
    array = group.field(group.type.get_field_index(name))
    return array if array.type == pa.binary() else array.cast(pa.binary())


def _values(group: pa.StructArray, rows: Sequence[tuple[list[str], Dictionary]], depth: int) -> list[bytes | None]:
    """Per row the encoded value, or None where it is missing (both columns null)."""
    if depth > MAX_DEPTH:
        raise MalformedData(f"a variant is shredded deeper than {MAX_DEPTH}", hint="the file is damaged or hostile")
    count = len(group)
    whole: list[bytes | None] = [None] * count
    if group.type.get_field_index("value") >= 0:
        whole = _bytes(group, "value").to_pylist()
    index = group.type.get_field_index("typed_value")
    if index < 0:
        return whole
    typed = group.field(index)
    if pa.types.is_struct(typed.type):
        return _objects(typed, whole, rows, depth)
    encoded = _arrays(typed, rows, depth) if is_arrow_list(typed.type) else _primitives(typed)
    return [plain if made is None else made for plain, made in zip(whole, encoded, strict=True)]


def _objects(
    typed: pa.StructArray, whole: Sequence[bytes | None], rows: Sequence[tuple[list[str], Dictionary]], depth: int
) -> list[bytes | None]:
    columns = {field.name: _values(typed.field(index), rows, depth + 1) for index, field in enumerate(typed.type)}
    result: list[bytes | None] = []
    for row, present in enumerate(typed.is_valid().to_pylist()):
        rest = whole[row]
        if not present:
            result.append(rest)
            continue
        names, dictionary = rows[row]
        fields = {name: data for name, column in columns.items() if (data := column[row]) is not None}
        if rest is not None:
            # a partly shredded object: the fields without a column of their own are in `value`
            if not rest or rest[0] & 3 != 2:
                raise MalformedData(
                    "a shredded object has a value that is no object", hint="the file was written by a faulty writer"
                )
            for number, start, end in object_fields(rest, 0, len(rest)):
                if number >= len(names):
                    raise MalformedData(f"field id {number} is not in the dictionary", hint="the file is damaged")
                if names[number] not in columns:
                    fields[names[number]] = rest[start:end]
        result.append(write_object(fields, dictionary))
    return result


def _arrays(typed: pa.Array, rows: Sequence[tuple[list[str], Dictionary]], depth: int) -> list[bytes | None]:
    lists = typed if pa.types.is_list(typed.type) else typed.cast(pa.list_(typed.type.value_field))
    offsets = lists.offsets.to_pylist()
    first = offsets[0] if offsets else 0
    of_element = [rows[row] for row in range(len(lists)) for _ in range(offsets[row + 1] - offsets[row])]
    elements = _values(lists.values.slice(first, len(of_element)), of_element, depth + 1)
    return [
        # elements are never missing: a reader must take what has neither column for null
        write_array(
            [NULL if data is None else data for data in elements[offsets[row] - first : offsets[row + 1] - first]]
        )
        if present
        else None
        for row, present in enumerate(lists.is_valid().to_pylist())
    ]


def _primitives(typed: pa.Array) -> list[bytes | None]:
    kind, values = _physical(typed)
    write: Callable[[Any], bytes] = lambda value: write_primitive(kind, value)  # noqa: E731
    try:
        return [None if value is None else write(value) for value in values]
    except (struct.error, OverflowError) as error:
        raise MalformedData(f"a shredded {kind} is out of range", hint="the file is damaged") from error


def _physical(typed: pa.Array) -> tuple[str, list[Any]]:
    """The variant type of a typed column, and its values as `write_primitive` wants them."""
    kind = typed.type
    if isinstance(kind, pa.UuidType):
        return "uuid", typed.storage.to_pylist()
    if isinstance(kind, pa.BaseExtensionType):
        return _physical(typed.storage)
    if pa.types.is_boolean(kind):
        return "boolean", typed.to_pylist()
    if pa.types.is_signed_integer(kind):
        return f"int{kind.bit_width}", typed.to_pylist()
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return "float" if pa.types.is_float32(kind) else "double", typed.to_pylist()
    if pa.types.is_decimal(kind):
        width = 4 if kind.precision <= 9 else 8 if kind.precision <= 18 else 16
        return f"decimal{width}", typed.to_pylist()
    if kind == pa.date32():
        return "date", typed.view(pa.int32()).to_pylist()
    if kind == pa.time64("us"):
        return "time", typed.view(pa.int64()).to_pylist()
    if pa.types.is_timestamp(kind) and kind.unit in ("us", "ns"):
        name = "timestampntz" if kind.tz is None else "timestamptz"
        return name if kind.unit == "us" else f"{name}_nanos", typed.view(pa.int64()).to_pylist()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string", typed.to_pylist()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "binary", typed.to_pylist()
    raise Unsupported(
        f"variants shredded as {kind} cannot be read", hint="see Parquet's VariantShredding for the types"
    )
