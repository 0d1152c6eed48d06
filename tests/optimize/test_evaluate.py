"""Evaluation and plans over lists of files: sizes, deletes, intervals, and that there is always an end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidArgument
from frazil.iceberg.data_file import Content, DataFile
from frazil.optimize.evaluate import Clock, Kind, PartitionEvaluation
from frazil.optimize.inputs import DataInput, DeleteInput, DeleteKind, PartitionInput
from frazil.optimize.plan import UNLIMITED, last_sequence_in_order, plan_optimizing
from frazil.optimize.settings import Settings
from tests.mixed.tables import row
from tests.optimize.tables import iceberg_table

MB = 1 << 20
LATER = Clock(10**14)
SETTINGS = Settings()


def data(number: int, size: int, deletes: tuple[DeleteInput, ...] = (), rows: int = 1000) -> DataInput:
    return DataInput(DataFile(f"/t/{number}.parquet", "parquet", rows, size), deletes)


def position(number: int, target: int | None = None, rows: int = 1) -> DeleteInput:
    named = None if target is None else f"/t/{target}.parquet"
    content = Content.POSITION_DELETES
    file = DataFile(f"/t/d{number}.parquet", "parquet", rows, 1000, content=content, referenced_data_file=named)
    return DeleteInput(file, DeleteKind.POSITION)


def equality(number: int, rows: int = 10) -> DeleteInput:
    file = DataFile(f"/t/e{number}.parquet", "parquet", rows, 1000, content=Content.EQUALITY_DELETES)
    return DeleteInput(file, DeleteKind.EQUALITY)


def kind_of(*files: DataInput, settings: Settings = SETTINGS, clock: Clock = LATER) -> Kind | None:
    return PartitionEvaluation(PartitionInput("", 0, (), list(files)), settings, clock, is_keyed=False).kind


def test_sizes_are_classed_as_amoro_does() -> None:
    files = [data(1, 16 * MB), data(2, 16 * MB + 1), data(3, 96 * MB), data(4, 96 * MB + 1)]
    one = PartitionEvaluation(PartitionInput("", 0, (), files), SETTINGS, LATER, is_keyed=False)
    assert [one.is_fragment(file) for file in files] == [True, False, False, False]
    assert [one.is_undersized(file) for file in files] == [False, True, True, False]


def rewritten_beside(bases: list[int], change: int) -> list[int]:
    """Which base files of a node, by size, a keyed table's minor optimizing writes anew, with so many bytes changed."""
    files = [data(number, size) for number, size in enumerate(bases)]
    changes = [replace(data(len(bases), change), is_change=True)] if change else []
    partition = PartitionInput("", 0, (), [*files, *changes], {1} if change else set())
    one = PartitionEvaluation(partition, SETTINGS, LATER, is_keyed=True)
    return [file.bytes for file in files if file in one.rewrite]


@pytest.mark.parametrize(
    ("bases", "change", "rewritten"),
    [
        ([1], 1, [1]),
        ([3], 1, []),
        ([1, 3], 1, [1, 3]),
        ([1, 8], 1, [1]),
        ([8, 9], 1, [8, 9]),
        ([1, 8, 9], 0, [8, 9]),
        ([4], 0, []),
        ([1, 2, 4, 8], 0, []),
        ([2, 2, 2, 2], 0, [2, 2, 2, 2]),
    ],
)
def test_small_base_files_rest_while_they_are_larger_than_what_they_would_be_merged_with(
    bases: list[int], change: int, rewritten: list[int]
) -> None:
    assert rewritten_beside([size * MB for size in bases], change * MB) == [size * MB for size in rewritten]


def test_a_stream_of_changes_writes_each_row_a_few_times_only() -> None:
    bases: list[int] = []
    written = 0
    for number in range(100):
        change = 100_000 + number  # so that no two sizes are the same
        merged = rewritten_beside(bases, change)
        bases = [*(size for size in bases if size not in merged), sum(merged) + change]
        written += bases[-1]
        assert len(bases) <= 8
    assert written < 5 * 100 * 100_000


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ([], None),
        ([data(1, MB)], None),
        ([data(1, MB), data(2, MB)], Kind.MINOR),
        ([data(1, 100 * MB), data(2, 127 * MB)], None),
        ([data(1, 60 * MB), data(2, 60 * MB)], None),
        ([data(1, 60 * MB), data(2, 68 * MB)], Kind.MAJOR),
        ([data(1, 90 * MB), data(2, 90 * MB)], None),
        ([data(1, 100 * MB, (position(1, 1, rows=100),))], None),
        ([data(1, 100 * MB, (position(1, 1, rows=101),))], Kind.MAJOR),
        ([data(1, 100 * MB, (position(1, 1), position(2, 1)))], Kind.MINOR),
        ([data(1, 100 * MB, (equality(1),))], None),
        ([data(1, 100 * MB, (equality(1), equality(2)))], Kind.MINOR),
    ],
)
def test_a_partition_needs_what_its_files_ask_for(files: list[DataInput], kind: Kind | None) -> None:
    assert kind_of(*files) is kind


