"""Property updates."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidArgument, InvalidEvolution
from frazil.iceberg.actions.update_properties import UpdateProperties
from tests.iceberg.memory_committer import Table


def update(table: Table) -> UpdateProperties:
    return UpdateProperties(table.transaction())


def test_properties_are_set_as_texts_and_removed():
    table = Table(properties={"a": "1", "b": "2"})
    update(table).set("c", 3).set_all({"d": True, "a": "0"}).remove("b", "not there").commit()
    assert {key: table.metadata.properties.get(key) for key in "abcd"} == {"a": "0", "b": None, "c": "3", "d": "true"}


def test_nothing_new_commits_nothing():
    table = Table(properties={"a": "1"})
    update(table).set("a", 1).remove("zzz").commit()
    assert table.committer.commits == 0


def test_both_writers_properties_stay():
    table = Table()
    change = update(table).set("mine", "1")
    table.in_between(lambda: update(table).set("theirs", "2").commit())
    change.commit()
    assert table.metadata.properties["mine"] == "1"
    assert table.metadata.properties["theirs"] == "2"


def test_one_name_cannot_be_both_set_and_removed():
    with pytest.raises(InvalidArgument, match="both"):
        update(Table()).set("a", 1).remove("a")
    with pytest.raises(InvalidArgument, match="both"):
        update(Table()).remove("a").set("a", 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("uuid", "x"),
        ("gc.enabled", "perhaps"),
        ("commit.retry.num-retries", "-1"),
        ("a", None),
        ("format-version", "x"),
        ("schema.name-mapping.default", "{broken"),
        ("schema.name-mapping.default", '[{"field-id": 1}]'),
        ("schema.name-mapping.default", "[" * 100_000),
    ],
)
def test_reserved_names_and_values_that_do_not_parse_are_refused_at_once(name: str, value: object):
    with pytest.raises(InvalidArgument):
        update(Table()).set(name, value)


def test_reserved_names_cannot_be_removed():
    with pytest.raises(InvalidArgument, match="reserved"):
        update(Table()).remove("format-version")


def test_metrics_of_a_column_that_does_not_exist_are_refused():
    table = Table()
    update(table).set("write.metadata.metrics.column.point.x", "none").commit()
    with pytest.raises(InvalidArgument, match="names a column"):
        update(table).set("write.metadata.metrics.column.nope", "full").commit()


def test_setting_the_format_version_upgrades_the_table():
    table = Table(2)
    update(table).set("format-version", 3).set("a", 1).commit()
    assert table.metadata.format_version == 3
    assert "format-version" not in table.metadata.properties
    with pytest.raises(InvalidEvolution, match="cannot go back"):
        update(table).set("format-version", "2").commit()
