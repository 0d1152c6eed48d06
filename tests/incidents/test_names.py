"""Names and locations that others took for patterns, paths or code."""

from __future__ import annotations

import pytest

from frazil.errors import FrazilError, InvalidName
from frazil.io.memory_store import MemoryStore
from frazil.io.store import RelocatingStore
from tests.incidents.lakes import CATALOGS, Place, ids_in, new_table, place, rows_of

WILDCARDS = ["*", "*.*", "f*", "?", "t?", "a*b"]
BREAKOUTS = ["a\\b", "a\nb", "a\rb", "a\0b", 'a"b', "a`b", "a:b", "a|b", "a<b", "a#b", "a\u202eb"]
PATHS = ["a/b", "../t", "..", "."]
PLAIN = ["o'brien", "x'; DROP TABLE iceberg_tables; --", "${aws:username}", "100%", "a_b", "%s", "tä", "{0}", "a&b"]


@pytest.fixture(params=CATALOGS)
def at(request: pytest.FixtureRequest) -> Place:
    made = place(request.param)
    made.lake.create_namespace("db")
    return made


@pytest.mark.parametrize("name", [*WILDCARDS, *BREAKOUTS, *PATHS], ids=repr)
def test_names_that_could_be_more_than_a_name_are_refused(at: Place, name: str):
    """C4 #25 (CVE-2026-42810: `*` became an IAM wildcard) and #26 (CVE-2026-42811: backslash and newline)."""
    before = at.contents()
    for attempt in (
        lambda: at.lake.create_table(("db", name), "id BIGINT"),
        lambda: at.lake.table(("db", name)),
        lambda: at.lake.drop_table(("db", name), purge=True),
        lambda: at.lake.create_namespace((name,)),
        lambda: at.lake.create_namespace(("db", name)),
        lambda: at.lake.stage_table(("db", name), "id BIGINT"),
        lambda: at.lake.register_table(("db", name), "memory://x/metadata/v1.metadata.json"),
    ):
        with pytest.raises(InvalidName) as error:
            attempt()
        assert (error.value.code, bool(error.value.hint)) == ("INVALID_NAME", True)
    assert at.contents() == before


@pytest.mark.parametrize("name", PLAIN, ids=repr)
def test_signs_that_are_no_syntax_here_are_plain_names(at: Place, name: str):
    """C4 #26: a quote breaks out of nothing: every name comes back as it was, and finds its own table only."""
    parts = ("db", name)
    try:
        at.lake.create_table(parts, "id BIGINT, name STRING").append(rows_of(1))
    except InvalidName:
        assert "." in name or ":" in name
        return
    new_table(at, name="db.other").append(rows_of(2))
    assert ids_in(at.lake.table(parts)) == [1]
    assert f"db.{name}" in at.lake.tables()
    at.lake.drop_table(parts)
    assert at.lake.tables() == ["db.other"]
    assert ids_in(at.table("db.other")) == [2]


def test_a_name_with_a_sql_wildcard_matches_only_itself(at: Place):
    """C4 #25 for SQL: `_` and `%` are no LIKE patterns."""
    for number, name in enumerate(["a_b", "axb", "a%b"]):
        new_table(at, name=f"db.{name}").append(rows_of(number))
    for number, name in enumerate(["a_b", "axb", "a%b"]):
        assert ids_in(at.table(f"db.{name}")) == [number]
    at.lake.create_namespace("n_s")
    at.lake.create_namespace("nxs")
    new_table(at, name="nxs.t")
    assert at.lake.tables("n_s") == []
    at.lake.drop_namespace("n_s")
    at.lake.drop_table("db.a_b", purge=True)
    assert at.lake.tables("db") == ["db.a%b", "db.axb"]


def test_a_table_whose_name_begins_another_owns_nothing_of_it(at: Place):
    """C4 #28 (Polaris 1.6.0): `/t1` is no prefix of `/t10`."""
    for number, name in enumerate(["t1", "t10", "t1-x", "t"]):
        new_table(at, name=f"db.{name}").append(rows_of(number))
    short, long = at.table("db.t1"), at.table("db.t10")
    assert long.location.startswith(short.location)
    listed = {file.location for file in at.store.list(short.location)}
    assert listed
    assert all(location.startswith(f"{short.location}/") for location in listed)
    short.overwrite(rows_of(7))
    short.expire_snapshots().older_than(2**62).commit()
    at.lake.drop_table("db.t1", purge=True)
    at.lake.drop_table("db.t", purge=True)
    assert ids_in(at.table("db.t10")) == [1]
    assert ids_in(at.table("db.t1-x")) == [2]


def test_a_namespace_whose_name_begins_another_is_not_it(at: Place):
    """C4 #28: nor is `/n1` one of `/n10`."""
    new_table(at, name="n10.t").append(rows_of(1))
    at.lake.create_namespace("n1")
    assert at.lake.tables("n1") == []
    assert at.lake.list_namespaces("n1") == []
    at.lake.drop_namespace("n1")
    assert ids_in(at.table("n10.t")) == [1]


def test_a_relocated_prefix_does_not_catch_its_siblings():
    """C4 #28: moving /t1 elsewhere leaves /t10 where it is."""
    inner = MemoryStore("siblings")
    store = RelocatingStore(inner, [("memory://siblings/t1", "memory://siblings/moved")])
    assert store.route("memory://siblings/t1/x")[1] == "memory://siblings/moved/x"
    assert store.route("memory://siblings/t10/x")[1] == "memory://siblings/t10/x"
    assert store.route("memory://siblings/t1")[1] == "memory://siblings/moved"


@pytest.mark.parametrize("location", ["memory://other/w/../x", "/tmp/../etc", "relative/t", "s3://b/../x", "file:../x"])
def test_locations_that_leave_their_folder_are_refused(at: Place, location: str):
    """C4 #26 and D.5: a location is taken literally, so `..` in it is refused rather than followed."""
    before = at.contents()
    if location.startswith(("/tmp", "relative")):
        with pytest.raises(FrazilError):
            new_table(at, name="db.t").update_location().set_location(location).commit()
        return
    with pytest.raises(FrazilError) as error:
        at.lake.create_table("db.t", "id BIGINT", location=location)
    assert error.value.hint
    assert at.contents() == before
