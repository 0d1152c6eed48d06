"""Optimizing of Lance tables: fragments that are small, or lost many rows, are rewritten, and old versions go.

The properties are those of other tables, as far as they mean something here: `self-optimizing.enabled`,
`self-optimizing.minor.trigger.file-count`, `self-optimizing.major.trigger.duplicate-ratio`, `table-expire.enabled` and
`snapshot.keep.*`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from frazil import ambient
from frazil.errors import FrazilError, Unsupported
from frazil.iceberg.properties import PropertyReader
from frazil.io.store import Store
from frazil.lance.operations.compaction import (
    TARGET_ROWS,
    Arrange,
    CompactionGroup,
    CompactionPlan,
    commit_compaction,
    compact_group,
    lost_more,
)
from frazil.lance.plan import FragmentTask
from frazil.lance.proto.messages import RewriteGroup
from frazil.lance.table import LanceTable
from frazil.lance.write import FileTarget, remove_files, remove_job
from frazil.optimize.arrangement import Arrangement
from frazil.optimize.evaluate import Health, Kind, counted
from frazil.optimize.outcome import Outcome
from frazil.optimize.result import OptimizeResult
from frazil.optimize.run import MOST_RUNS, Request, run_to_rest
from frazil.optimize.settings import SORT_ORDER, Settings
from frazil.optimize.tasks import Job, carry_out, problems
from frazil.optimize.upkeep import EXPIRE_ENABLED, KEEP_COUNT, KEEP_MS, Upkeep

_TWO_WEEKS_MS = 14 * 86_400_000


@dataclass(frozen=True, slots=True)
class LancePlan:
    """What one run does to a table; nothing, if it has no kind."""

    kind: Kind | None
    compaction: CompactionPlan
    health: Health
    reasons: tuple[str, ...]

    @property
    def tasks(self) -> tuple[CompactionGroup, ...]:
        return self.compaction.groups

    @property
    def input_files(self) -> int:
        return sum(len(group.plan.fragments) for group in self.compaction.groups)

    @property
    def input_bytes(self) -> int:
        files = (file for group in self.compaction.groups for one in group.plan.fragments for file in one.files)
        return sum(file.size for file in files)

    def __bool__(self) -> bool:
        return self.kind is not None


def optimize_lance(table: LanceTable, request: Request) -> OptimizeResult:
    """Do what a table needs, or with `dry_run` say what that is."""
    if request.where is not None:
        raise Unsupported("Lance tables are optimized as a whole", hint="leave `where` out")
    work = _LanceWork(table, request)
    # no fragment says that it is in an order: it is done once
    result = run_to_rest(table.identifier, work, request, most_runs=MOST_RUNS if request.sort_by is None else 1)
    return replace(result, upkeep=tuple(_keep_up(table, request))) if request.upkeep else result


class _LanceWork:
    def __init__(self, table: LanceTable, request: Request) -> None:
        self._table = table
        self._request = request
        self._planned: LancePlan | None = None
        self._arrangement = Arrangement()

    def plan(self) -> LancePlan:
        self._table.refresh()
        request, properties = self._request, self._table.properties
        told = PropertyReader(properties).get(SORT_ORDER) if request.sort_by is None else request.sort_by
        self._arrangement = Arrangement() if told is None else Arrangement.parse(told, self._table.schema)
        settings = request.asked(Settings.of(properties))
        asked = request.kind is not None or request.sort_by is not None
        self._planned = plan_lance(self._table, settings, at_once=asked, rearranges=request.sort_by is not None)
        return self._planned

    def run(self) -> Outcome:
        planned = self._planned
        assert planned is not None, "planned before it is run"
        compaction = planned.compaction
        arrange = self._arrangement.indices(self._table.schema)
        job = CompactionJob(self._table.store, compaction.groups[0].target, arrange)
        ended = carry_out(self._request.executor, job, compaction.groups)
        results = [one.written for one in ended if one.written is not None]
        done = commit_compaction(self._table._history(), compaction.version, results)
        version = self._table.refresh().version
        return Outcome(
            planned.kind, done.files_added, done.files_removed, snapshot_id=version, problems=problems(ended)
        )


@dataclass(frozen=True)
class CompactionJob(Job[CompactionGroup, bytes]):
    """The groups of fragments that one run rewrites."""

    store: Store
    target: FileTarget
    arrange: Arrange | None = None

    @property
    def place(self) -> tuple[Store, str]:
        return self.store, self.target.folder

    def run(self, task: CompactionGroup) -> bytes:
        return compact_group(self.store, replace(task, target=self.target), self.arrange)

    def size(self, task: CompactionGroup) -> int:
        return sum(file.size for one in task.plan.fragments for file in one.files)

    def take_back(self, written: Iterable[bytes]) -> None:
        for data in written:
            remove_files(self.store, self.target.folder, RewriteGroup.FromString(data).new_fragments)

    def elsewhere(self) -> CompactionJob:
        return replace(self, target=self.target.of_job())

    def light(self, task: CompactionGroup) -> CompactionGroup:
        return task

    def clear(self, tasks: Iterable[CompactionGroup], kept: Iterable[bytes] = ()) -> None:
        stay = [fragment for data in kept for fragment in RewriteGroup.FromString(data).new_fragments]
        remove_job(self.store, self.target, keep=stay)


def plan_lance(table: LanceTable, settings: Settings, *, at_once: bool = False, rearranges: bool = False) -> LancePlan:
    """What a table needs: fragments wait until there are many small ones, unless it is to be done at once; with
    `rearranges` all are written, for the order of their rows.
    """
    is_full = settings.full_interval_ms >= 0 and at_once
    share = 0.0 if is_full else settings.duplicate_ratio
    plan = table.plan_compaction(deleted_share=None if rearranges else share)
    tasks = [task for group in plan.groups for task in group.plan.fragments]
    heavy = [task for task in tasks if lost_more(task, share)]
    small = [task for task in tasks if task.rows < TARGET_ROWS]
    kind: Kind | None = None
    if tasks and settings.enabled:
        if is_full:
            kind = Kind.FULL
        elif heavy:
            kind = Kind.MAJOR
        elif at_once or len(small) >= settings.minor_files:
            kind = Kind.MINOR
    reasons = [f"{counted(len(small), 'small fragment')} of {len(table.current_snapshot.fragments)}"] if small else []
    reasons += [f"{counted(len(heavy), 'fragment')} lost many rows to deletes"] if heavy else []
    reasons += ["an order was asked for"] if rearranges and tasks else []
    reasons += [] if settings.enabled else ["self-optimizing.enabled is false"]
    return LancePlan(kind, plan, _health(small, heavy, settings), tuple(reasons or ["nothing to gain"]))


def _health(small: list[FragmentTask], heavy: list[FragmentTask], settings: Settings) -> Health:
    """As for other tables: 40 for sizes, 20 for deleted rows; there are no deletes by key."""
    weight = min(len(small), settings.minor_files) / settings.minor_files if len(small) > 1 else 0
    rows = sum(task.rows for task in small) / len(small) if small else TARGET_ROWS
    physical = sum(task.physical_rows for task in heavy)
    gone = (physical - sum(task.rows for task in heavy)) / physical if physical else 0
    sizes = math.ceil(40 - 40 * weight * (1 - min(rows / TARGET_ROWS, 1)))
    return Health(sizes, 40, math.ceil(20 - 20 * min(gone / max(2 * settings.duplicate_ratio, 1e-9), 1)))


def _keep_up(table: LanceTable, request: Request) -> list[Upkeep]:
    read = PropertyReader(table.properties)
    if not read.get(EXPIRE_ENABLED):
        return []
    now = ambient.now_ms() if request.now_ms is None else request.now_ms
    keep = read.get(KEEP_MS)
    try:
        done = table.clean_up(
            older_than=now - (_TWO_WEEKS_MS if keep is None else keep),
            retain_last=read.get(KEEP_COUNT),
            dry_run=request.dry_run,
        )
    except FrazilError as error:
        return [Upkeep("expired version", 0, str(error))]
    found = [Upkeep("expired version", done.versions), Upkeep("file of expired versions", done.files)]
    return [one for one in found if one.count]
