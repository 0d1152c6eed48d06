"""Columns that are to be: what could be made, and never be written or read again, is refused."""

from __future__ import annotations

import pyarrow as pa

from frazil.errors import InvalidSchema
from frazil.lance.proto.messages import Field
from frazil.lance.schema import fields_of
from frazil.model.arrow import is_arrow_list

_OF_ANY_LENGTH = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_dictionary,
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_map,
)


def new_fields(schema: pa.Schema, first_id: int = 0) -> list[Field]:
    """The fields of new columns, numbered from `first_id`; InvalidSchema for a name or type that Lance cannot hold."""
    for field in schema:
        check_name(field.name)
        _check_type(field.type, field.name)
    return fields_of(schema, first_id)


def check_name(name: str) -> None:
    """InvalidSchema for a column's name by which it could not be asked for."""
    if not name or "." in name or "`" in name:
        raise InvalidSchema(f"{name!r} cannot name a column", hint="Lance allows no dots, and no backticks")


def can_be_in_vector(kind: pa.DataType) -> bool:
    """Whether all values of a type have one length."""
    return not any(test(kind) for test in _OF_ANY_LENGTH)


def _check_type(kind: pa.DataType, path: str) -> None:
    if isinstance(kind, pa.BaseExtensionType):
        _check_type(kind.storage_type, path)
    elif pa.types.is_struct(kind):
        for inner in kind:
            _check_type(inner.type, f"{path}.{inner.name}")
    elif pa.types.is_map(kind):
        _check_type(kind.key_type, f"{path}.key")
        _check_type(kind.item_type, f"{path}.value")
    elif is_arrow_list(kind):
        if pa.types.is_fixed_size_list(kind) and not can_be_in_vector(kind.value_type):
            raise InvalidSchema(
                f"column {path!r} has lists of one length of {kind.value_type}, which Lance cannot hold",
                hint="make it a list of any length",
            )
        _check_type(kind.value_type, f"{path}.item")
