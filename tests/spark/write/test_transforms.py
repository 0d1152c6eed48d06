"""Partition transforms that Spark computes, against those of the kernel."""

from __future__ import annotations

from decimal import Decimal

import pytest

from frazil.iceberg.entries import canonical_list
from frazil.model.arrow import array_from_canonical
from frazil.model.schema import Schema
from frazil.model.transforms import parse_transform
from frazil.model.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)
from frazil.spark.types import spark_struct
from frazil.spark.write.partitions import Transforms

_DAY = 86_400_000_000
_MICROS = [0, 1, -1, _DAY, -_DAY, -_DAY - 1, 3_600_000_000 - 1, -3_600_000_001, 1_700_000_000_123_456]
_MICROS += [-62_135_596_800_000_000, 253_402_300_799_999_999, -2_208_988_800_000_001, None]
_DAYS = [0, 1, -1, 31, -31, 365, -365, 366, 19_000, -719_162, 2_932_896, None]
_TEXTS = ["", "a", "iceberg", "übergroß", "日本語のテキスト", "😀😁😂🤣", "abcdefghijklmnopqrstuvwxyz", "a\x00b", None]
_BYTES = [b"", b"\x00", b"\xff\xfe\xfd\xfc\xfb", bytes(range(256)), None]
_INTS = [0, 1, -1, 34, 7, -7, 2**31 - 1, -(2**31), None]
_LONGS = [*_INTS[:-1], 2**63 - 1, -(2**63), -(2**63) + 5, None]


def _decimals(precision: int, scale: int) -> list[Decimal | None]:
    numbers = [0, 1, -1, 1420, -1065, 127, 128, -128, -129, 255, 256, 10**precision - 1, 1 - 10**precision]
    return [Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in numbers] + [None]


_CASES = [
    (IntegerType(), _INTS, ["identity", "bucket[16]", "bucket[2147483647]", "truncate[10]", "truncate[2147483647]"]),
    (LongType(), _LONGS, ["identity", "bucket[16]", "truncate[10]", "truncate[7]"]),
    (DateType(), _DAYS, ["identity", "year", "month", "day", "bucket[7]"]),
    (TimestampType(), _MICROS, ["identity", "year", "month", "day", "hour", "bucket[7]"]),
    (TimestamptzType(), _MICROS, ["identity", "year", "month", "day", "hour", "bucket[7]"]),
    (StringType(), _TEXTS, ["identity", "bucket[16]", "truncate[1]", "truncate[3]"]),
    (BinaryType(), _BYTES, ["identity", "bucket[16]", "truncate[3]"]),
    (DecimalType(9, 2), _decimals(7, 2), ["identity", "bucket[16]", "truncate[50]"]),
    (DecimalType(38, 10), _decimals(37, 10), ["identity", "bucket[16]", "truncate[7]"]),
    (DecimalType(18, 0), _decimals(18, 0), ["bucket[16]", "truncate[1]"]),
]


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_transforms_give_what_the_kernel_gives(spark, lake, zone, ansi):
    import pyarrow as pa
    from pyspark.sql import functions
    from pyspark.sql.types import StructType as SparkStruct

    fields = [NestedField(number + 1, f"c{number}", type_) for number, (type_, _, _) in enumerate(_CASES)]
    schema = Schema(tuple(fields))
    transforms = Transforms("lake")
    columns, wanted, names = {}, {}, []
    rows = max(len(values) for _, values, _ in _CASES)
    for number, (type_, values, texts) in enumerate(_CASES):
        padded = values + [None] * (rows - len(values))
        columns[f"c{number}"] = array_from_canonical(type_, padded)
        for text in texts:
            transform = parse_transform(text)
            name = f"c{number}_{text}"
            wanted[name] = [transform.apply(type_, value) for value in padded]
            names.append((name, transforms.of(transform, type_, functions.col(f"c{number}"))))
    saved = {key: spark.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")}
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        frame = spark.createDataFrame(pa.table(columns), SparkStruct.fromJson(spark_struct(schema))).repartition(1)
        found = frame.select(*(column.alias(name) for name, column in names)).toArrow()
    finally:
        for key, text in saved.items():
            spark.conf.set(key, text)
    for name, _ in names:
        got = canonical_list(found.column(name).combine_chunks())
        assert got == wanted[name], name
