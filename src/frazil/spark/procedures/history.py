"""Procedures that say which snapshot is current, and what came before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from frazil.errors import InvalidArgument
from frazil.iceberg.table import IcebergTable
from frazil.spark.procedures.procedure import TABLE, Arguments, Parameter, Procedure, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.bridge import Bridge

_ID = Parameter("snapshot_id", "BIGINT", required=True)
_MOVED = "previous_snapshot_id BIGINT, current_snapshot_id BIGINT"
_PICKED = "source_snapshot_id BIGINT, current_snapshot_id BIGINT"


def _current(table: IcebergTable) -> int | None:
    return table.metadata.current_snapshot_id


def _rollback_to_snapshot(bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments) -> Sequence[Row]:
    before = _current(table)
    table.rollback_to_snapshot(given["snapshot_id"])
    bridge.refresh(table.identifier)
    return [(before, _current(table))]


def _rollback_to_timestamp(bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments) -> Sequence[Row]:
    before = _current(table)
    table.rollback_to_timestamp(given["timestamp"] // 1000)
    bridge.refresh(table.identifier)
    return [(before, _current(table))]


def _set_current_snapshot(bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments) -> Sequence[Row]:
    if (given["snapshot_id"] is None) == (given["ref"] is None):
        raise InvalidArgument("either snapshot_id or ref must be given, not both", hint="name the snapshot once")
    before = _current(table)
    table.set_current_snapshot(given["snapshot_id"] if given["ref"] is None else given["ref"])
    bridge.refresh(table.identifier)
    return [(before, _current(table))]


def _cherrypick_snapshot(bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments) -> Sequence[Row]:
    current = table.cherrypick_snapshot(given["snapshot_id"])
    bridge.refresh(table.identifier)
    return [(given["snapshot_id"], current.snapshot_id)]


def _publish_changes(bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments) -> Sequence[Row]:
    from frazil.iceberg.actions.cherry_pick import staged_snapshot

    staged = staged_snapshot(table.metadata, given["wap_id"]).snapshot_id
    current = table.cherrypick_snapshot(staged)
    bridge.refresh(table.identifier)
    return [(staged, current.snapshot_id)]


def _fast_forward(bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments) -> Sequence[Row]:
    found = table.refs.get(given["branch"])
    after = table.fast_forward(given["branch"], given["to"])
    bridge.refresh(table.identifier)
    return [(given["branch"], None if found is None else found.snapshot_id, after.snapshot_id)]


def _ancestors_of(bridge: Bridge, spark: SparkSession, table: IcebergTable, given: Arguments) -> Sequence[Row]:
    return [(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in table.ancestors_of(given["snapshot_id"])]


PROCEDURES = (
    Procedure("rollback_to_snapshot", (TABLE, _ID), _MOVED, _rollback_to_snapshot),
    Procedure(
        "rollback_to_timestamp",
        (TABLE, Parameter("timestamp", "TIMESTAMP", required=True)),
        _MOVED,
        _rollback_to_timestamp,
    ),
    Procedure(
        "set_current_snapshot",
        (TABLE, Parameter("snapshot_id", "BIGINT"), Parameter("ref", "STRING")),
        _MOVED,
        _set_current_snapshot,
    ),
    Procedure("cherrypick_snapshot", (TABLE, _ID), _PICKED, _cherrypick_snapshot),
    Procedure("publish_changes", (TABLE, Parameter("wap_id", "STRING", required=True)), _PICKED, _publish_changes),
    Procedure(
        "fast_forward",
        (TABLE, Parameter("branch", "STRING", required=True), Parameter("to", "STRING", required=True)),
        "branch_updated STRING, previous_ref BIGINT, updated_ref BIGINT",
        _fast_forward,
    ),
    Procedure(
        "ancestors_of",
        (TABLE, Parameter("snapshot_id", "BIGINT")),
        "snapshot_id BIGINT, timestamp BIGINT",
        _ancestors_of,
    ),
)
