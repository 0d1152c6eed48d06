"""A DataFrame into a table: append, overwrite or replace partitions in one commit; nothing is left of a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from frazil.errors import FrazilError, InvalidArgument, Unsupported
from frazil.iceberg import properties as props
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.spark.iceberg.handle import IcebergHandle
from frazil.spark.scan.filters import row_filter
from frazil.spark.write.arrow import write_arrow
from frazil.spark.write.commit import Commit, was_refused
from frazil.spark.write.job import Job
from frazil.spark.write.native import obstacle, remove_folder, write_native
from frazil.spark.write.partitions import PartitionKey, Transforms
from frazil.spark.write.rows import by_name, by_position, merging
from frazil.spark.write.settings import ARROW, NATIVE, settings_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.iceberg.data_file import DataFile
    from frazil.spark.bridge import Bridge

_MODES = ("append", "truncate", "overwrite", "dynamic")


def insert(
    bridge: Bridge,
    handle: IcebergHandle,
    mode: str,
    conditions: str,
    options: Mapping[str, str],
    rows: DataFrame,
) -> None:
    """Append, or overwrite all (`truncate`), what matches (`overwrite`), or the partitions rows go to (`dynamic`)."""
    if mode not in _MODES:
        raise InvalidArgument(f"write mode {mode!r}", hint="this is an error of Frazil: report it")
    table, spark = handle.table, rows.sparkSession
    settings = settings_of(handle, options, spark)
    where: Expression = row_filter(conditions, handle.schema) if mode == "overwrite" else AlwaysTrue()
    if settings.dynamic and isinstance(where, AlwaysTrue) and mode != "append":
        mode = "dynamic"
    changes = handle.transaction(bridge)
    schema, transforms = handle.schema, Transforms(bridge.name)
    if table.metadata.property_reader.get(props.ACCEPT_ANY_SCHEMA):
        if settings.merge_schema:
            merging(changes, rows).commit()
            schema = changes.metadata.current_schema
        rows = by_name(
            rows,
            schema,
            bridge.dialect,
            check_nulls=settings.check_nullability,
            check_order=settings.check_ordering,
        )
    rows = by_position(rows, schema, bridge.classes)
    job = Job.start(spark, table.store, table.metadata, schema, settings)
    commit = Commit(table, changes, settings, spark)
    try:
        files = write_files(bridge, job, rows, transforms)
        commit.prepare(mode, files, where)
    except BaseException:
        remove_folder(job)
        commit.abandon()
        raise
    try:
        commit.run()
    except FrazilError as error:
        if was_refused(error):
            remove_folder(job)
            commit.abandon()
        raise


def write_files(bridge: Bridge, job: Job, rows: DataFrame, transforms: Transforms) -> list[DataFile]:
    """Write rows that have the job's columns, by the writer that can."""
    partition = transforms.keys(job.schema, job.spec)
    reason = obstacle(job, partition, bridge.classes)
    wanted = job.settings.writer
    if wanted == NATIVE and reason is not None:
        raise Unsupported(f"Spark's writer cannot write to this table: {reason}", hint="leave out frazil.write=native")
    if wanted == ARROW or reason is not None:
        return write_arrow(job, rows, partition, transforms)
    known: list[PartitionKey] = [key for key in partition if key is not None]
    return write_native(job, rows, known, transforms, bridge.classes)
