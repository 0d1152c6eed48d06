"""Default values of columns: which are allowed, in canonical form.

>>> from frazil.model.types import DateType
>>> canonical_default("day", DateType(), "1970-01-03", format_version=3)
2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from frazil.errors import InvalidEvolution, InvalidValue
from frazil.model.types import (
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    UnknownType,
    VariantType,
    children,
    walk,
)
from frazil.model.values import canonical


def canonical_default(name: str, type_: Type, default: Any, format_version: int) -> Any:
    """The default of column `name` as a canonical value, or the reason why it cannot be one. None is null."""
    if default is None:
        return None
    if format_version < 3:
        raise InvalidEvolution(
            f"column {name!r}: defaults need format version 3; this table has {format_version}",
            hint="upgrade the table, or leave out the default",
        )
    if isinstance(type_, UnknownType | VariantType | GeometryType | GeographyType):
        raise InvalidEvolution(f"column {name!r}: type {type_} can only default to null", hint="leave out the default")
    if isinstance(type_, StructType):
        return _struct_default(name, type_, default)
    try:
        return canonical(type_, default)
    except InvalidValue as error:
        raise InvalidValue(f"default of column {name!r}: {error.message}", hint=error.hint) from error


def _struct_default(name: str, type_: StructType, default: Any) -> dict[int, Any]:
    if default != {}:
        raise InvalidEvolution(
            f"column {name!r}: a struct can only default to null or {{}}", hint="set defaults on its fields instead"
        )
    for column in type_.fields:
        if column.required and column.initial_default is None:
            raise InvalidEvolution(
                f"column {name!r} cannot default to {{}}: its required field {column.name!r} has no default",
                hint="set one on that field",
            )
    return {}


def check_new_type(name: str, type_: Type, format_version: int) -> Type:
    """A type that column `name` is to have, with the defaults inside it canonical; refused if the version lacks it."""
    for part in (type_, *(column.type for column in walk(type_))):
        if part.added_in > format_version:
            raise InvalidEvolution(
                f"column {name!r}: type {part} needs format version {part.added_in}; this table has {format_version}",
                hint="upgrade the table first",
            )

    def checked(column: NestedField) -> NestedField:
        initial, write = (
            canonical_default(f"{name}.{column.name}", column.type, default, format_version)
            for default in (column.initial_default, column.write_default)
        )
        return replace(column, initial_default=initial, write_default=write)

    return _map_fields(type_, checked)


def _map_fields(type_: Type, change: Callable[[NestedField], NestedField]) -> Type:
    """The type with each field inside it replaced, inner before outer."""
    inner = tuple(change(replace(column, type=_map_fields(column.type, change))) for column in children(type_))
    if isinstance(type_, StructType):
        return StructType(inner)
    if isinstance(type_, ListType):
        return ListType(*inner)
    return MapType(*inner) if isinstance(type_, MapType) else type_
