"""Which rows go to which task and in which order, and how many of them make a file of the wanted size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from frazil.iceberg.metadata import TableMetadata
from frazil.model.schema import Schema
from frazil.model.sorting import SortOrder
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    Type,
)
from frazil.spark.plans import frame_of
from frazil.spark.write.partitions import Transforms, reference
from frazil.spark.write.settings import HASH, RANGE, WriteSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ENOUGH_ROWS = 10_000
_MAX_ROWS = 2**31 - 1
_SHUFFLED_BYTES = 3
"""Bytes of rows on their way to a task, for one in a file: they are by row there, and hardly compressed."""


def sort_keys(schema: Schema, order: SortOrder, transforms: Transforms) -> list[Column] | None:
    """The table's sort order as keys; None if Spark cannot compute one of them."""
    keys: list[Column] = []
    for field in order.fields:
        source = schema.field_by_id(field.source_id)
        column = None
        if source is not None:
            column = transforms.of(field.transform, source.type, reference(schema, source.id))
        if column is None:
            return None
        word = f"{field.direction}_{field.null_order.replace('-', '_')}"
        keys.append(getattr(column, word)())
    return keys


def distributed(
    rows: DataFrame, settings: WriteSettings, partition: Sequence[Column], keys: Sequence[Column]
) -> DataFrame:
    """Rows of a partition together (`hash`), or all rows in order from task to task (`range`).

    Adaptive execution gives a task as much as makes a file of the wanted size, and splits what is much larger.
    """
    mode = settings.distribution
    if mode == HASH and partition:
        return rebalanced(rows.repartition(*partition), _task_bytes(rows, settings))
    if mode == RANGE and (partition or keys):
        return rebalanced(rows.repartitionByRange(*partition, *keys), _task_bytes(rows, settings))
    return rows


def _task_bytes(rows: DataFrame, settings: WriteSettings) -> int:
    if settings.advisory_bytes is not None:
        return settings.advisory_bytes
    jvm: Any = rows.sparkSession.sparkContext._jvm
    advisory = jvm.org.apache.spark.sql.internal.SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES()
    of_session = int(rows.sparkSession._jsparkSession.sessionState().conf().getConf(advisory))
    return max(settings.target_bytes * _SHUFFLED_BYTES, of_session)


def rebalanced(rows: DataFrame, task_bytes: int) -> DataFrame:
    """Rows with their last exchange as the hint REBALANCE makes it, with a size of its own."""
    jvm: Any = rows.sparkSession.sparkContext._jvm
    exchange = rows._jdf.queryExecution().analyzed()
    plan = jvm.org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions(
        exchange.partitionExpressions(),
        exchange.child(),
        jvm.scala.Option.empty(),
        jvm.scala.jdk.javaapi.OptionConverters.toScala(jvm.java.util.OptionalLong.of(task_bytes)),
    )
    return frame_of(rows.sparkSession, plan)


def sorted_within(rows: DataFrame, partition: Sequence[Column], keys: Sequence[Column]) -> DataFrame:
    """Each task's rows by partition and then by the table's order."""
    wanted: list[Any] = [*(column.asc() for column in partition), *keys]
    return rows.sortWithinPartitions(*wanted) if wanted else rows


def rows_per_file(metadata: TableMetadata, schema: Schema, target_bytes: int) -> int:
    """How many rows make a file of that size: by what the table's rows take so far, else by a guess of the types."""
    per_row = _known_width(metadata) or _guessed_width(schema)
    return max(1, min(int(target_bytes / per_row), _MAX_ROWS))


def _known_width(metadata: TableMetadata) -> float | None:
    snapshot = metadata.current_snapshot
    if snapshot is None:
        return None
    size, count = (snapshot.summary.get(key, "") for key in ("total-files-size", "total-records"))
    if not (size.isdigit() and count.isdigit()) or int(count) < _ENOUGH_ROWS:
        return None
    return int(size) / int(count) or None


def _guessed_width(schema: Schema) -> float:
    # about what is left of each after encoding and compression
    return max(1.0, sum(_width(column.type) for column in schema.fields))


def _width(type_: Type) -> float:
    if isinstance(type_, StructType):
        return sum(_width(column.type) for column in type_.fields)
    if isinstance(type_, BooleanType):
        return 0.2
    if isinstance(type_, IntegerType | FloatType | DateType):
        return 2.5
    if isinstance(type_, DecimalType):
        return type_.precision / 4
    if isinstance(type_, StringType | LongType):
        return 5
    return 32 if isinstance(type_, BinaryType) else 6
