"""Files written for a table that others changed meanwhile: refused if the table could not be read with them."""

from dataclasses import replace

import pytest

import frazil
from frazil.errors import CommitConflict, InvalidArgument
from frazil.model.types import IntegerType, LongType
from tests.iceberg.small_tables import ids_of, live_files, new_table, rows, write_files


def stale(table):
    """The table as another writer knows it, who does not learn what happens now."""
    return type(table)(table.identifier, table.store, table._committer, table._state)


def removes_old_specs(table):
    table.append(rows(1))
    table.append(rows(2))
    table.expire_snapshots().older_than(1 << 60).retain_last(1).clean_expired_metadata().commit()


def test_an_append_by_a_spec_that_was_removed_is_a_conflict_and_the_table_stays_readable():
    table = new_table(2, partition_by=("bucket(4, id)",))
    late = stale(table)
    table.update_spec().remove_field("id_bucket").commit()
    removes_old_specs(table)
    assert [spec.spec_id for spec in table.metadata.partition_specs] == [1]
    with pytest.raises(CommitConflict, match="partition spec 0"):
        late.append(rows(7))
    assert ids_of(table.refresh()) == [1, 2]
    written = {file.location for file in table.store.list(f"{table.location}/data")}
    assert written == {file.file_path for file in live_files(table)}


def test_an_append_by_a_spec_whose_id_is_another_specs_now_is_a_conflict():
    table = new_table(2)
    table.update_spec().add_field("part").commit()
    late = stale(table)
    table.update_spec().remove_field("part").commit()
    removes_old_specs(table)
    table.update_spec().add_field("name").commit()
    assert table.spec.spec_id == late.spec.spec_id
    with pytest.raises(CommitConflict, match="partition spec 1"):
        late.append(rows(7))


def test_an_append_by_an_older_spec_that_is_still_there_is_none():
    table = new_table(2, partition_by=("bucket(4, id)",))
    late = stale(table)
    table.update_spec().remove_field("id_bucket").commit()
    table.append(rows(1))
    late.append(rows(7))
    assert ids_of(late) == [1, 7]


def test_a_file_of_a_sort_order_that_is_gone_is_a_conflict(monkeypatch):
    table = new_table(2)
    table.update_sort_order().asc("id").commit()
    late = stale(table)
    table.append(rows(1))
    state = table._committer.load()
    object.__setattr__(state.metadata, "sort_orders", ())
    object.__setattr__(state.metadata, "default_sort_order_id", 0)
    monkeypatch.setattr(late._committer, "load", lambda: state)
    with pytest.raises(CommitConflict, match="sort order 1"):
        late.append(rows(2))


REPLACEMENTS = {
    "a required column": ("id BIGINT, x INT NOT NULL", "'x' is now required"),
    "a required field": ("id BIGINT, s STRUCT<a: INT, b: INT NOT NULL>", "'s.b' is now required"),
    "a column that may not be null any more": ("id BIGINT NOT NULL", "'id' is now required"),
    "another type": ("id STRING", "'id' is now string"),
    "another kind of type": ("id ARRAY<BIGINT>", "'id' is now list"),
    "another type inside": ("id BIGINT, s STRUCT<a: STRING>", "'s.a' is now string"),
}


@pytest.mark.parametrize("case", REPLACEMENTS)
def test_an_append_that_a_replaced_table_could_not_read_is_a_conflict(case):
    schema, message = REPLACEMENTS[case]
    lake = frazil.connect(f"memory://layout-{case.replace(' ', '-')}")
    lake.create_table("db.t", "id BIGINT, s STRUCT<a: INT>")
    late = lake.table("db.t")
    lake.replace_table("db.t", schema)
    with pytest.raises(CommitConflict, match=message):
        late.append([{"id": 5, "s": {"a": 1}}])
    assert lake.table("db.t").scan().to_arrow().num_rows == 0


def test_an_append_that_the_changed_schema_reads_is_none():
    table = new_table(3, schema="id BIGINT NOT NULL, n INT, s STRUCT<a: INT>")
    late = stale(table)
    update = table.update_schema().update_column("n", LongType()).make_optional("id")
    update.add_column("plus", IntegerType()).add_column("five", IntegerType(), default=5, required=True)
    update.add_column(("s", "b"), IntegerType()).commit()
    late.append([{"id": 1, "n": 2, "s": {"a": 3}}])
    found = late.scan().to_arrow().to_pylist()
    assert found == [{"id": 1, "n": 2, "s": {"a": 3, "b": None}, "plus": None, "five": 5}]


def test_a_file_given_twice_is_added_once():
    table = new_table(2)
    (file,) = write_files(table, rows(1))
    table.new_append().append_files([file, file]).append_file(file).commit()
    assert ids_of(table) == [1]
    assert table.current_snapshot.summary["total-records"] == "1"


def test_two_different_files_of_one_path_are_refused():
    table = new_table(2)
    (file,) = write_files(table, rows(1))
    with pytest.raises(InvalidArgument, match="two different files"):
        table.new_append().append_files([file, replace(file, record_count=2)])
