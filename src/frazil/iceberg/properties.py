"""Table properties: Iceberg's names, their types and defaults, and how to read them.

>>> PropertyReader({"commit.retry.num-retries": "7"}).get(COMMIT_NUM_RETRIES)
7
>>> PropertyReader({}).get(MANIFEST_MERGE_ENABLED)
True
>>> PropertyReader({"gc.enabled": "maybe"}).get(GC_ENABLED)
Traceback (most recent call last):
...
frazil.errors.InvalidArgument: [INVALID_ARGUMENT] property gc.enabled is 'maybe', not true or false Hint: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from frazil.errors import InvalidArgument, MalformedMetadata
from frazil.model.name_mapping import NameMapping

T = TypeVar("T")

MB = 1024 * 1024
LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Property(Generic[T]):
    """A property's name, its default, and how its text is read."""

    name: str
    default: T
    parse: Callable[[str, str], T]


def integer(minimum: int, maximum: int, kind: str = "property") -> Callable[[str, str], int]:
    """Reads integers of a range. Errors call the setting by its kind, here and below."""

    def parse(name: str, text: str) -> int:
        try:
            number = int(text) if text.isascii() else None
        except ValueError:
            number = None
        if number is None or not minimum <= number <= maximum:
            raise InvalidArgument(
                f"{kind} {name} is {text!r}, not an integer from {minimum} to {maximum}",
                hint=f"set {name} to such a number, or leave it out",
            )
        return number

    return parse


def boolean(name: str, text: str, kind: str = "property") -> bool:
    """Reads true and false."""
    if text.lower() not in ("true", "false"):
        raise InvalidArgument(f"{kind} {name} is {text!r}, not true or false", hint=f"set {name} to true or false")
    return text.lower() == "true"


def choice(options: tuple[str, ...], kind: str = "property") -> Callable[[str, str], str]:
    """Reads one of some words."""

    def parse(name: str, text: str) -> str:
        if text.lower() not in options:
            raise InvalidArgument(f"{kind} {name} is {text!r}", hint=f"use one of {', '.join(options)}")
        return text.lower()

    return parse


def _text(_name: str, text: str) -> str:
    return text


KNOWN: dict[str, Property[object]] = {}
"""Every property that has a type here, by name."""


def _known(prop: Property[T]) -> Property[T]:
    KNOWN[prop.name] = prop  # type: ignore[assignment]  # a Property[int] is a Property[object] to those who only read
    return prop


def _number(name: str, default: int, minimum: int = 0, maximum: int = LONG_MAX) -> Property[int]:
    return _known(Property(name, default, integer(minimum, maximum)))


def _maybe_number(name: str, minimum: int = 0, maximum: int = LONG_MAX) -> Property[int | None]:
    prop: Property[int | None] = Property(name, None, integer(minimum, maximum))
    return _known(prop)


def _flag(name: str, default: bool) -> Property[bool]:
    return _known(Property(name, default, boolean))


def _maybe_flag(name: str) -> Property[bool | None]:
    return _known(Property(name, None, boolean))


def _word(name: str, default: str, *options: str) -> Property[str]:
    return _known(Property(name, default, choice(options) if options else _text))


def _maybe(name: str, *options: str) -> Property[str | None]:
    prop: Property[str | None] = Property(name, None, choice(options) if options else _text)
    return _known(prop)


COMMIT_NUM_RETRIES = _number("commit.retry.num-retries", 4)
COMMIT_MIN_RETRY_WAIT_MS = _number("commit.retry.min-wait-ms", 100)
COMMIT_MAX_RETRY_WAIT_MS = _number("commit.retry.max-wait-ms", 60_000)
COMMIT_TOTAL_RETRY_TIME_MS = _number("commit.retry.total-timeout-ms", 1_800_000)
COMMIT_NUM_STATUS_CHECKS = _number("commit.status-check.num-retries", 3)
COMMIT_STATUS_CHECKS_MIN_WAIT_MS = _number("commit.status-check.min-wait-ms", 1_000)
COMMIT_STATUS_CHECKS_MAX_WAIT_MS = _number("commit.status-check.max-wait-ms", 60_000)
COMMIT_STATUS_CHECKS_TOTAL_WAIT_MS = _number("commit.status-check.total-timeout-ms", 1_800_000)

