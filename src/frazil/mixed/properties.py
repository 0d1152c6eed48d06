"""Properties that make two Iceberg tables a mixed table, and those that say how it is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from frazil import ambient
from frazil.errors import InvalidArgument, Unsupported
from frazil.iceberg.properties import Property, PropertyReader, boolean, choice, integer
from frazil.mixed.tree import MAX_BUCKETS, check_buckets

TABLE_FORMAT = "table-format"
MIXED_ICEBERG = "MIXED_ICEBERG"
TABLE_STORE = "mixed-format.table-store"
BASE = "base"
CHANGE = "change"
PRIMARY_KEY = "mixed-format.primary-key-fields"
CHANGE_IDENTIFIER = "mixed-format.change.identifier"
CREATE_TIMESTAMP = "table.create-timestamp"
PARTITION_PROPERTIES = "table.partition-properties"
WATERMARK_TABLE = "watermark.table"
WATERMARK_BASE = "watermark.base"

STORE_PROPERTIES = frozenset(
    {TABLE_FORMAT, TABLE_STORE, PRIMARY_KEY, CHANGE_IDENTIFIER, CREATE_TIMESTAMP, PARTITION_PROPERTIES}
)
"""What ties the stores together: set when a table is made, and by nobody after."""

_HIDDEN = frozenset(
    {
        *("base.table.max-transaction-id", "max-txId", "location", PARTITION_PROPERTIES),
        *("schema.name-mapping.default", "format-version", "flink.max-continuous-empty-commits"),
    }
)


def _buckets(name: str, text: str) -> int:
    return check_buckets(name, integer(1, MAX_BUCKETS)(name, text))


BASE_BUCKETS = Property("base.file-index.hash-bucket", 4, _buckets)
CHANGE_BUCKETS = Property("change.file-index.hash-bucket", 4, _buckets)
BASE_FORMAT = Property("base.write.format", "parquet", choice(("parquet", "orc", "avro")))
CHANGE_FORMAT = Property("change.write.format", "parquet", choice(("parquet", "orc", "avro")))
UPSERT_ENABLED = Property("write.upsert.enabled", False, boolean)
TARGET_FILE_SIZE = Property("write.target-file-size-bytes", 128 << 20, integer(1, 2**63 - 1))
_CHECKED: tuple[Property[Any], ...] = (BASE_BUCKETS, CHANGE_BUCKETS, BASE_FORMAT, CHANGE_FORMAT, UPSERT_ENABLED)


def check_mixed_properties(properties: Mapping[str, str]) -> None:
    """Refuse values that would fail, or lose rows, when first used."""
    reader = PropertyReader(properties)
    for prop in _CHECKED:
        reader.get(prop)
    refuse_store_properties(properties)


def refuse_store_properties(names: Iterable[str]) -> None:
    """Refuse to change what ties the stores together."""
    taken = sorted(STORE_PROPERTIES.intersection(names))
    if taken:
        raise InvalidArgument(
            f"{taken[0]} cannot be changed",
            hint="it ties the stores of a table together; keys are given as a list",
        )


def store_properties(store: str, primary_key: tuple[str, ...], change_identifier: str | None) -> dict[str, str]:
    """The properties of a new store."""
    told = {
        TABLE_FORMAT: MIXED_ICEBERG,
        TABLE_STORE: store,
        CREATE_TIMESTAMP: str(ambient.now_ms()),
        "write.metadata.delete-after-commit.enabled": "true",
        "flink.max-continuous-empty-commits": "2147483647",
    }
    if primary_key:
        told[PRIMARY_KEY] = ",".join(primary_key)
    if change_identifier is not None:
        told[CHANGE_IDENTIFIER] = change_identifier
    return told


def store_kind(properties: Mapping[str, str]) -> str | None:
    """`base` or `change`, if the properties are those of a mixed table's store."""
    if properties.get(TABLE_FORMAT, "").upper() != MIXED_ICEBERG:
        return None
    kind = properties.get(TABLE_STORE, "").lower()
    return kind if kind in (BASE, CHANGE) else None


def refuse_part(properties: Mapping[str, str], location: str) -> None:
    """Refuse one store of a keyed table where a whole table is meant: it has rows too many or too few."""
    kind = store_kind(properties)
    if kind == CHANGE or (kind is not None and primary_key_of(properties)):
        raise Unsupported(
            f"{location} is the {kind} store of a mixed table, and not a table of its own",
            hint="open the table's folder with frazil.open: its stores are table.base_store and table.change_store",
        )


def primary_key_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the key columns; none for an unkeyed table."""
    text = properties.get(PRIMARY_KEY, "")
    return tuple(name.strip() for name in text.split(",") if name.strip())


def shown(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without those that users are not meant to see."""
    return {name: text for name, text in properties.items() if name not in _HIDDEN}
