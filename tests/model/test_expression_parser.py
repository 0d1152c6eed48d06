from __future__ import annotations

import datetime as dt
import string
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FrazilError, InvalidExpression
from frazil.model.expression_parser import parse_expression
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, Expression, and_, col, not_, or_, predicate
from frazil.model.operations import Operation

a = col("a")
CASES: list[tuple[str, Expression]] = [
    ("a > 5", a > 5),
    ("5 < a", a > 5),
    ("5 >= a", a <= 5),
    ("(a) = (5)", a == 5),
    ("a == 5", a == 5),
    ("a <> 5", a != 5),
    ("a != -5", a != -5),
    ("a <= +1.50", a <= Decimal("1.50")),
    ("a < .5", a < Decimal("0.5")),
    ("a = -1234567890123456789012345678.5", a == Decimal("-1234567890123456789012345678.5")),
    ("a < -1e3", a < -1000.0),
    ("a = 'it''s'", a == "it's"),
    ("a = X'00fF'", a == b"\x00\xff"),
    ("a = x''", a == b""),
    ("a = DATE '2024-02-29'", a == dt.date(2024, 2, 29)),
    ("a = TIME '12:30:00.5'", a == dt.time(12, 30, 0, 500000)),
    ("a = TIMESTAMP '2024-01-01 00:00:00'", a == dt.datetime(2024, 1, 1)),
    ("a = timestamp '2024-01-01T00:00:00Z'", a == dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    ("a = TIMESTAMPTZ '2024-01-01 01:00:00+01:00'", a == dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    ("a = TIMESTAMP_NTZ '2024-01-01'", a == dt.datetime(2024, 1, 1)),
    ("a = TIMESTAMP '2024-01-01 00:00:00.123456789'", a == "2024-01-01 00:00:00.123456789"),
    ("a = UUID '00000000-0000-0000-0000-000000000005'", a == uuid.UUID(int=5)),
    ("a = DOUBLE 'Infinity'", a == float("inf")),
    ("a <=> NULL", a.is_null()),
    ("NULL <=> a", a.is_null()),
    ("a <=> 5", and_(a.not_null(), a == 5)),
    ("a IS NULL", a.is_null()),
    ("a is not null", a.not_null()),
    ("a IS NaN AND a IS NOT NAN", a.is_nan() & a.not_nan()),
    ("isnan(a)", a.is_nan()),
    ("a IS TRUE", and_(a.not_null(), a == True)),  # noqa: E712
    ("a IS NOT FALSE", not_(and_(a.not_null(), a == False))),  # noqa: E712
    ("a", a == True),  # noqa: E712
    ("NOT a", not_(a == True)),  # noqa: E712
    ("TRUE", AlwaysTrue()),
    ("NOT TRUE", AlwaysFalse()),
    ("TRUE = a", a == True),  # noqa: E712
    ("a IN (1, 2)", a.isin([1, 2])),
    ("a NOT IN ('x')", a != "x"),
    ("a BETWEEN 1 AND 2 AND b = 3", a.between(1, 2) & (col("b") == 3)),
    ("a NOT BETWEEN 1 AND 2", not_(a.between(1, 2))),
    ("a LIKE 'ab%'", a.startswith("ab")),
    ("a LIKE '%'", a.startswith("")),
    ("a LIKE 'ab%%'", a.startswith("ab")),
    ("a LIKE 'ab'", a == "ab"),
    ("a LIKE 'a\\%\\_\\\\%'", a.startswith("a%_\\")),
    ("a LIKE 'a!%%' ESCAPE '!'", a.startswith("a%")),
    ("a NOT LIKE 'ab%'", predicate(Operation.NOT_STARTS_WITH, a.term, "ab")),
    ("startswith(a, 'x')", a.startswith("x")),
    ("`a b`.`c``d` = 1", col("a b.c`d") == 1),
    ('"a b" . c = 1', col("a b.c") == 1),
    ("x.in = 1", col("x.in") == 1),
    ("date = 1", col("date") == 1),
    ("größe > 1", col("größe") > 1),
    ("bucket(16, a) = 3", a.bucket(16) == 3),
    ("truncate(3, a) = 'abc'", a.truncate(3) == "abc"),
    ("days(a) > DATE '2024-01-01'", a.day() > dt.date(2024, 1, 1)),
    ("years(a) = 1 OR months(a) = 1 OR hours(a) = 1", or_(a.year() == 1, a.month() == 1, a.hour() == 1)),
    ("a = 1 OR a = 2 AND NOT a = 3", (a == 1) | ((a == 2) & ~(a == 3))),
    ("NOT a = 1 AND a = 2", ~(a == 1) & (a == 2)),
    ("NOT (a = 1 AND a = 2)", ~((a == 1) & (a == 2))),
    ("((a = 1 OR a = 2)) AND a = 3", ((a == 1) | (a == 2)) & (a == 3)),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_sql_conditions_parse(text: str, expected: Expression) -> None:
    assert parse_expression(text) == expected
    assert parse_expression(f"  {text}\n") == expected


@pytest.mark.parametrize("expression", [expected for _, expected in CASES], ids=str)
def test_printed_conditions_parse_back(expression: Expression) -> None:
    assert parse_expression(str(expression)) == expression


@pytest.mark.parametrize(
    ("text", "position", "hint"),
    [
        ("", 0, ""),
        ("a >", 3, ""),
        ("a > 5 5", 6, "AND"),
        ("a > b", 2, "two columns"),
        ("a = NULL", 2, "IS NULL"),
        ("a IN (1, NULL)", 2, "IS NULL"),
        ("a LIKE '%b'", 2, "'ab%'"),
        ("a LIKE 'a_c'", 2, "'ab%'"),
        ("a LIKE 5", 8, "'ab%'"),
        ("(a = 1", 6, "parentheses"),
        ("a = 'x", 4, "quotes"),
        ("a = 5x", 4, "numbers"),
        ("a ? 5", 2, ""),
        ("foo(a) = 1", 0, "isnan"),
        ("bucket(0, a) = 1", 0, "bucket"),
        ("5 = 5", 5, "column"),
        ("5", 1, "column"),
        ("5 IS NULL", 2, "column"),
        ("a = DATE '2024-13-01'", 4, "month"),
        ("a = X'abc'", 4, ""),
        ("a = TIMESTAMP_NTZ '2024-01-01 00:00:00Z'", 4, "TIMESTAMPTZ"),
        ("a BETWEEN 1", 11, "BETWEEN"),
        ("a IS 5", 5, "IS NOT NULL"),
        ("(a = 1) = TRUE", 14, "AND"),
        ("a IN ()", 6, ""),
        ("a IN (b)", 7, "literals"),
        ("a. = 1", 3, ""),
        ("and", 0, "backquotes"),
        ("a = " + "9" * 5000, 4, "digits"),
        ("a = 1 AND year(ts) = 2020", 10, "years(x) counts them since 1970"),
        ("MONTH(ts) = 5", 0, "months(x)"),
        ("day(ts) = DATE '2024-01-01'", 0, "compare the column with dates"),
        ("hour(ts) IN (1, 2)", 0, "hours(x)"),
    ],
)
def test_errors_tell_the_position_and_what_to_do(text: str, position: int, hint: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        parse_expression(text)
    assert f"at position {position} " in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["(" * 5000, "NOT " * 5000 + "a", "(" * 5000 + "a" + ")" * 5000, "isnan(" * 5000])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(InvalidExpression, match="nesting"):
        parse_expression(text)


def test_long_chains_are_fine() -> None:
    assert parse_expression(" OR ".join(f"a = {number}" for number in range(3000))).depth == 2


@given(
    st.text(st.sampled_from("aAxX'`\"()=<>!.,-+ 019%\\\n" + string.ascii_letters), max_size=30) | st.text(max_size=10)
)
def test_any_text_parses_or_is_refused_as_a_filter(text: str) -> None:
    try:
        found = parse_expression(text)
    except FrazilError:
        return
    assert parse_expression(str(found)) == found


literals = st.one_of(
    st.booleans(),
    st.integers(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.uuids(),
)


@given(st.text(min_size=1).filter(lambda name: "\0" not in name), st.lists(literals, min_size=1, max_size=3))
def test_every_name_and_literal_prints_and_parses_back(name: str, values: list[Any]) -> None:
    column = col(name)
    expression = (column == values[0]) | ~column.isin(values) & column.startswith(name)
    assert parse_expression(str(expression)) == expression
