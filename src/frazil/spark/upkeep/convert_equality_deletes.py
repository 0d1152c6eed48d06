"""Equality deletes made into deletes by position, on Spark: tasks read which rows live, the driver writes the others.

What comes back to the driver is a compressed bitmap for each data file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from frazil.iceberg.delete_conversion import Conversion, dead
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.refs import MAIN
from frazil.iceberg.rewritten import ConvertedDeleteFiles
from frazil.io.deletion_vector import DeletionVector
from frazil.model.expression_parser import as_expression
from frazil.model.expressions import Expression
from frazil.spark.changes.delta import Notes
from frazil.spark.scan.some_files import rows_of_files
from frazil.spark.write.commit import engine_summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.bridge import Bridge
    from frazil.spark.iceberg.handle import IcebergHandle


def convert_equality_deletes(
    bridge: Bridge,
    spark: SparkSession,
    handle: IcebergHandle,
    where: str | Expression | None = None,
    options: Mapping[str, str] | None = None,
) -> ConvertedDeleteFiles:
    """Convert what applies to data files that may hold matching rows, at the branch of a handle."""
    work = Conversion.of(handle.table, as_expression(where), options or {}, handle.branch or MAIN)
    if work is None:
        return ConvertedDeleteFiles()
    action = handle.table.convert_deletes()
    for key, text in engine_summary(spark).items():
        action.set(key, text)
    return work.commit(_deleted(bridge, spark, handle, work), action)


def _deleted(
    bridge: Bridge, spark: SparkSession, handle: IcebergHandle, work: Conversion
) -> Iterator[tuple[FileScanTask, DeletionVector]]:
    if not len(work.plan):
        return
    at = replace(handle, snapshot=work.base)
    rows = rows_of_files(bridge, spark, at, ("_file", "_pos"), work.plan.file_paths)
    alive = {one.path: one for one in Notes(rows, bridge.classes).read().told()}
    for task in work.plan.tasks():
        found = alive.pop(task.file.file_path, None)
        yield task, dead(task, () if found is None else (found.positions.positions,))
