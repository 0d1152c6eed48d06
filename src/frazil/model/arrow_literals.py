"""Canonical values as Arrow scalars that compare with the arrays of a column, whatever width those have.

>>> from frazil.model.types import DateType
>>> arrow_literal(DateType(), 19723, pa.date32())
<pyarrow.Date32Scalar: datetime.date(2024, 1, 1)>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from frazil.model.arrow import type_to_arrow
from frazil.model.types import BinaryType, DecimalType, FixedType, StringType, Type, UuidType

_WIDEST_DECIMAL = 76


def comparable_array(type_: Type, array: pa.Array) -> pa.Array:
    """An array in a form that Arrow's comparisons take: no extension type, no dictionary."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(type_, FixedType) and pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())  # bounds of it may be shorter, and Arrow compares equal widths only
    return array


def arrow_literal_set(type_: Type, values: Sequence[Any], like: pa.DataType) -> pa.Array:
    """An array of canonical values, to compare with arrays of type `like`."""
    if isinstance(type_, DecimalType):
        try:
            return pa.array(values, pa.decimal128(type_.precision, type_.scale))
        except pa.ArrowInvalid:  # a partition value rounded down may have one digit more than its column
            return pa.array(values, pa.decimal256(_WIDEST_DECIMAL, type_.scale))
    if isinstance(type_, StringType | BinaryType | FixedType | UuidType) and not pa.types.is_null(like):
        return pa.array(values, like)
    return pa.array(values, type_to_arrow(type_))


def arrow_literal(type_: Type, value: Any, like: pa.DataType) -> pa.Scalar:
    """A canonical value as a scalar, to compare with arrays of type `like`."""
    return arrow_literal_set(type_, [value], like)[0]
