"""What the columns and properties of a table become in another format, or why that one cannot hold them.

Vectors are lists in Iceberg, and vectors again in Lance: properties remember them (see `frazil.lance.vectors`).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from frazil.errors import InvalidSchema, Unsupported
from frazil.iceberg import properties as props
from frazil.iceberg.metadata import SUPPORTED_FORMAT_VERSION
from frazil.iceberg.new_table import DEFAULT_FORMAT_VERSION
from frazil.lance.logical_types import JSON
from frazil.lance.new_columns import new_fields
from frazil.lance.plain_schema import plain_schema
from frazil.lance.schema import EXTENSION_NAME, Node
from frazil.lance.vectors import HALF, SIZE, told_of, with_vectors
from frazil.lance.version import LanceVersion
from frazil.model.schema import Schema
from frazil.model.types import ListType

_UUID = b"arrow.uuid"
_FROM_ICEBERG = frozenset({props.DEFAULT_NAME_MAPPING.name})
"""Properties about field ids, which are others in another format."""


def to_lance(schema: Schema, properties: Mapping[str, str]) -> tuple[pa.Schema, dict[str, str]]:
    """The columns of a Lance table, and its properties; an error that names what Lance cannot hold."""
    for column in schema.fields:
        if column.write_default is not None:
            raise Unsupported(
                f"column {column.name!r} has a default for new rows, and Lance has none",
                hint=f"ALTER TABLE ... ALTER COLUMN {column.name} DROP DEFAULT first",
                column=column.name,
            )
    columns, left = with_vectors(plain_schema(schema), properties)
    new_fields(columns)  # refuses names that Lance has no place for
    return columns, {key: text for key, text in left.items() if key not in _FROM_ICEBERG}


def about_vectors(schema: Schema, properties: Mapping[str, str]) -> dict[str, str]:
    """Those properties that make vectors of a schema's lists."""
    lists = {column.name for column in schema.fields if isinstance(column.type, ListType)}
    return {key: text for key, text in properties.items() if key.removesuffix(SIZE).removesuffix(HALF) in lists}


def to_iceberg(version: LanceVersion) -> Schema:
    """The columns of an Iceberg table; an error that names what Iceberg cannot hold."""
    for top in version.nodes:
        _check(top, top.name)
    return version.schema


def iceberg_properties(version: LanceVersion) -> dict[str, str]:
    """The properties of an Iceberg table, with those by which lists become vectors again."""
    return {**version.manifest.config, **told_of(version.arrow_schema)}


def format_version(*schemas: Schema) -> int:
    """The lowest format version of Iceberg, from the usual one on, that has all types."""
    for number in range(DEFAULT_FORMAT_VERSION, SUPPORTED_FORMAT_VERSION):
        try:
            for schema in schemas:
                schema.check_version(number)
        except InvalidSchema:
            continue
        return number
    return SUPPORTED_FORMAT_VERSION


def _check(node: Node, path: str) -> None:
    extension = node.field.metadata.get(EXTENSION_NAME, b"")
    if node.is_blob or node.field.logical_type == JSON or extension not in (b"", _UUID):
        raise _refused(path, extension.decode("utf-8", "replace") or ("blob" if node.is_blob else JSON))
    if not node.children:
        _check_type(node.arrow.type, path)
    for child in node.children:
        _check(child, f"{path}.{child.name}")


def _check_type(kind: pa.DataType, path: str) -> None:
    if isinstance(kind, pa.BaseExtensionType):
        return
    if pa.types.is_fixed_size_list(kind) or pa.types.is_dictionary(kind):
        _check_type(kind.value_type, path)
    elif pa.types.is_duration(kind) or (pa.types.is_decimal256(kind) and kind.precision > 38):
        raise _refused(path, str(kind))


def _refused(path: str, what: str) -> InvalidSchema:
    return InvalidSchema(
        f"column {path!r} is of type {what}, which Iceberg cannot hold",
        hint="drop the column, or add one of another type and drop this one",
        column=path,
    )
