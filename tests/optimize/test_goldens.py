"""Plans for the states before Amoro optimized its golden tables are those that it made."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from frazil.errors import Unsupported
from frazil.mixed.plan import StoreState
from frazil.optimize.plan import OptimizingPlan
from frazil.optimize.settings import Settings
from frazil.optimize.tables import plan_mixed, plan_stores
from tests.mixed.goldens import cases, expected, golden

OPTIMIZED = re.compile(
    r"optimize (\w+): (\d+) tasks, from \{(.*)\} to \{(.*)\}, "
    r"\+(\d+) data -(\d+) data, \+(\d+) pos-delete -(\d+)"
)
SEQUENCE = re.compile(r"change append, sequence (\d+)")
AT_ONCE = {"minor_interval_ms": 0}
SEGMENTS = {"k_optimize", "k_pos_deletes"}
"""Their files count as large: Amoro was told a small target size."""
DISTANT = 10**14


def runs() -> list[Any]:
    """Every optimizing: the case, the change commit it followed, how many runs came before, and what Amoro did."""
    found = []
    for case in cases():
        if "/" in case or case in ("k_year", "k_null_partition", "k_expired", "k_out_of_order_opt"):
            continue  # planned from states that are gone, or on maps that name no partition
        before = 0
        sequence = 0
        for line in expected(case)["history"]:
            if matched := SEQUENCE.match(line):
                sequence = int(matched[1])
            if (matched := OPTIMIZED.match(line)) and expected(case)["keyed"]:
                found.append(pytest.param(case, sequence, before, matched.groups(), id=f"{case}-{matched[1]}-{before}"))
                before += 1
    return found


def state(case: str, sequence: int, runs_before: int) -> tuple[StoreState, StoreState]:
    table = golden(case)
    base, change = table.base_store, table.change_store
    assert change is not None
    flagged = [one for one in base.snapshots if "optimized-sequence.exist" in one.summary]
    runs_of = {one.snapshot_id: run_of(base, one) for one in flagged}
    at = None
    if runs_before:
        run = sorted(set(runs_of.values()))[runs_before - 1]
        at = max((one for one in flagged if runs_of[one.snapshot_id] == run), key=lambda one: one.sequence_number)
        following = [one for one in base.snapshots if one.parent_snapshot_id == at.snapshot_id]
        if following and following[0] not in flagged:
            at = following[0]  # old position deletes are removed by a commit of their own
    else:  # what was written to the base store before any run
        written = [one for one in base.snapshots if "snapshot.producer" not in one.summary]
        at = max(written, key=lambda one: one.sequence_number, default=None)
    changes = next((one for one in change.snapshots if one.sequence_number == sequence), None)
    return StoreState(base.metadata, base.store, at), StoreState(change.metadata, change.store, changes)


def run_of(base: Any, snapshot: Any) -> int:
    """The first snapshot of a run, by the file that all its snapshots share."""
    path = next(file.statistics_path for file in base.metadata.statistics if file.snapshot_id == snapshot.snapshot_id)
    own = path.rpartition("/")[2].partition("-")[0]
    return base.snapshot(int(own)).sequence_number


def settings_for(case: str, kind: str) -> Settings:
    known = Settings.of(golden(case).base_store.properties)
    # of the one the position deletes were to stay
    small = {"target_size": 1000} if case in SEGMENTS else {}
    small |= {"duplicate_ratio": 1.0} if case == "k_pos_deletes" else {}
    full = {"full_interval_ms": 0} if kind == "FULL" else {}
    return replace(known, **AT_ONCE, **small, **full)


def by_partition(text: str) -> dict[str, int]:
    pairs = [part.rpartition("=") for part in text.split(", ")] if text else []
    return {path: int(number) for path, _, number in pairs}


def removed(plan: OptimizingPlan) -> tuple[int, int]:
    data = {file.path for task in plan.tasks for file in task.rewrite if not file.is_change}
    return len(data), len({delete.path for task in plan.tasks for delete in task.removable})


@pytest.mark.parametrize(("case", "sequence", "before", "told"), runs())
def test_a_plan_is_that_of_amoro(case: str, sequence: int, before: int, told: tuple[str, ...]) -> None:
    kind, tasks, start, end, _, removed_data, _, removed_deletes = told
    planned = plan_stores(*state(case, sequence, before), settings_for(case, kind), now_ms=DISTANT)
    plan = planned.plan
    assert plan.kind is not None
    assert plan.kind.name == kind
    assert len(plan.tasks) == int(tasks)
    assert plan.from_sequence == by_partition(start)
    assert plan.to_sequence == by_partition(end)
    assert removed(plan) == (int(removed_data), int(removed_deletes))


def test_an_unkeyed_table_is_planned_as_amoro_does() -> None:
    plan = plan_mixed(golden("u_append/s1"), replace(Settings(), **AT_ONCE), now_ms=DISTANT).plan
    assert plan.kind is not None
    assert (plan.kind.name, len(plan.tasks)) == ("MINOR", 3)
    assert removed(plan) == (6, 2)
    assert plan.to_sequence == {}


@pytest.mark.parametrize("case", ["k_optimize", "k_schema", "k_pos_deletes", "u_append"])
def test_a_table_at_rest_plans_nothing(case: str) -> None:
    """However long nobody looked at it; of those that Amoro left optimized."""
    told = replace(settings_for(case, "MINOR"), minor_interval_ms=Settings().minor_interval_ms)
    ways = [told, replace(told, **AT_ONCE), replace(told, base_refresh_ms=0)]
    if case != "k_pos_deletes":  # a full one would get rid of its deletes
        ways.append(replace(told, full_interval_ms=0))
    for settings in ways:
        plan = plan_mixed(golden(case), settings, now_ms=DISTANT).plan
        assert not plan, plan
        assert plan.tasks == ()


KEYED = [case for case in cases() if expected(case)["keyed"]]


@pytest.mark.parametrize("case", KEYED)
def test_nobody_waits_for_a_transaction_that_amoro_ended(case: str) -> None:
    """Its writers do not say so in a summary; files in either store, now or before, do by their names."""
    table = golden(case)
    if not table.change_store.snapshots:  # type: ignore[union-attr]
        return
    soon = max(one.timestamp_ms for one in table.snapshots) + 1000
    try:
        reasons = plan_mixed(table, replace(Settings(), **AT_ONCE), now_ms=soon).plan.reasons
    except Unsupported:  # maps that name no partition
        assert case.partition("/")[0] in ("k_year", "k_null_partition")
        return
    waits = [reason for reason in reasons if "transaction" in reason]
    assert bool(waits) == (case == "k_out_of_order/s1"), waits  # there one has begun and is not committed
