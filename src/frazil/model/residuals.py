"""Residuals: what is left of a filter to test on rows once their partition is known.

>>> from frazil.model.expressions import col
>>> from frazil.model.partition import parse_partition_by
>>> from frazil.model.types import IntegerType, NestedField, StringType
>>> schema = Schema((NestedField(1, "id", IntegerType()), NestedField(2, "cat", StringType())))
>>> spec = parse_partition_by(schema, ["cat"])
>>> str(residual(schema, spec, (col("cat") == "a") & (col("id") > 5), ("a",)))
'id > 5'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.errors import InvalidArgument
from frazil.model.arrow import array_from_canonical
from frazil.model.binding import BoundPredicate, bind, bound_predicates
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, And, Expression, Or, and_, or_
from frazil.model.partition import PartitionSpec
from frazil.model.projection import inclusive, strict
from frazil.model.schema import Schema
from frazil.model.stats_evaluator import ColumnStats, Mask, Stats, StatsTable, might_match, must_match

_KEEP, _TRUE, _FALSE = range(3)


def residual(schema: Schema, spec: PartitionSpec, expression: Expression, partition: Sequence[Any]) -> Expression:
    """The filter for the rows of one partition, given as a tuple of canonical values."""
    if len(partition) != len(spec.fields):
        raise InvalidArgument(
            f"{len(partition)} partition values for {len(spec.fields)} fields", hint="give the tuple of the same spec"
        )
    types = [field.type for field in spec.partition_type(schema).fields]
    columns = [array_from_canonical(type_, [value]) for type_, value in zip(types, partition, strict=True)]
    return residuals(schema, spec, expression, columns, 1)[1][0]


def residuals(
    schema: Schema, spec: PartitionSpec, expression: Expression, partitions: Sequence[pa.Array], n: int
) -> tuple[npt.NDArray[np.intp], list[Expression]]:
    """The filters for `n` partitions, given as one array per partition field: which filter each has, and the filters.

    Partitions that decide the same predicates alike share a filter, so there are few filters however many partitions.
    """
    bound = bind(schema, expression)
    stats = StatsTable(
        n,
        {field.field_id: ColumnStats.of_values(values) for field, values in zip(spec.fields, partitions, strict=True)},
    )
    leaves = list(dict.fromkeys(bound_predicates(bound)))
    if not leaves:
        return np.zeros(n, np.intp), [bound]
    decided = np.zeros((n, len(leaves)), np.int8)
    for at, leaf in enumerate(leaves):
        decided[~might_match(inclusive(schema, spec, leaf), stats), at] = _FALSE
        decided[must_match(strict(schema, spec, leaf), stats), at] = _TRUE
    kinds, which = np.unique(decided, axis=0, return_inverse=True)
    filters = [_decide(bound, dict(zip(leaves, kind.tolist(), strict=True))) for kind in kinds]
    return which.reshape(-1), filters


def all_match(which: npt.NDArray[np.intp], filters: Sequence[Expression], stats: Stats) -> Mask:
    """Where every row of a file matches: by its partition, as `residuals` tells, and by what else is known of it."""
    known: Mask = np.stack([must_match(left, stats) for left in filters])[which, np.arange(len(which))]
    return known


def _decide(expression: Expression, decided: dict[BoundPredicate, int]) -> Expression:
    if isinstance(expression, And | Or):
        combine = and_ if isinstance(expression, And) else or_
        return combine(*(_decide(operand, decided) for operand in expression.operands))
    if isinstance(expression, BoundPredicate) and decided[expression] != _KEEP:
        return AlwaysTrue() if decided[expression] == _TRUE else AlwaysFalse()
    return expression
