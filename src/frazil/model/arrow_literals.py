"""Canonical values as Arrow scalars that compare with the arrays of a column, whatever width those have.

>>> from frazil.model.types import DateType
>>> arrow_literal(DateType(), 19723, pa.date32())
<pyarrow.Date32Scalar: datetime.date(2024, 1, 1)>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.model.arrow import type_to_arrow
from frazil.model.types import BinaryType, DecimalType, DoubleType, FixedType, FloatType, StringType, Type, UuidType
from frazil.model.values import unscaled


def comparable_array(type_: Type, array: pa.Array) -> pa.Array:
    """An array in a form that Arrow's comparisons take: no extension type, no dictionary."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(type_, FixedType) and pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())  # bounds of it may be shorter, and Arrow compares equal widths only
    too_wide = isinstance(type_, StringType) and pa.types.is_decimal(array.type)  # text is what it is shown as
    if array.type in _OTHER_WIDTHS or pa.types.is_duration(array.type) or too_wide:
        return array.cast(type_to_arrow(type_))
    return array


_OTHER_WIDTHS = frozenset((pa.float16(), pa.uint64(), pa.date64(), pa.time32("s"), pa.time32("ms")))
"""Arrow's types that no type of the model is, and that do not compare with the literals of the nearest one."""


def arrow_literal_set(type_: Type, values: Sequence[Any], like: pa.DataType) -> pa.Array:
    """An array of canonical values, to compare with arrays of type `like`."""
    if isinstance(type_, DecimalType):
        same = pa.types.is_decimal128(like) and like.scale == type_.scale
        kind = like if same else pa.decimal128(type_.precision, type_.scale)
        # a partition value rounded down may have a digit more than its column: Arrow compares it but would not cast it
        data = b"".join(unscaled(value).to_bytes(16, "little", signed=True) for value in values)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data)])
    if isinstance(type_, StringType | BinaryType | FixedType | UuidType) and not pa.types.is_null(like):
        return pa.array(values, like)
    return pa.array(values, type_to_arrow(type_))


def is_in_set(type_: Type, array: pa.Array, values: Sequence[Any]) -> pa.BooleanArray:
    """Where an array has one of the canonical values; False for null. Zeros are equal whatever their sign."""
    if isinstance(type_, FloatType | DoubleType) and 0.0 in values:
        values = [*values, -0.0]  # Arrow's set is of bit patterns
    listed = arrow_literal_set(type_, values, array.type)
    # a column written before its type was promoted is narrower than the values
    return pc.is_in(array if array.type == listed.type else array.cast(listed.type), listed)


def arrow_literal(type_: Type, value: Any, like: pa.DataType) -> pa.Scalar:
    """A canonical value as a scalar, to compare with arrays of type `like`."""
    return arrow_literal_set(type_, [value], like)[0]
