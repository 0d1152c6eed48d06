"""Partition spec updates."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidArgument, InvalidEvolution
from frazil.iceberg.actions.update_spec import UpdateSpec
from tests.iceberg.memory_committer import Table


def update(table: Table) -> UpdateSpec:
    return UpdateSpec(table.transaction())


def fields(table: Table) -> list[tuple[int, str, str]]:
    return [(part.field_id, part.name, str(part.transform)) for part in table.metadata.default_spec.fields]


def test_fields_are_added_by_terms_and_get_new_ids():
    table = Table()
    update(table).add_field("days(ts)").add_field("truncate(2, name)", "first letters").commit()
    assert fields(table) == [
        (1000, "id_bucket", "bucket[4]"),
        (1001, "ts_day", "day"),
        (1002, "first letters", "truncate[2]"),
    ]
    assert (table.metadata.default_spec_id, table.metadata.last_partition_id) == (1, 1002)


def test_fields_are_removed_by_name_or_term_and_come_back_with_their_id():
    table = Table()
    update(table).remove_field("bucket(4, id)").commit()
    assert fields(table) == []
    update(table).add_field("bucket(4, id)").commit()
    assert table.metadata.default_spec_id == 0
    update(table).remove_field("id_bucket").add_field("bucket(8, id)").commit()
    assert fields(table) == [(1001, "id_bucket_8", "bucket[8]")]


def test_a_v1_table_keeps_the_place_of_a_removed_field():
    table = Table(1)
    update(table).remove_field("id_bucket").add_field("days(ts)").commit()
    assert fields(table) == [(1000, "id_bucket", "void"), (1001, "ts_day", "day")]


def test_a_field_is_renamed():
    table = Table()
    update(table).rename_field("id_bucket", "shard").commit()
    assert fields(table) == [(1000, "shard", "bucket[4]")]
    with pytest.raises(InvalidArgument, match="twice"):
        update(table).rename_field("shard", "a").rename_field("shard", "b")


def test_a_spec_can_be_added_without_becoming_the_default():
    table = Table()
    update(table).add_field("days(ts)").add_non_default_spec().commit()
    assert table.metadata.default_spec_id == 0
    assert [spec.spec_id for spec in table.metadata.partition_specs] == [0, 1]
    update(table).add_field("days(ts)").commit()
    assert table.metadata.default_spec_id == 1


def test_nothing_to_change_commits_nothing():
    table = Table()
    update(table).commit()
    update(table).remove_field("id_bucket").add_field("bucket(4, id)").commit()
    assert table.committer.commits == 0


def test_after_a_conflict_the_change_is_made_to_the_other_writers_spec():
    table = Table()
    change = update(table).add_field("days(ts)")
    table.in_between(lambda: update(table).add_field("truncate(2, name)").commit())
    change.commit()
    assert [name for _, name, _ in fields(table)] == ["id_bucket", "name_trunc_2", "ts_day"]
    assert len({number for number, _, _ in fields(table)}) == 3


def test_a_field_that_another_writer_added_first_is_refused():
    table = Table()
    change = update(table).add_field("days(ts)")
    table.in_between(lambda: update(table).add_field("days(ts)").commit())
    with pytest.raises(InvalidEvolution, match="already"):
        change.commit()


def test_bad_terms_and_names_are_refused():
    table = Table()
    with pytest.raises(InvalidArgument):
        update(table).add_field("bucket(ts")
    with pytest.raises(InvalidArgument, match="one name"):
        update(table).add_field("days(ts) AS d", "e")
    with pytest.raises(InvalidEvolution, match="no partition field"):
        update(table).remove_field("nope").commit()
    with pytest.raises(InvalidEvolution, match="named like another column"):
        update(table).add_field("days(ts)", "name").commit()
    assert table.committer.commits == 0
