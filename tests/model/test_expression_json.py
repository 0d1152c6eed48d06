from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from frazil.errors import InvalidExpression
from frazil.model.binding import bind
from frazil.model.expression_json import expression_from_json, expression_to_json
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, Expression, and_, col, not_, predicate
from frazil.model.operations import Operation
from tests.model.expression_strategies import COLUMNS, SCHEMA, filters

a = col("a")
REFERENCE = {"type": "reference", "name": "a"}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (True, AlwaysTrue()),
        ({"type": "false"}, AlwaysFalse()),
        ({"type": "literal", "value": True}, AlwaysTrue()),
        ({"type": "not", "child": {"type": "is-null", "term": "a"}}, not_(a.is_null())),
        ({"type": "and", "left": {"type": "not-nan", "term": "a"}, "right": True}, a.not_nan()),
        ({"type": "not-starts-with", "term": "a", "value": "x"}, predicate(Operation.NOT_STARTS_WITH, a.term, "x")),
        ({"type": "not_eq", "term": "a", "value": 1.5}, a != 1.5),
        ({"type": "eq", "term": "a", "value": {"type": "literal", "value": "x"}}, a == "x"),
        ({"type": "in", "term": {"type": "reference", "term": "a"}, "values": [1, 2]}, a.isin([1, 2])),
        ({"type": "lt", "left": REFERENCE, "right": 5}, a < 5),
        ({"type": "lt", "left": 5, "right": REFERENCE}, a > 5),
        ({"type": "is-nan", "child": REFERENCE}, a.is_nan()),
        ({"type": "in", "child": REFERENCE, "values": {"type": "literals", "values": [1, 2]}}, a.isin([1, 2])),
        (
            {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "a"}, "value": 1},
            a.bucket(4) == 1,
        ),
        (
            {"type": "eq", "left": {"type": "apply", "function": ["bucket"], "arguments": [4, REFERENCE]}, "right": 1},
            a.bucket(4) == 1,
        ),
        (
            {
                "type": "gt",
                "left": {
                    "type": "apply",
                    "function": {"catalog": "iceberg_functions", "identifier": ["day"]},
                    "arguments": [REFERENCE],
                },
                "right": "2024-01-01",
            },
            a.day() > "2024-01-01",
        ),
    ],
)
def test_both_json_forms_are_read(document: Any, expected: Expression) -> None:
    assert expression_from_json(document) == expected


@pytest.mark.parametrize(
    "document",
    [
        None,
        5,
        [],
        {},
        {"type": 5},
        {"type": "near", "term": "a"},
        {"type": "and", "left": True},
        {"type": "not"},
        {"type": "eq", "term": "a"},
        {"type": "eq", "term": "a", "value": None},
        {"type": "eq", "term": "a", "value": [1]},
        {"type": "eq", "term": "a", "value": {"type": "reference", "name": "b"}},
        {"type": "eq", "left": REFERENCE, "right": REFERENCE},
        {"type": "eq", "left": {"type": "reference", "id": 5}, "right": 1},
        {"type": "in", "term": "a", "values": 5},
        {"type": "eq", "term": 5, "value": 1},
        {"type": "eq", "term": "", "value": 1},
        {"type": "eq", "term": {"type": "transform", "transform": "zorder", "term": "a"}, "value": 1},
        {"type": "eq", "term": {"type": "transform", "transform": "bucket[0]", "term": "a"}, "value": 1},
        {"type": "is-null", "child": {"type": "apply", "function": {}, "arguments": []}},
        {"type": "literal", "value": 5},
    ],
)
def test_what_is_no_filter_is_refused(document: Any) -> None:
    with pytest.raises(InvalidExpression):
        expression_from_json(document)


def test_the_term_form_is_written() -> None:
    assert expression_to_json((a == 5) & col("b").isin([b"\xab", b""])) == {
        "type": "and",
        "left": {"type": "eq", "term": "a", "value": 5},
        "right": {"type": "in", "term": "b", "values": ["ab", ""]},
    }
    assert expression_to_json(AlwaysFalse()) is False
    assert expression_to_json(bind(SCHEMA, col("dec") > 5)) == {"type": "gt", "term": "dec", "value": "5.0"}


def test_long_chains_are_read_and_written_flat_and_deep_ones_refused() -> None:
    chain: Any = {"type": "is-null", "term": "a"}
    for number in range(2000):
        chain = {"type": "and", "left": chain, "right": {"type": "lt", "term": "a", "value": number}}
    expression = expression_from_json(chain)
    assert expression.depth == 2
    assert expression_from_json(json.loads(json.dumps(expression_to_json(expression)))) == expression
    deep: Any = True
    for _ in range(2000):
        deep = {"type": "not", "child": deep}
    with pytest.raises(InvalidExpression, match="deeper"):
        expression_from_json(deep)
    assert and_(expression).depth == 2


@given(filters(*COLUMNS))
def test_json_keeps_what_a_filter_means(expression: Expression) -> None:
    bound = bind(SCHEMA, expression)
    document = json.loads(json.dumps(expression_to_json(bound), allow_nan=False))
    assert bind(SCHEMA, expression_from_json(document)) == bound
