"""Schemas of tables as Spark's, and back.

A Spark schema is the JSON form of a StructType (`df.schema.jsonValue()`), so nothing here needs a JVM.

>>> from frazil.model.arrow import schema_from_anything
>>> schema = schema_from_anything("id BIGINT NOT NULL, u UUID")
>>> [(column["name"], column["type"]) for column in spark_struct(schema, field_ids=True)["fields"]]
[('id', 'long'), ('u', 'string')]
>>> spark_struct(schema, field_ids=True)["fields"][0]["metadata"]
{'parquet.field.id': 1}
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from frazil.errors import InvalidSchema, Unsupported
from frazil.model import temporal
from frazil.model.arrow import schema_from_spark
from frazil.model.fresh_ids import number_type
from frazil.model.schema import Schema
from frazil.model.transforms import human_string
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
)
from frazil.model.values import to_json

FIELD_ID = "parquet.field.id"
CURRENT_DEFAULT = "CURRENT_DEFAULT"
EXISTS_DEFAULT = "EXISTS_DEFAULT"

_NANOSECONDS = re.compile(r"TimestampNanosVal\((-?\d+), (\d+)\)")
"""How Spark writes a timestamp with nanoseconds: microseconds, and nanoseconds within the last of them."""

SparkJson = dict[str, Any]
"""The JSON form of a StructType."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a Spark has beside what all of them have: types, and clauses."""

    time: bool = True
    geo: bool = True
    nanoseconds: bool = True
    v3_types_in_files: bool = True
    """Whether its Parquet library knows variants, geometries and geographies: an older one reads no file with any."""
    schema_evolution: bool = True
    """Whether `MERGE WITH SCHEMA EVOLUTION` adds columns to a table that lets it."""

    @classmethod
    def of_version(cls, version: str) -> Dialect:
        """The types of a Spark version such as `4.0.1`.

        >>> Dialect.of_version("4.0.1").time, Dialect.of_version("4.3.0").nanoseconds
        (False, True)
        """
        numbers = tuple(int(part) for part in version.split(".")[:2])
        newer = numbers >= (4, 1)
        return cls(newer, newer, numbers >= (4, 3), v3_types_in_files=newer, schema_evolution=newer)


NEWEST = Dialect()

_NAMES: dict[type[Type], str] = {
    BooleanType: "boolean",
    IntegerType: "integer",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
    StringType: "string",
    UuidType: "string",
    FixedType: "binary",
    BinaryType: "binary",
    VariantType: "variant",
    UnknownType: "void",
}


_TEMPORAL_WORDS: dict[type[Type], str] = {
    TimestampType: "TIMESTAMP_NTZ",
    TimestamptzType: "TIMESTAMP_LTZ",
    TimeType: "TIME",
}


_GEOGRAPHIC = "OGC:CRS84"
_COORDINATE_SYSTEMS = {0: "SRID:0", 3857: "EPSG:3857", 4326: _GEOGRAPHIC}
"""All that Spark knows, by their numbers."""


def spark_struct(schema: Schema | StructType, *, field_ids: bool = False, dialect: Dialect = NEWEST) -> SparkJson:
    """A schema as Spark's. With `field_ids` Spark's Parquet reader and writer go by the ids of the fields.

    Comments, defaults and nullability are kept; a type that this Spark has not is Unsupported.
    """
    return {"type": "struct", "fields": [_spark_field(column, "", field_ids, dialect) for column in schema.fields]}


def _spark_field(column: NestedField, prefix: str, field_ids: bool, dialect: Dialect) -> SparkJson:
    path = prefix + column.name
    metadata: dict[str, Any] = {FIELD_ID: column.id} if field_ids else {}
    if column.doc is not None:
        metadata["comment"] = column.doc
    if column.initial_default is not None or column.write_default is not None:
        metadata[CURRENT_DEFAULT] = default_sql(column.type, column.write_default)
        metadata[EXISTS_DEFAULT] = default_sql(column.type, column.initial_default)
    return {
        "name": column.name,
        "type": _spark_type(column.type, path, field_ids, dialect),
        "nullable": not column.required,
        "metadata": metadata,
    }


def spark_type(type_: Type, *, path: str = "value", field_ids: bool = False, dialect: Dialect = NEWEST) -> Any:
    """A type as Spark's JSON: a text, or an object for nested types. `path` is for the error."""
    return _spark_type(type_, path, field_ids, dialect)


def _spark_type(type_: Type, path: str, field_ids: bool, dialect: Dialect) -> Any:
    if isinstance(type_, StructType):
        return {
            "type": "struct",
            "fields": [_spark_field(column, f"{path}.", field_ids, dialect) for column in type_.fields],
        }
    if isinstance(type_, ListType):
        return {
            "type": "array",
            "elementType": _spark_type(type_.element.type, f"{path}.element", field_ids, dialect),
            "containsNull": not type_.element.required,
        }
    if isinstance(type_, MapType):
        return {
            "type": "map",
            "keyType": _spark_type(type_.key.type, f"{path}.key", field_ids, dialect),
            "valueType": _spark_type(type_.value.type, f"{path}.value", field_ids, dialect),
            "valueContainsNull": not type_.value.required,
        }
    if isinstance(type_, DecimalType):
        return f"decimal({type_.precision},{type_.scale})"
    if isinstance(type_, TimeType) and dialect.time:
        return "time(6)"
    if isinstance(type_, GeometryType) and dialect.geo and spark_crs(type_.crs) is not None:
        return f"geometry({spark_crs(type_.crs)})"
    if isinstance(type_, GeographyType) and dialect.geo and _is_spherical(type_):
        return f"geography({_GEOGRAPHIC}, SPHERICAL)"
    if isinstance(type_, TimestampNsType | TimestamptzNsType) and dialect.nanoseconds:
        return "timestamp_ntz(9)" if isinstance(type_, TimestampNsType) else "timestamp_ltz(9)"
    name = _NAMES.get(type(type_))
    if name is None:
        raise Unsupported(
            f"column {path!r} has type {type_}, which this version of Spark cannot hold",
            hint="use a newer Spark, or read the table without it: table.scan(columns=[...]).to_arrow()",
        )
    return name


