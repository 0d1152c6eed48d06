import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidName
from frazil.io.location import Location, join, name, parent, parse, relative_to, same

segment = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="/\0"), min_size=1, max_size=8
).filter(lambda s: s not in (".", ".."))


@pytest.mark.parametrize("text", ["/a/b", "file:/a/b", "file:///a/b", "file://localhost/a/b", "FILE:/a//b/", "/a/./b/"])
def test_every_spelling_of_a_local_file_is_one_location(text: str) -> None:
    assert parse(text) == Location("file", "", "/a/b")
    assert same(text, "/a/b")


def test_the_scheme_and_the_authority_are_compared() -> None:
    assert not same("s3://b1/k", "s3://b2/k")
    assert not same("s3://b/k", "memory://b/k")
    assert not same("s3://b/k", "s3a://b/k")
    assert same("s3n://b/k", "s3a://b/k", one_s3=True)
    assert relative_to("s3a://b/t/x", "s3://b/t") is None
    assert relative_to("s3a://b/t/x", "s3://b/t", one_s3=True) == "x"


def test_a_sibling_with_the_same_beginning_is_not_inside() -> None:
    assert relative_to("/t10/x", "/t1") is None
    assert relative_to("/t1/x", "/t1/") == "x"
    assert relative_to("/t1", "/t1") == ""
    assert relative_to("/t1", "/") == "t1"
    assert relative_to("s3://bucket/x", "s3://bucket") == "x"
    assert relative_to("s3://bucket2/x", "s3://bucket") is None


@pytest.mark.parametrize(
    "text",
    ["", "a/b", "file:a", "s3:", "/a/../b", "s3://b/..", "/a/..", "/a\0b", "file://data/x", "/\ud800", "/" * 40_000],
)
def test_what_is_no_location_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse(text)


def test_credentials_in_a_location_are_refused_without_being_repeated() -> None:
    with pytest.raises(InvalidName) as caught:
        parse("s3n://key:s3cr3t@bucket/x")
    assert "s3cr3t" not in str(caught.value)
    assert "s3cr3t" not in str(caught.value.context)


@pytest.mark.parametrize("path", ["/w/a%20b", "/w/%2e%2e/x", "/w/d=1:2/x y", "/w/x?y#z", "/w/..x/y..", "/http://x/y"])
def test_paths_are_literal(path: str) -> None:
    assert parse(path).path.replace("//", "/") == path.replace("//", "/")
    assert parse("s3://bucket" + path).key == path[1:]


def test_new_locations_keep_the_spelling_of_their_base() -> None:
    assert join("file:/w", "a") == "file:/w/a"
    assert join("file:///w/", "a") == "file:///w/a"
    assert join("/", "a") == "/a"
    assert join("s3a://b/w", "/a/", "", "b c") == "s3a://b/w/a/b c"
    assert parent("file:/w/a") == "file:/w"
    assert parent("s3://b/w") == "s3://b/"
    with pytest.raises(InvalidName):
        join("/w", "../x")
    with pytest.raises(InvalidName):
        parent("s3://b/")


@given(
    st.sampled_from(["", "/w", "file:/w", "file:///w", "s3://b", "s3://b/w", "memory://m/w"]),
    st.lists(segment, min_size=1),
)
def test_join_parent_name_and_relative_to_agree(base: str, segments: list[str]) -> None:
    base = base or "/"
    joined = join(base, *segments)
    assert relative_to(joined, base) == "/".join(segments)
    assert name(joined) == segments[-1]
    assert join(parent(joined), segments[-1]) == joined
    assert same(joined, str(parse(joined)))
