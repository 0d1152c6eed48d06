"""Optimizing of one table: evaluate, plan, execute and commit until it is at rest, then upkeep.

It may be killed at any moment, run twice, and run beside others: who comes second plans again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from frazil import ambient
from frazil.errors import CommitConflict, CommitFailed, FileMissing, InvalidArgument
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.properties import PropertyReader
from frazil.iceberg.table import IcebergTable
from frazil.mixed.properties import refuse_part
from frazil.mixed.table import MixedTable
from frazil.model.expressions import Expression
from frazil.optimize.arrangement import Arrangement
from frazil.optimize.evaluate import Health, Kind
from frazil.optimize.keyed import run_keyed
from frazil.optimize.outcome import Outcome
from frazil.optimize.plan import OptimizingPlan
from frazil.optimize.result import OptimizeResult
from frazil.optimize.settings import FILTER, SORT_ORDER, Settings
from frazil.optimize.tables import PlannedTable, plan_iceberg, plan_mixed
from frazil.optimize.tasks import Executor, InProcess
from frazil.optimize.unkeyed import optimize_unkeyed
from frazil.optimize.upkeep import keep_up

KINDS = ("minor", "major", "full")
MOST_RUNS = 20
MOST_CONFLICTS = 5
MOST_FAILURES = 2
"""Runs with tasks that fail: what failed by chance is done by the next one."""
_NEVER_ID = -1


@dataclass(frozen=True)
class Request:
    """What somebody asks for; by default, what is due by the table's properties."""

    kind: str | None = None
    """Do at least this much at once, however short ago the last one was."""
    where: str | Expression | None = None
    sort_by: str | None = None
    dry_run: bool = False
    upkeep: bool = True
    executor: Executor = field(default_factory=InProcess)
    now_ms: int | None = None

    def __post_init__(self) -> None:
        if self.sort_by is not None and not isinstance(self.sort_by, str):
            raise InvalidArgument(f"sort_by is {self.sort_by!r}, no text", hint='write "ts DESC, id" or "zorder(a, b)"')
        if self.kind is not None and self.kind not in KINDS:
            raise InvalidArgument(f"kind {self.kind!r} is unknown", hint=f"use one of {', '.join(KINDS)}")

    def asked(self, known: Settings) -> Settings:
        """The settings of a table, changed as the request wants them."""
        kind = "full" if self.sort_by is not None else self.kind
        if kind is None:
            return known
        at_once = replace(known, enabled=True, minor_interval_ms=0)
        if kind == "full":
            return replace(at_once, full_interval_ms=0, full_is_asked=True)
        return replace(at_once, merges_early=kind == "major")


class Planned(Protocol):
    """A plan of any format; it is true if there is something to do."""

    @property
    def kind(self) -> Kind | None: ...

    @property
    def health(self) -> Health: ...

    @property
    def reasons(self) -> tuple[str, ...]: ...

    @property
    def tasks(self) -> Sequence[Any]: ...

    @property
    def input_files(self) -> int: ...

    @property
    def input_bytes(self) -> int: ...

    def __bool__(self) -> bool: ...


class Work(Protocol):
    """What a format gives to the loop."""

    def plan(self) -> Planned:
        """What the table needs, as it is now."""

    def run(self) -> Outcome:
        """Carry out what was planned last."""


def optimize_table(table: IcebergTable | MixedTable, request: Request) -> OptimizeResult:
    """Do what a table needs, or with `dry_run` say what that is."""
    if isinstance(table, IcebergTable):
        refuse_part(table.properties, table.location)
    work = _Work(table, request)
    result = run_to_rest(table.identifier, work, request, most_runs=work.most_runs)
    if not request.upkeep:
        return result
    return replace(result, upkeep=tuple(keep_up(table, dry_run=request.dry_run, now_ms=request.now_ms)))


