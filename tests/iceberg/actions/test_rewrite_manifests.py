from frazil.iceberg.actions.action import Context
from tests.iceberg.small_tables import ids_of, live_files, new_table, rows, vector


def manifests_of(table):
    return Context(table.metadata, table.store).manifests(table.current_snapshot)


def test_many_small_manifests_become_one_with_the_same_files():
    table = new_table(3, partition_by=("part",))
    for number in range(6):
        table.append(rows(number, number + 10, part=number % 2))
    before = {(file.file_path, file.data_sequence_number, file.first_row_id) for file in live_files(table)}
    assert len(manifests_of(table)) == 6
    table.rewrite_manifests().commit()
    assert len(manifests_of(table)) == 1
    after = {(file.file_path, file.data_sequence_number, file.first_row_id) for file in live_files(table)}
    assert after == before
    told = table.current_snapshot.summary
    assert (told["operation"], told["manifests-replaced"], told["entries-processed"]) == ("replace", "6", "6")
    assert told["total-records"] == "12"


def test_deleted_entries_are_dropped_and_delete_manifests_stay_apart():
    table = new_table(3)
    for number in range(3):
        table.append(rows(number, number + 10))
    table.new_row_delta().add_deletes(vector(table, live_files(table)[0], 0)).commit()
    table.delete("id = 12")
    left = ids_of(table)
    table.rewrite_manifests().commit()
    assert ids_of(table) == left
    assert all(manifest.deleted_files_count == 0 for manifest in manifests_of(table))


def test_only_chosen_manifests_are_rewritten():
    table = new_table(2)
    for number in range(4):
        table.append(rows(number))
    kept = manifests_of(table)[0].manifest_path
    table.rewrite_manifests().rewrite_if(lambda manifest: manifest.manifest_path != kept).commit()
    assert kept in {manifest.manifest_path for manifest in manifests_of(table)}
    assert len(manifests_of(table)) == 2
    assert ids_of(table) == [0, 1, 2, 3]