MANIFEST_TARGET_SIZE_BYTES = _number("commit.manifest.target-size-bytes", 8 * MB, 1)
MANIFEST_MIN_MERGE_COUNT = _number("commit.manifest.min-count-to-merge", 100)
MANIFEST_MERGE_ENABLED = _flag("commit.manifest-merge.enabled", True)
MANIFEST_COMPRESSION = _word("write.manifest.compression-codec", "gzip")
MANIFEST_COMPRESSION_LEVEL = _maybe("write.manifest.compression-level")
SNAPSHOT_ID_INHERITANCE_ENABLED = _flag("compatibility.snapshot-id-inheritance.enabled", False)

DEFAULT_FILE_FORMAT = _word("write.format.default", "parquet", "parquet", "avro", "orc")
DELETE_DEFAULT_FILE_FORMAT = _maybe("write.delete.format.default", "parquet", "avro", "orc", "puffin")
WRITE_TARGET_FILE_SIZE_BYTES = _number("write.target-file-size-bytes", 512 * MB, 1)
DELETE_TARGET_FILE_SIZE_BYTES = _number("write.delete.target-file-size-bytes", 64 * MB, 1)
DELETE_GRANULARITY = _maybe("write.delete.granularity", "partition", "file")
"""Iceberg documents `partition`, yet its Spark writers use `file` unless the property is set."""
WRITE_DISTRIBUTION_MODE = _maybe("write.distribution-mode", "none", "hash", "range")
DELETE_DISTRIBUTION_MODE = _maybe("write.delete.distribution-mode", "none", "hash", "range")
UPDATE_DISTRIBUTION_MODE = _maybe("write.update.distribution-mode", "none", "hash", "range")
MERGE_DISTRIBUTION_MODE = _maybe("write.merge.distribution-mode", "none", "hash", "range")
DELETE_MODE = _word("write.delete.mode", "copy-on-write", "copy-on-write", "merge-on-read")
UPDATE_MODE = _word("write.update.mode", "copy-on-write", "copy-on-write", "merge-on-read")
MERGE_MODE = _word("write.merge.mode", "copy-on-write", "copy-on-write", "merge-on-read")
DELETE_ISOLATION_LEVEL = _word("write.delete.isolation-level", "serializable", "serializable", "snapshot")
UPDATE_ISOLATION_LEVEL = _word("write.update.isolation-level", "serializable", "serializable", "snapshot")
MERGE_ISOLATION_LEVEL = _word("write.merge.isolation-level", "serializable", "serializable", "snapshot")
UPSERT_ENABLED = _flag("write.upsert.enabled", False)
WRITE_AUDIT_PUBLISH_ENABLED = _flag("write.wap.enabled", False)
ACCEPT_ANY_SCHEMA = _flag("write.spark.accept-any-schema", False)
FANOUT_ENABLED = _maybe_flag("write.spark.fanout.enabled")
ADVISORY_PARTITION_SIZE = _maybe_number("write.spark.advisory-partition-size-bytes", 1)

