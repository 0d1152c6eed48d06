"""Partition transforms as Spark expressions, with the values that `frazil.model.transforms` gives.

They decide which rows go into one file, so they run on every row: everything is an expression that Spark compiles, and
nothing depends on the session's time zone or on whether its arithmetic is ANSI.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
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
from frazil.spark.jvm import scala_seq

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_MICROS_PER_DAY = 86_400 * 10**6
_MICROS_PER_HOUR = 3600 * 10**6
_INT_MIN, _INT_VALUES = -(2**31), 2**32
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_ROUND_FLOOR = 3  # of java.math.BigDecimal
_PLAIN_NAME = re.compile(r"[A-Za-z]\w{0,63}", re.ASCII)
_SAFE_LABEL = r"\A[a-z0-9_.-]{1,64}\z"


@dataclass(frozen=True)
class HiddenColumn:
    """A column that is not stored: rows with the same text in it go into the same folder."""

    name: str
    label: Column
    """The value as Spark can make a folder of it: never empty, short, and different for different values."""


class Transforms:
    """Makes columns of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm

    def of(self, transform: Transform, type_: Type, source: Column) -> Column | None:
        """The transform of a column of that type; None where Spark has no way to compute it."""
        if isinstance(transform, IdentityTransform):
            return source
        if isinstance(transform, BucketTransform):
            return self._bucket(type_, source, transform.buckets)
        if isinstance(transform, TruncateTransform):
            return self._truncate(type_, source, transform.width)
        if isinstance(transform, TimeTransform):
            return self._time(transform, type_, source)
        return None

    def hidden(self, schema: Schema, spec: PartitionSpec) -> list[HiddenColumn | None]:
        """The columns that tell the partitions of a spec apart; None for what Spark cannot compute."""
        taken = {column.name.lower() for column in schema.fields}
        found: list[HiddenColumn | None] = []
        for part in spec.fields:
            if isinstance(part.transform, VoidTransform):
                continue
            source = schema.field_by_id(part.source_id)
            column = None if source is None else self.of(part.transform, source.type, reference(schema, source.id))
            if column is None or source is None:
                found.append(None)
                continue
            name = part.name if _PLAIN_NAME.fullmatch(part.name) else f"partition_{part.field_id}"
            while name.lower() in taken:
                name += "_partition"
            taken.add(name.lower())
            kind = part.transform.result_type(source.type)
            found.append(HiddenColumn(name, self.label(kind, column)))
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
        types = self._jvm.org.apache.spark.sql.types.DataTypes
        kind = types.TimestampType if isinstance(type_, TimestamptzType) else types.TimestampNTZType
        made = self._catalyst.PreciseTimestampConversion(self._expression(column), kind, types.LongType)
        return self._column(made)

    def not_null(self, column: Column, path: str) -> Column:
        """The column; a null in it ends the query with an error that names it."""
        made = self._catalyst.objects.AssertNotNull(self._expression(column), scala_seq(self._jvm, [path]))
        return self._column(made)

    # The transforms.

    def _time(self, transform: TimeTransform, type_: Type, source: Column) -> Column | None:
        from pyspark.sql import functions

        if isinstance(type_, TimestampType | TimestamptzType):
            micros = self.micros(type_, source)
            if isinstance(transform, HourTransform):
                return _floor_div(micros, _MICROS_PER_HOUR).cast("int")
            day = functions.date_from_unix_date(_floor_div(micros, _MICROS_PER_DAY).cast("int"))
        elif isinstance(type_, DateType):
            day = source
        else:
            return None
        if isinstance(transform, DayTransform):
            return day
        if isinstance(transform, YearTransform):
            return functions.year(day) - 1970
        assert isinstance(transform, MonthTransform), transform
        return (functions.year(day) - 1970) * 12 + functions.month(day) - 1

    def _truncate(self, type_: Type, source: Column, width: int) -> Column | None:
        from pyspark.sql import functions

        if isinstance(type_, StringType | BinaryType):
            return functions.substring(source, 1, width)
        if isinstance(type_, DecimalType):
            return self._truncate_decimal(type_, source, width)
        if not isinstance(type_, IntegerType | LongType):
            return None
        number = source.cast("bigint")
        rest = functions.pmod(number, functions.lit(width).cast("bigint"))
        if isinstance(type_, IntegerType):
            low = number - rest
            # near the smallest integer it wraps around, as in the reference implementation
            return functions.when(low < _INT_MIN, low + _INT_VALUES).otherwise(low).cast("int")
        # in steps that do not overflow, whatever order Spark takes additions in
        wrapped = functions.lit(_LONG_MAX) - (rest - (number - _LONG_MIN) - 1)
        return functions.when(number < rest + _LONG_MIN, wrapped).otherwise(number - rest)

    def _truncate_decimal(self, type_: DecimalType, source: Column, width: int) -> Column:
        types = self._jvm.org.apache.spark.sql.types
        big = self._object("java.math.BigDecimal")
        number = self._invoke(self._expression(source), "toJavaBigDecimal", big)
        scaled = [self._literal(width, "bigint"), self._literal(type_.scale, "int")]
        unit = self._static(big.cls(), "valueOf", big, scaled)
        down = [self._literal(0, "int"), self._literal(_ROUND_FLOOR, "int")]
        whole = self._invoke(number, "divide", big, [unit, *down])
        rounded = self._invoke(whole, "multiply", big, [unit])
        # rounding down may take one more digit
        result = types.DecimalType(min(type_.precision + 1, 38), type_.scale)
        decimal = self._class("org.apache.spark.sql.types.Decimal")
        return self._column(self._static(decimal, "apply", result, [rounded]))

    def _bucket(self, type_: Type, source: Column, buckets: int) -> Column | None:
        from pyspark.sql import functions

        hashed = self._hash(type_, source)
        return None if hashed is None else hashed.bitwiseAND(functions.lit(2**31 - 1)) % functions.lit(buckets)

    def _hash(self, type_: Type, source: Column) -> Column | None:
        from pyspark.sql import functions

        if isinstance(type_, IntegerType | LongType):
            return self._hash_long(source.cast("bigint"))
        if isinstance(type_, DateType):
            return self._hash_long(functions.unix_date(source).cast("bigint"))
        if isinstance(type_, TimestampType | TimestamptzType):
            return self._hash_long(self.micros(type_, source))
        if isinstance(type_, StringType):
            return self._hash_bytes(source)
        if isinstance(type_, BinaryType | FixedType):
            return self._hash_bytes(source.cast("string"))
        if isinstance(type_, UuidType):
            return self._hash_bytes(
                functions.unhex(functions.replace(source, functions.lit("-"), functions.lit(""))).cast("string")
            )
        if isinstance(type_, DecimalType):
            integer, big = self._object("java.math.BigInteger"), self._object("java.math.BigDecimal")
            number = self._invoke(self._expression(source), "toJavaBigDecimal", big)
            binary = self._jvm.org.apache.spark.sql.types.DataTypes.BinaryType
            data = self._invoke(self._invoke(number, "unscaledValue", integer), "toByteArray", binary)
            return self._hash_bytes(self._column(data).cast("string"))
        return None

    def _hash_long(self, number: Column) -> Column:
        from pyspark.sql import functions

        made = self._catalyst.Murmur3Hash(scala_seq(self._jvm, [self._expression(number)]), 0)
        return functions.when(number.isNotNull(), self._column(made))  # Spark hashes null to the seed

    def _hash_bytes(self, text: Column) -> Column:
        """Spark's SQL functions hash the last bytes in a way of their own; this method of its is the usual one."""
        from pyspark.sql import functions

        types = self._jvm.org.apache.spark.sql.types.DataTypes
        value = self._expression(text)
        parts = [
            self._invoke(value, "getBaseObject", self._object("java.lang.Object")),
            self._invoke(value, "getBaseOffset", types.LongType),
            self._invoke(value, "numBytes", types.IntegerType),
            self._literal(0, "int"),
        ]
        murmur = self._class("org.apache.spark.unsafe.hash.Murmur3_x86_32")
        made = self._static(murmur, "hashUnsafeBytes2", types.IntegerType, parts)
        return functions.when(text.isNotNull(), self._column(made))

    # Expressions of the JVM.

    @cached_property
    def _catalyst(self) -> Any:
        return self._jvm.org.apache.spark.sql.catalyst.expressions

    def _expression(self, column: Column) -> Any:
        return self._jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)

    def _column(self, expression: Any) -> Column:
        from pyspark.sql.classic.column import Column as Classic

        return Classic(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name)

    def _object(self, name: str) -> Any:
        return self._jvm.org.apache.spark.sql.types.ObjectType(self._class(name))

    def _literal(self, value: int, kind: str) -> Any:
        from pyspark.sql import functions

        return self._expression(functions.lit(value).cast(kind))

    def _invoke(self, target: Any, name: str, result: Any, arguments: list[Any] | None = None) -> Any:
        empty = scala_seq(self._jvm, [])
        given = scala_seq(self._jvm, arguments or [])
        return self._catalyst.objects.Invoke(target, name, result, given, empty, True, True, True)

    def _static(self, owner: Any, name: str, result: Any, arguments: list[Any]) -> Any:
        empty, given = scala_seq(self._jvm, []), scala_seq(self._jvm, arguments)
        no_function = self._jvm.scala.Option.empty()
        return self._catalyst.objects.StaticInvoke(owner, result, name, given, empty, True, True, True, no_function)


def reference(schema: Schema, field_id: int) -> Column:
    """A column of the table, at any depth of structs, by its id."""
    from pyspark.sql import functions

    path = [schema.field_by_id(number) for number in schema.path_ids(field_id)]
    return functions.col(".".join("`" + part.name.replace("`", "``") + "`" for part in path if part is not None))


def _floor_div(number: Column, unit: int) -> Column:
    from pyspark.sql import functions

    down = functions.when(number % unit < 0, functions.lit(1)).otherwise(functions.lit(0))
    return functions.call_function("div", number, functions.lit(unit)) - down
