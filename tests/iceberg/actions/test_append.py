from collections.abc import Mapping

import pytest

from frazil.errors import InvalidArgument
from frazil.iceberg.data_file import Content
from tests.iceberg.small_tables import ids_of, live_files, new_table, rows, with_content, write_files


@pytest.mark.parametrize("version", [1, 2, 3])
def test_appended_rows_are_read_back_and_counted_in_the_summary(version):
    table = new_table(version, partition_by=("part",))
    table.append([*rows(1, 2, part=1), *rows(3, part=2)])
    snapshot = table.append(rows(4, part=2))
    assert ids_of(table) == [1, 2, 3, 4]
    assert snapshot.operation == "append"
    told = snapshot.summary
    assert (told["added-data-files"], told["added-records"], told["changed-partition-count"]) == ("1", "1", "1")
    assert (told["total-data-files"], told["total-records"]) == ("3", "4")
    assert int(told["total-files-size"]) == sum(file.file_size_in_bytes for file in live_files(table))


def test_sequence_numbers_rise_by_one_and_files_inherit_them():
    table = new_table(2)
    for number in range(3):
        table.append(rows(number))
    assert [snapshot.sequence_number for snapshot in reversed(table.history)] == [1, 2, 3]
    assert sorted(file.data_sequence_number for file in live_files(table)) == [1, 2, 3]


def test_a_fast_append_leaves_earlier_manifests_alone():
    table = new_table(2)
    for number in range(5):
        table.new_fast_append().append_files(write_files(table, rows(number))).commit()
    assert table.current_snapshot.summary["manifests-kept"] == "4"
    assert ids_of(table) == [0, 1, 2, 3, 4]


def test_manifests_are_merged_once_there_are_enough_of_them():
    table = new_table(3)
    table.update_properties().set("commit.manifest.min-count-to-merge", "3").commit()
    for number in range(7):
        table.append(rows(number, number + 100))
        lineage = table.scan(columns=["id", "_row_id"]).to_arrow().to_pylist()
        assert len({row["_row_id"] for row in lineage}) == len(lineage)
    before = {row["id"]: row["_row_id"] for row in lineage}
    assert any(snapshot.summary["manifests-replaced"] != "0" for snapshot in table.history)
    table.append(rows(999))
    after = table.scan("id < 999", columns=["id", "_row_id"]).to_arrow().to_pylist()
    assert {row["id"]: row["_row_id"] for row in after} == before
    assert sorted(file.data_sequence_number for file in live_files(table)) == list(range(1, 9))


def test_small_partition_counts_are_told_per_partition_when_asked():
    table = new_table(2, partition_by=("part",))
    table.update_properties().set("write.summary.partition-limit", "10").commit()
    told = table.append([*rows(1, part=1), *rows(2, 3, part=2)]).summary
    assert told["partition-summaries-included"] == "true"
    assert "added-records=2" in told["partitions.part=2"]


def partitions_told(summary: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in summary.items() if key.startswith("partitions.")}


def test_more_than_a_hundred_partitions_are_told_if_the_limit_allows():
    table = new_table(2, partition_by=("part",))
    table.update_properties().set("write.summary.partition-limit", "200").commit()
    told = table.append([row for part in range(150) for row in rows(*range(part % 3 + 1), part=part)]).summary
    sizes = {file.partition[0]: file.file_size_in_bytes for file in live_files(table)}
    assert (told["partition-summaries-included"], told["changed-partition-count"]) == ("true", "150")
    assert partitions_told(told) == {
        f"partitions.part={part}": f"added-data-files=1,added-files-size={sizes[part]},added-records={part % 3 + 1}"
        for part in range(150)
    }


def test_more_partitions_than_the_limit_are_not_told():
    table = new_table(2, partition_by=("part",))
    table.update_properties().set("write.summary.partition-limit", "149").commit()
    told = table.append([row for part in range(150) for row in rows(1, part=part)]).summary
    assert (told["changed-partition-count"], told["added-records"]) == ("150", "150")
    assert "partition-summaries-included" not in told
    assert not partitions_told(told)
    # added and removed ones count together
    told = table.overwrite([row for part in range(149, 200) for row in rows(1, part=part)]).summary
    assert (told["changed-partition-count"], told["deleted-records"]) == ("200", "150")
    assert not partitions_told(told)


def test_an_overwrite_of_many_partitions_tells_of_each_its_own():
    table = new_table(2, partition_by=("part",))
    table.update_properties().set("write.summary.partition-limit", "200").commit()
    table.append([*rows(1, part=1000), *rows(2, 3, part=1001)])
    told = partitions_told(table.overwrite([row for part in range(150) for row in rows(1, part=part)]).summary)
    assert len(told) == 152
    removed = {key: text for key, text in told.items() if "deleted" in text or "removed" in text}
    assert sorted(removed) == ["partitions.part=1000", "partitions.part=1001"]
    assert removed["partitions.part=1001"].startswith("deleted-data-files=1,deleted-records=2,removed-files-size=")
    assert all("added" not in text for text in removed.values())
    assert all("added-records=1" in text for key, text in told.items() if key not in removed)


def test_snapshot_properties_are_kept():
    table = new_table(2)
    assert table.append(rows(1), snapshot_properties={"job": "nightly"}).summary["job"] == "nightly"


def test_an_append_tells_whether_it_is_committed():
    table = new_table(2)
    action = table.new_append().append_files(write_files(table, rows(1)))
    assert "not committed" in repr(action)
    assert repr(action.commit()).endswith("(committed)")


def test_a_delete_file_is_not_appended_as_data():
    table = new_table(2)
    file = with_content(write_files(table, rows(1))[0], Content.POSITION_DELETES)
    with pytest.raises(InvalidArgument, match="delete file"):
        table.new_append().append_file(file)


def test_a_partition_tuple_of_the_wrong_length_is_refused_and_nothing_is_committed():
    from dataclasses import replace

    table = new_table(2, partition_by=("part",))
    file = replace(write_files(table, rows(1))[0], partition=())
    with pytest.raises(InvalidArgument, match="partition values"):
        table.new_append().append_file(file).commit()
    assert table.refresh().current_snapshot is None


def test_a_branch_grows_on_its_own_and_a_tag_never_moves():
    table = new_table(2)
    table.append(rows(1))
    table.manage_refs().create_tag("release").create_branch("trial").commit()
    table.append(rows(2), branch="trial")
    assert (ids_of(table), ids_of(table, ref="trial"), ids_of(table, ref="release")) == ([1], [1, 2], [1])
    with pytest.raises(InvalidArgument, match="tag"):
        table.append(rows(3), branch="release")


def test_a_staged_append_is_not_visible_until_it_is_picked():
    table = new_table(2)
    table.append(rows(1))
    action = table.new_append().append_files(write_files(table, rows(2))).stage_only().set("wap.id", "w1").commit()
    assert ids_of(table) == [1]
    assert ids_of(table, version=action.snapshot_id) == [1, 2]
    table.append(rows(3))
    table.cherry_pick(action.snapshot_id).commit()
    assert ids_of(table) == [1, 2, 3]
    assert table.current_snapshot.summary["published-wap-id"] == "w1"