PARQUET_COMPRESSION = _word("write.parquet.compression-codec", "gzip")
PARQUET_COMPRESSION_LEVEL = _maybe("write.parquet.compression-level")
PARQUET_ROW_GROUP_SIZE_BYTES = _number("write.parquet.row-group-size-bytes", 128 * MB, 1)
PARQUET_PAGE_SIZE_BYTES = _number("write.parquet.page-size-bytes", MB, 1)
PARQUET_PAGE_VERSION = _word("write.parquet.page-version", "v1", "v1", "v2")
PARQUET_PAGE_ROW_LIMIT = _number("write.parquet.page-row-limit", 20_000, 1)
PARQUET_DICT_SIZE_BYTES = _number("write.parquet.dict-size-bytes", 2 * MB, 1)
PARQUET_DICT_ENABLED_COLUMN_PREFIX = "write.parquet.dict-encoding-enabled.column."
"""Off for columns whose values are mostly different: a dictionary of those takes time and saves nothing."""
PARQUET_BLOOM_FILTER_MAX_BYTES = _number("write.parquet.bloom-filter-max-bytes", MB, 1)
PARQUET_SHRED_VARIANTS = _flag("write.parquet.shred-variants", False)
PARQUET_VARIANT_BUFFER_SIZE = _number("write.parquet.variant-inference-buffer-size", 100, 1)
AVRO_COMPRESSION = _word("write.avro.compression-codec", "gzip")
AVRO_COMPRESSION_LEVEL = _maybe("write.avro.compression-level")
ORC_COMPRESSION = _word("write.orc.compression-codec", "zlib")
ORC_COMPRESSION_STRATEGY = _word("write.orc.compression-strategy", "speed", "speed", "compression")
ORC_STRIPE_SIZE_BYTES = _number("write.orc.stripe-size-bytes", 64 * MB, 1)
ORC_BLOCK_SIZE_BYTES = _number("write.orc.block-size-bytes", 256 * MB, 1)
ORC_WRITE_BATCH_SIZE = _number("write.orc.vectorized.batch-size", 1024, 1)

# Of delete files: where they are not set, those of data files hold.
DELETE_PARQUET_COMPRESSION = _maybe("write.delete.parquet.compression-codec")
DELETE_PARQUET_COMPRESSION_LEVEL = _maybe("write.delete.parquet.compression-level")
DELETE_PARQUET_ROW_GROUP_SIZE_BYTES = _maybe_number("write.delete.parquet.row-group-size-bytes", 1)
DELETE_PARQUET_PAGE_SIZE_BYTES = _maybe_number("write.delete.parquet.page-size-bytes", 1)
DELETE_PARQUET_PAGE_VERSION = _maybe("write.delete.parquet.page-version", "v1", "v2")
DELETE_PARQUET_PAGE_ROW_LIMIT = _maybe_number("write.delete.parquet.page-row-limit", 1)
DELETE_PARQUET_DICT_SIZE_BYTES = _maybe_number("write.delete.parquet.dict-size-bytes", 1)
DELETE_AVRO_COMPRESSION = _maybe("write.delete.avro.compression-codec")
DELETE_AVRO_COMPRESSION_LEVEL = _maybe("write.delete.avro.compression-level")
DELETE_ORC_COMPRESSION = _maybe("write.delete.orc.compression-codec")
DELETE_ORC_COMPRESSION_STRATEGY = _maybe("write.delete.orc.compression-strategy", "speed", "compression")
DELETE_ORC_STRIPE_SIZE_BYTES = _maybe_number("write.delete.orc.stripe-size-bytes", 1)
DELETE_ORC_BLOCK_SIZE_BYTES = _maybe_number("write.delete.orc.block-size-bytes", 1)
DELETE_ORC_WRITE_BATCH_SIZE = _maybe_number("write.delete.orc.vectorized.batch-size", 1)

WRITE_DATA_LOCATION = _maybe("write.data.path")
WRITE_METADATA_LOCATION = _maybe("write.metadata.path")
OBJECT_STORE_ENABLED = _flag("write.object-storage.enabled", False)
OBJECT_STORE_PARTITIONED_PATHS = _flag("write.object-storage.partitioned-paths", True)
OBJECT_STORE_PATH = _maybe("write.object-storage.path")
WRITE_FOLDER_STORAGE_LOCATION = _maybe("write.folder-storage.path")
WRITE_PARTITION_SUMMARY_LIMIT = _number("write.summary.partition-limit", 0)