def spark_crs(crs: str) -> str | None:
    """Spark's name of a coordinate system, None if it does not know it.

    >>> spark_crs("srid:3857"), spark_crs("OGC:CRS84"), spark_crs("EPSG:25832")
    ('EPSG:3857', 'OGC:CRS84', None)
    """
    authority, _, number = crs.upper().partition(":")
    if authority in ("SRID", "EPSG") and number.isdecimal():
        return _COORDINATE_SYSTEMS.get(int(number))
    return crs.upper() if crs.upper() in _COORDINATE_SYSTEMS.values() else None


def _is_spherical(type_: GeographyType) -> bool:
    return type_.algorithm == "spherical" and spark_crs(type_.crs) == _GEOGRAPHIC


def schema_from_struct(document: SparkJson) -> Schema:
    """A schema from Spark's, with new ids: those a DataFrame carries are of the tables it came from.

    Defaults are not taken over: they are SQL text, see `frazil.spark.defaults`.
    """
    return schema_from_spark(_plain(document, ""))


def type_from_spark(document: Any) -> Type:
    """A type from Spark's JSON; the ids inside it are 0."""
    field = {"name": "value", "type": document, "nullable": True}
    [column] = schema_from_struct({"type": "struct", "fields": [field]}).fields
    return number_type(column.type, lambda _: 0)


def _plain(document: Any, path: str) -> Any:
    """The type without what tables do not have; a column whose type they cannot hold is named."""
    if isinstance(document, str):
        if document.startswith(("interval", "calendar_interval", "object")):
            raise InvalidSchema(f"column {path!r} has type {document}, which tables cannot hold", hint="cast it")
        return "string" if document == "string collate UTF8_BINARY" else document
    result = dict(document)
    if "fields" in document:
        result["fields"] = [
            _plain_field(column, f"{path}.{column['name']}".lstrip(".")) for column in document["fields"]
        ]
    for inner in ("elementType", "keyType", "valueType"):
        if inner in document:
            result[inner] = _plain(document[inner], f"{path}.{inner.removesuffix('Type')}")
    return result


def _plain_field(column: SparkJson, path: str) -> SparkJson:
    if "__COLLATIONS" in (column.get("metadata") or {}):
        raise InvalidSchema(f"column {path!r} has a collation, which tables cannot hold", hint="declare it as STRING")
    return {**column, "type": _plain(column["type"], path)}


def default_sql(type_: Type, value: Any) -> str:
    """The SQL text of a canonical value, that Spark reads as a value of the column's type.

    >>> default_sql(DateType(), 2), default_sql(StringType(), "it's"), default_sql(LongType(), None)
    ("DATE '1970-01-03'", "'it\\\\'s'", 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(type_, BooleanType):
        return "true" if value else "false"
    if isinstance(type_, IntegerType | LongType):
        return str(value)
    if isinstance(type_, FloatType | DoubleType):
        name = "FLOAT" if isinstance(type_, FloatType) else "DOUBLE"
        shown = (
            repr(value) if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        )
        return f"CAST('{shown}' AS {name})"
    if isinstance(type_, DecimalType):
        return f"CAST('{value:f}' AS DECIMAL({type_.precision},{type_.scale}))"
    if isinstance(type_, StringType):
        return quoted(value)
    if isinstance(type_, DateType):
        return f"DATE '{human_string(type_, value)}'"
    if isinstance(type_, BinaryType | FixedType):
        return f"X'{value.hex()}'"
    if isinstance(type_, UuidType):
        return f"'{to_json(type_, value)}'"
    word = _TEMPORAL_WORDS.get(type(type_))
    if word is not None:
        return f"{word} '{to_json(type_, value)}'"
    if isinstance(type_, ListType):
        return f"array({', '.join(default_sql(type_.element.type, item) for item in value)})"
    if isinstance(type_, MapType):
        pairs = [f"{default_sql(type_.key.type, key)}, {default_sql(type_.value.type, item)}" for key, item in value]
        return f"map({', '.join(pairs)})"
    if isinstance(type_, StructType):
        parts = [f"{quoted(part.name)}, {default_sql(part.type, part.write_default)}" for part in type_.fields]
        return f"named_struct({', '.join(parts)})"
    raise Unsupported(f"a default of type {type_} cannot be told to Spark", hint="read the table without that column")


def temporal_text(kind: str, text: str) -> str | None:
    """A date or time that Spark has as numbers, as text; None if it is neither, or finer than what tables hold.

    >>> temporal_text("time(6)", "3723000000000"), temporal_text("timestamp_ntz(9)", "TimestampNanosVal(-1, 999)")
    ('01:02:03.000000', '1969-12-31T23:59:59.999999999')
    """
    nanos = _NANOSECONDS.fullmatch(text)
    match kind.partition("(")[0]:
        case "date":
            return temporal.format_date(int(text))
        case "timestamp" | "timestamp_ntz" | "timestamp_ltz" if nanos is not None:
            return temporal.format_timestamp(int(nanos[1]) * 1000 + int(nanos[2]), 9)
        case "timestamp" | "timestamp_ntz":
            return temporal.format_timestamp(int(text), 6)
        case "time" if int(text) % 1000 == 0:  # nanoseconds
            return temporal.format_time(int(text) // 1000)
    return None


def quoted(text: str) -> str:
    """A text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"
