"""Procedures that keep a table small and quick: snapshots expire, files are rewritten, stray ones are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING

from frazil.errors import InvalidArgument
from frazil.iceberg.file_removal import checked_threads
from frazil.iceberg.refs import MAIN
from frazil.iceberg.table import IcebergTable
from frazil.model.expressions import Expression
from frazil.spark.changes.builder import filter_on_spark
from frazil.spark.iceberg.handle import on_branch
from frazil.spark.procedures.procedure import (
    TABLE,
    Arguments,
    Parameter,
    Procedure,
    Row,
    milliseconds,
    text_map,
)
from frazil.spark.upkeep.convert_equality_deletes import convert_equality_deletes
from frazil.spark.upkeep.rewrite_data_files import rewrite_data_files
from frazil.spark.upkeep.rewrite_position_delete_files import rewrite_position_delete_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.bridge import Bridge

_EXPIRED = (
    "deleted_data_files_count",
    "deleted_position_delete_files_count",
    "deleted_equality_delete_files_count",
    "deleted_manifest_files_count",
    "deleted_manifest_lists_count",
    "deleted_statistics_files_count",
)
_STREAMED_ROWS = 20_000
"""How many orphans are told of at most with `stream_results`."""


def _expire_snapshots(bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments) -> Sequence[Row]:
    action = table.expire_snapshots().delete_with(given["max_concurrent_deletes"])
    older_than_ms = milliseconds(given["older_than"])
    if older_than_ms is not None:
        action.older_than(older_than_ms)
    if given["retain_last"] is not None:
        action.retain_last(given["retain_last"])
    if given["snapshot_ids"] is not None:
        action.expire_ids(given["snapshot_ids"])
    action.clean_expired_metadata(bool(given["clean_expired_metadata"]))
    result = action.dry_run() if given["dry_run"] else action.commit().result
    bridge.refresh(table.identifier)
    return [tuple(getattr(result, name) for name in _EXPIRED)]


def _remove_orphan_files(bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments) -> Sequence[Row]:
    checked_threads(given["max_concurrent_deletes"])
    view = given["file_list_view"]
    result = table.remove_orphan_files(
        older_than=milliseconds(given["older_than"]),
        location=given["location"],
        dry_run=bool(given["dry_run"]),
        max_concurrent_deletes=given["max_concurrent_deletes"],
        equal_schemes=text_map("equal_schemes", given["equal_schemes"]),
        equal_authorities=text_map("equal_authorities", given["equal_authorities"]),
        prefix_mismatch_mode=given["prefix_mismatch_mode"] or "ERROR",
        files=None if view is None else spark.table(view).select("file_path", "last_modified").toArrow(),
    )
    files = result.files.slice(0, _STREAMED_ROWS) if given["stream_results"] else result.files
    return [(location,) for location in files["location"].to_pylist()]


def _where(spark: SparkSession, table: IcebergTable, given: Arguments) -> Expression | None:
    """What a call says of rows, in Spark's SQL."""
    where = given["where"]
    return None if where is None else filter_on_spark(table, where, spark, given["branch"] or MAIN)


def _rewrite_data_files(bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments) -> Sequence[Row]:
    handle = on_branch(table, given["branch"] or MAIN)
    options, where = text_map("options", given["options"]), _where(spark, table, given)
    result = rewrite_data_files(bridge, spark, handle, given["strategy"], given["sort_order"], where, options)
    bridge.refresh(table.identifier)
    return [astuple(result)]


def _rewrite_position_delete_files(
    bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments
) -> Sequence[Row]:
    options = text_map("options", given["options"])
    where = _where(spark, table, given)
    result = rewrite_position_delete_files(spark, table, where, options, given["branch"] or MAIN)
    bridge.refresh(table.identifier)
    return [astuple(result)]


def _convert_equality_deletes(
    bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments
) -> Sequence[Row]:
    handle = on_branch(table, given["branch"] or MAIN)
    options = text_map("options", given["options"])
    result = convert_equality_deletes(bridge, spark, handle, _where(spark, table, given), options)
    bridge.refresh(table.identifier)
    return [astuple(result)]


