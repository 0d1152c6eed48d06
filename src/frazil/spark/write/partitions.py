"""The partitions of rows as columns: which rows go into one file.

The transforms are functions of the lake (`lake.system.bucket` and so on, in `jvm/Functions.java`): Spark compiles them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    from pyspark.sql import Column, SparkSession

_DATED = (DateType, TimestampType, TimestamptzType)
_CUT = (IntegerType, LongType, DecimalType, StringType, BinaryType)
_HASHED = (*_CUT, *_DATED, FixedType, UuidType)
_PLAIN_NAME = re.compile(r"[A-Za-z]\w{0,63}", re.ASCII)
_SAFE_LABEL = r"\A[a-z0-9_.-]{1,64}\z"


@dataclass(frozen=True)
class HiddenColumn:
    """A column that is not stored: rows with the same text in it go into the same folder."""

    name: str
    label: Column
    """The value as Spark can make a folder of it: never empty, short, and different for different values."""
    is_stored: bool
    """Whether it is no more than a column of the table: then rows need not carry it twice until they are written."""

    @property
    def key(self) -> Column:
        """What rows are distributed and sorted by."""
        from pyspark.sql import functions

        return self.label if self.is_stored else functions.col(f"`{self.name}`")


class Transforms:
    """Makes columns of one session, by the functions of the lake that has this name in it."""

    def __init__(self, spark: SparkSession, lake: str) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._lake = lake

    def of(self, transform: Transform, type_: Type, source: Column) -> Column | None:
        """The transform of a column of that type; None where Spark has no way to compute it."""
        from pyspark.sql import functions

        if isinstance(transform, IdentityTransform):
            return source
        if isinstance(transform, BucketTransform) and isinstance(type_, _HASHED):
            if isinstance(type_, UuidType):  # a text in Spark
                source = functions.unhex(functions.replace(source, functions.lit("-"), functions.lit("")))
            return self._call("bucket", functions.lit(transform.buckets), source)
        if isinstance(transform, TruncateTransform) and isinstance(type_, _CUT):
            return self._call("truncate", functions.lit(transform.width), source)
        if isinstance(transform, TimeTransform) and isinstance(type_, _DATED):
            return self._call(f"{transform}s", source)
        return None

    def _call(self, function: str, *arguments: Column) -> Column:
        from pyspark.sql import functions

        return functions.call_function(f"`{self._lake}`.system.{function}", *arguments)

    def hidden(self, schema: Schema, spec: PartitionSpec) -> list[HiddenColumn | None]:
        """The columns that tell the partitions of a spec apart; None for what Spark cannot compute."""
        taken = {column.name.lower() for column in schema.fields}
        found: list[HiddenColumn | None] = []
        for part in spec.fields:
            if isinstance(part.transform, VoidTransform):
                continue
            source = schema.field_by_id(part.source_id)
            stored = None if source is None else reference(schema, source.id)
            column = None if source is None or stored is None else self.of(part.transform, source.type, stored)
            if column is None or source is None:
                found.append(None)
                continue
            name = part.name if _PLAIN_NAME.fullmatch(part.name) else f"partition_{part.field_id}"
            while name.lower() in taken:
                name += "_partition"
            taken.add(name.lower())
            kind = part.transform.result_type(source.type)
            label = self.label(kind, column)
            found.append(HiddenColumn(name, label, is_stored=label is stored))
        return found

    def label(self, type_: Type, column: Column) -> Column:
        """A value as the name of a folder: an empty text is not null, and no letters but small ones and digits.

        Texts are never null: where they can be, Spark's writer has its own idea of them, and sorts all rows again.
        """
        from pyspark.sql import functions

        if isinstance(type_, TimestampType | TimestamptzType):
            return self.micros(type_, column)
        if isinstance(type_, FloatType | DoubleType):
            return functions.coalesce(column.cast("string"), functions.lit("null"))
        if isinstance(type_, StringType | UuidType):
            plain = functions.concat(functions.lit("s"), column)
            hashed = functions.concat(functions.lit("h"), functions.sha2(column, 256))
            safe = functions.when(column.rlike(_SAFE_LABEL), plain).otherwise(hashed)
            return functions.coalesce(safe, functions.lit("null"))
        if isinstance(type_, BinaryType | FixedType):
            hashed = functions.concat(functions.lit("h"), functions.sha2(column, 256))
            return functions.coalesce(hashed, functions.lit("null"))
        return column

    def micros(self, type_: Type, column: Column) -> Column:
        """Microseconds since 1970 (UTC, or of the wall clock), which is what Spark stores."""
        from pyspark.sql.classic.column import Column as Classic

        types, expressions = self._jvm.org.apache.spark.sql.types.DataTypes, self._jvm.org.apache.spark.sql.catalyst
        kind = types.TimestampType if isinstance(type_, TimestamptzType) else types.TimestampNTZType
        of_columns = self._jvm.org.apache.spark.sql.classic.ExpressionUtils
        value = of_columns.expression(column._jc)
        made = expressions.expressions.PreciseTimestampConversion(value, kind, types.LongType)
        return Classic(of_columns.column(made))


def reference(schema: Schema, field_id: int) -> Column:
    """A column of the table, at any depth of structs, by its id."""
    from pyspark.sql import functions

    path = [schema.field_by_id(number) for number in schema.path_ids(field_id)]
    return functions.col(".".join(quoted_name(part.name) for part in path if part is not None))