def run_to_rest(name: str, work: Work, request: Request, *, most_runs: int = MOST_RUNS) -> OptimizeResult:
    """Plan and run until nothing is left to do. Who is in the way of others looks again, a few times."""
    first = plan = work.plan()
    result = OptimizeResult(name, first.health, reasons=first.reasons)
    if request.dry_run:
        return replace(
            result,
            dry_run=True,
            planned=plan.kind,
            planned_tasks=len(plan.tasks),
            planned_files=plan.input_files,
            planned_bytes=plan.input_bytes,
        )
    runs: list[Outcome] = []
    conflicts = failures = vain = 0
    problems: tuple[str, ...] = ()
    while plan and len(runs) < most_runs:
        last = plan
        try:
            runs.append(work.run())
            conflicts, problems = 0, runs[-1].problems
            failures += bool(problems)
            vain = 0 if runs[-1].has_gained else vain + 1
            if failures >= MOST_FAILURES:
                break
        except (CommitConflict, CommitFailed, FileMissing) as error:  # files are missing if others replaced them
            conflicts += 1
            if conflicts >= MOST_CONFLICTS and isinstance(error, FileMissing):
                raise
            if conflicts >= MOST_CONFLICTS:
                problems = (f"given up after {conflicts} attempts: {error.message}",)
                break
            ambient.sleep(0.05 * conflicts * (0.5 + ambient.jitter()))
        except Exception:
            if not failures:
                raise
            break  # what failed before failed again, and nothing else was left to do
        plan = work.plan()
        # rows that come to another partitioning may be in more files at first; a second time it would go on like this
        if vain > 1 and plan.input_files >= last.input_files:
            break
    return replace(result, runs=tuple(runs), problems=problems)


class _Work:
    """Iceberg and mixed tables."""

    def __init__(self, table: IcebergTable | MixedTable, request: Request) -> None:
        self._table = table
        self._request = request
        self._planned: PlannedTable | None = None
        self._settings = Settings()
        self._arrangement = Arrangement()
        # no file says that it is along a curve: it is done once
        self.most_runs = 1 if request.sort_by is not None and self._arrange().curve else MOST_RUNS

    @property
    def _metadata(self) -> TableMetadata:
        return self._base.metadata

    @property
    def _base(self) -> IcebergTable:
        return self._table.base_store if isinstance(self._table, MixedTable) else self._table

    def _arrange(self) -> Arrangement:
        asked = self._request.sort_by
        told = PropertyReader(self._metadata.properties).get(SORT_ORDER) if asked is None else asked
        return Arrangement.of_table(told, self._metadata)

    def plan(self) -> OptimizingPlan:
        self._table.refresh()
        properties = PropertyReader(self._metadata.properties)
        self._arrangement = self._arrange()
        known = self._request.asked(Settings.of(properties.properties))
        known = replace(known, is_arranged=bool(self._arrangement))
        if self._arrangement.curve:
            known = replace(known, order_id=None if self._request.sort_by is None else _NEVER_ID)
        elif self._request.sort_by is not None or properties.get(SORT_ORDER) is not None:
            known = replace(known, order_id=self._arrangement.order.order_id)
        self._settings = known
        where = properties.get(FILTER) if self._request.where is None else self._request.where
        self._planned = self._plan(where)
        return self._planned.plan

    def _plan(self, where: str | Expression | None) -> PlannedTable:
        now_ms = self._request.now_ms
        if isinstance(self._table, MixedTable):
            return plan_mixed(self._table, self._settings, where, now_ms=now_ms)
        return PlannedTable(plan_iceberg(self._table, self._settings, where, now_ms=now_ms))

    def run(self) -> Outcome:
        planned, executor, target = self._planned, self._request.executor, self._settings.target_size
        assert planned is not None, "planned before it is run"
        if isinstance(self._table, MixedTable) and self._table.is_keyed:
            return run_keyed(self._table, planned, executor, target_bytes=target, arrangement=self._arrangement)
        return optimize_unkeyed(self._base, planned.plan, executor, target_bytes=target, arrangement=self._arrangement)
