"""Procedures that take tables into the lake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from frazil.errors import InvalidArgument
from frazil.spark.procedures.procedure import TABLE, Arguments, Parameter, Procedure, Row, table_name_argument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.bridge import Bridge


def _register_table(bridge: Bridge, spark: SparkSession, _table: None, given: Arguments) -> Sequence[Row]:
    if not given["metadata_file"]:
        raise InvalidArgument("metadata_file is empty", hint="name one of the table's metadata files")
    table = bridge.lake.register_table(table_name_argument(bridge, spark, given["table"]), given["metadata_file"])
    current = table.current_snapshot
    if current is None:
        return [(None, None, None)]
    counts = (current.summary.get("total-records"), current.summary.get("total-data-files"))
    return [(current.snapshot_id, *(None if text is None else int(text) for text in counts))]


PROCEDURES = (
    Procedure(
        "register_table",
        (TABLE, Parameter("metadata_file", "STRING", required=True)),
        "current_snapshot_id BIGINT, total_records_count BIGINT, total_data_files_count BIGINT",
        _register_table,
        on_table=False,
    ),
)
