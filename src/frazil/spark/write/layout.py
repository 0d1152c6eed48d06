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
from frazil.spark.jvm import scala_seq
from frazil.spark.write.partitions import Transforms, reference
from frazil.spark.write.settings import HASH, RANGE, WriteSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ENOUGH_ROWS = 10_000
_MAX_ROWS = 2**31 - 1


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
    if settings.distribution == HASH:
        terms = list(partition)
    elif settings.distribution == RANGE:
        terms = [*(column.asc() for column in partition), *keys]
    else:
        terms = []
    return _rebalanced(rows, terms, settings.advisory_bytes) if terms else rows


def _rebalanced(rows: DataFrame, terms: Sequence[Column], advisory_bytes: int) -> DataFrame:
    """What the hint REBALANCE does, with a size of its own."""
    from pyspark.sql import DataFrame

    jvm: Any = rows.sparkSession.sparkContext._jvm
    utils, plans = jvm.org.apache.spark.sql.classic.ExpressionUtils, jvm.org.apache.spark.sql.catalyst.plans.logical
    of_session = int(
        rows.sparkSession._jsparkSession.sessionState()
        .conf()
        .getConf(jvm.org.apache.spark.sql.internal.SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES())
    )
    size = jvm.java.util.OptionalLong.of(max(advisory_bytes, of_session))
    plan = plans.RebalancePartitions(
        scala_seq(jvm, [utils.expression(term._jc) for term in terms]),
        rows._jdf.queryExecution().analyzed(),
        jvm.scala.Option.empty(),
        jvm.scala.jdk.javaapi.OptionConverters.toScala(size),
    )
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(rows._jdf.sparkSession(), plan), rows.sparkSession)


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
