"""Which rows go to which task: each task writes files of its own for every partition and node that it has rows of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from frazil.iceberg import properties as props
from frazil.mixed.properties import TARGET_FILE_SIZE
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.transforms import VoidTransform
from frazil.model.types import NestedField
from frazil.spark.scan.relations import quoted_name
from frazil.spark.write.layout import rebalanced
from frazil.spark.write.partitions import Transforms, reference

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from frazil.spark.mixed.target import Target

_SHUFFLED_BYTES = 3
"""Bytes of rows on their way to a task, for one in a file."""


def gathered(rows: DataFrame, target: Target, transforms: Transforms, source: Callable[[int], Column]) -> DataFrame:
    """Rows in few tasks, those of a partition together; `source` makes columns of the rows by the ids of the table's.

    Adaptive execution gives a task as much as makes a file of the wanted size, and splits what is much larger.
    """
    settings = target.base.metadata.property_reader
    mode = target.base.properties.get(props.WRITE_DISTRIBUTION_MODE.name, "hash")
    if mode == "none":
        return rows
    size = settings.get(TARGET_FILE_SIZE) * _SHUFFLED_BYTES
    keys = partition_columns(target.schema, target.base.spec, transforms, source)
    if not _is_adaptive(rows):
        count = rows.sparkSession.sparkContext.defaultParallelism
        return rows.repartition(count, *keys) if keys else rows.coalesce(count)
    return rebalanced(rows.repartition(*keys), size) if keys else rows.hint("rebalance")


def by_key(rows: DataFrame, keys: Sequence[NestedField]) -> DataFrame:
    """All rows of a key in one task."""
    names = [quoted_name(key.name) for key in keys]
    if _is_adaptive(rows):
        return rows.repartition(*names)
    return rows.repartition(rows.sparkSession.sparkContext.defaultParallelism, *names)


def partition_columns(
    schema: Schema, spec: PartitionSpec, transforms: Transforms, source: Callable[[int], Column]
) -> list[Column]:
    """What tells the partitions of rows apart, as far as Spark can compute it."""
    found = []
    for part in spec.fields:
        field = schema.field_by_id(part.source_id)
        if field is not None and not isinstance(part.transform, VoidTransform):
            made = transforms.of(part.transform, field.type, source(field.id))
            found += [] if made is None else [made]
    return found


def own_columns(schema: Schema) -> Callable[[int], Column]:
    """Columns of rows that have the table's."""
    return lambda number: reference(schema, number)


def columns_of_changes(schema: Schema, names: Sequence[str], old: str, operation: str) -> Callable[[int], Column]:
    """Columns of rows as they become, under their `names` if they are told, or of rows that go as they were."""

    def column(number: int) -> Column:
        from pyspark.sql import functions

        [first, *inner] = schema.path_ids(number)
        place = next(place for place, field in enumerate(schema.fields) if field.id == first)
        path = [schema.fields[place].name, *(_name(schema, one) for one in inner)]
        was = functions.col(quoted_name(old))
        for step in path:
            was = was.getField(step)
        if not names:  # a DELETE, whose rows all go
            return was
        new = functions.col(quoted_name(names[place]))
        for step in path[1:]:
            new = new.getField(step)
        return functions.when(functions.col(quoted_name(operation)) == 1, was).otherwise(new)

    return column


def _name(schema: Schema, number: int) -> str:
    found = schema.field_by_id(number)
    assert found is not None
    return found.name


def _is_adaptive(rows: DataFrame) -> bool:
    return rows.sparkSession.conf.get("spark.sql.adaptive.enabled", "true") == "true"
