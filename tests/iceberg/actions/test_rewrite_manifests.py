"""Rewriting manifests: the same files in manifests that are fewer, of the target size, and clustered."""

from itertools import pairwise

import pytest

from frazil.errors import InvalidArgument, NotFound
from frazil.iceberg.actions import rewrite_manifests
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.rewrite_manifests import RewriteManifestsResult
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.table import IcebergTable
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


def ranges(table, position=0):
    """The least and greatest partition value of each manifest, sorted."""
    found = []
    for manifest in manifests_of(table):
        summary = manifest.partitions[position]
        low, high = (
            None if bound is None else int.from_bytes(bound, "little", signed=True)
            for bound in (summary.lower_bound, summary.upper_bound)
        )
        found.append((low, high))
    return sorted(found, key=str)


def scattered(table, parts, commits):
    """So many commits with a file in each of those partitions, which are nowhere but in metadata."""
    for commit in range(commits):
        names = [f"{table.location}/data/{commit}-{number}.parquet" for number in range(len(parts))]
        files = [DataFile(name, "parquet", 1, 100, 0, part) for name, part in zip(names, parts, strict=True)]
        table.new_fast_append().append_files(files).commit()


def test_tidy_manifests_are_left_alone():
    table = new_table(2, partition_by=("part",))
    table.append(rows(1, 2))
    before = table.current_snapshot
    action = table.rewrite_manifests().commit()
    assert action.result == RewriteManifestsResult(0, 0)
    assert table.current_snapshot == before
    table.append(rows(3, part=1))
    assert table.rewrite_manifests().commit().result == RewriteManifestsResult(2, 1)
    number = len(table.snapshots)
    assert table.rewrite_manifests().commit().result == RewriteManifestsResult(0, 0)
    assert len(table.snapshots) == number
    table.delete("id = 3")
    assert table.rewrite_manifests().commit().result.rewritten_manifests_count > 0  # what was deleted is dropped
    empty = new_table(2)
    assert empty.rewrite_manifests().commit().result == RewriteManifestsResult(0, 0)
    assert empty.current_snapshot is None
    with pytest.raises(InvalidArgument, match="commit"):
        _ = table.rewrite_manifests().result


def test_manifests_get_the_target_size_and_ranges_of_their_own(monkeypatch):
    """Also when the entries do not fit into memory together."""
    monkeypatch.setattr(rewrite_manifests, "_ENTRIES_AT_A_TIME", 60)
    table = new_table(2, partition_by=("part",), **{"commit__manifest-merge__enabled": "false"})
    scattered(table, [(number * 7 % 20,) for number in range(40)], 20)
    before = {(file.file_path, file.data_sequence_number) for file in live_files(table)}
    one = manifests_of(table)[0].manifest_length
    table.update_properties().set("commit.manifest.target-size-bytes", str(one)).commit()
    result = table.rewrite_manifests().commit().result
    assert result.rewritten_manifests_count == 20
    assert 2 <= result.added_manifests_count <= 20
    assert {(file.file_path, file.data_sequence_number) for file in live_files(table)} == before
    found = ranges(table)
    numbers = sorted(found)
    assert all(before[1] <= after[0] for before, after in pairwise(numbers))
    assert numbers[0][0] == 0
    assert numbers[-1][1] == 19
    assert table.rewrite_manifests().commit().result == RewriteManifestsResult(0, 0)
    sizes = [manifest.manifest_length for manifest in manifests_of(table)]
    assert max(sizes) <= 2 * one
    table.update_properties().set("commit.manifest.target-size-bytes", str(100 * one)).commit()
    assert table.rewrite_manifests().commit().result.added_manifests_count == 1
    table.update_properties().set("commit.manifest.target-size-bytes", str(one)).commit()
    assert table.rewrite_manifests().commit().result.rewritten_manifests_count == 1  # it is too large now
    assert {(file.file_path, file.data_sequence_number) for file in live_files(table)} == before


def test_entries_are_sorted_by_the_fields_that_are_named():
    table = new_table(
        2,
        "id BIGINT NOT NULL, name STRING, part INT",
        partition_by=("part", "bucket(16, id)"),
        **{"commit__manifest-merge__enabled": "false"},
    )
    scattered(table, [(part, bucket) for part in range(6) for bucket in range(6)], 10)
    size = manifests_of(table)[0].manifest_length
    table.update_properties().set("commit.manifest.target-size-bytes", str(size)).commit()
    table.rewrite_manifests().commit()
    assert len(manifests_of(table)) > 3
    assert all(high - low <= 2 for low, high in ranges(table, 0))
    assert table.rewrite_manifests().commit().result == RewriteManifestsResult(0, 0)
    result = table.rewrite_manifests().sort_by(["id_bucket"]).commit().result
    assert result.rewritten_manifests_count > 1
    assert all(high - low <= 2 for low, high in ranges(table, 1))
    assert table.rewrite_manifests().sort_by("id_bucket").commit().result == RewriteManifestsResult(0, 0)
    with pytest.raises(InvalidArgument, match="no field 'id'"):
        table.rewrite_manifests().sort_by(["id"])
    with pytest.raises(NotFound):
        table.rewrite_manifests().spec(9)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("INT", [3, None, 1, 2]),
        ("BOOLEAN", [True, False, None]),
        ("DOUBLE", [float("nan"), 1.5, None, -2.0]),
        ("STRING", ["b", "", None, "a"]),
        ("DECIMAL(9,2)", [150, -100, None]),
        ("DATE", [10, 5, None]),
        ("TIMESTAMP", [10, 5, None]),
        ("UUID", [b"b" * 16, b"a" * 16, None]),
        ("BINARY", [b"b", b"", None]),
    ],
)
def test_partitions_of_every_type_can_be_tidied(type_, values):
    from decimal import Decimal

    if type_.startswith("DECIMAL"):
        values = [None if value is None else Decimal(value).scaleb(-2) for value in values]
    table = new_table(2, f"id BIGINT, part {type_}", ("part",), **{"commit__manifest-merge__enabled": "false"})
    scattered(table, [(value,) for value in values] * 10, 8)
    size = manifests_of(table)[0].manifest_length
    table.update_properties().set("commit.manifest.target-size-bytes", str(size)).commit()
    before = len(live_files(table))
    assert table.rewrite_manifests().commit().result.rewritten_manifests_count == 8
    assert len(live_files(table)) == before
    for _ in range(3):
        if not table.rewrite_manifests().commit().result.rewritten_manifests_count:
            break
    else:
        pytest.fail("they are never tidy")


def test_what_another_writer_has_done_is_not_done_again():
    table = new_table(2, **{"commit__manifest-merge__enabled": "false"})
    for number in range(3):
        table.append(rows(number))
    other = IcebergTable(table.identifier, table.store, table._committer, table._state)
    change = table.transaction()
    action = change.rewrite_manifests().commit()
    assert action.result.rewritten_manifests_count == 3
    other.rewrite_manifests().commit()
    before = {file.location for file in table.store.list(table.location)}
    change.commit()
    assert action.result == RewriteManifestsResult(0, 0)
    assert table.metadata == other.metadata
    assert {file.location for file in table.store.list(table.location)} < before  # what it had written is gone
    assert ids_of(table) == [0, 1, 2]
