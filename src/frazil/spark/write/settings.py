"""How rows are written: options of the write, then settings of the session, then properties of the table.

The names are Iceberg's: an option `distribution-mode` is the setting `spark.sql.iceberg.distribution-mode` and the
property `write.distribution-mode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import InvalidArgument, NotFound, Unsupported
from frazil.iceberg import properties as props
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.refs import MAIN
from frazil.spark.iceberg.handle import IcebergHandle
from frazil.spark.options import folded
from frazil.spark.wap import Conf, wap_branch, wap_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUTO, NATIVE, ARROW = "auto", "native", "arrow"
WRITER = "frazil.write"
"""The option that says who writes the files: `native` (Spark), `arrow` (Python workers) or `auto`."""

NONE, HASH, RANGE = "none", "hash", "range"
ALL_AT_ONCE = 2**31 - 1
_SOME_AT_ONCE = 100
"""How many files a task has open where nobody says: what is in them takes memory, sorting rows takes time."""
_SNAPSHOT_PROPERTY = "snapshot-property."
_LEVELS = ("serializable", "snapshot")


@dataclass(frozen=True)
class WriteSettings:
    """What was decided for one write."""

    branch: str
    properties: Mapping[str, str]
    """The table's, with those that options replace."""
    summary: Mapping[str, str]
    wap_id: str | None
    distribution: str
    open_files: int
    """Files of how many partitions a task may write at once; 1 if its rows are to be sorted by partition."""
    target_bytes: int
    advisory_bytes: int | None
    """How much of shuffled rows one task is to get; None for what makes a file of the target size."""
    merge_schema: bool
    check_nullability: bool
    check_ordering: bool
    dynamic: bool
    isolation: str | None
    validate_from: int | None
    writer: str


_REPLACED = {
    "write-format": props.DEFAULT_FILE_FORMAT.name,
    "target-file-size-bytes": props.WRITE_TARGET_FILE_SIZE_BYTES.name,
    "distribution-mode": props.WRITE_DISTRIBUTION_MODE.name,
    "fanout-enabled": props.FANOUT_ENABLED.name,
    "advisory-partition-size": props.ADVISORY_PARTITION_SIZE.name,
}
_PER_FORMAT = ("compression-codec", "compression-level", "compression-strategy")


def settings_of(handle: IcebergHandle, options: Mapping[str, str], spark: SparkSession) -> WriteSettings:
    """The settings of a write to a table by a session."""

    def conf(name: str) -> str | None:
        return spark.conf.get(name, None)

    metadata = handle.table.metadata
    given = folded(options)

    def chosen(name: str) -> str | None:
        return given.get(name, conf(f"spark.sql.iceberg.{name}"))

    if "batch-id" in given:
        raise Unsupported(
            f"rows are not written once by their batch-id to {handle.name}: it has no primary key",
            hint="leave it out; streams, and table.append(rows, batch_id=...) of a mixed table, write each batch once",
        )
    properties = dict(metadata.properties)
    for option, name in _REPLACED.items():
        if (text := chosen(option)) is not None:
            properties[name] = text
    reader = props.PropertyReader(properties)
    file_format = reader.get(props.DEFAULT_FILE_FORMAT)
    for option in _PER_FORMAT:
        if (text := chosen(option)) is not None:
            properties[f"write.{file_format}.{option}"] = text
    staged_id, branch = _where_to(handle, given, conf)
    merge = chosen("merge-schema") or given.get("mergeschema")
    isolation = _one_of("isolation-level", chosen("isolation-level"), _LEVELS)
    since = given.get("validate-from-snapshot-id")
    distribution = _distribution(metadata, reader.get(props.WRITE_DISTRIBUTION_MODE))
    return WriteSettings(
        branch,
        properties,
        {
            key[len(_SNAPSHOT_PROPERTY) :]: text
            for key, text in options.items()
            if key.lower().startswith(_SNAPSHOT_PROPERTY)
        },
        staged_id,
        distribution,
        _open_files(distribution, reader.get(props.FANOUT_ENABLED)),
        reader.get(props.WRITE_TARGET_FILE_SIZE_BYTES),
        reader.get(props.ADVISORY_PARTITION_SIZE),
        _flag("merge-schema", merge, False),
        _flag("check-nullability", chosen("check-nullability"), True),
        _flag("check-ordering", chosen("check-ordering"), True),
        _one_of("overwrite-mode", given.get("overwrite-mode"), ("dynamic", "static")) == "dynamic",
        isolation,
        None if since is None else _integer("validate-from-snapshot-id", since),
        _one_of(WRITER, given.get(WRITER, conf(f"spark.{WRITER}")), (AUTO, NATIVE, ARROW)) or AUTO,
    )


def _distribution(metadata: TableMetadata, asked: str | None) -> str:
    """As Iceberg: sorted tables by range, partitioned ones by hash, and nothing that would have no effect."""
    is_sorted, is_partitioned = bool(metadata.default_sort_order.fields), not metadata.default_spec.is_unpartitioned
    mode = asked or (RANGE if is_sorted else HASH if is_partitioned else NONE)
    if mode == HASH and not is_partitioned:
        return NONE
    if mode == RANGE and not (is_sorted or is_partitioned):
        return NONE
    return mode


def _open_files(distribution: str, fanout: bool | None) -> int:
    """As asked; else some where a task has rows for about one file, of whatever partitions."""
    if fanout is None:
        return _SOME_AT_ONCE if distribution == HASH else 1
    return ALL_AT_ONCE if fanout else 1


def _where_to(handle: IcebergHandle, options: Mapping[str, str], conf: Conf) -> tuple[str | None, str]:
    """The id to stage the snapshot under, if it is to be staged, and the branch."""
    table = handle.table
    if handle.branch is None:
        what = f"metadata table {handle.metadata_name!r}" if handle.kind == "metadata" else "state that was asked for"
        raise Unsupported(f"the {what} of {handle.name} cannot be changed", hint="name the table itself, or a branch")
    asked = options.get("branch")
    named = handle.branch if handle.branch not in (None, MAIN) else None
    if asked is not None and named is not None and asked != named:
        raise InvalidArgument(f"branch {asked!r} is asked for on {handle.name}.branch_{named}", hint="name one of them")
    branch = asked or named
    if branch is not None and branch != MAIN:
        found = table.metadata.refs.get(branch)
        if found is None or not found.is_branch:
            raise NotFound(f"{handle.name} has no branch {branch!r}", hint="ALTER TABLE ... CREATE BRANCH first")
    audited = wap_branch(table.metadata, conf)
    if audited is None:
        return wap_id(table.metadata, conf), branch or MAIN
    if branch not in (None, audited):
        raise InvalidArgument(
            f"cannot write to branch {branch!r} while spark.wap.branch is {audited!r}", hint="unset one of them"
        )
    return None, audited


def _flag(name: str, text: str | None, default: bool) -> bool:
    found = _one_of(name, text, ("true", "false"))
    return default if found is None else found == "true"


def _one_of(name: str, text: str | None, words: tuple[str, ...]) -> str | None:
    if text is None:
        return None
    if text.lower() not in words:
        raise InvalidArgument(f"write option {name} is {text!r}", hint=f"use one of {', '.join(words)}")
    return text.lower()


def _integer(name: str, text: str) -> int:
    if not text.lstrip("-").isdecimal():
        raise InvalidArgument(f"write option {name} is {text!r}", hint="give a snapshot id")
    return int(text)