def test_few_small_files_wait_for_the_interval_and_many_do_not() -> None:
    soon = Clock(10**12, last_minor_ms=10**12 - 1000)
    assert kind_of(data(1, MB), data(2, MB), clock=soon) is None
    assert kind_of(*(data(number, MB) for number in range(12)), clock=soon) is Kind.MINOR
    assert kind_of(*(data(number, MB) for number in range(12)), settings=replace(SETTINGS, enabled=False)) is None


def test_the_reason_says_whether_a_full_one_was_asked_for() -> None:
    table = iceberg_table(properties={"self-optimizing.full.trigger.interval": "0"})
    for number in range(2):
        table.append([row(number)])
    assert table.optimize(dry_run=True).reasons == ("the table: the time for a full one has come",)
    assert table.optimize("full", dry_run=True).reasons == ("the table: a full one was asked for",)


def test_a_full_one_comes_at_its_interval_if_there_is_anything_to_gain() -> None:
    full = replace(SETTINGS, full_interval_ms=1000)
    assert kind_of(data(1, 100 * MB, (position(1, 1),)), settings=full) is Kind.FULL
    assert kind_of(data(1, 100 * MB), data(2, 120 * MB), settings=full) is None
    just = Clock(10**12, last_full_ms=10**12 - 500)
    assert kind_of(data(1, 100 * MB, (position(1, 1),)), settings=full, clock=just) is None


def test_files_that_share_a_delete_file_are_converted_together() -> None:
    """Else the shared file stays, and with it the reason for another run: the loop of Amoro's issue 3294."""
    shared = position(1)
    files = [data(1, 100 * MB, (shared, position(2, 1))), data(2, 100 * MB, (shared,))]
    plan = plan_optimizing([PartitionInput("", 0, (), files)], SETTINGS, LATER)
    assert {file.path for task in plan.tasks for file in task.convert} == {"/t/1.parquet", "/t/2.parquet"}
    assert {delete.path for task in plan.tasks for delete in task.removable} == {"/t/d1.parquet", "/t/d2.parquet"}


sizes = st.integers(1, 200 * MB)
counts = st.lists(st.tuples(sizes, st.integers(0, 3), st.integers(0, 2)), max_size=25)


def executed(files: list[DataInput], plan: object) -> list[DataInput]:
    """The files after a plan was carried out: rewritten ones in files of the target size, converted with one delete."""
    from frazil.optimize.plan import OptimizingPlan

    assert isinstance(plan, OptimizingPlan)
    gone = {file.path for task in plan.tasks for file in task.rewrite}
    converted = {file.path for task in plan.tasks for file in task.convert}
    result = []
    for file in files:
        if file.path in converted:
            number = int(file.path.removeprefix("/t/").removesuffix(".parquet"))
            result.append(replace(file, deletes=(position(10_000 + number, number),)))
        elif file.path not in gone:
            result.append(file)
    number = max((int(file.path[3:-8]) for file in files), default=0)
    for task in plan.tasks:
        left = sum(file.bytes for file in task.rewrite)
        while left > 0:
            number += 1
            result.append(data(number, min(left, SETTINGS.target_size)))
            left -= SETTINGS.target_size
    return result


@given(counts)
def test_every_partition_comes_to_rest(files: list[tuple[int, int, int]]) -> None:
    made = []
    for number, (size, positions, equalities) in enumerate(files, start=1):
        deletes = [position(number * 10 + one, number, rows=50) for one in range(positions)]
        deletes += [equality(number * 10 + one) for one in range(equalities)]
        made.append(data(number, size, tuple(deletes)))
    clock = LATER
    for _ in range(20):
        plan = plan_optimizing([PartitionInput("", 0, (), made)], SETTINGS, clock)
        if not plan:
            assert plan.tasks == ()
            return
        made = executed(made, plan)
    raise AssertionError(f"no end: {plan}")


def test_changes_are_taken_as_far_as_transactions_are_in_order() -> None:
    assert last_sequence_in_order([], 10) == 0
    assert last_sequence_in_order([(2, 1), (4, 3)], 10) == UNLIMITED
    assert last_sequence_in_order([(2, 1), (2, 1), (4, 3), (4, 3), (4, 3)], 4) == 2
    assert last_sequence_in_order([(2, 1), (2, 1), (4, 3)], 1) == 2  # at least the first commit: else it never ends
    assert last_sequence_in_order([(2, 1), (5, 4), (6, 3)], 2) == 2  # 4 may not be taken before 3
    assert last_sequence_in_order([(2, 1), (5, 4), (6, 3)], 3) == UNLIMITED
    assert last_sequence_in_order([(2, 1), (5, 4)], 10, [3]) == 2
    assert last_sequence_in_order([(2, 1), (5, 4)], 10, [1]) == 0
    assert last_sequence_in_order([(2, 1), (5, 4)], 10, [7]) == UNLIMITED


def test_settings_have_amoros_names_and_defaults() -> None:
    assert Settings.of({}) == Settings()
    told = Settings.of({"self-optimizing.target-size": "1024", "self-optimizing.major.trigger.duplicate-ratio": "0.5"})
    assert (told.target_size, told.fragment_size, told.min_target_size, told.duplicate_ratio) == (1024, 128, 768, 0.5)
    for name in ("self-optimizing.target-size", "self-optimizing.major.trigger.duplicate-ratio"):
        with pytest.raises(InvalidArgument, match=name):
            Settings.of({name: "many"})
