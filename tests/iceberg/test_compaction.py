"""Compaction planning: Iceberg's rules on which files are rewritten together."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import InvalidArgument, NotFound
from frazil.iceberg.compaction import CompactionPlan, plan_compaction
from frazil.iceberg.compaction_options import CompactionOptions
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_index import DeleteIndex
from frazil.iceberg.entries import from_files
from frazil.iceberg.new_table import new_table_metadata
from frazil.iceberg.planning import PlannedFiles, ScanPlan
from frazil.model.expressions import AlwaysTrue
from frazil.model.partition import PartitionField, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import UNSORTED
from frazil.model.transforms import parse_transform
from frazil.model.types import IntegerType, LongType, NestedField
from tests.iceberg.small_tables import live_files, new_table, rows, vector

MB = 1024 * 1024
SCHEMA = Schema((NestedField(1, "id", LongType()), NestedField(2, "part", IntegerType())))
SPEC = PartitionSpec(0, (PartitionField((2,), 1000, "part", parse_transform("identity")),))
OTHER = PartitionSpec(1, (PartitionField((1,), 1001, "id_bucket", parse_transform("bucket[4]")),))
METADATA = replace(
    new_table_metadata(SCHEMA, SPEC, UNSORTED, location="memory://t", format_version=2), partition_specs=(SPEC, OTHER)
)


def options(**given: Any) -> CompactionOptions:
    """Options with a target of 100 MB, unless told; written with `_` for `-`."""
    told = {"target_file_size_bytes": 100 * MB, **given}
    return CompactionOptions.parse({name.replace("_", "-"): str(value) for name, value in told.items()}, METADATA)


def file(name: object, megabytes: float, part: int | None = 0, records: int = 100, spec: int = 0) -> DataFile:
    return DataFile(f"f{name}", "parquet", records, int(megabytes * MB), spec, (part,), data_sequence_number=1)


def positions(target: DataFile, records: int) -> DataFile:
    """A position delete file for one data file."""
    made = replace(target, content=Content.POSITION_DELETES, record_count=records, data_sequence_number=2)
    return replace(made, file_path=f"d-{target.file_path}-{records}", referenced_data_file=target.file_path)


def in_partition(part: int, records: int, number: int = 0) -> DataFile:
    """A position delete file for all files of a partition."""
    made = DataFile(f"p{part}-{number}", "parquet", records, 10, 0, (part,), Content.POSITION_DELETES)
    return replace(made, data_sequence_number=2)


def scanned(files: list[DataFile], deletes: list[DataFile] = [], parts: int = 1) -> ScanPlan:  # noqa: B006
    """The plan of a scan that found these files, in several groups."""

    def entries(group: list[DataFile]) -> Any:
        spec = METADATA.spec(group[0].spec_id)
        return from_files(spec, spec.partition_type(SCHEMA), group)

    index = DeleteIndex([entries(deletes)] if deletes else [])
    planned = []
    for start in range(parts):
        for _, same in groupby(files[start::parts], key=lambda one: one.spec_id):
            found = entries(list(same))
            planned.append(PlannedFiles(found, index.apply_to(found)))
    return ScanPlan(None, SCHEMA, AlwaysTrue(), tuple(planned), index)


def names(plan: CompactionPlan) -> list[list[str]]:
    return [[task.file.file_path for task in group.tasks] for group in plan]


def planned(files: list[DataFile], deletes: list[DataFile] = [], **given: Any) -> list[list[str]]:  # noqa: B006
    return names(plan_compaction(scanned(files, deletes), options(**given)))


# Which files, and which groups.


def test_small_files_are_rewritten_when_there_are_enough():
    assert planned([file(number, 1) for number in range(4)]) == []
    assert planned([file(number, 1) for number in range(5)]) == [[f"f{number}" for number in range(5)]]
    assert planned([file(number, 1) for number in range(3)], min_input_files=3) == [["f0", "f1", "f2"]]
    assert planned([file(0, 1)], min_input_files=1) == []


def test_files_of_a_good_size_are_left():
    sizes = (75, 100, 179)
    assert planned([file(size, size) for size in sizes] + [file(number, 1) for number in range(5)]) == [
        [f"f{number}" for number in range(5)]
    ]


def test_two_files_that_make_more_than_one_are_enough():
    assert planned([file(0, 60), file(1, 60)]) == [["f0", "f1"]]
    assert planned([file(0, 40), file(1, 60)]) == []


def test_one_file_that_is_too_large_is_split():
    (group,) = plan_compaction(scanned([file(0, 1000)]), options())
    assert (len(group), group.expected_output_files, group.input_bytes) == (1, 10, 1000 * MB)


def test_partitions_are_packed_by_themselves():
    files = [file(f"{part}-{number}", 1, part) for number in range(5) for part in (1, None, 0)]
    plan = plan_compaction(scanned(files, parts=3), options())
    assert sorted(map(sorted, names(plan))) == sorted(sorted(f"f{p}-{n}" for n in range(5)) for p in (0, 1, None))
    assert {group.partition for group in plan} == {(0,), (1,), (None,)}
    assert {group.spec_id for group in plan} == {0}


def test_groups_are_limited_in_bytes_and_in_files():
    files = [file(number, 30) for number in range(10)]
    assert [len(group) for group in planned(files, max_file_group_size_bytes=160 * MB)] == [5, 5]
    assert [len(group) for group in planned(files, max_file_group_input_files=6)] == [6, 4]
    # a file beyond the limit is alone
    large = [file("a", 1), file("b", 500), *(file(number, 1) for number in range(5))]
    assert planned(large, max_file_group_size_bytes=200 * MB) == [["fb"], [f"f{number}" for number in range(5)]]


def test_everything_is_rewritten_if_wanted():
    assert planned([file(0, 100), file(1, 100, part=1)], rewrite_all="true") == [["f0"], ["f1"]]


def test_deletes_are_reason_enough():
    files = [file(0, 100), file(1, 100), file(2, 100, part=1)]
    assert planned(files, [positions(files[0], 29)]) == []
    assert planned(files, [positions(files[0], 30)]) == [["f0"]]
    assert planned(files, [positions(files[0], 20), positions(files[0], 11)]) == [["f0"]]
    assert planned(files, [positions(files[0], 30)], delete_ratio_threshold=0.31) == []
    # how many rows of which file a partition's deletes are for is not known
    assert planned(files, [in_partition(0, 90)]) == []
    two = [in_partition(0, 1, 1), in_partition(0, 1, 2)]
    assert planned(files, two, delete_file_threshold=2) == [["f0", "f1"]]
    assert planned(files, two, delete_file_threshold=3) == []
    assert planned(files, delete_file_threshold=0) == []
    assert planned([file(0, 100, records=0)]) == []


def test_tasks_have_the_deletes_of_their_files():
    files = [file(number, 1) for number in range(5)]
    deletes = [positions(files[3], 2), in_partition(0, 4)]
    (group,) = plan_compaction(scanned(files, deletes, parts=2), options())
    found = {task.file.file_path: {one.file_path for one in task.deletes} for task in group.tasks}
    assert found == {f"f{number}": {"p0-0", *(["d-f3-2"] if number == 3 else [])} for number in range(5)}
    assert all(isinstance(task.residual, AlwaysTrue) for task in group.tasks)


def test_files_of_other_specs_are_rewritten_together():
    files = [file(number, 1, number % 3, spec=1) for number in range(5)] + [file("own", 1)]
    plan = plan_compaction(scanned(files), options())
    assert names(plan) == [[f"f{number}" for number in range(5)]]
    assert [(group.partition, group.spec_id) for group in plan] == [(None, 0)]
    other = plan_compaction(scanned([file(n, 1, 1, spec=1) for n in range(5)]), options(output_spec_id=1))
    assert [(group.partition, group.spec_id, len(group)) for group in other] == [((1,), 1, 5)]


def test_jobs_are_ordered():
    files = [file(f"a{n}", 5, 0) for n in range(5)] + [file(f"b{n}", 1, 1) for n in range(7)]
    files += [file(f"c{n}", 30, 2) for n in range(4)]
    orders = {
        "none": "abc",
        "bytes-asc": "bac",
        "bytes-desc": "cab",
        "files-asc": "cab",
        "files-desc": "bac",
    }
    for order, expected in orders.items():
        assert "".join(group[0][1] for group in planned(files, rewrite_job_order=order)) == expected, order


def test_the_number_of_files_is_limited():
    files = [file(f"{part}{n}", 1, part) for part in (0, 1) for n in range(5)]
    assert [len(group) for group in planned(files, max_files_to_rewrite=8)] == [5, 3]
    assert [len(group) for group in planned(files, max_files_to_rewrite=5)] == [5]
    # a small file alone would be rewritten for ever
    assert [len(group) for group in planned(files, max_files_to_rewrite=6)] == [5]
    assert planned(files, max_files_to_rewrite=1) == []
    assert planned([file("x", 500), *files], max_files_to_rewrite=1) == [["fx"]]


def test_nothing_is_planned_for_no_files():
    plan = plan_compaction(ScanPlan(None, SCHEMA, AlwaysTrue(), (), DeleteIndex([])), options())
    assert (len(plan), plan.file_count, plan.input_bytes) == (0, 0, 0)
    assert "0 files in 0 groups" in plan._repr_html_()


def test_a_real_table_is_planned():
    table = new_table(3, partition_by=("part",))
    for number in range(6):
        table.append(rows(number, number + 10, part=number % 2))
    table.new_row_delta().add_deletes(vector(table, live_files(table)[0], 0)).commit()
    told = CompactionOptions.parse({"min-input-files": "3"}, table.metadata)
    plan = plan_compaction(table.scan().plan(), told)
    assert plan.snapshot == table.current_snapshot
    assert sorted((group.partition, len(group)) for group in plan) == [((0,), 3), ((1,), 3)]
    assert sum(len(task.deletes) for group in plan for task in group.tasks) == 1
    assert "6 files in 2 groups" in repr(plan)
    filtered = plan_compaction(table.scan("part = 1").plan(), told)
    assert [group.partition for group in filtered] == [(1,)]
    alone = CompactionOptions.parse({}, table.metadata)
    assert [len(group.tasks) for group in plan_compaction(table.scan("part = 0").plan(), alone)] in ([3], [])


# Sizes.


@pytest.mark.parametrize(
    ("megabytes", "files", "split"),
    [
        (1, 1, 100),
        (100, 1, 100.001),
        (105, 1, 105),
        (120, 2, 100),
        (150, 2, 100),
        (176, 2, 100),
        (205, 2, 102.5),
        (1010, 10, 101),
        (1075, 10, 107.5),
        (1080, 11, 100),
        (1180, 12, 100),
    ],
)
def test_how_many_files_are_made_of_what(megabytes: float, files: int, split: float):
    """A rest goes into the others if that makes them no more than a tenth too large, else it is a file of its own."""
    size = int(megabytes * MB)
    made = options()
    assert made.expected_output_files(size) == files
    overhead = 5 * 1024 if split > 100 else 0
    assert made.input_split_size(size) == int(round(split, 1) * MB) + overhead
    assert made.write_max_file_size == 140 * MB


# Options.


def test_defaults_are_icebergs():
    made = CompactionOptions.parse({}, METADATA)
    assert made.target_file_size_bytes == 512 * MB
    assert (made.min_file_size_bytes, made.max_file_size_bytes) == (384 * MB, int(512 * MB * 1.8))
    assert (made.min_input_files, made.rewrite_all, made.max_file_group_size_bytes) == (5, False, 100 * 1024 * MB)
    assert (made.delete_file_threshold, made.delete_ratio_threshold) == (2**31 - 1, 0.3)
    assert (made.partial_progress_enabled, made.partial_progress_max_commits) == (False, 10)
    assert made.partial_progress_max_failed_commits == 10
    assert (made.max_concurrent_file_group_rewrites, made.rewrite_job_order) == (5, "none")
    assert (made.use_starting_sequence_number, made.remove_dangling_deletes) == (True, False)
    assert (made.output_spec_id, made.max_files_to_rewrite) == (0, None)
    small = replace(METADATA, properties={"write.target-file-size-bytes": "1000"})
    assert CompactionOptions.parse({}, small).min_file_size_bytes == 750
    told = {"partial-progress.enabled": "true", "partial-progress.max-commits": "3"}
    assert CompactionOptions.parse(told, METADATA).partial_progress_max_failed_commits == 3


@pytest.mark.parametrize(
    "given",
    [
        {"min-input-file": "3"},
        {"min-input-files": "0"},
        {"min-input-files": "many"},
        {"target-file-size-bytes": "0"},
        {"target-file-size-bytes": "100", "min-file-size-bytes": "100"},
        {"target-file-size-bytes": "100", "max-file-size-bytes": "100"},
        {"min-file-size-bytes": "-1"},
        {"delete-ratio-threshold": "0"},
        {"delete-ratio-threshold": "1.1"},
        {"delete-ratio-threshold": "nan"},
        {"delete-file-threshold": "-1"},
        {"rewrite-job-order": "random"},
        {"rewrite-all": "perhaps"},
        {"max-files-to-rewrite": "0"},
        {"max-concurrent-file-group-rewrites": "0"},
        {"partial-progress.max-commits": "0"},
        {"max-file-group-size-bytes": "0"},
        {"compression-factor": "2"},
    ],
)
def test_bad_options_are_refused(given: dict[str, str]):
    with pytest.raises(InvalidArgument, match="|".join(given)) as raised:
        CompactionOptions.parse(given, METADATA)
    assert raised.value.hint
    assert "property" not in raised.value.message


def test_options_belong_to_strategies():
    with pytest.raises(InvalidArgument) as raised:
        CompactionOptions.parse({"max-output-size": "9"}, METADATA, "sort")
    assert raised.value.hint == "it belongs to another strategy"
    assert CompactionOptions.parse({"max-output-size": "9"}, METADATA, "zorder").max_output_size == 9
    assert CompactionOptions.parse({"compression-factor": "1.5"}, METADATA, "sort").compression_factor == 1.5
    with pytest.raises(NotFound):
        CompactionOptions.parse({"output-spec-id": "7"}, METADATA)


# Properties.

SIZES = st.one_of(st.integers(0, 2000), st.sampled_from([74, 75, 76, 99, 100, 101, 179, 180, 181]))
FILES = st.lists(st.tuples(SIZES, st.integers(0, 3), st.sampled_from([0, 0, 0, 1]), st.integers(0, 60)), max_size=40)
TOLD = st.fixed_dictionaries(
    {},
    optional={
        "min_input_files": st.integers(1, 8),
        "rewrite_all": st.just("true"),
        "max_file_group_size_bytes": st.integers(1, 3000).map(lambda number: number * MB),
        "max_file_group_input_files": st.integers(1, 8),
        "delete_ratio_threshold": st.sampled_from([0.05, 0.3, 0.5, 1]),
        "delete_file_threshold": st.integers(1, 2),
        "rewrite_job_order": st.sampled_from(["none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"]),
    },
)


def by_the_book(files: list[DataFile], deletes: dict[str, int], told: CompactionOptions) -> list[list[str]]:
    """Iceberg's planner file by file, without columns."""

    def many_deletes(one: DataFile) -> bool:
        gone = deletes.get(one.file_path, 0)
        ratio = gone / one.record_count >= told.delete_ratio_threshold
        return gone > 0 and (told.delete_file_threshold <= 1 or ratio)

    def wrong_size(one: DataFile) -> bool:
        return not told.min_file_size_bytes <= one.file_size_in_bytes <= told.max_file_size_bytes

    partitions: dict[Any, list[DataFile]] = {}
    for one in files:
        partitions.setdefault(one.partition if one.spec_id == told.output_spec_id else None, []).append(one)
    groups: list[list[DataFile]] = []
    for members in partitions.values():
        bins: list[list[DataFile]] = []
        for one in members:
            if not (told.rewrite_all or wrong_size(one) or many_deletes(one)):
                continue
            weight = sum(each.file_size_in_bytes for each in bins[-1]) if bins else 0
            room = weight + one.file_size_in_bytes <= told.max_file_group_size_bytes
            if bins and room and len(bins[-1]) < told.max_file_group_input_files:
                bins[-1].append(one)
            else:
                bins.append([one])
        groups += bins
    result = []
    for group in groups:
        size = sum(one.file_size_in_bytes for one in group)
        worth = len(group) > 1 and (len(group) >= told.min_input_files or size > told.target_file_size_bytes)
        if told.rewrite_all or worth or size > told.max_file_size_bytes or any(map(many_deletes, group)):
            result.append([one.file_path for one in group])
    return result