def _rewrite_manifests(bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments) -> Sequence[Row]:
    spec_id = table.spec.spec_id if given["spec_id"] is None else given["spec_id"]
    action = table.rewrite_manifests().spec(spec_id)
    if given["sort_by"] is not None:
        if not given["sort_by"]:
            raise InvalidArgument("sort_by is empty", hint="name partition fields, or leave it out")
        action.sort_by(given["sort_by"])
    result = action.commit().result
    bridge.refresh(table.identifier)
    return [(result.rewritten_manifests_count, result.added_manifests_count)]


PROCEDURES = (
    Procedure(
        "expire_snapshots",
        (
            TABLE,
            Parameter("older_than", "TIMESTAMP"),
            Parameter("retain_last", "INT"),
            Parameter("max_concurrent_deletes", "INT"),
            Parameter("stream_results", "BOOLEAN"),
            Parameter("snapshot_ids", "ARRAY<BIGINT>"),
            Parameter("clean_expired_metadata", "BOOLEAN"),
            Parameter("dry_run", "BOOLEAN"),
        ),
        ", ".join(f"{name} BIGINT" for name in _EXPIRED),
        _expire_snapshots,
    ),
    Procedure(
        "remove_orphan_files",
        (
            TABLE,
            Parameter("older_than", "TIMESTAMP"),
            Parameter("location", "STRING"),
            Parameter("dry_run", "BOOLEAN"),
            Parameter("max_concurrent_deletes", "INT"),
            Parameter("file_list_view", "STRING"),
            Parameter("equal_schemes", "MAP<STRING, STRING>"),
            Parameter("equal_authorities", "MAP<STRING, STRING>"),
            Parameter("prefix_mismatch_mode", "STRING"),
            Parameter("prefix_listing", "BOOLEAN"),
            Parameter("stream_results", "BOOLEAN"),
        ),
        "orphan_file_location STRING NOT NULL",
        _remove_orphan_files,
    ),
    Procedure(
        "rewrite_data_files",
        (
            TABLE,
            Parameter("strategy", "STRING"),
            Parameter("sort_order", "STRING"),
            Parameter("options", "MAP<STRING, STRING>"),
            Parameter("where", "STRING"),
            Parameter("branch", "STRING"),
        ),
        "rewritten_data_files_count INT NOT NULL, added_data_files_count INT NOT NULL, "
        "rewritten_bytes_count BIGINT NOT NULL, failed_data_files_count INT NOT NULL, "
        "removed_delete_files_count INT NOT NULL",
        _rewrite_data_files,
    ),
    Procedure(
        "rewrite_position_delete_files",
        (
            TABLE,
            Parameter("options", "MAP<STRING, STRING>"),
            Parameter("where", "STRING"),
            Parameter("branch", "STRING"),
        ),
        "rewritten_delete_files_count INT NOT NULL, added_delete_files_count INT NOT NULL, "
        "rewritten_bytes_count BIGINT NOT NULL, added_bytes_count BIGINT NOT NULL",
        _rewrite_position_delete_files,
    ),
    Procedure(
        "convert_equality_deletes",
        (
            TABLE,
            Parameter("where", "STRING"),
            Parameter("options", "MAP<STRING, STRING>"),
            Parameter("branch", "STRING"),
        ),
        "converted_delete_files_count INT NOT NULL, added_delete_files_count INT NOT NULL",
        _convert_equality_deletes,
    ),
    Procedure(
        "rewrite_manifests",
        (
            TABLE,
            Parameter("use_caching", "BOOLEAN"),
            Parameter("spec_id", "INT"),
            Parameter("sort_by", "ARRAY<STRING>"),
        ),
        "rewritten_manifests_count INT NOT NULL, added_manifests_count INT NOT NULL",
        _rewrite_manifests,
    ),
)
