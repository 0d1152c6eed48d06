from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from frazil.errors import InvalidArgument
from frazil.model.property_text import property_text, property_texts, text_or_none


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        ("", ""),
        (5, "5"),
        (0, "0"),
        (1.5, "1.5"),
        (Decimal("1.50"), "1.50"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_texts_numbers_and_booleans_are_text(value: Any, text: str) -> None:
    assert property_text("a", value) == text


@pytest.mark.parametrize("value", [None, b"a", date(2026, 11, 16), ["a"], {"a": "b"}, object()])
def test_what_is_no_text_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"run is .* no text"):
        property_texts({"run": value})


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="is named 5"):
        property_texts({5: "a"})  # type: ignore[dict-item]


def test_what_is_not_given_is_left_out() -> None:
    assert property_texts(None) == {}
    assert text_or_none("batch_id", None) is None
    assert text_or_none("batch_id", 5) == "5"