@settings(max_examples=150)
@given(FILES, TOLD)
def test_groups_are_those_of_the_book(drawn: list[tuple[int, int, int, int]], told: dict[str, Any]):
    files = [file(n, size, part, spec=spec) for n, (size, part, spec, _) in enumerate(drawn)]
    files.sort(key=lambda one: one.spec_id)
    gone = {f"f{n}": rows for n, (_, _, spec, rows) in enumerate(drawn) if rows and not spec}
    deletes = [positions(one, gone[one.file_path]) for one in files if one.file_path in gone]
    made = options(**told)
    plan = plan_compaction(scanned(files, deletes), made)
    assert sorted(names(plan)) == sorted(by_the_book(files, gone, made))
    everything = [name for group in names(plan) for name in group]
    assert len(everything) == len(set(everything))
    for group in plan:
        sizes = [task.file.file_size_in_bytes for task in group.tasks]
        assert group.input_bytes == sum(sizes)
        assert group.input_bytes <= made.max_file_group_size_bytes or len(sizes) == 1
        assert len(sizes) <= made.max_file_group_input_files
        assert group.partition == (None if group.tasks[0].file.spec_id else group.tasks[0].file.partition)
        assert made.target_file_size_bytes <= group.input_split_size <= made.write_max_file_size
        assert group.write_max_file_size < made.max_file_size_bytes
    keys = {"bytes": [group.input_bytes for group in plan], "files": [len(group) for group in plan]}
    what, _, direction = made.rewrite_job_order.partition("-")
    if what in keys:
        assert keys[what] == sorted(keys[what], reverse=direction == "desc")


