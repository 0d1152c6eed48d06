"""The partitions of rows as columns: which rows go into one file.

The transforms are functions of the lake (`lake.system.bucket` and so on, in `jvm/Functions.java`): Spark compiles them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.transforms import (
    BucketTransform,
    IdentityTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from frazil.model.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    Type,
    UuidType,
)
from frazil.spark.scan.relations import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DATED = (DateType, TimestampType, TimestamptzType)
_CUT = (IntegerType, LongType, DecimalType, StringType, BinaryType)
_HASHED = (*_CUT, *_DATED, FixedType, UuidType)


@dataclass(frozen=True)
class PartitionKey:
    """A value that is the same for all rows of a partition."""

    value: Column
    """It, over the columns of the table."""
    order: Column | None
    """What rows are sorted by to have those of a partition together, if not by a column of the table."""


class Transforms:
    """Makes columns by the functions of the lake that has this name in the session."""

    def __init__(self, lake: str) -> None:
        self._lake = lake

    def of(self, transform: Transform, type_: Type, source: Column) -> Column | None:
        """The transform of a column of that type; None where Spark has no way to compute it."""
        from pyspark.sql import functions

        if isinstance(transform, IdentityTransform):
            return source
        if isinstance(transform, BucketTransform) and isinstance(type_, _HASHED):
            if isinstance(type_, UuidType):  # a text in Spark
                source = functions.unhex(functions.replace(source, functions.lit("-"), functions.lit("")))
            return self.call("bucket", functions.lit(transform.buckets), source)
        if isinstance(transform, TruncateTransform) and isinstance(type_, _CUT):
            return self.call("truncate", functions.lit(transform.width), source)
        if isinstance(transform, TimeTransform) and isinstance(type_, _DATED):
            return self.call(f"{transform}s", source)
        return None

    def call(self, function: str, *arguments: Column) -> Column:
        """A function of the lake."""
        from pyspark.sql import functions

        return functions.call_function(f"`{self._lake}`.system.{function}", *arguments)

    def keys(self, schema: Schema, spec: PartitionSpec) -> list[PartitionKey | None]:
        """What tells the partitions of a spec apart; None for what Spark cannot compute."""
        found: list[PartitionKey | None] = []
        for part in spec.fields:
            if isinstance(part.transform, VoidTransform):
                continue
            source = schema.field_by_id(part.source_id)
            stored = None if source is None else reference(schema, source.id)
            value = None if source is None or stored is None else self.of(part.transform, source.type, stored)
            if value is None or source is None:
                found.append(None)
            elif isinstance(source.type, FloatType | DoubleType):
                found.append(PartitionKey(value, value.cast("string")))  # in any order zeros of both signs are one
            else:
                found.append(PartitionKey(value, None if value is stored else value))
        return found


@dataclass(frozen=True)
class Keyed:
    """Rows that have what they are sorted by."""

    rows: DataFrame
    keys: list[Column]
    _extra: list[str]

    @classmethod
    def of(cls, rows: DataFrame, schema: Schema, partition: Sequence[PartitionKey]) -> Keyed:
        """The rows, with columns for what they do not have."""
        from pyspark.sql import functions

        taken = {column.name.lower() for column in schema.fields}
        extra: dict[str, Column] = {}
        keys: list[Column] = []
        for number, key in enumerate(partition):
            name = f"_frazil_key_{number}"
            while name in taken:
                name += "_"
            if key.order is not None:
                extra[name] = key.order
            keys.append(key.value if key.order is None else functions.col(name))
        return cls(rows.withColumns(extra) if extra else rows, keys, list(extra))

    def without_keys(self, laid_out: DataFrame) -> DataFrame:
        """Rows made of these, with the columns of the table only."""
        return laid_out.drop(*self._extra) if self._extra else laid_out


def reference(schema: Schema, field_id: int) -> Column:
    """A column of the table, at any depth of structs, by its id."""
    from pyspark.sql import functions

    path = [schema.field_by_id(number) for number in schema.path_ids(field_id)]
    return functions.col(".".join(quoted_name(part.name) for part in path if part is not None))
