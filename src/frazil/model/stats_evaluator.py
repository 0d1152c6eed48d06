"""Pruning: what is known about many files (or manifests, or partitions) at once, against a bound filter.

`might_match` is False only where no row can match, `must_match` True only where every row does. One evaluator serves
column metrics of files, field summaries of manifests, and partition values: they differ only in how much is known.

>>> from frazil.model.binding import bind
>>> from frazil.model.expressions import col
>>> from frazil.model.schema import Schema
>>> from frazil.model.types import LongType, NestedField
>>> schema = Schema((NestedField(1, "id", LongType()),))
>>> known = ColumnStats(lower=pa.array([0, 10, None]), upper=pa.array([9, 19, None]))
>>> might_match(bind(schema, col("id") == 12), StatsTable(3, {1: known})).tolist()
[False, True, True]

Bounds need not be values of the column: those of text and bytes may have been cut. They hold for all values that are
neither null nor NaN. Zeros compare equal whatever their sign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidExpression
from frazil.model.arrow_literals import arrow_literal, comparable_array, is_in_set
from frazil.model.binding import BoundPredicate, BoundTransform
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, And, Expression, Or
from frazil.model.operations import Operation
from frazil.model.transforms import TruncateTransform
from frazil.model.types import DoubleType, FloatType, IntegerType, LongType, StringType, Type

Mask = npt.NDArray[np.bool_]

MAX_VALUES_TRIED = 200
"""Of an IN list longer than this only the least and the greatest value are looked at."""


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """What is known of one column, one entry per file; null, or None for all, is unknown."""

    lower: pa.Array | None = None
    upper: pa.Array | None = None
    null_count: pa.Array | None = None
    nan_count: pa.Array | None = None
    value_count: pa.Array | None = None

    @classmethod
    def of_values(cls, values: pa.Array) -> ColumnStats:
        """Of a column that has one value in all rows of a file: a partition value, null included."""
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        nan = values.is_nan().fill_null(False) if pa.types.is_floating(values.type) else None
        return cls(
            lower=values,
            upper=values,
            null_count=values.is_null().cast(pa.int64()),
            nan_count=None if nan is None else nan.cast(pa.int64()),
            value_count=pa.array(np.ones(len(values), np.int64)),
        )

    @classmethod
    def of_summaries(
        cls, contains_null: pa.Array, contains_nan: pa.Array | None, lower: pa.Array, upper: pa.Array
    ) -> ColumnStats:
        """Of a manifest's field summaries. They have no counts, but no bounds means that all values are null or NaN."""
        nulls, nans = _true(contains_null, len(lower)), _true(contains_nan, len(lower))
        floating = pa.types.is_floating(lower.type)
        no_nulls = _true(pc.invert(contains_null), len(lower))
        no_nans = np.full(len(lower), True)
        if floating:
            no_nans = _true(None if contains_nan is None else pc.invert(contains_nan), len(lower))
        empty = _mask(lower.is_null()) & _mask(upper.is_null()) & (nulls | nans) & (nulls | no_nulls) & (nans | no_nans)
        return cls(
            lower=lower,
            upper=upper,
            null_count=pa.array(nulls.astype(np.int64), mask=~(no_nulls | empty)),
            nan_count=pa.array(nans.astype(np.int64), mask=~(no_nans | empty)) if floating else None,
            value_count=pa.array(nulls.astype(np.int64) + nans, mask=~empty),
        )


class Stats(Protocol):
    """What is known of `n` files; columns are asked for only if the filter needs them."""

    @property
    def n(self) -> int:
        """How many files."""

    @property
    def record_count(self) -> pa.Array | None:
        """Rows of each file, or None where that is not known or not meant."""

    def column(self, field_id: int) -> ColumnStats | None:
        """What is known of a column, or None if nothing."""


@dataclass(frozen=True, slots=True)
class StatsTable:
    """Stats that are at hand already."""

    n: int
    columns: Mapping[int, ColumnStats] = field(default_factory=dict)
    record_count: pa.Array | None = None

    def column(self, field_id: int) -> ColumnStats | None:
        return self.columns.get(field_id)


def might_match(expression: Expression, stats: Stats) -> Mask:
    """False where no row can match the bound filter."""
    found = _evaluate(expression, stats, _Column.might)
    return found if stats.record_count is None else found & ~_true(pc.equal(stats.record_count, 0), stats.n)


def must_match(expression: Expression, stats: Stats) -> Mask:
    """True where every row matches the bound filter; so also where there are no rows."""
    found = _evaluate(expression, stats, _Column.must)
    return found if stats.record_count is None else found | _true(pc.equal(stats.record_count, 0), stats.n)


