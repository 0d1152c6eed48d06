"""Type promotion: which primitive may become which, and when a partition forbids it.

>>> can_promote(IntegerType(), LongType(), format_version=1)
True
>>> can_promote(DateType(), TimestampType(), format_version=2)
False
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frazil.errors import InvalidEvolution
from frazil.model.transforms import (
    DayTransform,
    MonthTransform,
    Transform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from frazil.model.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    TimestampNsType,
    TimestampType,
    Type,
    UnknownType,
)

_MICROS_PER_DAY = 86_400_000_000


def can_promote(source: Type, target: Type, format_version: int) -> bool:
    """Whether a column of type `source` may become `target`. A type may always stay what it is."""
    if source == target:
        return True
    if isinstance(source, IntegerType):
        return isinstance(target, LongType)
    if isinstance(source, FloatType):
        return isinstance(target, DoubleType)
    if isinstance(source, DecimalType) and isinstance(target, DecimalType):
        return source.scale == target.scale and source.precision < target.precision
    if format_version < 3:
        return False
    if isinstance(source, DateType):
        return isinstance(target, TimestampType | TimestampNsType)
    return isinstance(source, UnknownType)


def check_promotion(
    column: str, source: Type, target: Type, format_version: int, transforms: Iterable[Transform] = ()
) -> None:
    """Refuse a change of type that the format forbids.

    `transforms` are those of the partition fields made from the column: their values must not change with its type.
    """
    if source == target:
        return
    change = f"column {column!r} cannot change from {source} to {target}"
    if not can_promote(source, target, format_version):
        if can_promote(source, target, 3):
            raise InvalidEvolution(f"{change} in format version {format_version}", hint="upgrade the table")
        raise InvalidEvolution(
            change, hint="only int to long, float to double, wider decimals, and from version 3 date to timestamp"
        )
    for transform in transforms:
        if not _keeps_values(transform, source, target):
            raise InvalidEvolution(
                f"{change}: it is partitioned by {transform}, whose values could change",
                hint="add a new column of that type instead",
            )


def _keeps_values(transform: Transform, source: Type, target: Type) -> bool:
    if isinstance(source, DateType):
        return isinstance(transform, YearTransform | MonthTransform | DayTransform | VoidTransform)
    return transform.can_transform(target) and not isinstance(transform, UnknownTransform)


def promote_value(source: Type, target: Type, value: Any) -> Any:
    """A canonical value of `source` as one of `target`, which `can_promote` allows."""
    if value is None or not isinstance(source, DateType) or source == target:
        return value
    moved = value * _MICROS_PER_DAY * (1000 if isinstance(target, TimestampNsType) else 1)
    if not -(2**63) <= moved < 2**63:
        raise InvalidEvolution(
            f"the date of day {value} is outside the range of {target}", hint="a wider type, or another default"
        )
    return moved