def rewritten(files: list[DataFile], plan: CompactionPlan) -> list[DataFile]:
    """The files after each group became files of the size its tasks were given."""
    gone = {name for group in names(plan) for name in group}
    left = [one for one in files if one.file_path not in gone]
    for number, group in enumerate(plan):
        whole, rest = divmod(group.input_bytes, group.input_split_size)
        sizes = [group.input_split_size] * whole + ([rest] if rest else [])
        made = group.tasks[0].file
        left += [
            replace(made, file_path=f"{made.file_path}-{number}-{index}", file_size_in_bytes=size)
            for index, size in enumerate(sizes)
        ]
    return left


@settings(max_examples=100)
@given(FILES, st.integers(1, 8))
def test_what_a_rewrite_makes_is_not_rewritten_again(drawn: list[tuple[int, int, int, int]], least: int):
    files = [file(number, size, part) for number, (size, part, _, _) in enumerate(drawn)]
    deletes = [positions(one, drawn[number][3]) for number, one in enumerate(files) if drawn[number][3]]
    made = options(min_input_files=least)
    after = rewritten(files, plan_compaction(scanned(files, deletes), made))
    assert sum(one.file_size_in_bytes for one in after) == sum(one.file_size_in_bytes for one in files)
    kept = [one for one in deletes if one.referenced_data_file in {each.file_path for each in after}]
    assert planned_again(after, kept, made) == []


def planned_again(files: list[DataFile], deletes: list[DataFile], told: CompactionOptions) -> list[list[str]]:
    return names(plan_compaction(scanned(files, deletes), told)) if files else []


@settings(max_examples=100)
@given(FILES, st.integers(1, 8), st.integers(1, 1000))
def test_with_small_groups_each_round_leaves_fewer_files_of_a_wrong_size(
    drawn: list[tuple[int, int, int, int]], least: int, group: int
):
    files = [file(number, size, part) for number, (size, part, _, _) in enumerate(drawn)]
    made = options(min_input_files=least, max_file_group_size_bytes=group * MB)

    def wrong() -> tuple[int, int]:
        sizes = [one.file_size_in_bytes for one in files]
        large = sum(size > made.max_file_size_bytes for size in sizes)
        return large, sum(size < made.min_file_size_bytes for size in sizes)

    for _ in range(len(files) + 1):
        before = wrong()
        plan = plan_compaction(scanned(files), made) if files else None
        if not plan:
            return
        files = rewritten(files, plan)
        assert wrong() < before
    pytest.fail("it never ends")