def _evaluate(expression: Expression, stats: Stats, test: Callable[[_Column, BoundPredicate], Mask]) -> Mask:
    known: dict[Any, _Column] = {}

    def walk(node: Expression) -> Mask:
        if isinstance(node, AlwaysTrue | AlwaysFalse):
            return np.full(stats.n, isinstance(node, AlwaysTrue))
        if isinstance(node, And | Or):
            parts = [walk(operand) for operand in node.operands]
            combined: Mask = (np.logical_and if isinstance(node, And) else np.logical_or).reduce(parts)
            return combined
        if not isinstance(node, BoundPredicate):
            raise InvalidExpression(f"({node}) is not bound to a schema", hint="bind it first")
        column = known.get(node.term)
        if column is None:
            column = known[node.term] = _Column(node, stats)
        return test(column, node)

    return walk(expression)


def _mask(array: pa.Array) -> Mask:
    values: Mask = array.to_numpy(zero_copy_only=False)
    return values


def _true(array: pa.Array | None, n: int) -> Mask:
    """Where a boolean array is known to be true."""
    return np.zeros(n, bool) if array is None else _mask(array.fill_null(False))


class _Column:
    """The facts of one term, worked out once per filter."""

    def __init__(self, leaf: BoundPredicate, stats: Stats) -> None:
        term, reference = leaf.term, leaf.reference
        found = stats.column(reference.field_id) or ColumnStats()
        n = self.n = stats.n
        self.type: Type = term.type
        floating = isinstance(self.type, FloatType | DoubleType)
        self.lower, self.upper = self._bounds(reference.type, found)
        if isinstance(term, BoundTransform):
            self.lower, self.upper = _transformed(term, self.lower, self.upper)
        values, nulls, nans = found.value_count, found.null_count, found.nan_count
        # Rows without the struct around the column are missing from the counts of some writers
        complete = np.full(n, True)
        if reference.in_optional_struct and stats.record_count is not None:
            complete = _true(None if values is None else pc.equal(values, stats.record_count), n)
        self.no_nulls: Mask = complete & _true(None if nulls is None else pc.equal(nulls, 0), n)
        if not reference.nullable:
            self.no_nulls = np.full(n, True)
        self.no_nans: Mask = np.full(n, True)
        self.all_null: Mask = np.zeros(n, bool)
        self.all_nan: Mask = self.all_null
        self.no_number: Mask = self.all_null
        if values is not None and nulls is not None:
            self.all_null = _true(pc.and_(pc.equal(values, nulls), pc.greater_equal(values, 0)), n)
            self.no_number = self.all_null
        if floating:
            self.no_nans = _true(None if nans is None else pc.equal(nans, 0), n)
            if values is not None and nans is not None:
                self.all_nan = complete & _true(pc.and_(pc.equal(values, nans), pc.greater(values, 0)), n)
                counted = nans if nulls is None else pc.add(nans, nulls)
                self.no_number = _true(pc.and_(pc.equal(values, counted), pc.greater_equal(values, 0)), n)

    @staticmethod
    def _bounds(type_: Type, found: ColumnStats) -> tuple[pa.Array | None, pa.Array | None]:
        bounds: list[pa.Array | None] = []
        for bound in (found.lower, found.upper):
            if bound is None or pa.types.is_null(bound.type):
                bounds.append(None)
                continue
            bound = comparable_array(type_, bound)
            if pa.types.is_floating(bound.type):  # a NaN is no bound; some writers put one there
                bound = pc.if_else(pc.is_nan(bound), pa.scalar(None, bound.type), bound)
            bounds.append(bound)
        return bounds[0], bounds[1]

    def _is(self, bound: pa.Array | None, compare: str, value: Any, *, unknown: bool) -> Mask:
        if bound is None:
            return np.full(1, unknown)  # numpy stretches it
        result = pc.call_function(compare, [bound, arrow_literal(self.type, value, bound.type)])
        return _mask(result.fill_null(unknown))

    def _cut(self, bound: pa.Array | None, length: int) -> pa.Array | None:
        if bound is None:
            return None
        cut = pc.utf8_slice_codeunits if isinstance(self.type, StringType) else pc.binary_slice
        return cut(bound, 0, length)

    def _single_value_in(self, values: tuple[Any, ...]) -> Mask:
        """Where all values (but nulls and NaN) are the same one, and it is in the list."""
        if self.lower is None or self.upper is None:
            return np.zeros(self.n, bool)
        listed = is_in_set(self.type, self.lower, values)
        return _true(pc.and_(pc.equal(self.lower, self.upper), listed), self.n)

    def _outside(self, value: Any, *, unknown: bool) -> Mask:
        """Where a value is below the lower bound or above the upper one."""
        below = self._is(self.lower, "greater", value, unknown=unknown)
        return below | self._is(self.upper, "less", value, unknown=unknown)

    def might(self, leaf: BoundPredicate) -> Mask:
        """Whether any row can match."""
        values = leaf.literals
        match leaf.operation:
            case Operation.IS_NULL:
                return ~self.no_nulls
            case Operation.NOT_NULL:
                return ~self.all_null
            case Operation.IS_NAN:
                return ~(self.no_nans | self.all_null)
            case Operation.NOT_NAN:
                return ~(self.all_nan | self.all_null)
            case Operation.LT:
                return ~self.no_number & self._is(self.lower, "less", values[0], unknown=True)
            case Operation.LT_EQ:
                return ~self.no_number & self._is(self.lower, "less_equal", values[0], unknown=True)
            case Operation.GT:
                return ~self.no_number & self._is(self.upper, "greater", values[0], unknown=True)
            case Operation.GT_EQ:
                return ~self.no_number & self._is(self.upper, "greater_equal", values[0], unknown=True)
            case Operation.EQ:
                return ~self.no_number & ~self._outside(values[0], unknown=False)
            case Operation.IN:
                return ~self.no_number & self._might_be_in(values)
            case Operation.NOT_EQ | Operation.NOT_IN:
                return ~self.all_null & ~(self.no_nans & self._single_value_in(values))
            case Operation.STARTS_WITH:
                low = self._is(self._cut(self.lower, len(values[0])), "less_equal", values[0], unknown=True)
                return ~self.no_number & low & self._is(self.upper, "greater_equal", values[0], unknown=True)
            case Operation.NOT_STARTS_WITH:
                return ~self.all_null & ~self._all_start_with(values[0])

    def must(self, leaf: BoundPredicate) -> Mask:
        """Whether all rows match."""
        values = leaf.literals
        numbers = self.no_nulls & self.no_nans
        match leaf.operation:
            case Operation.IS_NULL:
                return self.all_null
            case Operation.NOT_NULL:
                return self.no_nulls
            case Operation.IS_NAN:
                return self.all_nan
            case Operation.NOT_NAN:
                return numbers
            case Operation.LT:
                return numbers & self._is(self.upper, "less", values[0], unknown=False)
            case Operation.LT_EQ:
                return numbers & self._is(self.upper, "less_equal", values[0], unknown=False)
            case Operation.GT:
                return numbers & self._is(self.lower, "greater", values[0], unknown=False)
            case Operation.GT_EQ:
                return numbers & self._is(self.lower, "greater_equal", values[0], unknown=False)
            case Operation.EQ | Operation.IN:
                return numbers & self._single_value_in(values)
            case Operation.NOT_EQ | Operation.NOT_IN:
                return self.no_nulls & (self.all_nan | self._none_in(values))
            case Operation.STARTS_WITH:
                return self.no_nulls & self._all_start_with(values[0])
            case Operation.NOT_STARTS_WITH:
                above = self._is(self._cut(self.lower, len(values[0])), "greater", values[0], unknown=False)
                return self.no_nulls & (above | self._is(self.upper, "less", values[0], unknown=False))

    def _might_be_in(self, values: tuple[Any, ...]) -> Mask:
        low = self._is(self.lower, "less_equal", values[-1], unknown=True)
        found = low & self._is(self.upper, "greater_equal", values[0], unknown=True)
        if len(values) > MAX_VALUES_TRIED or not found.any():
            return found
        rows = np.flatnonzero(found)  # few, as a rule: look at the single values for these only
        lower, upper = (None if bound is None else bound.take(pa.array(rows)) for bound in (self.lower, self.upper))
        tried = np.zeros(len(rows), bool)
        for value in values:
            outside = self._is(lower, "greater", value, unknown=False) | self._is(upper, "less", value, unknown=False)
            tried |= ~outside
        found[rows] = tried
        return found

    def _none_in(self, values: tuple[Any, ...]) -> Mask:
        if len(values) > MAX_VALUES_TRIED:
            above = self._is(self.lower, "greater", values[-1], unknown=False)
            return above | self._is(self.upper, "less", values[0], unknown=False)
        none = np.full(self.n, True)
        for value in values:
            none &= self._outside(value, unknown=False)
        return none

    def _all_start_with(self, prefix: Any) -> Mask:
        """Where all values that are not null start with the prefix: both ends do, hence all between."""
        high = self._is(self._cut(self.upper, len(prefix)), "less_equal", prefix, unknown=False)
        return high & self._is(self.lower, "greater_equal", prefix, unknown=False)


def _transformed(
    term: BoundTransform, lower: pa.Array | None, upper: pa.Array | None
) -> tuple[pa.Array | None, pa.Array | None]:
    """Bounds of the transformed values, if the transform keeps the order."""
    transform, source = term.transform, term.reference.type
    if not transform.preserves_order or lower is None or upper is None:
        return None, None
    low, high = transform.apply_array(source, lower), transform.apply_array(source, upper)
    if isinstance(transform, TruncateTransform) and isinstance(source, IntegerType | LongType):
        # near the lowest integer the result wraps around to a high one
        sound = pc.less_equal(low, lower)
        low, high = (pc.if_else(sound, bound, pa.scalar(None, bound.type)) for bound in (low, high))
    return low, high
