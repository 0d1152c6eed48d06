import pytest

from frazil.errors import CommitFailed, CommitStateUnknown, InvalidArgument
from tests.iceberg.small_tables import ids_of, new_table, rows, write_files


def metadata_files(table):
    return {file.location for file in table.store.list(f"{table.location}/metadata")}


def test_several_actions_become_visible_together():
    table = new_table(2)
    table.append(rows(1))
    other = table.metadata_location
    with table.transaction() as change:
        change.update_schema().add_column("extra", "int").commit()
        change.new_append().append_files(write_files(table, rows(2))).commit()
        change.new_append().append_files(write_files(table, rows(3))).commit()
        change.update_properties().set("owner", "me").commit()
        assert len(change.metadata.snapshots) == 3
        assert table.metadata_location == other
    assert ids_of(table) == [1, 2, 3]
    assert [snapshot.sequence_number for snapshot in table.history] == [3, 2, 1]
    assert table.properties["owner"] == "me"
    assert "extra" in table.schema.columns
    assert len(table.metadata.snapshot_log) == 2  # the snapshot in between was never current


def append_and_stop(table):
    with table.transaction() as change:
        change.new_append().append_files(write_files(table, rows(2))).commit()
        raise RuntimeError("stop")


def test_an_error_in_the_block_leaves_the_table_and_its_folder_as_they_were():
    table = new_table(2)
    table.append(rows(1))
    before = metadata_files(table)
    with pytest.raises(RuntimeError, match="stop"):
        append_and_stop(table)
    assert metadata_files(table) == before
    assert ids_of(table.refresh()) == [1]


def test_a_transaction_is_staged_again_when_another_writer_was_first():
    table = new_table(3)
    table.append(rows(1))
    slow = table.transaction()
    slow.new_append().append_files(write_files(table, rows(2))).commit()
    slow.update_properties().set("a", "b").commit()
    table.append(rows(3, 4))
    slow.commit()
    assert ids_of(table.refresh()) == [1, 2, 3, 4]
    row_ids = table.scan(columns=["_row_id"]).to_arrow().column(0).to_pylist()
    assert sorted(row_ids) == [0, 1, 2, 3]


def test_files_of_failed_attempts_are_removed_after_success():
    table = new_table(2)
    slow = table.transaction()
    slow.new_append().append_files(write_files(table, rows(2))).commit()
    table.append(rows(1))
    slow.commit()
    lists = [location for location in metadata_files(table) if "/snap-" in location]
    assert sorted(lists) == sorted(snapshot.manifest_list for snapshot in table.refresh().snapshots)


def test_a_finished_transaction_takes_no_more():
    table = new_table(2)
    change = table.transaction()
    change.commit()
    with pytest.raises(InvalidArgument, match="finished"):
        change.update_properties().set("a", "b").commit()
    with pytest.raises(InvalidArgument, match="finished"):
        change.commit()


def test_retries_end_and_clean_up_after_the_definite_refusal():
    table = new_table(2)
    table.append(rows(1))
    table.update_properties().set("commit.retry.num-retries", "0").commit()
    change = table.transaction()
    change.new_append().append_files(write_files(table, rows(2))).commit()
    table.append(rows(3))
    before = metadata_files(table)
    with pytest.raises(CommitFailed):
        change.commit()
    after = metadata_files(table)
    assert after < before
    assert all("/snap-" in location or "-m" in location for location in before - after)
    assert ids_of(table.refresh()) == [1, 3]


@pytest.mark.parametrize("error", [CommitStateUnknown("lost"), MemoryError(), KeyboardInterrupt()])
def test_nothing_is_deleted_when_the_answer_is_lost(error, monkeypatch):
    table = new_table(2)
    table.append(rows(1))
    commit = table._committer.commit

    def applied_then_lost(*arguments):
        commit(*arguments)
        raise error

    monkeypatch.setattr(table._committer, "commit", applied_then_lost)
    with pytest.raises(type(error)):
        table.append(rows(2))
    assert ids_of(table.refresh()) == [1, 2]


def test_a_broken_retry_setting_can_be_mended():
    table = new_table(2)
    metadata = table.metadata
    table.update_properties().set("x", "y").commit()
    object.__setattr__(table.metadata, "properties", {**metadata.properties, "commit.retry.num-retries": "many"})
    table.update_properties().set("commit.retry.num-retries", "3").commit()
    assert table.properties["commit.retry.num-retries"] == "3"


def test_rows_can_be_appended_inside_a_transaction_with_the_new_schema():
    table = new_table(2)
    with table.transaction() as change:
        change.update_schema().add_column("extra", "int").commit()
        change.append([{"id": 1, "name": "a", "part": 0, "extra": 7}])
    assert table.scan(columns=["id", "extra"]).to_arrow().to_pylist() == [{"id": 1, "extra": 7}]


def test_an_action_is_a_context_manager_that_commits():
    table = new_table(2)
    with table.update_schema() as update:
        update.add_column("extra", "int")
    assert "extra" in table.schema.columns
