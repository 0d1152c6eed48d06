from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from frazil.errors import InvalidExpression
from frazil.model.expressions import (
    MAX_DEPTH,
    AlwaysFalse,
    AlwaysTrue,
    And,
    Expression,
    Not,
    Predicate,
    and_,
    col,
    or_,
    rewrite_not,
)
from frazil.model.operations import Operation

A, B = col("a") > 1, col("b").is_null()


def test_and_and_or_are_flat_and_drop_what_changes_nothing() -> None:
    c = col("c") == 1
    assert (A & B) & c == A & (B & c) == And((A, B, c))
    assert A & AlwaysTrue() == A | AlwaysFalse() == A
    assert A & AlwaysFalse() == AlwaysFalse()
    assert A | AlwaysTrue() == AlwaysTrue()
    assert and_() == AlwaysTrue()
    assert or_() == AlwaysFalse()
    assert str((A | B) & c) == "(a > 1 OR b IS NULL) AND c = 1"


def test_not_cancels_not() -> None:
    assert ~~A == A
    assert ~AlwaysTrue() == AlwaysFalse()


def test_columns_are_the_dotted_names() -> None:
    assert (A & ~(col("x.y").bucket(4) == 1) | B).columns() == {"a", "b", "x.y"}


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (col("a").between(1, 2), "a >= 1 AND a <= 2"),
        (col("a").isin([1]), "a = 1"),
        (col("a").isin([]), "FALSE"),
        (col("a").isin(["x", "y"]), "a IN ('x', 'y')"),
        (~col("a").startswith("5%_\\"), "NOT a LIKE '5\\%\\_\\\\%'"),
        (col("a").equal_null_safe(None), "a IS NULL"),
        (col("a").equal_null_safe(5), "a IS NOT NULL AND a = 5"),
        (col("a").not_nan(), "a IS NOT NaN"),
        (col("my col") != Decimal("1.50"), "`my col` <> 1.50"),
        (col("and") <= 1e300, "`and` <= 1e+300"),
        (col("a") == b"\x01\xff", "a = X'01ff'"),
        (col("a") == dt.time(1, 2, 3), "a = TIME '01:02:03'"),
        (col("ts").hour() >= 5, "hours(ts) >= 5"),
        (col("s").truncate(3) == "abc", "truncate(3, s) = 'abc'"),
        (col("ts").year() == 1, "years(ts) = 1"),
        (col("ts").month() == 1, "months(ts) = 1"),
    ],
)
def test_builders_print_as_sql(expression: Expression, text: str) -> None:
    assert str(expression) == text


def test_rewrite_not_reaches_the_predicates_but_leaves_orderings() -> None:
    assert str(rewrite_not(~(A & B & col("c").isin([1, 2])))) == "NOT a > 1 OR b IS NOT NULL OR c NOT IN (1, 2)"
    assert str(rewrite_not(~(~A | ~B))) == "a > 1 AND b IS NULL"
    assert rewrite_not(Not(AlwaysTrue())) == AlwaysFalse()


def test_a_filter_has_no_truth_value() -> None:
    with pytest.raises(InvalidExpression, match="instead of and, or, not"):
        assert A and B  # noqa: PT018
    with pytest.raises(InvalidExpression):
        assert 1 < col("a") < 5


@pytest.mark.parametrize("value", [None, object(), [1], col("b"), A, dt.time(1, tzinfo=dt.UTC)])
def test_what_is_no_literal_is_refused(value: object) -> None:
    with pytest.raises(InvalidExpression) as caught:
        col("a") == value  # noqa: B015
    assert caught.value.hint


def test_transforms_do_not_nest_and_names_are_not_empty() -> None:
    with pytest.raises(InvalidExpression):
        col("a").bucket(4).truncate(2)
    with pytest.raises(InvalidExpression):
        col("")


def test_depth_is_limited_and_length_is_not() -> None:
    long = and_(*(col("a") != number for number in range(5000)))
    assert long.depth == 2
    deep: Expression = A
    for _ in range(MAX_DEPTH - 1):
        deep = Not(deep)
    with pytest.raises(InvalidExpression, match="deeper"):
        or_(deep, B)
    assert deep.depth == MAX_DEPTH
    assert deep.columns() == {"a"}


def test_every_operation_is_the_negation_of_its_negation() -> None:
    for operation in Operation:
        assert operation.negated.negated is operation
        assert operation.flipped.flipped is operation
    assert isinstance(A, Predicate)
    assert A.operation.flipped is Operation.LT
