"""Names of namespaces and tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.catalog.names import TableName, namespace_name, table_name
from frazil.errors import InvalidName


def test_text_and_tuples_name_the_same_table() -> None:
    assert table_name("a.b.t") == table_name(("a", "b", "t")) == TableName(("a", "b"), "t")


@pytest.mark.parametrize("bad", ["", ".", "..", " a", "a ", "a\n", "a\x00b", "a\x7f", "x" * 201, "a\u202eb", "a.b"])
def test_a_level_that_is_no_plain_name_is_refused(bad: str) -> None:
    with pytest.raises(InvalidName):
        namespace_name((bad,))


@pytest.mark.parametrize("character", '/\\:*?"<>|#+`')
def test_characters_that_paths_and_policies_give_a_meaning_are_refused(character: str) -> None:
    with pytest.raises(InvalidName, match="cannot be a name"):
        table_name(f"db.a{character}b")


def test_a_table_without_a_namespace_is_refused_with_a_way_out() -> None:
    with pytest.raises(InvalidName) as caught:
        table_name("events")
    assert "namespace.events" in str(caught.value)


def test_something_else_than_text_is_refused() -> None:
    with pytest.raises(InvalidName):
        namespace_name((1,))  # type: ignore[arg-type]


def test_long_namespaces_are_refused_before_a_database_does() -> None:
    with pytest.raises(InvalidName):
        namespace_name(["x" * 100] * 3)


def test_two_spellings_of_one_letter_are_one_name() -> None:
    assert namespace_name("cafe\u0301") == namespace_name("caf\u00e9")


@given(st.lists(st.text(max_size=20), max_size=4))
def test_any_text_is_a_name_that_stays_in_its_folder_or_is_refused(parts: list[str]) -> None:
    try:
        accepted = namespace_name(parts)
    except InvalidName:
        return
    assert namespace_name(".".join(accepted)) == accepted
    assert all(part not in ("", ".", "..") and "/" not in part for part in accepted)