METADATA_COMPRESSION = _word("write.metadata.compression-codec", "none", "none", "gzip")
METADATA_PREVIOUS_VERSIONS_MAX = _number("write.metadata.previous-versions-max", 100)
METADATA_DELETE_AFTER_COMMIT_ENABLED = _flag("write.metadata.delete-after-commit.enabled", False)
METRICS_MAX_INFERRED_COLUMN_DEFAULTS = _number("write.metadata.metrics.max-inferred-column-defaults", 100)
METRICS_MODE_DEFAULT = _word("write.metadata.metrics.default", "truncate(16)")
METRICS_MODE_COLUMN_PREFIX = "write.metadata.metrics.column."
DEFAULT_NAME_MAPPING = _maybe("schema.name-mapping.default")

GC_ENABLED = _flag("gc.enabled", True)
MAX_SNAPSHOT_AGE_MS = _number("history.expire.max-snapshot-age-ms", 5 * 24 * 3_600_000, 1)
MIN_SNAPSHOTS_TO_KEEP = _number("history.expire.min-snapshots-to-keep", 1, 1)
MAX_REF_AGE_MS = _number("history.expire.max-ref-age-ms", LONG_MAX, 1)

SPLIT_SIZE = _number("read.split.target-size", 128 * MB, 1)
METADATA_SPLIT_SIZE = _number("read.split.metadata-target-size", 32 * MB, 1)
SPLIT_LOOKBACK = _number("read.split.planning-lookback", 10, 1)
SPLIT_OPEN_FILE_COST = _number("read.split.open-file-cost", 4 * MB)
ADAPTIVE_SPLIT_SIZE_ENABLED = _flag("read.split.adaptive-size.enabled", True)
PARQUET_VECTORIZATION_ENABLED = _flag("read.parquet.vectorization.enabled", True)
PARQUET_BATCH_SIZE = _number("read.parquet.vectorization.batch-size", 5000, 1)

ENCRYPTION_TABLE_KEY = _maybe("encryption.key-id")
ENCRYPTION_DEK_LENGTH = _number("encryption.data-key-length", 16, 16, 32)

FORMAT_VERSION = "format-version"
RESERVED = frozenset(
    {
        *(FORMAT_VERSION, "uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary"),
        *("current-snapshot-timestamp-ms", "current-schema", "default-partition-spec", "default-sort-order"),
    }
)
"""Names under which catalogs show a table's state: nobody may store a property under them."""


class PropertyReader:
    """Typed access to a table's properties."""

    __slots__ = ("properties",)

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = properties

    def get(self, prop: Property[T]) -> T:
        """The value that was set, or the default; an InvalidArgument that names the property if it does not parse."""
        text = self.properties.get(prop.name)
        return prop.default if text is None else prop.parse(prop.name, text)

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The properties whose names start so, by the rest of their names."""
        start = len(prefix)
        return {name[start:]: text for name, text in self.properties.items() if name.startswith(prefix)}


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse reserved names and values that would fail when first used."""
    refuse_reserved(properties)
    pairs: Iterable[tuple[object, object]] = properties.items()
    for name, text in pairs:
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidArgument(f"property {name!r} is {text!r}", hint="names and values of properties are texts")
        if name in KNOWN:
            KNOWN[name].parse(name, text)
        if name == DEFAULT_NAME_MAPPING.name:
            _check_name_mapping(name, text)


def _check_name_mapping(name: str, text: str) -> None:
    """A broken one would make every scan fail."""
    try:
        NameMapping.from_json(text)
    except MalformedMetadata as error:
        raise InvalidArgument(
            f"property {name}: {error.message}", hint='write [{"field-id": 1, "names": ["id"]}, ...]'
        ) from error


def refuse_reserved(names: Iterable[str]) -> None:
    """Refuse names that show a table's state rather than set it."""
    reserved = sorted(RESERVED.intersection(names))
    if reserved:
        raise InvalidArgument(
            f"reserved properties cannot be set: {', '.join(reserved)}",
            hint="upgrade the format with its own call; the others follow from the table's state",
        )
