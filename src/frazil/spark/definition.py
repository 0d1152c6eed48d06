"""What CREATE and REPLACE TABLE say: columns with defaults, transforms, provider, location, properties."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frazil.catalog.formats import ICEBERG, LANCE, MIXED
from frazil.errors import InvalidArgument, Unsupported
from frazil.iceberg import properties as props
from frazil.locations import absolute_location
from frazil.model.schema import Schema
from frazil.spark.defaults import default_value
from frazil.spark.describe import SHOWN, quoted_name
from frazil.spark.types import CURRENT_DEFAULT, schema_from_struct

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge

PROVIDERS = {
    "iceberg": ICEBERG,
    "frazil": ICEBERG,
    "lance": LANCE,
    "mixed": MIXED,
    "mixed_iceberg": MIXED,
    "arctic": MIXED,
}
"""The formats that USING names."""
FILE_FORMATS = ("parquet", "orc", "avro")
_NOT_STORED = frozenset({*SHOWN, "owner", "external", "is_managed_location", "table_type", "collation"})
_OPTION = "option."


@dataclass(frozen=True)
class Definition:
    """A table that is to be made. `how` is create, replace, or either of both."""

    schema: Schema
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    format_version: str | None
    location: str | None
    how: str
    format: str = ICEBERG
    names_format: bool = True
    """Whether a format of tables was named; `saveAsTable` names one of files."""
    implied: frozenset[str] = frozenset()
    """The properties that nobody gave, but the format of files that was named."""

    @property
    def version_number(self) -> int | None:
        """The format version, of formats that count them."""
        text = self.format_version
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal()):
            raise InvalidArgument(f"format-version {text!r} is not a version", hint="use 1, 2 or 3")
        return int(text)


def parse_definition(bridge: Bridge, text: str) -> Definition:
    """Read what FrazilCatalog sends."""
    document = json.loads(text)
    given: dict[str, str] = document["properties"]
    properties = {key: value for key, value in given.items() if key not in _NOT_STORED and not key.startswith(_OPTION)}
    # OPTIONS come a second time, without their prefix
    kind, implied = _provided(given.get("provider"))
    location = given.get("location")
    return Definition(
        _schema(bridge, document["schema"]),
        tuple(transform_text(tree) for tree in document["partitioning"]),
        {**properties, **implied},
        given.get(props.FORMAT_VERSION),
        None if location is None else absolute_location(location.removeprefix("file:") or location),
        document["how"],
        kind,
        (given.get("provider") or "").lower() in PROVIDERS,
        frozenset(implied),
    )


def _provided(provider: str | None) -> tuple[str, dict[str, str]]:
    """The format that a provider stands for, and the properties that it implies."""
    name = (provider or "iceberg").lower()
    if name in PROVIDERS:
        return PROVIDERS[name], {}
    if name in FILE_FORMATS:
        return ICEBERG, {props.DEFAULT_FILE_FORMAT.name: name}
    raise Unsupported(f"tables cannot be USING {provider}", hint="write USING iceberg, or leave it out")


def _schema(bridge: Bridge, document: Any) -> Schema:
    schema = schema_from_struct(document)
    columns = []
    for column, spark in zip(schema.fields, document["fields"], strict=True):
        sql = spark["metadata"].get(CURRENT_DEFAULT)
        if sql is not None:
            value = default_value(bridge, column.name, sql, column.type)
            column = replace(column, initial_default=value, write_default=value)
        columns.append(column)
    return Schema(tuple(columns))


def transform_text(tree: Mapping[str, Any]) -> str:
    """A transform as a term such as `bucket(16, id)`.

    >>> transform_text({"name": "bucket", "args": [{"type": "integer", "value": 16}, {"column": ["a", "b c"]}]})
    'bucket(16, a.`b c`)'
    """
    name, arguments = tree["name"], tree["args"]
    if name in ("sorted_bucket", "cluster_by"):
        raise Unsupported(f"{name} is no partitioning of tables", hint="use bucket(n, column) and WRITE ORDERED BY")
    texts = [dotted(argument["column"]) if "column" in argument else str(argument["value"]) for argument in arguments]
    return texts[0] if name == "identity" else f"{name}({', '.join(texts)})"


def dotted(names: Iterable[str]) -> str:
    """A column's path as SQL text."""
    return ".".join(map(quoted_name, names))
